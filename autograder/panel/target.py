"""A submission that the panel grades: the text of an open file of a lab, or of a cell that begins with %%submit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder import submissions
from autograder.spec.lab import SUBMISSION_NAMES, AnyLab, find_any, lab_of
from warplab.errors import WarplabError

MAGIC = "%%submit"
CHECK, GRADE, LIVE = WAYS = ("check", "grade", "live")  # ways to be graded: grader.py says what differs


class NotGraded(WarplabError):
    """The panel grades no such file or cell."""


@dataclass(frozen=True)
class Target:
    """A lab's submission as it stands in an editor. Lines of `text` are those of the editor. `kept` says whether a
    grade of it is one of the learner's own."""

    lab: AnyLab
    name: str
    text: str
    kept: bool


def file_target(root: Path, path: str, text: str) -> Target:
    """An open file, by its path below the server's folder `root`; only the editor's `text` is graded.

    Raises NotGraded for a file that is no lab's, LabError.
    """
    place = root / path
    resolved = place.resolve()
    below = resolved.is_relative_to(root.resolve()) and resolved.is_file() and not place.is_symlink()
    if not below or not submissions.is_own(resolved) or resolved.suffix != ".py":
        raise NotGraded(f"{path} is no lab's file. Open labs/<lab>/submission.py.")
    return Target(lab_of(resolved), resolved.name, text, submissions.is_learners(resolved))


def cell_target(text: str) -> Target:
    """A cell whose first line with text is `%%submit LAB`. Raises NotGraded, LabError."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    word, _, lab = lines[first].strip().partition(" ")
    if word != MAGIC:
        raise NotGraded("The cell does not begin with %%submit. Select a cell that begins with %%submit and a lab.")
    lines[first] = f"# {lines[first].strip()}"
    return Target(find_any(lab.strip()), SUBMISSION_NAMES[0], "\n".join(lines), True)
