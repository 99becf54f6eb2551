"""What a lab's submissions are compared with: each other, solutions and the steps to them, earlier years, texts that an
instructor has collected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.ledger import RECORD, Ledger
from autograder.classroom.notebook import NOTEBOOK, WRITEFILE, written_by
from autograder.spec.lab import AnyLab, known_labs, solutions_folder
from warplab.plan.capture.source_file import MAX_SOURCE

_FENCED = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^[ \t]*(?P=fence)", re.M | re.S
)
_BEGINS = re.compile(r"^(?:import |from \w|@|def |class |\w+ = )", re.M)  # code after words, where no fence says so
_DEVICE = (".cu", ".cuh", ".cpp")
_ANSWERS = (".md", ".txt")
_READ = (".py", NOTEBOOK, *_ANSWERS, *_DEVICE)
_DEVICE_LANGUAGES = ("cuda", "cpp", "c++", "c")


@dataclass(frozen=True)
class ComparedText:
    """A text and its name: a student, or where a known text comes from."""

    name: str
    file: str
    content: bytes
    known: bool = False


def handed_in(lines: Iterable[GradeLine], lab: AnyLab) -> list[ComparedText]:
    """What the class handed in."""
    return [
        ComparedText(line.student, line.file, line.content) for line in lines if line.lab == lab.name and line.content
    ]


def solutions(lab: AnyLab) -> list[ComparedText]:
    """The references and the steps to them; none where they are not beside the labs."""
    files = sorted((solutions_folder() / lab.name).glob("*.py"))
    return [ComparedText(f"solutions/{lab.name}/{path.name}", path.name, path.read_bytes(), True) for path in files]


def earlier(results: Path, lab: AnyLab, hidden: bool) -> list[ComparedText]:
    """Every attempt in the record of an earlier class, each text once. Its students have their pseudonyms of that class
    if names are `hidden` in this one, where they may be again, or there. Raises ClassError."""
    record = results / RECORD
    if not record.is_file():
        raise ClassError(f"There is no record {record}: --earlier takes the --out folder of an earlier class.")
    with Ledger(record, reads=True) as ledger:
        own = ledger.shown()
        shown = replace(own, hidden=hidden or own.hidden)
        attempts = [line for line in ledger.attempts() if line.lab == lab.name and line.content]
    texts = {line.content: line for line in attempts}
    return [
        ComparedText(f"{shown.of(line.student)} in {results}", line.file, line.content, True) for line in texts.values()
    ]


def collected(folder: Path, lab: AnyLab) -> list[ComparedText]:
    """The texts in a folder, such as answers of assistants: Python, CUDA C++, notebooks, and Markdown or plain text
    with code in it. A folder in it that is named like a lab is of this lab alone. Raises ClassError."""
    if not folder.is_dir():
        raise ClassError(f"{folder} is no folder: --known takes one with texts.")
    others = set(known_labs()) - {lab.name}
    found = []
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if not path.is_file() or path.suffix not in _READ or others & set(place.parts[:-1]):
            continue
        if path.stat().st_size > MAX_SOURCE:
            raise ClassError(f"{path} is larger than {MAX_SOURCE >> 20} MiB: leave it out of {folder}.")
        code = _code(path, lab.name)
        if code.strip():
            found.append(ComparedText(f"{folder.name}/{place}", f"{path.stem}.py", code.encode(errors="replace"), True))
    if not found:
        raise ClassError(f"{folder} has no text to compare: put .py, .cu, .ipynb, .md or .txt files there.")
    return found


def _code(path: Path, lab: str) -> str:
    """The code of a file, as a submission has it. Raises ClassError."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in _DEVICE:
        return _device_code(text)
    if path.suffix == NOTEBOOK:
        try:
            notebook = json.loads(text)
            written = written_by(notebook)
            return written.get(lab) or written.get(WRITEFILE) or "\n".join(_cells(notebook))
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
            raise ClassError(f"{path} is no notebook that can be read.") from None
    blocks = list(_FENCED.finditer(text)) if path.suffix in _ANSWERS else []
    if not blocks:
        begins = _BEGINS.search(text) if path.suffix in _ANSWERS else None
        return text[begins.start() :] if begins else text
    return "\n".join(
        _device_code(one["code"]) if one["language"].lower() in _DEVICE_LANGUAGES else one["code"] for one in blocks
    )


def _cells(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def _device_code(text: str) -> str:
    """CUDA C++ as a text in Python, where submissions have it."""
    return 'code = r"""\n' + text.replace('"""', "") + '\n"""\n'
