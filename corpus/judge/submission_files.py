"""The corpus's right, wrong and cheating submissions, each as a file of its own, as the judge takes them.

A lab has them in folders, `wrong/no_guard.py`, or several of a kind in one file, `wrong.py`: each follows a line
`# submission: no_guard`. Those are written to build/<lab>/wrong/ beside this module, where paths end in the same way:
what lies in the checkout's own build is taken for the work of who runs the judge, and this is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from corpus.judge.truth import SUBMISSIONS
from warplab.files import write_whole

KINDS = ("correct", "exploit", "wrong")
TAKEN_APART = Path(__file__).resolve().parent / "build"
_BEGINS = re.compile(r"^# submission: (\w+)\n", re.MULTILINE)


def submissions(kind: str, lab: str = "*") -> list[Path]:
    """The files of one of KINDS, of a lab or of all, in order: each path ends in <lab>/<kind>/<name>.py.

    Raises ValueError for a file of several that does not say where each begins, and for a name that is there twice.
    """
    found = list(SUBMISSIONS.glob(f"{lab}/{kind}/*.py"))
    for file in SUBMISSIONS.glob(f"{lab}/{kind}.py"):
        found += _taken_apart(file)
    if len({path.parts[-3:] for path in found}) < len(found):
        raise ValueError(f"Two submissions of {SUBMISSIONS / lab / kind} have one name.")
    return sorted(found, key=lambda path: path.parts[-3:])


def _taken_apart(file: Path) -> Iterator[Path]:
    """The submissions of a file of several, written where they are not there yet."""
    before, *named = _BEGINS.split(file.read_text(encoding="utf-8"))
    if before.strip() or not named:
        raise ValueError(f"{file} has to begin with a line `# submission: NAME`, as each of its submissions has.")
    for name, text in zip(named[::2], named[1::2], strict=True):
        path, content = TAKEN_APART / file.parent.name / file.stem / f"{name}.py", text.rstrip() + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            write_whole(path, content)
        yield path
