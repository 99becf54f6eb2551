"""k_grouped_gemm: dw[e] = dy[tokens of e].T @ x[tokens of e] for every expert, in one launch; the device alone knows
how many tokens each has. Tokens of an expert lie together, in any order of the experts, with rows of nobody between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec import half_products
from autograder.spec.products import SECTOR
from autograder.spec.sizes import every
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

SMS, WARPS = 132, 12  # of an H100 or H200; of the reference's blocks
NOBODY = 8  # one row in so many is nobody's


def busy(experts: int, tokens: int) -> int:
    """Experts that have tokens: three in four."""
    return min(experts - experts // 4, tokens)


def routed(d: Dimensions) -> int:
    """Tokens of all experts."""
    return d["slots"] - d["slots"] // NOBODY


def _counts(family: Family, tokens: int, experts: int, draw: Random) -> list[int]:
    """Tokens of each expert. WIDE: all are one expert's."""
    counts = [0] * experts
    if family is Family.WIDE:
        counts[draw.randrange(experts)] = tokens
        return counts
    chosen = draw.sample(range(experts), busy(experts, tokens))
    cuts = [0, *sorted(draw.sample(range(1, tokens), len(chosen) - 1)), tokens]
    for expert, low, high in zip(chosen, cuts, cuts[1:], strict=False):
        counts[expert] = high - low
    return counts


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Draw how many tokens each expert has and where they lie; rows of nobody are NaN in both matrices.

    Large whole numbers are placed for the two experts with the most tokens (autograder.spec.half_products). Magnitudes
    that are spread wide are made smaller by 2^4 in dy, exactly, so that sums of hundreds fit float16.
    """
    dy, x = values["dy"], values["x"]
    slots, experts = len(dy), len(values["count"])
    counts = _counts(family, slots - slots // NOBODY, experts, draw)
    gaps = sorted(draw.randint(0, slots // NOBODY) for _ in range(experts))  # rows of nobody before each in memory
    firsts, end = [0] * experts, 0
    for gap, expert in zip(gaps, draw.sample(range(experts), experts), strict=True):
        firsts[expert] = end + gap
        end += counts[expert]
    values["count"][...] = xp.asarray(np.array(counts, np.int32))
    values["first"][...] = xp.asarray(np.array(firsts, np.int32))
    nobody = np.ones(slots, bool)
    for first, count in zip(firsts, counts, strict=True):
        nobody[first : first + count] = False
    if family is Family.WIDE:
        dy *= np.float16(2.0**-4)
    for expert in sorted(range(experts), key=lambda e: -counts[e])[:2]:
        rows = slice(firsts[expert], firsts[expert] + counts[expert])
        half_products.place(xp, family, {"a": dy[rows].T, "b": x[rows]}, draw)
    unused = xp.asarray(np.flatnonzero(nobody))
    dy[unused] = np.nan
    x[unused] = np.nan


def groups(values: Values) -> Iterator[tuple[int, dict[str, Array] | None]]:
    """Each expert, and the product that its gradient is; None if it has no token."""
    for expert, (first, count) in enumerate(zip(values["first"].tolist(), values["count"].tolist(), strict=True)):
        rows = slice(first, first + count)
        yield expert, {"a": values["dy"][rows].T, "b": values["x"][rows]} if count else None


def _shape(values: Values) -> tuple[int, int, int]:
    return len(values["count"]), values["dy"].shape[1], values["x"].shape[1]


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """dw in float64, infinite where it is too large for float16; zeros for experts without tokens."""
    result = xp.zeros(_shape(values))
    for expert, factors in groups(values):
        if factors:
            result[expert] = half_products.expected(xp, factors)["c"]
    return {"dw": result}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Of each expert's product, as deep as it has tokens, as in lab 08; nothing where it has none."""
    result = xp.zeros(_shape(values))
    for expert, factors in groups(values):
        if factors:
            result[expert] = half_products.bound(xp, factors)["c"]
    return {"dw": result}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest projected error of a timed product over what is allowed; infinite if zeros are not zeros."""
    ratios = [0.0]
    for expert, factors in groups(values):
        dw = outputs["dw"][expert]
        if factors:
            ratios.append(half_products.verify(xp, factors, {"c": dw}, seed))
        elif not bool((dw == 0).all()):
            return float("inf")
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def audit(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> bool:
    """Whether every expert's timed gradient of whole numbers is exactly right."""
    return all(
        half_products.audit(xp, factors, {"c": outputs["dw"][e]}, seed)
        if factors
        else bool((outputs["dw"][e] == 0).all())
        for e, factors in groups(values)
    )


