"""fp8_gemm: x is quantised to e4m3 in blocks of 1 x 128, then y = x @ w.T on Hopper's FP8 tensor cores.

The scales of x are powers of two, as in the OCP MX formats: dividing by them is exact, so that what x8 and x_scale must
hold is one answer and not a choice. Those of w, one for 128 x 128, are any float32 numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import NormalDist
from types import ModuleType

import numpy as np

from autograder.spec import half_products
from autograder.spec.half_products import HALF_OVERFLOW, HALF_SMALLEST, HALF_UNIT
from autograder.spec.products import DEVIATIONS, SECTOR, UNIT, product, projected_error, squares
from autograder.spec.sizes import every
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.hardware.small_floats import E4M3
from warplab.plan.model import Role

ALONE = 8  # rows of w where x is quantised alone: they are zeros, as are the sums of consumers that do not multiply
BLOCK = 128  # elements along k that share a scale
CUT = 2.0**-13  # of the largest term of a step: what wgmma on FP8 drops of each (docs/tensor-numerics.md)
STEP = 32  # products that are added at a time
LARGEST = 448.0  # of e4m3


DECODED = E4M3.values.astype(np.float32)  # by code
# Codes for the numbers that are drawn for w8: 0 to 8 stand for -4 to 4, and 0 to 127 for a bell curve of width 40.
_WHOLE = np.array([0xC8, 0xC4, 0xC0, 0xB8, 0x00, 0x38, 0x40, 0x44, 0x48], np.uint8)
_BELL = np.array(
    [
        int(np.nanargmin(np.abs(DECODED - 40 * NormalDist().inv_cdf((i + 0.5) / 128))))  # the nearest code
        for i in range(128)
    ],
    np.uint8,
)


def sizes(m: tuple[int, ...], n: tuple[int, ...], k: tuple[int, ...]) -> tuple[Dimensions, ...]:
    """A class of sizes, each with the number of blocks along k and of 128 rows of w."""
    return tuple(_whole(d["m"], d["n"], d["k"]) for d in every(m=m, n=n, k=k))


def _whole(m: int, n: int, k: int) -> Dimensions:
    return {"m": m, "n": n, "k": k, "blocks": -(-k // BLOCK), "panels": -(-n // BLOCK)}


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make w8 and its scales of what was drawn, and put into x what a quantiser must get right.

    Whole numbers keep scales of powers of two, so that every sum is exact; long sums have a large product that is taken
    back in the last block. Elsewhere some blocks of x are zeros, hold one number of e4m3's largest times a power of
    two, which just fits, one float16 above it, which does not, or subnormal numbers. One row of x and one of w have no
    negative number: their product grows all the way, and what is cut of it never cancels. Another row of x has one
    number: its products are to be right to the last bits of their scales.
    """
    x, w8, w_scale = values["x"], values["w8"], values["w_scale"]
    table = xp.asarray(_WHOLE if family is Family.INTEGERS else _BELL)
    w8[...] = table[w8]
    if family is Family.INTEGERS:
        # Sums stay below 1,024 in steps of a half, which float16 has, where k is short
        small = x.shape[1] <= 2 * BLOCK
        w_scale[...] = xp.where(w_scale > 1, 2.0, xp.where(w_scale < -1, 0.5, 1.0)) if small else 1.0
        if not small:
            _place_pair(x, w8, draw)
        return
    if w8.shape[0] == ALONE:
        w8[...] = 0
    w_scale[...] = xp.abs(w_scale) * np.float32(2.0**-6) + np.float32(2.0**-8)
    rows, k = x.shape
    growing = draw.randrange(rows)
    x[growing] = xp.abs(x[growing])
    w8[draw.randrange(w8.shape[0])] &= 0x7F
    lone, kept = (growing + 1) % rows, draw.randrange(k)
    x[lone, :kept], x[lone, kept + 1 :], x[lone, kept] = 0, 0, np.float16(0.75)
    zeros, fits, beyond, tiny = ((lone + draw.randrange(1, rows)) % rows for _ in range(4))
    first = BLOCK * draw.randrange(-(-k // BLOCK))
    x[zeros, first : first + BLOCK] = 0
    block = x[tiny, first : first + BLOCK]
    block[...] = xp.where(block > 0, np.float16(2.0**-24), np.float16(-3 * 2.0**-24))
    column = first + draw.randrange(min(BLOCK, k - first))
    x[fits, column] = np.float16(28.0)  # 448 / 16
    x[beyond, column] = np.float16(28.0 + 2.0**-6)


def _place_pair(x: Array, w8: Array, draw: Random) -> None:
    """Add products of 2,688 to 5,760, all multiples of 16, in the first block of k, and their negatives in the last.

    With the other products sums stay below 2^13: what wgmma adds keeps every bit, as does float32. Half precision loses
    that of the odd sums, and the product that is taken back does not bring it again.
    """
    k = x.shape[1]
    p, q = draw.randrange(BLOCK), draw.randrange((k - 1) // BLOCK * BLOCK, k)
    x[:, p] = 16 * (x[:, p] + 11)  # 112 to 240 in e4m3's steps; the scales of these blocks differ from row to row
    x[:, q] = x[:, p]
    w8[:, p] = (w8[:, p] & 0x80) | 0x5C  # 24 of either sign
    w8[:, q] = w8[:, p] ^ 0x80


def quantised(xp: ModuleType, x: Array) -> tuple[Array, Array]:
    """x8 (uint8, of the shape of x) and x_scale (float32, blocks x rows) of float16 x, computed bit by bit.

    The scale of 128 elements of a row is the smallest power of two times which 448 is no less than their largest
    magnitude; 1 if all are zero. Elements over it are rounded to the nearest e4m3 number, ties to even. x is finite.
    """
    rows, k = x.shape
    blocks = -(-k // BLOCK)
    padded = xp.zeros((rows, blocks * BLOCK), dtype=np.float32)
    padded[:, :k] = x
    largest = xp.abs(padded).reshape(rows, blocks, BLOCK).max(axis=2)
    exponent = ((largest.view(np.uint32) + np.uint32(0x1FFFFF)) >> np.uint32(23)) - np.uint32(8)
    exponent = xp.where(largest == 0, np.uint32(127), exponent).astype(np.uint32)
    scale = (exponent << np.uint32(23)).view(np.float32)
    inverse = ((np.uint32(254) - exponent) << np.uint32(23)).view(np.float32)
    scaled = (padded.reshape(rows, blocks, BLOCK) * inverse[:, :, None]).reshape(rows, -1)[:, :k]
    magnitude = xp.ascontiguousarray(xp.abs(scaled))
    bits = magnitude.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFFF) + ((bits >> np.uint32(20)) & np.uint32(1))) >> np.uint32(20)
    normal = rounded.astype(np.int64) - (120 << 3)  # e4m3's bias is 7, float32's 127
    code = xp.where(magnitude < 2.0**-6, xp.rint(magnitude * np.float32(512)).astype(np.int64), normal)
    sign = xp.where(xp.signbit(scaled), 128, 0)
    return (code | sign).astype(np.uint8), xp.ascontiguousarray(scale.T)


def dequantised(xp: ModuleType, values: Values) -> tuple[Array, Array]:
    """What is multiplied, in float64: x as quantised (m x k), and w (n x k)."""
    decoded = xp.asarray(DECODED)
    x8, x_scale = quantised(xp, values["x"])
    k = x8.shape[1]
    x = decoded[x8].astype(np.float64) * xp.repeat(x_scale.T, BLOCK, axis=1)[:, :k]
    w8, w_scale = values["w8"], values["w_scale"]
    wide = xp.repeat(xp.repeat(w_scale, BLOCK, axis=0), BLOCK, axis=1)[: w8.shape[0], :k]
    return x, decoded[w8].astype(np.float64) * wide


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """x8 and x_scale, and y in float64, infinite where it is too large for float16."""
    x8, x_scale = quantised(xp, values["x"])
    x, w = dequantised(xp, values)
    y = product(xp, x, w.T)
    return {"x8": x8, "x_scale": x_scale, "y": xp.where(xp.abs(y) >= HALF_OVERFLOW, xp.copysign(np.inf, y), y)}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """0 for x8 and x_scale. For y, what Hopper's FP8 sums, promoted every 128 of k, may be off by.

    wgmma adds 32 products and the accumulator at a time (docs/tensor-numerics.md): each of the 33 terms loses less than
    2^-13 of the largest one's power of two, and the result as much once more. Neither power exceeds S_b = sum |x w|
    over the block: not by a term, and not by a subnormal element of x, which counts as 2^-6, as every block that is not
    of zeros has an element above 224 and no w that is drawn is below 104 * 2^-8 or zero (whole numbers have no such
    element of x). So the four steps of a block are off by less than 4 * 34 * 2^-13 S_b, 1.7%; the sum over blocks of
    scaled sums in float32 adds one rounding for each product of scales, each scaled sum and each addition. Rounding to
    float16 adds 2^-11 of the result. Where a row of x has one number, there is nothing beside a product of which it
    could be cut: it has eight significant bits.

    That is the worst case, and sums of random signs stay far within it, promoted or not. The growing sums of `place`
    are for those who leave them in the tensor core's accumulator and scale that in between: each step then cuts 33
    terms at 2^-13 of all that has been added up, which is beyond the bound by k = 2,000.
    """
    x, w = dequantised(xp, values)
    total = product(xp, xp.abs(x), xp.abs(w).T)
    blocks = -(-x.shape[1] // BLOCK)
    several = (x != 0).sum(axis=1, keepdims=True) > 1
    sums = (xp.where(several, BLOCK // STEP * (STEP + 2) * CUT, 0.0) + (blocks + 3) * UNIT) * total
    y = xp.abs(product(xp, x, w.T))
    allowed = HALF_UNIT * (y + sums) + sums + HALF_SMALLEST / 2
    zero = xp.zeros(1)
    return {"x8": zero, "x_scale": zero, "y": xp.where(y - sums >= HALF_OVERFLOW, HALF_SMALLEST, allowed)}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest projected error of a timed product over what is allowed, infinite if x is not quantised exactly.

    By Freivalds' method, as in labs 06 to 08. An honest error has three parts, all small beside the product of row i
    with w, whose elements are |x_i| |w_j| / sqrt(k) in the root mean square. Terms are cut below 2^-13 of the largest
    one's power of two: the accumulator over 128 of k stays within three of its own deviations, sqrt(128) products, for
    all but a few of its steps, and the largest of 32 products within twelve deviations of a product, so that a term
    loses at most 34 2^-13 of a product's deviation, half of it or a third in the root mean square, and k + k / 16 of
    them add up as independent errors do, as products have random signs. Rounding to float16 is at most 2^-11 / sqrt(3)
    of an element. Float32 sums are below both. Eight deviations of them together are allowed.

    A timed product whose row is off by more than eleven times that passes with a probability below 1e-9.
    """
    x8, x_scale = quantised(xp, values["x"])
    if not bool((outputs["x8"] == x8).all() and (outputs["x_scale"] == x_scale).all()):
        return float("inf")
    x, w = dequantised(xp, values)
    y, k = outputs["y"], x.shape[1]
    cuts = 34 * CUT / np.sqrt(3) * xp.sqrt(squares(xp, x) * squares(xp, w).sum() / k)
    allowed = DEVIATIONS * xp.sqrt(xp.square(cuts) + xp.square(HALF_UNIT / np.sqrt(3)) * squares(xp, y))
    return projected_error(xp, x, w.T, y, allowed, seed)


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether a timed product of whole numbers is exactly right, as in lab 08. As k is long, w's scales are 1."""
    x8, x_scale = quantised(xp, values["x"])
    if not bool((outputs["x8"] == x8).all() and (outputs["x_scale"] == x_scale).all()):
        return False
    whole = xp.asarray(DECODED)[values["w8"]].T
    return half_products.audit(xp, {"a": values["x"], "b": whole}, {"c": outputs["y"]}, seed)


def products_of_warpgroups(d: Dimensions) -> float:
    """Instructions, one a warp: wgmma of 64 x 128 x 32, four warps each."""
    return 4 * d["m"] * d["n"] * d["k"] / (64 * 128 * 32)


WHOLE_TILES = tuple(
    d for d in sizes(m=(128, 256), n=(128, 256), k=(256, 512, 1024)) if d["m"] * d["n"] * d["k"] == 256**3
)

TASK = Task(
    function="fp8_gemm",
    arguments=(
        ArraySpec("x", "float16", ("m", "k"), Role.INPUT),
        ArraySpec("w8", "uint8", ("n", "k"), Role.INPUT),
        ArraySpec("w_scale", "float32", ("panels", "blocks"), Role.INPUT),
        ArraySpec("x8", "uint8", ("m", "k"), Role.OUTPUT),
        ArraySpec("x_scale", "float32", ("blocks", "m"), Role.OUTPUT),
        ArraySpec("y", "float16", ("m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case("quantise", _whole(8, ALONE, 128), Family.NORMAL, sizes((7, 8, 9), (ALONE,), (128, 256)), points=5),
        Case("scale", _whole(128, 128, 256), Family.INTEGERS, sizes((128,), (128, 256), (256,)), points=5),
        Case("one row", _whole(1, 8, 16), Family.INTEGERS, sizes((1,), (8, 16), (16, 32))),
        Case("promote", _whole(64, 128, 2048), Family.NORMAL, sizes((64,), (128,), (2048, 2176)), points=5),
        Case("ragged", _whole(129, 264, 272), Family.NORMAL, sizes((129, 131), (264, 272), (272, 304))),
        Case("overlap", _whole(128, 128, 1408), Family.INTEGERS, sizes((128,), (128,), (1280, 1408))),
        Case("more tiles than SMs", _whole(2, 17024, 144), Family.INTEGERS, sizes((2, 3), (17024, 17032), (144,))),
        Case(
            "ragged k",
            _whole(70, 136, 208),
            Family.INTEGERS,
            sizes((66, 70, 75), (136, 144), (176, 208, 240)),
            hidden=True,
        ),
        Case(
            "long sums",
            _whole(37, 136, 2064),
            Family.NORMAL,
            sizes((35, 37, 41), (136, 144), (2064, 2096)),
            hidden=True,
        ),
        Case("other magnitudes", _whole(9, 24, 160), Family.WIDE, sizes((7, 9, 11), (24, 40), (160, 176)), hidden=True),
        Case("many rows", _whole(1031, 8, 16), Family.INTEGERS, sizes((1027, 1031), (8, 16), (16, 32)), hidden=True),
        Case(
            "large and ragged",
            _whole(1037, 4104, 2064),
            Family.NORMAL,
            sizes((1031, 1037), (4104, 4136), (2064, 2096)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", _whole(256, 256, 256), Family.NORMAL, WHOLE_TILES),
    timing=Case(
        "timing",
        _whole(8192, 8192, 4096),
        Family.NORMAL,
        sizes((8192,), (8192,), (3968, 4096, 4224)),
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    audit=audit,
    place=place,
    flops=lambda d: 2.0 * d["m"] * d["n"] * d["k"],
    bytes_moved=lambda d: 3.0 * d["m"] * d["k"] + d["n"] * d["k"] + 2.0 * d["m"] * d["n"],
    compute_ceiling=Ceiling.TENSOR_FP8,
    tensor_share=0.5,
    stages_use="global_written_sectors",
    budgets=(
        Budget(
            "bulk_load_sectors",
            lambda d: (d["m"] * d["k"] * -(-d["n"] // 128) + d["k"] * d["n"] * -(-d["m"] // 128)) / SECTOR,
            "Each block, or cluster with multicast, should make 128 x 128 outputs or more and bring its strips of x8 "
            "and w8 once.",
        ),
        Budget(
            "thread_read_sectors",
            lambda d: 3 * d["m"] * d["k"] / SECTOR + d["m"] * d["n"] * d["blocks"] / 256,  # half of x's as slack
            "Threads should read x once, to quantise it, and scales; x8 and w8 come by tensor copies.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * (d["m"] * d["k"] + 4 * d["m"] * d["blocks"] + 2 * d["m"] * d["n"]) / SECTOR,
            "Lanes should write neighbouring bytes of x8, neighbouring rows' scales and neighbouring columns of y.",
        ),
        Budget(
            "tensor_instructions",
            products_of_warpgroups,
            "The products should be those of a warpgroup in e4m3 (wgmma), 64 x 128 outputs or more each.",
        ),
    ),
)
