"""How wrong the cache model and the time estimate are: both beside Nsight Compute and the clock, a record a kernel.

The subjects are the kernels of sized.py, to which the estimate's constants were fitted, and the labs' references and
rungs on their profile case, to which nothing was. Writes benchmarks/results/cache_model.json and estimate.json. Run as
`python -m benchmarks.model_errors` on a machine with a GPU whose datasheet is known, and ncu.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np
from cuda.core import Device, EventOptions

from autograder.own_work import capture_submission
from autograder.records.machine import choose_machine, serves
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, find_lab, kernel_labs
from benchmarks import nsight, sized
from course import results
from warplab import emulator
from warplab.emulator.model.estimate import estimate
from warplab.errors import DeviceError, WarplabError
from warplab.gpu import executor, trusted
from warplab.gpu.stopwatch import ColdCache
from warplab.hardware.chips import find_chip
from warplab.hardware.device import present
from warplab.hardware.records import Chip
from warplab.plan.execution import CACHE_METRICS, Execution
from warplab.plan.model import Plan

TURNS = 15
SEED = 20
HIDE_MICROSECONDS = 120.0
SMALL = 1000  # sectors: below, what reads of code and parameters add is no error of the model
COMMAND = "python -m benchmarks.model_errors"


@dataclass(frozen=True)
class Subject:
    """A plan with its inputs."""

    name: str
    plan: Plan
    inputs: Mapping[str, np.ndarray]


def subjects(architecture: str) -> list[Subject]:
    """The sized kernels and the labs'."""
    plans = sized.plans(architecture)
    found = [Subject(f"sized/{case.name}", plans[case.name], case.draw()) for case in sized.SIZED]
    for name in kernel_labs():
        lab = find_lab(name)
        if not serves(architecture, lab.needs):
            continue
        case = lab.task.profile
        values = generate(np, lab.task, case, SEED)
        for path in sorted((CHECKOUT / "solutions" / name).glob("*.py")):
            plan = capture_submission(lab, path, (case,), SEED, architecture).plans[case.name]
            label = path.relative_to(CHECKOUT).with_suffix("").as_posix()
            found.append(Subject(label, plan, {key: values[key] for key in plan.buffers if key in values}))
    return found


def measured_seconds(found: list[Subject], architecture: str) -> list[float]:
    """The median time of each plan with a cold L2, in seconds."""
    times = []
    with executor.on_stream() as stream:
        cold = ColdCache(stream)
        begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))
        for subject in found:
            loaded = executor.LoadedPlan(subject.plan, architecture, stream)
            loaded.reset(subject.inputs)
            samples = []
            for _ in range(TURNS):
                cold.sweep()
                trusted.spin(stream, HIDE_MICROSECONDS)
                stream.record(begin)
                loaded.launch()
                stream.record(end)
                end.sync()
                samples.append((end - begin) / 1e3)
            times.append(statistics.median(samples[2:]))
    return times


def cache_records(subject: Subject, execution: Execution, measured: list[dict[str, int]]) -> list[results.Record]:
    """The model beside ncu, over all launches of a plan."""
    records = []
    for field, metric in CACHE_METRICS.items():
        modelled = sum(getattr(launch.caches, field) for launch in execution.launches)
        counted = sum(values[metric] for values in measured)
        if max(modelled, counted) >= SMALL:
            ratio = modelled / counted if modelled and counted else None
            record = results.Record(
                subject.name, metric, modelled, "sectors", baseline="ncu", baseline_value=counted, ratio=ratio,
                conditions="modelled; caches empty at the start",
            )  # fmt: skip
            records.append(record)
    return records


def time_record(subject: Subject, execution: Execution, chip: Chip, measured: float) -> results.Record:
    """The estimate beside the clock."""
    modelled = estimate(execution, chip)
    longest = max(modelled.launches, key=lambda launch: launch.seconds)
    return results.Record(
        subject.name, "estimated time", modelled.seconds, "s", baseline="measured", baseline_value=measured,
        ratio=results.better(modelled.seconds, measured, "s"),
        conditions=f"modelled, not measured; L2 cold; median of {TURNS - 2} runs",
        extra={"bound": longest.bound.name},
    )  # fmt: skip


def _error(record: results.Record) -> float:
    """How many times too much or too little."""
    return exp(abs(log(record.value / record.baseline_value))) if record.value and record.baseline_value else 0.0


def _show(title: str, records: list[results.Record]) -> None:
    known = sorted((_error(r), r.name) for r in records if _error(r))
    if known:
        worst, name = known[-1]
        median = statistics.median(error for error, _ in known)
        print(f"{title:52} {len(records):4} pairs, off by {median:.3f} (median), {worst:.2f} ({name})")


def _measure() -> int:
    architecture, device = choose_machine("gpu").architecture, present()
    chip = find_chip(device.name) if device else None
    if chip is None:
        raise DeviceError("No GPU whose datasheet is known answers in this machine.")
    found = subjects(architecture)
    times = measured_seconds(found, architecture)
    with tempfile.TemporaryDirectory(prefix="warplab-") as folder:
        plans = [(s.plan, dict(s.inputs)) for s in found]
        counted = nsight.counters(plans, list(CACHE_METRICS.values()), Path(folder))
    caches: list[results.Record] = []
    estimates: list[results.Record] = []
    for subject, seconds, launches in zip(found, times, counted, strict=True):
        inputs = dict(subject.inputs)
        execution = emulator.execute(subject.plan, inputs, architecture=architecture, sanitize=False, caches=chip)
        caches += cache_records(subject, execution, launches)
        estimates.append(time_record(subject, execution, chip, seconds))
    header = results.make_header(COMMAND)
    results.write(results.DIRECTORY / "cache_model.json", header, caches)
    results.write(results.DIRECTORY / "estimate.json", header, estimates)
    for metric in CACHE_METRICS.values():
        _show(metric, [r for r in caches if r.metric == metric])
    _show("time, sized kernels", [r for r in estimates if r.name.startswith("sized/")])
    _show("time, labs", [r for r in estimates if not r.name.startswith("sized/")])
    return 0


def main() -> int:
    """Exit code 0 once the files are written, 3 without a GPU or ncu."""
    try:
        return _measure()
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
