"""Reads the question bank: one TOML file a notebook in course/quiz/bank, and the documents that they cite."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from course.quiz.expression import ExpressionError, chip_source
from course.quiz.question import Chapter, Kind, Option, Question, Source, Trap
from warplab.errors import WarplabError

FOLDER = Path(__file__).resolve().parent / "bank"
_KEYS = {
    "id", "kind", "title", "ask", "hint", "worked", "source", "draw", "let",
    "answer", "unit", "tolerance", "variables", "option", "trap", "more",
}  # fmt: skip
_ONLY = {
    Kind.NUMBER: {"answer", "unit", "tolerance", "trap"},
    Kind.FORMULA: {"answer", "variables"},
    Kind.CHOICE: {"option"},
}


class BankError(WarplabError):
    """A chapter that is not there, or a question in the bank that is not well formed."""


def chapters() -> tuple[str, ...]:
    """The names of the chapters that have questions, in order: "02_inside_an_sm" and so on."""
    return tuple(sorted(path.stem for path in FOLDER.glob("[0-9]*.toml")))


def load(chapter: str) -> Chapter:
    """A chapter by its name or its number, "05_roofline" or "04". Raises BankError."""
    found = [name for name in chapters() if name == chapter or name.split("_")[0] == chapter]
    if len(found) != 1:
        raise BankError(f"There is no quiz called {chapter!r}: choose one of {', '.join(chapters())}.")
    return _load(FOLDER / f"{found[0]}.toml")


@cache
def _load(path: Path) -> Chapter:
    return parse(path.stem, path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Chapter:
    """A chapter from the text of its file. Raises BankError, which names the question and what is wrong with it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BankError(f"{name}.toml is not TOML: {error}.") from None
    questions = []
    for place, entry in enumerate(data.get("question", ()), 1):
        where = f"{name}.toml, question {entry.get('id', place)!r}"
        try:
            questions.append(_question(entry))
        except (KeyError, ValueError, ExpressionError) as error:
            says = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
            raise BankError(f"{where}: {says}") from None
    ids = [question.id for question in questions]
    if twice := {one for one in ids if ids.count(one) > 1}:
        raise BankError(f"{name}.toml has two questions called {sorted(twice)[0]!r}.")
    if not questions or "title" not in data:
        raise BankError(f"{name}.toml needs a title and questions.")
    return Chapter(name, data["title"], tuple(questions))


def _question(entry: Mapping[str, Any]) -> Question:
    kind = Kind(entry["kind"])
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{sorted(unknown)[0]!r} is no key of a question")
    if alien := (set().union(*_ONLY.values()) - _ONLY[kind]) & set(entry):
        raise ValueError(f"{sorted(alien)[0]!r} does not belong to a {kind}")
    options = tuple(Option(o["text"], o["why"], o.get("right", False)) for o in entry.get("option", ()))
    if kind is Kind.CHOICE and (len(options) < 3 or sum(option.right for option in options) != 1):
        raise ValueError("a choice needs three statements or more, and exactly one that is right")
    if kind is not Kind.CHOICE:
        entry["answer"]
    if kind is Kind.FORMULA and not entry.get("variables"):
        raise ValueError("a formula needs variables, each with the numbers that it is tried with")
    return Question(
        id=entry["id"],
        more=bool(entry.get("more", False)),
        kind=kind,
        title=entry["title"],
        ask=entry["ask"].strip(),
        hint=entry["hint"].strip(),
        worked=entry["worked"].strip(),
        sources=tuple(_source(source) for source in entry["source"]),
        draw={name: tuple(values) for name, values in entry.get("draw", {}).items()},
        let=dict(entry.get("let", {})),
        answer=str(entry.get("answer", "")),
        unit=entry.get("unit", ""),
        tolerance=float(entry.get("tolerance", 0)),
        variables={name: tuple(values) for name, values in entry.get("variables", {}).items()} or None,
        options=options,
        traps=tuple(Trap(str(trap["value"]), trap["says"]) for trap in entry.get("trap", ())),
    )


def _source(source: str) -> Source:
    """A source as the bank writes it: "guide: place" for a document of sources.toml, or "H200.bandwidth" for what a
    datasheet of warplab.hardware says."""
    document, colon, place = source.partition(": ")
    if colon and document in _documents():
        known = _documents()[document]
        return Source(f"{known['title']}, {place}", known["url"])
    chip, point, figure = source.partition(".")
    if point and chip.isalnum() and figure.replace("_", "").isalnum():
        return Source(f"{chip}, {figure.replace('_', ' ')}: {chip_source(chip, figure)}")
    raise ValueError(f"the source {source!r} is neither 'document: place' nor a figure of a chip, as H200.bandwidth is")


@cache
def _documents() -> dict[str, dict[str, str]]:
    return tomllib.loads((FOLDER / "sources.toml").read_text(encoding="utf-8"))
