"""dispatch_combine: tokens of two ranks go to the ranks of their experts, and what these make of them comes back.

    out[r, t] = sum over the choices j of weight[r, t, j] * gain[chosen[r, t, j]] * x[r, t]

Both ranks are one launch: its first half of blocks is rank 0, and so is the first half of every array.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.products import UNIT
from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

RANKS = 2
SECTOR = 32  # bytes
SMALLEST = 2.0**-120  # what a product may lose below float32's normal range


def _terms(values: Values) -> list[Array]:
    """Float64 of what each choice adds to out."""
    x, gain = values["x"].astype(np.float64), values["gain"]
    chosen, weight = values["chosen"], values["weight"]
    choices = range(chosen.shape[2])
    return [weight[:, :, j, None].astype(np.float64) * gain[chosen[:, :, j]] * x for j in choices]


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The weighted sums, in float64."""
    return {"out": sum(_terms(values))}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Two roundings of each term and one of each partial sum, in any order: (k + 2) u of the sum of magnitudes."""
    terms = _terms(values)
    return {"out": (len(terms) + 2) * UNIT * sum(xp.abs(term) for term in terms) + SMALLEST}


def crossing(tokens: int, k: int) -> int:
    """Tokens of a rank, of a case that is drawn from the normal distribution, with an expert on the other rank."""
    return tokens - tokens // (4 if k > 1 else 2)


def _routes(family: Family, tokens: int, k: int, local: int, numbers: np.random.Generator) -> np.ndarray:
    """Distinct experts of each token of both ranks, int32 [2, tokens, k].

    NORMAL: of a rank's tokens a quarter has experts of its own rank only, a quarter those of the other rank only, and
    the remainder both; with one choice, a half and a half. INTEGERS: all experts alike. WIDE: rank 1's experts only.
    """
    scores = numbers.random((RANKS, tokens, RANKS * local))  # the lowest are chosen
    first = np.arange(RANKS * local) < local  # rank 0's experts
    if family is Family.WIDE:
        scores[:, :, first] += 2
    elif family is Family.NORMAL:
        staying = tokens - crossing(tokens, k)
        for rank, own in enumerate((first, ~first)):
            order = numbers.permutation(tokens)
            stay, leave, both = np.split(order, [staying, 2 * staying if k > 1 else tokens])
            scores[rank, stay] += 2 * ~own
            scores[rank, leave] += 2 * own
            for side in (own, ~own):  # the best expert of either rank
                best = np.flatnonzero(side)[scores[rank][both][:, side].argmin(axis=1)]
                scores[rank, both, best] -= 2
    chosen = np.argsort(scores, axis=2)[:, :, :k]
    return numbers.permuted(chosen, axis=2).astype(np.int32)


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Draw the routes; where magnitudes vary, one token's row is far larger than others."""
    chosen, experts = values["chosen"], values["gain"].shape[0]
    numbers = np.random.Generator(np.random.PCG64(draw.getrandbits(64)))
    chosen[...] = xp.asarray(_routes(family, chosen.shape[1], chosen.shape[2], experts // RANKS, numbers))
    if family is Family.WIDE:
        values["x"][draw.randrange(RANKS), draw.randrange(chosen.shape[1])] *= np.float32(2.0**10)


def rows(d: Dimensions) -> float:
    """Rows that cross the link: a token once to the other rank if it has an expert there, and a sum once back."""
    return 2.0 * RANKS * crossing(d["tokens"], d["k"])


def row_sectors(d: Dimensions) -> float:
    """Sectors of a row."""
    return 4.0 * d["width"] / SECTOR


def sizes(tokens: Sequence[int], k: int, local: int, width: int) -> Sequence[Dimensions]:
    """A class of sizes that differ in the number of tokens of a rank; `local` experts are on each rank."""
    return every(ranks=(RANKS,), tokens=tokens, k=(k,), experts=(RANKS * local,), width=(width,))


def size(tokens: int, k: int, local: int, width: int) -> Dimensions:
    """One size."""
    return sizes((tokens,), k, local, width)[0]


TASK = Task(
    function="dispatch_combine",
    arguments=(
        ArraySpec("x", "float32", ("ranks", "tokens", "width"), Role.INPUT),
        ArraySpec("chosen", "int32", ("ranks", "tokens", "k"), Role.INPUT),
        ArraySpec("weight", "float32", ("ranks", "tokens", "k"), Role.INPUT),
        ArraySpec("gain", "float32", ("experts", "width"), Role.INPUT),
        ArraySpec("out", "float32", ("ranks", "tokens", "width"), Role.OUTPUT),
    ),
    correctness=(
        Case("a token or two", size(1, 1, 1, 32), Family.NORMAL, sizes((1, 2), 1, 1, 32)),
        Case("less than a tile", size(5, 2, 2, 64), Family.INTEGERS, sizes(odd(3, 7), 2, 2, 64)),
        Case("one choice", size(64, 1, 4, 128), Family.NORMAL, sizes((48, 64, 80), 1, 4, 128)),
        Case("one rank has all", size(45, 2, 8, 96), Family.WIDE, sizes(odd(33, 61), 2, 8, 96)),
        Case("whole tiles", size(128, 4, 8, 128), Family.NORMAL, sizes((96, 128, 160), 4, 8, 128)),
        Case("ragged", size(101, 4, 8, 160), Family.INTEGERS, sizes(primes(97, 127), 4, 8, 160)),
        Case("many tiles", size(701, 2, 4, 64), Family.NORMAL, sizes(odd(651, 749), 2, 4, 64), hidden=True),
        Case("many choices", size(37, 8, 16, 288), Family.WIDE, sizes(primes(29, 47), 8, 16, 288), hidden=True),
        Case("every expert", size(53, 6, 3, 32), Family.INTEGERS, sizes(odd(41, 63), 6, 3, 32), hidden=True),
        Case(
            "a whole batch",
            size(4093, 8, 64, 1024),
            Family.NORMAL,
            sizes(odd(4001, 4095), 8, 64, 1024),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", size(256, 4, 8, 256), Family.NORMAL, sizes(multiples(8, 248, 272), 4, 8, 256)),
    timing=Case("timing", size(4096, 8, 64, 2048), Family.NORMAL, sizes(multiples(32, 4000, 4192), 8, 64, 2048)),
    expected=expected,
    bound=bound,
    place=place,
    flops=lambda d: 3.0 * RANKS * d["tokens"] * d["k"] * d["width"],
    bytes_moved=lambda d: (
        8.0 * RANKS * d["tokens"] * (d["width"] + d["k"]) + 4.0 * (d["experts"] + 2 * rows(d)) * d["width"]
    ),
    compute_ceiling=Ceiling.FP32_FMA,
    copied=("chosen", "weight"),
    budgets=(
        Budget(
            "link_written_sectors",
            lambda d: 1.01 * rows(d) * row_sectors(d),
            "A token goes once to the other rank, however many of its experts are there, and one sum comes back: send "
            "no row twice, let one signal stand for 8 tokens or more, and keep what only your rank needs in your half.",
        ),
        Budget(
            "link_read_sectors",
            lambda d: 0.0,
            "A read over the link waits for a round trip: let the rank that has a row store it into the other rank's "
            "half of an array, and read and wait on your own half only.",
        ),
        Budget(
            "launches",
            lambda d: 1.0,
            "The end of a launch on one GPU does not order what another GPU does: keep all in one launch, and order "
            "the ranks by signals.",
        ),
        Budget(
            "narrow_signals",
            lambda d: 0.0,
            "A fence, signal or atomic of the kernel reaches its own GPU only: use those of system scope.",
        ),
        Budget(
            "global_store_sectors",
            lambda d: 1.05 * (rows(d) + RANKS * d["tokens"]) * row_sectors(d),
            "Rows are written more often than needed: store a row that crosses once, where the other rank reads it, "
            "and `out` once.",
        ),
    ),
)
