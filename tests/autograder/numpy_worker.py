"""A right submission, and a worker that does what its kernels do with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec.inputs import generate
from autograder.spec.lab import Lab
from autograder.worker import prepare_stage
from autograder.worker.judge_case import Run, judge_case
from tests.autograder.handmade import measurement
from warplab.plan.archive import loads
from warplab.plan.execution import Counters, Execution, Finding
from warplab.plan.model import Plan
from warplab.worker.process import WorkerError

GOOD = """
from numba import cuda

@cuda.jit
def kernel(factor, x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = factor * x[i]

def twice(factor, x, out):
    kernel[(x.size + 127) // 128, 128](factor, x, out)
"""
SEED = 987654321987


class NumPyWorker:
    """Does what the kernels of GOOD do. `faults` has the errors of calls by case name."""

    def __init__(
        self,
        lab: Lab,
        counters: Counters | None = None,
        profiled: Finding | None = None,
        forged: Any = None,
        timing: Any = None,
        **faults: WorkerError,
    ) -> None:
        self.lab, self.faults, self.calls, self.profiled, self.forged = lab, faults, [], profiled, forged
        self.timing = timing
        self.counters = counters or Counters(global_load_sectors=128, global_store_sectors=128)

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        if target.endswith((":warm_up", ":take")):
            return {"seconds": 0.0}
        if target.endswith(":prepare"):
            return prepare_stage.prepare(**payload)
        self.calls.append((target, payload["case"]))
        if self.forged is not None:
            return self.forged
        if payload["case"] in self.faults:
            raise self.faults[payload["case"]]
        if target.endswith(":efficiency"):
            good = measurement(efficiency=0.95, efficiency_low=0.949, efficiency_high=0.951).to_wire()
            return good if self.timing is None else self.timing

        def execute(plan: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
            (factor,) = (a.value for a in plan.launches[0].arguments if getattr(a, "parameter", "") == "factor")
            found = (self.profiled,) if self.profiled and payload["case"] == "profile" else ()
            return [Run(Execution({"out": np.float32(factor) * inputs["x"]}, found))]

        plan = loads(payload["plan"])
        case = self.lab.case(payload["case"])
        values = generate(np, self.lab.task, case, payload["seed"])
        outcome = judge_case(self.lab.task, case, values, plan, execute)
        if "emulator" in target:
            outcome.counters = self.counters
        return outcome.to_wire()
