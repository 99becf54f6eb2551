"""Writes the repository that students get: the labs, the notebooks and the judge, without solutions and the corpus.

Whether an answer got out another way is looked for in every text that is written: lines of a solution that its starter
does not have. Seeds are no files: one is drawn for each grade.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.spec.lab import CHECKOUT, SUBMISSION_NAMES, AnyLab, checkout, labs_folder, solutions_folder
from autograder.starter import STARTERS, solution_lines
from warplab.errors import WarplabError
from warplab.files import write_whole

STUDENT_FILES = Path(__file__).parent / "student_files"
_FILES = (
    "LICENSE",
    "pyproject.toml",
    "constraints.txt",
    "constraints-cu12.txt",
    "constraints-cu13.txt",
    "environment.yml",
    "scripts/setup.sh",
    "scripts/sandbox.sh",
)
_FOLDERS = (
    "warplab", "systems", "autograder", "course", "notebooks", "benchmarks/results", "benchmarks/micro", "docs/images",
    "docs/syllabi",
)  # fmt: skip
# What a learner reads; the threat model and the instructor's pages are not among it.
_DOCUMENTS = (
    "emulator", "counters", "findings", "races", "grading", "measuring", "networks", "panel", "parallelism",
    "profiling", "ptx", "tensor-numerics", "validation", "your-own-kernels", "api", "architecture", "glossary", "map",
)  # fmt: skip
_LEFT_OUT = {
    "__pycache__",
    ".ipynb_checkpoints",
    "student_files",
    "template",
    "moe",
    "kernels",
}  # moe and kernels: what labs 7 to 11 and 17 ask for
# Kernels that `systems.search.half_product` writes out as submissions, and the labs in which those earn points. They
# are released when all these labs are closed; chapter 16 reads the search's records and needs no kernel.
_TEMPLATES = {
    "systems/search/warps.cu": {"07_tensor_core_hgemm", "17_beat_the_library"},
    "systems/search/warpgroups.cu": {"07_tensor_core_hgemm", "08_hopper_hgemm", "17_beat_the_library"},
}
# Of Markdown, to a file; in the JSON of a notebook it reads the same. Code may look alike: kernel[blocks, 32](out)
_LINK = re.compile(r"(?<!!)\[(?P<words>[^\[\]]*)\]\((?P<target>[^()\s:#]+)(?:#[^()\s]*)?\)")
_DISTINCT = 28  # characters of a line that two people do not write alike by chance
_LEAK_LINES, _LEAK_SHARE = 4, 0.2  # of a solution's lines: what several labs' starters share is less


class ReleaseError(WarplabError):
    """The release cannot be written there."""


@dataclass(frozen=True)
class Leak:
    """A released text that has lines of a lab's solution."""

    file: Path  # below the release
    solution: str
    lines: int
    of: int


def write_release(folder: Path, labs: Sequence[AnyLab], rungs: Sequence[str] = ()) -> list[Path]:
    """Write the students' repository with `labs` into `folder`; gives its files, relative to it.

    `rungs` names labs that are closed: the steps towards their solutions come with them, for the lessons that climb
    them. Raises ReleaseError if the folder is not empty, LabError outside of a checkout, OSError.
    """
    checkout()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReleaseError(f"{folder} is not an empty folder: name a new one with --out.")
    made = not folder.exists()
    try:
        return _write(folder, labs, rungs)
    except BaseException:  # half a repository looks like one
        for path in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if made and folder.is_dir():
            folder.rmdir()
        raise


def _write(folder: Path, labs: Sequence[AnyLab], rungs: Sequence[str]) -> list[Path]:
    for name, source in _sources(labs, rungs):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.name == "task.py":
            write_whole(target, without_hidden_cases(source.read_text(encoding="utf-8")))
        else:
            shutil.copyfile(source, target)
        shutil.copymode(source, target)
    listing = "\n".join(f"* [{lab.name}](labs/{lab.name}/README.md): {lab.title}" for lab in labs)
    for source in sorted(STUDENT_FILES.iterdir()):
        text = source.read_text(encoding="utf-8")
        write_whole(folder / source.name, text.replace("{labs}", listing) if source.suffix == ".md" else text)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".md", ".ipynb"):
            _unlink(path, folder)
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def without_hidden_cases(task: str) -> str:
    """The text of a task.py without the calls that say `hidden=True`: only the instructor's judge has those cases."""
    rows = task.encode().splitlines(keepends=True)
    starts = [sum(map(len, rows[:n])) for n in range(len(rows))]
    text = bytearray(task.encode())
    places = [
        (starts[node.lineno - 1] + node.col_offset, starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0))
        for node in ast.walk(ast.parse(task))
        if isinstance(node, ast.Call)
        if any(k.arg == "hidden" and isinstance(k.value, ast.Constant) and k.value.value is True for k in node.keywords)
    ]
    for start, end in sorted(places, reverse=True):
        before, after = text[:start].rstrip(b" "), text[end:].removeprefix(b",").lstrip(b" ")
        if before.endswith(b"\n") and after.startswith(b"\n"):
            before = before[:-1]  # lines of its own go whole
        text = before + after
    return text.decode()


