"""The row-parallel layer on the emulator, blocks as two ranks: right sums, no races, any order; and planted faults.

Truth is NumPy's: exact sums of small whole numbers, float64 for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from systems.peer import row_parallel
from systems.peer.kernels import INCLUDE, PeerError
from systems.peer.row_parallel import PAIR, SOURCE, WIDTHS, Room, Size, shared_bytes
from tests.emulator.plans import buffer, plan_of
from tests.peer.in_memory import read
from tests.peer.layers_side_by_side import CALLS, Case, drawn, run
from warplab.emulator import execute
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Pointer, Role, Structure

pytestmark = pytest.mark.processes

ROUNDING, SINGLE = 2.0**-8, 2.0**-23  # of bfloat16; of what tensor cores add in float32, which they cut off
SMALL = Size(70, 136, 72)


def results(execution: Execution, size: Size) -> np.ndarray:
    """C of every call and rank, as float64."""
    return read(execution.outputs["c"].reshape(CALLS, -1, size.m, size.n), "bfloat16")


def is_clean(execution: Execution) -> bool:
    """Whether nothing was found, and all of it was searched for races."""
    return execution.findings == () and not any(name.startswith("races") for name in execution.notes)


def is_exact(execution: Execution, a: np.ndarray, b: np.ndarray, size: Size) -> bool:
    truth = np.einsum("crmk,rkn->cmn", read(a, "bfloat16"), read(b, "bfloat16"))
    assert np.abs(truth).max() <= 256, "bfloat16 has these whole numbers"
    return bool((results(execution, size) == truth[:, None]).all())


@pytest.mark.parametrize(
    ("case", "seed"),
    [
        (Case(Size(1, 64, 8)), None),  # one tile, of rank 1, and one row of it
        (Case(Size(16, 64, 64), blocks=1), 1),
        (Case(SMALL), None),
        (Case(SMALL), 2),
        (Case(Size(200, 136, 136), blocks=3), 3),  # the second row of tiles has 8 rows in its second half
        (Case(Size(130, 200, 72), width=128), 4),
        (Case(Size(300, 264, 136), width=256, blocks=1), 5),
        (Case(Size(129, 72, 648), blocks=1), 6),  # more steps than stages
    ],
)
def test_both_ranks_have_the_exact_sum_in_every_call(case: Case, seed: int | None) -> None:
    a, b = drawn(case.size, 7, whole=True)
    execution = run(case, a, b, seed=seed)
    assert is_clean(execution), execution.findings
    assert is_exact(execution, a, b, case.size)


@pytest.mark.parametrize("case", [Case(Size(150, 136, 264)), Case(Size(33, 256, 136), width=128, blocks=1)])
def test_sums_are_off_by_their_roundings_and_alike_on_both_ranks(case: Case) -> None:
    """One rank's partial sum is rounded to bfloat16, then the sum; what float32 loses is k roundings of magnitudes."""
    a, b = drawn(case.size, 3, whole=False)
    execution = run(case, a, b, seed=1)
    assert is_clean(execution)
    wide_a, wide_b = read(a, "bfloat16"), read(b, "bfloat16")
    parts = np.einsum("crmk,rkn->crmn", wide_a, wide_b)
    magnitudes = np.einsum("crmk,rkn->cmn", np.abs(wide_a), np.abs(wide_b))
    total = parts.sum(1)
    allowed = ROUNDING * (np.abs(total) + np.abs(parts).max(1)) + (case.size.k + 2) * SINGLE * magnitudes
    found = results(execution, case.size)
    assert (np.abs(found - total[:, None]) <= 1.01 * allowed[:, None]).all()
    np.testing.assert_array_equal(found[:, 0], found[:, 1])


def test_calls_go_on_counting_from_launch_to_launch_with_other_tiles() -> None:
    """Slots and flags of narrow tiles are used by wide ones next, and nothing is reset between."""
    a, b = drawn(SMALL, 1, whole=True)
    first = run(Case(SMALL), a, b)
    second = run(Case(SMALL, width=128), a, b, before=first, seed=1)
    third = run(Case(SMALL), a, b, before=second, seed=2)
    for execution in (first, second, third):
        assert is_clean(execution) and is_exact(execution, a, b, SMALL)
    assert third.outputs["state"].reshape(-1, 2).tolist() == [[3 * CALLS, 0]] * 4


def test_a_launch_for_each_call() -> None:
    """As on a GPU."""
    a, b = drawn(SMALL, 2, whole=True)
    execution = run(Case(SMALL), a, b, launches=CALLS, seed=1)
    assert is_clean(execution) and is_exact(execution, a, b, SMALL)


def test_calls_are_counted_past_the_last_number() -> None:
    a, b = drawn(SMALL, 1, whole=True)
    before = run(Case(SMALL), a, b)
    before.outputs["state"].reshape(-1, 2)[:, 0] = 2**32 - 2
    execution = run(Case(SMALL), a, b, before=before, seed=2)
    assert is_clean(execution) and is_exact(execution, a, b, SMALL)
    assert execution.outputs["state"].reshape(-1, 2).tolist() == [[2, 0]] * 4


def instead(old: str, new: str = "") -> Callable[[str], str]:
    """A change of the source: one place."""

    def change(text: str) -> str:
        assert text.count(old) == 1, old
        return text.replace(old, new)

    return change


def flag_first(text: str) -> str:
    """The flag is raised before what it stands for is stored."""
    begin = text.index("        raise(flag_of(pair, peer,")
    line = text[begin : text.index("\n", begin) + 1]
    stores = "        if (order.own(turn))\n            for (int p"
    return instead(stores, line + stores)(instead(line)(text))


