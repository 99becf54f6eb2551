"""feed_forward: the feed-forward halves of three decoder layers for one token, by blocks that stay.

    x <- x + down (silu(gate n) * (up n)),  n = gain * x / sqrt(mean(x^2) + 1e-5),  silu(g) = g / (1 + exp(-g))

one layer after another. A layer needs all of the layer before, and its second product all of its first two.
"""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.products import DEVIATIONS, UNIT
from autograder.spec.sizes import every, multiples
from autograder.spec.task import Array, ArraySpec, Budget, Case, Ceiling, Dimensions, Family, Task, Values
from warplab.plan.model import Role

LAYERS = 3
EPSILON = 1e-5
SECTOR = 32  # bytes
SMS = 132  # of an H100 SXM or H200: a block each
UNITS = 8  # rows that are worth a block
SMALLEST = 2.0**-120  # what sigmoid may lose where its exponential overflows


def _layer(xp: ModuleType, values: Values, layer: int, x: Array) -> tuple[Array, ...]:
    """Float64 of layer `layer` for x: its new x, n, gates, ups and hidden units, and the root of the mean square."""
    gate, up, down = (values[name][layer].astype(np.float64) for name in ("gate", "up", "down"))
    root = xp.sqrt((x * x).mean() + EPSILON)
    n = x / root * values["gain"][layer].astype(np.float64)
    gates, ups = _times(gate, n), _times(up, n)
    hidden = gates * _sigmoid(xp, gates) * ups
    return x + _times(down, hidden), n, gates, ups, hidden, root


def _times(matrix: Array, vector: Array) -> Array:
    """A product that needs no BLAS library on the GPU."""
    return (matrix * vector).sum(axis=1)


def _sigmoid(xp: ModuleType, gates: Array) -> Array:
    return 1 / (1 + xp.exp(-xp.maximum(gates, -700.0)))


def expected(xp: ModuleType, values: Values) -> dict[str, Array]:
    """x after all layers, in float64."""
    x = values["x"].astype(np.float64)
    for layer in range(LAYERS):
        x = _layer(xp, values, layer, x)[0]
    return {"y": x}


def bound(xp: ModuleType, values: Values) -> dict[str, Array]:
    """What float32 may be off by: eight standard deviations, carried from layer to layer.

    Worst cases that multiply through nine products would allow half precision, too. Rounding errors are independent of
    each other and zero on average to within what matters (Higham and Mary, A new approach to probabilistic rounding
    error analysis, SIAM J. Sci. Comput. 41, 2019, sections 2 and 3), so their variances add up:

    * a sum s of n terms t has at most n roundings of partial sums, whose mean squares are at most sum t^2 + s^2, each
      by u = 2^-24 of itself: u^2 n (sum t^2 + s^2), in any order; the terms bring their own variances. x is a term of
      the sum that makes the new x: a kernel may begin with it, and then all partial sums are as large as it is;
    * the root of the mean square is common to all n, so that its error is the same share of all: the root of
      sum x^2 e(x)^2 over sum x^2, and a whole (width / 2 + 8) u, added as it is to what gates and ups may be off by;
    * silu changes by 1.1 at most where its argument changes by one, and an exponential is off by (2 |g| + 8) u.
    """
    x = values["x"].astype(np.float64)
    error = xp.zeros(x.shape)  # deviations of x
    for layer in range(LAYERS):
        new, n, gates, ups, hidden, root = _layer(xp, values, layer, x)
        gate, up, down = (xp.square(values[name][layer].astype(np.float64)) for name in ("gate", "up", "down"))
        width, units = x.size, hidden.size
        common = xp.sqrt(xp.square(x * error).sum()) / (width * root * root) + (width / 2 + 8) * UNIT / DEVIATIONS
        own = xp.square(values["gain"][layer].astype(np.float64) / root * error) + xp.square(3 * UNIT * n)
        of_gates, of_ups = (
            xp.sqrt(_times(w, own) + UNIT**2 * width * (_times(w, xp.square(n)) + xp.square(s))) + common * xp.abs(s)
            for w, s in ((gate, gates), (up, ups))
        )
        sigmoid = _sigmoid(xp, gates)
        silu = xp.abs(gates) * sigmoid
        of_silu = 1.1 * of_gates + silu * (2 * xp.abs(gates) * (1 - sigmoid) + 8) * UNIT + SMALLEST
        of_hidden = of_silu * (xp.abs(ups) + of_ups) + silu * of_ups + 2 * UNIT * xp.abs(hidden)
        terms = _times(down, xp.square(hidden)) + xp.square(x)
        sums = _times(down, xp.square(of_hidden)) + UNIT**2 * (units + 1) * (terms + xp.square(new))
        error = xp.sqrt(xp.square(error) + sums)
        x = new
    return {"y": DEVIATIONS * error + SMALLEST}


def place(xp: ModuleType, family: Family, values: Values, draw: Random) -> None:
    """Weights so small that gates are where silu is curved, one element of x that outweighs others, a unit that is off.

    Whole numbers of x become so small that EPSILON is as large as their mean square. A power of two is exact but for
    float16 below its normal range, which every array module rounds alike.
    """
    for weights in (values[name] for name in ("gate", "up", "down")):
        weights *= weights.dtype.type(2.0**-4)
    x = values["x"]
    if family is Family.INTEGERS:
        x *= x.dtype.type(2.0**-10)
    else:
        x[draw.randrange(x.size)] = 8.0
    layer, unit = draw.randrange(LAYERS), draw.randrange(values["gate"].shape[1])
    values["gate"][layer, unit] = 0.0


