"""Records of the sharded layers, of the times that their ranks took, beside what the planner says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from course.results import Record
from systems.parallel.machines import Machine
from systems.sharded.planned import Planned, model_of, planned
from warplab.gpu.statistics import median_interval

METRIC = "forward and backward"
WHOLE, WORK, TRAFFIC = "whole", "without traffic", "traffic alone"
_TURNS = "{} samples in turns, the slowest rank of each; CUDA graphs of {} calls; NVLS off; beside it, modelled: {}"


def records(one: dict[str, Any], ranks: int, machine: Machine) -> Iterator[Record]:
    """Of one size: the time of each way; `ratio` is the planner's time over it, 1 where it is right."""
    name, tokens = one["name"], one["tokens"]
    said = planned(name, ranks, tokens, machine)
    for way, samples in one["ways"].items():
        interval, words = median_interval([second * 1e6 for second in samples]), _said(said)[way] * 1e6
        print(f"{name:24}{ranks} GPUs {tokens:6} tokens {way:18}{interval.value:10.1f} us, planned {words:10.1f}")
        yield Record(
            name, METRIC, interval.value, "us", way, (ranks, tokens), "bfloat16", (interval.low, interval.high),
            baseline="the planner (modelled)", baseline_value=words, ratio=words / interval.value,
            conditions=_TURNS.format(interval.samples, one["calls"], machine.name),
            extra={"gpus": ranks, "model": model_of(name).name},
        )  # fmt: skip


def _said(of: Planned) -> dict[str, float]:
    return {WHOLE: of.whole, WORK: of.work, TRAFFIC: of.traffic}
