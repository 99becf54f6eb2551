"""Judging the files of the corpus on the emulator."""

from __future__ import annotations

from pathlib import Path

from autograder.judge.pipeline import grade
from autograder.records.machine import Machine
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import find_lab
from corpus.judge.truth import SUBMISSIONS as CORPUS
from warplab.plan.model import EMULATED_ARCHITECTURE
from warplab.worker.process import Worker

EMULATOR = Machine(Executor.EMULATOR, EMULATED_ARCHITECTURE, "emulator")
SEED = 20
SCORED = (Part.CORRECTNESS, Part.SAFETY, Part.TRAFFIC)


def files(*patterns: str, root: Path = CORPUS) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def name(path: Path) -> str:
    return "/".join(path.parts[-3:])


def expectation(path: Path) -> tuple[str, str, str]:
    """(part, status, why) of a file's first line."""
    first = path.read_bytes().split(b"\n", 1)[0].decode()
    assert first.startswith("# expect: "), f"{path} does not begin with its expectation"
    part, status, why = first.removeprefix("# expect: ").split(": ", 2)
    return part, status, why


def judge(path: Path, lab: str, worker: Worker, quick: bool = False) -> Report:
    report = grade(Request(find_lab(lab), path, EMULATOR, seed=SEED, quick=quick), worker)
    assert report.status is not Status.JUDGE_ERROR, report.message
    return report


def show(report: Report) -> str:
    return "\n".join(
        f"{part.part}: {part.status} {part.score}/{part.max_score}: {part.message}" for part in report.parts
    )
