"""The model of time beside the clock: an error per kernel, and what halves and kinds of kernels come to."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations

from benchmarks.clock.subjects import HELD, TUNING, Subject, half_of
from course import results
from warplab import emulator
from warplab.emulator.clock.estimate import Estimate
from warplab.hardware.records import Chip
from warplab.plan.execution import Execution

APART = 1.05  # of two times: then one is the longer
CONDITIONS = "modelled, not measured; nothing is fitted to these kernels"


def executed(subject: Subject, architecture: str, chip: Chip) -> Execution:
    """The launches of a subject as the emulator counts them, without outputs. Raises WarplabError."""
    inputs = dict(subject.inputs)
    run = emulator.execute(subject.plan, inputs, architecture=architecture, sanitize=False, caches=chip)
    return Execution({}, launches=run.launches)


def record(name: str, model: Estimate, measured: float) -> results.Record:
    """The modelled time of a kernel beside the measured one, in seconds."""
    longest = max(model.launches, key=lambda launch: launch.seconds)
    return results.Record(
        name, "modelled time", model.seconds, "s", baseline="measured", baseline_value=measured,
        ratio=results.better(model.seconds, measured, "s"), conditions=CONDITIONS,
        extra={"half": half_of(name), "bound": longest.bound.name},
    )  # fmt: skip


def summaries(records: Sequence[results.Record]) -> list[results.Record]:
    """What the errors of each half come to."""
    found: list[results.Record] = []
    for half in (TUNING, HELD):
        found += _summary(half, [r for r in records if r.extra["half"] == half])
    return found


def _summary(half: str, records: Sequence[results.Record]) -> Iterable[results.Record]:
    ratios = [r.value / (r.baseline_value or 1.0) for r in records]
    errors = [abs(ratio - 1) for ratio in ratios]
    pairs = [
        (a.value > b.value) == ((a.baseline_value or 0) > (b.baseline_value or 0))
        for a, b in combinations(records, 2)
        if not 1 / APART < (a.baseline_value or 0) / (b.baseline_value or 1) < APART
    ]
    ordered = sorted(ratios)
    tenth = len(ordered) // 10
    for metric, value, unit in (
        ("kernels", len(records), "count"),
        ("mean absolute error", statistics.mean(errors), "fraction"),
        ("median error", statistics.median(errors), "fraction"),
        ("within 15%", sum(e <= 0.15 for e in errors) / len(errors), "fraction of kernels"),
        ("within 30%", sum(e <= 0.30 for e in errors) / len(errors), "fraction of kernels"),
        ("pairs in order", sum(pairs) / len(pairs), "fraction of pairs"),
        ("a tenth is below", ordered[tenth], "modelled over measured"),
        ("a tenth is above", ordered[-1 - tenth], "modelled over measured"),
    ):
        yield results.Record(half, metric, value, unit, conditions=CONDITIONS)
