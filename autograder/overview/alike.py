"""How alike two submissions are: by their tokens, by their compiled form, by the work that they do in any language.

A likeness is Dice's: twice the runs of tokens (of fixed length, each as often as it occurs) that both have, over those
of the two together; 0 for nothing in common, 1 for the same. Runs of the starter count for nobody.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    start, other, size = longest_run(first, second)
    spans = first_lines[start : start + size], second_lines[other : other + size]
    known = [[line for line in span if line] for span in spans]
    if not all(known):
        return None
    return Passage((min(known[0]), max(known[0])), (min(known[1]), max(known[1])))


def longest_run(first: Sequence[str], second: Sequence[str]) -> tuple[int, int, int]:
    """Where the longest run that both have begins in each, at first, and its length.

    Every part of a common run is one too, so its length is found by halving; runs of one length are compared by their
    hashes (Rabin and Karp), so that a hand-in of equal tokens costs n log n and not n squared.
    """
    least, most, found = 0, min(len(first), len(second)), (0, 0)
    while least < most:
        length = (least + most + 1) // 2
        places: dict[int, int] = {}
        for place, digest in enumerate(_digests(first, length)):
            places.setdefault(digest, place)
        both = ((places[digest], other) for other, digest in enumerate(_digests(second, length)) if digest in places)
        common = min((pair for pair in both), default=None)
        if common is not None and first[common[0] : common[0] + length] == second[common[1] : common[1] + length]:
            least, found = length, common
        else:
            most = length - 1
    return (*found, least)


_MODULUS, _BASE = 2**61 - 1, secrets.randbelow(2**60) + 2**60  # nobody can look for runs whose hashes are the same


def _digests(kinds: Sequence[str], length: int) -> Iterator[int]:
    """The hash of each run of `length`, in order."""
    numbers = [hash(kind) for kind in kinds]
    out, digest = pow(_BASE, length - 1, _MODULUS), 0
    for place, number in enumerate(numbers):
        if place >= length:
            digest -= numbers[place - length] * out
        digest = (digest * _BASE + number) % _MODULUS
        if place >= length - 1:
            yield digest


def _of(found: Sequence[Token], length: int, least: int) -> Runs:
    return runs([token.kind for token in found], length, least)


def _without(found: Runs, given: Runs) -> Runs:
    return Counter({run: count for run, count in found.items() if run not in given})
