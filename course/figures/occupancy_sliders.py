"""Sliders above the picture of occupancy, for notebooks."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from course.figures.explore import png
from course.figures.live_form import with_still
from course.figures.occupancy import occupancy_limits
from warplab.plan.limits import limits_of


class OccupancySliders:
    """What `occupancy_sliders` gives: sliders and the figure that they draw anew; without a kernel the figure stays."""

    def __init__(self, architecture: str, threads: int, registers: int, shared: int) -> None:
        import ipywidgets

        self.architecture = architecture
        self.figure: Figure = occupancy_limits(architecture, threads, registers, shared)
        style = {"description_width": "14em"}
        layout = ipywidgets.Layout(width="60%")
        self.sliders = {
            "threads": ipywidgets.IntSlider(
                threads, 32, 1024, 32, description="threads per block", style=style, layout=layout
            ),
            "registers": ipywidgets.IntSlider(
                registers, 16, 255, description="registers per thread", style=style, layout=layout
            ),
            "shared": ipywidgets.IntSlider(
                shared, 0, limits_of(architecture).block_shared, 256, description="shared bytes per block", style=style,
                layout=layout,
            ),
        }  # fmt: skip
        self.picture = ipywidgets.Image(value=png(self.figure), format="png")
        for slider in self.sliders.values():
            slider.observe(self._draw, names="value")
        self.widget = ipywidgets.VBox([*self.sliders.values(), self.picture])

    def _draw(self, change: dict[str, Any]) -> None:
        values = {name: slider.value for name, slider in self.sliders.items()}
        self.picture.value = png(occupancy_limits(self.architecture, **values))

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return with_still(self.widget, self.figure)


def occupancy_sliders(
    architecture: str = "sm_90a", threads: int = 256, registers: int = 72, shared: int = 20_000
) -> OccupancySliders:
    """`occupancy_limits` with a slider for each number. Raises as it does."""
    return OccupancySliders(architecture, threads, registers, shared)
