"""What orders accesses to tensor memory, beyond the cases of test_tcgen05.py: each fault with its fixed twin."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor.tensor_memory import (
    AFTER,
    BARRIER,
    BEFORE,
    COMMIT,
    DONE,
    FENCED,
    WAIT_LOAD,
    WAIT_STORE,
    Layout,
    copy,
    fill,
    instruction_descriptor,
    kernel,
    load,
    product,
    put,
    read,
    run,
    store,
    sums,
    wait,
)
from warplab.errors import PlanError
from warplab.plan.execution import Execution, Finding, FindingKind

RACE, UNWRITTEN, ADVISORY = FindingKind.RACE, FindingKind.UNINITIALISED, FindingKind.ADVISORY
RNG = np.random.default_rng(12)


def found(result: Execution, kind: FindingKind, words: str) -> bool:
    return any(f.kind is kind and words in f.message for f in result.findings)


def faults(result: Execution) -> list[Finding]:
    return [finding for finding in result.findings if finding.is_fault]


def by_warp(first: int, last: int, body: str, label: str) -> str:
    """What some warps do, each with the lanes of its own number; %r1 is the warp."""
    return (
        f"    setp.lt.u32 %p6, %r1, {first}; @%p6 bra {label}; setp.gt.u32 %p6, %r1, {last}; @%p6 bra {label};\n"
        f"{body}{label}:\n"
    )


# More than one reader


def operands() -> tuple[np.ndarray, Layout, np.ndarray, np.ndarray]:
    """A tile with B, where it lies, words of A for tensor memory, and D."""
    a, b = RNG.integers(-3, 4, (128, 16)), RNG.integers(-3, 4, (16, 16))
    right = Layout(16, 2, 0)
    tile = np.zeros(2048, np.uint8)
    right.put(tile, b.astype(np.float16))
    words = np.zeros((8, 128), np.uint32)
    words[:] = np.ascontiguousarray(a.astype(np.float16)).view(np.uint32).T
    return tile, right, words, (a @ b.T).T


def from_memory(right: Layout, predicate: str = "%p0", d: int = 32) -> str:
    """D = A B with A in the first columns of tensor memory, by one thread."""
    text = product(instruction_descriptor(128, 16), right.descriptor(), "%t", d="%r11")
    return text.replace("mov.b64", f"add.u32 %r11, %t, {d}; mov.b64", 1).replace("@%p0", f"@{predicate}")


@pytest.mark.parametrize("later", ["load", "product"])
def test_a_store_waits_for_every_reader(later: str) -> None:
    """A product reads the columns, then a load or another thread's product does: a store must wait for both."""
    tile, right, words, exact = operands()
    second = load(8) + WAIT_LOAD + put(8)
    if later == "product":
        other = "    setp.eq.u32 %p7, %r0, 32;\n" + from_memory(right, "%p7", 64)
        second = other + COMMIT.replace("@%p0", "@%p7").replace("[bar]", "[other]")
        second += wait("SECOND").replace("[bar]", "[other]") + AFTER
    overwrite = "    mov.u32 %r100, 0;\n" + store(1) + WAIT_STORE
    text = fill(8) + FENCED + from_memory(right) + COMMIT + second + FENCED
    result = "    add.u32 %r9, %own, 32;\n" + load(16, address="%r9") + WAIT_LOAD + put(16)
    faulty = run(text + overwrite + wait() + AFTER + result, tile, words, 16)
    assert found(faulty, RACE, "which may not be done: put tcgen05.commit behind that line")
    fixed = run(text + wait() + AFTER + overwrite + result, tile, words, 16)
    assert fixed.findings == () and np.array_equal(sums(fixed.outputs["out"], "f16"), exact)


