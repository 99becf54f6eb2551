"""Asynchronous groups in a timeline: from the first copy to the wait that the program put there."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.spec.lab import solutions_folder
from benchmarks.gemm.ladder import plan_of
from tests.emulator.plans import cuda_plan
from warplab.emulator import profile
from warplab.emulator.profiling import Profile
from warplab.emulator.profiling.timeline import IssueKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

SOURCE = """
extern "C" __global__ void groups(const float4* a, float4* out) {
    __shared__ float4 tile[4][32];
    int t = threadIdx.x % 32, w = threadIdx.x / 32;
    unsigned to = __cvta_generic_to_shared(&tile[2 * w][t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(a + t) : "memory");  // first
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");  // an empty group counts
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + 512), "l"(a + 32 + t) : "memory");  // second
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = tile[2 * w][t];
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (w == 1)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + 512), "l"(a + t) : "memory");  // lost
}
"""


@pytest.fixture(scope="module")
def groups() -> Profile:
    a = np.arange(256, dtype=np.float32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(256, np.float32), Role.OUTPUT)}
    return profile(cuda_plan(SOURCE, "groups", arrays, ("a", "out"), (1,), (64,)), {"a": a})


@pytest.mark.parametrize("modelled", [False, True])
def test_a_flight_lasts_from_its_copy_to_the_wait_for_its_group(modelled: bool, groups: Profile) -> None:
    chart = groups.timeline(modelled=modelled)
    rows = SOURCE.splitlines()
    for warp in (0, 1):
        issued = chart.of_warp(warp)
        copies = [i for i in issued if i.text.startswith("cp.async.cg")]
        waits = [i.time for i in issued if i.text.startswith("cp.async.wait")]
        flights = [flight for flight in chart.flights if flight.warp == warp]
        assert [f.start for f in flights] == [c.time for c in copies]
        assert [f.line for f in flights] == [n for n, r in enumerate(rows, 1) for c in copies if n == c.line]
        assert {(f.kind, f.operations) for f in flights} == {(IssueKind.ASYNC, 1)}
        # The first wait leaves the empty group on its way, and so ends the first copy; only wait_all ends the second.
        assert [f.end for f in flights[:2]] == [waits[0], waits[2]]
        assert [f.ended for f in flights] == [True, True, False][: len(flights)]
    assert len([f for f in chart.flights if f.warp == 1]) == 3 and chart.flights[-1].end == chart.end


@pytest.fixture(scope="module")
def hopper() -> Profile:
    """A product with a warp that copies and two warpgroups that multiply, longer than its ring of stages."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 512), (512, 256)))
    path = solutions_folder() / "08_hopper_hgemm" / "numba_2_producer.py"
    return profile(plan_of(path, 128, 256, 512, "sm_90a"), {"a": a, "b": b})


def test_groups_of_products_end_at_their_wait(hopper: Profile) -> None:
    chart = hopper.timeline()
    products = [flight for flight in chart.flights if flight.kind is IssueKind.TENSOR]
    issued = [issue for issue in chart.issues if issue.text.startswith("wgmma.mma_async")]
    assert sum(flight.operations for flight in products) == len(issued) > 0
    ends = {issue.time for issue in chart.issues if issue.text.startswith("wgmma.wait_group")}
    assert all(flight.ended and flight.end in ends for flight in products)


@pytest.mark.parametrize("modelled", [False, True])
def test_a_bulk_copy_lasts_until_somebody_gets_past_its_mbarrier(modelled: bool, hopper: Profile) -> None:
    chart = hopper.timeline(modelled=modelled)
    copies = [flight for flight in chart.flights if flight.kind is IssueKind.ASYNC]
    issued = [issue for issue in chart.issues if issue.text.startswith("cp.async.bulk.tensor")]
    (producer,) = {flight.warp for flight in copies}
    tests = {issue.time: issue for issue in chart.issues if issue.text.startswith("mbarrier.try_wait")}
    assert all(flight.ended and tests[flight.end].warp != producer for flight in copies)
    # All copies of a stage are waited for together, stage after stage.
    stages = 512 // 64
    assert len(copies) == stages and {flight.operations for flight in copies} == {len(issued) // stages}
    assert [flight.start for flight in copies] == sorted(issue.time for issue in issued)[:: len(issued) // stages]
    ends = [flight.end for flight in copies]
    assert ends == sorted(set(ends))


def test_the_address_of_an_mbarrier_is_no_access(hopper: Profile) -> None:
    kinds = {access.text.split(".")[0] for line in hopper.lines() for access in hopper.accesses(line)}
    assert kinds <= {"ld", "st"}
    assert all(issue.access < 0 for issue in hopper.timeline().issues if issue.text.startswith("mbarrier"))


def test_in_the_model_nobody_waits_for_arrivals_at_other_mbarriers(hopper: Profile) -> None:
    """Eight warps multiply side by side: each step of k begins for all of them at about the same time."""
    chart = hopper.timeline(modelled=True)
    followers = (5, 6, 7, 9, 10, 11)  # the first warp of each group has more to do
    products = [[f.start for f in chart.flights if f.warp == warp and f.kind is IssueKind.TENSOR] for warp in followers]
    spreads = [max(step) - min(step) for step in zip(*products, strict=True)]
    a_step = (products[0][-1] - products[0][0]) / (len(spreads) - 1)
    assert len(spreads) == 512 // 64 and max(spreads) < a_step / 4
