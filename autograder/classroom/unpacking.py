"""Opens what one student handed in: archives, and notebooks for the submission in them; and a platform's own YAML.

These are a stranger's bytes, so `reader.Confined` has a sandboxed process do this, one call a student. Arguments and
results are plain data.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from autograder.classroom.entries import DAMAGE, Entry, is_archive, is_litter, members, without_ending
from autograder.classroom.notebook import NOTEBOOK, written_by
from warplab.plan.capture.source_file import MAX_SOURCE

MOST_FILES = 5_000  # in one student's archives: the course's repository has fewer
MOST_BYTES = 64 << 20  # of one student's files, unpacked
_LARGEST_NOTEBOOK = 16 << 20  # its outputs come with it
_LARGEST_ARCHIVE = 32 << 20
_DEPTH = 2  # archives in archives
_MOST_EVENTS, _MOST_NESTED = 2_000_000, 30  # of YAML


@dataclass
class _Left:
    files: int = MOST_FILES
    bytes: int = MOST_BYTES

    def take(self, files: int, size: int) -> None:
        self.files -= files
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            raise TooMuch(f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB: hand in submission.py alone")


class TooMuch(Exception):
    """A student handed in more than is read."""


def largest(name: str) -> int:
    """The most bytes of a file of that name that are read; 0 for what is not read at all."""
    name = name.lower()
    if name.endswith(NOTEBOOK):
        return _LARGEST_NOTEBOOK
    return _LARGEST_ARCHIVE if is_archive(name) else MAX_SOURCE if name.endswith(".py") else 0


def unpack(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The student's `files` (each with `path` and `content`), with those of archives in their place.

    Each that comes back has `path`, `content` (Python), `problem` (a sentence, or empty) and `cell`: for each lab that
    a notebook's cells submit, one whose cell is that lab, and one whose cell is "submission.py" for `%%writefile`. One
    without a path says what is too much in all.
    """
    left, found = _Left(), []
    try:
        for file in files:
            for one in _expanded(PurePosixPath(file["path"]), file["content"], left, 0):
                found += _written(one)
    except TooMuch as error:
        return [_file("", b"", str(error))]
    return found


def submitters(content: bytes) -> dict[str, dict[str, Any]]:
    """The people of each folder of a Gradescope export, by its `submission_metadata.yml`: `students`, a list of dicts
    of `email`, `name` and `sid`, and `at`, the time. Everything is text. Raises ValueError for what is no such file.

    Aliases are refused: a few hundred bytes of them can stand for gigabytes.
    """
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = 0
        for number, event in enumerate(yaml.parse(content, Loader=loader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or number > _MOST_EVENTS or depth > _MOST_NESTED:
                raise ValueError("it has aliases, or is too long or too deep")
        metadata = yaml.load(content, Loader=loader)
        found = {}
        for folder, about in metadata.items():
            people = [
                {key: str(one.get(f":{key}") or "") for key in ("email", "name", "sid")} for one in about[":submitters"]
            ]
            found[str(folder)] = {"students": people, "at": str(about.get(":created_at") or "")}
        return found
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _file(path: PurePosixPath | str, content: bytes, problem: str = "", cell: str = "") -> dict[str, Any]:
    return {"path": str(path), "content": b"" if problem else content, "problem": problem, "cell": cell}


def _expanded(path: PurePosixPath, content: bytes, left: _Left, depth: int) -> Iterator[dict[str, Any]]:
    """The file at `path`, or what an archive there holds as if it were a folder of its name without the ending."""
    left.take(1, len(content))
    most = largest(path.name)
    if len(content) > most > 0:
        yield _file(path, b"", f"{path} is larger than {most >> 20} MiB.")
    elif not is_archive(path.name):
        yield _file(path, content, "" if content or not most else f"{path} is empty.")
    elif depth == _DEPTH:
        yield _file(path, b"", f"{path} is an archive in an archive in an archive.")
    else:
        empty = True
        try:
            with ExitStack() as keep:
                for entry in members(io.BytesIO(content), path.with_name(without_ending(path.name)), keep):
                    for one in _inside(entry, left, depth):
                        empty = False
                        yield one
        except DAMAGE:
            yield _file(path, b"", f"{path} is no archive that can be read.")
        else:
            if empty:
                yield _file(path, b"", f"{path} has no file in it.")


def _inside(entry: Entry, left: _Left, depth: int) -> Iterator[dict[str, Any]]:
    if is_litter(entry.path.parts):
        return
    most = largest(entry.path.name)
    if entry.problem or not most:
        left.take(1, 0)
        yield _file(entry.path, b"", entry.problem)
        return
    try:
        content = entry.read(most + 1)
    except DAMAGE:
        yield _file(entry.path, b"", f"{entry.path} is damaged in its archive.")
    else:
        yield from _expanded(entry.path, content, left, depth + 1)


def _written(file: dict[str, Any]) -> list[dict[str, Any]]:
    """A file with the Python in it: of a notebook, what its cells write, the last cell first."""
    path = PurePosixPath(file["path"])
    if file["problem"] or path.suffix.lower() != NOTEBOOK:
        return [file]
    try:
        written = written_by(json.loads(file["content"]))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return [_file(path, b"", f"{path} is no notebook that can be read.")]
    if not written:
        return [_file(path, b"", f"{path} has no cell that begins with %%writefile submission.py or %%submit.")]
    return [_file(path, code.encode(errors="replace"), "", cell) for cell, code in written.items()]
