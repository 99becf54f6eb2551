"""In which order the clusters of a launch start and their warps take turns: upwards, downwards, or drawn from a seed.

A GPU starts blocks in the order of their numbers as room becomes free, so one that waits for a lower number's flag will
see it; among those that are there together nothing says which comes first. An order therefore differs only within
windows of as many clusters as are there together.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_PRIMES = tuple(2**31 + n for n in (11, 45, 65, 95, 129, 135, 165, 209))  # no grid's size shares a factor with them


@dataclass(frozen=True)
class Order:
    """The `i`-th cluster of a window to start is `(start + step i)` modulo the window's size."""

    window: int = 1
    start: int = 0
    step: int = 1
    backwards: bool = False  # the last warp has the first turn
    seed: int = 0  # of turns and of asynchronous operations, 1 to 2**62; 0: nothing is random


def upwards() -> Order:
    """Clusters in the order of their numbers, warps too."""
    return Order()


def downwards(window: int) -> Order:
    """Within each window of so many clusters the last one first, and of each block's warps the last one."""
    return Order(window, -1, -1, backwards=True)


def drawn(seed: int, launch: int, window: int) -> Order:
    """The order of the `launch`-th launch of an execution with a seed."""
    draw = random.Random(f"{seed} {launch}")
    state = 1 + draw.getrandbits(62)
    step = draw.choice(_PRIMES) * draw.choice((1, -1))
    return Order(window, draw.randrange(window), step, seed=state)
