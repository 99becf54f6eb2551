"""Sums in half precision, of inputs that hide them and of others."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from course.figures.explore import Explorer
from warplab.figures import style

KINDS = ("zeros and ones", "whole numbers to 4", "normal")
_ROWS = 256


def drawn(kind: str, k: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Two times 256 rows of k numbers. Raises ValueError for another kind."""
    random = np.random.default_rng(16)
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}")
    if kind == "normal":
        a, b = random.standard_normal((2, _ROWS, k))
    else:
        a, b = random.integers(0, 2, (2, _ROWS, k)) if kind == KINDS[0] else random.integers(-4, 5, (2, _ROWS, k))
    return a.astype(np.float16), b.astype(np.float16)


def errors(kind: str, k: int) -> NDArray[np.float64]:
    """Of each row's sum of products, added up in float16: the error over what float32 sums may lose at most."""
    a, b = drawn(kind, k)
    total = np.zeros(_ROWS, np.float16)
    with np.errstate(over="ignore"):
        for p in range(k):
            total += a[:, p] * b[:, p]
    exact = a.astype(np.float64) * b
    allowed = max(k - 1, 1) * 2.0**-24 * abs(exact).sum(1)
    return abs(total - exact.sum(1)) / np.where(allowed > 0, allowed, 1.0)


def half_sums(inputs: str, k: int) -> Figure:
    """How many of 256 sums are how far off. Raises ValueError as `drawn` does."""
    off = errors(inputs, k)
    made, (axes,) = style.figure(9.5, 3.4)
    edges = [0.0, *(10.0**power for power in range(-2, 6))]
    found = np.histogram(np.minimum(off, edges[-1] * 0.99), edges)[0].tolist()
    names = ["0", *(f"to {edge:g}" for edge in edges[2:])]
    exact = int((off == 0).sum())
    counts = [exact, found[0] + found[1] - exact, *found[2:]]
    colours = [style.GREEN if float(edge) <= 1 else style.RED for edge in edges[1:]]
    axes.bar(range(len(counts)), counts, color=colours)
    axes.set_xticks(range(len(counts)), names)
    axes.set_xlabel("error over what float32 sums may lose")
    axes.set_ylabel("sums of 256")
    caught = int((off > 1).sum())
    style.headline(
        made, f"{k:,} products of {inputs}, summed in float16", f"counted: a float32 bound catches {caught} of {_ROWS}"
    )
    return made


def explore_half_sums() -> Explorer:
    """A menu of inputs and a slider for how many products there are."""
    return Explorer(half_sums, inputs=(KINDS[0], list(KINDS)), k=(256, range(64, 4097, 64)))
