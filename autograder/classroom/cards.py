"""On what a class's grades were measured. Shares of a roofline are each card's own, so grades of a lab from two cards,
or with and without a GPU, are not compared unless an instructor says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from autograder.classroom.grade_line import GradeLine
from autograder.records.status import NOT_JUDGED, Executor

EMULATOR = "the emulator"


def card(device: str, hardware: str) -> str:
    """What grades must have in common: the GPU's name, whatever its driver. Emulators are all the same."""
    return EMULATOR if device == Executor.EMULATOR else hardware.partition(", driver ")[0]


def with_cards(lines: Iterable[GradeLine]) -> list[GradeLine]:
    """The lines, with a note at each whose lab has grades from several cards."""
    lines = list(lines)
    cards: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if counts(line.status):
            cards[line.lab].add(card(line.device, line.hardware))
    return [_noted(line, cards[line.lab]) for line in lines]


def counts(status: str) -> bool:
    """Whether a grade of this status was come to on a card."""
    return bool(status) and status not in NOT_JUDGED


def words(lab: str, here: str, there: Iterable[str]) -> str:
    """Why grades are refused that would come from another card."""
    known = " and ".join(sorted(there))
    return f"{lab} has grades from {known}, and this is {here}"


def refused(before: Mapping[str, set[str]], lab: str, here: str) -> str:
    """A sentence without its end if a lab's grades are from another card; empty if they are not."""
    others = before.get(lab, set()) - {here}
    return words(lab, here, others) if others else ""


def _noted(line: GradeLine, of_lab: set[str]) -> GradeLine:
    if not counts(line.status) or len(of_lab) < 2:
        return line
    here = card(line.device, line.hardware)
    words = f"graded on {here}; other grades of this lab are from {' and '.join(sorted(of_lab - {here}))}"
    return replace(line, note="; ".join(text for text in (line.note, words) if text))
