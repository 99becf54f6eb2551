"""The runner of the judge's corpus sees wrong verdicts, and takes all of the corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.judge.confined_worker import ConfinedWorker
from autograder.records.machine import choose_machine
from autograder.records.report import PartResult, Report
from autograder.records.status import Executor, Part, Status
from benchmarks.judge import BrieflyTimed, Verdict, records
from corpus.judge import on_gpu
from corpus.judge.entries import CORPORA, cases
from corpus.judge.truth import SUBMISSIONS, mutants
from course import results
from tests.autograder.report.example_reports import report

CASES = {f"{case.corpus}/{case.lab}/{case.name}": case for case in cases()}
POINTS = {Part.CORRECTNESS: 40.0, Part.SAFETY: 15.0, Part.TRAFFIC: 15.0, Part.EFFICIENCY: 30.0}


def verdict(device: Executor = Executor.EMULATOR, **statuses: Status) -> Report:
    """A report whose parts passed, but for those that are named."""
    last = Status.PASSED if device is Executor.GPU else Status.NOT_MEASURED
    default = {"correctness": Status.PASSED, "safety": Status.PASSED, "traffic": Status.PASSED, "efficiency": last}
    parts = tuple(
        PartResult(part, status, points if status is Status.PASSED else 0.0, points)
        for (part, points), status in zip(POINTS.items(), {**default, **statuses}.values(), strict=True)
    )
    return replace(report(), parts=parts, device=device, status=Status.PARTIAL)


def test_all_of_the_corpus_is_taken() -> None:
    files = [path for path in SUBMISSIONS.rglob("*.py") if path.parent.name in CORPORA]
    shared = [path for path in SUBMISSIONS.rglob("*.py") if path.stem in CORPORA]
    begun = sum(path.read_text("utf-8").count("# submission: ") for path in shared)
    made = sum(path.read_text("utf-8").count("+++ ") for path in SUBMISSIONS.rglob("*.diff"))
    assert made > 200 and len(CASES) >= len(files) + begun + made + len(mutants()) + 5
    assert {case.corpus for case in CASES.values()} == set(CORPORA)


WRONG = Status.WRONG_ANSWER


@pytest.mark.parametrize(
    ("name", "given", "right"),
    [
        ("exploit/01_axpy/known_seeds", verdict(correctness=WRONG, safety=Status.WITHHELD), True),
        ("exploit/01_axpy/known_seeds", verdict(correctness=Status.HOST_ERROR), False),
        ("exploit/01_axpy/known_seeds", verdict(), False),
        ("exploit/01_axpy/good_when_watched", verdict(), True),
        ("exploit/01_axpy/good_when_watched", verdict(Executor.GPU), False),
        ("exploit/01_axpy/good_when_watched", verdict(Executor.GPU, efficiency=WRONG), True),
        ("exploit/01_axpy/overwrites_neighbours", verdict(safety=Status.OUT_OF_BOUNDS), True),
        ("exploit/01_axpy/overwrites_neighbours", verdict(traffic=Status.OVER_BUDGET), False),
        ("correct/01_axpy/in_float64", verdict(), True),
        ("correct/01_axpy/in_float64", verdict(safety=Status.RACE), False),
        ("reference/01_axpy/submission", verdict(), True),
        ("reference/01_axpy/submission", verdict(Executor.GPU, efficiency=Status.SLOW), False),
        ("mutant/01_axpy/submission/constant_output", verdict(), False),
    ],
)
def test_wrong_verdicts_are_seen(name: str, given: Report, right: bool) -> None:
    assert (CASES[name].object(given) == []) is right


@pytest.mark.processes
def test_records_are_what_a_results_file_takes(tmp_path: Path) -> None:
    case = CASES["exploit/01_axpy/known_seeds"]
    verdicts = [Verdict(case, verdict(), ("wrong",)), Verdict(replace(case, name="other"), verdict(), ())]
    results.write(tmp_path / "judge.json", results.make_header("make test-judge"), records(verdicts))
    kept = results.read(tmp_path / "judge.json")
    assert [kept.find("01_axpy", "verdict", variant=f"exploit/{name}").value for name in ("known_seeds", "other")] == [
        0,
        1,
    ]


@pytest.mark.processes
def test_a_confined_worker_finds_what_prepares_it_for_the_gpu() -> None:
    worker = BrieflyTimed(choose_machine("emulator"))
    try:
        assert ConfinedWorker.call(worker, f"{on_gpu.__name__}:timing_seconds", timeout=60) == on_gpu.TIMING_SECONDS
    finally:
        worker.close()
