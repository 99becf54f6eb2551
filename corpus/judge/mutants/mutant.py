"""A mutant: a solution with one mistake put into it, and the verdict that it must get.

Mutants are made from the solutions when they are needed, so the two cannot drift apart: an edit whose text is no longer
in the solution, or is there more often than the edit says, fails with the name of the mutant.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograder.records.status import Part


class EditDoesNotApply(Exception):
    """The solution has changed under a mutant: its edit must be written anew."""


@dataclass(frozen=True)
class Edit:
    """Replace `old` by `new`; `old` stands exactly `times` times in the solution, `only` picks one of them (from 0)."""

    old: str
    new: str
    times: int = 1
    only: int | None = None

    def apply(self, text: str) -> str:
        """The edited text. Raises EditDoesNotApply."""
        found = text.count(self.old)
        if found != self.times:
            raise EditDoesNotApply(f"{self.old!r} stands {found} times in the solution instead of {self.times}")
        if self.only is None:
            return text.replace(self.old, self.new)
        pieces = text.split(self.old)
        before, after = pieces[: self.only + 1], pieces[self.only + 1 :]
        return self.old.join(before) + self.new + self.old.join(after)


@dataclass(frozen=True)
class Cause:
    """Why a mutant must fail: the part and the status or finding, and what the report must say about the place.

    `at` is text of the line that the finding must name, `words` a part of what the report must say to the student
    (of the telling case, its likely cause, the finding or the budget).
    """

    part: Part
    status: str
    at: str = ""
    words: str = ""


@dataclass(frozen=True)
class Mutant:
    """One mistake in one solution (a file of solutions/), and the verdict it must get."""

    source: str
    name: str
    mistake: str
    edits: tuple[Edit, ...]
    cause: Cause

    @property
    def lab(self) -> str:
        """The lab's name."""
        return self.source.split("/")[0]

    @property
    def identifier(self) -> str:
        """A name for lists of tests: the lab, the language's file, the mistake."""
        return f"{self.source.removesuffix('.py')}/{self.name}"

    def text(self, solutions: Path) -> str:
        """The mutated source. Raises EditDoesNotApply naming the mutant."""
        text = (solutions / self.source).read_text(encoding="utf-8")
        try:
            for edit in self.edits:
                text = edit.apply(text)
        except EditDoesNotApply as error:
            raise EditDoesNotApply(f"{self.identifier}: {error}") from None
        return text

    def write(self, solutions: Path, folder: Path) -> Path:
        """Write the mutant as a submission into `folder`/<lab>; gives its path. Raises EditDoesNotApply."""
        path = folder / self.lab / f"{self.name}_{Path(self.source).name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(solutions), encoding="utf-8")
        return path
