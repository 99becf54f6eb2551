"""A submission's Plan, opened for a reader: the files in it, its launches and buffers, its memory instructions."""

from __future__ import annotations

import re
import tempfile
import zipfile
from pathlib import Path

from autograder.own_work import capture_submission
from course.captures import process_for
from course.lesson import SEED, Lesson
from warplab.plan.archive import save
from warplab.plan.model import Plan

_NAME = 60  # characters of a file's name that are shown
_HEART = re.compile(r"\b(ld\.global|st\.global|fma\.|mul\.f32|add\.f32|setp|bra)\b|@%p")


def plan_of(lesson: Lesson, path: Path) -> Plan:
    """The Plan of a submission for its lab's profile case. Raises Rejected if it cannot be captured."""
    case = lesson.lab.task.profile
    architecture, process = lesson.machine.architecture, process_for(path)
    return capture_submission(lesson.lab, path, (case,), SEED, architecture, captured_in=process).plans[case.name]


def contents(plan: Plan) -> str:
    """The files of the Plan's archive with their sizes, then its launches and buffers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.plan"
        save(plan, file)
        with zipfile.ZipFile(file) as archive:
            rows = [f"{entry.file_size:>8,} bytes  {_shortened(entry.filename)}" for entry in archive.infolist()]
    rows.append("")
    for launch in plan.launches:
        rows.append(f"launch: {plan.kernels[launch.kernel].name}, grid {launch.grid}, block {launch.block}")
    buffers = (f"{b.name} ({b.role}, {b.dtype} {b.shape})" for b in plan.buffers.values())
    return "\n".join([*rows, f"buffers: {', '.join(buffers)}"])


def heart(plan: Plan, architecture: str) -> str:
    """Of the first kernel's PTX the lines that load, store, multiply, add, compare and branch."""
    lines = next(iter(plan.kernels.values())).ptx[architecture].splitlines()
    return "\n".join(line.strip() for line in lines if _HEART.search(line) and not line.strip().startswith("//"))


def _shortened(name: str) -> str:
    return name if len(name) < _NAME else f"{name[: _NAME - 3]}..."
