"""What the labs of matrix products compute alike: the product itself, and projections of its error."""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.task import Array, Family, Values

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


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make some products of whole numbers so large, of either sign, that sums of half precision cannot carry them.

    For the labs whose result is float32. One or two of k steps and two of every 64 more: the products then add up to
    less than 650 k + 40,000 in magnitude, which is below 2^24 and thus exact in float32 in any order up to k = 25,000.
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
