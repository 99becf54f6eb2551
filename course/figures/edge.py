"""The last block of a grid that covers n elements: which lanes of which warps have nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course.figures.explore import Explorer
from warplab.figures import style
from warplab.hardware.requests import LANES


@dataclass(frozen=True)
class Cover:
    """The smallest grid of blocks of `block` threads with a thread for each of n elements."""

    n: int
    block: int

    @property
    def blocks(self) -> int:
        """n / block, rounded up."""
        return -(-self.n // self.block)

    @property
    def idle(self) -> int:
        """Threads without an element."""
        return self.blocks * self.block - self.n

    @property
    def last(self) -> int:
        """Elements of the last block."""
        return self.n - (self.blocks - 1) * self.block

    @property
    def warps(self) -> int:
        """Warps of a block; the last one may be only partly there."""
        return -(-self.block // LANES)

    @property
    def parted(self) -> int:
        """Warps in which some lanes have an element and some have none: 0 or 1."""
        return int(self.last % LANES != 0 and self.last != self.block)


def last_block(n: int, block: int, *, title: str = "") -> Figure:
    """The lanes of the last block, a row a warp. Raises ValueError for a block that is not of 1 to 1,024 threads."""
    if not 1 <= block <= 1024 or n < 1:
        raise ValueError("a block has 1 to 1,024 threads, and there is at least one element")
    cover = Cover(n, block)
    made, (axes,) = style.figure(9, 1.5 + 0.19 * max(cover.warps, 4))
    style.canvas(axes)
    axes.set_xlim(-4, LANES)
    axes.set_ylim(cover.warps + 0.2, -1.2)
    for warp in range(cover.warps):
        threads = range(warp * LANES, min((warp + 1) * LANES, block))
        busy = sum(thread < cover.last for thread in threads)
        if cover.warps <= 16 or warp % 4 == 0:
            axes.text(-0.4, warp + 0.5, f"warp {warp}", ha="right", va="center", size=style.SMALL, color=style.INK)
        for lane, thread in enumerate(threads):
            colour = style.BLUE if thread < cover.last else style.ORANGE if busy else style.FAINT
            axes.add_artist(
                Rectangle(
                    (lane + 0.05, warp + 0.07), 0.9, 0.86, facecolor=colour, edgecolor="none",
                    gid=f"thread {thread} {'busy' if thread < cover.last else 'idle'}",
                )
            )  # fmt: skip
    for lane in (0, 8, 16, 24, 31):
        axes.text(lane + 0.5, -0.15, f"{lane}", ha="center", va="bottom", size=style.SMALL, color=style.MUTED)
    axes.text(-0.4, -0.15, "lane", ha="right", va="bottom", size=style.SMALL, color=style.MUTED)
    made.legend(
        handles=[
            Patch(color=style.BLUE, label="has an element"),
            Patch(color=style.ORANGE, label="none, in a warp that runs for others"),
            Patch(color=style.FAINT, label="none, in a warp that leaves at once"),
        ],
        loc="outside lower left", ncols=3, frameon=False, fontsize=style.SMALL, labelcolor=style.INK,
    )  # fmt: skip
    many, some = "block" if cover.blocks == 1 else "blocks", "element" if cover.last == 1 else "elements"
    style.headline(
        made,
        title or f"{n:,} elements, {block:,} threads per block: {cover.blocks:,} {many}, {cover.idle:,} idle threads",
        f"the last block has {cover.last:,} {some} for {block:,} threads; all blocks before it are full",
    )
    return made


def explore_edge() -> Explorer:
    """Choose the elements and the block's size; see the blocks, the idle threads and the warp that parts."""

    def draw(elements: int, block: int) -> Figure:
        return last_block(elements, block)

    return Explorer(draw, elements=(1025, range(1, 2101)), block=(256, (32, 64, 96, 128, 192, 256, 512, 1000, 1024)))
