"""transpose: out[j, i] = a[i, j] for a rectangular matrix of float32."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import ModuleType

from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values, put
from warplab.plan.model import Role

SECTOR = 32  # bytes
WHOLE_TILES = every(  # 24 tiles of 64 x 64, or a few more or less
    m=multiples(64, 128, 768), n=multiples(64, 128, 768), where=lambda d: 22 <= d["m"] * d["n"] / 4096 <= 26
)
EXTREMES = (65521.0, -1e-9, 3.4e38, -(2.0**-149), 2.0**-130, -(2.0**127), 16777217.0 * 2, -0.0)


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The transposed matrix: nothing is computed, so float32 is exact."""
    return {"out": xp.ascontiguousarray(values["a"].T)}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Zero: moving a number does not change it."""
    return {"out": xp.zeros((1, 1))}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """0 if every element of a timed output is equal, else infinity."""
    return 0.0 if bool((outputs["out"] == values["a"].T).all()) else float("inf")


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Put numbers from the ends of float32's range, and beyond float16's, at drawn places."""
    a = values["a"].reshape(-1)
    for i, value in zip(draw.sample(range(a.size), min(a.size // 2, len(EXTREMES))), EXTREMES, strict=False):
        put(a, i, value)


def sectors(dimensions: Dimensions) -> int:
    """32-byte sectors of one whole matrix."""
    return -(-4 * dimensions["m"] * dimensions["n"] // SECTOR)


def few_conflicts(dimensions: Dimensions) -> float:
    """A tenth of a conflict for each warp-wide access that moves the matrix through shared memory once."""
    return 0.1 * dimensions["m"] * dimensions["n"] / 32


TASK = Task(
    function="transpose",
    arguments=(
        ArraySpec("a", "float32", ("m", "n"), Role.INPUT),
        ArraySpec("out", "float32", ("n", "m"), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"m": 1, "n": 1}, Family.INTEGERS),
        Case("a row", {"m": 1, "n": 77}, Family.NORMAL, every(m=(1,), n=odd(65, 95))),
        Case("a column", {"m": 77, "n": 1}, Family.NORMAL, every(m=odd(65, 95), n=(1,))),
        Case(
            "whole tiles",
            {"m": 128, "n": 256},
            Family.NORMAL,
            every(m=multiples(64, 64, 192), n=multiples(64, 192, 320)),
        ),
        Case("ragged", {"m": 65, "n": 127}, Family.NORMAL, every(m=odd(65, 95), n=odd(97, 127))),
        Case("prime", {"m": 131, "n": 61}, Family.WIDE, every(m=primes(120, 140), n=primes(53, 73))),
        Case(
            "wide and ragged", {"m": 34, "n": 515}, Family.NORMAL, every(m=range(33, 64), n=odd(513, 543)), hidden=True
        ),
        Case(
            "tall and ragged", {"m": 611, "n": 33}, Family.NORMAL, every(m=odd(601, 639), n=range(33, 64)), hidden=True
        ),
        Case(
            "large and ragged",
            {"m": 3001, "n": 2047},
            Family.NORMAL,
            every(m=odd(2901, 3099), n=odd(2001, 2099)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"m": 256, "n": 384}, Family.NORMAL, WHOLE_TILES),
    timing=Case(
        "timing", {"m": 8192, "n": 8192}, Family.NORMAL, every(m=multiples(64, 8064, 8320), n=multiples(64, 8064, 8320))
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    flops=lambda d: 0.0,
    bytes_moved=lambda d: 8.0 * d["m"] * d["n"],
    compute_ceiling=Ceiling.FP32_FMA,
    budgets=(
        Budget(
            "global_read_sectors",
            sectors,
            "Every sector of a is needed once: let the lanes of a warp read neighbours of one row.",
        ),
        Budget(
            "global_written_sectors",
            sectors,
            "Every sector of out is written once: let the lanes of a warp write neighbours of one row of out, "
            "and turn the tile in shared memory.",
        ),
        Budget(
            "shared_read_conflicts",
            few_conflicts,
            "Lanes that read a column of the tile meet in one bank: make the rows of the tile one element longer.",
        ),
        Budget(
            "shared_written_conflicts",
            few_conflicts,
            "Lanes that write a column of the tile meet in one bank: make the rows of the tile one element longer.",
        ),
    ),
)
