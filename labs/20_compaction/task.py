"""compact: the elements of a vector that are above a limit, in their order, and how many there are."""

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

SECTOR = 32  # bytes
LOW, HIGH = -1000, 1000  # limits that all numbers drawn are above, or none is
SMALLEST = 2.0**-126  # of float32's normal range
SPECIAL = 16  # elements that are placed, at most
CHUNK = 1 << 24  # elements compared at a time


def _kept(values: Values) -> Array:
    """The mask of elements above the limit. NaN is not."""
    return values["x"] > np.float32(values["limit"])


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The kept elements in order, then what `out` held; and their number."""
    kept = values["x"][_kept(values)]
    out = values["out"].copy()
    out[: kept.size] = kept
    return {"count": xp.asarray([kept.size], dtype=np.int32), "out": out}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Nothing is allowed: elements are copied, and their number is an integer."""
    return {"count": xp.zeros(1), "out": xp.zeros(1)}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """0 if a timed output is right everywhere, infinity if not; CHUNK elements of x at a time."""
    x, out, limit = values["x"], outputs["out"], np.float32(values["limit"])
    done, same = 0, True
    for start in range(0, x.size, CHUNK):
        piece = x[start : start + CHUNK]
        kept = piece[piece > limit]
        same = same and bool((out[done : done + kept.size] == kept).all())
        done += kept.size
    for start in range(done, x.size, CHUNK):
        same = same and bool((out[start : start + CHUNK] == values["out"][start : start + CHUNK]).all())
    return 0.0 if same and int(outputs["count"][0]) == done else float("inf")


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Put the limit itself, its neighbours, zeros of both signs, infinities and NaN at drawn places and at both ends.

    Where the limit keeps all elements or none, only the ends change, and only to what the limit treats alike.
    """
    x, limit = values["x"], float(values["limit"])
    if limit in (LOW, HIGH):
        x[0], x[-1] = draw.choice((-2.5, 2.5)), draw.choice((-3.5, 3.5))
        return
    above, below = (float(np.nextafter(np.float32(limit), np.float32(side))) for side in (9, -9))
    if limit == 0:
        above, below = SMALLEST, -SMALLEST
    special = (limit, above, below, np.nan, np.inf, -np.inf, -0.0, 0.0)
    places = draw.sample(range(x.size), min(x.size // 2, SPECIAL))
    for i, where in enumerate(places):
        put(x, where, special[i % len(special)])
    if x.size > 2:
        put(x, 0, draw.choice((limit, above)))
        put(x, x.size - 1, draw.choice((limit, above)))


def share(dimensions: Dimensions) -> float:
    """The share of elements that are kept: half of a symmetric distribution, but for the extreme limits."""
    return {LOW: 1.0, HIGH: 0.0}.get(dimensions["limit"], 0.5)


def moved(dimensions: Dimensions) -> float:
    """Bytes: each element read once, each kept one written once, and the count."""
    return 4.0 * dimensions["n"] * (1 + share(dimensions)) + 4


TASK = Task(
    function="compact",
    arguments=(
        ArraySpec("x", "float32", ("n",), Role.INPUT),
        ScalarSpec("limit", "int32"),
        ArraySpec("out", "float32", ("n",), Role.INOUT),
        ArraySpec("count", "int32", (1,), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"n": 1, "limit": LOW}, Family.INTEGERS),
        Case("less than a warp", {"n": 29, "limit": 0}, Family.INTEGERS, every(n=odd(17, 31), limit=(0,))),
        Case("one block", {"n": 999, "limit": 0}, Family.NORMAL, every(n=odd(901, 1023), limit=(0,))),
        Case("nothing kept", {"n": 20_001, "limit": HIGH}, Family.NORMAL, every(n=odd(19_001, 20_999), limit=(HIGH,))),
        Case("all kept", {"n": 20_001, "limit": LOW}, Family.WIDE, every(n=odd(19_001, 20_999), limit=(LOW,))),
        Case("whole tiles", {"n": 32_768, "limit": 0}, Family.NORMAL, every(n=(24_576, 32_768, 40_960), limit=(0,))),
        Case("ragged", {"n": 16_385, "limit": 1}, Family.INTEGERS, every(n=(8193, 16_385, 24_577), limit=(-1, 1))),
        Case("prime", {"n": 100_003, "limit": 0}, Family.WIDE, every(n=primes(99_000, 101_000), limit=(0,))),
        Case(
            "few kept", {"n": 40_001, "limit": 2}, Family.NORMAL, every(n=odd(39_001, 40_999), limit=(2,)), hidden=True
        ),
        Case(
            "most kept",
            {"n": 50_001, "limit": -2},
            Family.INTEGERS,
            every(n=odd(49_001, 50_999), limit=(-3, -2)),
            hidden=True,
        ),
        Case(
            "one short of a tile",
            {"n": 65_535, "limit": 0},
            Family.INTEGERS,
            every(n=range(57_343, 73_728, 1024), limit=(0,)),
            hidden=True,
        ),
        Case(
            "many blocks",
            {"n": 4_000_037, "limit": 0},
            Family.INTEGERS,
            every(n=odd(3_900_001, 4_099_999), limit=(0, 1)),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "many more blocks",
            {"n": 30_000_001, "limit": 0},
            Family.NORMAL,
            every(n=odd(29_900_001, 30_099_999), limit=(0,)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case(
        "profile", {"n": 1 << 18, "limit": 0}, Family.NORMAL, every(n=multiples(4096, 249_856, 274_432), limit=(0,))
    ),
    timing=Case(
        "timing",
        {"n": 1 << 27, "limit": 0},
        Family.NORMAL,
        every(n=multiples(8192, 130_023_424, 138_412_032), limit=(0,)),
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    flops=lambda d: float(d["n"]),
    bytes_moved=moved,
    compute_ceiling=Ceiling.FP32_FMA,
    budgets=(
        Budget(
            "global_read_sectors",
            lambda d: 4 * d["n"] / SECTOR * (1 + 1 / 8),
            "Every sector of x is needed once: keep a tile's elements in registers or shared memory until their place "
            "is known, and do not read x a second time.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 4 * d["n"] * share(d) / SECTOR * (1 + 3 / 8),
            "Kept elements lie side by side: bring a tile's together in shared memory, and let the lanes of a warp "
            "store neighbours.",
        ),
        Budget(
            "global_updates",
            lambda d: d["n"] / 512,
            "Atomics on one address wait for each other: count a tile with shuffles first, and take one ticket per "
            "tile.",
        ),
        Budget(
            "barriers",
            lambda d: d["n"] / 8,
            "Warps wait at a barrier for each step of a scan in shared memory: scan with shuffles, and give each "
            "thread several elements.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "A thread's elements lie in local memory, which is off the chip: index local arrays only by constants and "
            "by the variables of loops with constant bounds, so that they become registers.",
        ),
    ),
)
