"""Sizes of cases: classes of them, and the one of each class that a seed draws.

The labs are public. If the size of a case were, a submission could have one kernel for what is counted, another for
what is timed and a third for everything else. A task therefore names a class for each case that matters ("a prime near
100,000", "whole tiles of about so much work"), and the secret seed draws one size of it. The judge and its worker draw
the same one, because they have the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from autograder.spec.inputs import uniform
from autograder.spec.task import Case, Dimensions, Task


def every(where: Callable[[Dimensions], bool] = lambda dimensions: True, **values: Sequence[int]) -> tuple[dict, ...]:
    """A class of sizes: all combinations of the values of each dimension that satisfy `where`."""
    combinations = (dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))
    return tuple(dimensions for dimensions in combinations if where(dimensions))


def odd(low: int, high: int) -> range:
    """The odd numbers from `low`, which is odd, to `high` inclusive: ragged for every tile."""
    return range(low, high + 1, 2)


def primes(low: int, high: int) -> tuple[int, ...]:
    """The primes from `low`, at least 2, to `high` inclusive."""
    return tuple(n for n in range(low, high + 1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def multiples(unit: int, low: int, high: int) -> range:
    """The multiples of `unit` from `low`, which is one, to `high` inclusive."""
    return range(low, high + 1, unit)


def drawn(task: Task, seed: int) -> Task:
    """The task with the dimensions of every case drawn from its class by the seed, the same for the same seed."""
    return replace(
        task,
        correctness=tuple(_drawn(task, case, seed) for case in task.correctness),
        profile=_drawn(task, task.profile, seed),
        timing=_drawn(task, task.timing, seed),
    )


def _drawn(task: Task, case: Case, seed: int) -> Case:
    if not case.sizes:
        return case
    number = int(uniform(seed, "size", task.function, case.name) * len(case.sizes))
    return replace(case, dimensions=case.sizes[min(number, len(case.sizes) - 1)])
