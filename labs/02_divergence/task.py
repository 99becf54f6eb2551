"""march: the light of rays that cross a glowing medium, where one ray of eight crosses 256 times as many layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from types import ModuleType

import numpy as np

from autograder.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

SHORT, LONG = 16, 4096  # layers that a ray crosses
EVERY = 8  # a ray whose kind is a multiple of this is a long one
UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
SMALLEST = 2.0**-126  # results below float32's normal range may be flushed to zero
SECTOR = 32  # bytes
BLOCKED = 64  # layers in a block of them
SAMPLED = 8  # one long ray of so many is checked in a timed launch
BRIGHT = 64.0  # the glow of layers that must not be forgotten
OPACITIES = (0.0, -0.0, 1024.0, -512.0)  # nothing is held back, all is, half is
CHECKED = 1 << 24  # rays that are checked together: float64 needs several times the memory of the rays themselves


def transmission(xp: ModuleType, opacity: Array) -> Array:
    """What a layer lets through, in float64: 1 - |opacity| / 1024."""
    return 1.0 - xp.abs(opacity.astype(np.float64)) / 1024


def marched(xp: ModuleType, t: Array, glow: Array, layers: int) -> Array:
    """Horner's rule in float64: y = y t + glow[k] for the first `layers` layers."""
    y = xp.zeros(t.shape)
    for k in range(layers):
        y *= t
        y += glow[k]
    return y


def marched_in_blocks(xp: ModuleType, t: Array, glow: Array) -> Array:
    """The same for all layers, 64 at a time: what a block of layers adds, then Horner's rule with t^64.

    A hundred and some launches on a GPU instead of 8,192; rounding differs by some 1e-14 of the terms' sizes.
    """
    powers = xp.ones((BLOCKED, *t.shape))
    for j in reversed(range(BLOCKED - 1)):
        powers[j] = powers[j + 1] * t
    leap, y = powers[0] * t, xp.zeros(t.shape)
    for block in glow.reshape(-1, BLOCKED) @ powers:
        y *= leap
        y += block
    return y


