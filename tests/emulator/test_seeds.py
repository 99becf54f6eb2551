"""A seed makes the order of warps random: right kernels do not notice, racy ones do, the same seed repeats itself."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute, executor
from warplab.emulator.crew import Residence
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Plan, Role

pytestmark = pytest.mark.stored


def plan_of(body: str, grid: int = 1, threads: int = 256) -> Plan:
    source = f'extern "C" __global__ void k(int* out)\n{{\n    int t = threadIdx.x;\n    {body}\n}}'
    arrays = {"out": (np.zeros(4096, np.int32), Role.OUTPUT)}
    return cuda_plan(source, "k", arrays, ("out",), (grid,), (threads,))


def run(plan: Plan, seed: int | None, workers: int = 1) -> Execution:
    return execute(plan, {}, seed=seed, workers=workers, instruction_budget=20_000_000)


# Tickets are drawn in whatever order the warps come; every thread gets one, and the sum is the same.
TICKETS = """
    __shared__ int next, sum;
    if (t == 0) { next = 0; sum = 0; }
    __syncthreads();
    int mine = atomicAdd(&next, 1);
    atomicAdd(&sum, mine);
    __syncthreads();
    out[t] = sum;
"""
# Two halves of each warp wait for each other's flag, one after the other.
PING_PONG = """
    __shared__ volatile int ball[8];
    int w = t / 32;
    if (t % 32 == 0) ball[w] = 0;
    __syncthreads();
    for (int i = 0; i < 10; i++) {
        if (t % 32 < 16) { while (ball[w] != 2 * i) {} if (t % 32 == 0) ball[w] = 2 * i + 1; }
        else { while (ball[w] != 2 * i + 1) {} if (t % 32 == 16) ball[w] = 2 * i + 2; }
        __syncwarp();
    }
    out[t] = ball[w];
"""
LAST_WRITER = """
    __shared__ int winner;
    winner = t / 32;
    __syncthreads();
    out[256 * blockIdx.x + t] = winner;
"""
LOST_UPDATES = """
    __shared__ int count;
    if (t == 0) count = 0;
    __syncthreads();
    for (int i = 0; i < 50; i++) if (t % 32 == 0) *(volatile int*)&count = *(volatile int*)&count + 1;
    __syncthreads();
    out[t] = count;
"""


def test_a_right_kernel_gives_the_same_under_every_order() -> None:
    tickets, ping_pong = plan_of(TICKETS), plan_of(PING_PONG)
    for seed in [None, *range(20)]:
        result = run(tickets, seed)
        assert not result.findings
        assert np.array_equal(result.outputs["out"][:256], np.full(256, 255 * 256 // 2))
    for seed in [None, *range(5)]:
        assert np.array_equal(run(ping_pong, seed).outputs["out"][:256], np.full(256, 20))


def test_a_racy_kernel_differs_among_seeds() -> None:
    plan = plan_of(LAST_WRITER)
    winners = set()
    for seed in range(20):
        result = run(plan, seed)
        winners.add(int(result.outputs["out"][0]))
        assert {f.kind for f in result.findings} == {FindingKind.RACE}
    assert len(winners) > 3
    counts = {int(run(plan_of(LOST_UPDATES), seed).outputs["out"][0]) for seed in range(5)}
    assert len(counts) > 1 and max(counts) <= 400


def test_a_seed_repeats_itself_on_any_number_of_workers() -> None:
    plan = plan_of(LAST_WRITER, grid=16)
    for seed in range(3):
        alone, shared = run(plan, seed, workers=1), run(plan, seed, workers=4)
        assert np.array_equal(alone.outputs["out"], shared.outputs["out"])
        assert alone.findings == shared.findings
    blocks = run(plan, 1).outputs["out"].reshape(16, 256)[:, 0]
    assert len(set(blocks.tolist())) > 2, "every block has an order of its own"


TICKET = "if (t == 0) out[1 + blockIdx.x] = atomicAdd(out, 1);"
WARP_TICKET = "if (t % 32 == 0) out[1 + t / 32] = atomicAdd(out, 1);"


def turns(body: str, places: int, grid: int = 1, **order) -> np.ndarray:
    """The turn at which each block, or warp, came."""
    source = f'extern "C" __global__ void k(int* out)\n{{\n    int t = threadIdx.x;\n    {body}\n}}'
    plan = cuda_plan(source, "k", {"out": (np.zeros(4096, np.int32), Role.INOUT)}, ("out",), (grid,), (256,))
    result = execute(plan, {"out": np.zeros(4096, np.int32)}, **order)
    assert not result.findings
    return result.outputs["out"][1 : 1 + places]


@pytest.mark.parametrize("grid", [1, 2, 7, 64, 1000])
def test_each_block_starts_once_in_every_order(grid: int) -> None:
    numbers = np.arange(grid)
    assert np.array_equal(turns(TICKET, grid, grid), numbers)
    assert np.array_equal(turns(TICKET, grid, grid, reverse=True), numbers[::-1])
    drawn = [turns(TICKET, grid, grid, seed=seed) for seed in range(8)]
    assert all(np.array_equal(np.sort(order), numbers) for order in drawn)
    assert grid < 7 or len({order.tobytes() for order in drawn}) > 4
    assert grid == 1 or len({int(order[0] < order[-1]) for order in drawn}) == 2, "the first block comes after the last"


def test_blocks_start_in_order_as_far_as_there_is_no_room_for_them_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "residence", lambda *_: Residence(1, 10, 10))
    came = turns(TICKET, 25, 25, reverse=True)
    assert came.tolist() == [*range(9, -1, -1), *range(19, 9, -1), *range(24, 19, -1)]


def test_warps_start_backwards_in_the_reverse_order() -> None:
    assert turns(WARP_TICKET, 8).tolist() == list(range(8))
    assert turns(WARP_TICKET, 8, reverse=True).tolist() == list(range(7, -1, -1))


def test_an_order_is_reversed_or_drawn() -> None:
    with pytest.raises(ValueError, match="leave out one of the two"):
        turns(TICKET, 1, seed=1, reverse=True)
