"""axpy: out = alpha * x + y over vectors of float32."""

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
SMALLEST = 2.0**-126  # below this, float32's normal range, inputs and results may be flushed to zero
SECTOR = 32  # bytes
CHUNK = 1 << 23  # elements that a timed output is checked by: the float64 temporaries stay small
EXTREMES = (  # x and y where float32 ends; alpha is at most 2^8, so that no result overflows
    (0.0, -1.5),
    (-0.0, 2.0**127),
    (2.0**118, -(2.0**118)),
    (-(2.0**118), 1.0),
    (2.0**-130, 2.0**-130),  # subnormal, as is the result
    (-(2.0**-130), 0.0),
    (1.0, 2.0**-140),
    (3.0, -0.0),
)


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """alpha * x + y in float64: the product of two float32 is exact there, the sum is off by 2^-53 of itself."""
    return {"out": values["alpha"] * values["x"].astype(np.float64) + values["y"].astype(np.float64)}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What two correctly rounded float32 operations may be off by, per element.

    fl(fl(alpha x) + y) = (alpha x (1 + d1) + y)(1 + d2) with |d1|, |d2| <= u (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd ed., eq. 2.4), so the error is at most u |alpha x| (1 + u) + u |alpha x + y|. A fused
    multiply-add rounds once and needs only the second term; both ways pass. alpha itself is a float32. A compiler may
    be told to take numbers below the normal range for zero: x, the product, y or the result.
    """
    product = xp.abs(values["alpha"] * values["x"].astype(np.float64))
    result = xp.abs(expected(xp, values)["out"])
    return {"out": UNIT * (product * (1 + 2 * UNIT) + result) + SMALLEST * (3 + abs(values["alpha"]))}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest error over its bound, of every element of a timed output, a chunk at a time."""
    out, ratios = outputs["out"], []
    for start in range(0, out.size, CHUNK):
        part = slice(start, start + CHUNK)
        chunk = {"alpha": values["alpha"], "x": values["x"][part], "y": values["y"][part]}
        error = xp.abs(out[part].astype(np.float64) - expected(xp, chunk)["out"])
        ratios.append(float((error / bound(xp, chunk)["out"]).max()))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Put signed zeros, subnormal and very large numbers at drawn places, unless the numbers are whole."""
    x, y = values["x"], values["y"]
    if family is Family.INTEGERS:
        return
    for i, (of_x, of_y) in zip(draw.sample(range(x.size), min(x.size // 2, len(EXTREMES))), EXTREMES, strict=False):
        put(x, i, of_x)
        put(y, i, of_y)


def sectors(arrays: int, dimensions: Dimensions) -> int:
    """32-byte sectors of `arrays` whole vectors of n float32."""
    return arrays * -(-4 * dimensions["n"] // SECTOR)


TASK = Task(
    function="axpy",
    arguments=(
        ScalarSpec("alpha", "float32"),
        ArraySpec("x", "float32", ("n",), Role.INPUT),
        ArraySpec("y", "float32", ("n",), Role.INPUT),
        ArraySpec("out", "float32", ("n",), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"n": 1}, Family.INTEGERS),
        # Three beyond a multiple of four: who takes them for four goes outside for every seed
        Case("less than a warp", {"n": 7}, Family.NORMAL, every(n=range(7, 32, 4))),
        Case("a multiple of every block", {"n": 4096}, Family.INTEGERS, every(n=multiples(4096, 4096, 20480))),
        Case("ragged", {"n": 1025}, Family.NORMAL, every(n=range(1025, 9218, 1024))),
        Case("prime", {"n": 100_003}, Family.NORMAL, every(n=primes(99_000, 101_000))),
        Case("other magnitudes", {"n": 33_333}, Family.WIDE, every(n=odd(33_001, 33_999)), hidden=True),
        Case("one short of a block", {"n": 65_535}, Family.INTEGERS, every(n=range(57_343, 73_728, 1024)), hidden=True),
        Case(
            "many blocks",
            {"n": 5_000_011},
            Family.NORMAL,
            every(n=odd(4_900_001, 5_099_999)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"n": 1 << 18}, Family.NORMAL, every(n=multiples(1024, 253_952, 270_336))),
    timing=Case("timing", {"n": 1 << 26}, Family.NORMAL, every(n=multiples(1024, 65_011_712, 69_206_016))),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    flops=lambda d: 2.0 * d["n"],
    bytes_moved=lambda d: 12.0 * d["n"],
    compute_ceiling=Ceiling.FP32_FMA,
    budgets=(
        Budget(
            "global_read_sectors",
            lambda d: sectors(2, d),
            "Every sector of x and y is needed once: let the lanes of a warp read neighbours, and all only once.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: sectors(1, d),
            "Every sector of out is written once: let the lanes of a warp write neighbours, and all only once.",
        ),
    ),
)
