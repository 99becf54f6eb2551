"""Measures the rungs of a lab's ladder: each is counted by the emulator and, where there is a GPU, timed and verified.

The benchmarks write these figures down; the notebooks draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autograder.judge.runner import EFFICIENCY_SECONDS
from autograder.own_work import capture_submission
from autograder.records import measurement
from autograder.records.machine import Machine
from autograder.records.measurement import Measurement, Unmeasured
from autograder.records.report import KernelFigures
from autograder.records.status import Executor
from autograder.spec.inputs import generate
from autograder.spec.lab import Lab
from course.captures import process_for
from warplab import emulator
from warplab.plan.archive import dumps
from warplab.plan.execution import Execution
from warplab.worker.process import Worker

_TIMING_TARGET = "autograder.worker.gpu_stage:efficiency"


@dataclass(frozen=True)
class Rung:
    """One implementation: its kernels' figures, its profile on the emulator, and its time, if a GPU measured it.

    `timing` is None without a GPU.
    """

    name: str
    source: Path
    kernels: tuple[KernelFigures, ...]
    profile: Execution
    timing: Measurement | Unmeasured | None


def climb(lab: Lab, sources: Sequence[Path], machine: Machine, seed: int = 0) -> list[Rung]:
    """Measure each of `sources` (submissions of one lab), in order.

    Raises Rejected for a submission that cannot be captured and WorkerError for one that cannot be timed.
    """
    with Worker() as worker:
        return [_measure(lab, source, machine, seed, worker) for source in sources]


def _measure(lab: Lab, source: Path, machine: Machine, seed: int, worker: Worker) -> Rung:
    task = lab.task
    cases = (task.profile, task.timing)
    captured = capture_submission(lab, source, cases, seed, machine.architecture, captured_in=process_for(source))
    plan = captured.plans[task.profile.name]
    values = generate(np, task, task.profile, seed)
    profile = emulator.execute(plan, {name: values[name] for name in plan.buffers if name in values})
    timing = None
    if machine.device is Executor.GPU:
        payload = {
            "plan": dumps(captured.plans[task.timing.name]),
            "task": str(lab.folder),
            "case": task.timing.name,
            "seed": seed,
            "dimensions": dict(task.timing.dimensions),
        }
        timing = measurement.from_wire(worker.call(_TIMING_TARGET, timeout=EFFICIENCY_SECONDS, **payload))
    return Rung(source.stem, source, captured.kernels, profile, timing)
