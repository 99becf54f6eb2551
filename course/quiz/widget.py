"""A quiz in a notebook: live while a kernel runs, and text with folded answers in a saved notebook."""

from __future__ import annotations

import html
from typing import Any

from course.figures.live_form import live_form
from course.quiz.check import check
from course.quiz.progress import Progress
from course.quiz.question import Chapter, Drawn, Kind
from course.quiz.sheet import asked_for, inline, paragraphs, question_html, static_html, worked_html
from warplab.figures import style

_HINT_AFTER = 2  # wrong answers
_RIGHT, _WRONG = f"border-left:4px solid {style.GREEN};", f"border-left:4px solid {style.ORANGE};"
_BOX = f"background:{style.PANEL};color:{style.INK};padding:4px 10px;margin:2px 0;"


class Asked:
    """One question on the page. `answer` is what the button does; it works without any page as well."""

    def __init__(self, place: int, drawn: Drawn, progress: Progress) -> None:
        import ipywidgets

        self.drawn = drawn
        self.progress = progress
        self._judged: str | int | None = None  # leaving the field and pressing the button are one answer
        self.field: Any
        if drawn.question.kind is Kind.CHOICE:
            # Labels of radio buttons cannot hold markup.
            labels = [(option.text.replace("`", ""), n) for n, option in enumerate(drawn.options)]
            wide = ipywidgets.Layout(width="100%")
            self.field = ipywidgets.RadioButtons(options=labels, value=None, layout=wide)
        else:
            self.field = ipywidgets.Text(placeholder=asked_for(drawn), continuous_update=False)
            self.field.observe(self._typed, names="value")
        self.button = ipywidgets.Button(description="Check", layout=ipywidgets.Layout(width="90px"))
        self.button.on_click(lambda _: self.answer())
        self.reveal = ipywidgets.Button(description="Worked answer", layout=ipywidgets.Layout(width="130px"))
        self.reveal.on_click(lambda _: self.show_worked())
        self.feedback = ipywidgets.HTML()
        self.worked = ipywidgets.HTML()
        state = progress.state(drawn.seed, drawn.question.id)
        self.reveal.disabled = not (state.solved or state.tries >= _HINT_AFTER)
        if state.solved:
            self.feedback.value = _note(_RIGHT, f"<p>Solved before, at try {state.tries}.</p>")
        self.widget = ipywidgets.VBox(
            [
                ipywidgets.HTML(question_html(place, drawn)),
                self.field,
                ipywidgets.HBox([self.button, self.reveal]),
                self.feedback,
                self.worked,
            ]
        )

    def answer(self, response: str | int | None = None) -> None:
        """Judge what is in the field, or `response`; give the hint after two wrong answers; keep the progress."""
        given = self.field.value if response is None else response
        if given is not None and given == self._judged:
            return
        self._judged = given
        verdict = check(self.drawn, "" if given is None else given)
        said = f"<p>{inline(verdict.message)}</p>"
        if verdict.understood:
            state = self.progress.record(self.drawn.seed, self.drawn.question.id, verdict.right)
            self.reveal.disabled = not (state.solved or state.tries >= _HINT_AFTER)
            if not verdict.right and state.tries >= _HINT_AFTER:
                said += f"<p><i>Hint.</i></p>{paragraphs(self.drawn.hint)}"
        if self.progress.problem:
            said += f"<p><small>{html.escape(self.progress.problem)}</small></p>"
        self.feedback.value = _note(_RIGHT if verdict.right else _WRONG, said)

    def show_worked(self) -> None:
        """Unfold the worked answer."""
        self.worked.value = _note("", worked_html(self.drawn))

    def _typed(self, change: dict[str, Any]) -> None:
        if str(change["new"]).strip():
            self.answer()


class Quiz:
    """A chapter's quiz for one seed. In a notebook it shows itself."""

    def __init__(self, chapter: Chapter, drawn: list[Drawn], progress: Progress) -> None:
        import ipywidgets

        self.chapter = chapter
        self.asked = [Asked(place, one, progress) for place, one in enumerate(drawn, 1)]
        self.widget = ipywidgets.VBox([one.widget for one in self.asked])
        self.text = static_html(drawn)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The live form and the text; a page without a kernel or without widgets shows the text."""
        live = live_form(self.widget)
        return {**live, "text/html": self.text, "text/plain": f"the quiz of {self.chapter.name}"}


def _note(border: str, body: str) -> str:
    return f'<div style="{_BOX}{border}">{body}</div>'
