"""Bars made of parts, one below the other: where memory or time goes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from warplab.figures import style

_COLOURS = (*style.PALETTE, style.MUTED, style.FAINT, style.INK)


def stacks(
    rows: Mapping[str, Mapping[str, float]], *, title: str, subtitle: str = "", across: str, limit: float | None = None,
    limit_name: str = "",
) -> Figure:  # fmt: skip
    """A bar for each row, a colour for each part in the order in which parts first come; `limit` is a vertical line.

    Raises ValueError for no rows, a part below zero, or more parts than there are colours.
    """
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    names = [name for name in names if any(parts.get(name) for parts in rows.values())]
    if not names or len(names) > len(_COLOURS):
        raise ValueError(f"a stack has between 1 and {len(_COLOURS)} parts, not {len(names)}")
    if any(value < 0 for parts in rows.values() for value in parts.values()):
        raise ValueError("a part of a stack cannot be below zero")
    made, (axes,) = style.figure(9.0, 1.5 + 0.36 * len(rows) + 0.2 * -(-len(names) // 4))
    left = dict.fromkeys(rows, 0.0)
    for colour, name in zip(_COLOURS, names, strict=False):
        widths = [parts.get(name, 0.0) for parts in rows.values()]
        axes.barh(list(rows), widths, left=list(left.values()), color=colour, height=0.72, label=name)
        for row, width in zip(rows, widths, strict=True):
            left[row] += width
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(across)
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    if limit is not None:
        axes.axvline(limit, color=style.INK, linewidth=1.2)
        axes.annotate(
            limit_name, (limit, 1), xycoords=("data", "axes fraction"), xytext=(3, 1), textcoords="offset points",
            size=style.TEXT - 1, color=style.INK, va="bottom",
        )  # fmt: skip
    made.legend(loc="outside lower left", ncols=4, frameon=False, fontsize=style.TEXT)
    style.headline(made, title, subtitle)
    return made
