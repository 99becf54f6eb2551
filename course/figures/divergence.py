"""Two paths of a branch, taken by the lanes of one warp: who runs which instruction, and what share of lanes works."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from course.figures.explore import Explorer
from warplab.figures import style

LANES = 32
CONDITIONS: dict[str, Callable[[int], bool]] = {
    "lane < 8": lambda lane: lane < 8,
    "lane < 16": lambda lane: lane < 16,
    "lane == 0": lambda lane: lane == 0,
    "lane % 2 == 0": lambda lane: lane % 2 == 0,
    "block % 2 == 0": lambda lane: True,  # the same for all lanes: of this warp all take the first path
}


def paths(condition: str, first: int, second: int) -> list[tuple[bool, ...]]:
    """The masks, lane by lane, of what a warp issues for `if condition: first instructions, else: second`.

    A path that no lane takes is not issued. Raises ValueError for an unknown condition or no instructions.
    """
    if condition not in CONDITIONS:
        raise ValueError(f"there is no condition {condition!r}: choose one of {', '.join(CONDITIONS)}")
    if min(first, second) < 1:
        raise ValueError("both paths have at least one instruction")
    taken = tuple(CONDITIONS[condition](lane) for lane in range(LANES))
    others = tuple(not one for one in taken)
    return [taken] * (first * any(taken)) + [others] * (second * any(others))


def divergence(condition: str, first: int, second: int) -> Figure:
    """Lanes as rows, the warp's instructions from left to right. Raises as `paths`."""
    masks = paths(condition, first, second)
    made, (axes,) = style.figure(11, 3.4)
    on_first = first if any(CONDITIONS[condition](lane) for lane in range(LANES)) else 0
    for column, mask in enumerate(masks):
        for lane, works in enumerate(mask):
            colour = (style.BLUE if column < on_first else style.ORANGE) if works else style.EMPTY
            kind = "works" if works else "idle"
            style.box(axes, (column + 0.06, lane + 0.08), 0.88, 0.84, facecolor=colour, edgecolor="none", gid=kind)
    axes.set_xlim(0, max(len(masks), 8))
    axes.set_ylim(LANES, 0)
    axes.set_yticks([lane + 0.5 for lane in (0, 8, 16, 24, 31)], ["0", "8", "16", "24", "31"])
    axes.set_ylabel("lane")
    axes.set_xlabel("instructions that the warp issues")
    share = sum(map(sum, masks)) / (LANES * len(masks))
    style.headline(
        made,
        f"if {condition}: {first} instructions, else: {second}",
        f"{len(masks)} instructions are issued, {share:.0%} of their lanes work; blue: first path, orange: the other",
    )
    return made


def explore_divergence() -> Explorer:
    """A menu of conditions, and sliders over how long both paths are."""
    return Explorer(
        divergence, condition=("lane < 8", list(CONDITIONS)), first=(4, range(1, 33)), second=(8, range(1, 33))
    )
