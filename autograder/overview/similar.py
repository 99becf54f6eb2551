"""Pairs of submissions that are alike, as hints for an instructor: a page with their common parts side by side."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder.judge.capture_stage import Submission
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.kinds import kind_of
from autograder.judge.shape import NoShape, shape_of
from autograder.overview.alike import AlikePair, ComparedWork, Runs
from autograder.overview.alike_groups import Alike
from autograder.overview.common_parts import common_parts
from autograder.overview.compared_texts import ComparedText
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
FOLDER = "similar"  # of the pages, in that of a class's results
SHOWN = 25  # entries that the page shows with their texts
MOST_LINES = 1500  # of a text that are shown
_MOST_CHARACTERS = 400  # of a line


@dataclass(frozen=True)
class Line:
    """A line of a text: `part` numbers the common part that it belongs to, from 1, 0 for none; `begins` one."""

    number: int
    text: str
    part: int = 0
    begins: bool = False


@dataclass(frozen=True)
class Beside:
    """Two texts side by side, with the names of their authors."""

    pair: AlikePair
    first: list[Line]
    second: list[Line]
    parts: int


def works(
    texts: Sequence[ComparedText],
    lab: LabOf[Any],
    machine: Machine | None,
    allow_reduced: bool = False,
    progress: OnProgress = lambda step, fraction: None,
) -> list[ComparedWork]:
    """The texts as they are compared, kernels compiled on `machine` if one is given, each different text once, in a
    sandbox of its own. `progress` is told how many are read. Raises DeviceError where other people's work must not run,
    and `allow_reduced` does not say that it may."""
    different = {text.content: text for text in texts}

    def read(one: ComparedText) -> ComparedWork:
        text, compiled = one.content.decode("utf-8", "replace"), None
        if kind_of(lab).compiled and machine:
            compiled = _compiled(lab, Submission(one.file, text), machine, allow_reduced)
        return ComparedWork(one.name, clean_source(text), reader.read(text), compiled, one.known)

    found: dict[bytes, ComparedWork] = {}
    with TokenReader() as reader, ThreadPoolExecutor(usable_processors()) as pool:
        for content, work in zip(different, pool.map(read, different.values()), strict=True):
            found[content] = work
            progress(f"{len(found)} of {len(different)}", len(found) / len(different))
    return [replace(found[one.content], name=one.name, known=one.known) for one in texts]


def file_name(lab: AnyLab, hidden: bool) -> str:
    """The name of a kept page: where names are hidden it is another."""
    return f"{lab.name}.anonymous.html" if hidden else f"{lab.name}.html"


def starters(lab: AnyLab) -> list[list[Token]]:
    """The tokens of what everybody was given."""
    files = [lab.folder / name for name in SUBMISSION_NAMES]
    return [tokens(file.read_text(encoding="utf-8")) for file in files if file.is_file()]


def page(lab: AnyLab, found: Sequence[AlikePair], entries: Sequence[Alike], given: Runs) -> str:
    """The page: the entries with their texts side by side, and what is usual in this class."""
    shown = []
    for entry in entries[:SHOWN]:
        pairs = [entry.pair] if entry.source in (None, entry.pair) else [entry.pair, entry.source]
        shown.append((entry, [beside(pair, given) for pair in pairs]))
    among = [pair for pair in found if not pair.second.known]
    usual = {
        "tokens": _median(pair.by_tokens for pair in among),
        "compiled": _median(pair.compiled for pair in among),
        "work": _median(pair.work for pair in among),
    }
    return similar_page(f"Submissions alike: {lab.name}", usual, shown, entries[SHOWN:], len(found))


def beside(pair: AlikePair, given: Runs) -> Beside:
    """The texts of a pair, line by line, with the parts that they have in common."""
    parts = common_parts(pair, given)
    return Beside(
        pair,
        _lines(pair.first.text, [part.first for part in parts]),
        _lines(pair.second.text, [part.second for part in parts]),
        len(parts),
    )


def _compiled(lab: Lab, submission: Submission, machine: Machine, allow_reduced: bool) -> Shape | None:
    with ConfinedWorker(machine, own=False) as worker:
        worker.start()
        require_isolation(worker.isolation or Isolation.REDUCED, Path(submission.name), allow_reduced)
        try:
            return shape_of(lab, submission, SEED, machine, worker)
        except NoShape:
            return None


def _lines(text: str, parts: Sequence[tuple[int, int]]) -> list[Line]:
    """The lines of a text. Of a line in two parts the longer part, which comes first, has it."""
    rows = text.split("\n")
    of: dict[int, int] = {}
    for number, (first, last) in enumerate(parts, start=1):
        for line in range(first, min(last, MOST_LINES) + 1):
            of.setdefault(line, number)
    begun: set[int] = set()
    lines = []
    for number, row in enumerate(rows[:MOST_LINES], start=1):
        part = of.get(number, 0)
        lines.append(Line(number, row[:_MOST_CHARACTERS], part, bool(part) and part not in begun))
        begun.add(part)
    if len(rows) > MOST_LINES:
        lines.append(Line(len(rows), f"... {len(rows) - MOST_LINES} more lines"))
    return lines


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
