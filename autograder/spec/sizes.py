"""Sizes of cases: classes of them, of which a seed draws one each.

The labs are public. If the size of a case were, a submission could have one kernel for what is counted, another for
what is timed and a third for everything else. A task therefore names a class for each case that matters ("a prime near
100,000", "whole tiles of about so much work"), and the secret seed draws one size of it. The judge and its worker draw
the same one, because they have the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import overload

from autograder.spec.task import Dimensions


@dataclass(frozen=True)
class Combinations(Sequence[Dimensions]):
    """All combinations of the values of each dimension, the last one's changing fastest.

    Each is made when it is asked for: a class may have a hundred thousand, of which a grade needs one.
    """

    values: tuple[tuple[str, Sequence[int]], ...]

    def __len__(self) -> int:
        return math.prod(len(values) for _, values in self.values)

    @overload
    def __getitem__(self, number: int) -> Dimensions: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Dimensions]: ...
    def __getitem__(self, number: int | slice) -> Dimensions | Sequence[Dimensions]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        rest = range(len(self))[number]  # raises IndexError beyond the end
        chosen = {}
        for name, values in reversed(self.values):
            rest, place = divmod(rest, len(values))
            chosen[name] = values[place]
        return dict(reversed(chosen.items()))


def every(where: Callable[[Dimensions], bool] | None = None, **values: Sequence[int]) -> Sequence[Dimensions]:
    """A class of sizes: all combinations of the values of each dimension that satisfy `where`, if it is given."""
    combinations = Combinations(tuple(values.items()))
    return combinations if where is None else tuple(filter(where, combinations))


def odd(low: int, high: int) -> range:
    """The odd numbers from `low`, which is odd, to `high` inclusive: ragged for every tile."""
    return range(low, high + 1, 2)


@cache  # a worker loads its lab for every case
def primes(low: int, high: int) -> tuple[int, ...]:
    """The primes from `low`, at least 2, to `high` inclusive."""
    return tuple(n for n in range(low, high + 1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def multiples(unit: int, low: int, high: int) -> range:
    """The multiples of `unit` from `low`, which is one, to `high` inclusive."""
    return range(low, high + 1, unit)
