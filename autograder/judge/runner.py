"""Sends plans to the worker that reads and executes them, and turns whatever happens there into outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import msgspec

from autograder.judge.capture_stage import Submission
from autograder.judge.confined_worker import GPU_STAGE, WARM_UP, WARM_UP_GPU, WARM_UP_SECONDS
from autograder.judge.turns import Turns
from autograder.records import measurement
from autograder.records.measurement import Measurement, Unmeasured
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Answer, Prepared, Refused
from autograder.records.rejection import Rejected
from autograder.records.status import Executor, Status
from autograder.records.text import clean
from autograder.spec.lab import AnyLab
from warplab.errors import WarplabError
from warplab.plan.execution import Finding, FindingKind
from warplab.worker.process import WorkerError, WorkerFault

PREPARE_SECONDS = 120.0  # decoding and assembling all plans; a reference takes two, on a busy machine twenty
# For what hangs: the emulator ends a loop after so many instructions, and a GPU's kernels have 20 s. The dearest case
# of a reference takes 3 s of a processor, and 12 on one that eight processes share.
CASE_SECONDS = {Executor.EMULATOR: 300.0, Executor.GPU: 60.0}
ALL_CASES_SECONDS = 900.0  # of one submission, by the judge's clock
# Of one submission, of a processor, as the worker counts them; a reference takes 4 at most.
EMULATOR_SECONDS = 60.0
EFFICIENCY_SECONDS = 120.0
ASK_SECONDS = 60.0  # checking all records of a submission and modelling its cases; a reference takes a second or two
_TRIES = 3
_PREPARE_TARGET = "autograder.worker.prepare_stage:prepare"
_CASE_TARGETS = {
    Executor.EMULATOR: "autograder.worker.emulator_stage:run",
    Executor.GPU: f"{GPU_STAGE}correctness",
}
_TAKE_TARGET = f"{GPU_STAGE}take"
_EFFICIENCY_TARGET = f"{GPU_STAGE}efficiency"

# What a submission can make our code raise: exceptions of any other kind are faults of ours.
_SUBMISSIONS_OWN = frozenset({"PlanError", "CompileError", "NetworkError", "MemoryError", "RecursionError"})


A = TypeVar("A")


class JudgeError(WarplabError):
    """Something of ours went wrong while grading: never the student's fault, never a zero."""


class Caller(Protocol):
    """What the judge asks of warplab.worker.process.Worker."""

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """The result of calling `module:function`. Raises WorkerError."""


