"""Lines of a right submission that no case ran, so that nothing is known of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autograder.records.outcome import CaseOutcome

_SHOWN = 5  # ranges in a sentence
# What must not be reached is right where nothing reaches it, and a brace does nothing.
_NO_WORK = re.compile(r"\s*(assert\b|raise\b|def\b|@|__trap\b|__builtin_unreachable\b|[{}\s;]*(//.*|#.*)?$)")


def unrun_lines(source: str, outcomes: Sequence[CaseOutcome]) -> tuple[tuple[int, int], ...]:
    """The lines, from first to last, that kernels have code of and no case ran. Nothing if a case does not tell."""
    if not all(outcome.code for outcome in outcomes):
        return ()
    rows = source.split("\n")
    code = sorted({line for outcome in outcomes for line in outcome.code if 0 < line <= len(rows)})
    ran = {line for outcome in outcomes for line in outcome.ran}
    ranges: list[tuple[int, int]] = []
    joined = False  # the line of code before is in the last range
    for line in code:
        if line in ran:
            joined = False
        elif joined:
            ranges[-1] = ranges[-1][0], line
        elif not _NO_WORK.match(rows[line - 1]):
            ranges.append((line, line))
            joined = True
    return tuple(one for one in ranges if not _left_over(rows, one, ran))


def _left_over(rows: Sequence[str], place: tuple[int, int], ran: set[int]) -> bool:
    """Whether lines that follow in the same part of the source ran: then so did these, and what no thread ran is a copy
    that the compiler made of them, for a loop's remainder for example."""
    first, last = place
    deep = _depth(rows[first - 1])
    for number, row in enumerate(rows[last:], start=last + 1):
        if not row.strip() or row.lstrip().startswith(("#", "//")):
            continue
        if _depth(row) < deep:
            return False
        if number in ran:
            return True
    return False


def _depth(row: str) -> int:
    return len(row) - len(row.lstrip())


def unrun_words(ranges: Sequence[tuple[int, int]]) -> str:
    """One or two sentences; empty for no lines."""
    if not ranges:
        return ""
    shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:_SHOWN]]
    if len(ranges) > _SHOWN:
        shown.append(f"{len(ranges) - _SHOWN} more places")
    lines = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    many = len(shown) > 1 or ranges[0][0] != ranges[0][1]
    they = "they are" if many else "it is"
    return f"No emulated case reached line{'s' * many} {lines}: nothing shows that {they} right."
