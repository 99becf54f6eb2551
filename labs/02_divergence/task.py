"""march: the light of rays that cross a glowing medium, where one ray of eight crosses 256 times as many layers.

Each ray has transmissions of its own, one for every 64 layers. If a ray had one number for all layers, its light would
be a smooth function of that number, the same for all rays, and a short table of it would do instead of marching.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

from autograder.spec.sizes import every, multiples, odd, primes
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values, put
from warplab.plan.model import Role

SHORT, LONG = 16, 4096  # layers that a ray crosses
STRETCH = 64  # layers that let the same part of a ray through
EVERY = 8  # a ray whose kind is a multiple of this is a long one
UNIT = 2.0**-24  # unit roundoff of float32, rounding to nearest
DEVIATIONS = 8.0
SMALLEST = 2.0**-126  # results below float32's normal range may be flushed to zero
SECTOR = 32  # bytes
GOLDEN = 2654435769  # 2^32 over the golden ratio: neighbours begin far apart
SAMPLED = 64  # one long ray of so many is checked in a timed launch
BRIGHT = 64.0  # the glow of layers that must not be forgotten
OPACITIES = (0.0, -0.0, 1024.0, -512.0)  # nothing is held back, all is, half is
CHECKED = 1 << 24  # rays that are checked together: float64 needs several times the memory of the rays themselves


def transmission(xp: ModuleType, opacity: Array) -> Array:
    """What each of the first 64 layers lets through, in float64: 1 - |opacity| / 1024."""
    return 1.0 - xp.abs(opacity.astype(np.float64)) / 1024


def seeds(xp: ModuleType, opacity: Array, rays: Array) -> Array:
    """What the rays numbered `rays` draw the rest of their way from: uint32, modulo 2^32."""
    return (opacity * np.float32(65536)).astype(np.int32).astype(np.uint32) + rays.astype(np.uint32) * np.uint32(GOLDEN)


def onward(s: Array) -> tuple[Array, Array]:
    """The next seeds, and what each of the next 64 layers lets through, in float64: exact in float32 too."""
    s = s * np.uint32(1664525) + np.uint32(1013904223)
    return s, 1.0 - (32768.0 - (s >> np.uint32(17)).astype(np.float64)) / 2**24


def marched(xp: ModuleType, t: Array, glow: Array, light: Array | None = None) -> Array:
    """Horner's rule in float64 for layers that let the same part through: y = y t + glow[k], from `light` on."""
    light = xp.zeros(t.shape) if light is None else light
    if not isinstance(t, np.ndarray):
        return _march(xp)(t, light, glow, glow.size)
    for layer in glow:
        light *= t
        light += layer
    return light


@cache
def _march(xp: ModuleType) -> Any:
    """The same in one launch on a GPU, whose memory would have to be read and written twice for each layer."""
    code = "light = before; for (int k = 0; k < layers; ++k) light = light * t + glow[k];"
    arguments = "float64 t, float64 before, raw float64 glow, int32 layers"
    return xp.ElementwiseKernel(arguments, "float64 light", code, "warplab_march")


def crossed(xp: ModuleType, opacity: Array, rays: Array, glow: Array, squared: bool = False) -> Array:
    """The light of long rays in float64, by Horner's rule, or the sum of the terms of that, each squared."""
    t, s = transmission(xp, opacity), seeds(xp, opacity, rays)
    light = xp.zeros(t.shape)
    for stretch in (glow * glow if squared else glow).reshape(-1, STRETCH):
        light = marched(xp, t * t if squared else t, stretch, light)
        s, t = onward(s)
    return light


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """The light of every ray, in float64."""
    return {"out": _sums(xp, values)}


def _sums(xp: ModuleType, values: Values, squared: bool = False) -> Array:
    """The light of every ray in float64, or the sum of the terms of that, each squared."""
    opacity, glow = values["opacity"], values["glow"].astype(np.float64)
    long = xp.nonzero(values["kind"] % EVERY == 0)[0]
    t, near = transmission(xp, opacity), glow[:SHORT]
    sums = marched(xp, t * t, near * near) if squared else marched(xp, t, near)
    if long.size:
        sums[long] = crossed(xp, opacity[long], long, glow, squared)
    return sums


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """Eight standard deviations of the error of Horner's rule in float32, per element.

    The light is the sum of glow[k] times T_k, what the layers behind k let through. With a product and a sum a layer,
    each rounded, step k adds two errors of at most u |y_k| T_k, u = 2^-24; a fused multiply-add has one. Errors of
    different operations behave like independent ones (Higham and Mary, A new approach to probabilistic rounding error
    analysis, SIAM J. Sci. Comput. 41, 2019). Layers glow with random signs, so that the square of y_k T_k is, on
    average, the sum of the squares of the terms so far. All of them together have a variance of at most
    2 N u^2 sum (glow[k] T_k)^2. The first transmission is rounded once, which moves what 64 layers let through by 64 u
    of it, less than a deviation for a long ray and for a short one, of 16 layers, not quite three; the others are
    float32 numbers.

    The classical bound, 3 N u sum |glow[k] T_k| (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
    section 5.1), is a thousand times as large for long rays, a tenth of the light itself.
    """
    layers = xp.where(values["kind"] % EVERY == 0, LONG, SHORT)
    return {"out": _allowed(layers, _sums(xp, values, squared=True))}