def _unlink(path: Path, release: Path) -> None:
    """Leave words alone of links to what the checkout has and the release has not."""
    name = path.relative_to(release)
    # The sources of notebooks have the notebooks' links
    base = name.parent.parent if name.parts[:2] == ("notebooks", "source") else name.parent

    def kept(link: re.Match[str]) -> str:
        target = base / link["target"]
        return link["words"] if (CHECKOUT / target).exists() and not (release / target).exists() else link[0]

    text = path.read_text(encoding="utf-8")
    changed = _LINK.sub(kept, text)
    if changed != text:
        write_whole(path, changed)


def leaks(folder: Path) -> list[Leak]:
    """The texts in a release that have several distinctive lines of a solution, the most telling first."""
    solutions = {
        f"{path.parent.name}/{path.name}": _distinct(_answers(path))
        for path in sorted(solutions_folder().glob("*/*.py"))
    }
    found = []
    for path in sorted(folder.rglob("*")):
        rows = set() if STARTERS.name in path.parts else _rows(path)  # they are the labs' own
        for name, lines in solutions.items() if rows else ():
            both = len(rows & lines)
            if both >= _LEAK_LINES and both >= _LEAK_SHARE * len(lines):
                found.append(Leak(path.relative_to(folder), name, both, len(lines)))
    return sorted(found, key=lambda leak: -leak.lines / leak.of)


def _sources(labs: Sequence[AnyLab], rungs: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Each file of the release by its place in it."""
    for name in (*_FILES, *(f"docs/{name}.md" for name in _DOCUMENTS)):
        if (CHECKOUT / name).is_file():
            yield Path(name), CHECKOUT / name
    closed = set(rungs)
    for folder in _FOLDERS:
        for place, source in _below(CHECKOUT / folder, Path(folder)):
            if _TEMPLATES.get(place.as_posix(), closed) <= closed:
                yield place, source
    for lab in labs:
        yield from _below(lab.folder, Path("labs") / lab.name)
        for path in sorted(lab.folder.glob("submission*.py")):
            yield Path("autograder") / STARTERS.name / lab.name / path.name, path
    for lab_name in rungs:
        for path in sorted((solutions_folder() / lab_name).glob("*.py")):
            if path.name not in SUBMISSION_NAMES:
                yield Path("solutions") / lab_name / path.name, path


def _below(place: Path, name: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(place.rglob("*")):
        inner = path.relative_to(place)
        if path.is_file() and not path.is_symlink() and not _LEFT_OUT & set(inner.parts):
            yield name / inner, path


def _answers(path: Path) -> list[str]:
    """The lines of a reference that its starter leaves out; of a rung all lines that the lab's starters do not have."""
    text = path.read_text(encoding="utf-8")
    if path.name in SUBMISSION_NAMES:
        return solution_lines(text)
    given: set[str] = set()
    for starter in (labs_folder() / path.parent.name).glob("submission*.py"):
        given |= set(starter.read_text(encoding="utf-8").splitlines())
    return [line for line in text.splitlines() if line not in given]


def _rows(path: Path) -> set[str]:
    """The distinctive lines of a text file; of a notebook those of its cells."""
    if not path.is_file() or path.suffix not in (".py", ".md", ".ipynb", ".cu", ".cuh", ".toml"):
        return set()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return _distinct(text.splitlines())


def _distinct(lines: Sequence[str]) -> set[str]:
    plain = (" ".join(line.split()) for line in lines)
    return {line for line in plain if len(line) >= _DISTINCT and not line.startswith(("#", "//", "from ", "import "))}
