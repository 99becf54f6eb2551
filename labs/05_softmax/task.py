"""softmax: out = softmax(scale * x) along the rows, over the elements that a mask lets through."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import (
    Array,
    ArraySpec,
    Budget,
    Case,
    Ceiling,
    Dimensions,
    Family,
    ScalarSpec,
    Task,
    Values,
    put,
)
from warplab.plan.model import Role

UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
SMALLEST = 2.0**-125  # results below float32's normal range may be flushed to zero, or their factors
SECTOR = 32  # bytes
LONG = multiples(32, 4000, 4096)  # elements of a row
FAR = 200.0  # a score whose exponential float32 does not hold, nor that of its negative
CHUNK = 1 << 23  # elements that a timed output is checked by: the float64 temporaries stay small


def _scores(xp: ModuleType, values: Values) -> Array:
    """scale * x in float64 (exact: a product of two float32), minus infinity where the mask is 0."""
    scores = values["scale"] * values["x"].astype(np.float64)
    return xp.where(values["mask"] != 0, scores, -np.inf)


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """exp(s - max s) / sum exp(s - max s) in float64; a row whose mask is 0 everywhere is 0."""
    scores = _scores(xp, values)
    largest = scores.max(axis=1, keepdims=True)
    largest = xp.where(xp.isfinite(largest), largest, 0.0)
    powers = xp.exp(scores - largest)
    total = powers.sum(axis=1, keepdims=True)
    return {"out": powers / xp.where(total > 0, total, 1.0)}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What float32 may be off by, relative to each element.

    Let A be the largest |scale x| of the row. Rounding scale x, the largest of them, their difference (at most 2 A) and
    its product with a rounded log2(e), if powers of two are used, moves the exponent by at most 8 A u, u = 2^-24; an
    exponential is off by 2 units in the last place, 4 u (CUDA C++ Programming Guide, mathematical functions).
    A sum kept relative to the largest element so far is scaled again when a larger one comes, each time by another such
    factor: two are allowed for, as when a thread and its block each have a largest. So a power is off by 24 A u + 16 u
    at most, relative to itself, the sum of positive powers by that and (n - 1) u for its additions in any order
    (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2), and the quotient rounds twice.
    Together (48 A + n + 40) u; the exponential of it, because A may be large.
    """
    scores = _scores(xp, values)
    largest = xp.abs(xp.where(xp.isfinite(scores), scores, 0.0)).max(axis=1, keepdims=True)
    relative = xp.expm1((48 * largest + scores.shape[1] + 40) * UNIT)
    return {"out": expected(xp, values)["out"] * relative + SMALLEST}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest error over its bound, of every element of a timed output, a few rows at a time."""
    out, ratios = outputs["out"], []
    rows = max(1, CHUNK // out.shape[1])
    for start in range(0, out.shape[0], rows):
        part = slice(start, start + rows)
        chunk = {"scale": values["scale"], "x": values["x"][part], "mask": values["mask"][part]}
        error = xp.abs(out[part].astype(np.float64) - expected(xp, chunk)["out"])
        ratios.append(float((error / bound(xp, chunk)["out"]).max()))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make drawn rows, half of all at most, what a softmax must be able to bear.

    In this order: all scores so large that their exponentials overflow, and so small that all vanish; the largest score
    masked; everything masked, which gives a row of zeros; everything masked but one; all scores equal; all but one;
    signed zeros.
    """
    x, mask = values["x"], values["mask"]
    m, n = x.shape
    far = FAR / values["scale"]
    for kind, row in enumerate(draw.sample(range(m), min(m // 2, 8))):
        column = draw.randrange(n)
        if kind == 0:
            x[row] = far
            x[row, column] = far * 1.03125
            mask[row, column] = 1
        elif kind == 1:
            x[row] = -far
            x[row, column] = far * -1.03125
            mask[row, column] = 1
        elif kind == 2:
            x[row, column] = far
            mask[row, column] = 0
        elif kind == 3:
            mask[row] = 0
        elif kind == 4:
            mask[row] = 0
            mask[row, column] = draw.randrange(1, 256)
        else:
            put(x, row, (values["scale"], 0.5, -0.0)[kind - 5])
            x[row, column] = (values["scale"], 0.75, 0.0)[kind - 5]


def elements(dimensions: Dimensions) -> int:
    """Elements of x."""
    return dimensions["m"] * dimensions["n"]


TASK = Task(
    function="softmax",
    arguments=(
        ScalarSpec("scale", "float32"),
        ArraySpec("x", "float32", ("m", "n"), Role.INPUT),
        ArraySpec("mask", "uint8", ("m", "n"), Role.INPUT),
        ArraySpec("out", "float32", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"m": 1, "n": 1}, Family.NORMAL),
        Case(
            "rows of one element, some of them masked",
            {"m": 77, "n": 1},
            Family.INTEGERS,
            every(m=range(65, 96), n=(1,)),
        ),
        Case("rows of a warp", {"m": 37, "n": 32}, Family.INTEGERS, every(m=odd(33, 47), n=(32,))),
        Case("whole vectors", {"m": 9, "n": 1024}, Family.NORMAL, every(m=range(7, 12), n=multiples(32, 960, 1024))),
        Case("ragged", {"m": 19, "n": 333}, Family.NORMAL, every(m=odd(15, 23), n=odd(321, 351))),
        Case("long vectors", {"m": 4, "n": 4096}, Family.NORMAL, every(m=(3, 4, 5), n=LONG)),
        Case("prime", {"m": 7, "n": 1031}, Family.WIDE, every(m=(5, 7, 11), n=primes(1025, 1100))),
        Case("short rows", {"m": 1003, "n": 5}, Family.INTEGERS, every(m=odd(1001, 1023), n=(3, 5, 7)), hidden=True),
        Case(
            "ragged and longer", {"m": 3, "n": 4099}, Family.NORMAL, every(m=(2, 3, 4), n=odd(4097, 4159)), hidden=True
        ),
        Case(
            "more than a block holds",
            {"m": 2, "n": 70_004},
            Family.NORMAL,
            every(m=(2,), n=multiples(4, 70_004, 71_004)),
            hidden=True,
        ),
        Case(
            "other magnitudes",
            {"m": 5, "n": 2052},
            Family.WIDE,
            every(m=(3, 4, 5, 6), n=multiples(4, 2052, 2116)),
            hidden=True,
        ),
        Case(
            "long rows",
            {"m": 65, "n": 65_536},
            Family.NORMAL,
            every(m=range(63, 68), n=multiples(4, 65_472, 65_536)),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "many rows",
            {"m": 50_001, "n": 128},
            Family.NORMAL,
            every(m=odd(49_001, 50_999), n=(128,)),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "ragged and long",
            {"m": 33, "n": 20_011},
            Family.NORMAL,
            every(m=odd(31, 35), n=odd(20_001, 20_031)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"m": 32, "n": 4096}, Family.NORMAL, every(m=range(30, 35), n=LONG)),
    timing=Case("timing", {"m": 16384, "n": 4096}, Family.NORMAL, every(m=multiples(64, 16_128, 16_640), n=LONG)),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    flops=lambda d: 5.0 * elements(d),
    bytes_moved=lambda d: 9.0 * elements(d),
    compute_ceiling=Ceiling.FP32_FMA,
    exact_on_integers=False,
    budgets=(
        Budget(
            "global_read_sectors",
            lambda d: 5 * elements(d) / SECTOR,
            "A row is needed for its largest element, for its sum and for the result: read it and its mask once, and "
            "keep it in registers.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 4 * elements(d) / SECTOR,
            "Every sector of out is written once: let the lanes of a warp write neighbours, and only the result.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "The row lies in local memory, which is off the chip: index local arrays only by constants and by the "
            "variables of loops with constant bounds, so that they become registers.",
        ),
    ),
)