HEAR = "hear(pair, state, flag_of(pair, pair.memory[pair.rank], {}, order.tile(turn), half), flag);"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flag_first, "nothing orders the two"),
        (instead("st.release.sys", "st.relaxed.sys"), "nothing orders the two"),
        (instead("ld.acquire.sys", "ld.relaxed.sys"), "missing fence"),
        (instead(HEAR.format("PARTIAL"), ";"), "race"),
        (instead(HEAR.format("RESULT"), ";"), "race"),
        (instead('        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'), "fence.proxy.async"),
        (instead("        wait(shared.free + 8 * half, round++ % 2 ^ 1);\n"), "cp.async.bulk.wait_group.read"),
    ],
    ids=["flag first", "no release", "no acquire", "no wait for sums", "no wait for results", "no proxy fence",
         "buffer in use"],
)  # fmt: skip
def test_a_missing_fence_or_wait_is_found(change: Callable[[str], str], words: str) -> None:
    a, b = drawn(SMALL, 1, whole=True)
    execution = run(Case(SMALL), a, b, change=change)
    assert any(words in finding.message for finding in execution.findings), execution.findings


def test_a_flag_that_does_not_wait_for_its_copies_is_found() -> None:
    """In some orders, as copies arrive at any time until they are waited for."""
    a, b = drawn(SMALL, 1, whole=True)
    change = instead('asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); // it', "// it")
    assert any(run(Case(SMALL), a, b, change=change, seed=seed).findings for seed in range(4))


def test_a_stage_that_is_overwritten_too_early_is_found() -> None:
    size = Size(16, 64, 1032)  # seventeen steps for eight stages
    a, b = drawn(size, 1, whole=False)
    change = instead("            wait(shared.empty + 8 * ring.stage, ring.phase ^ 1);\n")
    assert run(Case(size, blocks=1), a, b, change=change).findings


def test_a_rank_that_is_gone_is_named_and_later_calls_do_not_wait() -> None:
    """Of both calls of the launch only the first waits: its count stands still at 1."""
    a, b = drawn(SMALL, 1, whole=True)
    execution = run(Case(SMALL), a, b, ranks=1)
    assert execution.findings == ()
    assert execution.outputs["state"].reshape(-1, 2).tolist() == [[1, 2]] * 2 + [[0, 0]] * 2
    again = run(Case(SMALL), a, b, ranks=1, before=execution)
    assert again.launches[0].total.warp_instructions < execution.launches[0].total.warp_instructions / 100


def test_the_source_reads_the_structure_and_the_sizes_as_this_side_writes_them() -> None:
    """Every field has a number of its own, which a kernel tells."""
    told = r"""
extern "C" __global__ void told(const __grid_constant__ Pair pair, u64* out) {
    out[0] = pair.rank, out[1] = pair.most, out[2] = pair.slots, out[3] = pair.patience, out[4] = (u64)pair.state;
    out[5] = (u64)pair.memory[0], out[6] = (u64)pair.memory[1];
}
"""
    for name in ("TILE_M", "TILE_K", "THREADS"):
        told += f"static_assert({name} == {getattr(row_parallel, name)});"
    for width in WIDTHS:
        needed = f"STAGES<{width}> * STAGE<{width}> + CONSUMERS * HALF<{width}>"
        told += f"static_assert({needed} + 1024 == {shared_bytes(width)} && STAGES<{width}> > 2);"
    pair = np.array((1, 2, 3 << 33, 4 << 33, 5 << 33, (6 << 33, 7 << 33)), PAIR)
    out = np.zeros(7, np.uint64)
    ptx = compile_cpp(SOURCE.read_text("utf-8") + told, "x.cu", INCLUDE, (), EMULATED_ARCHITECTURE).ptx
    buffers = {"out": buffer("out", out, Role.OUTPUT)}
    execution = execute(plan_of(ptx, "told", buffers, (Structure(pair.tobytes()), Pointer("out")), (1,), (1,)), {})
    assert execution.outputs["out"].tolist() == [1, 2, *(n << 33 for n in range(3, 8))]


@pytest.mark.parametrize("size", [Size(1, 8, 8), Size(70, 136, 72), Size(4096, 8192, 64), Size(300, 264, 8)])
def test_the_memory_has_room_for_every_width(size: Size) -> None:
    """Flags, slots and C follow each other; a rank owns half of the tiles, or one more."""
    room = Room(size.m, size.n)
    for width in WIDTHS:
        tiles = size.tiles(width)
        assert tiles <= room.most and 2 * 2 * 4 * room.most <= room.slots
        assert room.slots + -(-tiles // 2) * 128 * width * 2 <= room.out
    assert room.out + 2 * size.m * size.n <= room.nbytes and room.slots % 1024 == room.out % 1024 == 0


def test_few_rows_get_narrow_tiles_and_many_wide_ones() -> None:
    assert [Size(m, 8192, 4096).width(132) for m in (1, 64, 256, 1024, 4096)] == [64, 64, 128, 256, 256]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: Size(0, 64, 64), "is empty"),
        (lambda: Size(4, 68, 64), "n is 68: .*multiple of 8"),
        (lambda: Size(4, 64, 100), "k of a rank is 100: .*multiple of 8"),
        (lambda: Room(64, 64).holds(Size(65, 64, 8)), "65 x 64 does not fit"),
    ],
)
def test_what_does_not_fit_is_said(ask: Callable[[], Any], words: str) -> None:
    with pytest.raises(PeerError, match=words):
        ask()
