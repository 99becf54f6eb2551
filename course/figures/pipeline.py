"""A ring of stages between one that copies and one that multiplies: a model of which waits for which, drawn as time."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course.figures.explore import Explorer
from warplab.figures import style


@dataclass(frozen=True)
class Step:
    """One step of k: when its copy is asked for, when it has come, and when it is multiplied. Times as in Pipeline."""

    stage: int
    asked: float
    come: float
    begun: float
    done: float


@dataclass(frozen=True)
class Pipeline:
    """`steps` steps through `stages` stages. A copy comes `latency` after it was asked for, and the memory hands out
    one every `transfer`; multiplying takes `compute`. All in one unit of time, cycles for example.

    A copy waits until its stage was multiplied; copies and products each keep their order. Raises ValueError for
    numbers that make no pipeline.
    """

    steps: int
    stages: int
    latency: float
    transfer: float
    compute: float

    def __post_init__(self) -> None:
        if self.steps < 1 or self.stages < 1 or self.compute <= 0 or min(self.latency, self.transfer) < 0:
            raise ValueError("a pipeline has at least one step and one stage, and no time below zero")

    def schedule(self) -> tuple[Step, ...]:
        """Every step, as early as the rules let it."""
        made: list[Step] = []
        for number in range(self.steps):
            asked = made[-1].asked + self.transfer if made else 0.0
            if number >= self.stages:
                asked = max(asked, made[number - self.stages].done)
            come = asked + self.latency
            begun = max(come, made[-1].done) if made else come
            made.append(Step(number % self.stages, asked, come, begun, begun + self.compute))
        return tuple(made)

    @property
    def period(self) -> float:
        """Time a step takes once the ring has filled: the slowest of multiplying, the memory, and a whole turn of one
        stage shared by all of them."""
        return max(self.compute, self.transfer, (self.latency + self.compute) / self.stages)

    @property
    def limit(self) -> str:
        """Which of the three that is."""
        if self.period == self.compute:
            return "the tensor cores"
        return "the memory's bandwidth" if self.period == self.transfer else "the latency of a copy"

    @property
    def busy(self) -> float:
        """The share of the time that something is multiplied, once the ring has filled."""
        return self.compute / self.period


def pipeline(model: Pipeline, *, title: str = "") -> Figure:
    """A row for each stage and one for the tensor cores, over time: on its way, come but not yet used, multiplied."""
    steps = model.schedule()
    made, (axes,) = style.figure(11.5, 1.75 + 0.38 * (model.stages + 1))
    for number, step in enumerate(steps):
        for name, start, end, colour in (
            ("copy", step.asked, step.come, style.BLUE),
            ("full", step.come, step.begun, style.FAINT),
            ("products", step.begun, step.done, style.GREEN),
        ):
            if end > start:
                bar = axes.barh(step.stage, end - start, left=start, height=0.74, color=colour, linewidth=0)
                bar.patches[0].set_gid(f"{name} {number}")
        bar = axes.barh(
            model.stages, step.done - step.begun, left=step.begun, height=0.74, color=style.GREEN,
            edgecolor=style.PANEL, linewidth=0.8,
        )  # fmt: skip
        bar.patches[0].set_gid(f"tensor cores {number}")
    axes.set_xlim(0, steps[-1].done)
    axes.set_ylim(model.stages + 0.6, -0.6)
    axes.set_yticks(range(model.stages + 1), [*(f"stage {s}" for s in range(model.stages)), "tensor cores"])
    axes.set_xlabel("time (cycles)")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    axes.legend(
        handles=[
            Patch(color=style.BLUE, label="a copy is on its way"),
            Patch(color=style.FAINT, label="full, waiting"),
            Patch(color=style.GREEN, label="multiplied"),
        ],
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=style.SMALL,
    )  # fmt: skip
    style.headline(
        made,
        title
        or f"{model.stages} stage{'s' * (model.stages > 1)}: the tensor cores are busy {model.busy:.0%} of the time",
        f"a step every {model.period:g} cycles, limited by {model.limit} (modelled, not measured)",
    )
    return made


def explore_pipeline(steps: int = 12) -> Explorer:
    """Choose the stages and the times of a copy and of a product; see who waits."""

    def draw(stages: int, latency: int, transfer: int, compute: int) -> Figure:
        return pipeline(Pipeline(steps, stages, latency, transfer, compute))

    return Explorer(
        draw,
        stages=(2, range(1, 9)),
        latency=(1000, range(0, 2001, 100)),
        transfer=(300, range(0, 1201, 100)),
        compute=(500, range(100, 1201, 100)),
    )
