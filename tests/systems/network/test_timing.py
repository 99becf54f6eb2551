"""Schedules timed beside the library's collectives: over Gloo here, over NCCL where there are two GPUs."""

from __future__ import annotations

import importlib.util

import pytest

from systems.network.collectives import Collective
from systems.network.execution import Backend
from systems.network.execution.timing import CannotTime, Timing, time_schedules
from systems.network.schedules import Op, Phase, Schedule, Transfer, build
from tests.sampling import only_whole
from warplab.hardware import count

pytestmark = pytest.mark.processes

AR = Collective.ALL_REDUCE
SCHEDULES = [build.ring(AR, 2), build.all_to_all(2)]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


def whole(found: list[Timing], turns: int) -> bool:
    return all(len(way) == turns and min(way) > 0 for one in found for way in (one.schedule, one.library))


@needs_torch
def test_each_schedule_is_carried_out_and_timed_in_turns_with_the_library() -> None:
    found = time_schedules(SCHEDULES, [4096, 8192], Backend.GLOO, turns=3)
    assert len(found) == 2 and whole(found, 3)


def test_a_wrong_schedule_is_not_started() -> None:
    wrong = Schedule("wrong", AR, 2, 1, (Phase((Transfer(0, 0, 1, 0, Op.REDUCE),)),))
    with pytest.raises(CannotTime, match="^wrong is wrong: Rank 0 ends without the data of rank 1"):
        time_schedules([wrong], [4096])


@only_whole
@needs_torch
@pytest.mark.skipif(count() >= 2, reason="there are GPUs enough")
def test_too_few_gpus_are_said_to_be_too_few() -> None:
    with pytest.raises(CannotTime, match="2 ranks need a GPU each, and PyTorch sees"):
        time_schedules(SCHEDULES[:1], [4096])


@pytest.mark.multigpu
@needs_torch
def test_two_gpus() -> None:
    assert whole(time_schedules(SCHEDULES, [1 << 20, 256 << 20]), 15)
