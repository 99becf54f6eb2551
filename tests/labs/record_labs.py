"""What tests of the labs whose submissions are records share: labs, references, answers and workers made up."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from autograder.records.status import Part
from autograder.spec.lab import LabOf, kernel_labs, known_labs, labs_folder, load, solutions_folder
from autograder.spec.records import RecordCase, RecordTask
from course.loading import module_of
from warplab.plan.capture.protocol import encode_records

SEED = 11
RecordLab = LabOf[RecordTask[Any]]
LABS: list[RecordLab] = [load(labs_folder() / name, RecordTask) for name in known_labs() if name not in kernel_labs()]
FUNCTIONS = [(lab, asked) for lab in LABS for asked in lab.task.functions]


def reference(lab: RecordLab) -> Any:
    path = solutions_folder() / lab.name / "submission.py"
    return module_of(path)


def share_of(lab: RecordLab, functions: Collection[str]) -> float:
    """The points that a reference earns with these functions alone."""
    most = lab.points
    with_budgets = {asked.function for asked in lab.task.functions if asked.all_limits()}
    alike = most.correctness + most.safety + lab.points_without_gpus(Part.EFFICIENCY)
    budgeted = len(with_budgets.intersection(functions)) / len(with_budgets)
    return alike * len(functions) / len(lab.task.functions) + most.traffic * budgeted


def answers(case: RecordCase, blob: bytes, hidden: bool = False) -> list[dict[str, Any]]:
    return [{"cases": [case.name], "content": encode_records([blob]), "hidden": hidden}]


class Saying:
    """A worker that says what it is told to, or fails as it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
