"""Clones of what `autograder release` wrote: which of their files are a student's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from autograder.classroom.unpacking import largest
from autograder.spec.lab import CHECKOUT, SUBMISSION_NAMES

BESIDE = "does not count: in the course's repository only labs/LAB/submission.py and submission_cuda.py do"

T = TypeVar("T")


def clones(paths: Iterable[PurePosixPath], known: Sequence[str]) -> set[PurePosixPath]:
    """The folders that are clones."""
    found = set()
    for path in paths:
        parts = path.parts
        if len(parts) > 2 and parts[-3] == "labs" and parts[-2] in known and parts[-1] in ("task.py", "lab.toml"):
            found.add(PurePosixPath(*parts[:-3]))
    return found


def sorted_out(
    files: Iterable[tuple[PurePosixPath, T]], roots: Collection[PurePosixPath], known: Sequence[str]
) -> tuple[list[tuple[PurePosixPath, T]], list[T], int]:
    """The files that count, those of the student's own at other places (BESIDE), and how many others there are."""
    counting, beside, others = list[tuple[PurePosixPath, T]](), list[T](), 0
    for path, file in files:
        root = next((parent for parent in path.parents if parent in roots), None)
        inside = path if root is None else path.relative_to(root)
        if _is_lab_file(inside, known):
            counting.append((path, file))
        elif _is_own(inside):
            beside.append(file)
        else:
            others += 1
    return counting, beside, others


def _is_lab_file(inside: PurePosixPath, known: Sequence[str]) -> bool:
    """Whether it is one that students write: `labs/LAB/submission*.py`."""
    parts = inside.parts
    return len(parts) == 3 and parts[0] == "labs" and parts[1] in known and parts[2] in SUBMISSION_NAMES


def _is_own(inside: PurePosixPath) -> bool:
    """Whether it is Python or a notebook that the course does not have, where students write. What lies in a folder of
    the course may be of an earlier release."""
    if not largest(inside.name) or inside.parts[0] == "mine":
        return False
    of_course = len(inside.parts) > 1 and inside.parts[0] != "labs" and (CHECKOUT / inside.parts[0]).is_dir()
    return not of_course and not (CHECKOUT / inside).exists()
