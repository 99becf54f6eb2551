"""c = a @ b with float16 inputs and result and sums in float32, on CUDA cores or tensor cores: what is right.

For the tasks of the labs that ask for it: values, the error that is allowed for, and checks of timed products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.freivalds import exact_product
from autograder.spec.products import DEVIATIONS, UNIT, enlarged, lone_terms, product, projected_error, squares
from autograder.spec.task import Array, Family, Values

HALF_UNIT = 2.0**-11  # unit roundoff of float16
HALF_SMALLEST = 2.0**-24  # the distance of float16's subnormal numbers
HALF_OVERFLOW = 65520.0  # from here on rounding to float16 gives infinity
HALF_WHOLE = 2048.0  # whole numbers below are float16 numbers, and nothing else is rounded to them
_STEPS = 16  # of k that are expanded at a time where rows are computed anew


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make some products of whole numbers so large that sums of half precision cannot carry them.

    The result is float16, so each large product is taken back: one in the first quarter of k, its negative in the last.
    Whoever rounds in between to float16 has lost what was added to them. With k below 4 a pair would leave next to
    nothing of the rest, and there is none. Some rows and columns have a lone term.
    """
    k = values["a"].shape[1]
    if family is not Family.INTEGERS or k < 4:
        return
    a, b = values["a"], values["b"]
    quarter = max(1, k // 4)
    pairs = min(quarter, 2)
    first = draw.sample(range(quarter), pairs)
    last = draw.sample(range(k - quarter, k), pairs)
    for p, q, of_a in zip(first, last, (True, False), strict=False):
        enlarged(xp, values, [p], of_a)
        a[:, q] = a[:, p]
        b[q] = -b[p]
    lone_terms(xp, values, {*first, *last}, draw)


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """a @ b in float64, infinite where it is too large for float16."""
    c = product(xp, values["a"], values["b"])
    return {"c": xp.where(xp.abs(c) >= HALF_OVERFLOW, xp.copysign(np.inf, c), c)}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What sums on Hopper's tensor cores, and one rounding to float16, may be off by.

    Products of two float16 are exact. A tensor core adds 16 of them to the accumulator at a time
    (docs/tensor-numerics.md): each of the 17 terms is cut below 2^-25 of the largest one's power of two, and the sum is
    rounded toward zero to 24 bits. With S = sum |a_il b_lj|, which no term and no partial sum exceeds by more than it
    is off, one step is off by at most (17 / 4 + 1) 2^-23 S, and k / 16 steps, rounded up, by at most
    0.66 (k + 15) u S, u = 2^-24. Ordinary float32 additions in any order are off by at most (k - 1) u S (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2). (k + 16) u S holds for both, and leaves a
    third for the sums of parts of k. Rounding the result to float16 adds 2^-11 of it, or half of what lies between two
    subnormal numbers.

    Sums kept in float16 are off by thousands of these where the result is close to zero.

    A sum next to 65,520, from where on it rounds to infinity, may be on either side: infinity counts as the float16
    that it stands for (autograder.worker.compare). One that is beyond by more than the sums' error must be infinite.
    """
    k = values["a"].shape[1]
    sums = (k + 16) * UNIT * product(xp, xp.abs(values["a"]), xp.abs(values["b"]))
    c = xp.abs(product(xp, values["a"], values["b"]))
    allowed = HALF_UNIT * (c + sums) + sums + HALF_SMALLEST / 2
    return {"c": xp.where(c - sums >= HALF_OVERFLOW, HALF_SMALLEST, allowed)}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest projected error of a timed product over what is allowed, by Freivalds' method in O(m k + k n + m n).

    For a vector r of independent standard normal numbers, c r is compared with a (b r), both in float64. If row i of c
    is off by the vector e, their difference is e . r, normal with standard deviation |e|.

    Two parts make an honest |e|. Float32 sums, as in lab 06: at most sqrt(k) u |a_i| |b|_F in the root mean square
    (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019, then
    Cauchy and Schwarz); the cuts of a tensor core pull toward zero, but only by 2^-23 of the sum for 16 products, which
    is less. And the rounding to float16: uniform between neighbours that are at most 2^-10 of the element apart, so at
    most 2^-11 / sqrt(3) of it in the root mean square. Allowed are eight deviations of both together: some row of 8,192
    is beyond that in one of eight projections with a probability of 9e-11.

    A row whose error has a 2-norm of t times what is allowed passes all projections with a probability of at most
    (0.8 / t)^8 (the density of e . r is at most 0.4 / |e|): below 1e-9 from t = 11 on. Errors that all rows share, such
    as those of sums kept in float16, are found from |e| of a third of what is allowed on, as one of m rows only has to
    exceed it.
    """
    a, b, c = values["a"], values["b"], outputs["c"]
    k = a.shape[1]
    sums = np.sqrt(k) * UNIT * xp.sqrt(squares(xp, a) * squares(xp, b).sum())
    allowed = DEVIATIONS * (sums + HALF_UNIT / np.sqrt(3) * xp.sqrt(squares(xp, c)))
    return projected_error(xp, a, b, c, allowed, seed)


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether the product of whole numbers is right, rounded to float16; a wrong one passes with probability 1e-14.

    Whole numbers below 2,048 are exact in float16, while 2,049 becomes 2,048. A row of c that has only such is checked
    exactly by Freivalds' method; the others, of which a product of the timed size has about one in eighty, are computed
    anew and compared bit by bit. A c that has them in more rows than an honest one ever has is wrong.
    """
    a, b, c = values["a"], values["b"], outputs["c"]
    small = (xp.abs(c) < HALF_WHOLE).all(axis=1)  # False for NaN
    large = xp.nonzero(~small)[0]
    if large.size > _most_large_rows(a.shape[0], b.shape[1], a.shape[1]):
        return False
    if large.size:
        again = _product_of_rows(xp, a[large], b).astype(np.float16)
        if not bool((again == c[large]).all()):
            return False
    kept = xp.nonzero(small)[0]
    return exact_product(xp, a[kept], b, c[kept], seed)


def _most_large_rows(m: int, n: int, k: int) -> float:
    """Rows that may hold a sum beyond 2,048: ten times as many as such sums are to be expected, and 16.

    A product of two numbers drawn evenly from -4 to 4 has the variance (20 / 3)^2, and a sum of thousands of them is
    close to normal.
    """
    return 10 * m * n * math.erfc(HALF_WHOLE / (20 / 3 * math.sqrt(2 * k))) + 16


def _product_of_rows(xp: ModuleType, rows: Array, b: Array) -> Array:
    """Sums of whole numbers, exact in float32 as in float64, for a few rows.

    A step of k at a time would be thousands of launches, and all of k at once too much memory.
    """
    total = xp.zeros((rows.shape[0], b.shape[1]), dtype=np.float32)
    for start in range(0, rows.shape[1], _STEPS):
        part = slice(start, start + _STEPS)
        total += (rows[:, part, None].astype(np.float32) * b[None, part].astype(np.float32)).sum(axis=1)
    return total
