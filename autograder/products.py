"""What the labs of matrix products compute alike: the product itself, and projections of its error."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from autograder.task import Array

UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
SECTOR = 32  # bytes
PROJECTIONS = 8
DEVIATIONS = 8.0  # of an honest projected error, that are allowed
_K_BLOCK = 16  # columns of `a` that `product` expands at a time: a temporary of m * 16 * n float64


def product(xp: ModuleType, a: Array, b: Array) -> Array:
    """a @ b in float64, for the sizes of the correctness cases.

    NumPy multiplies matrices itself. Elsewhere blocks of k are expanded, so that no BLAS library has to be installed.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    if xp is np:
        return a @ b
    total = xp.zeros((a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], _K_BLOCK):
        part = slice(start, start + _K_BLOCK)
        total += (a[:, part, None] * b[None, part, :]).sum(axis=1)
    return total


def projected_error(xp: ModuleType, a: Array, b: Array, c: Array, allowed: Array, seed: int) -> float:
    """The largest |c r - a (b r)| over `allowed`, one number a row, for vectors r of standard normal numbers.

    Freivalds' method, in O(m k + k n + m n) and float64. If row i of c is off by the vector e, the difference is e . r,
    normal with standard deviation |e|.
    """
    vectors = np.random.default_rng(seed).standard_normal((PROJECTIONS, b.shape[1]))
    ratios = []
    for r in xp.asarray(vectors):
        error = xp.abs(times_vector(c, r) - times_vector(a, times_vector(b, r)))
        ratios.append(float((error / xp.maximum(allowed, np.finfo(np.float64).tiny)).max()))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def times_vector(matrix: Array, vector: Array) -> Array:
    """matrix @ vector for a vector of float64, computed in float64."""
    return (matrix * vector).sum(axis=1)


def squares(xp: ModuleType, matrix: Array) -> Array:
    """The square of the 2-norm of each row, in float64."""
    return xp.square(matrix.astype(np.float64)).sum(axis=1)
