"""A pipeline schedule as time: a row for each GPU, a cell for each pass."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from systems.parallel.timeline import Cell, Kind, Pass, idle
from warplab.figures import style

_COLOURS = {Kind.FORWARD: style.SKY, Kind.BACKWARD: style.GREEN, Kind.INPUT: style.ORANGE, Kind.WEIGHTS: style.PURPLE}
_NAMES = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "backward, for the input",
    Kind.WEIGHTS: "backward, for the weights",
}

_WIDE = 9.0  # inches


def stages(cells: Sequence[Cell], *, title: str, chunks: int = 1) -> Figure:
    """Draw the cells; numbers, where there is room, are micro-batches. Of `chunks` stages a GPU deeper ones are paler.

    The subtitle says which share of the time the GPU that waits longest waits. Raises ValueError without cells.
    """
    if not cells:
        raise ValueError("there is nothing to draw: run an order first")
    gpus, end = 1 + max(cell.gpu for cell in cells), max(cell.end for cell in cells)
    made, (axes,) = style.figure(_WIDE, 1.6 + 0.36 * gpus)
    axes.set_xlim(0, end)
    axes.set_ylim(gpus, 0)
    shown: dict[Kind, None] = {}
    for cell in cells:
        parts = [cell.done, cell.done.beside] if cell.done.beside else [cell.done]
        for row, part in enumerate(parts):
            shown[part.kind] = None
            _cell(axes, cell, part, row, len(parts), gpus * chunks, _WIDE / end)
    axes.set_yticks([gpu + 0.5 for gpu in range(gpus)], [f"GPU {gpu}" for gpu in range(gpus)])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time, in forward passes of a GPU's layers")
    axes.spines["left"].set_visible(False)
    marks = [Patch(facecolor=_COLOURS[kind], label=_NAMES[kind]) for kind in Kind if kind in shown]
    made.legend(handles=marks, loc="outside lower center", ncols=4, frameon=False, fontsize=style.TEXT)
    waits = max(idle(list(cells), gpu) for gpu in range(gpus))
    style.headline(made, title, f"{waits / end:.0%} of {end:g} is waiting; a number is a micro-batch")
    return made


def _cell(axes: Axes, cell: Cell, part: Pass, row: int, rows: int, stages: int, inches: float) -> None:
    height = 0.92 / rows
    top = cell.gpu + 0.04 + row * height
    depth = part.stage / max(1, stages - 1) if rows == 1 else 0.0
    axes.add_artist(
        Rectangle(
            (cell.start, top), cell.end - cell.start, height, facecolor=_COLOURS[part.kind], edgecolor=style.PANEL,
            linewidth=0.8, alpha=1 - 0.45 * depth,
        )
    )  # fmt: skip
    said = str(part.micro_batch)
    if (cell.end - cell.start) * inches > 0.02 + 0.11 * len(said) and rows == 1:
        axes.text(
            (cell.start + cell.end) / 2, top + height / 2, said, ha="center", va="center",
            size=style.TEXT - 1, color=style.INK,
        )  # fmt: skip
