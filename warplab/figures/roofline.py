"""The roofline with kernels on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warplab.figures import style
from warplab.hardware.roofline import Roofline

_BESIDE = 1.35  # how far a label begins from its point, as a factor of intensity
_AT_RIDGE = 1.3  # up to so many times the ridge's intensity, a point stands at the ridge
_LETTER = 0.0105  # the width of a letter of a label, as a share of the horizontal axis
_LINE = 0.058  # the height of a line of text, as a share of the vertical axis


@dataclass(frozen=True)
class Point:
    """A kernel: `intensity` in FLOP/byte, `flops` reached in FLOP/s, `interval` the ends of its confidence interval."""

    name: str
    intensity: float
    flops: float
    interval: tuple[float, float] | None = None


def roofline(
    roof: Roofline, points: Sequence[Point] = (), *, datasheet: Roofline | None = None, title: str = ""
) -> Figure:
    """Both ceilings on logarithmic axes, each point with the share of its ceiling that it reaches.

    `roof` is solid (the ceilings measured on this GPU), `datasheet` dashed. Raises ValueError for a point whose
    intensity or FLOP/s is not positive: it has no place on logarithmic axes.
    """
    for point in points:
        if not (point.intensity > 0 and point.flops > 0):
            raise ValueError(f"{point.name!r} has no place on a roofline: its intensity and FLOP/s must be positive")
    made, (axes,) = style.figure(8, 4.8)
    left, right, bottom, top = _limits(roof, points, datasheet)
    intensities = np.geomspace(left, right, 400)

    if datasheet is not None:
        axes.plot(
            intensities,
            [datasheet.attainable(i) for i in intensities],
            color=style.MUTED,
            linewidth=1.2,
            linestyle=(0, (5, 3)),
            label=datasheet.name or "datasheet",
            zorder=1,
        )
    attainable = np.array([roof.attainable(i) for i in intensities])
    axes.plot(intensities, attainable, color=style.INK, linewidth=2.2, label=roof.name or "measured", zorder=2)
    axes.fill_between(intensities, bottom, attainable, color=style.BLUE, alpha=0.06, linewidth=0, zorder=0)
    axes.axvline(roof.ridge, color=style.FAINT, linewidth=1, zorder=0)

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.xaxis.set_major_formatter(lambda value, _: style.quantity(value))
    axes.yaxis.set_major_formatter(lambda value, _: style.quantity(value, "FLOP/s"))
    axes.minorticks_off()
    axes.grid(True, which="major")
    axes.set_axisbelow(True)
    axes.set_xlabel("arithmetic intensity, FLOP per byte")
    explanation = "left of the ridge memory is the limit, right of it arithmetic; percentages: of the ceiling above"
    style.headline(made, title or "Roofline", explanation)
    _label_ceilings(made, axes, roof)
    for number, point in enumerate(points):
        _draw(axes, roof, point, style.PALETTE[number % len(style.PALETTE)])
    _label_points(axes, roof, points)
    if datasheet is not None:
        axes.legend(loc="upper left", frameon=False)
    return made


def _limits(roof: Roofline, points: Sequence[Point], datasheet: Roofline | None) -> tuple[float, float, float, float]:
    """Axis limits that show the ridge with a decade on each side, and every point with room for its label."""
    left = min([roof.ridge / 20, *(p.intensity / 3 for p in points)])
    right = max([roof.ridge * 12, *(p.intensity * 6 for p in points)])
    room = 1.25 ** sum(p.intensity < roof.ridge for p in points)  # for the labels that stand below their points
    bottom = min([roof.attainable(left), *(p.flops / 3 for p in points)]) / room
    top = 2.5 * max([roof.peak_flops, *(p.flops for p in points), *([datasheet.peak_flops] if datasheet else [])])
    if _apart(side := [p for p in points if p.intensity >= roof.ridge]):
        lowest, share = min(p.flops for p in side), min(0.6, _LINE * (len(side) + 2))  # of the axis, below them all
        bottom = min(bottom, lowest / (top / lowest) ** (share / (1 - share)))
    return left, right, bottom, top


def _apart(side: Sequence[Point]) -> bool:
    """Whether the labels of these points right of the ridge have to stand below all of them."""
    return len({p.intensity for p in side}) > 1


def _label_ceilings(made: Figure, axes: Axes, roof: Roofline) -> None:
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    axes.annotate(
        style.quantity(roof.peak_flops, "FLOP/s"),
        (roof.ridge, roof.peak_flops),
        xytext=(12, 6),
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontweight="bold",
        color=style.INK,
    )
    # The slope has to be turned from data to screen, whose decades differ in length.
    width, height = made.get_size_inches()
    angle = np.degrees(np.arctan2(height / np.log10(top / bottom), width / np.log10(right / left)))
    middle = np.sqrt(left * roof.ridge)
    axes.annotate(
        style.quantity(roof.bandwidth, "B/s"),
        (middle, roof.attainable(middle)),
        xytext=(-9, 11),  # above the slope: below it stand the labels of points
        textcoords="offset points",
        ha="center",
        va="bottom",
        rotation=angle,
        rotation_mode="anchor",
        fontweight="bold",
        color=style.INK,
    )
    axes.annotate(
        f"ridge {roof.ridge:.3g}",
        (roof.ridge, bottom),
        xytext=(5, 6),
        textcoords="offset points",
        color=style.MUTED,
        fontsize=style.SMALL,
    )


def _draw(axes: Axes, roof: Roofline, point: Point, colour: str) -> None:
    ceiling = roof.attainable(point.intensity)
    axes.plot([point.intensity] * 2, [point.flops, ceiling], color=colour, linewidth=1.2, linestyle=":", zorder=2)
    if point.interval is not None:
        axes.plot([point.intensity] * 2, point.interval, color=colour, linewidth=4, alpha=0.4, zorder=2)
    axes.plot(
        [point.intensity],
        [point.flops],
        "o",
        color=colour,
        markersize=9,
        markeredgecolor=style.PANEL,
        label="_",
        zorder=3,
    )


def _label_points(axes: Axes, roof: Roofline, points: Sequence[Point]) -> None:
    """A line of text beside each point: to the right of points left of the ridge, to the left of the others.

    Points right of the ridge stand close under the roof: where they differ in intensity, their labels go below all of
    them, each with a line to its point. Where they stand at the ridge itself, the labels of points left of it are in
    the way, and theirs go to the right too.
    """
    for memory_bound in (True, False):
        side = [p for p in points if (p.intensity < roof.ridge) is memory_bound]
        at_ridge = len(side) < len(points) and all(1 <= p.intensity / roof.ridge < _AT_RIDGE for p in side)
        to_the_right = memory_bound or at_ridge
        apart = not to_the_right and _apart(side)
        texts = [
            f"{p.name}: {style.quantity(p.flops, 'FLOP/s')}, {p.flops / roof.attainable(p.intensity):.0%}" for p in side
        ]
        column = max((p.intensity for p in side), default=1.0)
        places = _label_heights(axes, side, texts, apart) if memory_bound or apart else _column_heights(axes, side)
        for point, text, height in zip(side, texts, places, strict=True):
            beside = column if apart else point.intensity  # one column, clear of the labels left of the ridge
            place = (beside * _BESIDE ** (1 if to_the_right else -1), height)
            at = (point.intensity, point.flops)
            if apart or to_the_right:  # below all labels, so that no leader strikes through one
                leader = {"arrowstyle": "-", "color": style.MUTED, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 4}
                axes.annotate("", at, xytext=place, textcoords="data", arrowprops=leader, zorder=2.5)
            axes.annotate(
                text,
                at,
                xytext=place,
                textcoords="data",
                ha="left" if to_the_right else "right",
                va="center",
                fontsize=style.SMALL + 0.5,
                color=style.INK,
                zorder=4,
                bbox={"facecolor": style.PANEL, "edgecolor": "none", "pad": 0.5},
            )


def _column_heights(axes: Axes, points: Sequence[Point]) -> list[float]:
    """Heights of labels, in FLOP/s: beside their points, moved down (from the highest on) where they would touch."""
    line = _line(axes)
    heights: dict[int, float] = {}
    ceiling = np.inf
    for number in sorted(range(len(points)), key=lambda n: -points[n].flops):
        heights[number] = ceiling = min(points[number].flops, ceiling / line)
    return [heights[number] for number in range(len(points))]


def _label_heights(axes: Axes, points: Sequence[Point], texts: Sequence[str], apart: bool) -> list[float]:
    """The same, clear of the slope and of all points: left of the ridge from just below each point on; with `apart`
    from below the lowest point on, the points furthest to the left first."""
    line = _line(axes)
    left, right = axes.get_xlim()
    heights: dict[int, float] = {}
    ceiling = min((p.flops for p in points), default=1.0) / line**0.5 if apart else np.inf
    order = sorted(range(len(points)), key=lambda n: (points[n].intensity if apart else 0, -points[n].flops))
    for number in order:
        height = min(points[number].flops / line, ceiling / line)
        start = points[number].intensity * _BESIDE
        end = start * (right / left) ** (_LETTER * len(texts[number]))
        while not apart and any(
            start / 1.1 < p.intensity < end and abs(np.log(p.flops / height)) < 0.9 * np.log(line) for p in points
        ):
            height /= line**0.25
        heights[number] = ceiling = height
    return [heights[number] for number in range(len(points))]


def _line(axes: Axes) -> float:
    """The height of a line of text, as a factor on the vertical axis."""
    bottom, top = axes.get_ylim()
    return (top / bottom) ** _LINE
