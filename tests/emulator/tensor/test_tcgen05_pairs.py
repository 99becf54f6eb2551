"""tcgen05 by pairs of blocks (.cta_group::2): values against NumPy, and what orders the two blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulator.tensor.tensor_memory import (
    AFTER,
    BARRIER,
    BEFORE,
    CLUSTER_BARRIER,
    COMMIT,
    END,
    PAIR,
    PAIR_END,
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
    product,
    put,
    read,
    run,
    store,
    sums,
    take,
    wait,
)
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind

RNG = np.random.default_rng(11)
PAIR_COMMIT = "    mov.b16 %h1, 3;\n" + COMMIT.replace("cta_group::1", "cta_group::2").replace(
    "cluster.b64 [bar]", "cluster.multicast::cluster.b64 [bar], %h1"
)
DONE = PAIR_COMMIT + wait() + AFTER
TOGETHER = BEFORE + CLUSTER_BARRIER + AFTER


def pair(body: str, tile: np.ndarray | None = None, words: np.ndarray | None = None, **options) -> Execution:
    return run(body, tile, words, blocks=2, **{"start": PAIR, "end": PAIR_END, **options})


def operands(types: str, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    kind, _, a, _, element = TYPES[types]
    low = 0 if (kind, a) == ("i8", 0) else -3
    return RNG.integers(low, 4, (m, 32 // element)), RNG.integers(-3, 4, (n, 32 // element))


def tiles(types: str, a: np.ndarray, b: np.ndarray, swizzles=(2, 2)) -> tuple[np.ndarray, Layout, Layout]:
    """A tile for each block with its half of the rows of both, and where they lie."""
    kind, _, a_code, b_code, element = TYPES[types]
    left = Layout(len(a) // 2, element, swizzles[0])
    right = Layout(len(b) // 2, element, swizzles[1], start=16384)
    tile = np.zeros((2, 32768), np.uint8)
    for block in range(2):
        left.put(tile[block], np.split(encoded(a, kind, a_code), 2)[block])
        right.put(tile[block], np.split(encoded(b, kind, b_code), 2)[block])
    return tile, left, right


def arranged(d: np.ndarray) -> np.ndarray:
    """D [m, n] as the two blocks have it: [block, column, lane] (layouts A and B of the PTX ISA)."""
    if len(d) == 256:
        return np.ascontiguousarray([half.T for half in np.split(d, 2)])
    columns = np.split(d, 2, axis=1)
    rows = (slice(0, 64), slice(64, 128))
    return np.ascontiguousarray([np.concatenate([half[part].T for half in columns], axis=1) for part in rows])


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("types", "m", "n"),
    [("f16", 256, 32), ("f16", 128, 32), ("bf16", 256, 256), ("tf32", 128, 64), ("e4m3", 256, 64), ("s8", 128, 64)],
)
def test_products_of_a_pair(types: str, m: int, n: int, keep: bool, seed: int | None) -> None:
    kind, d, a_code, b_code, _ = TYPES[types]
    a, b = operands(types, m, n)
    tile, left, right = tiles(types, a, b)
    before = RNG.integers(-20, 21, (m, n)).astype(np.int32 if kind == "i8" else np.float32)
    columns = n if m == 256 else n // 2
    text = product(
        instruction_descriptor(m, n, d, a_code, b_code), right.descriptor(), left.descriptor(), keep, kind, group=2
    )
    body = fill(columns) + TOGETHER + text + DONE + read(columns)
    result = pair(body, tile, arranged(before).view(np.uint32), out=columns, seed=seed)
    assert result.findings == ()
    exact = a @ b.T + (before if keep else 0)
    assert np.array_equal(sums(result.outputs["out"], types), arranged(exact))
    assert (result.total.tensor_instructions, result.total.tensor_multiply_adds) == (1, m * n * a.shape[1])


@pytest.mark.parametrize("m", [128, 256])
def test_a_from_the_tensor_memory_of_both(m: int) -> None:
    """Of 128 rows each block has its 64 twice, in lanes 0 to 63 and in lanes 64 to 127."""
    n = 32
    a, b = operands("f16", m, n)
    tile, _, right = tiles("f16", a, b)
    halves = np.split(np.ascontiguousarray(a.astype(np.float16)).view(np.uint32), 2)
    words = np.ascontiguousarray([np.tile(half.T, 256 // m) for half in halves])
    columns = n if m == 256 else n // 2
    text = "    add.u32 %r11, %t, 64;\n" + product(
        instruction_descriptor(m, n), right.descriptor(), "%t", d="%r11", group=2
    )
    shown = "    add.u32 %r9, %own, 64;\n" + load(columns, address="%r9") + WAIT_LOAD + put(columns)
    result = pair(fill(8) + TOGETHER + text + DONE + shown, tile, words, out=columns)
    assert result.findings == ()
    assert np.array_equal(sums(result.outputs["out"], "f16"), arranged(a @ b.T))


def test_lanes_of_a_pair_that_stay_as_they_are() -> None:
    a, b = operands("f16", 256, 16)
    tile, left, right = tiles("f16", a, b)
    before = RNG.integers(-20, 21, (256, 16)).astype(np.float32)
    masks = (1, 0, 0x80000000, 0, 0xFF, 0, 0, 6)
    text = product(instruction_descriptor(256, 16), right.descriptor(), left.descriptor(), masks=masks, group=2)
    body = fill(16) + TOGETHER + text + DONE + read(16)
    result = pair(body, tile, arranged(before).view(np.uint32), out=16)
    assert result.findings == ()
    stays = (np.array(masks)[np.arange(256) // 32] >> np.arange(256) % 32 & 1).astype(bool)
    assert np.array_equal(sums(result.outputs["out"], "f16"), arranged(np.where(stays[:, None], before, a @ b.T)))


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4nvf4"])
def test_scales_of_a_pair(kind: str, m: int) -> None:
    """Each block has the scales of its own rows of A, and of all of B: 2 to the power of a byte less 127."""
    n, count = 64, 1 if kind == "mxf8f6f4" else 4
    rows = m // 2
    rng = np.random.default_rng(3)
    if kind == "mxf8f6f4":
        a, b = operands("e4m3", m, n)
        tile, left, right = tiles("e4m3", a, b)
    else:
        codes = np.array([0, 2, 4, 5])  # e2m1: 0, 1, 2, 3
        a, b = rng.integers(0, 4, (m, 64)), rng.integers(0, 4, (n, 64))
        left, right = Layout(rows, 1, 2), Layout(n // 2, 1, 2, start=16384)
        tile = np.zeros((2, 32768), np.uint8)
        for layout, matrix in ((left, a), (right, b)):
            bits = (codes[matrix][:, ::2] | codes[matrix][:, 1::2] << 4).astype(np.uint8)
            for block in range(2):
                layout.put(tile[block], np.split(bits, 2)[block])
    scales = [rng.integers(125, 130, (height, count), dtype=np.uint8) for height in (m, n)]
    words = np.zeros((2, 6, 128), np.uint32)  # four columns for the rows of A, two for those of B
    for block in range(2):
        raw = np.zeros((192, 4), np.uint8)
        raw[:rows, :count], raw[128:, :count] = scales[0][rows * block : rows * block + rows], scales[1]
        words[block] = np.tile(raw.view(np.uint32).reshape(6, 32), 4)
    body = take(6)
    body += "".join(f"    add.u32 %r9, %own, {128 + i};\n" + store(1, address="%r9", first=100 + i) for i in range(6))
    codes_of = (1, 1) if count == 4 else (0, 0)
    descriptor = instruction_descriptor(m, n, 0, *codes_of) | 1 << 23
    columns = n if m == 256 else n // 2
    name = f"{kind}.block_scale" + (".block16" if count == 4 else "")
    text = "    add.u32 %r11, %t, 128; add.u32 %r12, %t, 132;\n"
    text += product(descriptor, right.descriptor(), left.descriptor(), False, name, "[%r11], [%r12], ", group=2)
    result = pair(body + WAIT_STORE + TOGETHER + text + DONE + read(columns), tile, words, out=columns)
    assert result.findings == ()
    spread = [np.repeat(2.0 ** (s.astype(int) - 127), a.shape[1] // count, axis=1) for s in scales]
    assert np.array_equal(sums(result.outputs["out"], "f16"), arranged((a * spread[0]) @ (b * spread[1]).T))


def test_a_copy_of_each_block() -> None:
    content = RNG.integers(0, 256, (2, 128, 32), dtype=np.uint8)
    source = Layout(128, 1, 2)
    tile = np.zeros((2, 16384), np.uint8)
    for block in range(2):
        source.put(tile[block], content[block])
    text = copy("128x256b", source.descriptor()).replace("cta_group::1", "cta_group::2")
    result = pair(text + DONE + read(8), tile, out=8)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], content.view(np.uint32).transpose(0, 2, 1))


# Order and allocation


def small() -> tuple[np.ndarray, str, np.ndarray]:
    a, b = operands("f16", 256, 16)
    tile, left, right = tiles("f16", a, b)
    text = product(instruction_descriptor(256, 16), right.descriptor(), left.descriptor(), group=2)
    return tile, text, arranged(a @ b.T)


OVERWRITE = "    st.shared.v4.b32 [%r2], {%r0, %r0, %r0, %r0};\n"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda body: body.replace(", %h1", ", %h2").replace("mov.b16 %h1, 3", "mov.b16 %h2, 1"), FindingKind.DEADLOCK,
         "waits for a phase of the mbarrier"),
        (lambda body: body.replace(wait(), ""), FindingKind.RACE, "put tcgen05.commit behind that line"),
        (lambda body: body.replace(AFTER, ""), FindingKind.ADVISORY, "put tcgen05.fence::after_thread_sync"),
        (lambda body: body.replace(wait(), OVERWRITE + wait()), FindingKind.RACE, "tensor core may still be reading"),
    ],
    ids=["a commit to one block", "no wait", "no fence", "operands overwritten"],
)  # fmt: skip
def test_a_faulty_pair(change: Callable[[str], str], kind: FindingKind, words: str) -> None:
    tile, text, exact = small()
    right = text + DONE + read(16)
    result = pair(right, tile, out=16)
    assert result.findings == () and np.array_equal(sums(result.outputs["out"], "f16"), exact)
    faulty = change(right)
    assert faulty != right
    assert any(f.kind is kind and words in f.message for f in pair(faulty, tile, out=16).findings)


def test_the_blocks_of_a_pair_meet_first() -> None:
    """Without the cluster's barrier nobody knows that the other block's operands are there."""
    tile, text, _ = small()
    findings = pair(text + DONE + read(16), tile, out=16, start=PAIR.removesuffix(CLUSTER_BARRIER)).findings
    assert any("may not have started yet" in f.message or f.kind is FindingKind.RACE for f in findings)


INIT = "    @%p3 mbarrier.init.shared.b64 [bar], 1;\n    @%p3 mbarrier.init.shared.b64 [other], 1;\n"


def test_the_blocks_of_a_pair_meet_behind_the_initialisation_of_mbarriers() -> None:
    """A commit that arrives at the other block's mbarrier comes behind its initialisation only if a barrier says so."""
    tile, text, exact = small()
    assert INIT in PAIR
    late = PAIR.replace(INIT, "") + INIT + "    fence.mbarrier_init.release.cluster;\n    bar.sync 0;\n"
    result = pair(text + DONE + read(16), tile, out=16, start=late + CLUSTER_BARRIER)
    assert result.findings == () and np.array_equal(sums(result.outputs["out"], "f16"), exact)
    (found,) = pair(text + DONE + read(16), tile, out=16, start=late).findings
    assert found.kind is FindingKind.RACE


