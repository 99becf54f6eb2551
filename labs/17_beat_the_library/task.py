"""hgemm: c = a @ b with float16 inputs and result and float32 sums, for shapes of five classes that everybody knows."""

from __future__ import annotations

from math import prod
from types import ModuleType

import numpy as np

from autograder.spec.half_products import audit, bound, place, verify
from autograder.spec.half_products import expected as unrounded
from autograder.spec.products import SECTOR
from autograder.spec.sizes import every, multiples, odd
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

# About 2^24 multiply-adds each, which every kernel has to spread over the SMs in another way.
CLASSES = {
    "long sums": every(m=(64,), n=(64,), k=multiples(64, 3968, 4224)),
    "square": every(m=(256,), n=(256,), k=(248, 256, 264)),
    "wide": every(m=(64,), n=(992, 1024, 1056), k=(256,)),
    "outer product": every(m=(512,), n=(496, 512, 528), k=(64,)),
    "tall": every(m=(992, 1024, 1056), n=(128,), k=(128,)),
}
WORKLOAD = tuple(size for sizes in CLASSES.values() for size in sizes)
# Nanoseconds of the emulator's estimate: an eighth more than the reference takes for the largest of a class.
ESTIMATES = {"long sums": 23_700.0, "square": 13_500.0, "wide": 12_250.0, "outer product": 6_050.0, "tall": 8_100.0}
SMALL, LARGE = 32, 64  # sides of tiles that budgets are made of


def up(number: int, unit: int) -> int:
    """`number`, rounded up to whole units."""
    return -(-number // unit) * unit


def class_of(dimensions: Dimensions) -> str:
    """The class of a shape of the workload."""
    return next(name for name, sizes in CLASSES.items() if dict(dimensions) in sizes)


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """a @ b in float64, whole numbers rounded to float16: long sums of them go beyond 2,048, where float16 has not all
    of them, and they are compared bit by bit."""
    c = unrounded(xp, values)["c"]
    return {"c": xp.where(c == xp.rint(c), c.astype(np.float16).astype(np.float64), c)}


def products_of_tiles(dimensions: Dimensions) -> float:
    """Instructions for 16 x 8 outputs and 16 steps of k each, of tiles of 64 x 64 outputs and 64 steps."""
    return prod(up(dimensions[name], LARGE) for name in "mnk") / (16 * 8 * 16)


def sectors_of_tiles(dimensions: Dimensions) -> float:
    """What blocks of 32 x 32 outputs read when they bring their strips of a and b once, and a quarter more: for the
    sums of a workspace."""
    m, n, k = (dimensions[name] for name in "mnk")
    return 1.25 * 2 * (m * k * up(n, SMALL) + k * n * up(m, SMALL)) / SMALL / SECTOR


def written(dimensions: Dimensions) -> float:
    """c, half a sector at a time, and a workspace of a quarter of the bytes of a and b."""
    m, n, k = (dimensions[name] for name in "mnk")
    return (2 * 2 * m * n + 2 * (m * k + k * n) / 4) / SECTOR


def wavefronts_of_warps(dimensions: Dimensions) -> float:
    """Eight wavefronts bring what a warp of 16 x 16 outputs needs for 16 steps of k, two instructions."""
    return 4 * products_of_tiles(dimensions)


TASK = Task(
    function="hgemm",
    arguments=(
        ArraySpec("a", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("b", "float16", ("k", "n"), Role.INPUT),
        ArraySpec("c", "float16", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        *(Case(name, sizes[len(sizes) // 2], Family.NORMAL, sizes) for name, sizes in CLASSES.items()),
        Case("one fragment", {"m": 16, "n": 8, "k": 16}, Family.INTEGERS),
        Case(
            "long sums, whole numbers",  # of 63 steps of 64: no number of parts, or nearly none, divides them
            {"m": 64, "n": 64, "k": 4000},
            Family.INTEGERS,
            every(m=(64,), n=(64,), k=multiples(8, 3976, 4024)),
        ),
        Case(
            "ragged",
            {"m": 131, "n": 136, "k": 72},
            Family.NORMAL,
            every(m=odd(129, 135), n=multiples(8, 136, 184), k=(72, 88, 104)),
        ),
        Case(
            "few rows",
            {"m": 3, "n": 264, "k": 1032},
            Family.INTEGERS,
            every(m=(3, 5, 7), n=(264, 272), k=(1032, 1048)),
            hidden=True,
        ),
        Case(
            "longer than the class",
            {"m": 40, "n": 72, "k": 5000},
            Family.INTEGERS,
            every(m=range(33, 49), n=multiples(8, 72, 96), k=multiples(8, 4808, 5192)),
            hidden=True,
        ),
        Case(
            "other magnitudes",
            {"m": 64, "n": 72, "k": 24},
            Family.WIDE,
            every(m=(56, 64, 72), n=(72, 80), k=(24, 40)),
            hidden=True,
        ),
        Case(
            "ragged square",
            {"m": 250, "n": 264, "k": 328},
            Family.INTEGERS,
            every(m=range(245, 255), n=(248, 264, 280), k=(328, 344)),
            hidden=True,
        ),
        Case(
            "large",
            {"m": 1037, "n": 2056, "k": 1032},
            Family.NORMAL,
            every(m=odd(1031, 1041), n=multiples(8, 2056, 2088), k=(1032, 1048)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"m": 64, "n": 64, "k": 4096}, Family.NORMAL, WORKLOAD),
    timing=Case("timing", {"m": 64, "n": 64, "k": 4096}, Family.NORMAL, WORKLOAD, like="profile"),
    timed=tuple(CLASSES),
    expected=expected,
    bound=bound,
    verify=verify,
    audit=audit,
    place=place,
    library="matmul",
    flops=lambda d: 2.0 * d["m"] * d["n"] * d["k"],
    bytes_moved=lambda d: 2.0 * (d["m"] * d["k"] + d["k"] * d["n"] + d["m"] * d["n"]),
    compute_ceiling=Ceiling.TENSOR_FP16,
    tensor_share=0.5,
    budgets=(
        Budget(
            "estimated_nanoseconds",
            lambda d: ESTIMATES[class_of(d)],
            "Choose for this shape: tiles so small that many SMs have one, and where there are few outputs and a long "
            "sum, parts of the sum for several blocks.",
        ),
        Budget(
            "tensor_instructions",
            products_of_tiles,
            "Each product should be an mma of 16 x 8 x 16, in tiles that do not reach beyond the edges of c by 64 "
            "outputs or more.",
        ),
        Budget(
            "global_read_sectors",
            sectors_of_tiles,
            "Each block should compute 32 x 32 outputs or more and read its strips of a and b once, in whole sectors: "
            "16 neighbouring float16 of a row.",
        ),
        Budget(
            "shared_read_wavefronts",
            wavefronts_of_warps,
            "What a warp reads from shared memory should serve 16 x 16 outputs or more, and the rows that ldmatrix "
            "reads at once should begin in different banks.",
        ),
        Budget(
            "global_written_sectors",
            written,
            "A lane should store two neighbours of a row at once, and a workspace should not have more than a quarter "
            "of the bytes of a and b: split only sums that are long.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "The sums lie in local memory, which is off the chip: index local arrays only by constants and by the "
            "variables of loops that are unrolled, so that they become registers.",
        ),
    ),
)
