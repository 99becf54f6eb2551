"""A class whose submissions are known: handed in, graded by `autograder class`, and each graded alone beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.classroom.grade_line import GradeLine
from autograder.classroom.ledger import RECORD, Ledger
from autograder.classroom.one import grade_one
from autograder.spec.lab import CHECKOUT, find_lab, solutions_folder
from corpus.judge.submission_files import submissions


@dataclass(frozen=True)
class Kind:
    """A submission that several students hand in. `sort` is what it is an example of: "correct", "hanging"."""

    sort: str
    lab: str
    name: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """What a submission got: its status and points, and those of each part."""

    status: str
    score: float
    parts: tuple[tuple[str, str, float], ...]


def kind(sort: str, lab: str, path: Path) -> Kind:
    """The submission in a file, called by its place in the checkout."""
    return Kind(sort, lab, str(path.relative_to(CHECKOUT)), path.read_text(encoding="utf-8"))


def references(lab: str) -> list[Kind]:
    """The solutions of a lab: correct, and passed in all parts that need no GPU."""
    return [kind("correct", lab, path) for path in sorted((solutions_folder() / lab).glob("submission*.py"))]


def corpus(sort: str, lab: str) -> list[Kind]:
    """The judge's corpus of a lab: "correct", "wrong" or "exploit"."""
    return [kind(sort, lab, path) for path in submissions(sort, lab)]


def function(lab: str) -> str:
    """The host function that a lab of kernels asks for."""
    return find_lab(lab).task.function


def hand_in(folder: Path, students: Mapping[str, Kind]) -> None:
    """Write what the students hand in. Each text is a student's own by its last line, so that nothing that is kept of
    one could answer for another."""
    for student, one in students.items():
        place = folder / student / one.lab
        place.mkdir(parents=True)
        (place / "submission.py").write_text(f"{one.text}\n# {student}\n", encoding="utf-8")


def command(submissions: Path, results: Path, *more: str, device: str = "emulator") -> list[str]:
    """`autograder class` on the emulator, or on "gpu"."""
    words = ["-m", "autograder", "class", str(submissions), "--out", str(results), "--device", device]
    return [sys.executable, *words, *more]


def environment() -> dict[str, str]:
    """That of the command: this checkout, wherever the packages come from."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])}


def lines(results: Path) -> dict[str, GradeLine]:
    """What the record holds, by student. Raises ClassError while a run has it."""
    with Ledger(results / RECORD) as ledger:
        return {line.student: line for line in ledger.lines()}


def verdict(report: Mapping[str, Any]) -> Verdict:
    """What a report says; without a grade a verdict without a status."""
    parts = tuple((part["part"], part["status"], part["score"]) for part in report.get("parts", ()))
    return Verdict(report.get("status", ""), report.get("score", 0.0), parts)


def alone(kinds: Iterable[Kind], results: Path, device: str = "emulator") -> dict[Kind, Verdict]:
    """The verdicts of submissions graded one by one in this process, with the seeds of a class's record."""
    kinds = list(kinds)
    with Ledger(results / RECORD) as ledger:
        seeds = {one.lab: ledger.seed_of(one.lab) for one in kinds}
    return {
        one: verdict(grade_one("submission.py", one.text.encode(), one.lab, seeds[one.lab], device, False))
        for one in kinds
    }


def differences(students: Mapping[str, Kind], results: Path) -> list[str]:
    """The students who got something else than their submission gets alone, each with both verdicts."""
    found = lines(results)
    truth = alone(dict.fromkeys(students.values()), results)
    got = {student: verdict(found[student].report) for student in students}
    return [
        f"{student} ({one.name}): {got[student]} instead of {truth[one]}"
        for student, one in students.items()
        if got[student] != truth[one]
    ]
