"""Values that threads hold step by step: a reduction as a tree, and rows of lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.explore import Explorer
from warplab.figures import style
from warplab.hardware.requests import LANES

_HEIGHT = 1.9  # from one row of a tree to the next, in cells


def tree(history: np.ndarray, partners: Sequence[Mapping[int, int]], *, steps: int, title: str = "") -> Figure:
    """The first `steps` steps of a reduction: row r of `history` [steps + 1, threads] is what the tile holds after r.

    `partners[r]` maps each thread that adds in step r to the one whose value it takes. Raises ValueError if there are
    fewer steps.
    """
    if not 0 <= steps <= len(partners) or len(history) != len(partners) + 1:
        raise ValueError(f"the reduction has {len(partners)} steps and {len(history)} states, not {steps} steps")
    width = history.shape[1]
    made, (axes,) = style.figure(11, 1.1 + 0.42 * _HEIGHT * (len(partners) + 0.6))
    style.canvas(axes)
    axes.set_xlim(-2.6, width + 0.1)
    axes.set_ylim(_HEIGHT * len(partners) + 1.2, -0.6)
    for row in range(steps + 1):
        top = _HEIGHT * row
        adding = partners[row - 1] if row else {}
        label = "start" if row == 0 else f"step {row}"
        axes.text(-0.3, top + 0.5, label, ha="right", va="center", size=style.TEXT, color=style.INK)
        for thread in range(width):
            live = row == 0 or thread in adding
            colour = style.BLUE if live else style.EMPTY
            _value(axes, thread, top, history[row, thread], colour, gid=f"{row} {thread}")
            if thread in adding:
                for source, look in ((thread, style.MUTED), (adding[thread], style.ORANGE)):
                    axes.annotate(
                        "", (thread + 0.5, top - 0.02), (source + 0.5, top - _HEIGHT + 1.04),
                        arrowprops={"arrowstyle": "-|>", "color": look, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0},
                    )  # fmt: skip
    adds = len(partners[steps - 1]) if steps else width
    who = "the thread that" if adds == 1 else f"the {adds} threads that"
    style.headline(
        made,
        title or f"A sum by a tree: after {steps} of {len(partners)} steps",
        f"blue, at the bottom: {who} {'added in this step' if steps else 'hold a number each'};"
        " orange: taken from another thread",
    )
    return made


def halving(width: int) -> list[dict[int, int]]:
    """The partners of a tree that halves: in each step thread t of the first half adds what lies half a width on."""
    partners = []
    while width > 1:
        width //= 2
        partners.append({thread: thread + width for thread in range(width)})
    return partners


def explore_tree(history: np.ndarray) -> Explorer:
    """A slider over the steps of a halving tree; `history` [steps + 1, threads] as for `tree`."""
    partners = halving(history.shape[1])

    def draw(steps: int) -> Figure:
        return tree(history, partners, steps=steps)

    return Explorer(draw, steps=(len(partners), range(len(partners) + 1)))


def lane_rows(rows: Mapping[str, Sequence[object]], *, marked: Mapping[str, Sequence[bool]], title: str = "",
              subtitle: str = "") -> Figure:  # fmt: skip
    """What the 32 lanes of a warp hold, a row each; `marked` says for a row which lanes are blue. Raises ValueError for
    rows of another length.
    """
    if any(len(values) != LANES for values in (*rows.values(), *marked.values())):
        raise ValueError(f"each row has a value for each of the {LANES} lanes")
    made, (axes,) = style.figure(11, 0.95 + 0.36 * len(rows))
    style.canvas(axes)
    axes.set_xlim(-5.6, LANES + 0.1)
    axes.set_ylim(len(rows) + 0.1, -0.7)
    for lane in range(LANES):
        axes.text(lane + 0.5, -0.1, f"{lane}", ha="center", va="bottom", size=style.SMALL, color=style.MUTED)
    axes.text(-0.3, -0.1, "lane", ha="right", va="bottom", size=style.SMALL, color=style.MUTED)
    for row, (name, values) in enumerate(rows.items()):
        axes.text(-0.3, row + 0.5, name, ha="right", va="center", size=style.TEXT, color=style.INK)
        chosen = marked.get(name, [False] * LANES)
        for lane, value in enumerate(values):
            colour = style.BLUE if chosen[lane] else style.EMPTY
            _value(axes, lane, row, value, colour, gid=f"{name} {lane}")
    style.headline(made, title or "What the lanes hold", subtitle)
    return made


def _value(axes: Axes, left: float, top: float, value: object, colour: str, gid: str) -> None:
    axes.add_artist(Rectangle((left, top), 1, 1, facecolor=colour, edgecolor=style.PANEL, linewidth=1.2, gid=gid))
    axes.text(left + 0.5, top + 0.5, f"{value}", ha="center", va="center", size=style.SMALL, color=style.ink_on(colour))
