"""Layers shared by ranks, on processes over Gloo, against the same in float64 on one; and their records."""

from __future__ import annotations

import multiprocessing
from multiprocessing.queues import Queue
from pathlib import Path

import pytest

from benchmarks.sharded.records import TRAFFIC, WHOLE, WORK, records
from systems.parallel.machines import DGX_H200
from systems.sharded.planned import EXPERT, TENSOR, planned
from tests.sampling import only_whole

pytestmark = pytest.mark.processes

pytest.importorskip("torch")


def checked(rank: int, ranks: int, meeting: str, silent: bool, said: Queue) -> None:
    """What the check says on one rank, "" if all is right."""
    from systems.network.execution.calls import meet
    from systems.sharded import truth
    from systems.sharded.exchange import Exchange

    device, _ = meet("gloo", rank, ranks, meeting)
    try:
        truth.check(rank, ranks, device, Exchange(silent))
        said.put("")
    except truth.WrongLayer as error:
        said.put(str(error))


def check_on(ranks: int, folder: Path, silent: bool = False) -> list[str]:
    context = multiprocessing.get_context("forkserver")  # which imports PyTorch once for all of them
    context.set_forkserver_preload([__name__])
    said = context.Queue()
    processes = [
        context.Process(target=checked, args=(rank, ranks, str(folder / "meeting"), silent, said))
        for rank in range(ranks)
    ]
    try:
        for process in processes:
            process.start()
        return [said.get(timeout=600) for _ in processes]
    finally:
        for process in processes:
            process.kill()
            process.join()


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=only_whole)])
def test_shared_layers_and_their_gradients_are_those_of_one_rank(ranks: int, tmp_path: Path) -> None:
    assert check_on(ranks, tmp_path) == [""] * ranks


def test_a_layer_that_exchanges_nothing_is_wrong(tmp_path: Path) -> None:
    assert all("the result is off by" in said for said in check_on(2, tmp_path, silent=True))


def test_the_planner_counts_the_layer_that_is_measured() -> None:
    """Its traffic by hand: four all-reduces of tokens x 8192, and 8 (1 - 1/n) copies of each token four times."""
    tensor, expert = planned(TENSOR, 4, 4096, DGX_H200), planned(EXPERT, 4, 4096, DGX_H200)
    rate = 0.82 * 450e9
    assert tensor.traffic == pytest.approx(4 * (2 * 3 / 4 * 2 * 4096 * 8192) / rate, rel=0.02)
    assert expert.traffic == pytest.approx(4 * 4096 * 8 * 3 / 4 * 2 * 7168 / rate, rel=0.01)
    # Six FLOP for a parameter and token, at half of the peak, is the least that the work can be.
    parameters = (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) / 4
    assert tensor.work > 6 * 4096 * parameters / (0.5 * 989.4e12)
    assert expert.work > 6 * 4096 * 8 * 3 * 7168 * 2048 / (0.5 * 989.4e12)


def test_records_stand_beside_what_is_planned() -> None:
    one = {"name": EXPERT, "tokens": 1024, "calls": 5}
    found = list(records({**one, "ways": {WHOLE: [3e-3] * 3, WORK: [2e-3] * 3, TRAFFIC: [1e-3] * 3}}, 4, DGX_H200))
    said = planned(EXPERT, 4, 1024, DGX_H200)
    assert [record.baseline_value for record in found] == pytest.approx(
        [1e6 * (said.work + said.traffic), 1e6 * said.work, 1e6 * said.traffic]
    )
    assert [record.value for record in found] == pytest.approx([3000, 2000, 1000])
    assert found[2].ratio == pytest.approx(said.traffic / 1e-3)
    assert all(record.extra["gpus"] == 4 and record.shape == (4, 1024) for record in found)
