"""Pseudonyms of students, and what a class's record shows while names are hidden.

Names are hidden from people who read grades, answer appeals or compare hand-ins. Exports to platforms and students have
the names, and so has the list of files that were handed in.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.people import Identity, Person

_BIRDS = (
    "avocet", "bittern", "curlew", "dunlin", "egret", "falcon", "godwit", "heron", "ibis", "jackdaw", "kestrel",
    "lapwing", "merlin", "nightjar", "osprey", "plover", "quail", "redstart", "siskin", "tern", "vireo", "wren",
)  # fmt: skip
_NAMES_IN_LOG = re.compile(r"( came in): .*|( of ).*( is theirs by the roster)", re.DOTALL)


def draw(taken: Collection[str]) -> str:
    """An unused pseudonym: a bird and four digits, drawn at random, so that it reveals nothing about a student."""
    while (name := f"{secrets.choice(_BIRDS)} {secrets.randbelow(10_000):04d}") in taken:
        pass
    return name


@dataclass(frozen=True)
class Shown:
    """How students are called where grades are looked at: by `pseudonyms` if names are `hidden`, else by their IDs."""

    pseudonyms: Mapping[str, str]
    hidden: bool

    def of(self, student: str) -> str:
        """What a student is shown as."""
        return self.pseudonyms.get(student, "somebody") if self.hidden and student else student

    def real(self, name: str) -> str:
        """The student ID behind a shown name.

        Raises ClassError for a real name while names are hidden: the answer would reveal a pseudonym."""
        if not self.hidden:
            return name
        ids = {pseudonym: student for student, pseudonym in self.pseudonyms.items()}
        if name not in ids:
            raise ClassError(
                f"Names are hidden, and no student is shown as {name!r}: write a pseudonym of results.csv."
            )
        return ids[name]

    def lines(self, lines: Iterable[GradeLine]) -> list[GradeLine]:
        """The lines without names of files and reasons that quote them, which identify students."""
        if not self.hidden:
            return list(lines)
        return sorted((self._line(line) for line in lines), key=lambda line: (line.student, line.lab))

    def people(self, people: Iterable[Person]) -> list[Person]:
        """The class, in the order of what is shown."""
        if not self.hidden:
            return list(people)
        return sorted((Person(self.of(one.id), "", frozenset()) for one in people), key=lambda one: one.id)

    def words(self, text: str) -> str:
        """A line of the log without names."""
        return _NAMES_IN_LOG.sub(r"\1\3", text) if self.hidden else text

    def _line(self, line: GradeLine) -> GradeLine:
        file = f"submission{PurePath(line.file).suffix}" if line.file else ""
        return replace(
            line,
            student=self.of(line.student),
            called="",
            members=tuple(Identity(self.of(one.id), "") for one in line.members),
            file=file,
            problem="It has no grade; while names are hidden, so is the reason." if line.problem else "",
            note="",
            report=_renamed(line.report, PurePath(line.file).name, file) if line.report else {},
        )


def _renamed(found: Any, name: str, to: str) -> Any:
    """A report with another name for its file, which sentences quote too, sometimes with a capital at the start."""
    if isinstance(found, str):
        whole = rf"(?<!\w){re.escape(name)}(?!\w)"
        return re.sub(whole, lambda _: to, found, flags=re.IGNORECASE) if name else found
    if isinstance(found, Mapping):
        return {key: _renamed(value, name, to) for key, value in found.items()}
    return [_renamed(value, name, to) for value in found] if isinstance(found, list | tuple) else found
