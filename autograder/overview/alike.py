"""How alike two submissions are: by their tokens, by their compiled form, by the work that they do in any language.

A likeness is Dice's: twice the runs of tokens (of fixed length, each as often as it occurs) that both have, over those
of the two together; 0 for nothing in common, 1 for the same. Runs of the starter count for nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autograder.overview.tokens import Token
from autograder.records.shape import Shape

TOKEN_RUN, OPERATION_RUN, WORK_RUN = 8, 5, 3
LEAST_TOKENS, LEAST_OPERATIONS, LEAST_WORK = 24, 24, 12  # below them anybody's look the same

Runs = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class ComparedWork:
    """A text as it is compared: a student's submission, or a known text, whose `name` is then where it comes from."""

    name: str
    text: str
    tokens: tuple[Token, ...]
    shape: Shape | None  # None where it does not compile
    known: bool = False  # a solution, an earlier year's work, a collected text


@dataclass(frozen=True)
class AlikePair:
    """Two submissions: likenesses from 0 to 1, None where too little is there to compare.

    `compiled` compares every PTX operation and is of use within one language; `work` only what both languages need.
    `held` is the share of a known text's tokens that the submission has, however much else it has; the second of two is
    known, or none is.
    """

    first: ComparedWork
    second: ComparedWork
    by_tokens: float | None
    compiled: float | None
    work: float | None
    held: float | None = None

    @property
    def strongest(self) -> float:
        """What pairs are ordered by: `work` counts where the languages differ, and says little where they do not."""
        shapes = self.first.shape, self.second.shape
        across = shapes[0] is not None and shapes[1] is not None and shapes[0].language != shapes[1].language
        across_work = (self.work or 0.0) if across else 0.0
        return max(self.by_tokens or 0.0, self.compiled or 0.0, across_work, self.held or 0.0)


def given_runs(starters: Iterable[Sequence[Token]]) -> Runs:
    """The runs of tokens that everybody was given."""
    given: Runs = Counter()
    for starter in starters:
        given |= runs([token.kind for token in starter], TOKEN_RUN)
    return given


def pairs(works: Sequence[ComparedWork], given: Runs | None = None) -> list[AlikePair]:
    """Every two of the submissions, and each with every known text, the most alike first."""
    works = sorted(works, key=lambda work: work.known)
    by_tokens = [_without(_of(w.tokens, TOKEN_RUN, LEAST_TOKENS), given or Counter()) for w in works]
    operations = [runs(w.shape.all_operations, OPERATION_RUN, LEAST_OPERATIONS) if w.shape else None for w in works]
    doing = [runs(w.shape.work, WORK_RUN, LEAST_WORK) if w.shape else None for w in works]
    found = [
        AlikePair(
            works[i],
            works[j],
            likeness(by_tokens[i], by_tokens[j]),
            likeness(operations[i], operations[j]),
            likeness(doing[i], doing[j]),
            _held(by_tokens[i], by_tokens[j]) if works[j].known else None,
        )
        for i in range(len(works))
        for j in range(i + 1, len(works))
        if not works[i].known
    ]
    return sorted(found, key=lambda pair: (-pair.strongest, pair.first.name, pair.second.name))


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


def _held(theirs: Runs, known: Runs) -> float | None:
    return (theirs & known).total() / known.total() if theirs and known else None


def _of(found: Sequence[Token], length: int, least: int) -> Runs:
    return runs([token.kind for token in found], length, least)


def _without(found: Runs, given: Runs) -> Runs:
    return Counter({run: count for run, count in found.items() if run not in given})
