"""What every kind of lab is to the judge: how a submission is run, judged and reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from autograder.judge.capture_stage import Submission
from autograder.judge.runner import Runner
from autograder.judge.turns import Turns
from autograder.records.report import PartResult, Report
from autograder.records.request import OnProgress, Request
from autograder.spec.lab import LabOf
from autograder.spec.lab_task import LabTask

T = TypeVar("T", bound=LabTask)
E = TypeVar("E")


@dataclass(frozen=True)
class Grading(Generic[T]):
    """One submission on its way through the judge. `lab` has the sizes that the seed drew, `turns` are on the GPUs that
    others use too."""

    request: Request
    lab: LabOf[T]
    submission: Submission
    runner: Runner
    seed: int
    progress: OnProgress
    turns: Turns | None


class LabKind(ABC, Generic[T, E]):
    """One kind of lab: `task` is its specification, an E is what running a submission gives.

    `run` and `judge` raise Rejected for a submission that is at fault and JudgeError where the judge fails.
    """

    task: type[T]
    extras: ClassVar[tuple[str, ...]] = ()  # of the project, which its submissions need for all points
    compiled: ClassVar[bool] = False  # submissions have a compiled form that can be compared
    all_gpus: ClassVar[bool] = False  # what is timed takes every GPU of the machine

    @abstractmethod
    def run(self, grading: Grading[T]) -> E:
        """Capture the submission, and have it checked or run by the worker."""

    @abstractmethod
    def judge(self, grading: Grading[T], evidence: E) -> tuple[PartResult, ...]:
        """The four parts of the grade, in the order of Part."""

    @abstractmethod
    def report(self, grading: Grading[T], evidence: E, parts: tuple[PartResult, ...]) -> Report:
        """The report of a submission that was judged."""
