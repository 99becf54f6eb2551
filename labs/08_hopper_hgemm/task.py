"""hgemm: c = a @ b with float16 inputs and result and float32 accumulation, on Hopper's tensor cores."""

from __future__ import annotations

from autograder.half_products import audit, bound, expected, place, verify
from autograder.products import SECTOR
from autograder.task import ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task
from warplab.plan.model import Role


def sectors_of_128x128_tiles(dimensions: Dimensions) -> float:
    """Sectors of a and b that blocks, or clusters that share by multicast, of 128 x 128 outputs bring, once each."""
    m, n, k = dimensions["m"], dimensions["n"], dimensions["k"]
    return 2 * (m * k * -(-n // 128) + k * n * -(-m // 128)) / SECTOR


def products_of_warpgroups(dimensions: Dimensions) -> float:
    """Instructions, one a warp: wgmma of 64 x 128 x 16, four warps each."""
    return 4 * dimensions["m"] * dimensions["n"] * dimensions["k"] / (64 * 128 * 16)


TASK = Task(
    function="hgemm",
    arguments=(
        ArraySpec("a", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("b", "float16", ("k", "n"), Role.INPUT),
        ArraySpec("c", "float16", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case("one tile", {"m": 128, "n": 256, "k": 64}, Family.INTEGERS),
        Case("one row", {"m": 1, "n": 8, "k": 8}, Family.INTEGERS),
        Case("four tiles", {"m": 256, "n": 512, "k": 96}, Family.NORMAL),
        Case("twice round the ring", {"m": 128, "n": 128, "k": 640}, Family.NORMAL),
        Case("ragged", {"m": 129, "n": 328, "k": 136}, Family.NORMAL),
        Case("more tiles than SMs", {"m": 2, "n": 34048, "k": 200}, Family.INTEGERS),
        Case("ragged k", {"m": 70, "n": 264, "k": 200}, Family.INTEGERS, hidden=True),
        Case("long sums", {"m": 37, "n": 264, "k": 1032}, Family.NORMAL, hidden=True),
        Case("other magnitudes", {"m": 9, "n": 24, "k": 16}, Family.WIDE, hidden=True),
        Case("many rows", {"m": 1031, "n": 8, "k": 16}, Family.INTEGERS, hidden=True),
        Case("large and ragged", {"m": 1037, "n": 4104, "k": 1048}, Family.NORMAL, hidden=True, needs_gpu=True),
    ),
    profile=Case("profile", {"m": 256, "n": 256, "k": 192}, Family.NORMAL),
    timing=Case("timing", {"m": 8192, "n": 8192, "k": 4096}, Family.NORMAL),
    expected=expected,
    bound=bound,
    verify=verify,
    audit=audit,
    place=place,
    library="matmul",
    flops=lambda d: 2.0 * d["m"] * d["n"] * d["k"],
    bytes_moved=lambda d: 2.0 * (d["m"] * d["k"] + d["k"] * d["n"] + d["m"] * d["n"]),
    compute_ceiling=Ceiling.TENSOR_FP16,
    budgets=(
        Budget(
            "bulk_load_sectors",
            sectors_of_128x128_tiles,
            "Each block, or cluster with multicast, should make 128 x 128 outputs or more and bring its strips of a "
            "and b once.",
        ),
        Budget(
            "global_load_sectors",
            lambda d: 2 * d["m"] * d["n"] / SECTOR,
            "a and b should come by tensor copies, which cost the threads neither registers nor instructions.",
        ),
        Budget(
            "global_store_sectors",
            lambda d: 2 * 2 * d["m"] * d["n"] / SECTOR,
            "The lanes of a warp should write neighbouring columns of c, two at a time or more.",
        ),
        Budget(
            "tensor_instructions",
            products_of_warpgroups,
            "The products should be those of a warpgroup (wgmma), 64 x 128 outputs or more each: they read what they "
            "need from shared memory once for 64 rows.",
        ),
    ),
)
