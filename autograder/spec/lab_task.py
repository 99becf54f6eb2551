"""What the specification of a lab says, whatever kind of answer the lab asks for.

A subclass is one kind: `task.Task` asks for kernels; `schedules`, `pipelines`, `programs`, `checkpoints` and `attacks`
have theirs. `autograder.judge.kinds` grades each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self


class NamedCase(Protocol):
    """A case of any kind. `hidden` cases are never named to the student."""

    @property
    def name(self) -> str:
        """Its name, which no other case of the lab has."""
        ...

    @property
    def hidden(self) -> bool:
        """Whether its name and size stay secret."""
        ...


@dataclass(frozen=True)
class NominalBudget:
    """The most that a counter may be at the nominal size of what is counted."""

    function: str
    size: Mapping[str, int]
    counter: str
    most: float


class LabTask(ABC):
    """A lab's specification, which `labs/<lab>/task.py` defines as TASK."""

    kind: ClassVar[str]  # in lab.toml
    noun: ClassVar[str]  # what a report calls one answer
    judged_on: ClassVar[str] = ""  # what a report names in place of the machine, if anything
    judged_without_gpu: ClassVar[tuple[str, ...]] = ("correctness", "safety", "traffic", "efficiency")
    bound_by: ClassVar[str] = "the bound"  # what efficiencies are fractions of
    required: ClassVar[tuple[str, ...]] = ("efficiency",)  # what lab.toml has beside points

    @property
    def what_earns(self) -> str:
        """Which submissions earn points beyond those for correctness, in a report's words."""
        return f"{self.noun}s that are right"

    @property
    def nothing(self) -> str:
        """What a report says where a submission came to no answer."""
        return f"There is no {self.noun} to judge."

    @property
    def measured_points(self) -> float:
        """Points of an efficiency judged without a GPU that only a measurement on GPUs gives."""
        return 0.0

    @abstractmethod
    def every_case(self) -> Sequence[NamedCase]:
        """Every case, those of correctness first, in the order in which a report numbers hidden ones."""

    @abstractmethod
    def nominal_budgets(self) -> Sequence[NominalBudget]:
        """The budgets of the part for traffic, for a handout."""

    @abstractmethod
    def drawn(self, seed: int) -> Self:
        """The task with the dimensions of every case drawn from its class by the seed, the same for the same seed."""
