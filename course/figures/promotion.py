"""Warpgroups that take turns: tensor cores multiply for one while CUDA cores promote the sums of another. A model."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course.figures.explore import Explorer
from warplab.figures import style

ROWS = 64  # of a warpgroup's product: wgmma's m
LANES = 128  # float32 lanes of an SM: four warp instructions per cycle (datasheet, cuda_cores_per_sm)
TENSOR = 4096  # fp8 multiply-adds of an SM in a cycle (measured: microbench.json, tensor core, wgmma, float8_e4m3)
MOST = 255  # registers per thread (CUDA C++ Programming Guide, Compute Capabilities)


@dataclass(frozen=True)
class Turn:
    """One stretch of k: when its products run and when its sums are promoted, in cycles."""

    warpgroup: int
    begun: float
    multiplied: float
    promoting: float
    done: float


@dataclass(frozen=True)
class Promotion:
    """`warpgroups` warpgroups of 64 x `columns` sums each, promoted every `interval` of k by `instructions` for a sum.

    The tensor cores serve one warpgroup at a time and so do the CUDA cores; who has promoted asks for the next
    products. What takes time besides is left out: filling tiles, waiting for products to complete, reading scales.
    Raises ValueError for numbers that no kernel has.
    """

    columns: int
    warpgroups: int
    interval: int = 128
    instructions: int = 1

    def __post_init__(self) -> None:
        if self.warpgroups < 1 or self.columns < 8 or self.columns % 8 or self.columns > 256:
            raise ValueError("a warpgroup has 8 to 256 columns, a multiple of 8, and there is at least one warpgroup")
        if self.interval < 32 or self.interval % 32 or self.instructions < 1:
            raise ValueError("sums are promoted after a multiple of 32 of k, by at least one instruction")

    @property
    def products(self) -> float:
        """Cycles that the tensor cores take for one stretch of one warpgroup."""
        return ROWS * self.columns * self.interval / TENSOR

    @property
    def promoting(self) -> float:
        """Cycles that the CUDA cores take to promote its sums."""
        return ROWS * self.columns * self.instructions / LANES

    @property
    def registers(self) -> int:
        """Registers of a thread for both sets of sums."""
        return 2 * ROWS * self.columns // 128

    @property
    def busy(self) -> float:
        """The share of the time that the tensor cores multiply, in the long run."""
        turn = (self.products + self.promoting) / self.warpgroups
        return self.products / max(self.products, self.promoting, turn)

    def schedule(self, turns: int) -> tuple[Turn, ...]:
        """`turns` stretches of each warpgroup, in the order in which they are multiplied, as early as can be."""
        made: list[Turn] = []
        tensor = cuda = 0.0
        free = [0.0] * self.warpgroups
        for number in range(turns * self.warpgroups):
            warpgroup = number % self.warpgroups
            begun = max(tensor, free[warpgroup])
            tensor = begun + self.products
            promoting = max(cuda, tensor)
            cuda = free[warpgroup] = promoting + self.promoting
            made.append(Turn(warpgroup, begun, tensor, promoting, cuda))
        return tuple(made)


def promotion(model: Promotion, *, turns: int = 4, title: str = "") -> Figure:
    """A row for each warpgroup and one for the tensor cores, over time: multiplied, promoted, waiting."""
    steps = model.schedule(turns)
    made, (axes,) = style.figure(11.5, 1.75 + 0.38 * (model.warpgroups + 1))
    for number, step in enumerate(steps):
        for name, start, end, row, colour in (
            ("products", step.begun, step.multiplied, step.warpgroup, style.GREEN),
            ("promotion", step.promoting, step.done, step.warpgroup, style.ORANGE),
            ("tensor cores", step.begun, step.multiplied, model.warpgroups, style.GREEN),
        ):
            bar = axes.barh(
                row, end - start, left=start, height=0.74, color=colour, edgecolor=style.PANEL, linewidth=0.8
            )
            bar.patches[0].set_gid(f"{name} {number}")
    axes.set_xlim(0, steps[-1].done)
    axes.set_ylim(model.warpgroups + 0.6, -0.6)
    names = [f"warpgroup {n}" for n in range(model.warpgroups)]
    axes.set_yticks(range(model.warpgroups + 1), [*names, "tensor cores"])
    axes.set_xlabel("time (cycles)")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    axes.legend(
        handles=[Patch(color=style.GREEN, label="products"), Patch(color=style.ORANGE, label="promotion")],
        loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=style.SMALL,
    )  # fmt: skip
    room = "" if model.registers <= MOST else f": more than the {MOST} that a thread can have"
    style.headline(
        made,
        title
        or f"{model.warpgroups} x 64 x {model.columns}: in the long run the tensor cores are busy {model.busy:.0%}",
        f"{model.products:g} cycles of products, {model.promoting:g} of promotion; {model.registers} registers for sums"
        f"{room} (modelled, not measured)",
    )
    return made


def explore_promotion() -> Explorer:
    """Choose the tile, how many warpgroups share an SM, and how often they promote."""

    def draw(warpgroups: int, columns: int, interval: int, instructions: int) -> Figure:
        return promotion(Promotion(columns, warpgroups, interval, instructions))

    return Explorer(
        draw,
        warpgroups=(1, range(1, 4)),
        columns=(128, [32, 64, 128, 256]),
        interval=(128, [32, 64, 128, 256, 512]),
        instructions=(1, range(1, 4)),
    )
