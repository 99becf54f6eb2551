"""A report from its plain data, as a class's record keeps it: the inverse of Report.to_json()."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from autograder.records import measurement
from autograder.records.report import (
    BudgetResult,
    CaseResult,
    KernelFigures,
    PartResult,
    Profile,
    Report,
    Resemblance,
    SecondOpinion,
    WastedLine,
)
from autograder.records.status import Executor, Part, Status
from autograder.records.text import clean_source
from warplab.plan.execution import Finding
from warplab.sandbox.isolation import Isolation

_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_FLOATS = ("worst_ratio", "got", "expected", "allowed")  # what of a case can be no finite number


def report_of(data: Mapping[str, Any], source: str = "") -> Report:
    """The report that `data` was made of. `source` is the submission's text, which no stored report has.

    Raises msgspec.ValidationError for anything else.
    """
    return Report(
        lab=data["lab"],
        title=data["title"],
        submission=data["submission"],
        status=Status(data["status"]),
        message=data["message"],
        parts=tuple(_part(part) for part in data["parts"]),
        full_score=data["full_score"],
        device=Executor(data["device"]),
        hardware=data["hardware"],
        versions=data["versions"],
        isolation=Isolation(data["isolation"]),
        notebook=data["notebook"],
        language=data["language"],
        line=data["line"],
        kernels=msgspec.convert(data["kernels"], tuple[KernelFigures, ...]),
        profile=msgspec.convert(data["profile"], Profile | None, str_keys=True),
        wasted=msgspec.convert(data["wasted"], tuple[WastedLine, ...]),
        second_opinions=msgspec.convert(data["second_opinions"], tuple[SecondOpinion, ...]),
        resemblance=msgspec.convert(data.get("resemblance"), Resemblance | None),  # none in records of version 1
        next_step=data["next_step"],
        source=clean_source(source),
        seconds=data["seconds"],
    )


def _part(data: Mapping[str, Any]) -> PartResult:
    timed = data["measurement"]
    return PartResult(
        part=Part(data["part"]),
        status=Status(data["status"]),
        score=data["score"],
        max_score=data["max_score"],
        message=data["message"],
        feedback=data["feedback"],
        cases=tuple(msgspec.convert(_with_numbers(case), CaseResult) for case in data["cases"]),
        findings=msgspec.convert(data["findings"], tuple[Finding, ...]),
        budgets=msgspec.convert(data["budgets"], tuple[BudgetResult, ...]),
        measurement=None if timed is None else measurement.from_wire(timed),
        left_out=data.get("left_out", 0.0),  # none in records of versions 1 and 2
    )


def _with_numbers(case: Mapping[str, Any]) -> dict[str, Any]:
    """A case with the numbers that JSON lacks, which are words in it."""
    found = {key: _NUMBERS.get(value, value) if key in _FLOATS else value for key, value in case.items()}
    if found["first_wrong"] is not None:
        found["first_wrong"] = _with_numbers(found["first_wrong"] | {"first_wrong": None})
    return found
