"""The corpus's right, wrong and cheating submissions, each as a file of its own, as the judge takes them.

A lab has them in folders, `wrong/no_guard.py`. Two kinds of file have several: `wrong.py`, where each submission
follows a line `# submission: no_guard`; and `wrong.diff`, which has unified diffs for `+++ wrong/no_guard.py` from
a file of the lab's folder (`--- correct/plain.py`) or of its solutions (`--- solution/rung_1_naive.py`).
Those are written to build/<lab>/wrong/ beside this module, where paths end in the same way: what lies in the
checkout's own build is taken for the work of who runs the judge, and this is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from autograder.spec.lab import solutions_folder
from corpus.judge.truth import SUBMISSIONS
from warplab.files import write_whole

KINDS = ("correct", "exploit", "wrong")
TAKEN_APART = Path(__file__).resolve().parent / "build"
_BEGINS = re.compile(r"^# submission: (\w+)\n", re.MULTILINE)
_DIFF = re.compile(r"^--- ([\w/]+\.py)\n\+\+\+ ([\w/]+\.py)\n((?:[-+ @].*\n)+)", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+).*\n((?:[-+ ].*\n)+)", re.MULTILINE)


def submissions(kind: str, lab: str = "*") -> list[Path]:
    """The files of one of KINDS, of a lab or of all, in order: each path ends in <lab>/<kind>/<name>.py.

    Raises ValueError for a file of several that does not say where each begins, for a diff of what its file does not
    have, and for a name that is there twice.
    """
    found = list(SUBMISSIONS.glob(f"{lab}/{kind}/*.py"))
    for file in SUBMISSIONS.glob(f"{lab}/{kind}.py"):
        found += (_written(file, name, text) for name, text in _taken_apart(file))
    for file in SUBMISSIONS.glob(f"{lab}/{kind}.diff"):
        found += (_written(file, name, text) for name, text in _patched(file))
    if len({path.parts[-3:] for path in found}) < len(found):
        raise ValueError(f"Two submissions of {SUBMISSIONS / lab / kind} have one name.")
    return sorted(found, key=lambda path: path.parts[-3:])


def submission(path: str) -> Path:
    """The file of `<lab>/<kind>/<name>.py`. Raises KeyError if there is none."""
    lab, kind, name = path.split("/")
    return {found.name: found for found in submissions(kind, lab)}[name]


def _written(file: Path, name: str, content: str) -> Path:
    """A submission of a file of several, written unless it is there already."""
    path = TAKEN_APART / file.parent.name / file.stem / f"{name}.py"
    if not path.is_file() or path.read_text(encoding="utf-8") != content:
        write_whole(path, content)
    return path


def _taken_apart(file: Path) -> Iterator[tuple[str, str]]:
    before, *named = _BEGINS.split(file.read_text(encoding="utf-8"))
    if before.strip() or not named:
        raise ValueError(f"{file} has to begin with a line `# submission: NAME`, as each of its submissions has.")
    for name, text in zip(named[::2], named[1::2], strict=True):
        yield name, text.rstrip() + "\n"


def _patched(file: Path) -> Iterator[tuple[str, str]]:
    text = file.read_text(encoding="utf-8")
    if _DIFF.sub("", text).strip():
        raise ValueError(f"{file} has lines outside of unified diffs: make each with `diff -U1 OLD NEW`.")
    for base, made, hunks in _DIFF.findall(text):
        folder, name = made.removesuffix(".py").split("/")
        if folder != file.stem:
            raise ValueError(f"{file} makes {made}: it can have files of {file.stem}/ only.")
        lab = file.parent
        path = (
            solutions_folder() / lab.name / base.removeprefix("solution/")
            if base.startswith("solution/")
            else lab / base
        )
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for first, hunk in reversed(_HUNK.findall(hunks)):
            changes = hunk.splitlines(keepends=True)
            old = [line[1:] for line in changes if line[0] != "+"]
            start = int(first) - 1
            if lines[start : start + len(old)] != old:
                raise ValueError(f"{file}: {base} has changed at line {first}: make the diff of {made} again.")
            lines[start : start + len(old)] = [line[1:] for line in changes if line[0] != "-"]
        yield name, "".join(lines)
