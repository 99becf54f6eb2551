"""A report from its plain data, as a class's record and `autograder grade --json` keep it: the inverse of
Report.to_json()."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from autograder.records import measurement
from autograder.records.outcome import FirstWrong, LaneRequest
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
from warplab.plan.execution import Finding, Writer
from warplab.sandbox.isolation import Isolation

Number = float | Literal["nan", "inf", "-inf"]  # what can be no finite number is a word there, for JSON has none


class _FirstWrong(msgspec.Struct):
    output: str
    index: tuple[int, ...]
    got: Number
    expected: Number
    allowed: Number
    unwritten: bool = False
    writer: Writer | None = None


class _Case(msgspec.Struct):
    name: str
    status: Status
    message: str = ""
    cause: str = ""
    wrong: int = 0
    total: int = 0
    worst_ratio: Number = 0.0
    first_wrong: _FirstWrong | None = None
    seconds: float = 0.0


class _Part(msgspec.Struct):
    part: Part
    status: Status
    score: float
    max_score: float
    message: str
    feedback: str
    cases: tuple[_Case, ...]
    findings: tuple[Finding, ...]
    budgets: tuple[BudgetResult, ...]
    measurement: Any  # measurement.from_wire checks it
    left_out: float = 0.0  # none in records of versions 1 and 2


class _Report(msgspec.Struct):
    """A stored report, whatever its version; what follows from the rest, as its score, is left out."""

    lab: str
    title: str
    submission: str
    status: Status
    message: str
    parts: tuple[_Part, ...]
    full_score: float
    device: Executor
    hardware: str
    versions: dict[str, str]
    isolation: Isolation
    notebook: str
    language: str
    line: int
    kernels: tuple[KernelFigures, ...]
    profile: Profile | None
    wasted: tuple[WastedLine, ...]
    second_opinions: tuple[SecondOpinion, ...]
    next_step: str
    seconds: float
    resemblance: Resemblance | None = None  # none in records of version 1
    original: str = ""  # these are in none of versions 1 to 3
    printed: str = ""
    unrun: tuple[tuple[int, int], ...] = ()
    worst_request: LaneRequest | None = None
    predictions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if sorted(part.part for part in self.parts) != sorted(Part):
            raise ValueError("a report has each part of a grade once")


class _File(msgspec.Struct):
    reports: tuple[_Report]


def report_of(data: Mapping[str, Any], source: str = "") -> Report:
    """The report that `data` was made of. `source` is the submission's text, which no stored report has.

    Raises msgspec.ValidationError for anything else.
    """
    return _report(msgspec.convert(data, _Report, str_keys=True), source)


def only_report(text: bytes) -> Report:
    """The report in what `autograder grade FILE --json` wrote. Raises msgspec.DecodeError for anything else."""
    (stored,) = msgspec.json.decode(text, type=_File).reports
    return _report(stored, source="")


def _report(stored: _Report, source: str) -> Report:
    values = msgspec.structs.asdict(stored)
    return Report(**values | {"parts": tuple(map(_part, stored.parts)), "source": clean_source(source)})


def _part(stored: _Part) -> PartResult:
    timed = stored.measurement
    return PartResult(
        **msgspec.structs.asdict(stored)
        | {
            "cases": tuple(map(_case, stored.cases)),
            "measurement": None if timed is None else measurement.from_wire(timed),
        }
    )


def _case(stored: _Case) -> CaseResult:
    wrong = stored.first_wrong
    return CaseResult(
        **msgspec.structs.asdict(stored)
        | {"worst_ratio": float(stored.worst_ratio), "first_wrong": None if wrong is None else _first_wrong(wrong)}
    )


def _first_wrong(stored: _FirstWrong) -> FirstWrong:
    numbers = {name: float(getattr(stored, name)) for name in ("got", "expected", "allowed")}
    return FirstWrong(**msgspec.structs.asdict(stored) | numbers)
