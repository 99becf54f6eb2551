"""The answer to a prediction: it shows after a prediction, or after the reader has asked for it."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from course.figures.live_form import formatted, live_form
from course.prediction import Prediction

_WAITS = "<p><small>The answer appears here once your prediction is written down.</small></p>"
_SHOW = "Show me"


class Answer:
    """What `course.lesson.reveal` gives. In a notebook it shows itself: at once where `guess` holds a prediction.

    Elsewhere it shows a button. A page without a kernel folds the answer. `say` makes the Markdown from what the guess
    is by then; `also` are tables and figures that would give the answer away, and show with it.
    """

    def __init__(self, say: Callable[[], str], guess: Any, also: Sequence[Any] = ()) -> None:
        self._say = say
        self._guess = guess
        self._also = list(also)

    @property
    def text(self) -> str:
        """The answer in Markdown, and the verdict on the guess."""
        return self._say()

    @property
    def shows(self) -> bool:
        """Whether there is a prediction, or the reader asked for the answer without one."""
        if isinstance(self._guess, Prediction):
            return self._guess.value is not None or self._guess.declined
        return self._guess is not None

    def _ipython_display_(self) -> None:
        from IPython.display import Markdown, display

        if self.shows:
            display(Markdown(self.text), *self._also)
        else:
            display({**live_form(self.withheld()), **self.folded()}, raw=True)

    def withheld(self) -> Any:
        """The widget that waits for a prediction or for its button, and then holds the answer."""
        import ipywidgets
        from IPython.display import Markdown

        button = ipywidgets.Button(description=_SHOW, layout=ipywidgets.Layout(width="110px"))
        widget = ipywidgets.VBox([ipywidgets.HTML(_WAITS), button])

        def show() -> None:
            shown = ipywidgets.Output()
            shown.outputs = tuple(_output(each) for each in (Markdown(self.text), *self._also))
            widget.children = (shown,)

        def typed(_: Any) -> None:
            if self.shows:
                show()

        def pressed(_: Any) -> None:
            if isinstance(self._guess, Prediction):
                self._guess.declined = True
            show()

        button.on_click(pressed)
        if isinstance(self._guess, Prediction):
            # The prediction's own observer was there first, so its value is read by now.
            self._guess.field.observe(typed, names="value")
        return widget

    def folded(self) -> dict[str, str]:
        """The answer as a page without a kernel has it, in Markdown that opens by a click."""
        parts = [self.text, *(_as_markdown(each) for each in self._also)]
        body = "\n\n".join(parts)
        return {
            "text/markdown": f"<details><summary>{_SHOW}</summary>\n\n{body}\n\n</details>",
            "text/plain": "The answer shows once a prediction is written down.",
        }


def _output(shown: Any) -> dict[str, Any]:
    data, metadata = formatted(shown)
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def _as_markdown(shown: Any) -> str:
    data, metadata = formatted(shown)
    if "text/markdown" in data:
        return str(data["text/markdown"])
    if "image/png" in data:
        width = metadata.get("image/png", {}).get("width")
        size = f' width="{width}"' if width else ""
        words = html.escape(" ".join(data.get("text/plain", "").split()))
        return f'<img alt="{words}"{size} src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        return "\n".join(row for row in str(data["text/html"]).splitlines() if row.strip())
    return f"<pre>{html.escape(data['text/plain'])}</pre>"
