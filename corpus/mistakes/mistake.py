"""Mistakes that beginners make, and what Warplab must say first of each.

A file of this folder, `*.toml`, is about one submission that is right, its `base`. Each `[[mistake]]` puts one slip
into it: `old` becomes `new`, so that putting `old` back is the fix. Without them it is the judge's mutant of that name.
`at` is text of the line that must be named; `first` is what the first sentence must say, where `{line}` stands for that
line's number; `never` are words that it must not have, because they send people elsewhere. `costs = false` marks what
earns all points and is worth a word.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from corpus.judge.mutants.mutant import Edit, Mutant
from corpus.judge.truth import truth_of

FOLDER = Path(__file__).parent
_ROOT = FOLDER.parent.parent


class BadMistake(Exception):
    """The entry of a mistake cannot be what is meant."""


@dataclass(frozen=True)
class Mistake:
    """One slip in a right submission of `lab`, and what must be said of it; a `lab` of "" is for `warplab.run`."""

    base: Path
    lab: str
    name: str
    edits: tuple[Edit, ...]
    at: str
    first: str
    never: tuple[str, ...] = ()
    costs: bool = True

    @property
    def identifier(self) -> str:
        """The lab, the base and the slip."""
        return f"{self.lab or 'run'}/{self.base.stem}/{self.name}"

    def text(self) -> str:
        """The submission with the slip. Raises EditDoesNotApply."""
        text = self.base.read_text(encoding="utf-8")
        for edit in self.edits:
            text = edit.apply(text)
        return text

    def line(self) -> int:
        """The line that must be named, 0 if none must. Raises BadMistake unless one line of the text has `at`."""
        if not self.at:
            return 0
        found = [number for number, line in enumerate(self.text().split("\n"), 1) if self.at in line]
        if len(found) != 1:
            raise BadMistake(f"{self.identifier}: lines {found} have the text {self.at!r}; one should.")
        return found[0]

    def expected(self) -> str:
        """What the first sentence must say."""
        return self.first.replace("{line}", str(self.line()))

    def objections(self, opening: str) -> list[str]:
        """What is wrong with what is said first; nothing if it is what it must be."""
        found = [] if self.expected() in opening else [f"it does not say {self.expected()!r}"]
        if self.at and not re.search(rf"\b{self.line()}\b", opening):
            found.append(f"it does not name line {self.line()}")
        return found + [f"it says {words!r}" for words in self.never if words in opening]


def _edits(entry: Mapping[str, Any]) -> tuple[Edit, ...]:
    pairs = [(entry["old"], entry["new"])] if "old" in entry else entry.get("edits", ())
    return tuple(Edit(old, new) for old, new in pairs)


@cache
def _mutants(lab: str) -> tuple[Mutant, ...]:
    return truth_of(lab).mutants


def _edits_of_mutant(lab: str, base: Path, name: str) -> tuple[Edit, ...]:
    """The edits of the judge's mutant of that name. Raises BadMistake if there is none."""
    for mutant in _mutants(lab):
        if (mutant.source, mutant.name) == (f"{lab}/{base.name}", name):
            return mutant.edits
    raise BadMistake(f"{lab}/{base.stem}/{name}: it has no edits, and the judge no mutant of this name.")


def mistakes() -> Iterator[Mistake]:
    """All mistakes, file by file."""
    for path in sorted(FOLDER.glob("*.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        base = _ROOT / about["base"]
        for entry in about["mistake"]:
            lab, name = about.get("lab", ""), entry["name"]
            yield Mistake(
                base,
                lab,
                name,
                _edits(entry) or _edits_of_mutant(lab, base, name),
                entry.get("at", ""),
                entry["first"],
                tuple(entry.get("never", ())),
                entry.get("costs", True),
            )
