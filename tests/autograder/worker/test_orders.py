"""A case is run in several orders: what is right by luck of one of them is found in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.records.status import Status
from autograder.spec.inputs import scalars
from autograder.spec.lab import Lab
from autograder.worker import emulator_stage, orders
from autograder.worker.orders import in_orders, order_may_matter
from tests.autograder.handmade import make_lab
from warplab.emulator.orders import Order
from warplab.plan.archive import dumps
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Counters, Execution, Finding, FindingKind, LaunchProfile
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, HostCall, Plan, Role

pytestmark = pytest.mark.stored

SEED = 5


PLACES = '''
import cupy
import numpy as np

kernel = cupy.RawKernel(r"""
extern "C" __global__ void kernel(int* x, int* next, int n) {{
    __shared__ int own;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) own = 0;
    __syncthreads();
    if (i < n) {statement};
}}
""", "kernel")


def f(x, next):
    kernel(((x.size + 127) // 128,), (128,), (x, next, np.int32(x.size)))
'''


@pytest.mark.parametrize(
    ("statement", "matters"),
    [
        ("x[i] = atomicAdd(next, 1)", True),
        ("x[i] += 1", False),
        ("x[i] = atomicAdd(&own, 1)", False),
        ("x[i] = atomicCAS(next, 0, i)", True),
    ],
)
def test_a_large_case_is_shuffled_where_blocks_share_what_atomics_change(
    statement: str, matters: bool, tmp_path: Path
) -> None:
    path = tmp_path / "places.py"
    path.write_text(PLACES.format(statement=statement))
    arrays = (ArrayArgument(name, "int32", (300,), Role.INOUT) for name in ("x", "next"))
    (plan,) = capture(path, [HostCall("f", tuple(arrays))])
    assert order_may_matter(plan, EMULATED_ARCHITECTURE) is matters


NOTHING = Plan("nothing", {}, {}, ())


def ran(instructions: int, multiply_adds: int = 0, *findings: Finding) -> Execution:
    total = Counters(warp_instructions=instructions, tensor_multiply_adds=multiply_adds)
    return Execution({}, findings, (LaunchProfile("k", (1, 1, 1), (32, 1, 1), total, {}),))


def test_small_cases_run_in_three_more_orders_and_the_reverse_one_is_among_them() -> None:
    found = [order for order, _ in in_orders(lambda order: ran(1000), NOTHING, EMULATED_ARCHITECTURE, SEED)]
    assert found[:2] == [Order(), Order(reverse=True)]
    drawn = [order.seed for order in found[2:]]
    assert len(drawn) == len(set(drawn)) == 2 and None not in drawn
    others = [order for order, _ in in_orders(lambda order: ran(1000), NOTHING, EMULATED_ARCHITECTURE, SEED + 1)]
    assert others[2:] != found[2:]


def test_large_cases_and_those_with_findings_run_once() -> None:
    for instructions, multiply_adds in ((orders.SMALL + 1, 0), (0, 17 * orders.SMALL)):
        large = ran(instructions, multiply_adds)
        assert len(in_orders(lambda order, large=large: large, NOTHING, EMULATED_ARCHITECTURE, SEED)) == 1
    bad = ran(10, 0, Finding(FindingKind.RACE, "a race"))
    assert len(in_orders(lambda order: bad, NOTHING, EMULATED_ARCHITECTURE, SEED)) == 1
    late = in_orders(lambda order: bad if order.reverse else ran(10), NOTHING, EMULATED_ARCHITECTURE, SEED)
    assert [order for order, _ in late] == [Order(), Order(reverse=True)]


CUDA = '''
import cupy

kernel = cupy.RawKernel(r"""
__device__ int order, warps[64];
extern "C" __global__ void twice(float factor, const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
""", "twice")

def twice(factor, x, out):
    kernel(((x.size + 31) // 32,), (BLOCK,), (cupy.float32(factor), x, out, cupy.int32(x.size)))
'''
LUCKY = {
    # Only the first block to come does its work as it should: it takes itself for block 0.
    "the first block is block 0": """
        __shared__ int turn;
        if (threadIdx.x == 0) turn = atomicAdd(&order, 1);
        __syncthreads();
        if (i < n) out[i] = turn % gridDim.x == 0 && blockIdx.x != 0 ? 0 : factor * x[i];
    """,
    # Blocks tell by a counter which part of the array is theirs, and one of them takes its own number instead.
    "blocks come one after the other": """
        __shared__ int turn;
        if (threadIdx.x == 0) turn = atomicAdd(&order, 1) % gridDim.x;
        __syncthreads();
        if (blockIdx.x == gridDim.x - 1) turn = blockIdx.x;
        i = turn * blockDim.x + threadIdx.x;
        if (i < n) out[i] = factor * x[i];
    """,
    "warps come one after the other": """
        int turn = 0;
        if (threadIdx.x % 32 == 0) turn = atomicAdd(&warps[blockIdx.x], 1) % 2;
        turn = __shfl_sync(0xffffffff, turn, 0);
        if (i < n) out[i] = turn == threadIdx.x / 32 ? factor * x[i] : 0;
    """,
}


def judged(folder: Path, body: str, block: int) -> dict:
    lab: Lab = make_lab(folder)
    case = lab.case("ragged")
    path = folder / "submission.py"
    path.write_text(CUDA.replace("BODY", body).replace("BLOCK", str(block)))
    (plan,) = capture(path, [lab.task.host_call(case.dimensions, scalars(lab.task, case, SEED))])
    return emulator_stage.run(dumps(plan), str(lab.folder), case.name, SEED)


@pytest.mark.parametrize("body", LUCKY.values(), ids=LUCKY.keys())
def test_what_is_right_by_luck_of_the_order_is_not_right(body: str, tmp_path: Path, monkeypatch) -> None:
    block = 64 if "warps" in body else 32
    outcome = judged(tmp_path, body, block)
    assert outcome["status"] == Status.RUNS_DISAGREE, outcome
    assert "with the last blocks and warps first" in outcome["message"]
    monkeypatch.setattr(orders, "further_orders", lambda seed, drawn: [])
    assert judged(tmp_path, body, block)["status"] == Status.PASSED, "it is right in the fixed order"
