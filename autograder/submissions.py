"""From the paths on the command line to the files to grade."""

from __future__ import annotations

import os
from pathlib import Path

from autograder.spec.lab import CHECKOUT, SUBMISSION_NAMES, AnyLab, find_any, lab_of, labs_folder, solutions_folder
from warplab.errors import WarplabError


class NoSubmission(WarplabError):
    """There is nothing to grade at a path."""


def resolve(path: Path, lab_name: str | None) -> tuple[AnyLab, Path]:
    """The lab and the file to grade for a path: a submission, or a folder that holds one.

    Raises NoSubmission if there is no file, LabError if the lab is unknown.
    """
    if path.is_symlink():  # it could lead to the solutions, or to a private file
        raise NoSubmission(f"{path} is a symbolic link, which is not followed: name the file itself.")
    if not path.exists():
        raise NoSubmission(f"There is no file {path}.")
    source = _in_folder(path) if path.is_dir() else path
    return (find_any(lab_name) if lab_name else lab_of(source)), source


def _in_folder(folder: Path) -> Path:
    for name in SUBMISSION_NAMES:
        if os.path.lexists(folder / name):  # a link too: reading it says what is wrong with it
            return folder / name
    raise NoSubmission(f"The folder {folder} holds no {' or '.join(SUBMISSION_NAMES)}.")


def is_own(source: Path) -> bool:
    """Whether a submission is the work of who runs the judge: it lies where this checkout has people write theirs."""
    places = (labs_folder(), solutions_folder(), CHECKOUT / "build")
    return any(source.resolve().is_relative_to(place.resolve()) for place in places)


def is_learners(source: Path) -> bool:
    """Whether it is one's own work and no solution of the course."""
    return is_own(source) and not source.resolve().is_relative_to(solutions_folder().resolve())


def references() -> list[tuple[AnyLab, Path]]:
    """Every reference solution of every lab, in the order of the course. Raises NoSubmission, LabError."""
    found = [
        (find_any(path.parent.name), path)
        for path in sorted(solutions_folder().glob("*/submission*.py"))
        if path.name in SUBMISSION_NAMES
    ]
    if not found:
        raise NoSubmission(f"There are no reference solutions in {solutions_folder()}.")
    return found