def weight_bytes(d: Dimensions) -> float:
    """Bytes of the weights of all layers."""
    return 2.0 * 3 * LAYERS * d["width"] * d["hidden"]


def vector_bytes(d: Dimensions) -> float:
    """Bytes of what a block reads of x, gains and hidden units, in all layers."""
    return 4.0 * LAYERS * (2 * d["width"] + d["hidden"])


def blocks(d: Dimensions) -> int:
    """Blocks that so many hidden units are worth."""
    return int(min(SMS, max(1, d["hidden"] // UNITS)))


def read_sectors(d: Dimensions) -> float:
    """Weights once, vectors once a block, and half of that again for lists, counters and x at the end."""
    return (weight_bytes(d) + 1.5 * blocks(d) * vector_bytes(d)) / SECTOR


def busiest_sectors(d: Dimensions) -> float:
    """Twice an equal share of the weights, and the vectors once."""
    return (2 * weight_bytes(d) / blocks(d) + vector_bytes(d)) / SECTOR


def written_sectors(d: Dimensions) -> float:
    """Hidden units and x once in each layer, twice as much for what begins within a sector; and counters."""
    return 2 * 4.0 * LAYERS * (d["hidden"] + d["width"]) / SECTOR + 4 * LAYERS * blocks(d)


def sizes(width: tuple[int, ...], hidden: range) -> tuple[Dimensions, ...]:
    """A class of sizes."""
    return tuple(every(width=width, hidden=hidden))


TASK = Task(
    function="feed_forward",
    arguments=(
        ArraySpec("x", "float32", ("width",), Role.INPUT),
        ArraySpec("gain", "float32", (LAYERS, "width"), Role.INPUT),
        ArraySpec("gate", "float16", (LAYERS, "hidden", "width"), Role.INPUT),
        ArraySpec("up", "float16", (LAYERS, "hidden", "width"), Role.INPUT),
        ArraySpec("down", "float16", (LAYERS, "width", "hidden"), Role.INPUT),
        ArraySpec("y", "float32", ("width",), Role.OUTPUT),
    ),
    correctness=(
        Case("eight of eight", {"width": 8, "hidden": 8}, Family.NORMAL),
        Case("whole warps", {"width": 256, "hidden": 256}, Family.NORMAL, sizes((256,), multiples(256, 256, 768))),
        Case("small numbers", {"width": 136, "hidden": 264}, Family.INTEGERS, sizes((136,), multiples(8, 248, 280))),
        Case("other magnitudes", {"width": 72, "hidden": 200}, Family.WIDE, sizes((72, 88), multiples(8, 184, 216))),
        Case(
            "wider than hidden",
            {"width": 520, "hidden": 40},
            Family.NORMAL,
            sizes((520, 536), multiples(8, 24, 56)),
            hidden=True,
        ),
        Case(
            "ragged",
            {"width": 120, "hidden": 328},
            Family.INTEGERS,
            sizes((104, 120), multiples(8, 312, 344)),
            hidden=True,
        ),
        Case(
            "a billion parameters' layers",
            {"width": 2048, "hidden": 8200},
            Family.NORMAL,
            sizes((2048,), multiples(8, 8168, 8232)),
            hidden=True,
            needs_gpu=True,
        ),
    ),
    # Rows of `down` begin with a sector, as those of gate and up do: else 4 bytes a lane read a quarter more of them
    profile=Case("profile", {"width": 256, "hidden": 512}, Family.NORMAL, sizes((256,), multiples(16, 480, 544))),
    # Of Llama 3.2 1B (its config.json: 2048 and 8192)
    timing=Case("timing", {"width": 2048, "hidden": 8192}, Family.NORMAL, sizes((2048,), multiples(8, 8000, 8384))),
    expected=expected,
    bound=bound,
    place=place,
    flops=lambda d: 6.0 * LAYERS * d["width"] * d["hidden"],
    bytes_moved=lambda d: weight_bytes(d) + 4.0 * (LAYERS + 2) * d["width"],
    compute_ceiling=Ceiling.FP32_FMA,
    exact_on_integers=False,
    budgets=(
        Budget(
            "global_read_sectors",
            read_sectors,
            "Every weight is needed once: let each row be one instruction's, read it 16 bytes a lane, and keep vectors "
            "in shared memory.",
        ),
        Budget(
            "busiest_sm_sectors",
            busiest_sectors,
            "One SM reads far more than its share of the weights, so that all others wait for it: spread the rows of "
            "every product over all blocks.",
        ),
        Budget(
            "global_written_sectors",
            written_sectors,
            "Hidden units and x are written once a layer: let neighbouring threads write an instruction's results.",
        ),
        Budget(
            "shared_read_conflicts",
            lambda d: weight_bytes(d) / 1024,
            "Lanes read a vector's elements from the same banks: let neighbouring lanes read neighbouring words.",
        ),
    ),
)
