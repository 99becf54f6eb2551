"""A figure with controls above it, which redraw it while a kernel runs; without one the figure stays.

A page without a kernel gets the figures of all choices where these are few, and can move through them.
"""

from __future__ import annotations

import base64
import itertools
import math
import os
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

from course.figures.live_form import with_still

# {"choices": [[name, place of the first value, values]], "figures": [a PNG in base64, or [why there is none]]}
STATES = "application/vnd.warplab.states+json"
DRAW_STATES = "WARPLAB_DRAW_STATES"  # set where chapters are run for readers without a kernel
_MOST_STATES = 48


class Explorer:
    """`draw(**choices)` gives a figure; each choice is its name = (the first value, all values).

    Shown in a notebook it is a slider for each choice of numbers in a row, a box to type in for any number (`float` in
    place of values), and a menu for each other one; below them the figure, of the first values at first. A choice that
    `draw` refuses with ValueError shows its sentence above the figure before.
    """

    def __init__(self, draw: Callable[..., Figure], **choices: tuple[Any, Sequence[Any] | type[float]]) -> None:
        import ipywidgets

        self._draw, self._choices = draw, choices
        self.figure = draw(**{name: first for name, (first, _) in choices.items()})
        self.controls: dict[str, Any] = {}
        for name, (first, values) in choices.items():
            words = name.replace("_", " ")
            wide = ipywidgets.Layout(width=f"{300 + 8 * max(len(words) - 10, 0)}px")  # with all of its words
            common = {"value": first, "description": words, "style": {"description_width": "initial"}, "layout": wide}
            if isinstance(values, type):
                control = ipywidgets.FloatText(**common)
            else:
                kind = ipywidgets.SelectionSlider if isinstance(values, range) else ipywidgets.Dropdown
                control = kind(options=list(values), **common)
            self.controls[name] = control
            control.observe(self._change, names="value")
        self.image = ipywidgets.Image(value=png(self.figure), format="png", layout=ipywidgets.Layout(max_width="100%"))
        self.message = ipywidgets.HTML()
        controls = ipywidgets.HBox(list(self.controls.values()), layout=ipywidgets.Layout(flex_flow="row wrap"))
        self.widget = ipywidgets.VBox([controls, self.message, self.image])

    def _change(self, _: dict[str, Any]) -> None:
        try:
            figure = self._draw(**{name: control.value for name, control in self.controls.items()})
        except ValueError as refusal:
            self.message.value = str(refusal)
            return
        self.message.value = ""
        self.image.value = png(figure)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = with_still(self.widget, self.figure)
        if DRAW_STATES in os.environ and (states := self.states()):
            data[STATES] = states
        return data, metadata

    def states(self) -> dict[str, Any]:
        """The data of STATES: the figures of all choices, the last choice fastest. Empty if there are too many."""
        names = [name.replace("_", " ") for name in self._choices]
        listed = [[] if isinstance(values, type) else list(values) for _, values in self._choices.values()]
        if not 0 < math.prod(map(len, listed)) <= _MOST_STATES:
            return {}
        figures: list[str | list[str]] = []
        for chosen in itertools.product(*listed):
            try:
                figure = png(self._draw(**dict(zip(self._choices, chosen, strict=True))))
            except ValueError as refusal:
                figures.append([str(refusal)])
            else:
                figures.append(base64.b64encode(figure).decode())
        first = [values.index(first) for values, (first, _) in zip(listed, self._choices.values(), strict=True)]
        labels = [[str(value) for value in values] for values in listed]
        return {"choices": [list(each) for each in zip(names, first, labels, strict=True)], "figures": figures}


def png(figure: Figure) -> bytes:
    """A figure as a PNG file's bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