class Runner:
    """Executes plans of one lab, or asks for what else its kind needs, through `worker`, with one secret seed.

    With `turns` it shares the GPU with others who grade; waiting for a turn counts for no limit."""

    def __init__(self, worker: Caller, lab: AnyLab, seed: int, turns: Turns | None = None) -> None:
        self._worker, self._turns = worker, turns
        self._lab = lab
        self._seed = seed
        self._left, self._left_of_processor = ALL_CASES_SECONDS, EMULATOR_SECONDS
        self._left_to_ask = ASK_SECONDS

    def warm_up(self, parts: Sequence[str] = ()) -> None:
        """Load the emulator with these parts of it; compile them if that is their first use. Raises JudgeError."""
        try:
            self._call(WARM_UP, WARM_UP_SECONDS, parts=list(parts))
        except WorkerError as error:
            raise JudgeError(f"the emulator does not run here ({error}); `autograder doctor` says more") from error

    def warm_up_gpu(self) -> None:
        """Have what checks this lab's outputs on the GPU compiled, if this is its first use, and a context there.

        Without a turn: it hardly ever runs anything, and a new process keeps nobody waiting. Raises JudgeError."""
        task = str(self._lab.folder)
        try:
            self._call(WARM_UP_GPU, WARM_UP_SECONDS, task=task)
            self._call(_TAKE_TARGET, WARM_UP_SECONDS, task=task, others_wait=self._turns is not None)
        except WorkerError as error:
            raise JudgeError(f"the GPU cannot be used ({error}); `autograder doctor` says more") from error

    def prepare(self, submission: Submission, answers: Sequence[Answer], architecture: str) -> Prepared:
        """Have the answers of the capture processes read. Raises Rejected for a submission that is at fault,
        JudgeError if the worker does not work."""
        payload = {
            "task": str(self._lab.folder),
            "name": submission.name,
            "text": submission.text,
            "seed": self._seed,
            "architecture": architecture,
            "answers": [asdict(answer) for answer in answers],
        }
        try:
            return Prepared.from_wire(self._call(_PREPARE_TARGET, PREPARE_SECONDS, **payload))
        except msgspec.ValidationError as error:
            words = f"What the submission recorded made the judge's worker answer nonsense ({error})."
            raise Rejected(Status.WORKER_CRASHED, words) from None
        except WorkerError as error:
            status, words = self._own_fault(error, "reading and assembling what it recorded", PREPARE_SECONDS)
            raise Rejected(status, words) from error

    def cases(
        self,
        device: Executor,
        plans: Mapping[str, bytes],
        settled: Mapping[str, CaseOutcome],
        shown: Sequence[str] = (),
    ) -> Generator[CaseOutcome]:
        """Judge the cases of these plans, in their order. Raises JudgeError if the executor itself fails.

        `shown` names those that are small and not hidden: a call of the next of them comes between two of a case.

        On a GPU they share a turn, or each would wait for those who measure. A case that ends the worker ends the turn,
        for nobody is to wait until the next process is there. `settled` are outcomes by case that stand whatever
        happens on this device: once a case has ended the worker, which others wait for, those cases are not run."""
        waiting, ended = list(plans.items()), False
        while waiting:
            if ended and waiting[0][0] in settled:
                yield settled[waiting.pop(0)[0]]
                continue
            if device is Executor.GPU:
                self.warm_up_gpu()
            with self._turn() if device is Executor.GPU else nullcontext():
                while waiting and not (ended and waiting[0][0] in settled):
                    name, plan = waiting.pop(0)
                    outcome, goes_on = self._case(device, plan, name, _next_of(shown, name, plans))
                    yield outcome
                    if not goes_on:
                        ended = True
                        break

    def _case(
        self, device: Executor, plan: bytes, case: str, other: tuple[str, bytes] | None
    ) -> tuple[CaseOutcome, bool]:
        """The outcome of a case, and whether the worker goes on. `other` is a case of another size, and its plan."""
        seconds, start = min(CASE_SECONDS[device], self._left), time.monotonic()
        if seconds <= 0 or self._left_of_processor <= 0:
            words = f"Not run: the cases before have used the {ALL_CASES_SECONDS:g} s that a submission has"
            words += f", or the {EMULATOR_SECONDS:g} s of a processor."
            return CaseOutcome(case, Status.RESOURCES, message=words), True
        try:
            answer = self._call(_CASE_TARGETS[device], seconds, other=other, **self._payload(plan, case))
            outcome, goes_on = CaseOutcome.from_wire(answer), True
        except msgspec.ValidationError as error:
            outcome, goes_on = CaseOutcome(case, Status.WORKER_CRASHED, message=_nonsense_words(error)), True
        except WorkerError as error:
            outcome, goes_on = self._failed(device, case, error, seconds), error.status is WorkerFault.ERROR
        # The worker's own count leaves out what others did meanwhile; one that was taken over may say anything.
        taken, counted = time.monotonic() - start, outcome.processor_seconds
        self._left -= taken
        if device is Executor.EMULATOR:
            self._left_of_processor -= counted if counted is not None and counted >= 0 else taken
        return outcome, goes_on

    def efficiency(self, plan: bytes, case: str) -> Measurement | Unmeasured:
        """Time the plan on the GPU. Raises JudgeError if the stopwatch itself fails."""
        try:
            payload = self._payload(plan, case) | {"others_wait": self._turns is not None}
            with self._turn(measuring=True):
                answer = self._call(_EFFICIENCY_TARGET, EFFICIENCY_SECONDS, **payload)
            return measurement.from_wire(answer)
        except msgspec.ValidationError as error:
            return Unmeasured("nonsense", _nonsense_words(error))
        except WorkerError as error:
            return Unmeasured("fault", self._failed(Executor.GPU, case, error, EFFICIENCY_SECONDS).message)

    def ask(self, target: str, what: str, payload: Mapping[str, Any], answer: type[A]) -> A:
        """What a stage of the worker says of a submission: `what` is its work, as words, and `answer` its form.

        Raises Rejected for a submission that is at fault, JudgeError if the worker does not work."""
        start = time.monotonic()
        try:
            seconds = max(self._left_to_ask, 1.0)
            said = self._call(target, seconds, task=str(self._lab.folder), seed=self._seed, **payload)
            found = msgspec.convert(said, answer, str_keys=True, builtin_types=(bytes,))
        except msgspec.ValidationError as error:
            raise Rejected(Status.WORKER_CRASHED, _nonsense_words(error)) from None
        except WorkerError as error:
            status, words = self._own_fault(error, what, ASK_SECONDS)
            raise Rejected(status, words) from error
        finally:
            self._left_to_ask -= time.monotonic() - start
        refused: Refused | None = getattr(found, "refused", None)
        if refused:
            raise refused.rejection()
        return found

    def carry_out(self, target: str, what: str, payload: Mapping[str, Any], read: Callable[[Any], A]) -> A:
        """The same of what has been checked, as `read` takes it: any failure is the judge's. Raises JudgeError."""
        try:
            said = self._call(target, ASK_SECONDS, task=str(self._lab.folder), seed=self._seed, **payload)
            return read(said)
        except (WorkerError, msgspec.ValidationError) as error:
            raise JudgeError(f"{what} failed: {clean(str(error))}") from error

    def _turn(self, measuring: bool = False) -> AbstractContextManager[None]:
        if self._turns is None:
            return nullcontext()
        return self._turns.measuring() if measuring else self._turns.computing()

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

    def _payload(self, plan: bytes, case: str) -> dict[str, Any]:
        return {"plan": plan, "task": str(self._lab.folder), "case": case, "seed": self._seed}

    def _failed(self, device: Executor, case: str, error: WorkerError, seconds: float) -> CaseOutcome:
        where = "the GPU" if device is Executor.GPU else "the emulator"
        if error.status is WorkerFault.TIMEOUT:
            if device is Executor.GPU:  # kernels that do not end are a fault that its executor reports
                message = f"Drawing the inputs, running it on the GPU and checking took more than {seconds:g} s."
                return CaseOutcome(case, Status.RESOURCES, message=message)
            message = f"The kernel did not finish within {seconds:g} s on {where}: does every loop end?"
            return _fault(case, FindingKind.ENDLESS, message)
        if error.status is WorkerFault.DEVICE_FAULT:
            kind, _, words = str(error).partition(": ")
            if kind in set(FindingKind):
                return _fault(case, FindingKind(kind), f"On the GPU {words or kind}.")
            return _fault(case, FindingKind.LAUNCH_FAILURE, f"The GPU reported a fault: {error}.")
        if error.kind == "DeviceError":  # the GPU refused the launch, for example for lack of registers
            return CaseOutcome(case, Status.LAUNCH_ERROR, message=f"{error}.")
        status, words = self._own_fault(error, f"running it on {where}", seconds)
        return CaseOutcome(case, status, message=words)

    def _own_fault(self, error: WorkerError, what: str, seconds: float) -> tuple[Status, str]:
        """Why the submission failed, when our code could not deal with it. Raises JudgeError if that is our fault."""
        said = clean(str(error)).strip()
        if error.status is WorkerFault.TIMEOUT:
            return Status.RESOURCES, f"The submission failed: {what} took more than {seconds:g} s."
        if error.status is WorkerFault.MEMORY or error.kind == "MemoryError":
            return Status.RESOURCES, f"The submission failed: {what} took more memory than a submission may use."
        if error.status is WorkerFault.CRASHED:
            words = f"The submission failed: {what} ended the judge's worker {_TRIES} times ({said})."
            return Status.WORKER_CRASHED, words
        if error.status is WorkerFault.ERROR and error.kind in _SUBMISSIONS_OWN:
            return Status.UNSUPPORTED, f"The submission failed: {said or error.kind}"
        raise JudgeError(f"{what} failed: {error.kind or error.status}: {said}")


def _next_of(shown: Sequence[str], case: str, plans: Mapping[str, bytes]) -> tuple[str, bytes] | None:
    """The case that follows one in a circle, the first for one that is not in it, and its plan; None for itself."""
    if not shown:
        return None
    name = shown[(shown.index(case) + 1) % len(shown) if case in shown else 0]
    return None if name == case else (name, plans[name])


def _nonsense_words(error: msgspec.ValidationError) -> str:
    return f"The submission made the judge's worker answer nonsense ({clean(str(error))})."


def _fault(case: str, kind: FindingKind, message: str) -> CaseOutcome:
    return CaseOutcome(case, Status(kind.value), message=message, findings=[Finding(kind, message)])
