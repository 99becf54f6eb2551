"""What was planned for published training runs against what was published."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from systems.parallel.runs import Run
from warplab.figures import style

_MARKERS = "os^Dv"


def planned_runs(some: Sequence[Run], *, title: str, subtitle: str = "") -> Figure:
    """A dot per run, a colour and a shape per document; hollow ones are in the fit of a constant. The band is 10%.

    Raises ValueError without runs.
    """
    if not some:
        raise ValueError("there are no runs to draw")
    made, (axes,) = style.figure(9.0, 5.2)
    titles = list(dict.fromkeys(run.title for run in some))
    short = {name: _short(name) for name in titles}
    labels = {name: name if list(short.values()).count(short[name]) > 1 else short[name] for name in titles}
    top = 1.05 * max(max(run.published, run.planned()) for run in some)
    axes.fill_between([0, top], [0, 0.9 * top], [0, 1.1 * top], color=style.FAINT, alpha=0.6, linewidth=0)
    axes.plot([0, top], [0, top], color=style.MUTED, linewidth=1.0)
    for number, name in enumerate(titles):
        colour = style.PALETTE[number % len(style.PALETTE)]
        marker = _MARKERS[number // len(style.PALETTE) % len(_MARKERS)]
        for fit in (False, True):
            dots = [run for run in some if run.title == name and run.fit is fit]
            axes.plot(
                [run.published for run in dots], [run.planned() for run in dots], marker, color=colour, markersize=7,
                markerfacecolor=style.PANEL if fit else colour, label=labels[name] if dots and not fit else None,
            )  # fmt: skip
    low = 0.9 * min(min(run.published, run.planned()) for run in some)
    axes.set_xlim(low, top)
    axes.set_ylim(low, top)
    axes.set_xlabel("published utilisation of the bfloat16 peak")
    axes.set_ylabel("planned")
    axes.grid(True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=style.TEXT)
    style.headline(made, title, subtitle)
    return made


def _short(title: str) -> str:
    """The authors and the year of "Names, Title, 2021", or as much as there is."""
    parts = title.split(", ")
    return f"{parts[0]}, {parts[-1]}" if parts[-1].isdigit() else parts[0]
