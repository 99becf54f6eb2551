"""What a lab asks for whose submissions return records, data instead of kernels: functions, and cases of each.

`schedules` says more of schedules of collectives, `pipelines` of the orders of a pipeline's passes, `checkpoints` of
plans of what a checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Self, TypeVar

from autograder.spec.lab_task import LabTask, NominalBudget
from autograder.spec.seeds import uniform
from autograder.spec.task import Dimensions
from warplab.plan.capture.records import RecordForm
from warplab.plan.model import HostCall, ScalarArgument


@dataclass(frozen=True)
class RecordCase:
    """One size that records are asked for: `dimensions` are the function's arguments by name, and their order.

    `sizes` is the class of which the secret seed draws one; empty if there is only this one. A case that is `run` is
    also carried out: by processes, a rank each, or by PyTorch. One that is `timed` is timed on GPUs, a rank each, where
    there are as many and the task's cases have no more.
    """

    name: str
    dimensions: Dimensions
    sizes: Sequence[Dimensions] = field(default=(), repr=False)
    hidden: bool = False
    run: bool = False
    timed: bool = False


@dataclass(frozen=True)
class Limit:
    """The most that a counter of the modelled case may be, in its own unit; what a submission above it does wrong."""

    counter: str
    most: int
    reason: str


@dataclass(frozen=True)
class AskedFunction:
    """One function of the submission. Its time is modelled in the case `modelled`, and held against a bound."""

    measured: ClassVar[str] = "time"  # what of the modelled case is held against the bound

    function: str
    correctness: tuple[RecordCase, ...]
    modelled: RecordCase

    def cases(self) -> tuple[RecordCase, ...]:
        """All cases, the modelled one last."""
        return (*self.correctness, self.modelled)

    def host_call(self, case: RecordCase) -> HostCall:
        """The call to capture for one case."""
        return HostCall(self.function, tuple(ScalarArgument(name, value) for name, value in case.dimensions.items()))

    def content(self, case: RecordCase) -> str:
        """What is no number among the arguments of that call, as text for the capture process; "" if nothing is."""
        return ""

    def words(self, cost: float) -> str:
        """What a ScheduleModel's cost is, in words."""
        return f"{self.measured} {cost * 1e6:,.0f} us"

    def limits(self, counters: Mapping[str, int]) -> tuple[Limit, ...]:
        """The budgets that decide in the modelled case, which counted `counters`."""
        return self.all_limits()

    def all_limits(self) -> tuple[Limit, ...]:
        """All budgets of the modelled case."""
        return ()


A = TypeVar("A", bound=AskedFunction)


@dataclass(frozen=True)
class RecordTask(LabTask, Generic[A]):
    """A lab's specification, in its subclasses. Names of cases are distinct over all functions."""

    form: ClassVar[RecordForm]
    noun: ClassVar[str] = "schedule"
    judged_on: ClassVar[str] = "a simulated network, and processes of this machine"

    functions: tuple[A, ...]

    def drawn(self, seed: int) -> Self:
        """The task with the dimensions of every case drawn from its class by the seed."""
        functions = tuple(
            replace(
                asked,
                correctness=tuple(_drawn(asked, case, seed) for case in asked.correctness),
                modelled=_drawn(asked, asked.modelled, seed),
            )
            for asked in self.functions
        )
        return replace(self, functions=functions)

    def every_case(self) -> tuple[RecordCase, ...]:
        """Every case."""
        return tuple(case for _, case in self.cases())

    def cases(self, quick: bool = False) -> list[tuple[A, RecordCase]]:
        """Every case with its function; `quick` leaves the hidden ones out."""
        return [(asked, case) for asked in self.functions for case in asked.cases() if not (quick and case.hidden)]

    def nominal_budgets(self) -> list[NominalBudget]:
        """The budgets of each function's modelled case, for a handout."""
        return [
            NominalBudget(asked.function, asked.modelled.dimensions, limit.counter, limit.most)
            for asked in self.functions
            for limit in asked.all_limits()
        ]

    def case(self, name: str) -> tuple[A, RecordCase]:
        """The case of that name. Raises KeyError."""
        return {case.name: (asked, case) for asked, case in self.cases()}[name]


def _drawn(asked: AskedFunction, case: RecordCase, seed: int) -> RecordCase:
    if not case.sizes:
        return case
    number = int(uniform(seed, "size", asked.function, case.name) * len(case.sizes))
    return replace(case, dimensions=case.sizes[min(number, len(case.sizes) - 1)])
