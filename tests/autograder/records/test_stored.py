"""Stored reports are read by their form: old ones too, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autograder.records.measurement import Unmeasured
from autograder.records.report import Report, SecondOpinion, WastedLine
from autograder.records.status import Part
from autograder.records.stored import only_report, report_of
from autograder.report import json_file
from tests.autograder.report.example_reports import RESEMBLANCE, measured, report

KEYS = sorted(report().to_json())
LATER = {"original", "predictions", "printed", "resemblance", "unrun", "worst_request"}  # older records lack them
FOLLOWING = {"score", "max_score", "full_marks", "efficiency", "schema_version"}  # from the rest of a report


def as_json(found: Report) -> dict[str, Any]:
    return json.loads(json.dumps(found.to_json(), allow_nan=False))


def test_every_field_comes_back() -> None:
    made = report(
        wasted=(WastedLine(2, 0.5, "wasted"),),
        second_opinions=(SecondOpinion("memcheck", "tiny", -1, "words", (2,), None),),
        resemblance=RESEMBLANCE,
        next_step="Read neighbours.",
        predictions=("Half of them.",),
        line=2,
        seconds=1.5,
    )
    found = report_of(as_json(made), made.source)
    assert found.to_json() == made.to_json() and found.source == made.source


@pytest.mark.parametrize("version", [1, 2, 3])
def test_reports_of_older_versions_are_read(version: int) -> None:
    made = measured(1e9)
    data = as_json(made) | {"schema_version": version}
    for part in data["parts"]:
        for finding in part["findings"]:
            del finding["extent"]
        if version < 3:
            del part["left_out"]
    for key in LATER - ({"resemblance"} if version > 1 else set()):
        del data[key]
    assert report_of(data).to_json() == made.to_json()


@pytest.mark.parametrize("key", sorted({*KEYS} - FOLLOWING - LATER))
def test_a_report_without_a_field_is_none(key: str) -> None:
    data = as_json(report())
    del data[key]
    with pytest.raises(msgspec.ValidationError, match=f"`{key}`"):
        report_of(data)


@pytest.mark.parametrize("key", sorted({*KEYS} - FOLLOWING))
def test_a_report_with_a_field_of_another_form_is_none(key: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        report_of(as_json(report()) | {key: [[1]]})


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["parts"].pop(),
        lambda data: data["parts"].append(data["parts"][0]),
        lambda data: data["parts"][0].update(part="luck"),
        lambda data: data["parts"][0].update(score="nan"),
        lambda data: data["parts"][0]["cases"][0].update(worst_ratio="much"),
        lambda data: data["parts"][0]["cases"][0].pop("status"),
        lambda data: data["parts"][0]["cases"][0]["first_wrong"].pop("index"),
        lambda data: data["parts"][3]["measurement"].pop("status"),
        lambda data: data["parts"][3]["measurement"].update(median_ms=-1),
        lambda data: data["profile"]["lines"].update(here=data["profile"]["total"]),
    ],
)
def test_a_damaged_report_is_none(change: Callable[[dict[str, Any]], Any]) -> None:
    data = as_json(measured(1e9))
    report_of(data)
    change(data)
    with pytest.raises(msgspec.ValidationError):
        report_of(data)


def test_a_submission_without_a_time_comes_back() -> None:
    data = as_json(measured(1e9))
    data["parts"][3]["measurement"] = Unmeasured("fault", "why").to_wire()
    assert report_of(data).part(Part.EFFICIENCY).measurement == Unmeasured("fault", "why")


def test_the_file_of_one_report_is_read(tmp_path: Path) -> None:
    json_file.write_reports([measured(1e9)], tmp_path / "report.json")
    text = (tmp_path / "report.json").read_bytes()
    assert only_report(text).to_json() == measured(1e9).to_json()
    for other in (b"", text[:-9], b"[]", b"{}", b'{"reports": []}', b'{"reports": [{}]}', b"\xff"):
        with pytest.raises(msgspec.DecodeError):
            only_report(other)