@pytest.mark.parametrize("first", ["0", "4"])
def test_a_store_waits_for_both_warps_of_its_lanes(first: str) -> None:
    """Warps 0 and 4 reach the same lanes and load from them; only one of them waits before warp 0 stores."""
    zero = by_warp(0, 0, "    mov.u32 %r100, 7;\n" + store(1) + WAIT_STORE, "ZERO") + FENCED
    reads = [by_warp(n, n, load(1) + WAIT_LOAD + BEFORE, f"READ{n}") for n in (0, 4)]
    meet = by_warp(0, 0, "    bar.sync 1, COUNT;\n" + AFTER + store(1) + WAIT_STORE, "STORED")
    loads = "".join(reads if first == "0" else reversed(reads))
    arrive = by_warp(4, 4, "    bar.arrive 1, 64;\n", "ARRIVED")
    assert found(run(zero + loads + meet.replace("COUNT", "32"), threads=160), RACE, "and nothing orders the two")
    assert run(zero + loads + arrive + meet.replace("COUNT", "64"), threads=160).findings == ()


# Commits


def by_lane(text: str, lane: int, predicate: str = "%p7") -> str:
    return f"    setp.eq.u32 {predicate}, %r0, {lane};\n" + text.replace("@%p0", f"@{predicate}")


def small() -> tuple[np.ndarray, str, np.ndarray]:
    """A tile with operands, the product of them as text, and what D should be."""
    a, b = RNG.integers(-3, 4, (128, 16)), RNG.integers(-3, 4, (16, 16))
    left, right = Layout(128, 2, 2), Layout(16, 2, 2, start=16384)
    tile = np.zeros(18432, np.uint8)
    left.put(tile, a.astype(np.float16))
    right.put(tile, b.astype(np.float16))
    return tile, product(instruction_descriptor(128, 16), right.descriptor(), left.descriptor()), (a @ b.T).T


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("thread", [1, 31, 32, 64])
def test_a_commit_tracks_what_its_own_thread_has_issued(thread: int, seed: int | None) -> None:
    tile, text, exact = small()
    faulty = run(text + by_lane(COMMIT, thread) + wait() + AFTER + read(16), tile, out=16, seed=seed)
    assert found(faulty, RACE, "put tcgen05.commit behind that line and wait for its mbarrier")
    if seed is None:
        assert not np.array_equal(sums(faulty.outputs["out"], "f16"), exact)
    fixed = run(by_lane(text + COMMIT, thread) + wait() + AFTER + read(16), tile, out=16, seed=seed)
    assert fixed.findings == () and np.array_equal(sums(fixed.outputs["out"], "f16"), exact)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_two_lanes_of_a_warp_each_commit_their_own(seed: int | None) -> None:
    """Both results may be read when both mbarriers were waited for; one of them tells nothing of the other's."""
    tile, text, exact = small()
    second = text.replace("[%t]", "[%r11]").replace("mov.b64", "add.u32 %r11, %t, 32; mov.b64", 1)
    commits = COMMIT + by_lane(COMMIT.replace("[bar]", "[other]"), 1)
    both = wait() + wait("OTHER").replace("[bar]", "[other]")
    result = "    add.u32 %r9, %own, 32;\n" + load(16, address="%r9") + WAIT_LOAD + put(16)
    for text_of in (
        text + by_lane(second, 1) + commits,
        text + COMMIT + by_lane(second, 1) + commits.split("\n", 1)[1],
    ):
        fixed = run(text_of + both + AFTER + read(16) + result, tile, out=16, seed=seed)
        assert fixed.findings == () and np.array_equal(sums(fixed.outputs["out"], "f16"), exact)
        if seed is None:
            faulty = run(text_of + wait() + AFTER + result + both.replace("WAIT", "LATER"), tile, out=16)
            assert found(faulty, RACE, "put tcgen05.commit behind that line")


# Fences


RELAXED = "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"


