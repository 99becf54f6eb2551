"""Runs one case on the emulator, inside a worker process: an endless or crashing case costs only itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from autograder.correctness import judge_case
from autograder.lab import load_lab
from warplab.plan.archive import load
from warplab.plan.execution import Counters, Execution
from warplab.plan.model import Plan


def run(plan: str, task: str, case: str, seed: int) -> dict[str, Any]:
    """Judge the plan in the file `plan` on one case of the lab in the folder `task`; gives CaseOutcome.to_wire()."""
    from warplab import simt

    start = time.perf_counter()
    lab = load_lab(Path(task))
    totals: list[tuple[Counters, dict[int, Counters]]] = []

    def execute(loaded: Plan, inputs: dict[str, np.ndarray]) -> list[Execution]:
        # once only: the emulator is deterministic and finds races and uninitialised reads by itself
        execution = simt.execute(loaded, inputs)
        totals.append((execution.total, execution.lines))
        return [execution]

    outcome = judge_case(lab.task, lab.case(case), seed, load(Path(plan)), execute)
    outcome.counters, outcome.lines = totals[0]
    outcome.seconds = time.perf_counter() - start
    return outcome.to_wire()
