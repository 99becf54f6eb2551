"""hgemm: c = a @ b with float16 inputs and result and float32 accumulation, on Hopper's tensor cores."""

from __future__ import annotations

from autograder.spec.half_products import audit, bound, expected, place, verify
from autograder.spec.products import SECTOR
from autograder.spec.sizes import every, multiples, odd
from autograder.spec.task import ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task
from warplab.plan.model import Role

WHOLE_TILES = every(  # of 128 x 256 x 64, and as many multiply-adds as 256 x 256 x 192
    m=(128, 256, 384),
    n=(256, 512, 768),
    k=(192, 384),  # three steps of 64 or more, so that products which wait for each other are told from those ahead
    where=lambda d: d["m"] * d["n"] * d["k"] == 256 * 256 * 192,
)


def sectors_of_128x128_tiles(dimensions: Dimensions) -> float:
    """Sectors of a and b that blocks, or clusters that share by multicast, of 128 x 128 outputs bring, once each."""
    m, n, k = dimensions["m"], dimensions["n"], dimensions["k"]
    return 2 * (m * k * -(-n // 128) + k * n * -(-m // 128)) / SECTOR


def products_of_warpgroups(dimensions: Dimensions) -> float:
    """Instructions, one a warp: wgmma of 64 x 128 x 16, four warps each."""
    return 4 * dimensions["m"] * dimensions["n"] * dimensions["k"] / (64 * 128 * 16)


def drained_once_a_tile(dimensions: Dimensions) -> float:
    """Waits for all products, one a warp: once for each 64 x 128 outputs, of four warps, or for larger tiles."""
    return 4 * dimensions["m"] * dimensions["n"] / (64 * 128)


TASK = Task(
    function="hgemm",
    arguments=(
        ArraySpec("a", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("b", "float16", ("k", "n"), Role.INPUT),
        ArraySpec("c", "float16", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case(
            "descriptors",  # one stage of one tile: nothing else is needed
            {"m": 128, "n": 256, "k": 64},
            Family.INTEGERS,
            every(m=(120, 128), n=(248, 256), k=(56, 64)),
            points=5,
        ),
        Case("one row", {"m": 1, "n": 8, "k": 8}, Family.INTEGERS, every(m=(1,), n=(8, 16), k=(8, 16))),
        Case(
            "order of tiles",  # a tile for each block, and a stage for each tile
            {"m": 1152, "n": 512, "k": 32},
            Family.INTEGERS,
            every(m=(1100, 1152), n=(512, 520), k=(24, 32)),
            points=5,
        ),
        Case("four tiles", {"m": 256, "n": 512, "k": 96}, Family.NORMAL, every(m=(256,), n=(512,), k=(88, 96, 104))),
        Case(
            "twice round the ring",
            {"m": 128, "n": 128, "k": 640},
            Family.NORMAL,
            every(m=(128,), n=(128,), k=(640, 704)),
            points=10,
        ),
        Case(
            "ragged",
            {"m": 129, "n": 328, "k": 136},
            Family.NORMAL,
            every(m=(129, 131, 133), n=(328, 336), k=(136, 144, 152)),
        ),
        Case(
            "more tiles than SMs",
            {"m": 2, "n": 34048, "k": 200},
            Family.INTEGERS,
            every(m=(2, 3), n=(34_048, 34_112, 34_176), k=(200,)),
        ),
        Case(
            "ragged k",
            {"m": 70, "n": 264, "k": 200},
            Family.INTEGERS,
            every(m=range(66, 76), n=(264, 272), k=(200, 208, 216)),
            hidden=True,
        ),
        Case(
            "long sums",
            {"m": 37, "n": 264, "k": 1032},
            Family.NORMAL,
            every(m=odd(35, 45), n=(264, 272), k=(1032, 1040, 1048)),
            hidden=True,
        ),
        Case(
            "other magnitudes",
            {"m": 9, "n": 24, "k": 16},
            Family.WIDE,
            every(m=(7, 9, 11), n=(24, 40), k=(16, 24)),
            hidden=True,
        ),
        Case(
            "many rows",
            {"m": 1031, "n": 8, "k": 16},
            Family.INTEGERS,
            every(m=odd(1027, 1055), n=(8, 16), k=(16, 24)),
            hidden=True,
        ),
        Case(
            "large and ragged",
            {"m": 1037, "n": 4104, "k": 1048},
            Family.NORMAL,
            every(m=odd(1031, 1041), n=multiples(8, 4104, 4136), k=(1032, 1040, 1048)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"m": 256, "n": 256, "k": 192}, Family.NORMAL, WHOLE_TILES),
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
    stages_use="warpgroup_read_requests",
    budgets=(
        Budget(
            "bulk_load_sectors",
            sectors_of_128x128_tiles,
            "Each block, or cluster with multicast, should make 128 x 128 outputs or more and bring its strips of a "
            "and b once.",
        ),
        Budget(
            "thread_read_sectors",
            lambda d: 2 * d["m"] * d["n"] / SECTOR,
            "a and b should come by tensor copies, which cost the threads neither registers nor instructions.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * 2 * d["m"] * d["n"] / SECTOR,
            "The lanes of a warp should write neighbouring columns of c, two at a time or more.",
        ),
        Budget(
            "tensor_instructions",
            products_of_warpgroups,
            "The products should be those of a warpgroup (wgmma), 64 x 128 outputs or more each: they read what they "
            "need from shared memory once for 64 rows.",
        ),
        Budget(
            "warpgroup_drains",
            drained_once_a_tile,
            "A warp should wait for all of its products (wgmma.wait_group 0) once a tile, and until then for those of "
            "the stage before, so that the tensor cores have the next ones already.",
        ),
    ),
)
