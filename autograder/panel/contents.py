"""The panel's list: labs and chapters below the server's folder, with the learner's progress."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder import own_history
from autograder.spec.lab import CHECKOUT, SUBMISSION_NAMES, LabError, find_any, known_labs, labs_folder


def contents(root: Path) -> dict[str, Any]:
    """{"labs": [...], "chapters": [...]}: titles, progress in words and as a share, paths below `root`."""
    return {"labs": list(_labs(root)), "chapters": list(_chapters(root))}


def path_below(root: Path, path: Path) -> str:
    """A file's path as the front end names it; empty for one that is not below `root`."""
    try:
        return path.resolve(strict=True).relative_to(root.resolve()).as_posix()
    except (OSError, ValueError):
        return ""


def _labs(root: Path) -> Iterator[dict[str, Any]]:
    best = own_history.best(own_history.attempts())
    words = dict(own_history.progress())
    for name in known_labs():
        try:
            title = find_any(name).title
        except LabError:  # one that is being written
            continue
        folder = labs_folder() / name
        files = [path_below(root, folder / file) for file in SUBMISSION_NAMES]
        yield {
            "name": name,
            "title": title,
            "progress": words[name],
            "share": best[name].share if name in best else 0.0,
            "files": [file for file in files if file],
            "handout": path_below(root, folder / "README.md"),
        }


def _chapters(root: Path) -> Iterator[dict[str, Any]]:
    """The learner's copies, where there are some."""
    questions = own_history.questions()
    for chapter in sorted((CHECKOUT / "notebooks").glob("*.ipynb")):
        copy = CHECKOUT / "mine" / chapter.name
        number = chapter.name.partition("_")[0]
        done, count = questions.get(number, (0, 0))
        yield {
            "name": number,
            "title": _heading(chapter),
            "progress": f"{done} of {count} questions solved" if count else "",
            "share": done / count if count else 0.0,
            "files": [path_below(root, copy) or path_below(root, chapter)],
        }


def _heading(chapter: Path) -> str:
    """The first heading of a notebook; its file's name where it has none."""
    try:
        cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
        lines = (
            line for cell in cells if cell["cell_type"] == "markdown" for line in "".join(cell["source"]).split("\n")
        )
        return next(line.removeprefix("# ").strip() for line in lines if line.startswith("# "))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return chapter.stem
