"""Slips that a submission's text shows and its counters and outputs only follow: each a sentence, or nothing.

The text is a stranger's, so it is looked through line by line and not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autograder.records.report import PartResult
from autograder.records.status import Status

_UNCALLED = re.compile(r"^\s*(cuda\.sync(?:threads|warp)|__sync(?:threads|warp))\s*;?\s*(?:#.*|//.*)?$")
_PRINTS = re.compile(r"^\s*(?:if\b.*[:)]\s*)?(printf?)\s*\(")
_UNOPTIMISED = re.compile(r"@cuda\.jit\(.*(?:\bopt\s*=\s*False|\bdebug\s*=\s*True)")
_LOCAL = ("local_load_sectors", "local_store_sectors")


def uncalled_barrier(lines: Sequence[str]) -> str:
    """A barrier that is named and not called."""
    for number, line in enumerate(lines, 1):
        if m := _UNCALLED.match(line):
            return f"Line {number} names {m[1]} and does not call it: write {m[1]}()."
    return ""


def overwritten_output(lines: Sequence[str], correctness: PartResult) -> str:
    """A name of an output that a kernel gives to a number, so that the array is never stored to."""
    outputs = {c.first_wrong.output for c in correctness.cases if c.first_wrong and c.first_wrong.unwritten}
    for name in sorted(outputs):
        slip = re.compile(rf"\s+{re.escape(name)}\s*=(?!=)")
        for number, line in enumerate(lines, 1):
            if slip.match(line):
                return f"Line {number}: '{name}' is an array: store to an element of it, as in {name}[i] = ..."
    return ""


def cost_of_printing(lines: Sequence[str], traffic: PartResult) -> str:
    """A kernel's print, which puts its arguments into local memory."""
    return _first(lines, _PRINTS, traffic, "prints, which costs local memory: remove it before grading")


def unoptimised(lines: Sequence[str], traffic: PartResult) -> str:
    """A kernel that the compiler was told not to optimise."""
    for number, line in enumerate(lines, 1):
        if (m := _UNOPTIMISED.search(line)) and _uses_local_memory(traffic):
            option = "opt=False" if "opt" in m[0] else "debug=True"
            return f"Line {number}: {option} keeps every variable in local memory: remove it."
    return ""


def is_vague(cause: str) -> bool:
    """Whether the cause of a wrong answer names no pattern that leads somewhere."""
    return not cause or cause.startswith(("The wrong elements are scattered", "Nearly every element"))


def _first(lines: Sequence[str], slip: re.Pattern[str], traffic: PartResult, words: str) -> str:
    for number, line in enumerate(lines, 1):
        if slip.match(line) and _uses_local_memory(traffic):
            return f"Line {number} {words}."
    return ""


def _uses_local_memory(traffic: PartResult) -> bool:
    over = [budget for budget in traffic.budgets if not budget.passed]
    return (
        traffic.status is Status.OVER_BUDGET
        and any(name in b.parts for b in over for name in _LOCAL)
        or any(budget.counter in ("local_sectors", *_LOCAL) for budget in over)
    )
