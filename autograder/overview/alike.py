"""How alike two submissions are: by their tokens, by their compiled form, by the work that they do in any language.

A likeness is Dice's: twice the runs of tokens (of fixed length, each as often as it occurs) that both have, over those
of the two together; 0 for nothing in common, 1 for the same. Runs of the starter count for nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from autograder.overview.tokens import Token
from autograder.records.shape import Shape

TOKEN_RUN, OPERATION_RUN, WORK_RUN = 8, 5, 3
LEAST_TOKENS, LEAST_OPERATIONS, LEAST_WORK = 24, 24, 12  # below them anybody's look the same

Runs = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class ComparedWork:
    """One student's submission, as it is compared."""

    student: str
    text: str
    tokens: tuple[Token, ...]
    shape: Shape | None  # None where it does not compile


@dataclass(frozen=True)
class Passage:
    """The longest part that two submissions have in common: from line to line, counted from 1, in each."""

    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True)
class AlikePair:
    """Two submissions: likenesses from 0 to 1, None where too little is there to compare.

    `compiled` compares every PTX operation and is of use within one language; `work` only what both languages need.
    """

    first: ComparedWork
    second: ComparedWork
    by_tokens: float | None
    compiled: float | None
    work: float | None

    @property
    def strongest(self) -> float:
        """What pairs are ordered by: `work` counts where the languages differ, and says little where they do not."""
        shapes = self.first.shape, self.second.shape
        across = shapes[0] is not None and shapes[1] is not None and shapes[0].language != shapes[1].language
        return max(self.by_tokens or 0.0, self.compiled or 0.0, (self.work or 0.0) if across else 0.0)


def pairs(works: Sequence[ComparedWork], starters: Sequence[Sequence[Token]] = ()) -> list[AlikePair]:
    """Every two of the submissions, the most alike first."""
    given = Counter[tuple[str, ...]]()
    for starter in starters:
        given |= runs([token.kind for token in starter], TOKEN_RUN)
    by_tokens = [_without(_of(w.tokens, TOKEN_RUN, LEAST_TOKENS), given) for w in works]
    operations = [runs(w.shape.all_operations, OPERATION_RUN, LEAST_OPERATIONS) if w.shape else None for w in works]
    doing = [runs(w.shape.work, WORK_RUN, LEAST_WORK) if w.shape else None for w in works]
    found = [
        AlikePair(
            works[i],
            works[j],
            likeness(by_tokens[i], by_tokens[j]),
            likeness(operations[i], operations[j]),
            likeness(doing[i], doing[j]),
        )
        for i in range(len(works))
        for j in range(i + 1, len(works))
    ]
    return sorted(found, key=lambda pair: (-pair.strongest, pair.first.student, pair.second.student))


def runs(kinds: Sequence[str], length: int, least: int = 0) -> Runs:
    """The runs of `length` in a sequence, counted; none of a sequence shorter than `least`."""
    if len(kinds) < least:
        return Counter()
    return Counter(tuple(kinds[i : i + length]) for i in range(len(kinds) - length + 1))


def likeness(first: Runs | None, second: Runs | None) -> float | None:
    """Dice's coefficient of two multisets; None if one of them is empty."""
    if not first or not second:
        return None
    return 2 * (first & second).total() / (first.total() + second.total())


def passage(pair: AlikePair) -> Passage | None:
    """What two submissions have in common: by tokens or, where these are not alike, the lines of compiled work."""
    across = (pair.by_tokens or 0.0) < max(pair.compiled or 0.0, pair.work or 0.0)
    if across and pair.first.shape and pair.second.shape:
        one, other = pair.first.shape, pair.second.shape
        found = _longest(one.work, one.work_lines, other.work, other.work_lines)
        if found:
            return found
    (a, b) = pair.first.tokens, pair.second.tokens
    return _longest([t.kind for t in a], [t.line for t in a], [t.kind for t in b], [t.line for t in b])


def _longest(
    first: Sequence[str], first_lines: Sequence[int], second: Sequence[str], second_lines: Sequence[int]
) -> Passage | None:
    match = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
    spans = first_lines[match.a : match.a + match.size], second_lines[match.b : match.b + match.size]
    known = [[line for line in span if line] for span in spans]
    if not all(known):
        return None
    return Passage((min(known[0]), max(known[0])), (min(known[1]), max(known[1])))


def _of(found: Sequence[Token], length: int, least: int) -> Runs:
    return runs([token.kind for token in found], length, least)


def _without(found: Runs, given: Runs) -> Runs:
    return Counter({run: count for run, count in found.items() if run not in given})