@pytest.mark.parametrize("arrive", ["arrive", "arrive.relaxed"])
def test_a_relaxed_barrier_passes_on_no_product(arrive: str) -> None:
    """The warp that deallocates has not waited itself: it learns that the product is done only from a release."""
    tile, text, _ = small()
    waits = f"    @%p1 bra OVER;\n{wait()}OVER:\n"
    end = CLUSTER_BARRIER.replace("arrive", arrive) + END.replace("cta_group::1", "cta_group::2").removeprefix(BARRIER)
    findings = pair(text + PAIR_COMMIT + waits, tile, end=end).findings
    if arrive == "arrive":
        assert findings == ()
    else:
        assert any(f.kind is FindingKind.RACE and "deallocates tensor memory" in f.message for f in findings)


def test_an_allocation_takes_both_blocks() -> None:
    result = run("", start=PAIR.removesuffix(CLUSTER_BARRIER), end=END.replace("cta_group::1", "cta_group::2"))
    assert "is for a pair of blocks (cta_group::2), but the block's cluster has no other" in result.findings[0].message
    alone = PAIR.replace(
        "    @!%p1 bra NOT_FIRST;", "    setp.ne.u32 %p6, %rank, 0; @%p6 bra NOT_FIRST; @!%p1 bra NOT_FIRST;"
    )
    result = pair("", start=alone.removesuffix(CLUSTER_BARRIER), end="")
    (found,) = (f for f in result.findings if f.kind is FindingKind.TRAP)
    assert "waits for the other block of the pair to allocate 256 columns" in found.message
    kinds = pair(
        "", end=PAIR_END.replace("bra NOT_LAST;", "bra NOT_LAST; setp.eq.u32 %p6, %rank, 1; @%p6 bra NOT_LAST;")
    )
    assert "allocates 256 columns of tensor memory that the block still has" in kinds.findings[0].message


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    _, text, _ = small()
    scaled = product(0, 1, 1, False, "mxf8f6f4.block_scale", "[%t], [%t], ", group=2)
    masked = product(instruction_descriptor(256, 16), 0, 0, masks=(1,) * 8, group=2)
    for body in (text + DONE + read(16), masked, scaled, text.replace("%d1, %d2", "[%t], %d2"),
                 copy("128x256b", 1).replace("cta_group::1", "cta_group::2")):  # fmt: skip
        done = assembler.run(kernel(body, blocks=2, start=PAIR, end=PAIR_END), "sm_100a", 60)
        assert done.image, done.log
