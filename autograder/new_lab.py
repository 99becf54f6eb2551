"""Writes a new lab: a small example that grades, to be replaced piece by piece.

The example is autograder/template: an elementwise kernel with its handout, its reference and its part of the judge's
corpus. Copied under the lab's name it works at once, so that whoever makes a lab always has one whose tests pass.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from autograder.handout import handout
from autograder.spec.lab import LabError, labs_folder, load_any
from autograder.starter import make_starter
from warplab.files import write_whole

TEMPLATE = Path(__file__).parent / "template"
_NAME = re.compile(r"[0-9]{2}_[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TAKEN = {"cuda", "kernel", "np", "float32", "float64", "int32"}  # names of the example's own files
_LONGEST = 32  # characters of a name: it stands in lines of code
LEFT_TO_DO = """\
What is left to do (CONTRIBUTING.md, section "Labs", has each step):
  1. {lab}/task.py, README.md and lab.toml: replace the example by what your lab asks for, then run: autograder handouts
  2. {solution}/submission.py: replace the reference, then run: autograder starters
  3. {corpus}/truth.py: five mistakes in each reference, and sizes for its tolerances
  4. {corpus}: replace the examples: three right submissions, three wrong ones and five that cheat
  5. autograder check {solution}/submission.py, then: python -m pytest tests/labs -k {name}
  6. on a GPU: autograder grade {solution}/submission.py, and set the efficiencies of lab.toml"""


def write_lab(name: str, title: str | None) -> list[Path]:
    """Write the lab `name`; gives the files. Raises LabError before anything is written, OSError."""
    require_name(name)
    title = name[3:].replace("_", " ").capitalize() if title is None else title
    if not title.strip() or not title.isprintable():
        raise LabError(f"The title {title!r} is not one line of text: give --title words to print.")
    places = folders(name)
    for folder in places.values():
        if folder.exists():
            raise LabError(f"{folder} exists already, and nothing is overwritten: choose another name, or remove it.")
    texts = {places[path.parts[0]].joinpath(*path.parts[1:]): _filled(path, name, title) for path in _template()}
    solution = places["solution"] / "submission.py"
    texts[places["lab"] / "submission.py"] = make_starter(texts[solution], str(solution))
    for path, text in texts.items():
        write_whole(path, text)
    filled = handout(load_any(places["lab"]))
    write_whole(filled.path, filled.text)
    return sorted(texts)


def require_name(name: str) -> None:
    """Raise LabError unless `name` can be that of a lab, and what follows its number that of a function."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise LabError(
            f"{name!r} is not a lab's name: two digits and lower-case words of letters and digits joined by _, "
            f"at most {_LONGEST} characters, for example 09_fp8_gemm."
        )
    if keyword.iskeyword(name[3:]) or name[3:] in _TAKEN:
        raise LabError(f"{name[3:]!r} cannot be the name of the lab's function: choose another word after {name[:3]}.")


def folders(name: str) -> dict[str, Path]:
    """Where the parts of a lab lie, by the template's folder. Raises LabError if this is no checkout."""
    labs = labs_folder()
    if not TEMPLATE.is_dir():
        raise LabError("The example that a lab begins with is not in a course's repository: run this in Warplab's own.")
    if not labs.is_dir():
        raise LabError(f"There is no folder {labs} to write a lab into: run this in a checkout of Warplab.")
    return {
        "lab": labs / name,
        "solution": labs.parent / "solutions" / name,
        "corpus": labs.parent / "corpus" / "judge" / "submissions" / name,
    }


def left_to_do(name: str) -> str:
    """The steps that follow, with the lab's own paths."""
    return LEFT_TO_DO.format(name=name, **{part: _short(folder) for part, folder in folders(name).items()})


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _template() -> list[Path]:
    """The example's files, each by its place below the template's folder."""
    found = (path for path in TEMPLATE.rglob("*") if path.suffix in (".py", ".md", ".toml"))
    return sorted(path.relative_to(TEMPLATE) for path in found)


def _filled(path: Path, name: str, title: str) -> str:
    """The text of a file of the template, with the lab's own names."""
    if path.suffix == ".toml":
        title = title.replace("\\", "\\\\").replace('"', '\\"')
    text = (TEMPLATE / path).read_text(encoding="utf-8")
    for word, meant in (("NAME", name), ("FUNCTION", name[3:]), ("NUMBER", name[:2]), ("TITLE", title)):
        text = text.replace(f"LAB_{word}", meant)
    return text
