"""tcgen05: tensor memory, products from it and from shared memory, what orders them. Values against NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from tests.emulator.tensor.tensor_memory import (
    AFTER,
    BARRIER,
    BEFORE,
    COMMIT,
    DONE,
    END,
    FENCED,
    START,
    TYPES,
    WAIT_LOAD,
    WAIT_STORE,
    Layout,
    copy,
    encoded,
    fill,
    instruction_descriptor,
    kernel,
    load,
    names,
    product,
    put,
    read,
    run,
    store,
    sums,
    take,
    wait,
)
from warplab.errors import PlanError
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind

RNG = np.random.default_rng(5)


def outputs(result: Execution) -> np.ndarray:
    assert result.findings == (), result.findings
    return result.outputs["out"]


# Loads and stores


def places(shape: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column [register, thread of a warp], from the figures of the PTX ISA (9.7.16.2.3.1)."""
    r, t = np.meshgrid(np.arange(count), np.arange(32), indexing="ij")
    if shape == "32x32b":
        return t, r
    if shape == "16x64b":
        # CUTLASS, SM100_TMEM_LOAD_16dp64b: bits ((2, 2, 8), 32) : ((8 rows, 32, 1 row), 1), 64 bits a register
        return t % 2 * 8 + t // 4, r * 2 + t // 2 % 2
    if shape == "16x128b":
        return r % 2 * 8 + t // 4, r // 2 * 4 + t % 4
    return r // 2 % 2 * 8 + t // 4, r // 4 * 8 + t % 4 * 2 + r % 2


FORMS = [
    *(("32x32b", n, n) for n in (1, 2, 4, 16, 128)),
    *(("16x64b", n, n) for n in (1, 2, 8, 128)),
    *(("16x128b", n, 2 * n) for n in (1, 2, 64)),
    *(("16x256b", n, 4 * n) for n in (1, 2, 32)),
]


@pytest.mark.parametrize(("shape", "number", "registers"), FORMS)
def test_every_shape_of_a_load(shape: str, number: int, registers: int) -> None:
    """The content is stored as 32x32b, a word for each lane and column, and read in the other shape."""
    content = RNG.integers(0, 2**32, (256, 4, 32), dtype=np.uint32)  # column, warp, lane
    body = fill(256) + load(registers, f"{shape}.x{number}") + WAIT_LOAD + put(registers)
    got = outputs(run(body, words=content.reshape(256, 128), out=registers)).reshape(registers, 4, 32)
    lane, column = places(shape, registers)
    for warp in range(4):
        assert np.array_equal(got[:, warp], content[column, warp, lane])


def test_the_upper_half_of_a_warps_lanes() -> None:
    content = RNG.integers(0, 2**32, (8, 128), dtype=np.uint32)
    body = fill(8) + "    add.u32 %r9, %own, 0x100000;\n"
    got = outputs(run(body + load(4, "16x256b.x1", "%r9") + WAIT_LOAD + put(4), words=content, out=4))
    lane, column = places("16x256b", 4)
    assert np.array_equal(got.reshape(4, 4, 32)[:, 2], content.reshape(8, 4, 32)[column, 2, lane + 16])


def test_two_halves_of_16_lanes_at_columns_of_their_own() -> None:
    content = RNG.integers(0, 2**32, (32, 128), dtype=np.uint32)
    body = fill(32)
    body += f"    tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {names(200, 4)}, [%own], 20;\n" + WAIT_LOAD + put(4, 200)
    got = outputs(run(body, words=content, out=4)).reshape(4, 4, 32)
    blocks = content.reshape(32, 4, 32)
    assert np.array_equal(got[:, :, :16], blocks[:4, :, :16]) and np.array_equal(got[:, :, 16:], blocks[20:24, :, :16])


def test_packed_halves_of_words() -> None:
    content = RNG.integers(0, 2**32, (8, 128), dtype=np.uint32)
    body = fill(8) + load(4, "32x32b.x{}.pack::16b") + WAIT_LOAD + put(4)
    low = content & 0xFFFF
    assert np.array_equal(outputs(run(body, words=content, out=4)), low[::2] | low[1::2] << 16)
    words = np.tile(content, (2, 1))
    body = fill(16) + take(4) + store(4, "16x128b.x2.unpack::16b") + WAIT_STORE + read(16)
    got = outputs(run(body, words=words, out=16)).reshape(16, 4, 32)
    lane, column = places("16x128b", 4)
    registers = content[:4].reshape(4, 4, 32)
    assert np.array_equal(got[2 * column, 1, lane], registers[:, 1] & 0xFFFF)
    assert np.array_equal(got[2 * column + 1, 1, lane], registers[:, 1] >> 16)


