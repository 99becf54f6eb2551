"""A judge that grades a queue of submissions, as a process of its own that a test can kill at any point.

usage: python -m tests.autograder.fault_judge FOLDER ISOLATION

FOLDER holds the hand-made lab, `queue/*.py` and `reports/`. What has a report is not graded again. Capture and the
process of the worker are real; NumPy computes in it what kernels would, so that a hundred faults take a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autograder.judge.pipeline import grade
from autograder.records.machine import Machine
from autograder.records.request import Request
from autograder.records.status import Executor, Status
from autograder.report.json_file import write_reports
from autograder.spec.inputs import generate
from autograder.spec.lab import load_lab
from autograder.worker import prepare_stage
from autograder.worker.judge_case import Run, judge_case
from warplab.plan.archive import loads
from warplab.plan.execution import Counters, Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan
from warplab.sandbox.isolation import Isolation
from warplab.worker.process import Worker

SEED = 11
SECTORS = 128  # what the lab's budget allows


def run(plan: bytes, task: str, case: str, seed: int, other: Any = None) -> dict[str, Any]:
    """What `emulator_stage.run` does, with NumPy for the kernels: out = factor * x. Runs in the worker."""
    lab = load_lab(Path(task))

    def execute(captured: Plan, inputs: Mapping[str, np.ndarray]) -> list[Run]:
        factor = next(a.value for a in captured.launches[0].arguments if getattr(a, "dtype", "") == "float32")
        return [Run(Execution({"out": np.float32(factor) * inputs["x"]}))]

    captured = loads(plan)
    outcome = judge_case(lab.task, lab.case(case), generate(np, lab.task, lab.case(case), seed), captured, execute)
    strided = captured.launches[0].block[0] != 128
    outcome.counters = Counters(global_load_sectors=SECTORS << strided, global_store_sectors=SECTORS)
    return outcome.to_wire()


def prepare(**payload: Any) -> dict[str, Any]:
    """What autograder.worker.prepare_stage.prepare does."""
    return prepare_stage.prepare(**payload)


def warm_up(parts: list[str]) -> dict[str, Any]:
    """What autograder.worker.emulator_stage.warm_up answers."""
    return {"seconds": 0.0}


class StandIn:
    """A worker whose process runs the functions above instead of the emulator."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """As Worker.call."""
        function = target.partition(":")[2]
        return self._worker.call(f"tests.autograder.fault_judge:{function}", timeout=timeout, **payload)


def main(folder: Path, isolation: Isolation) -> None:
    """Grade what has no report yet. A grade that the judge itself could not make is left for the next start."""
    (lab_folder,) = (folder / "labs").iterdir()
    lab = load_lab(lab_folder)
    machine = Machine(Executor.EMULATOR, EMULATED_ARCHITECTURE, "stand-in", isolation)
    with Worker() as worker:
        for source in sorted((folder / "queue").glob("*.py")):
            target = folder / "reports" / f"{source.stem}.json"
            if target.exists():
                continue
            report = grade(Request(lab, source, machine, SEED), StandIn(worker))
            if report.status is not Status.JUDGE_ERROR:
                write_reports([report], target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Isolation(sys.argv[2]))
