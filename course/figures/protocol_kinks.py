"""The bus bandwidth of several protocols over sizes, and the curve of the fastest of them, which has kinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from warplab.figures import style

_DASHES = ((0, (6, 2)), (0, (1, 1.4)), "-.")


def protocol_kinks(
    sizes: Sequence[float], rates: Mapping[str, Sequence[float]], changes: Sequence[tuple[float, str]], *, title: str
) -> Figure:
    """`rates` are bytes per second at `sizes`, for up to three protocols; `changes` are sizes with a text for each.

    The rate axis is linear, since a kink between two straight lines hides on a logarithmic one.
    """
    made, (axes,) = style.figure(9.0, 4.4)
    best = [max(of[n] for of in rates.values()) / 1e9 for n in range(len(sizes))]
    axes.plot(sizes, best, color=style.FAINT, linewidth=9, solid_capstyle="round", label="the fastest of them")
    for (name, of), colour, dash in zip(rates.items(), style.PALETTE, _DASHES, strict=False):
        axes.plot(sizes, [one / 1e9 for one in of], color=colour, linestyle=dash, linewidth=2.2, label=name)
    top = 1.12 * max(max(of) for of in rates.values()) / 1e9
    for number, (size, words) in enumerate(changes):
        axes.axvline(size, color=style.MUTED, linewidth=1)
        # The curves rise from the lower left: words stand above them, and to the right below them.
        looks: dict[str, Any] = {"rotation": 90, "color": style.INK, "size": style.TEXT}
        if number == 0:
            axes.text(size * 0.9, 0.97 * top, words, ha="right", va="top", **looks)
        else:
            axes.text(size * 1.12, 0.03 * top, words, ha="left", va="bottom", **looks)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: style.quantity(size, "B")))
    axes.set_ylim(0, top)
    axes.set_xlabel("size of the array")
    axes.set_ylabel("bus bandwidth, GB/s")
    axes.grid(True)
    axes.legend(frameon=False, fontsize=style.TEXT, loc="center left")
    style.headline(made, title, "where the protocol changes, the thick curve has a kink")
    return made
