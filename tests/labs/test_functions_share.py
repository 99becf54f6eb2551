"""Each function of a lab of records earns its own share: one that is missing or fails takes nothing from the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Part
from autograder.report.source_slips import not_written
from autograder.spec.attacks import AttackTask
from autograder.spec.lab import solutions_folder
from tests.labs.judging import EMULATOR, skip_without_torch
from tests.labs.record_labs import LABS, SEED, RecordLab, share_of
from warplab.worker.process import Worker

GRADED = [lab for lab in LABS if not isinstance(lab.task, AttackTask)]
EACH = [
    pytest.param(lab, asked.function, id=f"{lab.name}/{asked.function}")
    for lab in GRADED
    for asked in lab.task.functions
]
FAILURES = {
    "raises": "    raise NotImplementedError\n",
    "returns_none": "    return None\n",
    "divides": "    return 1 // 0\n",
}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with ConfinedWorker(EMULATOR, own=False) as shared:
        yield shared


def reference(lab: RecordLab) -> str:
    return (solutions_folder() / lab.name / "submission.py").read_text(encoding="utf-8")


def definition(text: str, function: str) -> str:
    """The text of a function, to the next line that is not its own."""
    found = re.search(rf"^def {function}\(.*\n(?:[ \t].*\n|\n)*", text, re.MULTILINE)
    assert found, function
    return found[0]


def without(lab: RecordLab, *functions: str) -> str:
    """The reference with these functions as in the starter."""
    text, starter = reference(lab), (lab.folder / "submission.py").read_text(encoding="utf-8") + "\n"
    for function in functions:
        text = text.replace(definition(text, function), definition(starter, function) + "\n\n")
    return text


def graded(lab: RecordLab, text: str, worker: Worker, folder: Path) -> Report:
    path = folder / "submission.py"
    path.write_text(text, encoding="utf-8")
    report = grade(Request(lab, path, EMULATOR, SEED, quick=True), worker)
    skip_without_torch(report)
    return report


@pytest.mark.processes
@pytest.mark.parametrize(("lab", "function"), EACH)
def test_a_function_left_as_in_the_starter_costs_its_own_share(
    lab: RecordLab, function: str, worker: Worker, tmp_path: Path
) -> None:
    report = graded(lab, without(lab, function), worker, tmp_path)
    others = {asked.function for asked in lab.task.functions} - {function}
    assert report.score == pytest.approx(share_of(lab, others), abs=0.3), [p.message for p in report.parts]
    assert f"{function} is still as in the starter" in report.part(Part.CORRECTNESS).message
    assert report.opening.startswith(f"Write {function} next")


@pytest.mark.processes
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("lab", GRADED, ids=lambda lab: lab.name)
def test_a_function_that_fails_costs_its_own_share(
    lab: RecordLab, failure: str, worker: Worker, tmp_path: Path
) -> None:
    first = lab.task.functions[0].function
    text = reference(lab)
    head = definition(text, first).split("\n")[0]
    report = graded(lab, text.replace(head, f"{head}\n{FAILURES[failure]}"), worker, tmp_path)
    others = {asked.function for asked in lab.task.functions} - {first}
    assert report.score == pytest.approx(share_of(lab, others), abs=0.3), [p.message for p in report.parts]


@pytest.mark.processes
@pytest.mark.parametrize("lab", GRADED, ids=lambda lab: lab.name)
def test_a_single_function_earns_its_share_and_a_starter_nothing(
    lab: RecordLab, worker: Worker, tmp_path: Path
) -> None:
    first, *others = [asked.function for asked in lab.task.functions]
    report = graded(lab, without(lab, *others), worker, tmp_path)
    assert report.score == pytest.approx(share_of(lab, {first}), abs=0.3)
    assert graded(lab, without(lab, first, *others), worker, tmp_path).score == 0


def test_what_is_not_written_is_told_by_its_lines() -> None:
    starter = 'def one(a):\n    """Words."""\n    return []\n\n\ndef two(b):\n    return []\n'
    written = 'def one(a):\n    # later\n    """Words."""\n\n    return []\n\n\ndef two(b):\n    return [b]\n'
    assert not_written(written, starter, ["one", "two", "three"]) == ("one", "three")
    assert not_written("def two(b):\n    return []\n\n\ndef two(b):\n    return [1]\n", starter, ["two"]) == ()
