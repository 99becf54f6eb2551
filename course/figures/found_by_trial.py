"""The course of searches: how many of them have found a good choice, over the trials that it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from warplab.figures import style

_DASHES = ("-", (0, (6, 2)), (0, (1, 1.2)), "-.")


def found_by_trial(searches: Mapping[str, Sequence[int]], *, title: str, subtitle: str = "") -> Figure:
    """For each kind the share of its searches that needed at most so many trials, as stairs; named at their ends.

    Raises ValueError without searches, or with more kinds than there are dashes.
    """
    if not searches or len(searches) > len(_DASHES):
        raise ValueError(f"there are between 1 and {len(_DASHES)} kinds of searches, not {len(searches)}")
    most = max(max(needed) for needed in searches.values())
    made, (axes,) = style.figure(9.0, 4.0)
    for (name, needed), colour, dash in zip(searches.items(), style.PALETTE, _DASHES, strict=False):
        share = [100 * sum(n <= trial for n in needed) / len(needed) for trial in range(most + 1)]
        axes.step(range(most + 1), share, where="post", color=colour, linewidth=2.4, linestyle=dash, label=name)
    axes.set_xlim(0, most)
    axes.set_ylim(0, 103)
    axes.set_xlabel("trials")
    axes.set_ylabel("searches that have found one, %")
    axes.grid(True)
    axes.legend(frameon=False, fontsize=style.TEXT, loc="lower right")
    style.headline(made, title, subtitle)
    return made
