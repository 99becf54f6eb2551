"""LAB_FUNCTION: out = 2 * x over vectors of float32. An example, to be replaced by what your lab asks for."""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
SMALLEST = 2.0**-126  # below this, float32's normal range, inputs and results may be flushed to zero
SECTOR = 32  # bytes
# Values where float32 ends, none so large that its double overflows.
EXTREMES = (-0.0, 2.0**126, -(2.0**126), 2.0**-130, -(2.0**-130))


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """2 * x in float64. Replace: what each output must be, computed by `xp` (NumPy or CuPy) in float64."""
    return {"out": 2 * values["x"].astype(np.float64)}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What one rounded float32 operation may be off by. Replace: a bound derived from the working precision.

    fl(2 x) = 2 x (1 + d) with |d| <= u (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 2.4), and
    a compiler may be told to take numbers below the normal range for zero: x or the result.
    """
    return {"out": UNIT * xp.abs(expected(xp, values)["out"]) + 3 * SMALLEST}


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Put extreme numbers at drawn places, unless the numbers are whole. Replace: what every grade must try."""
    x = values["x"]
    if family is Family.INTEGERS:
        return
    for i, extreme in zip(draw.sample(range(x.size), min(x.size // 2, len(EXTREMES))), EXTREMES, strict=False):
        x[i] = extreme


def sectors(dimensions: Dimensions) -> int:
    """32-byte sectors of a whole vector of n float32."""
    return -(-4 * dimensions["n"] // SECTOR)


TASK = Task(
    function="LAB_FUNCTION",
    arguments=(
        ArraySpec("x", "float32", ("n",), Role.INPUT),
        ArraySpec("out", "float32", ("n",), Role.OUTPUT),
    ),
    # Tiny, ragged, whole and prime sizes, all three families; a grade draws each size from its class.
    correctness=(
        Case("one element", {"n": 1}, Family.INTEGERS),
        Case("less than a warp", {"n": 7}, Family.NORMAL, every(n=odd(5, 31))),
        Case("a multiple of every block", {"n": 4096}, Family.INTEGERS, every(n=multiples(4096, 4096, 20480))),
        Case("ragged", {"n": 1025}, Family.NORMAL, every(n=range(1025, 9218, 1024))),
        Case("prime", {"n": 10_007}, Family.NORMAL, every(n=primes(9_900, 10_100))),
        Case("other magnitudes", {"n": 3_333}, Family.WIDE, every(n=odd(3_001, 3_999)), hidden=True),
    ),
    profile=Case("profile", {"n": 1 << 16}, Family.NORMAL, every(n=multiples(1024, 63_488, 67_584))),
    # At least 2^27 bytes, more than every cache holds.
    timing=Case("timing", {"n": 1 << 26}, Family.NORMAL, every(n=multiples(1024, 65_011_712, 69_206_016))),
    expected=expected,
    bound=bound,
    place=place,
    flops=lambda d: 1.0 * d["n"],
    bytes_moved=lambda d: 8.0 * d["n"],
    compute_ceiling=Ceiling.FP32_FMA,
    budgets=(
        Budget(
            "global_read_sectors",
            sectors,
            "Every sector of x is needed once: let the lanes of a warp read neighbours, and all only once.",
        ),
        Budget(
            "global_written_sectors",
            sectors,
            "Every sector of out is written once: let the lanes of a warp write neighbours, and all only once.",
        ),
    ),
)
