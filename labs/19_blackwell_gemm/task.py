"""hgemm: c = a @ b.T with float16 inputs and result and float32 accumulation, on Blackwell's tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import ModuleType

from autograder.spec import half_products
from autograder.spec.products import SECTOR
from autograder.spec.sizes import every, multiples, odd
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

TILE = 256  # rows and columns of c that a pair of blocks makes
WHOLE_TILES = every(  # as many multiply-adds as 256 x 256 x 256
    m=(256, 512), n=(256, 512), k=(128, 256), where=lambda d: d["m"] * d["n"] * d["k"] == 256 * 256 * 256
)


def _turned(values: Values) -> Values:
    """The values with b as a product's second factor, k x n: a view, so that what is placed in it is placed in b."""
    return {**values, "b": values["b"].T}


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """a @ b.T in float64, infinite where it is too large for float16."""
    return half_products.expected(xp, _turned(values))


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What float32 sums and one rounding to float16 may be off by: a tcgen05 product cuts its 17 terms below 2^-25 of
    the largest one's power of two, as one of Hopper's does (docs/tensor-numerics.md), and so the bound is the same."""
    return half_products.bound(xp, _turned(values))


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest projected error of a timed product over what is allowed (autograder.spec.half_products)."""
    return half_products.verify(xp, _turned(values), outputs, seed)


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether the product of whole numbers is right, rounded to float16 (autograder.spec.half_products)."""
    return half_products.audit(xp, _turned(values), outputs, seed)


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make some products so large that sums of half precision cannot carry them, and leave some sums a lone term."""
    half_products.place(xp, family, _turned(values), draw)


def sectors_of_pairs(dimensions: Dimensions) -> float:
    """Sectors of a and b that pairs of blocks of 256 x 256 outputs load, each once."""
    m, n, k = dimensions["m"], dimensions["n"], dimensions["k"]
    return 2 * (m * k * -(-n // TILE) + n * k * -(-m // TILE)) / SECTOR


TASK = Task(
    function="hgemm",
    arguments=(
        ArraySpec("a", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("b", "float16", ("n", "k"), Role.INPUT),
        ArraySpec("c", "float16", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case(
            "one product",  # one stage of one tile: nothing else is needed
            {"m": 128, "n": 256, "k": 64},
            Family.INTEGERS,
            every(m=(120, 128), n=(248, 256), k=(56, 64)),
            points=10,
        ),
        Case("one row", {"m": 1, "n": 8, "k": 8}, Family.INTEGERS, every(m=(1,), n=(8, 16), k=(8, 16))),
        Case(
            "round the ring",
            {"m": 128, "n": 256, "k": 640},
            Family.NORMAL,
            every(m=(120, 128), n=(248, 256), k=(632, 640)),
            points=10,
        ),
        Case("four tiles", {"m": 512, "n": 512, "k": 88}, Family.NORMAL, every(m=(512,), n=(512,), k=(72, 80, 88))),
        Case(
            "ragged",
            {"m": 129, "n": 328, "k": 136},
            Family.NORMAL,
            every(m=(129, 131, 133), n=(328, 336), k=(136, 144, 152)),
        ),
        Case(
            "more tiles than SMs",
            {"m": 2, "n": 38_400, "k": 40},
            Family.INTEGERS,
            every(m=(2, 3), n=(38_400, 38_464, 38_528), k=(40, 48)),
        ),
        Case(
            "ragged k",
            {"m": 270, "n": 264, "k": 200},
            Family.INTEGERS,
            every(m=range(266, 276), n=(264, 272), k=(200, 208, 216)),
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
    flops=lambda d: 2.0 * d["m"] * d["n"] * d["k"],
    bytes_moved=lambda d: 2.0 * (d["m"] * d["k"] + d["k"] * d["n"] + d["m"] * d["n"]),
    compute_ceiling=Ceiling.TENSOR_FP16,
    tensor_share=0.5,
    stages_use="tensor_instructions",
    budgets=(
        Budget(
            "bulk_load_sectors",
            sectors_of_pairs,
            "A pair of blocks should make 256 x 256 outputs and load its strips of a and b once, half of them each.",
        ),
        Budget(
            "thread_read_sectors",
            lambda d: 2 * d["m"] * d["n"] / SECTOR,
            "a and b should come by tensor copies, which cost the threads neither registers nor instructions.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * 2 * d["m"] * d["n"] / SECTOR,
            "A lane has a row of sums: let it write eight neighbouring float16 at a time.",
        ),
        Budget(
            "tensor_instructions",
            lambda d: d["m"] * d["n"] * d["k"] / (TILE * TILE * 16),
            "One tcgen05.mma of a pair (cta_group::2) makes 256 x 256 x 16 multiply-adds: nothing larger exists.",
        ),
    ),
)
