"""total: the sum of a vector of float32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
SECTOR = 32  # bytes
DEPTH = 4096  # additions that an element may go through
DEVIATIONS = 8.0
LARGE = 16  # whole numbers that float16 cannot hold, at most
CHUNK = 1 << 23  # elements that are converted to float64 at a time


def _chunks(values: Values) -> Iterator[Array]:
    """The elements of x in float64."""
    x = values["x"]
    for start in range(0, x.size, CHUNK):
        yield x[start : start + CHUNK].astype(np.float64)


def _total(values: Values) -> float:
    return sum(float(part.sum()) for part in _chunks(values))


def _squares(values: Values) -> float:
    return sum(float((part * part).sum()) for part in _chunks(values))


def _allowed(count: int, squares: float) -> float:
    return DEVIATIONS * UNIT * float(np.sqrt(min(count - 1, DEPTH) * squares))


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The sum in float64, whose own error is 2^-29 of what float32 additions may be off by."""
    return {"out": xp.asarray([_total(values)])}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Eight standard deviations of the error of float32 additions, made in any order no more than DEPTH deep.

    An addition whose result is s is off by at most u |s|, u = 2^-24, and errors of different additions behave like
    independent ones (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41,
    2019). The inputs have random signs, so that the square of a partial sum is, on average, the sum of the squares of
    its elements. An element that goes through h additions is part of h partial sums; summed up, the variance of the
    error is at most u^2 h sum x^2, its deviation u sqrt(h) |x|, |x| being the 2-norm. h is at most n - 1, which is one
    thread adding everything.

    The classical bound (n - 1) u sum |x| (ibid., section 4.2) holds for every order and every input, but for 2^27
    numbers it is larger than their sum: it would let anything pass.
    """
    return {"out": xp.asarray([_allowed(values["x"].size, _squares(values))])}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Error over what is allowed, of a timed output."""
    error = abs(float(outputs["out"][0]) - _total(values))
    return error / _allowed(values["x"].size, _squares(values))


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether a sum of whole numbers is exactly right: no partial sum that matters is beyond 2^24."""
    return float(outputs["out"][0]) == _total(values)


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make the ends and drawn elements odd numbers of 12 bits, which float16 cannot hold, where numbers are whole.

    They add up to less than 2^16, so that sums stay exact in float32.
    """
    x = values["x"]
    if family is Family.INTEGERS:
        places = {0, x.size - 1, *draw.sample(range(x.size), min(x.size // 8, LARGE - 2))}
        for i in sorted(places):
            x[i] = draw.choice((-1, 1)) * (2 * draw.randrange(1024, 2048) + 1)


def sectors(dimensions: Dimensions) -> float:
    """32-byte sectors of the vector, and one in 64 more for partial sums."""
    return 4 * dimensions["n"] / SECTOR * (1 + 1 / 64)


TASK = Task(
    function="total",
    arguments=(
        ArraySpec("x", "float32", ("n",), Role.INPUT),
        ArraySpec("out", "float32", (1,), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"n": 1}, Family.INTEGERS),
        Case("two elements", {"n": 2}, Family.NORMAL),
        Case("less than a warp", {"n": 29}, Family.INTEGERS, every(n=odd(17, 31))),
        Case("whole tiles", {"n": 1 << 15}, Family.NORMAL, every(n=multiples(8192, 24_576, 40_960))),
        Case("ragged", {"n": 4097}, Family.INTEGERS, every(n=(4097, 8193, 12_289))),
        Case("prime", {"n": 100_003}, Family.NORMAL, every(n=primes(99_000, 101_000))),
        Case("other magnitudes", {"n": 33_333}, Family.WIDE, every(n=odd(33_001, 33_999)), hidden=True),
        Case("one short of a block", {"n": 65_535}, Family.INTEGERS, every(n=range(57_343, 73_728, 1024)), hidden=True),
        Case("a few more than a warp", {"n": 1061}, Family.INTEGERS, every(n=odd(1057, 1087)), hidden=True),
        Case(
            "many blocks",
            {"n": 4_000_037},
            Family.INTEGERS,
            every(n=odd(3_900_001, 4_099_999)),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "many more blocks",
            {"n": 30_000_001},
            Family.NORMAL,
            every(n=odd(29_900_001, 30_099_999)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"n": 1 << 18}, Family.NORMAL, every(n=multiples(4096, 249_856, 274_432))),
    timing=Case("timing", {"n": 1 << 27}, Family.NORMAL, every(n=multiples(8192, 130_023_424, 138_412_032))),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    audit=audit,
    flops=lambda d: float(d["n"]),
    bytes_moved=lambda d: 4.0 * d["n"],
    compute_ceiling=Ceiling.FP32_FMA,
    reproducible=False,
    budgets=(
        Budget(
            "global_updates",
            lambda d: d["n"] / 1024,
            "Atomic additions to one address wait for each other: let a block of threads agree on its sum first, and "
            "add that.",
        ),
        Budget(
            "global_read_sectors",
            sectors,
            "Every sector of x is needed once: let the lanes of a warp read neighbours, and all only once.",
        ),
        Budget(
            "barriers",
            lambda d: d["n"] / 128,
            "A block that halves its sums in shared memory waits at a barrier for each halving: let warps add up by "
            "shuffles, and give each thread many elements first.",
        ),
        Budget(
            "shared_written_wavefronts",
            lambda d: d["n"] / 256,
            "Sums pass between lanes without shared memory, by shuffles: only one sum a warp has to be stored.",
        ),
    ),
)
