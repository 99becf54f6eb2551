"""A figure with controls below it: the figure stays without a kernel, the controls draw it anew while one runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure


class Explorer:
    """`draw(**choices)` gives a figure; each choice is its name = (the first value, all values).

    Shown in a notebook it is the figure of the first values, and below it a slider for each choice of numbers in a
    row, a box to type in for any number (`float` in place of values), and a menu for each other one. A choice that
    `draw` refuses with ValueError shows its sentence instead.
    """

    def __init__(self, draw: Callable[..., Figure], **choices: tuple[Any, Sequence[Any] | type[float]]) -> None:
        import ipywidgets

        self._draw = draw
        self.figure = draw(**{name: first for name, (first, _) in choices.items()})
        self.controls: dict[str, Any] = {}
        for name, (first, values) in choices.items():
            common = {"value": first, "description": name.replace("_", " ")}
            if isinstance(values, type):
                control = ipywidgets.FloatText(**common)
            else:
                kind = ipywidgets.SelectionSlider if isinstance(values, range) else ipywidgets.Dropdown
                control = kind(options=list(values), **common)
            self.controls[name] = control
            control.observe(self._change, names="value")
        self.image = ipywidgets.Image(format="png", layout=ipywidgets.Layout(display="none", max_width="100%"))
        self.message = ipywidgets.HTML()
        self.widget = ipywidgets.VBox([ipywidgets.HBox(list(self.controls.values())), self.message, self.image])

    def _change(self, _: dict[str, Any]) -> None:
        try:
            figure = self._draw(**{name: control.value for name, control in self.controls.items()})
        except ValueError as refusal:
            self.message.value = str(refusal)
            return
        self.message.value = ""
        self.image.value = png(figure)
        self.image.layout.display = "block"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.figure)
        display(self.widget)


def png(figure: Figure) -> bytes:
    """A figure as a PNG file's bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
