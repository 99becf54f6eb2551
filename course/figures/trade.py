"""Memory against what it costs to do without: one curve for each way to trade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from warplab.figures import style


def trade(
    curves: Mapping[str, Sequence[tuple[float, float]]], points: Mapping[str, tuple[float, float]], *,
    title: str, subtitle: str = "", across: str, up: str,
) -> Figure:  # fmt: skip
    """Curves of (memory, cost), and single points that have a name beside them.

    The first curve is drawn as the stairs that it is: between two of its points, the dearer one is all there is.
    Raises ValueError without curves, or with more than there are colours.
    """
    if not curves or len(curves) > len(style.PALETTE):
        raise ValueError(f"there are between 1 and {len(style.PALETTE)} curves, not {len(curves)}")
    made, (axes,) = style.figure(9.5, 4.4)
    for number, (name, curve) in enumerate(curves.items()):
        x, y = zip(*sorted(curve), strict=True)
        colour = style.PALETTE[number]
        if number == 0:
            axes.step(x, y, where="post", color=colour, linewidth=2, label=name)
        else:
            axes.plot(x, y, color=colour, linewidth=1.2, linestyle="--", marker="o", markersize=5, label=name)
    for name, (memory, cost) in points.items():
        axes.plot([memory], [cost], color=style.INK, marker="D", markersize=6, linestyle="none")
        axes.annotate(
            name, (memory, cost), xytext=(7, 6), textcoords="offset points", size=style.SMALL + 1, color=style.INK
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=-2)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=style.SMALL + 1)
    style.headline(made, title, subtitle)
    return made
