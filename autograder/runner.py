"""Sends cases to the workers that execute plans, and turns whatever happens there into outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from autograder.emulator_stage import WARM_UP_SECONDS
from autograder.lab import Lab
from autograder.outcome import CaseOutcome
from autograder.verdict import Device, Status
from warplab.errors import WarplabError
from warplab.gpu.worker import WorkerError, WorkerFault
from warplab.plan.execution import Finding, FindingKind

CASE_SECONDS = {Device.EMULATOR: 60.0, Device.GPU: 20.0}
EFFICIENCY_SECONDS = 120.0
_TRIES = 3
_CASE_TARGETS = {Device.EMULATOR: "autograder.emulator_stage:run", Device.GPU: "autograder.gpu_stage:correctness"}
_EFFICIENCY_TARGET = "autograder.gpu_stage:efficiency"


class JudgeError(WarplabError):
    """Something of ours went wrong while grading: never the student's fault, never a zero."""


class Caller(Protocol):
    """What the judge asks of warplab.gpu.worker.Worker."""

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """The result of calling `module:function`. Raises WorkerError."""


class Runner:
    """Executes plans of one lab through `worker`, with one secret seed."""

    def __init__(self, worker: Caller, lab: Lab, seed: int) -> None:
        self._worker = worker
        self._lab = lab
        self._seed = seed

    def warm_up(self, plans: Iterable[Path]) -> None:
        """Load what of the emulator these plans need, compiling it if that is its first use. Raises JudgeError."""
        try:
            self._call("autograder.emulator_stage:warm_up", WARM_UP_SECONDS, plans=[str(plan) for plan in plans])
        except WorkerError as error:
            raise JudgeError(f"the emulator does not run here ({error}); `autograder doctor` says more") from error

    def case(self, device: Device, plan: Path, case: str) -> CaseOutcome:
        """Judge one case. Raises JudgeError if the executor itself fails."""
        seconds = CASE_SECONDS[device]
        try:
            answer = self._call(_CASE_TARGETS[device], seconds, **self._payload(plan, case))
        except WorkerError as error:
            return self._failed(device, case, error, seconds)
        return CaseOutcome.from_wire(answer)

    def efficiency(self, plan: Path, case: str) -> Mapping[str, Any]:
        """Time the plan on the GPU. Raises JudgeError if the stopwatch itself fails."""
        try:
            return self._call(_EFFICIENCY_TARGET, EFFICIENCY_SECONDS, **self._payload(plan, case))
        except WorkerError as error:
            outcome = self._failed(Device.GPU, case, error, EFFICIENCY_SECONDS)
            return {"status": "fault", "message": outcome.message}

    def _call(self, target: str, seconds: float, **payload: Any) -> Any:
        """The worker's answer. A worker that died is not the submission's doing until that has happened _TRIES times:
        something outside may have killed it, and every call gives the same answer again."""
        for _ in range(_TRIES - 1):
            try:
                return self._worker.call(target, timeout=seconds, **payload)
            except WorkerError as error:
                if error.status is not WorkerFault.CRASHED:
                    raise
        return self._worker.call(target, timeout=seconds, **payload)

    def _payload(self, plan: Path, case: str) -> dict[str, Any]:
        return {"plan": str(plan), "task": str(self._lab.folder), "case": case, "seed": self._seed}

    def _failed(self, device: Device, case: str, error: WorkerError, seconds: float) -> CaseOutcome:
        where = "the GPU" if device is Device.GPU else "the emulator"
        if error.status is WorkerFault.TIMEOUT:
            message = f"The kernel did not finish within {seconds:g} s on {where}: does every loop end?"
            return _fault(case, FindingKind.ENDLESS, message)
        if error.status is WorkerFault.DEVICE_FAULT:
            kind, _, words = str(error).partition(": ")
            if kind in set(FindingKind):
                return _fault(case, FindingKind(kind), f"On the GPU {words or kind}.")
            return _fault(case, FindingKind.LAUNCH_FAILURE, f"The GPU reported a fault: {error}.")
        if error.kind == "DeviceError":  # the GPU refused the launch, for example for lack of registers
            return CaseOutcome(case, Status.LAUNCH_ERROR, message=f"{error}.")
        raise JudgeError(f"case {case} could not be run on {where}: {error.kind or error.status}: {error}")


def _fault(case: str, kind: FindingKind, message: str) -> CaseOutcome:
    return CaseOutcome(case, Status(kind.value), message=message, findings=[Finding(kind, message)])
