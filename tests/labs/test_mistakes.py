"""What is said first of a beginner's mistake is right, names the line, and whoever does it gains the points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.spec.lab import find_any
from corpus.mistakes.mistake import Mistake, mistakes
from corpus.mistakes.record_slips import RECORD_LABS, record_slips
from corpus.mistakes.slips import KINDS, SOLUTIONS, all_slips
from tests.labs.judging import EMULATOR, emulator_for, skip_without_torch
from tests.sampling import part_of
from warplab.own_kernels.run import OwnCodeError, run_file
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

SEED = 1
SAMPLED = 12  # one in so many of the labs that take a second each is in `make test` too
WITHOUT_KERNELS = {*RECORD_LABS, "18_break_the_judge"}
ALL = [*mistakes()]
GRADED = [
    pytest.param(m, id=m.identifier, marks=[pytest.mark.smoke] if number % SAMPLED == 0 and m.lab < "07" else [])
    for number, m in enumerate(m for m in ALL if m.lab)
]
# One in so many of a lab and a kind: the small labs' solutions take two seconds each. Those of the others take up to
# twenty, and what waits for ever takes longer still, so that only the first of a kind is tried.
SLIPS = [
    *part_of([m for m in all_slips() if m.lab < "07"], 4, lambda m: (m.lab, m.kind)),
    *{(m.lab, m.kind): m for m in reversed([*all_slips()]) if m.lab >= "07" and m.kind != "no_arrival"}.values(),
]
RECORDS = part_of([*record_slips()], 4, lambda m: (m.lab, m.name.partition("_line")[0]))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with ConfinedWorker(EMULATOR, own=False) as shared:
        yield shared


@cache
def graded(lab: str, text: str, worker: Worker, folder: Path) -> Report:
    path = folder / "submission.py"
    path.write_text(text, encoding="utf-8")
    return grade(Request(find_any(lab), path, emulator_for(lab), seed=SEED, quick=True), worker)


@pytest.mark.parametrize("mistake", GRADED)
def test_the_first_sentence_is_right_and_obeying_it_gains_points(
    mistake: Mistake, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    fixed = graded(mistake.lab, mistake.base.read_text(encoding="utf-8"), worker, folder)
    skip_without_torch(fixed)
    report = graded(mistake.lab, mistake.text(), worker, folder)
    assert mistake.objections(report.opening) == [], report.opening
    assert (report.score < fixed.score) is mistake.costs, f"{report.score:g} of {fixed.score:g}: {report.opening}"


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.identifier)
def test_a_typical_slip_in_a_solution_loses_points_and_is_named_first(
    slip: Mistake, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    fixed = graded(slip.lab, slip.base.read_text(encoding="utf-8"), worker, folder)
    report = graded(slip.lab, slip.text(), worker, folder)
    assert slip.objections(report.opening) == [], report.opening
    assert report.score < fixed.score


@pytest.mark.parametrize("slip", RECORDS, ids=lambda slip: slip.identifier)
def test_a_typical_slip_in_a_function_of_records_costs_its_share_and_is_named_first(
    slip: Mistake, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    fixed = graded(slip.lab, slip.base.read_text(encoding="utf-8"), worker, folder)
    skip_without_torch(fixed)
    report = graded(slip.lab, slip.text(), worker, folder)
    assert slip.objections(report.opening) == [], report.opening
    assert 0 < report.score < fixed.score


@pytest.mark.parametrize("mistake", [m for m in ALL if not m.lab], ids=lambda m: m.identifier)
def test_of_a_users_own_code_the_first_sentence_is_right_too(mistake: Mistake, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(mistake.text(), encoding="utf-8")
    try:
        opening = run_file(path).findings[0].message
    except OwnCodeError as error:
        opening = str(error)
    assert mistake.objections(opening) == [], opening
    assert run_file(mistake.base).findings == ()


def test_names_are_unique_and_lines_exist() -> None:
    assert max(Counter(m.identifier for m in ALL).values()) == 1
    for mistake in ALL:
        mistake.expected()
    assert len(ALL) >= 150
    whole = [*all_slips()]
    assert {slip.kind for slip in whole} == set(KINDS)
    assert {slip.lab for slip in whole} == {path.parent.name for path in SOLUTIONS.glob("*/*.py")} - WITHOUT_KERNELS
    assert len(whole) > 300 and len([*record_slips()]) > 40
