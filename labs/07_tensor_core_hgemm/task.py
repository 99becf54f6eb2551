"""hgemm: c = a @ b with float16 inputs and result and float32 accumulation, on the tensor cores of one warp each."""

from __future__ import annotations

from autograder.spec.half_products import audit, bound, expected, place, verify
from autograder.spec.products import SECTOR
from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task
from warplab.plan.model import Role

WHOLE_TILES = every(  # of 128 x 256 x 64, and as many multiply-adds as 256 x 256 x 256
    m=(128, 256),
    n=(256, 512),
    k=(256, 512),
    where=lambda d: d["m"] * d["n"] * d["k"] == 1 << 24,
)


def sectors_of_128x128_tiles(dimensions: Dimensions) -> float:
    """Sectors that blocks of 128 x 128 outputs load when they read whole sectors, each of their tiles once."""
    m, n, k = dimensions["m"], dimensions["n"], dimensions["k"]
    return 2 * (m * k * -(-n // 128) + k * n * -(-m // 128)) / SECTOR


def wavefronts_of_warp_tiles(dimensions: Dimensions) -> float:
    """Four wavefronts bring 16 x 16 elements; a warp of 32 x 64 outputs needs six times as many for 16 steps of k."""
    return dimensions["m"] * dimensions["n"] * dimensions["k"] * 6 * 4 / (32 * 64 * 16)


TASK = Task(
    function="hgemm",
    arguments=(
        ArraySpec("a", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("b", "float16", ("k", "n"), Role.INPUT),
        ArraySpec("c", "float16", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"m": 1, "n": 1, "k": 1}, Family.INTEGERS),
        Case("one fragment", {"m": 16, "n": 8, "k": 16}, Family.INTEGERS, points=5),  # a single product
        Case(
            "many blocks",
            {"m": 48, "n": 24, "k": 16},
            Family.INTEGERS,
            every(m=range(33, 64), n=range(17, 40), k=(16,)),
            points=5,
        ),
        Case(
            "steps of k", {"m": 16, "n": 8, "k": 64}, Family.INTEGERS, every(m=(16,), n=(8,), k=range(49, 80)), points=5
        ),
        Case("whole tiles", {"m": 128, "n": 256, "k": 256}, Family.NORMAL, every(m=(128,), n=(256,), k=(256, 320))),
        Case(
            "whole tiles, whole numbers",
            {"m": 128, "n": 512, "k": 320},
            Family.INTEGERS,
            every(m=(128, 256), n=(256, 512), k=(256, 320), where=lambda d: d["m"] * d["n"] == 1 << 16),
        ),
        Case("few steps of k", {"m": 128, "n": 256, "k": 64}, Family.NORMAL, every(m=(128,), n=(256,), k=(64, 128))),
        Case(
            "ragged",
            {"m": 129, "n": 127, "k": 45},
            Family.NORMAL,
            every(m=odd(129, 135), n=odd(121, 127), k=odd(41, 47)),
        ),
        Case("ragged k", {"m": 128, "n": 256, "k": 200}, Family.NORMAL, every(m=(128,), n=(256,), k=(200, 216, 232))),
        Case(
            "prime",
            {"m": 131, "n": 67, "k": 37},
            Family.INTEGERS,
            every(m=primes(127, 140), n=primes(60, 72), k=primes(31, 42)),
            hidden=True,
        ),
        Case(
            "long sums",
            {"m": 33, "n": 130, "k": 515},
            Family.NORMAL,
            every(m=(33, 34, 35), n=range(129, 135), k=odd(509, 521)),
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
            "rows of eight",
            {"m": 140, "n": 264, "k": 328},
            Family.INTEGERS,
            every(m=range(136, 145), n=(264, 272, 280), k=(328, 336, 344)),
            hidden=True,
        ),
        Case(
            "many rows",
            {"m": 1031, "n": 9, "k": 5},
            Family.INTEGERS,
            every(m=odd(1027, 1055), n=(9, 11, 13), k=(5, 7)),
            hidden=True,
        ),
        Case(
            "large and ragged",
            {"m": 1037, "n": 2053, "k": 1031},
            Family.NORMAL,
            every(m=odd(1031, 1041), n=odd(2049, 2059), k=odd(1025, 1039)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"m": 256, "n": 256, "k": 256}, Family.NORMAL, WHOLE_TILES),
    timing=Case(
        "timing",
        {"m": 8192, "n": 8192, "k": 4096},
        Family.NORMAL,
        every(m=(8192,), n=(8192,), k=multiples(64, 3968, 4224)),
    ),
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
    stages_use="tensor_instructions",
    budgets=(
        Budget(
            "tensor_multiply_adds",
            lambda d: d["m"] * d["n"] * d["k"],
            "Every product should be made once: warps whose tiles overlap, or go beyond the end of k, make more.",
        ),
        Budget(
            "global_read_sectors",
            sectors_of_128x128_tiles,
            "Each block should compute 128 x 128 outputs or more and read its strips of a and b once, in whole "
            "sectors: 16 neighbouring float16 of a row.",
        ),
        Budget(
            "shared_read_wavefronts",
            wavefronts_of_warp_tiles,
            "What a warp reads from shared memory should serve 32 x 64 outputs or more, and the rows that ldmatrix "
            "reads at once should begin in different banks.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * 2 * d["m"] * d["n"] / SECTOR,
            "A lane holds two neighbours of a row of c: it should store them at once, as 32 bits.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "The sums lie in local memory, which is off the chip: index local arrays only by constants and by the "
            "variables of short loops with constant bounds, so that they become registers.",
        ),
    ),
)
