"""index_shuffle: which k experts each token goes to, and the rows of all tokens in the order of their experts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, ScalarSpec, Task, Values
from warplab.plan.model import Role

SECTOR = 32  # bytes
SIGN = np.int32(-(2**31))  # the bits of -0.0
INFINITY = np.int32(0x7F800000)  # its bits
TAKEN = np.int32(-(2**31))  # below the key of every score
SPECIAL = 12  # rows of a case that are made special, at most


def _keys(xp: ModuleType, scores: Array) -> Array:
    """int32 keys in the order of the scores: NaN as minus infinity, -0.0 as +0.0.

    Positive floats are in the order of their bits; the bits of negative ones, but for the sign, in the opposite one.
    All is asked of the bits: CuPy compares subnormal numbers as if they were zero.
    """
    bits = scores.view(np.int32)
    magnitude = bits & np.int32(0x7FFFFFFF)
    keys = xp.where(bits < 0, -magnitude - np.int32(1), magnitude)
    keys = xp.where(magnitude == 0, np.int32(0), keys)
    return xp.where(magnitude > INFINITY, -INFINITY - np.int32(1), keys)


def _chosen(xp: ModuleType, scores: Array, k: int) -> Array:
    """The k best experts of each token, best first; of equal scores that of the lowest index."""
    keys, tokens = _keys(xp, scores), xp.arange(scores.shape[0])
    chosen = xp.empty((scores.shape[0], k), np.int32)
    for choice in range(k):
        best = keys.argmax(axis=1)  # the first of several
        chosen[:, choice] = best
        keys[tokens, best] = TAKEN
    return chosen


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The chosen experts, and the rows sorted by expert and, within one, by number."""
    experts = values["scores"].shape[1]
    chosen = _chosen(xp, values["scores"], values["k"])
    flat = chosen.reshape(-1).astype(np.int64)
    rows = xp.arange(flat.size, dtype=np.int64)
    order = xp.sort(flat * flat.size + rows) % flat.size  # keys are distinct, so any sort is stable
    position = xp.empty(flat.size, np.int32)
    position[order] = rows
    count = xp.bincount(flat, minlength=experts).astype(np.int32)
    return {
        "chosen": chosen,
        "count": count,
        "first": (xp.cumsum(count) - count).astype(np.int32),
        "order": order.astype(np.int32),
        "position": position.reshape(chosen.shape),
    }


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Nothing is allowed: comparisons do not round, and all else is whole."""
    return {name: xp.zeros(1) for name in ("chosen", "count", "first", "order", "position")}


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Make drawn rows, half of all at most, what a choice must be able to bear; WIDE has a favourite expert besides.

    In this order: NaN where the largest score could be; a row of equal scores but one; signed zeros; an infinity of
    either sign and NaN among the rest; NaN everywhere; fewer finite scores than anybody chooses; subnormal numbers;
    neighbours that only the last of 24 bits tells apart; then the same again. A favourite is the first choice of every
    token whose row is not special; its neighbour is nobody's if there are more experts than choices.
    """
    scores = values["scores"]
    tokens, experts = scores.shape
    if family is Family.WIDE:
        favourite = draw.randrange(experts)
        scores[:, (favourite + 1) % experts] = -np.inf
        scores[:, favourite] = 1024.0
    for kind, row in enumerate(draw.sample(range(tokens), min(tokens // 2, SPECIAL))):
        some, other = draw.sample(range(experts), 2)
        if kind % 8 == 0:
            scores[row, some] = np.nan
        elif kind % 8 == 1:
            scores[row] = 0.5
            scores[row, some] = 0.75
        elif kind % 8 == 2:
            scores.view(np.int32)[row] = SIGN  # by its bits: CuPy fills with zeros of the other sign
            scores[row, some] = 0.0
        elif kind % 8 == 3:
            scores[row, some] = np.inf
            scores[row, other] = -np.inf
            scores[row, (some + 1) % experts] = np.nan
        elif kind % 8 == 4:
            scores[row] = np.nan
        elif kind % 8 == 5:
            scores[row] = -np.inf
            scores[row, some] = -1.0
        elif kind % 8 == 6:
            scores[row] = -(2.0**-140)
            scores[row, some] = 2.0**-149
            scores[row, other] = 2.0**-148
        else:
            scores[row] = 1.0
            scores[row, some] = 1.0 + 2.0**-23
            scores[row, other] = 1.0 + 2.0**-22


def sizes(tokens: Sequence[int], k: int, experts: int) -> Sequence[Dimensions]:
    """A class of sizes that differ in the number of tokens: the other two are a model's."""
    return every(tokens=tokens, k=(k,), experts=(experts,))


def scores_bytes(dimensions: Dimensions) -> float:
    """Bytes of all scores."""
    return 4.0 * dimensions["tokens"] * dimensions["experts"]


def rows_bytes(dimensions: Dimensions) -> float:
    """Bytes of one output that has a number for each row."""
    return 4.0 * dimensions["tokens"] * dimensions["k"]


TASK = Task(
    function="index_shuffle",
    arguments=(
        ScalarSpec("k", "int32"),
        ArraySpec("scores", "float32", ("tokens", "experts"), Role.INPUT),
        ArraySpec("chosen", "int32", ("tokens", "k"), Role.OUTPUT),
        ArraySpec("count", "int32", ("experts",), Role.OUTPUT),
        ArraySpec("first", "int32", ("experts",), Role.OUTPUT),
        ArraySpec("order", "int32", ("tokens*k",), Role.OUTPUT),
        ArraySpec("position", "int32", ("tokens", "k"), Role.OUTPUT),
    ),
    correctness=(
        Case("one choice", {"tokens": 1, "k": 1, "experts": 16}, Family.NORMAL, points=5),  # one row
        Case("one token", {"tokens": 1, "k": 8, "experts": 16}, Family.NORMAL, points=5),  # a row for each expert
        Case("ties", {"tokens": 77, "k": 2, "experts": 32}, Family.INTEGERS, sizes(odd(65, 95), 2, 32), points=10),
        Case("all to one expert", {"tokens": 93, "k": 1, "experts": 16}, Family.WIDE, sizes(odd(81, 127), 1, 16)),
        Case("a favourite", {"tokens": 301, "k": 4, "experts": 128}, Family.WIDE, sizes(odd(257, 381), 4, 128)),
        Case(
            "whole tiles",
            {"tokens": 1536, "k": 4, "experts": 128},
            Family.NORMAL,
            sizes(multiples(128, 1280, 1792), 4, 128),
        ),
        Case("more experts", {"tokens": 149, "k": 8, "experts": 320}, Family.NORMAL, sizes(primes(131, 199), 8, 320)),
        Case(
            "prime and ragged",
            {"tokens": 1301, "k": 4, "experts": 128},
            Family.INTEGERS,
            sizes(primes(1201, 1399), 4, 128),
            hidden=True,
        ),
        Case(
            "short of a warp",
            {"tokens": 29, "k": 8, "experts": 128},
            Family.WIDE,
            sizes(odd(17, 31), 8, 128),
            hidden=True,
        ),
        Case(
            "few experts",
            {"tokens": 1409, "k": 1, "experts": 16},
            Family.INTEGERS,
            sizes(odd(1401, 1499), 1, 16),
            hidden=True,
        ),
        Case(
            "many experts",
            {"tokens": 211, "k": 2, "experts": 320},
            Family.WIDE,
            sizes(odd(201, 239), 2, 320),
            hidden=True,
        ),
        Case(
            "a whole batch",
            {"tokens": 100_003, "k": 8, "experts": 128},
            Family.WIDE,
            sizes(odd(99_001, 100_999), 8, 128),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "a batch of many experts",
            {"tokens": 30_011, "k": 8, "experts": 320},
            Family.INTEGERS,
            sizes(odd(29_001, 30_999), 8, 320),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "a long batch",
            {"tokens": 700_001, "k": 1, "experts": 16},
            Family.NORMAL,
            sizes(odd(690_001, 709_999), 1, 16),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "as what is timed",
            {"tokens": 300_007, "k": 4, "experts": 128},
            Family.INTEGERS,
            sizes(odd(290_001, 309_999), 4, 128),
            hidden=True,
            needs_gpu=True,
        ),
        Case(
            "many tokens a warp",
            {"tokens": 17_003, "k": 8, "experts": 16},
            Family.INTEGERS,
            sizes(odd(17_001, 17_999), 8, 16),
        ),
    ),
    profile=Case(
        "profile",
        {"tokens": 2048, "k": 4, "experts": 128},
        Family.NORMAL,
        sizes(multiples(32, 1888, 2208), 4, 128),
    ),
    timing=Case(
        "timing",
        {"tokens": 1 << 20, "k": 4, "experts": 128},
        Family.NORMAL,
        sizes(multiples(4096, 1_007_616, 1_089_536), 4, 128),
    ),
    expected=expected,
    bound=bound,
    place=place,
    flops=lambda d: float(d["tokens"] * d["experts"]),
    bytes_moved=lambda d: scores_bytes(d) + 3 * rows_bytes(d) + 8.0 * d["experts"],
    compute_ceiling=Ceiling.FP32_FMA,
    stages_use="global_store_sectors",
    budgets=(
        Budget(
            "global_read_sectors",
            lambda d: 1.5 * scores_bytes(d) / SECTOR,
            "The scores of a token are needed once: let the lanes of a warp keep them in registers while they choose, "
            "and count within a block before blocks tell each other.",
        ),
        Budget(
            "global_written_sectors",
            # An element of order may lie alone in its sector; what blocks count besides is little
            lambda d: (4 * rows_bytes(d) + scores_bytes(d) / 32) / SECTOR + d["tokens"] * d["k"],
            "Each row is written once, to chosen, to position and to order: the first two side by side.",
        ),
        Budget(
            "global_updates",
            lambda d: d["tokens"] * d["k"] / 64,
            "Atomic additions of many rows to the count of one expert wait for each other: count in a block first.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "Scores or choices lie in local memory, which is off the chip: index local arrays only by constants and by "
            "the variables of loops with constant bounds, so that they become registers.",
        ),
    ),
)
