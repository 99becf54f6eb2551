"""Memory against what it costs to do without: one curve for each way to trade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from warplab.figures import style

_MANY = 10  # points of a curve that is stairs


def trade(
    curves: Mapping[str, Sequence[tuple[float, float]]], points: Mapping[str, tuple[float, float]], *,
    title: str, subtitle: str = "", across: str, up: str,
) -> Figure:  # fmt: skip
    """Curves of (memory, cost), and single points that have a name beside them.

    A first curve of many points is drawn as the stairs that it is: between two of its points, the dearer one is all
    there is. A few measured points are dots, with a thin line for the eye.
    Raises ValueError without curves, or with more than there are colours.
    """
    if not curves or len(curves) > len(style.PALETTE):
        raise ValueError(f"there are between 1 and {len(style.PALETTE)} curves, not {len(curves)}")
    made, (axes,) = style.figure(9.0, 4.4)
    for number, (name, curve) in enumerate(curves.items()):
        x, y = zip(*sorted(curve), strict=True)
        colour = style.PALETTE[number]
        if number == 0 and len(curve) >= _MANY:
            axes.step(x, y, where="post", color=colour, linewidth=2, label=name)
        else:
            marker = "os^Dv"[number % 5]
            axes.plot(x, y, color=colour, linewidth=1.2, linestyle="--", marker=marker, markersize=7, label=name)
    for name, (memory, cost) in points.items():
        axes.plot([memory], [cost], color=style.INK, marker="D", markersize=6, linestyle="none")
        axes.annotate(name, (memory, cost), xytext=(7, 6), textcoords="offset points", size=style.TEXT, color=style.INK)
    axes.set_xlim(left=0)
    most = max(cost for curve in (*curves.values(), [*points.values()]) for _, cost in curve)
    axes.set_ylim(-2, 1.1 * most)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=style.TEXT)
    style.headline(made, title, subtitle)
    return made
