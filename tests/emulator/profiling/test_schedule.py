"""The modelled schedule, against schedules made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator import kernels
from tests.emulator.plans import numba_plan, plan_of
from warplab.emulator import profile
from warplab.emulator.profiling.schedule import LATENCIES, SCHEDULERS
from warplab.emulator.profiling.timeline import Clock, IssueKind, Reason, Timeline
from warplab.plan.model import Buffer, Plan, Pointer, Role

pytestmark = pytest.mark.stored

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.shared .align 16 .b8 tile[4096];
.visible .entry k(.param .u64 p)
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    BODY
    ret;
}
"""


def modelled(body: str, threads: int = 32) -> Timeline:
    buffer = Buffer("out", Role.OUTPUT, "int32", (1024,), (4,))
    plan: Plan = plan_of(
        HEAD.replace("BODY", body), "k", {"out": buffer}, (Pointer("out", 0, "out"),), (1,), (threads,)
    )
    return profile(plan, {}).timeline(modelled=True)


def times(chart: Timeline, text: str, warp: int = 0) -> list[int]:
    return [issue.time for issue in chart.of_warp(warp) if issue.text.startswith(text)]


def test_a_result_takes_its_latency_and_others_go_on_meanwhile() -> None:
    body = "add.u32 %r2, %r1, 1; mul.lo.u32 %r3, %r1, 3; sub.u32 %r4, %r1, 2; xor.b32 %r5, %r2, 7; and.b32 %r6, %r5, 3;"
    chart = modelled(body)
    (first,), (second,), (third,) = times(chart, "add"), times(chart, "mul"), times(chart, "sub")
    assert (second, third) == (first + 1, first + 2)
    assert times(chart, "xor") == [first + 4] and times(chart, "and") == [first + 8]
    assert chart.clock is Clock.MODEL and "cycles of a simple scheduler" in str(chart)


def test_a_load_is_waited_for_by_who_needs_it() -> None:
    body = """
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
    ld.global.u32 %r2, [%rd2]; add.u32 %r3, %r1, 1; sub.u32 %r4, %r2, 1;
    """
    chart = modelled(body)
    (load,), (other,) = times(chart, "ld.global"), times(chart, "sub")
    assert other - load == LATENCIES[IssueKind.GLOBAL]
    (stall,) = [s for s in chart.stalls if s.reason is Reason.GLOBAL]
    assert (stall.warp, stall.end, stall.lanes) == (0, other, 0xFFFFFFFF)


def test_a_conflict_holds_up_the_pipe() -> None:
    body = """
    shl.b32 %r2, %r1, SHIFT; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;
    st.shared.u32 [%r3], %r1; ld.shared.u32 %r4, [%r3]; add.u32 %r5, %r4, 1;
    """
    quick, slow = modelled(body.replace("SHIFT", "2")), modelled(body.replace("SHIFT", "7"))
    wait = [times(c, "add.u32 %r5")[0] - times(c, "ld.shared")[0] for c in (quick, slow)]
    assert wait[0] == LATENCIES[IssueKind.SHARED]
    # The store and the load have 32 wavefronts each, one behind the other.
    assert wait[1] == LATENCIES[IssueKind.SHARED] + 31 + 31