@pytest.mark.parametrize("flags", ["", ".abs", ".NaN", ".abs.NaN"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_a_load_and_the_extreme_of_its_words(operation: str, flags: str) -> None:
    content = RNG.normal(size=(8, 128)).astype(np.float32)
    content[3, 5] = np.nan
    words = content.view(np.uint32)
    reduced = f"    tcgen05.ld.red.sync.aligned.32x32b.x8.{operation}{flags}.f32 {names(100, 8)}, %r120, [%own];\n"
    body = fill(8) + reduced + WAIT_LOAD + put(8) + put(1, 120, 8)
    got = outputs(run(body, words=words, out=9, target="sm_103a"))
    assert np.array_equal(got[:8], words)
    values = np.abs(content) if "abs" in flags else content
    choose = {"min": (np.fmin, np.minimum), "max": (np.fmax, np.maximum)}[operation]["NaN" in flags]
    assert np.array_equal(got[8].view(np.float32), choose.reduce(values), equal_nan=True)
    for kind in ("u32", "s32"):
        whole = run(
            (body.replace(f"{operation}{flags}.f32", f"{operation}.{kind}")), words=words, out=9, target="sm_110a"
        )
        numbers = words.view(np.int32) if kind == "s32" else words
        extreme = numbers.min(axis=0) if operation == "min" else numbers.max(axis=0)
        assert np.array_equal(outputs(whole)[8].view(numbers.dtype), extreme)


def test_a_load_that_reduces_is_not_of_every_target() -> None:
    reduced = f"    tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {names(100, 2)}, %r120, [%own];\n"
    with pytest.raises(
        PlanError, match=r"uses tcgen05.ld.red, which is not part of the target sm_100a: compile for sm_103a"
    ):
        run(reduced)


# Allocation


def finding(result: Execution) -> tuple[FindingKind, str]:
    (found,) = result.findings
    return found.kind, found.message


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [second], "
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 "
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; "
OUT, TRAP = FindingKind.OUT_OF_BOUNDS, FindingKind.TRAP


def by_first_warp(body: str) -> str:
    return f"    @!%p1 bra OVER; {body} OVER:\n"


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (fill(1) + load(1, address="%t") + WAIT_LOAD, OUT, "from lane 0 on, but this warp reaches "),
        ("add.u32 %r9, %own, 253;" + load(4, address="%r9") + WAIT_LOAD, OUT, "columns 253 to 256"),
        (load(4) + WAIT_LOAD, FindingKind.UNINITIALISED, "column 0 of tensor memory in lane"),
        (by_first_warp(ALLOC + "96;"), TRAP, "96 columns"),
        (by_first_warp(ALLOC + "64;"), TRAP, "allocates 64 columns of tensor memory that the block still has"),
        (
            by_first_warp(f"{RELINQUISH}{ALLOC}64; ld.shared.b32 %r9, [second]; {DEALLOC}%r9, 64;"),
            TRAP,
            "gave up the right",
        ),
        (by_first_warp(DEALLOC + "32, 32;"), TRAP, "no allocation"),
        (by_first_warp(DEALLOC + "%t, 32;"), TRAP, "of another size"),
    ],
)
def test_what_an_allocation_does_not_allow(body: str, kind: FindingKind, words: str) -> None:
    result = run(body)
    assert (result.findings[0].kind, words in result.findings[0].message) == (kind, True), result.findings
    assert len({f.kind for f in result.findings}) == 1


def test_an_allocation_is_not_released_or_used_after_that() -> None:
    kind, message = finding(run(fill(1), end="    bar.sync 0;\n"))
    assert kind is FindingKind.TRAP and "allocates 256 columns" in message and "put tcgen05.dealloc" in message
    kind, message = finding(run("", end=END + BARRIER + load(1)))
    assert (
        kind is FindingKind.OUT_OF_BOUNDS and "columns 0 to 0 of tensor memory, which have been deallocated" in message
    )


ANOTHER = f"    @!%p2 bra OVER; {ALLOC}256; ld.shared.b32 %r9, [second]; {DEALLOC}%r9, 256;\nOVER:\n"


def test_an_allocation_waits_for_room() -> None:
    """Warp 1 waits until warp 0 has deallocated; where warp 0 waits for warp 1 first, nobody goes on."""
    first = f"    @!%p1 bra NEXT; {DEALLOC}%t, 512;\nNEXT:\n"
    assert run(ANOTHER + first, columns=512, end="").findings == ()
    kind, message = finding(run(ANOTHER + BARRIER + first, columns=512, end=""))
    assert kind is FindingKind.TRAP and "waits for 256 columns of tensor memory that no warp deallocates" in message


def test_an_allocation_may_not_grow() -> None:
    start = START.replace(
        "{columns};", "32; ld.shared.b32 %r9, [slot]; tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d9], 64;"
    )
    end = END.replace("{columns};", "64; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;")
    kind, message = finding(run("", start="    mov.u64 %d9, slot; cvta.shared.u64 %d9, %d9;\n" + start, end=end))
    assert kind is FindingKind.TRAP and "allocates 64 columns of tensor memory after 32" in message


# Products


