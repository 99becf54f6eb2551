"""References, starters, rungs, wrong, correct and damaged submissions get the verdict that they must, on the emulator.

The first line of a file in corpus/judge/submissions is `# expect: <part>: <status>: <why>`. For a right one the
part is the last one that it passes, or `all`; for a wrong one the part that it must fail, with its status or one
of its findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

from autograder.judge import capture_stage, runner
from autograder.judge.confined_worker import ConfinedWorker
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import find_any, known_labs, labs_folder, solutions_folder
from corpus.judge.entries import FURTHER_TESTS, further_tests
from corpus.judge.mutants.verdict import failed
from corpus.judge.submission_files import KINDS, submissions
from tests.labs.judging import (
    EMULATOR,
    SCORED,
    expectation,
    files,
    judge,
    lab_of,
    name,
    show,
    verdict_of,
)
from tests.sampling import WHOLE, one_of_each, part_of
from warplab.plan.execution import FindingKind
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

LAB = attrgetter("parent.name")
ENDLESS = ("host code timed out", "endless kernel")
# of starters that return no kernels
_SAID = {"programs": "Rank 0 has 0 for y[", "attacks": "it is an honest kernel, or got in"}
# tests/gemm has the rungs of these, ragged ones included.
LADDERS = () if WHOLE else ("07_tensor_core_hgemm", "08_hopper_hgemm")
# References that Numba takes longest to compile: `make test` has their twins in CUDA C++ only.
LONG = () if WHOLE else ("02_divergence", "05_softmax", "07_tensor_core_hgemm", "10_index_shuffle")
REFERENCES = [p for p in files("*/submission*.py", root=solutions_folder()) if LAB(p) not in LONG or "cuda" in p.stem]
# Those with their hidden cases, which are captured again: of every sixth lab, in the language that compiles sooner.
SOONER = [p for p in REFERENCES if "cuda" in p.stem or not p.with_name("submission_cuda.py").exists()]
WITH_HIDDEN = REFERENCES if WHOLE else SOONER[2::6]
# Right ones by other hands: in `make test` every third of those that are the first of their lab or verdict.
RIGHT = one_of_each(submissions("correct"), lab_of, verdict_of)[:: 1 if WHOLE else 3]
RUNGS = [path for path in files("*/rung_*.py", root=solutions_folder()) if LAB(path) not in LADDERS]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with ConfinedWorker(EMULATOR, own=False) as shared:
        yield shared


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what never ends: the judge waits long for what does, however slow the machine."""
    monkeypatch.setattr(capture_stage, "CAPTURE_SECONDS", 4.0)
    monkeypatch.setattr(runner, "CASE_SECONDS", dict.fromkeys(Executor, 4.0))


@pytest.mark.parametrize("path", REFERENCES, ids=name)
def test_references_earn_full_marks(path: Path, worker: Worker) -> None:
    report = judge(path, path.parent.name, worker, quick=path not in WITH_HIDDEN)
    assert report.full_marks, show(report)


@pytest.mark.parametrize("path", part_of(files("*/submission*.py", root=labs_folder()), 2, LAB), ids=name)
def test_starters_get_a_clear_verdict_and_no_points(path: Path, worker: Worker) -> None:
    report = judge(path, path.parent.name, worker, quick=not WHOLE)
    assert report.score == 0, show(report)
    assert report.status is Status.WRONG_ANSWER
    assert not any(finding.kind is FindingKind.DEADLOCK for part in report.parts for finding in part.findings)
    cases = report.part(Part.CORRECTNESS).cases
    first = next((case for case in cases if case.cause), cases[0])  # of a single element little can be said
    kind = find_any(path.parent.name).task.kind
    if kind != "kernels":
        assert _SAID.get(kind, "It returns no records.") in first.message
        return
    cause = first.cause
    # Nothing has written yet: the kernel before one that reads it. Two rows meet in one place: those of lab 10.
    clear = "never written", "nothing has written yet", "does not depend on the inputs", "write-write race"
    assert any(words in cause for words in clear), cause


@pytest.mark.parametrize("path", part_of(RUNGS, 12, lambda path: "all"), ids=name)
def test_rungs_are_right_and_safe(path: Path, worker: Worker) -> None:
    report = judge(path, path.parent.name, worker, quick=not WHOLE)
    for part in (Part.CORRECTNESS, Part.SAFETY):
        assert report.part(part).status is Status.PASSED, show(report)


@pytest.mark.parametrize("path", RIGHT, ids=name)
def test_right_submissions_pass(path: Path, worker: Worker) -> None:
    last, status, _ = expectation(path)
    report = judge(path, lab_of(path), worker, quick=not WHOLE)
    passed = SCORED if last == "all" else SCORED[: SCORED.index(Part(last)) + 1]
    for part in passed:
        assert report.part(part).status == status == "passed", show(report)


@pytest.mark.parametrize("path", one_of_each(submissions("wrong"), verdict_of), ids=name)
def test_wrong_submissions_fail_for_their_reason(path: Path, worker: Worker) -> None:
    words, status, _ = expectation(path)
    report = judge(path, lab_of(path), worker, quick=True)
    part = report.part(Part(words))
    assert not report.full_marks
    assert failed(part), show(report)
    assert status in {part.status.value, *(finding.kind.value for finding in part.findings)}, show(report)
    for earlier in SCORED[: SCORED.index(part.part)] if part.part is Part.TRAFFIC else ():
        assert report.part(earlier).status is Status.PASSED, show(report)


@pytest.mark.cold_captures
@pytest.mark.parametrize("path", part_of(files("bad_input/*.py"), 2, lambda path: "all"), ids=name)
def test_bad_input_is_a_verdict_of_one_clear_sentence(
    path: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, status, _ = expectation(path)
    if status in ENDLESS:
        impatient(monkeypatch)
    report = judge(path, "01_axpy", worker, quick=not WHOLE)
    part = report.part(Part(words))
    assert report.score == 0
    assert status in {part.status.value, *(finding.kind.value for finding in part.findings)}, show(report)
    for shown in (report.message, part.message):
        assert shown and "Traceback" not in shown and "\n" not in shown.strip()
    if "on line " in path.read_bytes().split(b"\n", 1)[0].decode():
        line = path.read_text().split("\n", 1)[0].rsplit("on line ", 1)[1]
        assert report.line == int(line), show(report)


def test_every_lab_has_its_corpus() -> None:
    for lab in known_labs():
        assert len(submissions("wrong", lab)) >= 3
        assert len(submissions("correct", lab)) >= 3
        for path in (path for kind in KINDS for path in submissions(kind, lab)):
            part, status, why = expectation(path)
            assert part in {*Part, "all"} and status in {*Status} and why
            assert further_tests(path.read_text("utf-8")) <= set(FURTHER_TESTS), path
