"""attention: out = softmax(q k^T / sqrt(d)) v for each head, without a matrix of scores in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.half_products import HALF_SMALLEST, HALF_UNIT
from autograder.spec.products import SECTOR, UNIT, product
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
)
from warplab.plan.model import Role

TILE = 128  # queries of a block, and keys of a tile, that the budgets allow for
HEADS = 4  # in which something is placed, at most
SHIFT = 4096.0  # a score, before it is scaled, whose exponential float32 does not hold, nor that of its negative
ALIKE, NUDGE = 3.0, 0.0625  # two keys with large scores, which float16 does not tell apart
LARGE, SMALL = 16384.0, 0.4375  # a value, and the largest of which float16 loses 16 beside it
EXPANDED = 1 << 24  # products of weights and values that are in memory at a time
SAMPLED = 32  # rows of each head of a timed output that are computed anew


def _rows(xp: ModuleType, values: Values, head: int, rows: Array) -> tuple[Array, Array]:
    """Scaled scores of some queries of a head, in float64 and minus infinity where masked, and |q| |k| scaled alike."""
    q, k = values["q"][head][rows], values["k"][head]
    scale = 1 / math.sqrt(q.shape[1])
    scores = product(xp, q, k.T) * scale
    sizes = product(xp, xp.abs(q), xp.abs(k).T) * scale
    if values["causal"]:
        hidden = xp.arange(k.shape[0])[None, :] > rows[:, None]
        scores, sizes = xp.where(hidden, -np.inf, scores), xp.where(hidden, 0.0, sizes)
    return scores, sizes


def _weighted(xp: ModuleType, powers: Array, v: Array) -> Array:
    """powers @ v in float64, some rows at a time: no library is needed, and every array module adds in one order."""
    v = v.astype(np.float64)
    rows = max(1, EXPANDED // v.size)
    parts = (powers[start : start + rows, :, None] * v for start in range(0, powers.shape[0], rows))
    return xp.concatenate([part.sum(axis=1) for part in parts])


def _answers(xp: ModuleType, values: Values, head: int, rows: Array) -> tuple[Array, Array]:
    """What is expected of some rows of a head, and the error that `bound` allows them."""
    v, (scores, sizes) = values["v"][head], _rows(xp, values, head, rows)
    n, d = v.shape
    powers = xp.exp(scores - scores.max(axis=1, keepdims=True))
    total = powers.sum(axis=1, keepdims=True)
    out = _weighted(xp, powers, v) / total
    magnitude = xp.abs(v.astype(np.float64))
    visible = xp.isfinite(scores).astype(np.float64)
    largest = sizes.max(axis=1, keepdims=True)
    relative = 2 * xp.expm1(((d + 104) * largest + 240) * UNIT) + (2 * n + 16) * UNIT + HALF_UNIT
    tiny = HALF_SMALLEST / 2 * _weighted(xp, visible, magnitude) / total
    sums = relative * _weighted(xp, powers, magnitude) / total + tiny
    return out, HALF_UNIT * (2 * xp.abs(out) + sums) + sums + HALF_SMALLEST / 2


def _all_rows(xp: ModuleType, values: Values) -> Iterator[tuple[Array, Array]]:
    for head in range(values["q"].shape[0]):
        yield _answers(xp, values, head, xp.arange(values["q"].shape[1]))


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """softmax(q k^T / sqrt(d)) v of each head in float64; with `causal` a query sees no key behind its own."""
    return {"out": xp.stack([out for out, _ in _all_rows(xp, values)])}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What float32 sums, weights in float16 and one rounding of the result may be off by.

    Let A be the largest sum |q| |k| / sqrt(d) of a row, u = 2^-24. A score's sum is off by at most (d + 16) u A
    (autograder.spec.half_products); scaling it, the subtraction of the largest and a factor log2(e) move the exponent
    by 8 A u at most, and the exponential is off by 4 u (lab 05). Sums relative to the largest score so far are scaled
    again whenever a larger one comes, each time by a power that is off by (2 A + 6) u. In a random order a larger one
    comes ln n + 0.6 times, 9 times for 4,096 keys: 40 are allowed for, which leaves 30 for joining parts. Together
    ((d + 104) A + 240) u, for the numerator and for the denominator.

    A weight in float16, as tensor cores take it, is off by 2^-11 of itself, or by 2^-25 if that is more; it is 1 at
    most, and the sum of weights no less. Whether they are added up before or after they are rounded moves the quotient
    by another 2^-11. Sums over n keys are off by (n + 16) u. Rounding the result adds 2^-11 of it.
    """
    return {"out": xp.stack([allowed for _, allowed in _all_rows(xp, values)])}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest error over its bound, of SAMPLED rows of each head that the seed draws; infinite if one is not finite.

    All of them miss a share s of the rows with probability (1 - s)^(SAMPLED heads): below 0.2% for half a percent of
    the rows of forty heads.
    """
    out = outputs["out"]
    heads, n, _ = out.shape
    if not bool(xp.isfinite(out).all()):
        return float("inf")
    draw, ratios = np.random.default_rng(seed), []
    for head in range(heads):
        rows = xp.asarray(draw.choice(n, min(n, SAMPLED), replace=False))
        right, allowed = _answers(xp, values, head, rows)
        ratios.append(float((xp.abs(out[head][rows].astype(np.float64) - right) / allowed).max()))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make some queries, keys and values what attention must be able to bear, in a few heads.

    One element of all keys is 1, so that one element of a query shifts all its scores: up until their exponentials
    overflow, and down until all vanish. The other elements of these two queries are 0: their result is a mean. Two
    keys have large scores for a third query, so close that float16 does not tell them apart. And one column of v is
    small but for two large values that take each other back: half-precision sums lose what lies between them.
    """
    q, k, v = values["q"], values["k"], values["v"]
    heads, n, d = q.shape
    for head in draw.sample(range(heads), min(heads, HEADS)):
        if n < 8:
            q[head, draw.randrange(n)] = 0
            continue
        shift, column = draw.sample(range(d), 2)
        first, last = draw.randrange(n // 4), draw.randrange(3 * n // 4, n)
        seeing = range(last if values["causal"] else 0, n)  # queries that see both keys
        rows = draw.sample(seeing, min(len(seeing), 3))
        k[head, first] = ALIKE
        k[head, last] = ALIKE
        k[head, last, column] = ALIKE + NUDGE
        k[head, :, shift] = 1
        v[head, :, column] = SMALL
        v[head, first, column] = LARGE
        v[head, last, column] = -LARGE
        for row, others, by in zip(rows, (ALIKE, 0, 0), (0, -SHIFT, SHIFT), strict=False):
            q[head, row] = others
            q[head, row, shift] = by


def pairs(d: Dimensions) -> float:
    """Pairs of a query and a key that it sees, in all heads."""
    n = d["n"]
    return d["heads"] * (n * (n + 1) / 2 if d["causal"] else float(n * n))


def tiles(d: Dimensions) -> int:
    """Tiles of 128 queries and 128 keys with a pair in them, in all heads."""
    across = -(-d["n"] // TILE)
    return d["heads"] * (across * (across + 1) // 2 if d["causal"] else across * across)


def elements(d: Dimensions) -> int:
    """Elements of q, and of each other array."""
    return d["heads"] * d["n"] * d["d"]


def _case(heads: int, n: int, d: int, causal: int) -> dict[str, int]:
    return {"heads": heads, "n": n, "d": d, "causal": causal}


TASK = Task(
    function="attention",
    arguments=(
        ArraySpec("q", "float16", ("heads", "n", "d"), Role.INPUT),
        ArraySpec("k", "float16", ("heads", "n", "d"), Role.INPUT),
        ArraySpec("v", "float16", ("heads", "n", "d"), Role.INPUT),
        ScalarSpec("causal", "int32"),
        ArraySpec("out", "float16", ("heads", "n", "d"), Role.OUTPUT),
    ),
    correctness=(
        Case("one key", _case(1, 1, 64, 0), Family.NORMAL, every(heads=(1, 2), n=(1,), d=(64,), causal=(0, 1))),
        Case(
            "online",  # a tile of keys at most: stage 1
            _case(2, 64, 64, 0),
            Family.NORMAL,
            every(heads=(2,), n=multiples(16, 48, 64), d=(64,), causal=(0,)),
            points=5,
        ),
        Case(
            "causal",
            _case(2, 128, 64, 1),
            Family.INTEGERS,
            every(heads=(2,), n=(96, 112, 128), d=(64,), causal=(1,)),
            points=5,
        ),
        Case(
            "ragged",
            _case(1, 201, 64, 0),
            Family.NORMAL,
            every(heads=(1,), n=odd(193, 223), d=(64,), causal=(0,)),
            points=5,
        ),
        Case(
            "wide heads", _case(1, 130, 128, 1), Family.NORMAL, every(heads=(1,), n=(130, 140), d=(128,), causal=(1,))
        ),
        Case(
            "long sums", _case(1, 384, 64, 0), Family.NORMAL, every(heads=(1,), n=(368, 384, 400), d=(64,), causal=(0,))
        ),
        Case(
            "ragged and causal",
            _case(2, 157, 64, 1),
            Family.WIDE,
            every(heads=(2,), n=odd(145, 175), d=(64,), causal=(1,)),
        ),
        Case(
            "wide and ragged",
            _case(1, 233, 128, 0),
            Family.INTEGERS,
            every(heads=(1,), n=primes(211, 260), d=(128,), causal=(0,)),
            hidden=True,
        ),
        Case(
            "a key more than a tile",
            _case(2, 129, 64, 1),
            Family.NORMAL,
            every(heads=(2, 3), n=(129, 193), d=(64,), causal=(1,)),
            hidden=True,
        ),
        Case(
            "many heads",
            _case(141, 33, 64, 0),  # more than SMs
            Family.INTEGERS,
            every(heads=odd(137, 149), n=odd(29, 35), d=(64,), causal=(0, 1)),
            hidden=True,
        ),
        Case(
            "large and ragged",
            _case(3, 2021, 128, 1),
            Family.NORMAL,
            every(heads=(3, 5), n=odd(2001, 2079), d=(128,), causal=(0, 1)),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "many tiles",
            _case(7, 1537, 64, 0),
            Family.NORMAL,
            every(heads=(5, 7), n=odd(1537, 1601), d=(64,), causal=(0, 1)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case(
        "profile",
        _case(1, 384, 128, 1),
        Family.NORMAL,
        every(heads=(1,), n=multiples(4, 372, 384), d=(128,), causal=(1,)),
    ),
    timing=Case(
        "timing",
        _case(40, 4096, 128, 1),
        Family.NORMAL,
        every(heads=(40,), n=multiples(64, 4032, 4160), d=(128,), causal=(1,)),
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    flops=lambda d: 4.0 * pairs(d) * d["d"],
    bytes_moved=lambda d: 8.0 * elements(d),
    compute_ceiling=Ceiling.TENSOR_FP16,
    exact_on_integers=False,
    tensor_share=0.5,
    budgets=(
        Budget(
            "global_read_sectors",
            lambda d: (4 * tiles(d) * TILE * d["d"] + 2 * elements(d)) / SECTOR * (1 + 1 / 16),
            "A block of 128 queries should read each tile of k and v that it needs once, and none behind the diagonal.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * 2 * elements(d) / SECTOR,
            "Only the result is written: keep scores and weights in registers, and let lanes store neighbours.",
        ),
        Budget(
            "tensor_multiply_adds",
            lambda d: 2 * tiles(d) * TILE * TILE * d["d"],
            "Skip tiles of keys that the causal mask hides from all 128 queries, and make each product once.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "Sums or scores lie in local memory, which is off the chip: index local arrays only by constants and by "
            "the variables of short loops with constant bounds, so that they become registers.",
        ),
    ),
)
