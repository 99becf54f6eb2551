"""A question as the bank has it, and as one learner sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from course.quiz.expression import Value


class Kind(StrEnum):
    """How a question is answered."""

    NUMBER = "number"  # a number in a unit
    CHOICE = "choice"  # one of several statements
    FORMULA = "formula"  # a short derivation: an expression in the given names


@dataclass(frozen=True)
class Source:
    """Where a fact that a question rests on comes from. `url` is empty for what a datasheet of ours names."""

    text: str
    url: str = ""


@dataclass(frozen=True)
class Option:
    """One statement to choose, and what to say to who chooses it. `right` for the one that is."""

    text: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Trap:
    """A wrong number that a known mistake leads to, as an expression, and what to say to it."""

    value: str
    says: str


@dataclass(frozen=True)
class Question:
    """One question of the bank. Texts may hold `{expressions}` in the drawn names.

    `draw` has the values that each parameter may take, `let` further names as expressions, in order. A NUMBER has
    `answer`, an expression in `unit`, and a relative `tolerance`; a FORMULA has `answer` in `variables`, each with the
    numbers that it is tried with; a CHOICE has `options`. `more`: it is none of the few that end a chapter.
    """

    id: str
    kind: Kind
    title: str
    ask: str
    hint: str
    worked: str
    sources: tuple[Source, ...]
    draw: Mapping[str, tuple[Value, ...]]
    let: Mapping[str, str]
    answer: str = ""
    unit: str = ""
    tolerance: float = 0.0
    variables: Mapping[str, tuple[float, ...]] | None = None
    options: tuple[Option, ...] = ()
    traps: tuple[Trap, ...] = ()
    more: bool = False


@dataclass(frozen=True)
class Chapter:
    """The questions of one notebook."""

    name: str  # "05_roofline"
    title: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Drawn:
    """A question with its parameters drawn and its texts filled in: what one learner sees.

    `answer` is a number for a NUMBER, the index of the right option for a CHOICE and the formula itself for a FORMULA.
    `traps` maps wrong numbers to what is said of them.
    """

    question: Question
    seed: str
    names: Mapping[str, Value]
    ask: str
    hint: str
    worked: str
    answer: float | int | str
    options: tuple[Option, ...] = ()
    traps: tuple[tuple[float, str], ...] = ()
