"""What the labs of matrix products compute alike: the product itself, and projections of its error."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.task import Array, Family, Values

UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
SECTOR = 32  # bytes
PROJECTIONS = 8
DEVIATIONS = 8.0  # of an honest projected error, that are allowed
LONE = 8  # rows of `a`, and columns of `b`, at most, that are zero but for one number
LEAST_DEPTH = 8  # of k for them: below, what few terms are guessed from is all that there is
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


def enlarged(xp: ModuleType, values: Values, large: list[int], of_a: bool) -> None:
    """Enlarge the whole numbers that are multiplied at the steps `large` of k: of one matrix to 1,027 to 1,043, of the
    other to 3 to 19, all odd.

    The former need 11 bits, all that float16 has and more than bfloat16 has. Their products are odd numbers of 12 to 15
    bits, which float16 does not have.
    """
    steps = xp.asarray(large)
    a, b = values["a"], values["b"]
    a[:, steps] = 2 * a[:, steps] + (1035 if of_a else 11)
    b[steps] = 2 * b[steps] + (11 if of_a else 1035)


def lone_terms(xp: ModuleType, values: Values, large: Collection[int], draw: Random) -> None:
    """Leave one product in some rows and in some columns of the result, for those who guess sums from a few terms.

    Of a third of the rows of `a` (m x k), and LONE at most, only one whole number is kept from zero, each row's at
    another drawn step of k that is not one of the steps `large`; of columns of `b` (k x n) likewise. One of the other
    matrix's columns, or rows, is not zero at any of these steps, so that there the result is not either.
    """
    a, b = values["a"], values["b"].T
    k = a.shape[1]
    if k < LEAST_DEPTH:
        return
    free = sorted(set(range(k)) - set(large))
    (row, *rows), (column, *columns) = (
        draw.sample(range(len(x)), 1 + min(len(x) // 3, LONE, len(free))) for x in (a, b)
    )
    for matrix, lone, other, kept in ((a, rows, b, column), (b, columns, a, row)):
        if lone:
            steps = xp.asarray(draw.sample(free, len(lone)))
            matrix[xp.asarray(lone)] = 0
            matrix[xp.asarray(lone), steps] = _not_zero(xp, len(lone), matrix.dtype, draw)
            other[kept, steps] = _not_zero(xp, len(lone), other.dtype, draw)


def _not_zero(xp: ModuleType, count: int, dtype: np.dtype, draw: Random) -> Array:
    """Whole numbers from -4 to 4, as the family INTEGERS has them, but for zero."""
    return xp.asarray([draw.choice((-4, -3, -2, -1, 1, 2, 3, 4)) for _ in range(count)], dtype=dtype)


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make some products of whole numbers so large, of either sign, that sums of half precision cannot carry them.

    For the labs whose result is float32. One or two of k steps and two of every 64 more: the products then add up to
    less than 650 k + 40,000 in magnitude, which is below 2^24 and thus exact in float32 in any order up to k = 25,000.
    Some rows and columns have a lone term.
    """
    if family is not Family.INTEGERS:
        return
    k = values["a"].shape[1]
    large = draw.sample(range(k), min(k, 2 * (1 + k // 64)))
    half = (len(large) + 1) // 2
    for steps, of_a in ((large[:half], True), (large[half:], False)):
        if steps:
            enlarged(xp, values, steps, of_a)
            signs = [draw.choice((-1, 1)) for _ in steps]
            values["b"][xp.asarray(steps)] *= xp.asarray(signs, dtype=values["b"].dtype)[:, None]
    lone_terms(xp, values, large, draw)
