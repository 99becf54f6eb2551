"""The course of searches: the best so far, over the trials that it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from warplab.figures import style


def best_so_far(
    searches: Mapping[str, Sequence[Sequence[float]]], least: float, *, unit: str, title: str, subtitle: str = ""
) -> Figure:
    """For each kind of search the mean of several, as stairs; `least` is the best that there is.

    Raises ValueError without searches, or with more kinds than there are colours.
    """
    if not searches or len(searches) > len(style.PALETTE):
        raise ValueError(f"there are between 1 and {len(style.PALETTE)} kinds of searches, not {len(searches)}")
    made, (axes,) = style.figure(9.5, 3.8)
    for (name, courses), colour in zip(searches.items(), style.PALETTE, strict=False):
        length = min(map(len, courses))
        mean = [sum(course[trial] for course in courses) / len(courses) for trial in range(length)]
        axes.step(range(1, length + 1), mean, where="post", color=colour, linewidth=2, label=name)
    axes.axhline(least, color=style.INK, linewidth=1, linestyle=":")
    axes.set_xlabel("trials")
    axes.set_ylabel(f"best so far, {unit}")
    axes.set_ylim(bottom=0)
    axes.grid(True)
    axes.legend(frameon=False, fontsize=style.SMALL + 1)
    style.headline(made, title, subtitle)
    return made
