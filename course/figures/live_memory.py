"""Memory over one training step: what is alive after each operator, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from warplab.figures import style


@dataclass(frozen=True)
class Course:
    """Bytes alive after each operator and FLOP of each; the first `forward` operators are the forward pass."""

    live: Sequence[int]
    flops: Sequence[int]
    forward: int


def live_memory(courses: Mapping[str, Course], *, title: str, subtitle: str = "") -> Figure:
    """A line for each step over the FLOP done so far; a dot marks where its forward pass ends.

    Raises ValueError without steps, or with more than there are colours.
    """
    if not courses or len(courses) > len(style.PALETTE):
        raise ValueError(f"there are between 1 and {len(style.PALETTE)} steps to draw, not {len(courses)}")
    made, (axes,) = style.figure(9.0, 4.2)
    for colour, (name, course) in zip(style.PALETTE, courses.items(), strict=False):
        done, alive = np.cumsum(course.flops) / 1e9, np.array(course.live) / 1e6
        axes.step(done, alive, where="post", color=colour, linewidth=1.6, label=name)
        axes.plot([done[course.forward - 1]], [alive[course.forward - 1]], color=colour, marker="o", markersize=7)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("GFLOP done since the step began")
    axes.set_ylabel("MB alive")
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=style.TEXT)
    style.headline(made, title, subtitle)
    return made
