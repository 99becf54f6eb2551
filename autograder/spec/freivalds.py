"""Freivalds' check of a matrix product of whole numbers, exact: no wrong element is small enough to pass.

R. Freivalds, Probabilistic machines can use less running time, IFIP Congress 1977: instead of computing a b again, one
compares c r with a (b r) for a random vector r, in O(m k + k n + m n).
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from autograder.spec.products import times_vector
from autograder.spec.task import Array


def exact_product(xp: ModuleType, a: Array, b: Array, c: Array, seed: int) -> bool:
    """Whether c (m x n, float) is a @ b for whole numbers a (m x k) and b (k x n).

    r is drawn uniformly from the integers modulo 2^64, and all is computed modulo 2^64, where nothing rounds and
    nothing overflows. A right c is never refused. Let L be the largest sum_l |a_il| max_j |b_lj|, which no element of
    a b exceeds. If c differs from a b anywhere, take a row of the difference with an element e != 0. Both c's elements
    (else they are refused at once) and those of a b are whole and at most L, so |e| <= 2 L, and 2^s, the largest power
    of two that divides e, is at most 2 L too. Whatever the other elements of r are, the row passes only if e r_j has
    one certain value modulo 2^64, which at most 2^s of the 2^64 possible r_j give. A wrong c is accepted with a
    probability of at most 2 L / 2^64. L is below 2^24 where the sums are exact in float32, so that is below 2e-12.
    """
    if c.size == 0:
        return True
    exact = c.astype(np.float64)
    largest = times_vector(xp.abs(a.astype(np.float64)), xp.abs(b.astype(np.float64)).max(axis=1)).max()
    bounded = xp.abs(exact) <= largest  # False for NaN
    if not bool((bounded & (exact == xp.rint(exact))).all()):
        return False
    r = np.random.default_rng(seed).integers(-(2**63), 2**63, size=b.shape[1], dtype=np.int64)
    left = _times(exact, xp.asarray(r))
    right = _times(a, _times(b, xp.asarray(r)))
    return bool((left == right).all())


def _times(matrix: Array, vector: Array) -> Array:
    """matrix @ vector modulo 2^64, the matrix being of whole numbers."""
    return (matrix.astype(np.int64) * vector).sum(axis=1, dtype=np.int64)
