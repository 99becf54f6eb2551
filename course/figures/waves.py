"""How the blocks of a grid take the places that the SMs have for them: waves, and a tail. A model."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from course.figures.explore import Explorer
from warplab.figures import style


@dataclass(frozen=True)
class Placed:
    """One block's stay on an SM, in the unit of the durations."""

    block: int
    sm: int
    slot: int  # which of the SM's places
    start: float
    end: float


def place_blocks(durations: Sequence[float], sms: int, slots: int = 1) -> list[Placed]:
    """Give blocks to places in order of their number: the first ones SM by SM, every later one to the first that is
    free. Real hardware promises no order; this is the simplest one that keeps every place busy.
    """
    free = [(0.0, slot, sm) for slot in range(slots) for sm in range(sms)]
    heapq.heapify(free)
    placed = []
    for block, duration in enumerate(durations):
        start, slot, sm = heapq.heappop(free)
        placed.append(Placed(block, sm, slot, start, start + duration))
        heapq.heappush(free, (start + duration, slot, sm))
    return placed


def waves(
    durations: Sequence[float], *, sms: int = 4, slots: int = 1, unit: str = "block lengths", title: str = ""
) -> Figure:
    """Places of the SMs as rows, time from left to right in `unit`, a bar a block. Raises ValueError without blocks."""
    if not durations:
        raise ValueError("a grid has at least one block")
    placed = place_blocks(durations, sms, slots)
    end = max(one.end for one in placed)
    used = sum(durations) / (end * sms * slots)
    rows = sms * slots
    made, (axes,) = style.figure(11, 1.35 + min(0.32 * rows, 5.5))
    for one in placed:
        colour = style.PALETTE[int(one.block // rows) % 5]
        axes.add_artist(
            Rectangle(
                (one.start, one.sm * slots + one.slot + 0.08), one.end - one.start, 0.84, facecolor=colour,
                edgecolor=style.PANEL, linewidth=1.2, gid=f"block {one.block}",
            )
        )  # fmt: skip
        if len(placed) <= 80:
            axes.text(
                (one.start + one.end) / 2, one.sm * slots + one.slot + 0.5, f"{one.block}", ha="center",
                va="center", size=style.SMALL, color=style.ink_on(colour),
            )  # fmt: skip
    for sm in range(1, sms):
        axes.axhline(sm * slots, color=style.FAINT, linewidth=0.8, zorder=0)
    axes.set_xlim(0, end * 1.01)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(rows, 0)
    axes.set_yticks([(sm + 0.5) * slots for sm in range(sms)], [f"SM {sm}" for sm in range(sms)])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"time, in {unit} (modelled)")
    many = "block" if len(placed) == 1 else "blocks"
    style.headline(
        made,
        title or f"{len(placed)} {many} on {sms} SMs with {slots} place{'s' * (slots > 1)} each",
        f"ends after {end:,.4g} {unit}; {used:.0%} of the places' time is used. A model: no order is promised",
    )
    return made


def explore_waves() -> Explorer:
    """Choose how many equal blocks there are and how many an SM holds; see the waves and the tail."""

    def draw(blocks: int, places_per_SM: int) -> Figure:  # noqa: N803 a label of the slider
        return waves([1.0] * blocks, sms=4, slots=places_per_SM)

    return Explorer(draw, blocks=(9, range(1, 41)), places_per_SM=(1, range(1, 5)))