@pytest.mark.parametrize(
    ("faulty", "kind"),
    [
        (COMMIT + wait(), ADVISORY),
        (COMMIT + wait() + BEFORE + BARRIER, ADVISORY),
        (COMMIT + wait().replace("mbarrier.try_wait.parity.shared.b64", RELAXED), RACE),
        (COMMIT + AFTER, RACE),
    ],
    ids=["an acquiring wait", "a barrier behind it", "a relaxed wait", "no wait"],
)
def test_a_missing_fence_behind_a_commit(faulty: str, kind: FindingKind) -> None:
    """Kernels of NVIDIA's leave the fence out where the wait acquires: an advisory. A relaxed wait orders nothing."""
    tile, text, exact = small()
    result = run(
        text + faulty + read(16) + (DONE.replace("WAIT", "LATER") if "WAIT" not in faulty else ""), tile, out=16
    )
    kinds = {f.kind for f in result.findings}
    assert kinds == {ADVISORY} if kind is ADVISORY else kind in kinds
    fixed = run(text + (faulty if "WAIT" in faulty else COMMIT + wait()) + AFTER + read(16), tile, out=16)
    assert fixed.findings == () and np.array_equal(sums(fixed.outputs["out"], "f16"), exact)


@pytest.mark.parametrize("between", [BARRIER, BARRIER + AFTER, BEFORE + BARRIER])
def test_a_missing_fence_around_a_barrier_is_advice(between: str) -> None:
    tile, text, exact = small()
    zero = np.zeros((16, 128), np.uint32)
    result = run(fill(16) + between + text + DONE + read(16), tile, zero, 16)
    assert {f.kind for f in result.findings} == {ADVISORY} and faults(result) == []
    assert np.array_equal(sums(result.outputs["out"], "f16"), exact)
    missing = run(fill(16).replace(WAIT_STORE, "") + between + text + DONE + read(16), tile, zero, 16)
    assert found(missing, RACE, "put tcgen05.wait::st behind that line")


# Registers that are used before their load has been waited for


@pytest.mark.parametrize(
    "use",
    [
        put(1),
        "    add.u32 %r120, %r100, 1;\n",
        "    mov.b32 %r120, %r101;\n    xor.b32 %r121, %r120, 1;\n",
        "    setp.gt.u32 %p6, %r103, 3;\n",
        "    mov.u32 %r122, 0;\nAGAIN: add.u32 %r122, %r122, 1; setp.lt.u32 %p6, %r122, %r100; @%p6 bra AGAIN;\n",
    ],
    ids=["stored", "added", "moved and added", "compared", "in a loop"],
)
def test_a_register_that_is_used_before_its_load_was_waited_for(use: str) -> None:
    words = np.zeros((4, 128), np.uint32)
    faulty = run(fill(4) + load(4) + use + WAIT_LOAD, words=words)
    assert [f.kind for f in faulty.findings] == [ADVISORY]
    assert "uses a register that an earlier instruction loads from tensor memory" in faulty.findings[0].message
    assert run(fill(4) + load(4) + WAIT_LOAD + use, words=words).findings == ()


def test_registers_that_no_load_has_in_flight() -> None:
    """A wait ends all loads, a move hands on, another value ends it; and a tcgen05.st takes what a load gives."""
    words = np.zeros((4, 128), np.uint32)
    moved = "    mov.b32 %r120, %r100;\n"
    assert run(fill(4) + load(4) + moved + WAIT_LOAD + put(1, 120), words=words).findings == ()
    again = "    mov.u32 %r100, 7;\n" + put(1)
    assert run(fill(4) + load(4) + again + WAIT_LOAD, words=words).findings == ()
    other = "    add.u32 %r9, %own, 8;\n" + store(4, address="%r9") + WAIT_STORE
    assert run(fill(4) + load(4) + other + WAIT_LOAD, words=words).findings == ()


# What is written


def masked(masks: tuple[int, ...], keep: bool = False) -> tuple[np.ndarray, str]:
    left, right = Layout(128, 2, 2), Layout(16, 2, 2, start=16384)
    text = product(instruction_descriptor(128, 16), right.descriptor(), left.descriptor(), keep, masks=masks)
    return np.zeros(18432, np.uint8), text