def _allowed(layers: Array | int, squares: Array) -> Array:
    return DEVIATIONS * UNIT * (2 * layers * squares) ** 0.5 + SMALLEST


def verify(xp: ModuleType, values: Values, outputs: Mapping[str, Array], seed: int) -> float:
    """Largest error over its bound: of every short ray of a timed launch, and of one long ray of 64.

    Which of the long ones is drawn from the seed; each of them takes 4,096 steps in float64. A kernel that is wrong in
    one long ray of a thousand passes with a probability of e^-250 where there are 2^24 of them.
    """
    opacity, kind, out = values["opacity"], values["kind"], outputs["out"]
    glow, ratios, chosen = values["glow"].astype(np.float64), [0.0], []
    for start in range(0, out.size, CHECKED):
        long = kind[start : start + CHECKED] % EVERY == 0
        short = start + xp.nonzero(~long)[0]
        t = transmission(xp, opacity[short])
        allowed = _allowed(SHORT, marched(xp, t * t, xp.square(glow[:SHORT])))
        ratios.append(_worst(xp, out[short], marched(xp, t, glow[:SHORT]), allowed))
        chosen.append(start + xp.nonzero(long)[0][seed % SAMPLED :: SAMPLED])
    rays = xp.concatenate(chosen)
    some = opacity[rays]
    light, squares = (crossed(xp, some, rays, glow, squared) for squared in (False, True))
    ratios.append(_worst(xp, out[rays], light, _allowed(LONG, squares)))
    return float(np.max(ratios))  # unlike Python's max it lets a NaN through


def _worst(xp: ModuleType, out: Array, light: Array, allowed: Array) -> float:
    return float((xp.abs(out.astype(np.float64) - light) / allowed).max()) if out.size else 0.0


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Let the layers at which rays begin and end glow brightly, and let drawn rays lose nothing, half or all.

    WIDE has its long rays together: three quarters of all, from a drawn ray on. So a warp that lists the long ones
    before it marches them has a full list, as in timed launches.
    """
    if family is Family.WIDE:
        kind = values["kind"]
        first = draw.randrange(kind.size // 4 + 1)
        kind[first : first + kind.size * 3 // 4] = 8
    glow, opacity = values["glow"], values["opacity"]
    for k in (0, 1, SHORT - 1, SHORT, LONG - 2, LONG - 1):
        glow[k] = draw.choice((-BRIGHT, BRIGHT))
    rays = draw.sample(range(opacity.size), min(opacity.size // 4, len(OPACITIES)))
    for i, value in zip(rays, OPACITIES, strict=False):
        put(opacity, i, value)


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
        Case("less than a warp", {"n": 21}, Family.INTEGERS, every(n=range(17, 32))),
        Case("whole blocks", {"n": 2048}, Family.NORMAL, every(n=multiples(1024, 1024, 3072))),
        Case("ragged", {"n": 1025}, Family.NORMAL, every(n=odd(1025, 1055))),
        Case("prime", {"n": 1511}, Family.WIDE, every(n=primes(1400, 1600))),
        Case(
            "more long rays", {"n": 1200}, Family.INTEGERS, every(n=multiples(8, 1152, 1248))
        ),  # 2 of 9: more in a tile than a block may have threads
        Case("long rays together", {"n": 24_576}, Family.WIDE, every(n=multiples(256, 23_552, 24_576))),
        Case("ragged and larger", {"n": 3337}, Family.NORMAL, every(n=odd(3201, 3455)), hidden=True),
        Case("many long rays", {"n": 1999}, Family.INTEGERS, every(n=odd(1901, 2099)), hidden=True),
        Case(
            "large and ragged",
            {"n": 300_007},
            Family.NORMAL,
            every(n=odd(290_001, 309_999)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    profile=Case("profile", {"n": 8192}, Family.NORMAL, every(n=multiples(128, 7808, 8576))),
    timing=Case("timing", {"n": 1 << 27}, Family.NORMAL, every(n=multiples(1024, 130_023_424, 138_412_032))),
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
            "float_instructions",
            lambda d: 2 * multiply_adds(d) / 32,
            "A warp issues an instruction as often as its slowest lane needs it: collect the long rays, and let full "
            "warps of them march together.",
        ),
        Budget(
            "global_read_sectors",
            sectors,
            "Let neighbouring lanes read neighbouring rays; keep the layers in shared memory, read once a block.",
        ),
        Budget(
            "global_written_sectors",
            lambda d: 2.2 * 4 * d["n"] / SECTOR + d["n"] / EVERY,
            "Let neighbouring lanes store neighbouring rays; only the long rays may be stored one by one, and counted "
            "by an atomic each.",
        ),
        Budget(
            "local_sectors",
            lambda d: 0.0,
            "A thread's rays lie in local memory, which is off the chip: index local arrays only by constants and by "
            "the variables of short loops with constant bounds, so that they become registers.",
        ),
    ),
)
