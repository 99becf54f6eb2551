"""Pairs of submissions that are alike, as hints for an instructor: a page with their common parts side by side."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from autograder.classroom.grade_line import GradeLine
from autograder.judge.capture_stage import Submission
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.kinds import kind_of
from autograder.judge.shape import NoShape, shape_of
from autograder.overview.alike import AlikePair, ComparedWork, Passage, passage
from autograder.overview.tokens import Token, TokenReader, tokens
from autograder.records.machine import Machine, require_isolation
from autograder.records.request import OnProgress
from autograder.records.shape import Shape
from autograder.records.text import clean_source
from autograder.report.html_page import similar_page
from autograder.spec.lab import SUBMISSION_NAMES, AnyLab, Lab, LabOf
from warplab.hardware.processors import usable_processors
from warplab.sandbox.isolation import Isolation

SEED = 1  # of the sizes that are compiled for: nothing is graded, and all are compared on the same
SHOWN = 25  # pairs that the page shows with their common part
MOST_LINES = 40  # of a common part that are shown


def works(
    lines: Iterable[GradeLine],
    lab: LabOf[Any],
    machine: Machine | None,
    allow_reduced: bool = False,
    progress: OnProgress = lambda step, fraction: None,
) -> list[ComparedWork]:
    """The submissions of a lab as they are compared, kernels compiled on `machine` if one is given; each in a sandbox
    of its own. `progress` is told how many are read. Raises DeviceError where other people's work must not run, and
    `allow_reduced` does not say that it may."""
    handed_in = [line for line in lines if line.lab == lab.name and line.content]

    def read(line: GradeLine) -> ComparedWork:
        text, compiled = line.content.decode("utf-8", "replace"), None
        if kind_of(lab).compiled and machine:
            compiled = _compiled(lab, Submission(line.file, text), machine, allow_reduced)
        return ComparedWork(line.student, clean_source(text), reader.read(text), compiled)

    found: list[ComparedWork] = []
    with TokenReader() as reader, ThreadPoolExecutor(usable_processors()) as pool:
        for work in pool.map(read, handed_in):
            found.append(work)
            progress(f"{len(found)} of {len(handed_in)}", len(found) / len(handed_in))
    return found


def starters(lab: AnyLab) -> list[list[Token]]:
    """The tokens of what everybody was given."""
    files = [lab.folder / name for name in SUBMISSION_NAMES]
    return [tokens(file.read_text(encoding="utf-8")) for file in files if file.is_file()]


def page(lab: AnyLab, found: Sequence[AlikePair]) -> str:
    """The page: the most alike pairs with their common parts, and what is usual in this class."""
    shown = [(pair, *_excerpts(pair, passage(pair))) for pair in found[:SHOWN]]
    usual = {
        "tokens": _median(pair.by_tokens for pair in found),
        "compiled": _median(pair.compiled for pair in found),
        "work": _median(pair.work for pair in found),
    }
    return similar_page(f"Submissions alike: {lab.name}", usual, shown, len(found))


def _compiled(lab: Lab, submission: Submission, machine: Machine, allow_reduced: bool) -> Shape | None:
    with ConfinedWorker(machine, own=False) as worker:
        worker.start()
        require_isolation(worker.isolation or Isolation.REDUCED, Path(submission.name), allow_reduced)
        try:
            return shape_of(lab, submission, SEED, machine, worker)
        except NoShape:
            return None


def _excerpts(pair: AlikePair, common: Passage | None) -> tuple[str, str]:
    if common is None:
        return "", ""
    return _lines(pair.first.text, *common.first), _lines(pair.second.text, *common.second)


def _lines(text: str, first: int, last: int) -> str:
    rows = text.split("\n")[first - 1 : last]
    shown = [f"{number:4d}  {row}" for number, row in enumerate(rows[:MOST_LINES], start=first)]
    return "\n".join(shown + ([f"      ... to line {last}"] if len(rows) > MOST_LINES else []))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
