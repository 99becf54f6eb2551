"""The threads of a whole launch, block by block, joined to the elements that they touch."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from warplab.emulator.profiling.reach import Reach
from warplab.figures import style
from warplab.plan.model import Dim3

_MOST = 64  # threads or elements in a row that are still told apart
_GAP = 0.7  # between blocks, in threads


def threads_to_elements(reach: Reach, *, title: str = "", by_element: bool = False) -> Figure:
    """Each thread, joined to the elements of a one-dimensional array that it touched; red: outside of the array.

    In each thread stands its threadIdx.x. A colour is a block's, or an element's if `by_element` is true. Raises
    ValueError for more than 64 threads or elements, and for arrays or blocks of more than one dimension.
    """
    threads = list(reach.places)
    if len(reach.shape) != 1 or any(n > 1 for n in (*reach.grid[1:], *reach.block[1:])):
        raise ValueError("this picture is of arrays and blocks of one dimension")
    last = max([reach.shape[0] - 1, *(touch.index[0] for touch in reach.touches)])
    first = min([0, *(touch.index[0] for touch in reach.touches)])
    if len(threads) > _MOST or last - first >= _MOST:
        raise ValueError(f"at most {_MOST} threads and elements can be told apart, not {max(len(threads), last + 1)}")
    width = len(threads) + _GAP * (reach.grid[0] - 1)
    cell = min(width / (last - first + 1), 1.6)
    start = (width - cell * (last - first + 1)) / 2
    made, (axes,) = style.figure(11, 2.9)
    style.canvas(axes)
    axes.set_xlim(-0.02 * width, width * 1.02)
    axes.set_ylim(-0.25, 4.1)
    elements = {index: start + (index - first) * cell for index in range(first, last + 1)}
    owners: dict[int, str] = {}
    for block, thread in threads:
        left = block[0] * (reach.block[0] + _GAP) + thread[0]
        colour = style.PALETTE[block[0] % 5]
        touched = reach.of(block, thread)
        _thread(axes, left, block, thread, (style.FAINT if by_element else colour) if touched else style.EMPTY)
        for touch in touched:
            (index,) = touch.index
            colour = style.PALETTE[index % 5] if by_element else colour
            owners.setdefault(index, colour)
            axes.plot(
                [left + 0.5, elements[index] + cell / 2], [2.3, 0.75], linewidth=1.1, alpha=0.85, zorder=0,
                color=colour if touch.inside else style.RED,
            )  # fmt: skip
    for number in range(reach.grid[0]):
        left = number * (reach.block[0] + _GAP)
        axes.plot([left + 0.05, left + reach.block[0] - 0.05], [3.25, 3.25], color=style.MUTED, linewidth=1)
        axes.text(
            left + reach.block[0] / 2, 3.4, f"block {number}", ha="center", va="bottom", size=style.TEXT,
            color=style.INK,
        )  # fmt: skip
    for index, left in elements.items():
        _element(axes, left, cell, index, owners.get(index), inside=0 <= index < reach.shape[0])
    style.headline(made, title or f"Who touches which element of {reach.array}", _counts(reach, len(threads)))
    return made


def _counts(reach: Reach, threads: int) -> str:
    each = f"{reach.block[0]} thread{'s' * (reach.block[0] > 1)}"
    said = [f"{reach.grid[0]} blocks of {each}" if reach.grid[0] > 1 else f"one block of {each}"]
    said += [f"{reach.idle} of {threads} threads are idle"] * bool(reach.idle)
    said += [f"red: {reach.outside} reach outside of {reach.array}"] * bool(reach.outside)
    return f"{'; '.join(said)}; as the emulator ran it"


def _thread(axes: Axes, left: float, block: Dim3, thread: Dim3, colour: str) -> None:
    axes.add_artist(
        FancyBboxPatch(
            (left + 0.08, 2.3), 0.84, 0.75, boxstyle="round,pad=0,rounding_size=0.1", facecolor=colour,
            edgecolor=style.FAINT if colour == style.EMPTY else "none", gid=f"thread {block[0]} {thread[0]}",
        )
    )  # fmt: skip
    axes.text(left + 0.5, 2.67, f"{thread[0]}", ha="center", va="center", size=style.SMALL, color=style.ink_on(colour))


def _element(axes: Axes, left: float, cell: float, index: int, colour: str | None, *, inside: bool) -> None:
    face = style.PANEL if not inside else colour or style.EMPTY
    axes.add_artist(
        Rectangle(
            (left + 0.04 * cell, 0), 0.92 * cell, 0.75, facecolor=face, linewidth=1.2 if not inside else 0.6,
            edgecolor=style.FAINT if inside else style.RED, linestyle="-" if inside else "--",
            gid=f"element {index}" if inside else f"outside {index}",
        )
    )  # fmt: skip
    axes.text(
        left + cell / 2, 0.37, f"{index}", ha="center", va="center", size=style.SMALL,
        color=style.ink_on(face) if inside else style.RED,
    )  # fmt: skip
