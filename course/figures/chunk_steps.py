"""What each rank holds of each chunk after each step of a schedule: how a collective fills up, at a glance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from systems.network.schedules import Schedule, ScheduleError, check
from systems.network.schedules.interpret import carry_out
from systems.network.schedules.model import Columns, expand, starts_with
from warplab.figures import style

_MOST_PANELS = 16
_MOST_CELLS = 16  # ranks or chunks


class _History:
    """Sets of contributions as bits, and how many each rank had of each chunk when it was done with a step."""

    def __init__(self, schedule: Schedule, moves: Columns) -> None:
        self.moves = moves
        self.held = [
            {c: 1 << rank for c in range(schedule.chunks) if starts_with(schedule, rank, c)}
            for rank in range(schedule.ranks)
        ]
        self.counts = np.zeros((schedule.steps + 1, schedule.ranks, schedule.chunks), np.int64)
        self.arrived = np.zeros(self.counts.shape, bool)
        for rank in range(schedule.ranks):
            self._keep(rank, 0)

    def read(self, rank: int, chunk: int, step: int, transfer: int) -> int:
        return self.held[rank].get(chunk, 0)

    def take(self, rank: int, step: int, arrivals: Sequence[tuple[int, int]]) -> None:
        for number, value in arrivals:
            chunk = int(self.moves.chunk[number])
            self.held[rank][chunk] = value | (self.held[rank].get(chunk, 0) if self.moves.reduce[number] else 0)
            self.arrived[step + 1, rank, chunk] = True
        self._keep(rank, step + 1)

    def _keep(self, rank: int, moment: int) -> None:
        for chunk, bits in self.held[rank].items():
            self.counts[moment:, rank, chunk] = bits.bit_count()


def contributions(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """How many ranks' data is in each chunk on each rank, and what has just arrived: shape (steps + 1, ranks, chunks).

    Entry 0 is the beginning. Raises ScheduleError for a schedule that does not pass `check`.
    """
    if finding := check(schedule):
        raise ScheduleError(finding.sentence)
    moves = expand(schedule)
    history = _History(schedule, moves)
    carry_out(moves, schedule.ranks, history)
    return history.counts, history.arrived


def chunk_steps(schedule: Schedule, *, title: str = "", subtitle: str = "") -> Figure:
    """A panel for each step: rows are ranks, columns chunks; the darker, the more ranks' data is in it.

    A frame marks what arrived in the step. Raises ScheduleError for more than 15 steps or 16 ranks or chunks, or a
    schedule that is wrong.
    """
    if schedule.steps + 1 > _MOST_PANELS or max(schedule.ranks, schedule.chunks) > _MOST_CELLS:
        raise ScheduleError(f"{schedule.name} has {schedule.steps} steps, {schedule.ranks} ranks and {schedule.chunks} "
                            "chunks: at most 15, 16 and 16 fit into a picture.")  # fmt: skip
    counts, arrived = contributions(schedule)
    panels = len(counts)
    made, all_axes = style.figure(max(5.0, 1.2 * panels + 0.6), 1.1 + 0.34 * schedule.ranks + 0.4, widths=(1,) * panels)
    for moment, axes in enumerate(all_axes):
        axes.imshow(counts[moment] / schedule.ranks, cmap="Blues", vmin=0, vmax=1.35, aspect="auto")
        for rank, chunk in np.ndindex(schedule.ranks, schedule.chunks):
            count = int(counts[moment, rank, chunk])
            shade = "#FFFFFF" if count > 0.75 * schedule.ranks else style.INK
            axes.text(chunk, rank, str(count or ""), ha="center", va="center", size=style.TEXT - 1, color=shade)
            if arrived[moment, rank, chunk]:
                frame = (chunk - 0.44, rank - 0.44)
                axes.add_patch(Rectangle(frame, 0.88, 0.88, fill=False, edgecolor=style.ORANGE, linewidth=2))
        axes.set_xticks(range(schedule.chunks))
        axes.set_yticks(
            range(schedule.ranks), labels=[f"rank {r}" for r in range(schedule.ranks)] if not moment else []
        )
        axes.tick_params(length=0, labelsize=style.TEXT - 1)
        axes.set_title("at first" if not moment else f"after step {moment - 1}", size=style.TEXT, color=style.INK)
        for spine in axes.spines.values():
            spine.set_visible(False)
    style.headline(made, title or schedule.name, subtitle)
    return made