@pytest.mark.parametrize("warps", [1, 4, 5, 12])
def test_a_scheduler_issues_one_instruction_a_cycle(warps: int) -> None:
    chart = modelled(" ".join(f"add.u32 %r{n}, %r1, {n};" for n in range(2, 18)), 32 * warps)
    slots = [(issue.time, issue.warp % SCHEDULERS) for issue in chart.issues]
    assert len(slots) == len(set(slots)) == 19 * warps
    assert chart.end >= 19 * -(-warps // SCHEDULERS)
    assert chart.end <= 19 * -(-warps // SCHEDULERS) + 8
    for warp in range(warps):
        order = [issue.pc for issue in chart.of_warp(warp)]
        assert order[2:] == sorted(order[2:]) and {0, 1} == set(order[:2])  # what all adds need comes first


def test_nobody_passes_a_barrier_before_all_have_come() -> None:
    body = """
    setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, 0; mov.u32 %r5, 0;
    OUTER:
    @!%p1 bra JOIN;
    LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 50; @%p2 bra LOOP;
    JOIN: bar.sync 0;
    mov.u32 %r2, 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 3; @%p3 bra OUTER;
    """
    chart = modelled(body, 128)
    arrivals = [times(chart, "bar.sync", warp) for warp in range(4)]
    assert [len(a) for a in arrivals] == [3] * 4
    for phase in range(3):
        last = max(a[phase] for a in arrivals)
        assert last == arrivals[0][phase]  # warp 0 turns in its loop
        for warp in range(4):
            after = [i.time for i in chart.of_warp(warp) if i.time > arrivals[warp][phase]]
            assert min(after) > last
            if phase < 2:
                assert min(after) <= last + 8  # and soon after
    waits = [s for s in chart.stalls if s.reason is Reason.BARRIER]
    assert {s.warp for s in waits} >= {1, 2, 3} and len([s for s in waits if s.end - s.start > 100]) == 9


def test_the_same_instructions_run_in_the_model() -> None:
    a = np.random.default_rng(3).random((64, 64), dtype=np.float32)
    values = {"a": a, "b": a, "c": a}
    plan = numba_plan(kernels.tiled_gemm, values, {"c": Role.OUTPUT}, (4, 4), (16, 16))
    profiled = profile(plan, {"a": a, "b": a}, block=(1, 2, 0))
    plain, chart = profiled.timeline(), profiled.timeline(modelled=True)
    for warp in range(8):
        mine = sorted((i.pc, i.mask) for i in chart.of_warp(warp))
        assert mine == sorted((i.pc, i.mask) for i in plain.of_warp(warp))
    assert [i.time for i in chart.issues] == sorted(i.time for i in chart.issues)
    # A barrier takes all warps through at about the same time.
    for n in range(8):
        spread = [times(chart, "bar.sync", warp)[n] for warp in range(8)]
        assert max(spread) - min(spread) < LATENCIES[IssueKind.GLOBAL]


def test_padding_shortens_the_modelled_transpose() -> None:
    a = np.zeros((64, 64), np.float32)
    ends = {}
    for kernel in (kernels.transpose_unpadded, kernels.transpose_padded):
        plan = numba_plan(kernel, {"a": a, "out": a}, {"out": Role.OUTPUT}, (2, 2), (32, 8))
        chart = profile(plan, {"a": a}).timeline(modelled=True)
        ends[kernel.__name__] = sum(s.end - s.start for s in chart.stalls if s.reason is Reason.SHARED)
    # 8 warps read 4 columns each: 992 wavefronts too many, which the warps wait for together.
    assert ends["transpose_unpadded"] > 5 * ends["transpose_padded"]


def test_loads_start_before_their_neighbours_results_are_needed() -> None:
    body = """
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
    ld.global.u32 %r2, [%rd2]; add.u32 %r3, %r2, 1; st.shared.u32 [tile], %r3;
    ld.global.u32 %r4, [%rd2+128]; add.u32 %r5, %r4, 1; st.shared.u32 [tile+4], %r5;
    """
    chart = modelled(body)
    first, second = times(chart, "ld.global")
    assert second == first + 1
    stores = times(chart, "st.shared")
    assert stores == sorted(stores) and stores[0] >= first + LATENCIES[IssueKind.GLOBAL]
    assert chart.end < first + LATENCIES[IssueKind.GLOBAL] + 20  # both latencies at once


def test_stores_keep_their_place_and_barriers_divide() -> None:
    body = """
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
    ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd2], %r1; ld.global.u32 %r3, [%rd2+256];
    bar.sync 0; ld.global.u32 %r4, [%rd2+512]; add.u32 %r5, %r4, %r3;
    """
    chart = modelled(body)
    order = [i.text.split()[0] for i in chart.of_warp(0) if ".global" in i.text or "bar" in i.text]
    assert order == ["ld.global.u32", "st.global.u32", "ld.global.u32", "bar.sync", "ld.global.u32"]
