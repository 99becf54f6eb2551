"""What cells and tests of notebook graders call: `points` for nbgrader, `require` for otter.

Both grade `submission.py` of the current folder, or of its folder `submission`, once for each content, in a process of
their own and confined as any other person's. But nbgrader and otter run a student's cells in the process that counts
the points: what a student may gain by cheating is better graded by `autograder class` (docs/platforms.md).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from autograder.platforms.judged import is_judged, judged_parts
from autograder.records.report import Report
from autograder.records.stored import only_report
from autograder.spec.lab import SUBMISSION_NAMES, find_any
from warplab.errors import WarplabError

_graded: dict[tuple[str, str], Report] = {}  # by lab and the digest of the submission


class NoPoints(WarplabError):
    """There is nothing that could be graded, or it did not earn the points."""


def points(lab: str, part: str) -> float:
    """Points of `part` for the submission in the current folder: 0 with words where there are none.

    As the last line of a nbgrader test cell it is the cell's score.
    """
    try:
        report = _report(lab)
    except NoPoints as error:
        print(error)
        return 0.0
    for found in judged_parts(report):
        if found.name == part:
            print(found.text)
            return min(found.score, find_any(lab).points_without_gpus(part))  # what the cell is worth
    print(f"{part} is not judged on this machine.")
    return 0.0


def require(lab: str, part: str) -> None:
    """Raise NoPoints with the reason unless the submission in the current folder has all points of `part`."""
    for found in judged_parts(_report(lab)):
        if found.name == part and not found.passed:
            raise NoPoints(found.text)
        if found.name == part:
            return
    raise NoPoints(f"{part} is not judged on this machine.")


def _report(lab: str) -> Report:
    source = _submission()
    key = lab, hashlib.sha256(source.read_bytes()).hexdigest()
    if key not in _graded:
        _graded[key] = _grade(lab, source)
    return _graded[key]


def _submission() -> Path:
    folders = [Path.cwd(), Path.cwd() / "submission"]
    for path in (folder / name for folder in folders for name in SUBMISSION_NAMES):
        if path.is_file() and not path.is_symlink():
            return path
    raise NoPoints("There is no submission.py: run the cell that writes it.")


def _grade(lab: str, source: Path) -> Report:
    with tempfile.TemporaryDirectory(prefix="warplab-cell-") as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "autograder", "grade", str(source), "--lab", lab, "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if not report.is_file():
            raise NoPoints(f"The judge gave no grade: {done.stderr.strip()}")
        try:
            found = only_report(report.read_bytes())
        except msgspec.DecodeError as error:
            raise NoPoints(f"The judge failed, not your submission: what it wrote is no report ({error}).") from None
    if not is_judged(found):
        raise NoPoints(f"The judge failed, not your submission: {found.message}")
    return found
