"""Sliders over the sizes of a layout, for notebooks: what each costs, or why it cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from course.figures.explore import png
from course.figures.live_form import with_still
from course.figures.stacks import stacks
from systems.parallel.layout import Job, Layout
from systems.parallel.machines import Machine
from systems.parallel.shapes import LayoutError
from systems.parallel.step import Step, plan

_AXES = ("data", "tensor", "pipeline", "context", "expert", "micro_batch", "chunks", "zero")


def plan_figure(step: Step) -> Figure:
    """Where the time of a step goes; the subtitle has its utilisation and memory."""
    layout = step.layout
    sizes = ", ".join(f"{name} {getattr(layout, name)}" for name in ("data", "tensor", "pipeline", "context"))
    room = "fits" if step.fits else "does not fit"
    return stacks(
        {"step": step.parts},
        title=f"{step.job.model.name} on {layout.gpus:,} GPUs: {sizes}",
        subtitle=f"{step.utilisation:.1%} of the peak; {step.memory.total / 1e9:.0f} GB per GPU, which {room}; "
        f"bound by {step.bound}",
        across="seconds",
    )


class PlanSliders:
    """What `plan_sliders` gives: sliders, a figure that stays without a kernel, and a sentence where none can be."""

    def __init__(self, job: Job, layout: Layout, machine: Machine) -> None:
        import ipywidgets

        self.job, self.layout, self.machine = job, layout, machine
        self.figure = plan_figure(plan(job, layout, machine))
        style = {"description_width": "8em"}
        self.sliders = {
            name: ipywidgets.SelectionSlider(
                options=_options(name, getattr(layout, name)),
                value=getattr(layout, name),
                description=name,
                style=style,
            )
            for name in _AXES
        }
        self.picture = ipywidgets.Image(value=png(self.figure), format="png")
        self.sentence = ipywidgets.HTML(value="")
        for slider in self.sliders.values():
            slider.observe(self._draw, names="value")
        self.widget = ipywidgets.VBox([*self.sliders.values(), self.sentence, self.picture])

    def _draw(self, change: dict[str, Any]) -> None:
        layout = replace(self.layout, **{name: slider.value for name, slider in self.sliders.items()})
        try:
            figure = plan_figure(plan(self.job, layout, self.machine))
        except LayoutError as error:
            self.sentence.value = str(error)
            return
        self.sentence.value = ""
        self.picture.value = png(figure)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return with_still(self.widget, self.figure)


def _options(name: str, now: int) -> list[int]:
    if name == "zero":
        return [0, 1, 2, 3]
    top = {"data": 13, "chunks": 6, "micro_batch": 4}.get(name, 7)
    return sorted({*(2**power for power in range(top + 1)), now})


def plan_sliders(job: Job, layout: Layout, machine: Machine) -> PlanSliders:
    """The parts of a step with a slider for each size. Raises LayoutError if `layout` cannot run the job."""
    return PlanSliders(job, layout, machine)
