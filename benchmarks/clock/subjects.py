"""The kernels that the model of time is compared with: textbook kernels, and the labs' submissions on profile cases.

Nothing is fitted to any of them. Each belongs to one of two halves, drawn by a hash of its name without its size. The
errors of `TUNING` show what the model lacks. Those of `HELD` say how right a finished model is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, kernel_labs, solutions_folder
from benchmarks.clock.textbook import TEXTBOOK, Textbook
from corpus.emulator.plans import assemble_file
from corpus.judge.submission_files import submissions
from warplab.hardware.processors import usable_processors
from warplab.plan.model import Plan

TUNING, HELD = "tuning", "held"
SEED = 20
_WASTEFUL = re.compile(r"^# expect: traffic: over budget", re.MULTILINE)  # wrong for its traffic alone: it works


@dataclass(frozen=True)
class Subject:
    """A plan with its inputs. `textbook` is its case, which knows what it computes; a lab's judge knows of the rest."""

    name: str
    plan: Plan
    inputs: Mapping[str, np.ndarray]
    textbook: Textbook | None = None

    @property
    def half(self) -> str:
        """TUNING or HELD."""
        return half_of(self.name)


@dataclass(frozen=True)
class LabFile:
    """A submission of a lab that computes the right result."""

    name: str
    lab: str
    path: Path


def half_of(name: str) -> str:
    """The half of a subject: sizes of one textbook kernel are in the same."""
    family = "/".join(name.split("/")[:2]) if name.startswith("textbook/") else name
    return (TUNING, HELD)[hashlib.sha256(family.encode()).digest()[0] % 2]


def lab_files() -> list[LabFile]:
    """References, rungs, right submissions of the corpus, and those that are wrong for their traffic alone."""
    found = []
    for lab in kernel_labs():
        paths = sorted((solutions_folder() / lab).glob("*.py"))
        paths += submissions("correct", lab)
        paths += [p for p in submissions("wrong", lab) if _WASTEFUL.search(p.read_text("utf-8", "replace"))]
        for path in paths:
            kind = "solution" if path.parent.parent == solutions_folder() else path.parent.name
            found.append(LabFile(f"{lab}/{kind}/{path.stem}", lab, path))
    return found


def textbook(architecture: str) -> Iterator[Subject]:
    """The textbook kernels, assembled."""
    plans = assemble_file(TEXTBOOK, architecture)
    for case in TEXTBOOK:
        yield Subject(f"textbook/{case.name}", plans[case.name], case.draw(), case)


def of_labs(architecture: str, files: Sequence[LabFile]) -> Iterator[Subject]:
    """The labs' submissions, captured and assembled side by side."""
    with ThreadPoolExecutor(usable_processors()) as beside:
        yield from beside.map(lambda file: _captured(file, architecture), files)


def _captured(file: LabFile, architecture: str) -> Subject:
    lab = find_lab(file.lab)
    case = lab.task.profile
    plan = capture_submission(lab, file.path, (case,), SEED, architecture).plans[case.name]
    values = generate(np, lab.task, case, SEED)
    return Subject(file.name, plan, {name: values[name] for name in plan.buffers if name in values})
