"""Judging the files of the corpus on the emulator: a part of them by default (tests/sampling.py).

Most of it goes without hidden cases, which are captured in a process of their own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.judge.pipeline import grade
from autograder.records.machine import Machine
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import find_any
from corpus.judge.truth import SUBMISSIONS as CORPUS
from warplab.plan.model import EMULATED_ARCHITECTURE
from warplab.worker.process import Worker

EMULATOR = Machine(Executor.EMULATOR, EMULATED_ARCHITECTURE, "emulator")
SEED = 20
SCORED = (Part.CORRECTNESS, Part.SAFETY, Part.TRAFFIC)


def emulator_for(lab: str) -> Machine:
    """The emulator as a grade of the lab called `lab` has it."""
    return replace(EMULATOR, architecture=find_any(lab).emulated)


def files(*patterns: str, root: Path = CORPUS) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def lab_of(path: Path) -> str:
    """The lab of a file of the corpus."""
    return path.parts[-3]


def verdict_of(path: Path) -> tuple[str, str]:
    """(part, status) of a file's first line."""
    return expectation(path)[:2]


def name(path: Path) -> str:
    return "/".join(path.parts[-3:])


def expectation(path: Path) -> tuple[str, str, str]:
    """(part, status, why) of a file's first line."""
    first = path.read_bytes().split(b"\n", 1)[0].decode()
    assert first.startswith("# expect: "), f"{path} does not begin with its expectation"
    part, status, why = first.removeprefix("# expect: ").split(": ", 2)
    return part, status, why


def judge(path: Path, lab: str, worker: Worker, quick: bool = False) -> Report:
    report = grade(Request(find_any(lab), path, emulator_for(lab), seed=SEED, quick=quick), worker)
    assert report.status is not Status.JUDGE_ERROR, report.message
    skip_without_torch(report)
    return report


def skip_without_torch(report: Report) -> None:
    """Leave a test of a submission that comes as far as what needs PyTorch, where that is not installed."""
    if any(part.status is Status.NEEDS_TORCH for part in report.parts):
        pytest.skip("PyTorch is not installed: make torch")


def show(report: Report) -> str:
    return "\n".join(
        f"{part.part}: {part.status} {part.score}/{part.max_score}: {part.message}" for part in report.parts
    )