def panels(d: Dimensions) -> int:
    """Tiles of 128 x 128 of one expert's gradient."""
    return -(-d["m"] // 128) * -(-d["n"] // 128)


def steps(d: Dimensions, tokens: int) -> float:
    """Steps of so many tokens that all experts can need: one that is not full for each."""
    return routed(d) / tokens + busy(d["experts"], routed(d))


def _sizes(slots: int, experts: int, m: int, n: int) -> Dimensions:
    return {"slots": slots, "experts": experts, "m": m, "n": n}


PROFILED = every(
    slots=(384,), experts=(4,), m=(128, 256, 512), n=(128, 256, 512), where=lambda d: d["m"] * d["n"] == 256**2
)

TASK = Task(
    function="k_grouped_gemm",
    arguments=(
        ArraySpec("dy", "float16", ("slots", "m"), Role.INPUT),
        ArraySpec("x", "float16", ("slots", "n"), Role.INPUT),
        ArraySpec("first", "int32", ("experts",), Role.INPUT),
        ArraySpec("count", "int32", ("experts",), Role.INPUT),
        ArraySpec("dw", "float16", ("experts", "m", "n"), Role.OUTPUT),
    ),
    correctness=(
        Case("one token", _sizes(1, 4, 8, 8), Family.INTEGERS, every(slots=(1,), experts=(4,), m=(8, 16), n=(8, 16))),
        Case(
            "a tile each",
            _sizes(80, 4, 128, 128),
            Family.NORMAL,
            every(slots=(75, 80), experts=(4,), m=(120, 128), n=(120, 128)),
        ),
        Case(
            "ragged groups",
            _sizes(301, 5, 136, 264),
            Family.INTEGERS,
            every(slots=(293, 301), experts=(5,), m=(136, 144), n=(264, 272)),
        ),
        Case(
            "all to one",
            _sizes(261, 6, 72, 136),
            Family.WIDE,
            every(slots=(261, 267), experts=(6,), m=(72, 80), n=(136,)),
        ),
        Case(
            "round the ring",
            _sizes(900, 2, 64, 72),
            Family.NORMAL,
            every(slots=(893, 900), experts=(2,), m=(64, 72), n=(72,)),
        ),
        Case(
            "more tiles than SMs",
            _sizes(413, 2, 8584, 8),  # a block takes a tile of each expert, of six steps or more together
            Family.INTEGERS,
            every(slots=(409, 413), experts=(2,), m=(8584,), n=(8,)),
        ),
        Case(
            "many experts",
            _sizes(90, 40, 24, 40),
            Family.NORMAL,
            every(slots=(90, 93, 97), experts=(40,), m=(24, 40), n=(40,)),
            hidden=True,
        ),
        Case(
            "long sums",
            _sizes(1511, 3, 40, 24),
            Family.INTEGERS,
            every(slots=(1503, 1511), experts=(3,), m=(40, 48), n=(24,)),
            hidden=True,
        ),
        Case(
            "large and ragged",
            _sizes(5003, 16, 520, 1048),
            Family.NORMAL,
            every(slots=(4999, 5003), experts=(16,), m=(520, 536), n=(1048,)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", _sizes(384, 4, 256, 256), Family.NORMAL, PROFILED),
    timing=Case(
        "timing",
        _sizes(9216, 4, 4096, 4096),
        Family.NORMAL,
        every(slots=(9216,), experts=(4,), m=(4096,), n=(3968, 4096, 4224)),
    ),
    expected=expected,
    bound=bound,
    verify=verify,
    audit=audit,
    place=place,
    flops=lambda d: 2.0 * routed(d) * d["m"] * d["n"],
    bytes_moved=lambda d: 2.0 * (routed(d) * (d["m"] + d["n"]) + d["experts"] * d["m"] * d["n"]) + 8.0 * d["experts"],
    compute_ceiling=Ceiling.TENSOR_FP16,
    tensor_share=0.5,
    budgets=(
        Budget(
            "bulk_load_sectors",
            lambda d: 2 * 64 * steps(d, 64) * (d["m"] * -(-d["n"] // 128) + d["n"] * -(-d["m"] // 128)) / SECTOR,
            "A tile of 128 x 128 or more should bring its columns of dy and x once, 64 tokens at a time, and nothing "
            "for experts without tokens.",
        ),
        Budget(
            "thread_read_sectors",
            lambda d: min(SMS, d["experts"] * panels(d)) * WARPS * 4 * d["experts"],
            "Threads should read first and count alone: dy and x come by tensor copies.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2 * 2 * d["experts"] * d["m"] * d["n"] / SECTOR,
            "Each gradient is written once; the lanes of a warp should write neighbouring columns.",
        ),
        Budget(
            "tensor_instructions",
            lambda d: 4 * steps(d, 16) * -(-d["m"] // 64) * -(-d["n"] // 128),
            "Products should be those of a warpgroup (wgmma), 64 x 128 outputs or more each, and only steps of 16 "
            "tokens of which the expert has one: no product is needed for zeros.",
        ),
    ),
)
