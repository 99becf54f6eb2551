"""The way of a submission: from a file to a Plan, and from there to the emulator and the GPU."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warplab.figures import style

_BOXES = (
    (0.0, 0.55, 2.4, style.FAINT, "submission.py", "your kernel and the\nfunction that calls it"),
    (2.85, 0.55, 2.4, style.ORANGE, "capture", "runs it once, writes\nlaunches down"),
    (5.7, 0.55, 2.4, style.BLUE, "Plan", "PTX, buffers and\nlaunches, no Python"),
    (8.55, 1.05, 2.4, style.GREEN, "emulator", "results, counters,\nfaults"),
    (8.55, 0.05, 2.4, style.GREEN, "GPU, if there is one", "results, time"),
)
_ARROWS = (((2.4, 1), (2.85, 1)), ((5.25, 1), (5.7, 1)), ((8.1, 1.1), (8.55, 1.45)), ((8.1, 0.9), (8.55, 0.5)))


def way_of_a_submission() -> Figure:
    """What is done with a learner's file, from left to right."""
    made, (axes,) = style.figure(11, 2.7)
    style.canvas(axes)
    axes.set_xlim(0, 11)
    axes.set_ylim(0, 2)
    for left, bottom, width, colour, title, text in _BOXES:
        ink = style.ink_on(colour)
        axes.add_artist(Rectangle((left, bottom), width, 0.9, facecolor=colour, edgecolor="none", gid=title))
        axes.text(left + 0.1, bottom + 0.77, title, va="top", weight="bold", color=ink)
        axes.text(left + 0.1, bottom + 0.48, text, va="top", size=style.SMALL, color=ink)
    for start, end in _ARROWS:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.INK, "linewidth": 1.3})
    style.headline(
        made, "A submission is compiled into data", "what times and checks your kernel never runs your Python"
    )
    return made
