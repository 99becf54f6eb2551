"""grouped_gemm: the products of all experts in one launch; how many rows each of them has, only the device knows.

Rows of an expert lie together, those of expert e from first[e] on. Where the groups follow each other without gaps
(prefill) and where each has room for `most` rows of which few are used (decode), the kernel is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from statistics import NormalDist
from types import ModuleType

import numpy as np

from autograder.spec import half_products
from autograder.spec.half_products import HALF_OVERFLOW, HALF_SMALLEST, HALF_UNIT
from autograder.spec.products import DEVIATIONS, SECTOR, UNIT, product, projected_error, squares
from autograder.spec.sizes import every
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, ScalarSpec, Task, Values
from warplab.hardware.small_floats import E4M3
from warplab.plan.model import Role

BLOCK = 128  # elements along k that share a scale
CUT = 2.0**-13  # of the largest term of a step: what wgmma on FP8 drops of each (docs/tensor-numerics.md)
STEP = 32  # products that are added at a time
SMS, WARPS = 132, 12  # of an H100 or H200; of the reference's blocks
USED = 8  # a buffer with room for every expert's most rows is used to one part in so many

DECODED = E4M3.values.astype(np.float32)  # by code
NAN = 0x7F  # its code
_WHOLE = np.array([0xC8, 0xC4, 0xC0, 0xB8, 0x00, 0x38, 0x40, 0x44, 0x48], np.uint8)  # -4 to 4
_BELL = np.array(
    [int(np.nanargmin(np.abs(DECODED - 40 * NormalDist().inv_cdf((i + 0.5) / 128)))) for i in range(128)], np.uint8
)
_LARGE = np.array([int(np.nanargmin(np.abs(DECODED - 16 * (i + 7)))) for i in range(9)], np.uint8)  # 112 to 240


def sizes(
    most: tuple[int, ...], slots: tuple[int, ...], experts: tuple[int, ...], n: tuple[int, ...], k: tuple[int, ...]
) -> tuple[Dimensions, ...]:
    """A class of sizes. Without `slots` there is room for `most` rows of each expert; without `most`, for all rows."""
    found = []
    for d in every(most=most or (0,), slots=slots or (0,), experts=experts, n=n, k=k):
        rows = d["slots"] or d["most"] * d["experts"]
        found.append(_whole(d["most"] or rows, rows, d["experts"], d["n"], d["k"]))
    return tuple(found)


def contiguous(slots: tuple[int, ...], experts: int, n: tuple[int, ...], k: tuple[int, ...]) -> tuple[Dimensions, ...]:
    """A class of sizes where every row is of some expert."""
    return sizes((), slots, (experts,), n, k)


def masked(most: tuple[int, ...], experts: int, n: tuple[int, ...], k: tuple[int, ...]) -> tuple[Dimensions, ...]:
    """A class of sizes where each expert has room for `most` rows."""
    return sizes(most, (), (experts,), n, k)


def _whole(most: int, slots: int, experts: int, n: int, k: int) -> Dimensions:
    blocks, panels = -(-k // BLOCK), -(-n // BLOCK)
    return {"most": most, "slots": slots, "experts": experts, "n": n, "k": k, "blocks": blocks, "panels": panels}


def busy(experts: int, rows: int) -> int:
    """Experts that have rows: three in four."""
    return min(experts - experts // 4, rows)


def routed(d: Dimensions) -> int:
    """Rows of all experts."""
    return d["slots"] if d["most"] >= d["slots"] else max(d["experts"], d["slots"] // USED)


def _counts(family: Family, most: int, slots: int, experts: int, draw: Random) -> list[int]:
    """Rows of each expert. WIDE: all are one expert's, or one expert has the most that it may have, and another one."""
    counts = [0] * experts
    gaps = most * experts <= slots and most < slots
    if family is Family.WIDE:
        favourite = draw.randrange(experts)
        counts[favourite] = most if gaps else slots
        if gaps:
            counts[(favourite + 1) % experts] = 1
        return counts
    rows = max(experts, slots // USED) if gaps else slots
    chosen = draw.sample(range(experts), busy(experts, rows))
    cuts = [0, *sorted(draw.sample(range(1, rows), len(chosen) - 1)), rows]
    for expert, low, high in zip(chosen, cuts, cuts[1:], strict=False):
        counts[expert] = high - low
    for expert in chosen if gaps else ():  # what one has too many of, others have room for
        for other in chosen:
            moved = max(0, min(counts[expert] - most, most - counts[other]))
            counts[expert] -= moved
            counts[other] += moved
    return counts


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Draw how many rows each expert has, and make codes and scales of what was drawn.

    What belongs to nobody must not matter: codes and scales of such rows are NaN. y keeps numbers in them; the rows of
    experts hold the NaN that all other outputs begin with. Whole numbers keep scales of powers of two, so that every
    sum is exact; long sums have a large product that is taken back in the last block (lab 09). Elsewhere one row of
    each matrix has no negative number: their product grows all the way; and a scale of x and one of w are zero. Another
    row has one number, so that its products are to be right to the last bits of their scales; and where numbers are of
    all magnitudes, most results of the first are too large for float16.
    """
    x8, w8, x_scale, w_scale, y = (values[name] for name in ("x8", "w8", "x_scale", "w_scale", "y"))
    (slots, k), (experts, n) = x8.shape, w8.shape[:2]
    most = values["most"]
    counts = _counts(family, most, slots, experts, draw)
    gaps = most * experts <= slots and most < slots
    firsts, end = [most * e for e in range(experts)], 0
    for expert in [] if gaps else draw.sample(range(experts), experts):  # contiguous groups follow in any order
        firsts[expert] = end
        end += counts[expert]
    values["count"][...] = xp.asarray(np.array(counts, np.int32))
    values["first"][...] = xp.asarray(np.array(firsts, np.int32))
    used = np.zeros(slots, bool)
    for first, count in zip(firsts, counts, strict=True):
        used[first : first + count] = True
    mine, nobody = xp.asarray(np.flatnonzero(used)), xp.asarray(np.flatnonzero(~used))

    whole = family is Family.INTEGERS
    table = xp.asarray(_WHOLE if whole else _BELL)
    w8[...] = table[w8]
    if whole and k > 2 * BLOCK:
        p, q = draw.randrange(BLOCK), draw.randrange((k - 1) // BLOCK * BLOCK, k)
        large = xp.asarray(_LARGE)[x8[:, p]]
        x8[...] = table[x8]
        x8[:, p] = large
        x8[:, q] = large
        w8[:, :, p] = (w8[:, :, p] & 0x80) | 0x5C  # 24 of either sign
        w8[:, :, q] = w8[:, :, p] ^ 0x80
        x_scale[...], w_scale[...] = 1.0, 1.0
    else:
        x8[...] = table[x8]
    if whole and k <= 2 * BLOCK:
        # Sums stay below 1,024 in steps of a half, which float16 has
        x_scale[...] = xp.where(x_scale > 0, 2.0, 1.0)
        w_scale[...] = xp.where(w_scale > 0, 1.0, 0.5)
    if not whole:
        x_scale[...] = xp.abs(x_scale) * np.float32(2.0**-10) + np.float32(2.0**-10)
        w_scale[...] = xp.abs(w_scale) * np.float32(2.0**-6) + np.float32(2.0**-8)
        expert = draw.choice([e for e in range(experts) if counts[e]])
        row = firsts[expert] + draw.randrange(counts[expert])
        x8[row] &= 0x7F
        if counts[expert] > 1:
            lone, kept = firsts[expert] + (row + 1 - firsts[expert]) % counts[expert], draw.randrange(k)
            x8[lone, :kept], x8[lone, kept + 1 :], x8[lone, kept] = 0, 0, 0x38  # 1
        w8[expert, draw.randrange(n)] &= 0x7F
        if family is Family.WIDE:
            x_scale[:, row] *= np.float32(2.0**20)
        x_scale[draw.randrange(x_scale.shape[0]), draw.randrange(slots)] = 0.0
        w_scale[draw.randrange(experts), draw.randrange(w_scale.shape[1]), draw.randrange(w_scale.shape[2])] = 0.0
    x8[nobody] = NAN
    x_scale[:, nobody] = np.nan
    y.view(np.uint16)[mine] = 0xFFFF


def groups(values: Values) -> Iterator[tuple[int, slice]]:
    """Each expert that has rows, and where they are."""
    for expert, (first, count) in enumerate(zip(values["first"].tolist(), values["count"].tolist(), strict=True)):
        if count:
            yield expert, slice(first, first + count)


def dequantised(xp: ModuleType, values: Values, expert: int, rows: slice) -> tuple[Array, Array]:
    """What is multiplied for one expert, in float64: its rows of x (count x k), and its w (n x k)."""
    decoded = xp.asarray(DECODED)
    x8, w8, w_scale = values["x8"][rows], values["w8"][expert], values["w_scale"][expert]
    n, k = w8.shape
    of_x = xp.repeat(values["x_scale"][:, rows].T, BLOCK, axis=1)[:, :k]
    of_w = xp.repeat(xp.repeat(w_scale, BLOCK, axis=0), BLOCK, axis=1)[:n, :k]
    return decoded[x8].astype(np.float64) * of_x, decoded[w8].astype(np.float64) * of_w


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """y in float64, infinite where it is too large for float16; rows of nobody as they were."""
    result = values["y"].astype(np.float64)
    for expert, rows in groups(values):
        x, w = dequantised(xp, values, expert, rows)
        y = product(xp, x, w.T)
        result[rows] = xp.where(xp.abs(y) >= HALF_OVERFLOW, xp.copysign(np.inf, y), y)
    return {"y": result}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What Hopper's FP8 sums, promoted every 128 of k, may be off by, as in lab 09; nothing for rows of nobody.

    wgmma adds 32 products and the accumulator at a time: each of the 33 terms loses less than 2^-13 of the largest
    one's power of two, and the result as much once more. With S = sum |x w| of a block of k, which no term and no
    partial sum exceeds, four steps are off by less than 4 * 34 * 2^-13 S. The sum over blocks of scaled sums in float32
    adds one rounding for each product of scales, each scaled sum and each addition, and float16 adds 2^-11 of it. Of a
    row of x with one number nothing is cut: its products have eight significant bits, and nothing beside them.
    """
    result = xp.zeros(values["y"].shape)
    blocks = -(-values["x8"].shape[1] // BLOCK)
    for expert, rows in groups(values):
        x, w = dequantised(xp, values, expert, rows)
        total = product(xp, xp.abs(x), xp.abs(w).T)
        several = (x != 0).sum(axis=1, keepdims=True) > 1
        sums = (xp.where(several, BLOCK // STEP * (STEP + 2) * CUT, 0.0) + (blocks + 3) * UNIT) * total
        y = xp.abs(product(xp, x, w.T))
        allowed = HALF_UNIT * (y + sums) + sums + HALF_SMALLEST / 2
        result[rows] = xp.where(y - sums >= HALF_OVERFLOW, HALF_SMALLEST, allowed)
    return {"y": result}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest projected error of an expert's timed product over what is allowed; infinite if rows of nobody changed.

    By Freivalds' method, as in lab 09, whose task says why eight deviations are allowed of errors that cut 34 terms of
    a product at 2^-13 in each of k + k / 16 places, and of the rounding to float16.
    """
    if not _untouched(xp, values, outputs):
        return float("inf")
    k, ratios = values["x8"].shape[1], [0.0]
    for expert, rows in groups(values):
        x, w = dequantised(xp, values, expert, rows)
        y = outputs["y"][rows]
        cuts = 34 * CUT / np.sqrt(3) * xp.sqrt(squares(xp, x) * squares(xp, w).sum() / k)
        allowed = DEVIATIONS * xp.sqrt(xp.square(cuts) + xp.square(HALF_UNIT / np.sqrt(3)) * squares(xp, y))
        ratios.append(projected_error(xp, x, w.T, y, allowed, seed))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether every expert's timed product of whole numbers is exactly right. As k is long, all scales are 1."""
    decoded = xp.asarray(DECODED)
    return _untouched(xp, values, outputs) and all(
        half_products.audit(
            xp, {"a": decoded[values["x8"][rows]], "b": decoded[values["w8"][e]].T}, {"c": outputs["y"][rows]}, seed
        )
        for e, rows in groups(values)
    )


def _untouched(xp: ModuleType, values: Values, outputs: Mapping[str, Array]) -> bool:
    nobody = np.ones(len(values["y"]), bool)
    for _, rows in groups(values):
        nobody[rows] = False
    kept = xp.asarray(np.flatnonzero(nobody))
    return bool((outputs["y"].view(np.uint16)[kept] == values["y"].view(np.uint16)[kept]).all())


def row_tiles(d: Dimensions, rows: int) -> float:
    """Tiles of so many rows that the experts' rows can need: one that is not full for each."""
    return routed(d) / rows + busy(d["experts"], routed(d))


def launched_blocks(d: Dimensions) -> int:
    """Blocks that stay: as many as there can be tiles of 128 x 128, of any counts, but one an SM at most."""
    tall = min(d["experts"] * -(-d["most"] // 128), d["slots"] // 128 + d["experts"])
    return min(SMS, tall * d["panels"])


PROFILED = tuple(d for d in masked((256,), 8, (128, 256, 512), (128, 256, 512)) if d["n"] * d["k"] == 256**2)

TASK = Task(
    function="grouped_gemm",
    arguments=(
        ScalarSpec("most", "int32"),
        ArraySpec("x8", "uint8", ("slots", "k"), Role.INPUT),
        ArraySpec("x_scale", "float32", ("blocks", "slots"), Role.INPUT),
        ArraySpec("w8", "uint8", ("experts", "n", "k"), Role.INPUT),
        ArraySpec("w_scale", "float32", ("experts", "panels", "blocks"), Role.INPUT),
        ArraySpec("first", "int32", ("experts",), Role.INPUT),
        ArraySpec("count", "int32", ("experts",), Role.INPUT),
        ArraySpec("y", "float16", ("slots", "n"), Role.INOUT),
    ),
    correctness=(
        Case("one token", _whole(1, 1, 4, 8, 16), Family.INTEGERS),
        Case("a tile each", _whole(40, 160, 4, 128, 128), Family.NORMAL, masked((40, 56), 4, (128,), (128,))),
        Case(
            "ragged groups", _whole(301, 301, 5, 136, 272), Family.INTEGERS, contiguous((293, 301), 5, (136,), (272,))
        ),
        Case("all to one", _whole(261, 261, 6, 136, 144), Family.WIDE, contiguous((261, 267), 6, (136,), (144,))),
        Case("round the ring", _whole(70, 280, 4, 72, 1040), Family.NORMAL, masked((70, 75), 4, (72,), (1040, 1072))),
        Case("one is full", _whole(203, 609, 3, 248, 144), Family.WIDE, masked((199, 203), 3, (248,), (144,))),
        Case(
            "more tiles than SMs", _whole(7, 7, 2, 8584, 144), Family.INTEGERS, contiguous((7, 9), 2, (8584,), (144,))
        ),
        Case(
            "ragged k",
            _whole(150, 150, 3, 136, 304),
            Family.INTEGERS,
            contiguous((146, 150, 157), 3, (136, 144), (304, 336)),
            hidden=True,
        ),
        Case(
            "long sums",
            _whole(70, 280, 4, 72, 2064),
            Family.NORMAL,
            masked((70, 75), 4, (72, 88), (2064, 2096)),
            hidden=True,
        ),
        Case(
            "many experts",
            _whole(24, 888, 37, 24, 48),
            Family.INTEGERS,
            masked((24, 27), 37, (24, 40), (48, 80)),
            hidden=True,
        ),
        Case(
            "many of few rows",
            _whole(90, 90, 40, 24, 160),
            Family.NORMAL,
            contiguous((90, 93, 97), 40, (24, 40), (160,)),
            hidden=True,
        ),
        Case(
            "prefill",
            _whole(3037, 3037, 16, 520, 1040),
            Family.NORMAL,
            contiguous((3031, 3037), 16, (520, 536), (1040, 1072)),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "decode",
            _whole(128, 4096, 32, 520, 2064),
            Family.INTEGERS,
            masked((128, 144), 32, (520,), (2064, 2096)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", _whole(256, 2048, 8, 256, 256), Family.NORMAL, PROFILED),
    timing=Case(
        "timing",
        _whole(8192, 8192, 4, 4096, 4096),
        Family.NORMAL,
        contiguous((8192,), 4, (4096,), (3968, 4096, 4224)),
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    audit=audit,
    place=place,
    flops=lambda d: 2.0 * routed(d) * d["n"] * d["k"],
    bytes_moved=lambda d: (
        routed(d) * (d["k"] + 2.0 * d["n"]) + busy(d["experts"], routed(d)) * d["n"] * d["k"] + 8.0 * d["experts"]
    ),
    compute_ceiling=Ceiling.TENSOR_FP8,
    tensor_share=0.5,
    budgets=(
        Budget(
            "bulk_load_sectors",
            lambda d: d["k"] * (64 * row_tiles(d, 64) * d["panels"] + d["n"] * row_tiles(d, 128)) / SECTOR,
            "A tile of 128 x 128 should bring its strip of w8 once, and of x8 only the halves of 64 rows that its "
            "expert has rows in. Experts without rows need nothing.",
        ),
        Budget(
            "thread_read_sectors",
            lambda d: (
                5 * 4 * row_tiles(d, 64) * d["panels"] * d["blocks"]
                + launched_blocks(d) * WARPS * (2 * d["experts"] + d["panels"])
            ),
            "Threads should read scales, and first and count of every expert once: x8 and w8 come by tensor copies.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * 2 * routed(d) * d["n"] / SECTOR,
            "Rows that no expert has are not to be written; the lanes of a warp should write neighbouring columns.",
        ),
        Budget(
            "tensor_instructions",
            lambda d: 4 * row_tiles(d, 64) * d["panels"] * -(-d["k"] // 32),
            "Products are needed of the 64 rows of a warpgroup only where an expert has one of them: the capacity of a "
            "buffer is no work. They should be those of a warpgroup in e4m3 (wgmma), 64 x 128 outputs each.",
        ),
    ),
)