def _both_kinds(xp: ModuleType, values: Values, glow: Array) -> Array:
    t, long = transmission(xp, values["opacity"]), values["kind"] % EVERY == 0
    out = marched(xp, t, glow, SHORT)
    out[long] = marched(xp, t[long], glow, LONG)
    return out


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The light of every ray, in float64."""
    return {"out": _both_kinds(xp, values, values["glow"].astype(np.float64))}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What Horner's rule in float32 may be off by, per element.

    y = sum of glow[k] t^(N - 1 - k). With a product and a sum a layer, each rounded, a term passes through at most 2 N
    roundings (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 5.1); a fused multiply-add
    halves that. t itself is rounded once, which multiplies t^j by (1 + d)^j. Together at most 3 N u sum |glow[k]|
    t^(N - 1 - k), to first order; 3 N u is at most 7.4e-4, so 1.001 covers the rest.
    """
    sizes = _both_kinds(xp, values, xp.abs(values["glow"].astype(np.float64)))
    layers = xp.where(values["kind"] % EVERY == 0, LONG, SHORT)
    return {"out": 1.001 * 3 * layers * UNIT * sizes + SMALLEST}


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest error over its bound: of every short ray of a timed launch, and of one long ray of eight.

    Which of the long ones is drawn from the seed; each of them takes 4,096 steps in float64.
    """
    glow, ratios = values["glow"].astype(np.float64), []
    for start in range(0, outputs["out"].size, CHECKED):
        rays = slice(start, start + CHECKED)
        ratios.append(_worst(xp, values["opacity"][rays], values["kind"][rays], glow, outputs["out"][rays], seed))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def _worst(xp: ModuleType, opacity: Array, kind: Array, glow: Array, out: Array, seed: int) -> float:
    t, long = transmission(xp, opacity), kind % EVERY == 0
    ratios = [0.0]
    for layers, rays, march in (
        (SHORT, xp.nonzero(~long)[0], partial(marched, layers=SHORT)),
        (LONG, xp.nonzero(long)[0][seed % SAMPLED :: SAMPLED], marched_in_blocks),
    ):
        if rays.size:
            error = xp.abs(out[rays].astype(np.float64) - march(xp, t[rays], glow))
            allowed = 1.001 * 3 * layers * UNIT * march(xp, t[rays], xp.abs(glow)) + SMALLEST
            ratios.append(float((error / allowed).max()))
    return float(np.max(ratios))


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Let the layers at which rays begin and end glow brightly, and let drawn rays lose nothing, half or all."""
    glow, opacity = values["glow"], values["opacity"]
    for k in (0, 1, SHORT - 1, SHORT, LONG - 2, LONG - 1):
        glow[k] = draw.choice((-BRIGHT, BRIGHT))
    rays = draw.sample(range(opacity.size), min(opacity.size // 4, len(OPACITIES)))
    for i, value in zip(rays, OPACITIES, strict=False):
        opacity[i] = value


def multiply_adds(dimensions: Dimensions) -> float:
    """Multiply-adds of n rays, of which one in eight is long: kinds are drawn from 0 to 127."""
    return dimensions["n"] * (SHORT * (1 - 1 / EVERY) + LONG / EVERY)


def sectors(dimensions: Dimensions) -> float:
    """Sectors of opacity and kind, two more for every long ray, and the layers for 1,024 rays."""
    n = dimensions["n"]
    return 5 * n / SECTOR + 2 * n / EVERY + 4 * LONG / SECTOR * -(-n // 1024)


TASK = Task(
    function="march",
    arguments=(
        ArraySpec("opacity", "float32", ("n",), Role.INPUT),
        ArraySpec("kind", "uint8", ("n",), Role.INPUT),
        ArraySpec("glow", "float32", (LONG,), Role.INPUT),
        ArraySpec("out", "float32", ("n",), Role.OUTPUT),
    ),
    correctness=(
        Case("one ray", {"n": 1}, Family.INTEGERS),
        Case("less than a warp", {"n": 21}, Family.INTEGERS),
        Case("whole blocks", {"n": 2048}, Family.NORMAL),
        Case("ragged", {"n": 1025}, Family.NORMAL),
        Case("prime", {"n": 1511}, Family.WIDE),
        Case("more long rays", {"n": 1200}, Family.INTEGERS),  # 2 of 9: more in a tile than a block may have threads
        Case("ragged and larger", {"n": 3337}, Family.NORMAL, hidden=True),
        Case("many long rays", {"n": 1999}, Family.INTEGERS, hidden=True),
        Case("large and ragged", {"n": 300_007}, Family.NORMAL, hidden=True, needs_gpu=True),
    ),
    profile=Case("profile", {"n": 8192}, Family.NORMAL),
    timing=Case("timing", {"n": 1 << 27}, Family.NORMAL),
    expected=expected,
    bound=bound,
    verify=verify,
    place=place,
    flops=lambda d: 2 * multiply_adds(d),
    bytes_moved=lambda d: 9.0 * d["n"] + 4 * LONG,
    compute_ceiling=Ceiling.FP32_FMA,
    exact_on_integers=False,
    budgets=(
        Budget(
            "fp32_instructions",
            lambda d: 2 * multiply_adds(d) / 32,
            "A warp issues an instruction as often as its slowest lane needs it: collect the long rays, and let full "
            "warps of them march together.",
        ),
        Budget(
            "global_load_sectors",
            sectors,
            "Let neighbouring lanes read neighbouring rays; keep the layers in shared memory, read once a block.",
        ),
        Budget(
            "global_store_sectors",
            lambda d: 2.2 * 4 * d["n"] / SECTOR,
            "Let neighbouring lanes store neighbouring rays; only the long rays may be stored one by one.",
        ),
        Budget(
            "local_load_sectors",
            lambda d: 0.0,
            "A thread's rays lie in local memory, which is off the chip: index local arrays only by constants and by "
            "the variables of short loops with constant bounds, so that they become registers.",
        ),
    ),
)
