"""results.json of Gradescope and PrairieLearn, against the forms that their documentation describes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from autograder.platforms import cells, gradescope, in_container, prairielearn
from autograder.platforms.bundle import gradescope_delivered, gradescope_inside, otter, write_prairielearn
from autograder.platforms.files.gradescope import deliver
from autograder.platforms.nbgrader_course import parts_of
from autograder.records.status import Status
from autograder.records.stored import report_of
from autograder.spec.lab import CHECKOUT, find_any, find_lab
from tests.autograder.platforms.reports import BROKEN, ON_GPU, WRONG, line, problem
from tests.autograder.report.example_reports import report

_FORMATS = ["text", "html", "simple_format", "md", "ansi"]
_VISIBLE = ["hidden", "after_due_date", "after_published", "visible"]
_TEXT = {"type": "string"}
_POINTS = {"type": "number", "minimum": 0}
# https://gradescope-autograders.readthedocs.io/en/latest/specs/, "Output format"
GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    # A score in all, or one of each test
    "anyOf": [{"required": ["score"]}, {"properties": {"tests": {"minItems": 1, "items": {"required": ["score"]}}}}],
    "properties": {
        "score": _POINTS,
        "execution_time": {"type": "integer", "minimum": 0},
        "output": _TEXT,
        "output_format": {"enum": _FORMATS},
        "test_output_format": {"enum": _FORMATS},
        "test_name_format": {"enum": _FORMATS},
        "visibility": {"enum": _VISIBLE},
        "stdout_visibility": {"enum": _VISIBLE},
        "extra_data": {"type": "object"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": _POINTS,
                    "max_score": _POINTS,
                    "status": {"enum": ["passed", "failed"]},
                    "name": _TEXT,
                    "name_format": {"enum": _FORMATS},
                    "number": _TEXT,
                    "output": _TEXT,
                    "output_format": {"enum": _FORMATS},
                    "tags": {"type": "array", "items": _TEXT},
                    "visibility": {"enum": _VISIBLE},
                    "extra_data": {"type": "object"},
                },
            },
        },
        "leaderboard": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "value"],
                "properties": {
                    "name": _TEXT, "value": {"type": ["number", "string"]}, "order": {"enum": ["asc", "desc"]},
                },
            },
        },
    },
}  # fmt: skip
# PrairieLearn, docs/externalGrading.md, "Grading results"
PRAIRIELEARN = {
    "type": "object",
    "properties": {
        "gradable": {"type": "boolean"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "message": _TEXT,
        "output": _TEXT,
        "format_errors": {"type": ["string", "array"], "items": _TEXT},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "points", "max_points"],
                "properties": {
                    "name": _TEXT, "description": _TEXT, "message": _TEXT, "output": _TEXT,
                    "points": _POINTS, "max_points": _POINTS, "images": {"type": "array"},
                },
            },
        },
    },
    "if": {"properties": {"gradable": {"const": False}}, "required": ["gradable"]},
    "then": {"required": ["format_errors"]},
    "else": {"required": ["score"]},
}  # fmt: skip
SCHEMAS = {"gradescope": GRADESCOPE, "prairielearn": PRAIRIELEARN}


@pytest.mark.parametrize("found", [WRONG, ON_GPU, BROKEN], ids=["wrong", "on a GPU", "judge error"])
def test_every_report_has_the_platforms_form(found: Mapping[str, Any]) -> None:
    jsonschema.validate(gradescope.results(report_of(found)), GRADESCOPE)
    jsonschema.validate(prairielearn.results(report_of(found)), PRAIRIELEARN)


def test_the_points_are_those_of_the_report() -> None:
    results = gradescope.results(report_of(ON_GPU))
    assert results["score"] == sum(test["score"] for test in results["tests"]) == ON_GPU["score"] == 15
    assert sum(test["max_score"] for test in results["tests"]) == ON_GPU["max_score"] == 100
    assert results["leaderboard"][0]["value"] == round(100 * ON_GPU["efficiency"], 1)
    assert prairielearn.results(report_of(ON_GPU))["score"] == 0.15


def test_what_was_not_judged_takes_no_points_away() -> None:
    results = gradescope.results(report_of(WRONG))
    assert [test["name"] for test in results["tests"]] == ["correctness", "safety", "traffic"]
    assert "was not judged" in results["output"] and "leaderboard" not in results


def test_a_fault_of_the_judge_is_told_as_one() -> None:
    assert "not your submission" in gradescope.results(report_of(BROKEN))["output"]
    assert prairielearn.results(report_of(BROKEN))["gradable"] is False


def test_a_file_that_is_no_python_costs_no_attempt() -> None:
    found = report(status=Status.SYNTAX_ERROR, message="Line 1: no")
    assert prairielearn.results(found) == {"gradable": False, "format_errors": ["Line 1: no"], "message": "Line 1: no"}


@pytest.mark.parametrize("platform", sorted(SCHEMAS))
@pytest.mark.parametrize("files", [{}, {"a.py": "x", "b.py": "y"}, {"submission.py": ""}], ids=["none", "two", "empty"])
def test_what_cannot_be_graded_has_results_too(tmp_path: Path, platform: str, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    place = tmp_path / "results" / "results.json"
    arguments = [platform, "--lab", "01_axpy", "--submission", str(tmp_path), "--results", str(place)]
    assert in_container.main(arguments) == 0
    found = json.loads(place.read_text())
    jsonschema.validate(found, SCHEMAS[platform])
    assert "Python file" in str(found) or "handed in 2 files" in str(found) or "is empty" in str(found)


@pytest.mark.processes
@pytest.mark.parametrize("platform", sorted(SCHEMAS))
def test_a_judge_that_never_ends_leaves_results(tmp_path: Path, platform: str) -> None:
    (tmp_path / "submission.py").write_text("x = 1\n")
    place = tmp_path / "results.json"
    arguments = [platform, "--lab", "01_axpy", "--submission", str(tmp_path), "--results", str(place)]
    assert in_container.main([*arguments, "--seconds", "0.01"]) == 0
    found = json.loads(place.read_text())
    jsonschema.validate(found, SCHEMAS[platform])
    assert "did not finish within 0.01 s" in str(found)


@pytest.mark.parametrize("platform", sorted(SCHEMAS))
def test_a_judge_that_writes_no_report_leaves_results(
    tmp_path: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "submission.py").write_text("x = 1\n")
    monkeypatch.setattr(in_container.subprocess, "run", writes_no_report)
    found = in_container.grade_for(platform, "01_axpy", tmp_path, 60)
    jsonschema.validate(found, SCHEMAS[platform])
    assert "What the judge wrote is no report (Object missing required field `lab`" in str(found)


def test_a_cell_of_a_judge_that_writes_no_report_gives_no_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "submission.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cells.subprocess, "run", writes_no_report)
    assert cells.points("01_axpy", "safety") == 0.0
    assert "what it wrote is no report" in capsys.readouterr().out


def writes_no_report(command: list[str], **_: Any) -> subprocess.CompletedProcess:
    Path(command[command.index("--json") + 1]).write_text('{"reports": [{}]}')
    return subprocess.CompletedProcess(command, 0, "", "")


def test_results_too_large_for_the_platform_lose_their_texts(tmp_path: Path) -> None:
    results = gradescope.results(report_of(ON_GPU))
    results["tests"][0]["output"] = "x" * in_container.MOST_RESULTS
    in_container.write_results(results, tmp_path / "results.json")
    assert (tmp_path / "results.json").stat().st_size < in_container.MOST_RESULTS
    assert json.loads((tmp_path / "results.json").read_text())["score"] == results["score"]


def unpacked(archive: bytes, place: Path) -> list[str]:
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        opened.extractall(place)
        return opened.namelist()


@pytest.mark.processes
def test_grades_made_elsewhere_are_handed_out(tmp_path: Path) -> None:
    lines = [line("ada", content=b"# ada's"), line("bob", found=WRONG, content=b"# bob's"), problem("eve")]
    archive = gradescope_delivered(lines)
    assert b"ada" not in archive and b"bob" not in archive
    unpacked(archive, tmp_path / "source")
    crlf = b"# ada's\r\n"
    for content, wanted in ((b"# ada's", 15.0), (crlf, 15.0), (b"# bob's", 0.0), (b"# new", None)):
        (tmp_path / "submission").mkdir(exist_ok=True)
        (tmp_path / "submission" / "any name.py").write_bytes(content)
        command = [
            sys.executable,
            "deliver.py",
            str(tmp_path / "submission"),
            "graded.json",
            str(tmp_path / "out.json"),
        ]
        subprocess.run(command, cwd=tmp_path / "source", check=True, env={"PATH": os.environ["PATH"]})
        found = json.loads((tmp_path / "out.json").read_text())
        jsonschema.validate(found, GRADESCOPE)
        assert found.get("score") == wanted
    assert {test["visibility"] for test in found["tests"]} == {"hidden"}  # so that no 0 is shown
    assert "has arrived" in found["output"]  # the last one, which nobody has graded


def delivered(archive: bytes, place: Path, name: str, content: bytes, email: str) -> dict[str, Any]:
    """What a student with this e-mail address gets for a file."""
    (place / "submission").mkdir(parents=True)
    (place / "submission" / name).write_bytes(content)
    (place / "submission_metadata.json").write_text(json.dumps({"users": [{"email": email}]}))
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        (place / "graded.json").write_bytes(opened.read("graded.json"))
    deliver.main(str(place / "submission"), str(place / "graded.json"), str(place / "out.json"))
    return json.loads((place / "out.json").read_text())


def test_two_students_with_one_file_get_what_counts_for_each(tmp_path: Path) -> None:
    ada, bob = line("ada@x.edu", content=b"# a"), line("bob@x.edu", content=b"# a")
    bob = replace(bob, counts=9.0, why="set by hand: late")
    old = line("ada@x.edu", content=b"# before")
    archive = gradescope_delivered([ada, bob], [old, ada, bob])
    assert delivered(archive, tmp_path / "1", "submission.py", b"# a\n", "Ada@x.edu")["score"] == 15
    found = delivered(archive, tmp_path / "2", "submission.py", b"# a", "bob@x.edu")
    assert found["score"] == 9 and found["output"].startswith("set by hand: late")
    assert delivered(archive, tmp_path / "3", "submission.py", b"# before", "ada@x.edu")["score"] == 15
    cell = json.dumps({"cells": [{"cell_type": "code", "source": ["%%submit 03_transpose\n", "# a"]}]}).encode()
    assert delivered(archive, tmp_path / "4", "lab.ipynb", cell, "bob@x.edu")["score"] == 9


@pytest.mark.processes
def test_what_gradescope_gets_holds_one_lab_and_no_answers(tmp_path: Path) -> None:
    names = unpacked(gradescope_inside(find_lab("03_transpose")), tmp_path)
    assert {name.split("/")[1] for name in names if name.startswith("labs/")} == {"03_transpose"}
    assert not [name for name in names if name.startswith(("solutions", "corpus", "tests"))]
    for script in ("setup.sh", "run_autograder"):
        assert subprocess.run(["bash", "-n", str(tmp_path / script)]).returncode == 0
    assert "mode=inside lab=03_transpose" in (tmp_path / "settings").read_text()


@pytest.mark.parametrize(("name", "trains"), [("03_transpose", False), ("15_selective_checkpoint", True)])
def test_gradescope_installs_pytorch_for_the_lab_that_trains(tmp_path: Path, name: str, trains: bool) -> None:
    unpacked(gradescope_inside(find_any(name)), tmp_path)
    wanted = (tmp_path / "requirements.txt").read_text().split("\n")
    assert ("torch" in wanted) == trains and "numba" in wanted


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("03_transpose", {"correctness", "safety", "traffic"}),
        # Its time is modelled: no GPU is needed.
        ("12_collectives", {"correctness", "safety", "traffic", "efficiency"}),
    ],
)
def test_otters_points_are_the_labs(tmp_path: Path, name: str, parts: set[str]) -> None:
    lab = find_any(name)
    unpacked(otter(lab), tmp_path)
    assert {path.stem for path in (tmp_path / "tests").glob("*.py")} == parts
    assert {part.value for part, _ in parts_of(lab, gpu=False)} == parts
    for part in parts:
        text = (tmp_path / "tests" / f"{part}.py").read_text()
        compile(text, part, "exec")
        measured = 9 if (name, part) == ("12_collectives", "efficiency") else 0  # on two GPUs, which are not there
        assert f"points = {getattr(lab.points, part) - measured}" in text


@pytest.mark.processes
def test_prairielearns_question_names_what_it_writes(tmp_path: Path) -> None:
    write_prairielearn(find_lab("03_transpose"), tmp_path)
    options = json.loads((tmp_path / "info.json").read_text())["externalGradingOptions"]
    assert options["enableNetworking"] is False and options["timeout"] <= 600
    entry = tmp_path / Path(options["entrypoint"]).relative_to("/grade")
    assert os.access(entry, os.X_OK) and subprocess.run(["sh", "-n", str(entry)]).returncode == 0
    assert (CHECKOUT / "labs" / options["environment"]["WARPLAB_LAB"]).is_dir()
