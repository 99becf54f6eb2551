"""A small lab made for the tests, and outcomes of it made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from autograder.records.machine import Machine
from autograder.records.measurement import Measurement
from autograder.records.request import Request
from autograder.records.status import Executor
from autograder.spec.lab import Lab, load_lab
from autograder.worker.judge_case import Run
from warplab.plan.execution import Execution, Finding
from warplab.plan.model import Plan

EMULATOR = Machine(Executor.EMULATOR, "sm_90a", "emulator (sm_90a)")
GPU = Machine(Executor.GPU, "sm_90a", "a GPU")

LAB_TOML = """
title = "Twice"
languages = ["numba", "cuda-c++"]
notebook = "00_start_here"
[points]
correctness = 30
safety = 20
traffic = 20
efficiency = 30
[efficiency]
floor = 0.1
target = 0.9
[feedback]
correctness = "00_start_here, section 1"
"""

TASK_PY = """
import numpy as np
from autograder.spec.task import ArraySpec, Budget, Case, Ceiling, Family, ScalarSpec, Task
from warplab.plan.model import Role


def expected(xp, values):
    return {"out": values["factor"] * values["x"].astype(np.float64)}


def bound(xp, values):
    return {"out": 2.0**-24 * xp.abs(expected(xp, values)["out"])}


TASK = Task(
    function="twice",
    arguments=(
        ScalarSpec("factor", "float32"),
        ArraySpec("x", "float32", ("n",), Role.INPUT),
        ArraySpec("out", "float32", ("n",), Role.OUTPUT),
    ),
    correctness=(
        Case("tiny", {"n": 3}, Family.INTEGERS),
        Case("ragged", {"n": 133}, Family.NORMAL),
        Case("secret size", {"n": 77}, Family.WIDE, hidden=True),
        Case("huge", {"n": 1 << 20}, Family.NORMAL, needs_gpu=True),
    ),
    profile=Case("profile", {"n": 1024}, Family.NORMAL),
    timing=Case("timing", {"n": 1 << 20}, Family.NORMAL),
    expected=expected,
    bound=bound,
    flops=lambda d: 1.0 * d["n"],
    bytes_moved=lambda d: 8.0 * d["n"],
    compute_ceiling=Ceiling.FP32_FMA,
    budgets=(
        Budget("global_load_sectors", lambda d: d["n"] // 8, "Let neighbouring lanes read neighbouring elements."),
        Budget("global_store_sectors", lambda d: d["n"] // 8, "Let neighbouring lanes write neighbouring elements."),
    ),
)
"""


def make_lab(root: Path, name: str = "90_twice", toml: str = LAB_TOML, task: str = TASK_PY) -> Lab:
    """Write the lab below `root`/labs and load it."""
    folder = root / "labs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lab.toml").write_text(toml)
    (folder / "task.py").write_text(task)
    return load_lab(folder)


def request(lab: Lab, machine: Machine = EMULATOR, source: str = "submission.py", **more: object) -> Request:
    """A request to grade `source` in the lab's folder."""
    return Request(lab, lab.folder / source, machine, **more)  # type: ignore[arg-type]


def measurement(**changed: Any) -> Measurement:
    """A time that counts, at half of what the memory allows."""
    values: dict[str, Any] = {
        **{"median_ms": 1.0, "low_ms": 0.9, "high_ms": 1.1, "samples": 9, "floor_ms": 0.5, "bound": "memory"},
        **{"efficiency": 0.5, "efficiency_low": 0.45, "efficiency_high": 0.55},
        "ceilings": {"copy": 4e12, "fp32_fma": 6e13},
        "datasheet": {"copy": 4.8e12, "fp32_fma": 6.7e13},
        **{"throttled": False, "shared": False, "shared_fraction": 0.0, "library": None, "throttle_reasons": ()},
        "work": {"copy": 2e9, "fp32_fma": 1e10},
    }
    return Measurement(**(values | changed))


def executor(
    compute: Callable[[dict[str, np.ndarray]], np.ndarray], *findings: Finding, runs: int = 1
) -> Callable[[Plan, dict[str, np.ndarray]], list[Run]]:
    """An executor whose kernels do what `compute` does with the inputs."""

    def execute(plan: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        return [Run(Execution({"out": compute(inputs)}, findings)) for _ in range(runs)]

    return execute