@pytest.mark.parametrize(
    ("masks", "lane"),
    [((1, 0, 0, 0), 0), ((0, 0xFFFFFFFF, 0, 0), 32), ((0, 0, 0x00100000, 0), 84), ((0, 0, 0, 1 << 31), 127)],
)
def test_lanes_that_a_product_leaves_out_are_not_written(masks: tuple[int, ...], lane: int) -> None:
    tile, text = masked(masks)
    assert found(
        run(text + DONE + read(16), tile, out=16), UNWRITTEN, f"of tensor memory in lane {lane}, which nothing"
    )
    words = np.zeros((16, 128), np.uint32)
    assert run(fill(16) + FENCED + text + DONE + read(16), tile, words, 16).findings == ()
    assert run(masked((0, 0, 0, 0))[1] + DONE + read(16), tile, out=16).findings == ()


def test_sums_of_lanes_that_are_left_out_need_not_be_there() -> None:
    tile, text = masked((0, 0xFFFF, 0, 0))
    again = masked((0, 0xFFFF, 0, 0), keep=True)[1]
    assert run(text + again + COMMIT + wait(), tile).findings == ()
    every = masked((0, 0, 0, 0), keep=True)[1]
    assert found(run(text + every + COMMIT + wait(), tile), UNWRITTEN, "column 0 of tensor memory in lane 32")


@pytest.mark.parametrize("first", [0, 5, 16])
def test_a_copy_of_four_rows_writes_four_lanes(first: int) -> None:
    source = Layout(8, 1, 0)
    text = f"    add.u32 %r11, %t, {first << 16:#x};\n" + copy("4x256b", source.descriptor(), "%r11")
    lane = 1 if first == 0 else 0
    assert found(
        run(text + DONE + read(8), out=8), UNWRITTEN, f"column 0 of tensor memory in lane {lane}, which nothing"
    )
    assert run(fill(8) + FENCED + text + DONE + read(8), words=np.zeros((8, 128), np.uint32), out=8).findings == ()


# What a kernel may not ask for


def test_lanes_of_the_first_warp_mean_those_of_each() -> None:
    """It is told of, and gives what kernels that do so rely on; lanes of another warp give nothing."""
    words = RNG.integers(0, 2**32, (1, 128), dtype=np.uint32)
    result = run(fill(1) + load(1, address="%t") + WAIT_LOAD + put(1), words=words)
    assert found(result, FindingKind.OUT_OF_BOUNDS, "from lane 0 on, but this warp reaches ")
    assert np.array_equal(result.outputs["out"], words)


@pytest.mark.parametrize("kind", ["f16", "f8f6f4", "tf32", "i8"])
@pytest.mark.parametrize(("m", "n", "right"), [(128, 8, False), (128, 24, False), (128, 248, False), (128, 16, True),
                                               (64, 8, True), (64, 24, True)])  # fmt: skip
def test_128_rows_have_multiples_of_16_columns(kind: str, m: int, n: int, right: bool) -> None:
    types = {"f16": (1, 0, 0), "tf32": (1, 2, 2), "f8f6f4": (1, 0, 0), "i8": (2, 1, 1)}[kind]
    descriptor = instruction_descriptor(m, n, *types)
    places = Layout(256, 1, 0, start=4096).descriptor(), Layout(128, 1, 0).descriptor()
    result = run(product(descriptor, *places, kind=kind) + DONE, np.zeros(12288, np.uint8))
    refused = found(result, FindingKind.TRAP, f"m = {m} and n = {n}, which the tensor core does not have")
    assert refused is not right and (not right or result.findings == ())


@pytest.mark.parametrize(
    "other",
    [
        "    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n",
        COMMIT.replace("cta_group::1", "cta_group::2"),
        copy("128x256b", 1).replace("cta_group::1", "cta_group::2"),
        product(0, 0, 0, group=2),
    ],
)
def test_a_kernel_is_for_blocks_or_for_pairs(other: str) -> None:
    with pytest.raises(PlanError, match=r"uses tcgen05 with \.cta_group::2, and the kernel uses \.cta_group::1 before"):
        run(other)


@pytest.mark.processes
def test_ptxas_refuses_it_as_well() -> None:
    from warplab.plan import assembler

    text = kernel("    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n")
    assert not assembler.run(text, "sm_100a", 60).image
