"""Makes a lab's starter from its solution, so that the two cannot drift apart.

What stands between `# BEGIN SOLUTION` and `# END SOLUTION` is left out, the markers too. Inside such a block a line
`# STARTER: code` becomes `code` in the starter, at the indentation of the comment. In CUDA C++ the comments begin
with `//`.
"""

from __future__ import annotations

import ast
import re
from itertools import count
from pathlib import Path

from autograder.spec.lab import SUBMISSION_NAMES, find_any, labs_folder, solutions_folder
from autograder.written import WrittenFile
from warplab.errors import WarplabError
from warplab.files import write_whole

STARTERS = Path(__file__).parent / "starters"  # in a course's repository, which has no solutions

_BEGIN = re.compile(r"^\s*(#|//) BEGIN SOLUTION\s*$")
_END = re.compile(r"^\s*(#|//) END SOLUTION\s*$")
_STARTER = re.compile(r"^(?P<indent>\s*)(#|//) STARTER:(?: (?P<code>.*))?$")


class StarterError(WarplabError):
    """A solution whose markers do not pair up, or whose starter would not be Python."""


def make_starter(solution: str, name: str = "solution") -> str:
    """The starter of a solution's text. Raises StarterError naming `name` and the line."""
    kept: list[str] = []
    begun = 0
    for number, line in enumerate(solution.splitlines(), start=1):
        if _BEGIN.match(line):
            if begun:
                raise StarterError(f"{name}, line {number}: BEGIN SOLUTION inside the block begun on line {begun}.")
            begun = number
        elif _END.match(line):
            if not begun:
                raise StarterError(f"{name}, line {number}: END SOLUTION without BEGIN SOLUTION.")
            begun = 0
        elif not begun:
            kept.append(line)
        elif match := _STARTER.match(line):
            code = match["code"]
            kept.append(match["indent"] + code if code else "")
    if begun:
        raise StarterError(f"{name}, line {begun}: BEGIN SOLUTION without END SOLUTION.")
    text = "\n".join(kept) + "\n"
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise StarterError(
            f"{name}: its starter is not Python (line {error.lineno}: {error.msg}); "
            "add `# STARTER:` lines to the block."
        ) from error
    return text


def solution_lines(solution: str) -> list[str]:
    """The lines of a solution that its starter leaves out."""
    kept: list[str] = []
    begun = False
    for line in solution.splitlines():
        if _BEGIN.match(line) or _END.match(line):
            begun = bool(_BEGIN.match(line))
        elif begun and not _STARTER.match(line):
            kept.append(line)
    return kept


def starters() -> list[WrittenFile]:
    """The starter of every solution of every lab that stands in the checkout. Raises StarterError."""
    found = []
    for solution in sorted(solutions_folder().glob("*/submission*.py")):
        if solution.name in SUBMISSION_NAMES:
            text = make_starter(solution.read_text(encoding="utf-8"), str(solution))
            found.append(WrittenFile(labs_folder() / solution.parent.name / solution.name, text))
    return found


def reset(lab: str) -> list[tuple[Path, Path]]:
    """Put a lab's starters back, each beside what was there: gives the files and where their former texts are.

    The starters come from the solutions or, in a course's repository, from `autograder/starters`. A file that is its
    starter already is left alone. Raises LabError, StarterError, OSError.
    """
    folder = find_any(lab).folder
    moved = []
    for name, text in _texts(folder.name).items():
        path = folder / name
        if path.exists() and path.read_bytes() == text.encode():
            continue
        if path.exists():
            kept = next(free for n in count(1) if not (free := path.with_suffix(f".{n}.py")).exists())
            path.rename(kept)
            moved.append((path, kept))
        write_whole(path, text)
    return moved


def _texts(lab: str) -> dict[str, str]:
    """A lab's starters by the names of their files."""
    released = STARTERS / lab
    if released.is_dir():
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(released.glob("*.py"))}
    return {file.path.name: file.text for file in starters() if file.path.parent.name == lab}
