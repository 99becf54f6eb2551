"""compute-sanitizer's output is understood, and on a GPU host it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.judge.pipeline import grade
from autograder.judge.second_opinion import require_second_opinion
from autograder.records.machine import Machine, choose_machine
from autograder.records.report import SecondOpinion
from autograder.records.request import Request
from autograder.records.status import Executor, Part, Status
from autograder.report.words import opinion_words
from autograder.spec.lab import find_lab
from corpus.judge.truth import SUBMISSIONS as CORPUS
from warplab.errors import DeviceError
from warplab.gpu import sanitizer
from warplab.plan.model import EMULATED_ARCHITECTURE
from warplab.worker.process import Worker

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at axpy_kernel+0x1c0 in submission.py:14
=========     by thread (25,0,0) in block (3,0,0)
=========     Access at 0x7f5a is out of bounds
========= Invalid __global__ write of size 4 bytes
=========     at axpy_kernel+0x1f0 in /tmp/elsewhere/submission.py:15
=========     at helper+0x1f0 in header.h:99
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: TurnTimes reported between Write access at kernel+0x110 in submission.py:9
=========     and Read access at kernel+0x170 in submission.py:11 [256 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_reports_are_read() -> None:
    said = sanitizer.read("memcheck", MEMCHECK, "submission.py")
    assert (said.errors, said.lines) == (2, (14, 15))
    assert said.words == "Invalid __global__ read of size 4 bytes"
    assert sanitizer.read("racecheck", RACECHECK, "submission.py").errors == 1
    assert sanitizer.read("memcheck", CLEAN, "submission.py") == sanitizer.Opinion("memcheck", 0, "", ())
    assert sanitizer.read("memcheck", "Killed", "submission.py").errors == -1


def test_opinions_in_words() -> None:
    assert opinion_words(SecondOpinion("memcheck", "ragged", 2, "Invalid", (14, 15), True)) == (
        "memcheck reports 2 errors on line 14, 15 on the case 'ragged', as the emulator does."
    )
    differing = opinion_words(SecondOpinion("racecheck", "ragged", 1, "Race", (), False))
    assert differing.endswith("which the emulator does not: the grade is the emulator's.")
    assert "finds nothing" in opinion_words(SecondOpinion("memcheck", "ragged", 0, "", (), True))
    assert "no report in time" in opinion_words(SecondOpinion("memcheck", "ragged", -1, "", (), None))


def test_without_a_gpu_it_is_refused_before_anything_is_graded() -> None:
    with pytest.raises(DeviceError, match="needs a GPU"):
        require_second_opinion(Machine(Executor.EMULATOR, EMULATED_ARCHITECTURE, "emulator"))


@pytest.mark.gpu
@pytest.mark.skipif(sanitizer.find() is None, reason="needs compute-sanitizer")
@pytest.mark.parametrize(
    ("submission", "tool"),
    [("03_transpose/wrong/missing_barrier.py", "racecheck"), ("01_axpy/wrong/no_guard.py", "memcheck")],
)
def test_a_second_opinion_agrees_and_changes_nothing(submission: str, tool: str) -> None:
    path: Path = CORPUS / submission
    request = Request(find_lab(path.parts[-3]), path, choose_machine("gpu"), seed=20, second_opinion=True)
    with Worker() as worker:
        report = grade(request, worker)
    assert report.status is not Status.JUDGE_ERROR, report.message
    said = {opinion.tool: opinion for opinion in report.second_opinions}
    assert set(said) == set(sanitizer.TOOLS)
    assert said[tool].errors > 0 and said[tool].agrees
    ours = {finding.line for finding in report.part(Part.SAFETY).findings}
    assert ours & set(said[tool].lines)
