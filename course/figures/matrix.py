"""Threads on a matrix: which element each thread of a small launch touches, and the sectors of one warp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.explore import Explorer
from warplab.emulator.profiling.reach import Reach
from warplab.figures import style
from warplab.hardware.requests import LANES, SECTOR, sectors_of

_SIZE = 4  # bytes of an element
_SIDE = 32  # of the matrix that `explore_layout` shows
_MAPPINGS = ("x is the column", "x is the row")


def threads_on_matrix(reach: Reach, *, title: str = "") -> Figure:
    """The elements of a matrix, each with the (x, y) of the thread that touched it, in the colour of its block.

    Elements that nobody touched stay empty. Raises ValueError for arrays that are no matrix of at most 12 x 24.
    """
    if len(reach.shape) != 2 or reach.shape[0] > 12 or reach.shape[1] > 24:
        raise ValueError(f"this picture is of matrices of at most 12 x 24, not of {reach.shape}")
    rows, columns = reach.shape
    made, (axes,) = style.figure(11, 1.2 + 0.38 * rows)
    _frame(axes, rows, columns)
    owner = {touch.index: touch for touch in reach.touches if touch.inside}
    for row in range(rows):
        for column in range(columns):
            touch = owner.get((row, column))
            number = 0 if touch is None else touch.block[0] + touch.block[1] * reach.grid[0]
            colour = style.EMPTY if touch is None else style.PALETTE[number % len(style.PALETTE)]
            _cell(axes, row, column, colour, gid=f"element {row} {column}")
            if touch is not None:
                axes.text(
                    column + 0.5, row + 0.5, f"{touch.thread[0]},{touch.thread[1]}", ha="center", va="center",
                    size=style.SMALL, color=style.ink_on(colour),
                )  # fmt: skip
    missed = rows * columns - len(owner)
    _axis_names(axes, rows, columns)
    style.headline(
        made,
        title or f"Which thread touches which element of {reach.array}",
        f"in each cell threadIdx.x, threadIdx.y; a colour per block, {reach.grid[0]} x {reach.grid[1]} of them"
        + (f"; {missed} elements are touched by nobody" if missed else ""),
    )
    return made


def warp_on_matrix(lanes: Sequence[tuple[int, int] | None], shape: tuple[int, int], *, title: str = "") -> Figure:
    """One request of a warp: the (row, column) of each of the 32 lanes in a row-major matrix of 4-byte elements.

    The sectors that come are shaded, the lanes numbered. Raises ValueError as `sectors_of`.
    """
    rows, columns = shape
    addresses = [None if place is None else _SIZE * (place[0] * columns + place[1]) for place in lanes]
    sectors = sectors_of(addresses, _SIZE)
    made, (axes,) = style.figure(7, 6)
    _frame(axes, rows, columns)
    axes.set_aspect("equal")
    axes.add_artist(Rectangle((0, 0), columns, rows, facecolor=style.EMPTY, edgecolor=style.FAINT, linewidth=1))
    each = SECTOR // _SIZE
    for sector in sectors.sectors:
        row, column = divmod(sector * each, columns)
        axes.add_artist(
            Rectangle(
                (column, row), each, 1, facecolor="#F6D9B8", edgecolor=style.PANEL, linewidth=0.8,
                gid=f"sector {sector}",
            )
        )  # fmt: skip
    for lane, place in enumerate(lanes):
        if place is not None:
            row, column = place
            _cell(axes, row, column, style.BLUE, gid=f"lane {lane}")
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{lane}",
                ha="center",
                va="center",
                size=style.SMALL,
                color=style.ink_on(style.BLUE),
            )
    _axis_names(axes, rows, columns)
    share = sectors.bytes_asked / sectors.bytes_moved if sectors.sectors else 0.0
    moved = f"{len(sectors.sectors)} sectors of 32 bytes"
    style.headline(
        made,
        title or "The first warp on the matrix",
        f"blue: its lanes; shaded: the rest of the {moved} that come, {100 * share:.3g}% used"
        if share < 1
        else f"blue: its lanes, in {moved}; every byte is used",
    )
    return made


def places_of_warp(block: tuple[int, int], x_is_column: bool) -> list[tuple[int, int]]:
    """(row, column) of the lanes of a block's first warp; `block` is its extent in x and y, of 32 threads or more."""
    width, _ = block
    threads = [(lane % width, lane // width) for lane in range(LANES)]  # x fastest
    return [(y, x) if x_is_column else (x, y) for x, y in threads]


def explore_layout() -> Explorer:
    """Choose the shape of a block of 32 threads and which index x is; see the warp's elements and its sectors."""

    def draw(block: str, mapping: str) -> Figure:
        width, height = (int(n) for n in block.split(" x "))
        lanes = places_of_warp((width, height), mapping == _MAPPINGS[0])
        return warp_on_matrix(lanes, (_SIDE, _SIDE), title=f"blockDim {width} x {height}, {mapping}")

    shapes = [f"{width} x {LANES // width}" for width in (32, 16, 8, 4, 2, 1)]
    return Explorer(draw, block=(shapes[2], shapes), mapping=(_MAPPINGS[0], _MAPPINGS))


def _frame(axes: Axes, rows: int, columns: int) -> None:
    style.canvas(axes)
    axes.set_xlim(-1.6, columns + 0.1)
    axes.set_ylim(rows + 0.1, -1.3)


def _cell(axes: Axes, row: int, column: int, colour: str, gid: str) -> None:
    axes.add_artist(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=style.PANEL, linewidth=1.0, gid=gid))


def _axis_names(axes: Axes, rows: int, columns: int) -> None:
    names: dict[str, Any] = {"size": style.SMALL, "color": style.MUTED}
    for column in (0, columns - 1):
        axes.text(column + 0.5, -0.2, f"{column}", ha="center", va="bottom", **names)
    for row in (0, rows - 1):
        axes.text(-0.2, row + 0.5, f"{row}", ha="right", va="center", **names)
    axes.text(columns / 2, -0.2, "column", ha="center", va="bottom", **names)
    axes.text(-0.2, rows / 2, "row", ha="right", va="center", **names)
