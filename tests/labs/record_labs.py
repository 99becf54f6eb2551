"""What tests of the labs whose submissions are records share: labs, references, answers and workers made up."""

from __future__ import annotations

import importlib.util
from typing import Any

from autograder.spec.lab import ScheduleLab, find_any, kernel_labs, known_labs, solutions_folder
from autograder.spec.records import RecordCase
from warplab.plan.capture.protocol import encode_records

SEED = 11


def labs() -> list[ScheduleLab]:
    kernels = kernel_labs()
    found = [find_any(name) for name in known_labs() if name not in kernels]
    return [lab for lab in found if isinstance(lab, ScheduleLab)]


LABS = labs()
FUNCTIONS = [(lab, asked) for lab in LABS for asked in lab.task.functions]


def reference(lab: ScheduleLab) -> Any:
    path = solutions_folder() / lab.name / "submission.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