def operands(types: str, m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers for A [m, k] and B [n, k]; sums of their products are exact in every type."""
    kind, _, a, _, element = TYPES[types]
    rng = np.random.default_rng(seed)
    k = 32 // element
    low = 0 if (kind, a) == ("i8", 0) else -3
    return rng.integers(low, 4, (m, k)), rng.integers(-3, 4, (n, k))


SHAPES = [  # m, n, swizzles, transposed
    (128, 64, (2, 2), (False, False)),
    (128, 256, (0, 4), (False, False)),
    (64, 24, (6, 0), (False, False)),
    (128, 16, (2, 6), (True, True)),
    (64, 80, (4, 2), (True, True)),
    (128, 48, (0, 0), (True, True)),
    (128, 32, (1, 1), (False, False)),
]


def multiply(
    types: str,
    m: int,
    n: int,
    swizzles: tuple[int, int] = (2, 2),
    transposed: tuple[bool, bool] = (False, False),
    keep: bool = False,
    more: int = 0,
    **options,
):
    """One product, read back as 32x32b; D starts as the input where `keep`. The execution and what D should be."""
    kind, d, a_code, b_code, element = TYPES[types]
    a, b = operands(types, m, n)
    left = Layout(m, element, swizzles[0], transposed[0])
    right = Layout(n, element, swizzles[1], transposed[1], start=16384)
    tile = np.zeros(32768, np.uint8)
    left.put(tile, encoded(a, kind, a_code))
    right.put(tile, encoded(b, kind, b_code))
    descriptor = instruction_descriptor(m, n, d, a_code, b_code, transposed, more)
    number = 1 << (n - 1).bit_length()
    before = RNG.integers(-20, 21, (number, 128))
    if d == 0:
        words = before.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        words = before.astype(np.float32 if d == 1 else np.int32).view(np.uint32)
    body = fill(number) + FENCED
    body += product(descriptor, right.descriptor(), left.descriptor(), keep, kind, **options) + DONE + read(number)
    result = run(body, tile, words, number)
    lanes = np.arange(128) if m == 128 else (np.arange(64) // 16 * 32 + np.arange(64) % 16)
    exact = a @ b.T + (before[:n, lanes].T if keep else 0)
    return result, lanes, exact, before


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layout_of_both_operands(shape) -> None:
    m, n, swizzles, transposed = shape
    result, lanes, exact, before = multiply("f16", m, n, swizzles, transposed)
    got = sums(outputs(result), "f16")
    assert np.array_equal(got[:n, lanes].T, exact)
    others = np.setdiff1d(np.arange(128), lanes)
    assert np.array_equal(got[n:], before[n:]) and np.array_equal(got[:, others], before[:, others])
    assert (result.total.tensor_instructions, result.total.tensor_multiply_adds) == (1, m * n * 16)


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("keep", [False, True])
def test_every_type(types: str, keep: bool) -> None:
    result, lanes, exact, _ = multiply(types, 128, 32, keep=keep)
    assert np.array_equal(sums(outputs(result)[:32], types)[:, lanes].T, exact)


def test_transposed_tf32_lies_in_pieces_of_32_bytes() -> None:
    result, lanes, exact, _ = multiply("tf32", 128, 64, (1, 1), (True, True))
    assert np.array_equal(sums(outputs(result), "tf32")[:, lanes].T, exact)


def small(m: int = 128, n: int = 16) -> tuple[np.ndarray, str, np.ndarray]:
    """A tile with operands, the product of them as text (thread 0, D fresh), and what D should be."""
    a, b = operands("f16", m, n, 3)
    left, right = Layout(m, 2, 2), Layout(n, 2, 2, start=16384)
    tile = np.zeros(18432, np.uint8)
    left.put(tile, a.astype(np.float16))
    right.put(tile, b.astype(np.float16))
    return tile, product(instruction_descriptor(m, n), right.descriptor(), left.descriptor()), (a @ b.T).T


def test_a_from_tensor_memory() -> None:
    for m in (64, 128):
        a, b = operands("f16", m, 16, 4)
        right = Layout(16, 2, 0)
        tile = np.zeros(2048, np.uint8)
        right.put(tile, b.astype(np.float16))
        lanes = np.arange(128) if m == 128 else (np.arange(64) // 16 * 32 + np.arange(64) % 16)
        words = np.zeros((64, 128), np.uint32)
        words[:8, lanes] = np.ascontiguousarray(a.astype(np.float16)).view(np.uint32).T
        body = fill(64) + FENCED
        body += product(instruction_descriptor(m, 16), right.descriptor(), "%t", d="%r11").replace(
            "mov.b64", "add.u32 %r11, %t, 32; mov.b64", 1
        )
        body += DONE + "    add.u32 %r9, %own, 32;\n" + load(16, address="%r9") + WAIT_LOAD + put(16)
        got = sums(outputs(run(body, tile, words, 16)), "f16")
        assert np.array_equal(got[:, lanes], (a @ b.T).T)


def test_64_rows_beside_64_others() -> None:
    """Two products with m = 64 share their columns: the second starts in lane 16."""
    tile, text, exact = small(64)
    second = text.replace("[%t]", "[%r11]").replace("mov.b64", "add.u32 %r11, %t, 0x100000; mov.b64", 1)
    got = sums(outputs(run(text + second + DONE + read(16), tile, out=16)), "f16")
    lanes = np.arange(64) // 16 * 32 + np.arange(64) % 16
    assert np.array_equal(got[:, lanes], exact) and np.array_equal(got[:, lanes + 16], exact)


def test_lanes_that_stay_as_they_are_and_a_divided_sum() -> None:
    result, _, exact, before = multiply("f16", 128, 16, keep=True, masks=(0, 0xF0, 0, 0x80000000))
    stays = (np.array([0, 0xF0, 0, 0x80000000])[np.arange(128) // 32] >> (np.arange(128) % 32) & 1).astype(bool)
    wanted = np.where(stays, before, exact.T)
    assert np.array_equal(sums(outputs(result), "f16"), wanted)
    for types in ("f16", "half sums"):
        result, _, exact, before = multiply(types, 128, 16, keep=True, scale=2)
        assert np.array_equal(sums(outputs(result), types), exact.T - before + before / 4)


def test_negated_operands_and_saturated_integers() -> None:
    for more, sign in ((1 << 13, -1), (1 << 14, -1), (3 << 13, 1)):
        result, _, exact, _ = multiply("e4m3", 128, 16, more=more)
        assert np.array_equal(sums(outputs(result), "e4m3").T, sign * exact)


@pytest.mark.parametrize(
    ("descriptor", "b", "words"),
    [
        (instruction_descriptor(128, 20), 0, "m = 128 and n = 16"),
        (instruction_descriptor(96, 16), 0, "m = 96 and n = 16, which the tensor core does not have"),
        (instruction_descriptor(128, 16, a=2), 0, "types that it does not have: 0x08040110"),
        (instruction_descriptor(128, 16, d=0, a=1), 0, "types that it does not have"),
        (instruction_descriptor(128, 16), 3 << 61, "matrix descriptor that is not well formed"),
        (instruction_descriptor(128, 16), 1 << 46, "matrix descriptor that is not well formed"),
        (instruction_descriptor(128, 16, transposed=(False, True)), 1 << 61, "transposes what it may not"),
    ],
)
def test_descriptors_that_are_none(descriptor: int, b: int, words: str) -> None:
    right = Layout(16, 2, 0).descriptor() ^ b
    result = run(product(descriptor, right, Layout(128, 2, 0).descriptor()) + DONE, np.zeros(8192, np.uint8))
    if "n = 16" in words and "96" not in words:
        assert result.findings == ()  # n is encoded without its last three bits
    else:
        kind, message = finding(result)
        assert kind is TRAP and words in message


# Order: a faulty kernel and the line that makes it right


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_result_is_read_when_its_commit_was_waited_for(seed: int | None) -> None:
    tile, text, exact = small()
    got = sums(outputs(run(text + DONE + read(16), tile, out=16, seed=seed)), "f16")
    assert np.array_equal(got, exact)


RACE, ADVISORY = FindingKind.RACE, FindingKind.ADVISORY


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        (read(16), "writes, which may not be done: put tcgen05.commit"),
        (COMMIT + read(16), "which may not be done: put tcgen05.commit"),
        (COMMIT + FENCED + read(16), "which may not be done: put tcgen05.commit"),
        (COMMIT + wait() + read(16), "put tcgen05.fence::after_thread_sync before this line"),
        (COMMIT + AFTER + wait() + read(16), "put tcgen05.fence::after_thread_sync before this line"),
    ],
)
def test_a_result_that_is_read_too_early(faulty: str, words: str) -> None:
    tile, text, exact = small()
    faulty = faulty.replace(read(16), f"    @!%p1 bra OVER;\n{read(16)}OVER:\n")  # by the warp that multiplies
    result = run(text + faulty + DONE.replace("WAIT", "LATER"), tile, out=16)
    early = [f for f in result.findings if f.kind is (ADVISORY if "fence" in words else RACE)]
    assert words in early[0].message and len(early) == 1
    if wait() not in faulty:
        assert not np.array_equal(
            sums(result.outputs["out"], "f16")[:, :32], exact[:, :32]
        )  # it comes as late as it may


STORED = take(4) + store(4)


@pytest.mark.parametrize(
    ("faulty", "right", "words"),
    [
        (STORED + read(4), STORED + WAIT_STORE + read(4), "put tcgen05.wait::st behind that line"),
        (
            fill(16) + load(16) + STORED,
            fill(16) + load(16) + WAIT_LOAD + STORED,
            "put tcgen05.wait::ld behind that line",
        ),
        (fill(16) + BARRIER, fill(16) + FENCED, "put tcgen05.fence::before_thread_sync behind that line"),
        (fill(16) + BARRIER + AFTER, fill(16) + FENCED, "put tcgen05.fence::before_thread_sync behind that line"),
        (fill(16) + BEFORE + BARRIER, fill(16) + FENCED, "put tcgen05.fence::after_thread_sync before this line"),
        (fill(16), fill(16) + FENCED, "and nothing orders the two"),
        (
            fill(16) + load(16) + FENCED,
            fill(16) + load(16) + WAIT_LOAD + FENCED,
            "put tcgen05.wait::ld behind that line",
        ),
    ],
)
def test_order_between_threads(faulty: str, right: str, words: str) -> None:
    tile, text, exact = small()
    for body, fault in ((faulty, True), (right, False)):
        between = "" if right.endswith(FENCED) else WAIT_STORE + FENCED
        result = run(body + between + text + DONE + read(16), tile, np.zeros((16, 128), np.uint32), 16)
        assert np.array_equal(sums(result.outputs["out"], "f16"), exact)
        assert all(f.kind is (ADVISORY if "fence::" in words else RACE) for f in result.findings)
        assert any(words in f.message for f in result.findings) is fault


def test_what_a_product_reads_of_shared_memory() -> None:
    tile, text, exact = small()
    overwrite = "    st.shared.v4.b32 [%r2], {%r0, %r0, %r0, %r0};\n"
    faulty = run(text + COMMIT + BARRIER + overwrite + wait() + AFTER + read(16), tile, out=16)
    kind, message = finding(faulty)
    assert kind is RACE and "which the tensor core may still be reading for an earlier product" in message
    assert not np.array_equal(sums(faulty.outputs["out"], "f16"), exact)
    right = run(text + DONE + overwrite + read(16), tile, out=16)
    assert np.array_equal(sums(outputs(right), "f16"), exact)
    kind, message = finding(
        run(text + DONE + read(16), tile, out=16, start=START.replace("    fence.proxy.async;\n", ""))
    )
    assert kind is RACE and "with no fence.proxy.async in between" in message


def test_a_block_that_ends_too_early() -> None:
    tile, text, _ = small()
    result = run(text, tile)
    assert [f.kind for f in result.findings] == [RACE, RACE]
    assert "deallocates tensor memory that an earlier instruction writes" in result.findings[0].message
    assert "may not be done when the block ends: put tcgen05.commit" in result.findings[1].message
    assert run(text + COMMIT + wait(), tile).findings == ()


def test_columns_are_deallocated_behind_loads() -> None:
    """Of the block's warps each has used what it loaded; without the barrier nobody knows so."""
    body = fill(1) + load(1) + put(1)
    assert {f.kind for f in run(body).findings} == {ADVISORY}
    findings = [f for f in run(body, end=END.removeprefix(BARRIER)).findings if f.is_fault]
    assert {f.kind for f in findings} <= {RACE, OUT} and findings


def test_a_missing_fence_is_told_once() -> None:
    tile, text, _ = small()
    loads = "".join(f"    add.u32 %r9, %own, {at};\n{load(1, address='%r9')}" for at in range(16))
    (found,) = run(text + COMMIT + wait() + loads, tile).findings
    assert (found.kind, found.count) == (ADVISORY, 4 * 16)


def test_sums_that_go_on_from_nothing() -> None:
    tile, text, _ = small()
    kind, message = finding(run(text.replace("%p4, 0, 0", "%p4, 1, 0") + DONE, tile))
    assert kind is FindingKind.UNINITIALISED and "column 0 of tensor memory in lane 0" in message


def test_a_product_of_which_another_one_reads_the_result() -> None:
    """D of one as A of another has to be waited for; the accumulator of the next product has not."""
    tile, text, exact = small()
    again = text.replace("%p4, 0, 0", "%p4, 1, 0")
    assert np.array_equal(sums(outputs(run(text + again + DONE + read(16), tile, out=16)), "f16"), 2 * exact)
    right = Layout(16, 2, 2, start=16384).descriptor()
    second = product(instruction_descriptor(128, 16), right, "%t", d="%r11").replace(
        "mov.b64", "add.u32 %r11, %t, 32; mov.b64", 1
    )
    kind, message = finding(run(text + second + DONE, tile))
    assert kind is RACE and "reads tensor memory that an earlier" in message and "may not be done" in message
    assert run(text + DONE + second + COMMIT + wait("AGAIN", 1), tile).findings == ()


def test_a_commit_tells_the_barriers_of_a_cluster() -> None:
    tile, text, exact = small()
    commit = COMMIT.replace("cluster.b64 [bar]", "cluster.multicast::cluster.b64 [bar], %h1")
    got = outputs(run("    mov.b16 %h1, 1;\n" + text + commit + wait() + AFTER + read(16), tile, out=16))
    assert np.array_equal(sums(got, "f16"), exact)


@pytest.mark.parametrize("target", ["sm_100", "sm_120a"])
def test_other_targets_have_no_tensor_memory(target: str) -> None:
    with pytest.raises(
        PlanError, match=rf"uses tcgen05, which is not part of the target {target}: compile for sm_100a"
    ):
        run("", target=target)
    kind, message = finding(run("", target="sm_90a"))
    assert kind is FindingKind.UNSUPPORTED and "needs sm_100, which has tcgen05.alloc.cta_group::1" in message


def random_address(rng: np.random.Generator) -> int:
    lane, column = rng.choice([0] * 12 + [16, 96, 127, 5000]), rng.choice([0] * 8 + [64, 128, 250, 511, 512, 60000])
    return int(lane) << 16 | int(column)


def random_descriptor(rng: np.random.Generator) -> int:
    """Mostly well formed, with offsets that lead anywhere."""
    start, leading, stride = (int(n) for n in rng.integers(0, 2048, 3))
    swizzle, base = int(rng.choice([0, 2, 4, 6] * 4 + [1, 7])), int(rng.integers(0, 8))
    return start | leading << 16 | stride << 32 | int(rng.random() < 0.95) << 46 | base << 49 | swizzle << 61


def random_product(rng: np.random.Generator) -> str:
    kind, codes = [("f16", (0, 1)), ("tf32", (2,)), ("f8f6f4", (0, 1, 3, 4, 5)), ("i8", (0, 1)), ("mxf8f6f4", (0, 5)),
                   ("mxf4", (1,))][rng.integers(6)]  # fmt: skip
    scaled = kind.startswith("mx")
    d = 0 if scaled else {"i8": 2}.get(kind, int(rng.integers(0, 2)))
    transposed = (bool(rng.random() < 0.2), bool(rng.random() < 0.2))
    m, n = (128 if scaled else int(rng.choice([64, 128, 256]))), 8 * int(rng.integers(1, 33))
    descriptor = instruction_descriptor(m, n, d, *(int(c) for c in rng.choice(codes, 2)), transposed, scaled << 23)
    places = "".join(f"    mov.b32 %r{r}, {random_address(rng):#x};\n" for r in (11, 12, 13, 14))
    a = "%r11" if rng.random() < 0.3 else random_descriptor(rng)
    name, rest = (f"{kind}.block_scale", "[%r13], [%r14], ") if scaled else (kind, "")
    masks = () if scaled or rng.random() < 0.7 else tuple(int(n) for n in rng.integers(0, 2**32, 4))
    return places + product(
        descriptor, random_descriptor(rng), a, bool(rng.random() < 0.5), name, rest, "%r12", masks=masks
    )


@pytest.mark.parametrize("seed", range(6))
def test_operands_that_lead_anywhere_are_findings(seed: int) -> None:
    """And never an access to memory of the emulator's own."""
    rng = np.random.default_rng(seed)
    made = 0
    for _ in range(60):
        body = "".join(random_product(rng) for _ in range(3))
        body += f"    mov.b32 %r11, {random_address(rng):#x};\n" + copy("128x256b", random_descriptor(rng), "%r11")
        body += DONE + load(8, "16x256b.x2", "%r11")
        made += run(body, np.zeros(8192, np.uint8)).total.tensor_instructions
    assert made > 8  # the others are refused


FORMS_OF_TARGETS = {
    "kind::i8": product(instruction_descriptor(128, 16, 2), 1, 1, kind="i8"),
    "scale-input-d": product(instruction_descriptor(128, 16), 1, 1, True, scale=2),
    ".scale_vec::1X": product(0, 1, 1, False, "mxf8f6f4.block_scale.scale_vec::1X", "[%t], [%t], "),
    "": product(0, 1, 1, False, "mxf8f6f4.block_scale.block32", "[%t], [%t], "),
}


@pytest.mark.processes
@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f"])
def test_the_emulator_takes_what_ptxas_takes_for_a_target(target: str) -> None:
    for what, body in FORMS_OF_TARGETS.items():
        taken = bool(assembler.run(kernel(body, target=target), target, 60).image)
        if taken:
            assert all(f.kind is not FindingKind.UNSUPPORTED for f in run(body, target=target).findings)
            continue
        with pytest.raises(PlanError, match=rf"uses {what} of tcgen05.mma, which is not part of the target {target}"):
            run(body, target=target)


def test_a_wait_for_an_mbarrier_is_named_before_those_who_wait_for_its_warp() -> None:
    result = run("    @%p1 bra ON;\n" + wait() + "ON:\n")
    assert [f.kind for f in result.findings] == [FindingKind.DEADLOCK, FindingKind.DEADLOCK]
    assert "mbarrier" in result.findings[0].message and "barrier 0 for warps" in result.findings[1].message


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    _, text, _ = small()
    bodies = [fill(128) + load(registers, f"{shape}.x{number}") + WAIT_LOAD for shape, number, registers in FORMS]
    bodies += [load(4, "32x32b.x{}.pack::16b"), store(4, "16x128b.x2.unpack::16b"), text + DONE + read(16), ANOTHER]
    bodies += [f"tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {names(200, 4)}, [%own], 20;"]
    bodies += [text.replace("kind::f16", f"kind::{kind}") for kind in ("tf32", "f8f6f4", "i8")]
    bodies += [copy(shape, 1) for shape in ("128x256b", "4x256b", "32x128b.warpx4", "64x128b.warpx2::02_13")]
    bodies += [
        text.replace("kind::f16", f"kind::{kind}.block_scale.{modifier}").replace("%p4;", "[%t], [%t], %p4;")
        for kind, modifier, *_ in SCALED
    ]
    bodies += [text.replace("%p4;", "{%r0, %r0, %r0, %r0}, %p4, 2;"), text.replace("%d1, %d2", "[%t], %d2")]
    for body in bodies:
        done = assembler.run(kernel(body), "sm_100a", 60)
        assert done.image, done.log


# Copies from shared memory


@pytest.mark.parametrize("swizzle", [0, 2, 4, 6])
@pytest.mark.parametrize(
    ("shape", "rows", "lanes"),  # of the lane the row that it gets, -1: it keeps what it has
    [
        ("128x256b", 128, np.arange(128)),
        ("128x128b", 128, np.arange(128)),
        ("32x128b.warpx4", 32, np.arange(128) % 32),
        ("64x128b.warpx2::02_13", 64, np.arange(128) % 64),
        ("64x128b.warpx2::01_23", 64, np.arange(128) // 64 * 32 + np.arange(128) % 32),
        ("4x256b", 4, np.where(np.arange(128) % 32 == 0, np.arange(128) // 32, -1)),
    ],
)
def test_every_shape_of_a_copy(shape: str, rows: int, lanes: np.ndarray, swizzle: int) -> None:
    words = 8 if "256b" in shape else 4
    content = RNG.integers(0, 256, (max(rows, 8), 32), dtype=np.uint8)
    source = Layout(len(content), 1, swizzle)
    tile = np.zeros(18432, np.uint8)
    source.put(tile, content)
    before = RNG.integers(0, 2**32, (8, 128), dtype=np.uint32)
    body = fill(8) + FENCED + copy(shape, source.descriptor()) + DONE + read(8)
    got = outputs(run(body, tile, before, 8))
    wanted = before.copy()
    copied = content.view(np.uint32)[:, :words].T
    wanted[:words, lanes >= 0] = copied[:, lanes[lanes >= 0]]
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize(("form", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
@pytest.mark.parametrize("shape", ["128x256b", "32x128b.warpx4"])
def test_a_copy_that_unpacks(shape: str, form: str, bits: int) -> None:
    """Of each 16 bytes the first 8 or 12 hold 16 elements; four bits come to lie in bits 2 to 5 of a byte."""
    rows, words = (128, 8) if "256b" in shape else (32, 4)
    codes = RNG.integers(0, 1 << bits, (rows, 32), dtype=np.uint8)
    content = RNG.integers(0, 256, (rows, 32), dtype=np.uint8)
    for piece in range(2):
        stream = np.unpackbits(codes[:, 16 * piece : 16 * piece + 16, None], axis=2, bitorder="little")[:, :, :bits]
        packed = np.packbits(stream.reshape(rows, -1), axis=1, bitorder="little")
        content[:, 16 * piece : 16 * piece + packed.shape[1]] = packed
    source = Layout(rows, 1, 2)
    tile = np.zeros(18432, np.uint8)
    source.put(tile, content)
    body = copy(f"{shape}.b8x16.{form}", source.descriptor()) + DONE + read(words)
    got = outputs(run(body, tile, out=words))
    wanted = np.ascontiguousarray(codes << np.uint8(6 - bits)).view(np.uint32).T[:words]
    assert np.array_equal(got, np.tile(wanted, 128 // rows))


def test_a_copy_feeds_a_product() -> None:
    """A goes to tensor memory by a copy, which the product behind it need not wait for; a load has to."""
    tile, _, exact = small()
    left, right = Layout(128, 1, 2), Layout(16, 2, 2, start=16384)
    copied = copy("128x256b", left.descriptor(), "%r11").replace("mov.b64", "add.u32 %r11, %t, 64; mov.b64", 1)
    text = product(instruction_descriptor(128, 16), right.descriptor(), "%r11")
    assert np.array_equal(sums(outputs(run(copied + text + DONE + read(16), tile, out=16)), "f16"), exact)
    result = run(copied.replace("%t, 64", "%t, 0") + by_first_warp(read(1)) + DONE, tile)
    assert RACE in [f.kind for f in result.findings] and "put tcgen05.commit" in result.findings[0].message


# Narrow types and scales

NARROW = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
FORMATS = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}


def values_of(bits: np.ndarray, name: str) -> np.ndarray:
    """The numbers that finite patterns of a type are (OCP Microscaling Formats, 5.3)."""
    exponent_bits, fraction_bits = FORMATS[name]
    bits = bits.astype(np.int64)
    fraction, biased = bits & (1 << fraction_bits) - 1, bits >> fraction_bits & (1 << exponent_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    value = np.where(biased > 0, fraction + (1 << fraction_bits), fraction) * 2.0 ** (np.maximum(biased, 1) - bias)
    return np.where(bits >> exponent_bits + fraction_bits & 1, -value, value) / 2**fraction_bits


def patterns(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finite patterns, of the 8-bit types those near 1, so that sums are exact."""
    exponent_bits, fraction_bits = FORMATS[name]
    width = 1 + exponent_bits + fraction_bits
    if width < 8:
        return RNG.integers(0, 1 << width, shape, dtype=np.uint8)
    bias = (1 << exponent_bits - 1) - 1
    biased = RNG.integers(bias - 1, bias + 2, shape)
    bits = biased << fraction_bits | RNG.integers(0, 1 << fraction_bits, shape) | RNG.integers(0, 2, shape) << 7
    return bits.astype(np.uint8)


def packed(bits: np.ndarray, name: str) -> np.ndarray:
    """Rows as shared memory has them: sixteen narrow elements side by side in 16 bytes."""
    width = 1 + sum(FORMATS[name])
    if width == 8:
        return bits
    singles = np.unpackbits(bits[..., None], axis=-1, bitorder="little")[..., :width]
    groups = singles.reshape(len(bits), -1, 16 * width)
    padded = np.zeros((*groups.shape[:2], 128), np.uint8)
    padded[..., : 16 * width] = groups
    return np.packbits(padded, axis=-1, bitorder="little").reshape(len(bits), -1)


@pytest.mark.parametrize("a_name", NARROW)
@pytest.mark.parametrize("b_name", ["e4m3", "e2m3", "e2m1"])
def test_products_of_narrow_types(a_name: str, b_name: str) -> None:
    a, b = patterns(a_name, (128, 32)), patterns(b_name, (16, 32))
    left, right = Layout(128, 1, 2), Layout(16, 1, 0, start=16384)
    tile = np.zeros(18432, np.uint8)
    left.put(tile, packed(a, a_name))
    right.put(tile, packed(b, b_name))
    exact = values_of(a, a_name) @ values_of(b, b_name).T
    descriptor = instruction_descriptor(128, 16, 1, NARROW[a_name], NARROW[b_name])
    text = product(descriptor, right.descriptor(), left.descriptor(), kind="f8f6f4")
    assert np.array_equal(sums(outputs(run(text + DONE + read(16), tile, out=16)), "f16").T, exact)
    place = {8: 0, 6: 0, 4: 2}[1 + sum(FORMATS[a_name])]
    words = np.concatenate([(a << place).view(np.uint32).T, np.zeros((8, 128), np.uint32)])
    text = "    add.u32 %r12, %t, 64;\n" + product(descriptor, right.descriptor(), "%t", kind="f8f6f4", d="%r12")
    shown = "    add.u32 %r9, %own, 64;\n" + load(16, address="%r9") + WAIT_LOAD + put(16)
    assert np.array_equal(sums(outputs(run(fill(16) + FENCED + text + DONE + shown, tile, words, 16)), "f16").T, exact)


SCALED = [  # kind, modifier, types, elements of a row, scales of a row, scales are powers of two
    ("mxf8f6f4", "scale_vec::1X", ("e4m3", "e5m2"), 32, 1, True),
    ("mxf8f6f4", "block32", ("e2m1", "e3m2"), 32, 1, True),
    ("mxf4", "scale_vec::2X", ("e2m1", "e2m1"), 64, 2, True),
    ("mxf4nvf4", "scale_vec::2X", ("e2m1", "e2m1"), 64, 2, True),
    ("mxf4nvf4", "scale_vec::4X", ("e2m1", "e2m1"), 64, 4, True),
    ("mxf4nvf4", "scale_vec::4X", ("e2m1", "e2m1"), 64, 4, False),
]
A_SCALES, B_SCALES = 128, 160  # columns


def scale_values(bits: np.ndarray, exponents_alone: bool) -> np.ndarray:
    return 2.0 ** (bits.astype(np.int64) - 127) if exponents_alone else values_of(bits, "e4m3")


@dataclass
class Scaled:
    """One product with scales: patterns of A and B, what D starts as, and D."""

    a: np.ndarray
    b: np.ndarray
    before: np.ndarray  # float32 [m, n]
    got: np.ndarray


def multiply_scaled(
    kind: str, modifier: str, types: tuple[str, str], depth: int, scales: list[np.ndarray], alone: bool, at: int = 0
) -> Scaled:
    """Scales lie in each warp's lanes, from byte `at` of a word on; 48 columns have theirs in two."""
    n, count = 48, scales[0].shape[1]
    a, b = patterns(types[0], (128, depth)), patterns(types[1], (n, depth))
    left, right = Layout(128, 1, 2), Layout(n, 1, 0, start=16384)
    tile = np.zeros(18432, np.uint8)
    left.put(tile, packed(a, types[0]) if depth == 32 else a[:, ::2] | a[:, 1::2] << 4)
    right.put(tile, packed(b, types[1]) if depth == 32 else b[:, ::2] | b[:, 1::2] << 4)
    before = RNG.normal(size=(128, 64)).astype(np.float32) * np.float32(4)
    words = np.concatenate([np.zeros((8, 128), np.uint32), before.view(np.uint32).T])  # column, lane
    for first, matrix in ((0, scales[0]), (4, scales[1])):
        raw = np.zeros((128, 4), np.uint8)
        raw[: len(matrix), at : at + count] = matrix
        for column in range(4):
            words[first + column] = np.tile(raw.view(np.uint32)[32 * column : 32 * column + 32, 0], 4)
    body = take(8) + f"    add.u32 %r9, %own, {A_SCALES};\n" + store(4, address="%r9")
    body += f"    add.u32 %r9, %own, {B_SCALES};\n" + store(4, address="%r9", first=104)
    body += take(64, at=8) + store(64) + WAIT_STORE + FENCED
    codes = (1, 1) if depth == 64 else (NARROW[types[0]], NARROW[types[1]])
    descriptor = instruction_descriptor(128, n, at, *codes) | alone << 23 | at << 29
    form = f"{kind}.block_scale.{modifier}"
    text = product(descriptor, right.descriptor(), left.descriptor(), True, form, "[%r11], [%r12], ")
    text = f"    add.u32 %r11, %t, {A_SCALES}; add.u32 %r12, %t, {B_SCALES};\n" + text
    got = sums(outputs(run(body + text + DONE + read(64), tile, words, 64)), "f16")[:n].T
    return Scaled(a, b, before[:, :n], got)


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize(("kind", "modifier", "types", "depth", "count", "alone"), SCALED, ids=str)
def test_products_with_scales(kind, modifier, types, depth, count, alone, at) -> None:
    low, high = (125, 130) if alone else (1, 0x60)
    scales = [RNG.integers(low, high, (rows, count), dtype=np.uint8) for rows in (128, 48)]
    it = multiply_scaled(kind, modifier, types, depth, scales, alone, 0 if count == 4 else at)
    spread = [np.repeat(scale_values(s, alone), depth // count, axis=1) for s in scales]
    exact = (values_of(it.a, types[0]) * spread[0]) @ (values_of(it.b, types[1]) * spread[1]).T + it.before
    np.testing.assert_allclose(it.got, exact, rtol=0, atol=4e-7 * np.abs(exact).max())


def cut(value: Fraction, unit: Fraction) -> Fraction:
    """Toward zero, to a multiple of a unit."""
    return math.trunc(value / unit) * unit


def single(value: Fraction) -> float:
    """Toward zero, to float32."""
    rounded = np.float32(float(value)) if value else np.float32(0)
    return float(np.nextafter(rounded, np.float32(0)) if abs(Fraction(float(rounded))) > abs(value) else rounded)


def exponent_of(value: Fraction) -> int:
    return math.frexp(float(value))[1] - 1


@pytest.mark.parametrize(("alone", "count"), [(True, 2), (True, 4), (False, 4)])
def test_the_bits_of_scaled_sums_of_four_bit_numbers(alone: bool, count: int) -> None:
    """The published rule (MMA-Sim, nv_fused_dot_add_with_block_scale), with scales far apart, in rationals."""
    low, high = (100, 150) if alone else (1, 0x7F)
    scales = [RNG.integers(low, high, (rows, count), dtype=np.uint8) for rows in (128, 48)]
    it = multiply_scaled("mxf4nvf4", f"scale_vec::{count}X", ("e2m1", "e2m1"), 64, scales, alone)
    a, b = values_of(it.a, "e2m1"), values_of(it.b, "e2m1")
    of_a, of_b = (scale_values(s, alone) for s in scales)
    least = -127 if alone else -6  # exponent of subnormal scales
    for i, j in zip(RNG.integers(0, 128, 60).tolist(), RNG.integers(0, 48, 60).tolist(), strict=True):
        terms = [Fraction(float(it.before[i, j]))]
        exponents = [exponent_of(terms[0])]
        for first in range(0, 64, 16):
            x, y = (Fraction(s[r, first * count // 64]) for s, r in ((of_a, i), (of_b, j)))
            terms.append(Fraction(float(a[i, first : first + 16] @ b[j, first : first + 16])) * x * y)
            exponents.append(max(exponent_of(x), least) + max(exponent_of(y), least))
        unit = Fraction(2) ** (max(exponents) - 35)
        assert float(it.got[i, j]) == single(sum((cut(term, unit) for term in terms), Fraction(0)))


def test_scales_that_are_no_numbers_or_not_there() -> None:
    scales = [np.full((rows, 1), 127, np.uint8) for rows in (128, 48)]
    scales[0][5] = scales[1][7] = 255
    got = multiply_scaled("mxf8f6f4", "block32", ("e4m3", "e4m3"), 32, scales, True).got
    assert np.isnan(got[5]).all() and np.isnan(got[:, 7]).all() and not np.isnan(np.delete(got, 5, 0)[:, :7]).any()
    tile, _, _ = small()
    left, right = Layout(128, 1, 2).descriptor(), Layout(16, 1, 2, start=16384).descriptor()
    for more, rest, words in (
        (1 << 23, "[%t], [%t], ", "column 0 of tensor memory in lane 0, which nothing has written"),
        (0, "[%t], [%t], ", "kind::mxf8f6f4 with types that it does not have"),
        (1 << 23, "[%r2], [%t], ", "which are not all allocated"),
    ):
        text = product(instruction_descriptor(128, 16, 0) | more, right, left, False, "mxf8f6f4.block_scale", rest)
        result = run("    add.u32 %r2, %t, 254;\n" + text.replace("[%t], %d1", "[%r11], %d1").replace(
            "mov.b64", "add.u32 %r11, %t, 32; mov.b64", 1) + DONE, tile)  # fmt: skip
        assert words in result.findings[0].message
