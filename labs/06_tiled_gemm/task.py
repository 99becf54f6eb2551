"""tiled_gemm: c = a @ b with float16 inputs, float32 accumulation and a float32 result, on CUDA cores."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import numpy as np

from autograder.spec.freivalds import exact_product
from autograder.spec.products import DEVIATIONS, SECTOR, UNIT, place, product, projected_error, squares, times_vector
from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

WHOLE_TILES = every(  # 4 to 8 tiles of 128 x 128 and as many multiply-adds as 256 x 384 x 128
    m=multiples(128, 128, 1024),
    n=multiples(128, 128, 1024),
    k=(96, 128, 192),
    where=lambda d: d["m"] * d["n"] * d["k"] == 256 * 384 * 128,
)


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """a @ b in float64. Each product of two float16 is exact there, and the sums are off by 2^-53 k of their terms."""
    return {"c": product(xp, values["a"], values["b"])}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What k - 1 additions in float32 may be off by, in whatever order they are made.

    A product of two float16 has at most 22 significant bits, so it is exact in float32 and a fused multiply-add and a
    multiplication followed by an addition agree: only the additions round. A sum of k terms x_l in any order is off by
    at most (k - 1) u sum |x_l|, u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section
    4.2; without terms in u^2: Jeannerod and Rump, Improved error bounds for inner products in floating-point
    arithmetic, SIAM J. Matrix Anal. Appl. 34, 2013). Here that is (k - 1) u (|a| |b|), element by element.

    It is a worst case, and yet far below the error of a sum kept in float16, whose unit roundoff is 2^13 times as
    large: at the sizes of the correctness cases such a sum is out of bounds in thousands of elements.
    """
    k = values["a"].shape[1]
    return {"c": (k - 1) * UNIT * product(xp, xp.abs(values["a"]), xp.abs(values["b"]))}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest projected error of a timed product over what is allowed, by Freivalds' method in O(m k + k n + m n).

    For a vector r of independent standard normal numbers, c r is compared with a (b r), both in float64. If row i of c
    is off by the vector e, their difference is e . r, normal with standard deviation |e|.

    Allowed is 8 u sqrt(k sum_l a_il^2 |b_l|^2), |b_l| being the 2-norm of a row of b. An addition whose result is s is
    off by at most u |s|, and errors of different additions behave like independent ones (Higham and Mary, A new
    approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019). The inputs have random signs, so
    the square of a partial sum is, on average, the sum of the squares of its products; a product is part of k - 1
    partial sums at most, in whatever order they are made, so the variance of an element's error is at most
    u^2 k sum_l a_il^2 b_lj^2. Over the elements of a row that adds up to what is allowed, without the 8. An honest
    row is beyond eight deviations with a probability of 1.3e-15 in one projection, and some row of 4,096 in one of
    eight projections with one of 4e-11.

    A row whose error has a 2-norm of t times what is allowed passes one projection with a probability of at most
    0.8 / t (the density of e . r is at most 0.4 / |e|), all eight with (0.8 / t)^8: below 1e-9 from t = 11 on. Errors
    that all rows share are found from |e| of a third of what is allowed on, as one of m rows only has to exceed it.
    For k = 4,096, sums of 16 products in float16, added up in float32, have an |e| of 18 to 23 times what is allowed,
    sums of 4 products 11 to 14 times, single products rounded to float16 6 to 8 times.
    """
    a, b, c = values["a"], values["b"], outputs["c"]
    k = a.shape[1]
    terms = times_vector(xp.square(a.astype(np.float64)), squares(xp, b))
    allowed = DEVIATIONS * UNIT * xp.sqrt(k * terms)
    return projected_error(xp, a, b, c, allowed, seed)


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether the product of whole numbers is exactly right; a wrong one passes with a probability below 1e-14."""
    return exact_product(xp, values["a"], values["b"], outputs["c"], seed)


def sectors_of_64x64_tiles(dimensions: Dimensions) -> float:
    """Sectors that blocks of 64 x 64 outputs load when they read whole sectors, each of their tiles once."""
    m, n, k = dimensions["m"], dimensions["n"], dimensions["k"]
    return 2 * (m * k * -(-n // 64) + k * n * -(-m // 64)) / SECTOR


def wavefronts_of_register_tiles(dimensions: Dimensions) -> float:
    """One wavefront of shared memory for four warp-wide multiply-adds."""
    return dimensions["m"] * dimensions["n"] * dimensions["k"] / 32 / 4


TASK = Task(
    function="tiled_gemm",
    arguments=(
        ArraySpec("a", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("b", "float16", ("k", "n"), Role.INPUT),
        ArraySpec("c", "float32", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case("one element", {"m": 1, "n": 1, "k": 1}, Family.INTEGERS),
        Case("tiny", {"m": 3, "n": 5, "k": 2}, Family.INTEGERS, every(m=(3, 5), n=(5, 7), k=(2, 3))),
        Case("whole tiles", {"m": 128, "n": 256, "k": 64}, Family.NORMAL, every(m=(128,), n=(256,), k=(48, 64, 80))),
        Case(
            "whole tiles, whole numbers",
            {"m": 256, "n": 128, "k": 32},
            Family.INTEGERS,
            every(m=(256,), n=(128,), k=(16, 32, 48)),
        ),
        Case(
            "ragged",
            {"m": 129, "n": 127, "k": 45},
            Family.NORMAL,
            every(m=odd(129, 135), n=odd(121, 127), k=odd(41, 47)),
        ),
        Case("ragged k", {"m": 128, "n": 128, "k": 52}, Family.NORMAL, every(m=(128,), n=(128,), k=(44, 52, 60))),
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
            {"m": 128, "n": 128, "k": 128},
            Family.WIDE,
            every(m=(128,), n=(128,), k=(112, 128, 144)),
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
            {"m": 515, "n": 389, "k": 1021},
            Family.NORMAL,
            every(m=odd(511, 519), n=odd(385, 393), k=odd(1011, 1031)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"m": 256, "n": 384, "k": 128}, Family.NORMAL, WHOLE_TILES),
    timing=Case(
        "timing",
        {"m": 4096, "n": 4096, "k": 4096},
        Family.NORMAL,
        every(m=(4096,), n=(4096,), k=multiples(64, 3968, 4224)),
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    audit=audit,
    place=place,
    library="matmul",
    flops=lambda d: 2.0 * d["m"] * d["n"] * d["k"],
    bytes_moved=lambda d: 2.0 * d["m"] * d["k"] + 2.0 * d["k"] * d["n"] + 4.0 * d["m"] * d["n"],
    compute_ceiling=Ceiling.FP32_FMA,
    tensor_cores=False,
    budgets=(
        Budget(
            "tensor_instructions",
            lambda d: 0.0,
            "This lab is about CUDA cores: multiply and add in float32.",
        ),
        Budget(
            "global_read_sectors",
            sectors_of_64x64_tiles,
            "Each block should compute 64 x 64 outputs or more and read its strips of a and b once, in whole sectors: "
            "16 neighbouring float16 of a row.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 4 * 4 * d["m"] * d["n"] / SECTOR,
            "The lanes of a warp should write neighbouring columns of c: let the threads run along its rows.",
        ),
        Budget(
            "shared_read_wavefronts",
            wavefronts_of_register_tiles,
            "What a thread reads from shared memory should serve more multiply-adds: let it compute 8 x 8 outputs in "
            "registers, and read its operands as vectors of four.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "The accumulators lie in local memory, which is off the chip: index local arrays only by constants and by "
            "the variables of short loops with constant bounds, so that they become registers.",
        ),
    ),
)
