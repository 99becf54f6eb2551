"""What a reader expects before an answer is shown: a field that reads units, or choices, and remembers."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course.figures.live_form import live_form
from course.quiz.check import in_unit
from course.quiz.progress import data_folder
from warplab.files import write_whole

_VERSION = 1


class Prediction:
    """What a reader expects: a number, or one of `choices`. `value` is what the field says, a number in `unit`.

    It is None as long as nothing can be read from the field. `declined` says that the reader asked for the answer
    without a prediction. Whatever is typed, nothing is raised: a sentence below the field says how it was read, or why
    it cannot be. Where `unit` is "%", a number without a sign that is at most 1 is taken as a share: 0.25 is 25 %.
    """

    def __init__(
        self, name: str, ask: str, unit: str = "", kept: Path | None = None, choices: Sequence[str] = ()
    ) -> None:
        import ipywidgets

        self.name = name
        self.ask = ask
        self.unit = unit
        self.choices = tuple(choices)
        self.value: float | str | None = None
        self.declined = False
        self._path = kept or data_folder() / "predictions.json"
        self.field: Any
        if self.choices:
            # Labels of radio buttons cannot hold markup.
            labels = [(choice.replace("`", ""), choice) for choice in self.choices]
            self.field = ipywidgets.RadioButtons(options=labels, value=None, layout=ipywidgets.Layout(width="100%"))
        else:
            self.field = ipywidgets.Text(placeholder=f"a number, in {unit}", continuous_update=False)
        self.feedback = ipywidgets.HTML()
        self.widget = ipywidgets.VBox([ipywidgets.HTML(_asked(ask)), self.field, self.feedback])
        text = _read(self._path).get(name, "")
        if text in self.choices if self.choices else text:
            self.field.value = text
            self._judge(text)
        self.field.observe(self._typed, names="value")

    def _typed(self, change: dict[str, Any]) -> None:
        text = str(change["new"] or "")
        problem = self._judge(text) or _keep(self._path, self.name, text)
        if problem:
            self.feedback.value = _small(problem)

    def _judge(self, text: str) -> str:
        """Sets `value`, and says below the field how the text was read; what is wrong with it, if anything is."""
        self.value = None
        self.feedback.value = ""
        if not text.strip():
            return ""
        if self.choices:
            self.value = text
            self.feedback.value = _small("Run the next cell.")
            return ""
        try:
            value = in_unit(text, self.unit)
        except ValueError as problem:
            self.feedback.value = _small(str(problem))
            return str(problem)
        if self.unit == "%" and 0 < value <= 1 and "%" not in text:
            value *= 100
        self.value = value
        self.feedback.value = _small(f"You expect {value:,.6g} {self.unit}. Run the next cell.")
        return ""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The field; a page without a kernel or without widgets shows what is asked."""
        live = live_form(self.widget)
        if self.choices:
            rows = "".join(f"<li>{html.escape(choice)}</li>" for choice in self.choices)
            blank, text = f"{_asked(self.ask)}<ul>{rows}</ul>", f"{self.ask} ({'; '.join(self.choices)})"
        else:
            wanted = f"<p><em>Write down a number, in {html.escape(self.unit)}.</em></p>"
            blank, text = _asked(self.ask) + wanted, f"{self.ask} ({self.unit})"
        return {**live, "text/html": blank, "text/plain": text}


def predict(name: str, ask: str, unit: str = "", choices: Sequence[str] = ()) -> Prediction:
    """Show a field for what the reader expects, and give back what will be in it, for `course.lesson.reveal`.

    `name` is what the answer is remembered by, on this machine: "02 five warps". `ask` says in a few words what number
    is meant, `unit` in what it is read: another one with the same base is converted, as 350 GB/s to 0.35 TB/s. Where a
    number makes no sense, `choices` are offered instead; `reveal` says of each wrong one why it is wrong.
    """
    from IPython.display import display

    prediction = Prediction(name, ask, unit, choices=choices)
    display(prediction)
    return prediction


def _read(path: Path) -> dict[str, str]:
    """What was written down before, by name; nothing where there is no such file, or it is not as we write it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            return {}
        return {str(name): str(text) for name, text in data["predictions"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _keep(path: Path, name: str, text: str) -> str:
    """Keep one prediction beside the others; a sentence where that cannot be done."""
    try:
        write_whole(path, json.dumps({"version": _VERSION, "predictions": _read(path) | {name: text}}, indent=1))
    except OSError as error:
        return f"Your prediction counts, but it cannot be kept in {path} ({error.strerror}): it lasts until you leave."
    return ""


def _asked(ask: str) -> str:
    return f'<p style="margin:0.4em 0 0"><b>Your prediction:</b> {html.escape(ask)}</p>'


def _small(text: str) -> str:
    return f"<p><small>{html.escape(text)}</small></p>"
