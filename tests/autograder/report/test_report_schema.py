"""What a file of reports looks like to a program that reads it: a change here is one of SCHEMA_VERSION."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from autograder.records.measurement import Library, Unmeasured
from autograder.records.report import Report, SecondOpinion, WastedLine, plain
from autograder.records.status import Executor, Part, Status
from autograder.report import json_file
from tests.autograder.handmade import measurement
from tests.autograder.report.example_reports import RESEMBLANCE, measured, report
from warplab.plan.execution import Counters, Extent, FindingKind
from warplab.sandbox.isolation import Isolation

Number = float | Literal["nan", "inf", "-inf"]  # JSON has no word for these
Place = tuple[int, int, int]
CountersJson = msgspec.defstruct("CountersJson", [(f.name, int) for f in fields(Counters)], forbid_unknown_fields=True)


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """No key may be missing, none may be unknown."""


class WriterJson(Strict):
    kernel: str
    line: int
    block: Place
    thread: Place


class FirstWrongJson(Strict):
    output: str
    index: list[int]
    got: Number
    expected: Number
    allowed: Number
    unwritten: bool
    writer: WriterJson | None


class RequestJson(Strict):
    line: int
    space: str
    verb: str
    array: str
    size: int
    addresses: list[int | None]


class CaseJson(Strict):
    name: str
    status: Status
    message: str
    cause: str
    wrong: int
    total: int
    worst_ratio: Number
    first_wrong: FirstWrongJson | None
    seconds: float


class FindingJson(Strict):
    kind: FindingKind
    message: str
    kernel: str
    line: int
    block: Place | None
    thread: Place | None
    array: str
    index: list[int] | None
    count: int
    extent: Extent


class BudgetJson(Strict):
    counter: str
    metric: str
    value: int
    limit: float
    reason: str
    parts: dict[str, int]


class LibraryJson(Strict):
    name: str
    median_ms: float
    ratio: float


class Timed(Strict, tag_field="status", tag="ok"):
    message: str
    median_ms: float
    low_ms: float
    high_ms: float
    samples: int
    floor_ms: float
    bound: Literal["memory", "compute"]
    efficiency: float
    efficiency_low: float
    efficiency_high: float
    ceilings: dict[str, float]
    datasheet: dict[str, float]
    throttled: bool
    shared: bool
    shared_fraction: float
    library: LibraryJson | None
    throttle_reasons: list[str]
    work: dict[str, float]


class Impossible(Timed, tag="impossible"):
    pass


class Wrong(Strict, tag_field="status", tag="wrong"):
    message: str


class Fault(Wrong, tag="fault"):
    pass


class Nonsense(Wrong, tag="nonsense"):
    pass


class PartJson(Strict):
    part: Part
    status: Status
    score: float
    max_score: float
    message: str
    feedback: str
    cases: list[CaseJson]
    findings: list[FindingJson]
    budgets: list[BudgetJson]
    measurement: Timed | Impossible | Wrong | Fault | Nonsense | None
    left_out: float


class KernelJson(Strict):
    name: str
    line: int
    registers: int
    spill_bytes: int
    shared: int
    occupancy: float


class ProfileJson(Strict):
    case: str
    total: CountersJson  # type: ignore[valid-type]
    lines: dict[str, CountersJson]  # type: ignore[valid-type]
    note: str


class WastedJson(Strict):
    line: int
    share: float
    words: str


class OpinionJson(Strict):
    tool: str
    case: str
    errors: int
    words: str
    lines: list[int]
    agrees: bool | None


class SimilarRungJson(Strict):
    name: str
    what: str
    share: float | None
    distance: float


class ResemblanceJson(Strict):
    words: str
    alike: list[SimilarRungJson]
    further: SimilarRungJson | None
    of: str
    gpu: str


class ReportJson(Strict):
    lab: str
    title: str
    submission: str
    status: Status
    message: str
    parts: list[PartJson]
    full_score: float
    device: Executor
    hardware: str
    versions: dict[str, str]
    isolation: Isolation
    notebook: str
    language: str
    line: int
    original: str
    printed: str
    kernels: list[KernelJson]
    profile: ProfileJson | None
    wasted: list[WastedJson]
    unrun: list[tuple[int, int]]
    worst_request: RequestJson | None
    second_opinions: list[OpinionJson]
    resemblance: ResemblanceJson | None
    predictions: list[str]
    next_step: str
    seconds: float
    schema_version: Literal[4]
    score: float
    max_score: float
    full_marks: bool
    efficiency: float | None


class FileJson(Strict):
    schema_version: Literal[4]
    reports: list[ReportJson]


def timed(timing: Any) -> Report:
    base = measured(1e10)
    return replace(base, parts=(*base.parts[:3], replace(base.part(Part.EFFICIENCY), measurement=timing)))


def test_reports_are_read_back_by_their_schema(tmp_path: Path) -> None:
    wasted = (WastedLine(2, 0.5, "wasted"),)
    opinions = (SecondOpinion("memcheck", "tiny", 1, "words", (2,), False),)
    reports = [
        report(wasted=wasted, second_opinions=opinions, resemblance=RESEMBLANCE),
        report(profile=None, kernels=(), line=2),
        timed(measurement(library=Library("torch.mm", 0.2, 0.2), throttled=True, throttle_reasons=("hot",))),
        timed(measurement(message="No kernel is so fast.")),
        *(timed(Unmeasured(status, "why")) for status in ("wrong", "fault", "nonsense")),
    ]
    json_file.write_reports(reports, tmp_path / "reports.json")
    back = msgspec.json.decode((tmp_path / "reports.json").read_bytes(), type=FileJson)
    assert [type(r.parts[3].measurement) for r in back.reports] == [
        *(type(None), type(None)),
        *(Timed, Impossible, Wrong, Fault, Nonsense),
    ]
    case = back.reports[0].parts[0].cases[0]
    assert case.worst_ratio == "inf" and case.first_wrong is not None and case.first_wrong.writer is not None
    assert back.reports[0].parts[1].findings and back.reports[0].parts[2].budgets


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(more=1),
        lambda data: data["parts"][0]["cases"][0].update(more=1),
        lambda data: data["parts"][3]["measurement"].update(more=1),
        lambda data: data.update(resemblance=plain(RESEMBLANCE) | {"more": 1}),
        lambda data: data["profile"]["total"].pop("barriers"),
        lambda data: data.update(schema_version=5),
    ],
)
def test_the_schema_notices_a_change(change: Callable[[dict], None]) -> None:
    data = json.loads(json.dumps(measured(1e10).to_json()))
    msgspec.convert(data, ReportJson)
    change(data)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(data, ReportJson)
