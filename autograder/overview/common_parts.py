"""The parts that two submissions have in common, by tokens or by compiled work: where they lie in each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.overview.alike import TOKEN_RUN, WORK_RUN, AlikePair, Runs

LEAST_TOKENS, LEAST_WORK = TOKEN_RUN + 4, 2 * WORK_RUN  # of a part: shorter ones are in everybody's
MOST_PARTS, MOST_READ = 24, 400_000  # parts of a pair; tokens that are read to find them


@dataclass(frozen=True)
class CommonPart:
    """A part that two submissions have in common: from line to line, counted from 1, in each."""

    first: tuple[int, int]
    second: tuple[int, int]


def common_parts(pair: AlikePair, given: Runs) -> list[CommonPart]:
    """What two submissions have in common, the longest part first; none of them overlap. What is `given` to everybody,
    as runs of tokens, is in no part. Where texts are less alike than compiled work, these are the lines of the work.
    """
    across = (pair.by_tokens or 0.0) < max(pair.compiled or 0.0, pair.work or 0.0)
    if across and pair.first.shape and pair.second.shape:
        one, other = pair.first.shape, pair.second.shape
        found = _parts(one.work, one.work_lines, other.work, other.work_lines, LEAST_WORK)
        if found:
            return found
    (a, b) = pair.first.tokens, pair.second.tokens
    kinds = [[token.kind for token in tokens] for tokens in (a, b)]
    first, second = (_without(one, given, side) for side, one in enumerate(kinds))
    return _parts(first, [t.line for t in a], second, [t.line for t in b], LEAST_TOKENS)


def _without(kinds: Sequence[str], given: Runs, side: int) -> list[str]:
    """The tokens, those of given runs in a form that nothing else has."""
    left = list(kinds)
    for start in range(len(kinds) - TOKEN_RUN + 1):
        if tuple(kinds[start : start + TOKEN_RUN]) in given:
            left[start : start + TOKEN_RUN] = _taken(side, start, TOKEN_RUN)
    return left


def _taken(side: int, start: int, size: int) -> list[str]:
    return [f"\0{side} {place}" for place in range(start, start + size)]


def _parts(
    first: Sequence[str], first_lines: Sequence[int], second: Sequence[str], second_lines: Sequence[int], least: int
) -> list[CommonPart]:
    """The longest common run, then the longest of what is left, and so on (greedy string tiling, Wise 1993)."""
    first, second, found = list(first), list(second), []
    for _ in range(min(MOST_PARTS, 1 + MOST_READ // (len(first) + len(second) + 1))):
        start, other, size = longest_run(first, second)
        if size < least:
            break
        known = [
            [line for line in lines if line]
            for lines in (first_lines[start : start + size], second_lines[other : other + size])
        ]
        if all(known):
            found.append(CommonPart((min(known[0]), max(known[0])), (min(known[1]), max(known[1]))))
        first[start : start + size] = _taken(0, start, size)
        second[other : other + size] = _taken(1, other, size)
    return found


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
