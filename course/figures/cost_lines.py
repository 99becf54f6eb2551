"""Curves over sizes, both axes logarithmic: what a collective costs by one algorithm or another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from warplab.figures import style

# A line is told from another by its dash, too.
_DASHES: tuple[Any, ...] = ("-", (0, (7, 2)), (0, (1.2, 1.2)), (0, (7, 2, 1.2, 2)), (0, (3, 1.5)))


@dataclass(frozen=True)
class CostLine:
    """One curve: `values` at `sizes` (both positive); `quiet` for a bound or a reference, `dots` for measurements."""

    name: str
    sizes: Sequence[float]
    values: Sequence[float]
    quiet: bool = False
    dots: bool = False


def cost_lines(
    lines: Sequence[CostLine],
    *,
    title: str,
    subtitle: str = "",
    across: str = "size",
    up: str = "time",
    units: tuple[str, str] = ("B", "s"),
    marks: Sequence[tuple[float, str]] = (),
) -> Figure:
    """Draw the curves; `marks` are named vertical lines at sizes. Lines of one name share a colour and a dash.

    `units` are those of sizes and values: ticks have a prefix before them.

    Raises ValueError for a curve whose sizes and values differ in number, or have something that is not positive.
    """
    for line in lines:
        if len(line.sizes) != len(line.values) or min([*line.sizes, *line.values]) <= 0:
            raise ValueError(f"{line.name!r} needs as many values as sizes, all of them positive")
    long = max(len(line.name) + 10 * line.dots for line in lines) > 36
    labels = len({(line.name, line.dots) for line in lines})
    made, (axes,) = style.figure(9.0, 4.2 + 0.2 * -(-labels // (2 if long else 3)))
    loud = list(dict.fromkeys(line.name for line in lines if not line.quiet))
    labelled: set[str] = set()
    for line in lines:
        turn, place = (0, 0) if line.quiet else divmod(loud.index(line.name), len(style.PALETTE))
        colour = style.MUTED if line.quiet else style.PALETTE[place]
        dash: Any = (0, (4, 3)) if line.quiet else _DASHES[(place + turn) % len(_DASHES)]
        label = line.name if line.name not in labelled else None
        if line.dots:
            axes.plot(line.sizes, line.values, "o", color=colour, markersize=6, label=f"{line.name}, measured")
            continue
        labelled.add(line.name)
        axes.plot(
            line.sizes, line.values, color=colour, linewidth=1.3 if line.quiet else 2.0, linestyle=dash, label=label
        )
    for number, (at, text) in enumerate(sorted(marks)):
        axes.axvline(at, color=style.MUTED, linewidth=1.0, zorder=0)
        left = number % 2 == 0 and len(marks) > 1  # the names of two that are close together stand on either side
        offset = (-3 if left else 3, 4 + 12 * (number // 2))
        axes.annotate(text, (at, 0), xycoords=("data", "axes fraction"), xytext=offset, textcoords="offset points",
                      ha="right" if left else "left", va="bottom", size=style.TEXT - 1, color=style.INK)  # fmt: skip
    axes.set_xscale("log", base=10)
    axes.set_yscale("log", base=10)
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=8))
    axes.grid(True, which="major")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _said(value, units[0])))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _said(value, units[1])))
    low, high = axes.get_ylim()
    if floor(log10(high)) - ceil(log10(low)) < 1:  # no two powers of ten are there to be named
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: _between(value, units[1])))
    made.legend(loc="outside lower left", ncols=2 if long else 3, frameon=False, fontsize=style.TEXT)
    style.headline(made, title, subtitle)
    return made


def _between(value: float, unit: str) -> str:
    """A tick between powers of ten: only twos and fives are named, so that names have room."""
    return _said(value, unit) if round(value / 10 ** floor(log10(value))) in (2, 5) else ""


def _said(value: float, unit: str) -> str:
    """A tick: seconds down to nanoseconds, everything else with the usual prefixes."""
    if unit == "s" and value < 1:
        for factor, name in ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
            if value >= factor * 0.9995:
                return f"{value / factor:g} {name}"
    return style.quantity(value, unit)
