"""The shapes of the race: drawn once by a seed, before any kernel was there, and all of them listed in the results."""

from __future__ import annotations

from math import exp, log
from random import Random

from systems.search.half_product import Shape

COUNT, SEED = 64, 17
UNIT, LEAST, MOST = 64, 64, 4096


def drawn(count: int = COUNT, seed: int = SEED) -> list[Shape]:
    """Different m x n x k; each size by its logarithm evenly from 64 to 4,096, in multiples of 64."""
    random = Random(seed)
    found: list[Shape] = []
    while len(found) < count:
        m, n, k = (UNIT * round(exp(random.uniform(log(LEAST), log(MOST))) / UNIT) for _ in range(3))
        if (m, n, k) not in found:
            found.append((m, n, k))
    return found
