"""How the tiles of A, B and C move in a tiled matrix product: from global to shared memory to registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warplab.figures import style

_GAP = 0.192  # between the matrices, in units of the longest side


@dataclass(frozen=True)
class Tiling:
    """C (m x n) = A (m x k) B (k x n): a block of threads makes `block` of C, `depth` of k at a time; a thread makes
    `thread` of it in registers. Sizes in elements.

    Raises ValueError if a thread's tile does not divide the block's.
    """

    m: int
    n: int
    k: int
    block: tuple[int, int]
    depth: int
    thread: tuple[int, int]

    def __post_init__(self) -> None:
        if any(b % t for b, t in zip(self.block, self.thread, strict=True)):
            raise ValueError(f"a thread's tile {self.thread} must divide the block's tile {self.block}")

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return (self.block[0] // self.thread[0]) * (self.block[1] // self.thread[1])

    @property
    def global_reuse(self) -> float:
        """Multiply-adds for each element that a block loads from global memory: bm bn / (bm + bn)."""
        rows, columns = self.block
        return rows * columns / (rows + columns)

    @property
    def shared_reuse(self) -> float:
        """Multiply-adds for each element that a thread loads from shared memory: tm tn / (tm + tn)."""
        rows, columns = self.thread
        return rows * columns / (rows + columns)


def tiles(
    tiling: Tiling, *, block: tuple[int, int] = (1, 1), step: int = 2, thread: tuple[int, int] = (3, 5)
) -> Figure:
    """Left, one block of C with the slabs of A and B that pass by it, at step number `step`; right, that block's tiles
    in shared memory, with one thread's operands and sums. `block` and `thread` are (row, column) in their grids.
    """
    made, (left, right) = style.figure(11.5, 5.9, widths=(1.5, 1))
    _global_view(left, tiling, block, step)
    _shared_view(right, tiling, thread)
    style.headline(
        made,
        f"A {tiling.block[0]} x {tiling.block[1]} block tile, {tiling.depth} deep, by {tiling.threads} threads"
        f" of {tiling.thread[0]} x {tiling.thread[1]}",
        f"an element from global memory is used for {tiling.global_reuse:.3g} multiply-adds,"
        f" an element from shared memory for {tiling.shared_reuse:.3g}",
    )
    return made


def _frame(axes: Axes, width: float, height: float) -> None:
    style.canvas(axes)
    axes.set_aspect("equal")
    axes.set_xlim(-0.06 * width, width * 1.02)
    axes.set_ylim(height * 1.08, -0.1 * height)


def _box(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], colour: str, gid: str, **more: Any
) -> None:
    axes.add_artist(Rectangle(corner, *size, **{"facecolor": colour, "edgecolor": "none", "gid": gid, **more}))


def _global_view(axes: Axes, tiling: Tiling, block: tuple[int, int], step: int) -> None:
    m, n, k = tiling.m, tiling.n, tiling.k
    rows, columns = tiling.block
    gap = _GAP * max(m, n, k)
    _frame(axes, k + gap + n, k + gap + m)
    a, b, c = (0.0, k + gap), (k + gap, 0.0), (k + gap, k + gap)
    outline = {"edgecolor": style.MUTED, "linewidth": 1.0}
    for name, corner, size in (("A", a, (k, m)), ("B", b, (n, k)), ("C", c, (n, m))):
        _box(axes, corner, size, style.EMPTY, f"matrix {name}", **outline)
    top, side = block[0] * rows, block[1] * columns
    _box(axes, (a[0], a[1] + top), (k, rows), style.BLUE, "A slab", alpha=0.22)
    _box(axes, (b[0] + side, b[1]), (columns, k), style.ORANGE, "B slab", alpha=0.25)
    _box(axes, (a[0] + step * tiling.depth, a[1] + top), (tiling.depth, rows), style.BLUE, "A tile")
    _box(axes, (b[0] + side, b[1] + step * tiling.depth), (columns, tiling.depth), style.ORANGE, "B tile")
    _box(axes, (c[0] + side, c[1] + top), (columns, rows), style.GREEN, "C tile")
    for line in range(rows, m, rows):
        axes.plot([c[0], c[0] + n], [c[1] + line] * 2, color=style.PANEL, linewidth=1.2)
    for line in range(columns, n, columns):
        axes.plot([c[0] + line] * 2, [c[1], c[1] + m], color=style.PANEL, linewidth=1.2)
    ahead = {"arrowstyle": "-|>", "color": style.INK, "linewidth": 1.4}
    middle_a, middle_b = a[1] + top + rows / 2, b[0] + side + columns / 2
    here, there = (step + 1.4) * tiling.depth, min(k, (step + 1.4) * tiling.depth + k / 4)
    axes.annotate("", (there, middle_a), (here, middle_a), arrowprops=ahead)
    axes.annotate("", (middle_b, there), (middle_b, here), arrowprops=ahead)
    for text, x, y in (
        (f"A, {m} x {k}", 0.0, k + gap),
        (f"B, {k} x {n}", k + gap, 0.0),
        (f"C, {m} x {n}", k + gap, k + gap),
    ):
        axes.text(x, y - 0.02 * (k + m), text, va="bottom", color=style.INK, size=style.TEXT)
    axes.text(0, 0, "global\nmemory", va="bottom", weight="bold", color=style.INK, size=style.TEXT)


def _shared_view(axes: Axes, tiling: Tiling, thread: tuple[int, int]) -> None:
    rows, columns = tiling.block
    tall, wide = tiling.thread
    depth = max(tiling.depth, 0.09 * max(rows, columns))  # drawn wide enough to see
    gap = _GAP * max(rows, columns)
    _frame(axes, depth + gap + columns, depth + gap + rows)
    c = (depth + gap, depth + gap)
    top, side = thread[0] * tall, thread[1] * wide
    _box(axes, (0, c[1]), (depth, rows), style.BLUE, "shared A", alpha=0.3)
    _box(axes, (c[0], 0), (columns, depth), style.ORANGE, "shared B", alpha=0.3)
    _box(axes, c, (columns, rows), style.EMPTY, "block C", edgecolor=style.MUTED, linewidth=1.0)
    _box(axes, (c[0], c[1] + top), (columns, tall), style.BLUE, "A fragment reach", alpha=0.12)
    _box(axes, (c[0] + side, c[1]), (wide, rows), style.ORANGE, "B fragment reach", alpha=0.14)
    _box(axes, (0, c[1] + top), (depth, tall), style.BLUE, "A fragment")
    _box(axes, (c[0] + side, 0), (wide, depth), style.ORANGE, "B fragment")
    for line in range(tall, rows, tall):
        axes.plot([c[0], c[0] + columns], [c[1] + line] * 2, color=style.FAINT, linewidth=0.5)
    for line in range(wide, columns, wide):
        axes.plot([c[0] + line] * 2, [c[1], c[1] + rows], color=style.FAINT, linewidth=0.5)
    _box(axes, (c[0] + side, c[1] + top), (wide, tall), style.GREEN, "register tile")
    down = c[1] + rows + 0.02 * rows
    axes.text(0, down, f"A tile\n{rows} x {tiling.depth}", va="top", size=style.SMALL, color=style.INK)
    axes.text(
        c[0] + columns,
        depth + 0.02 * rows,
        f"B tile, {tiling.depth} x {columns}",
        ha="right",
        va="top",
        size=style.SMALL,
        color=style.INK,
    )
    axes.text(
        c[0],
        down,
        "one square per thread; green: one thread's sums, in registers",
        va="top",
        size=style.SMALL,
        color=style.INK,
    )
    axes.text(
        0, -0.02 * rows, "shared memory and registers", va="bottom", weight="bold", color=style.INK, size=style.TEXT
    )
