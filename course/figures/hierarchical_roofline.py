"""The cache-aware roofline: a slope for each level of memory, and each kernel at the intensity that it has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warplab.figures import style
from warplab.hardware.roofline import Roofline

_MARKS = ("s", "D", "o", "^")
_LEFT, _RIGHT = 40.0, 6.0  # how far the picture reaches beyond the outermost mark, as factors; names stand on the left


@dataclass(frozen=True)
class LevelIntensities:
    """A kernel: `flops` reached in FLOP/s, and its FLOP for each byte that crosses each level, by the level's name."""

    name: str
    flops: float
    intensities: Mapping[str, float]

    def tightest(self, levels: Mapping[str, float]) -> str:
        """The level whose slope is the lowest above this kernel. `levels` gives each level's bandwidth in bytes/s."""
        return min(self.intensities, key=lambda level: self.intensities[level] * levels[level])


def hierarchical_roofline(
    peak: float, levels: Mapping[str, float], kernels: Sequence[LevelIntensities], *, title: str = ""
) -> Figure:
    """A roof of FLOP/s `peak` over the slopes of `levels` (name: bytes/s), on logarithmic axes.

    A kernel is a row of marks at its FLOP/s, one a level; the level whose slope is closest above its mark is the one
    that it may be waiting for, and is filled. Raises ValueError for a kernel without a place on logarithmic axes or
    with a level that has no bandwidth here.
    """
    for kernel in kernels:
        if kernel.flops <= 0 or not all(i > 0 for i in kernel.intensities.values()):
            raise ValueError(f"{kernel.name!r} has no place on a roofline: its intensities and FLOP/s must be positive")
        if unknown := kernel.intensities.keys() - levels.keys():
            raise ValueError(f"{kernel.name!r} has an intensity for {sorted(unknown)[0]!r}, which is no level here")
    made, (axes,) = style.figure(9, 5.2)
    everywhere = [i for kernel in kernels for i in kernel.intensities.values()]
    ridges = [peak / bandwidth for bandwidth in levels.values()]
    left, right = min([*everywhere, *ridges]) / _LEFT, max([*everywhere, *ridges]) * _RIGHT
    intensities = np.geomspace(left, right, 400)
    for number, (name, bandwidth) in enumerate(levels.items()):
        roof = Roofline(peak, bandwidth)
        colour = style.PALETTE[number % len(style.PALETTE)]
        label = f"{name}, {style.quantity(bandwidth, 'B/s')}"
        axes.plot(intensities, [roof.attainable(i) for i in intensities], color=colour, linewidth=2, label=label)
    axes.axhline(peak, color=style.INK, linewidth=2.2, zorder=2.5)
    for kernel in kernels:
        _draw(axes, kernel, levels)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    bottom = min([k.flops for k in kernels], default=peak / 1000) / 4
    axes.set_ylim(bottom, peak * 3)
    axes.xaxis.set_major_formatter(lambda value, _: style.quantity(value))
    axes.yaxis.set_major_formatter(lambda value, _: style.quantity(value, "FLOP/s"))
    axes.minorticks_off()
    axes.grid(True, which="major")
    axes.set_axisbelow(True)
    axes.set_xlabel("FLOP for each byte that crosses the level")
    axes.annotate(
        style.quantity(peak, "FLOP/s"), (right, peak), xytext=(-6, 6), textcoords="offset points", ha="right",
        fontweight="bold",
    )  # fmt: skip
    axes.legend(loc="lower right", frameon=False)
    style.headline(made, title or "Roofline by level", "a kernel's marks: one a level; filled where its roof is lowest")
    return made


def _draw(axes: Axes, kernel: LevelIntensities, levels: Mapping[str, float]) -> None:
    names = list(levels)
    own = sorted(kernel.intensities.items(), key=lambda item: item[1])
    axes.plot(
        [own[0][1], own[-1][1]],
        [kernel.flops] * 2,
        color=style.FAINT,
        linewidth=1.2,
        zorder=3,
        gid=f"row {kernel.name}",
    )
    tightest = kernel.tightest(levels)
    for level, intensity in own:
        number = names.index(level)
        colour = style.PALETTE[number % len(style.PALETTE)]
        axes.plot(
            [intensity], [kernel.flops], _MARKS[number % len(_MARKS)], markersize=8, zorder=4, color=colour,
            markerfacecolor=colour if level == tightest else style.PANEL, gid=f"{kernel.name}/{level}",
        )  # fmt: skip
    axes.annotate(
        f"{kernel.name}: {style.quantity(kernel.flops, 'FLOP/s')}", (own[0][1], kernel.flops), xytext=(-8, 0),
        textcoords="offset points", ha="right", va="center", fontsize=style.SMALL + 0.5, zorder=5,
        bbox={"facecolor": style.PANEL, "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
    )  # fmt: skip
