"""Predictions: whatever is typed is read or answered in a sentence, and is there again the next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from IPython.display import Markdown
from IPython.utils.capture import capture_output

from course.answer import Answer
from course.figures.live_form import VIEW
from course.lesson import reveal
from course.prediction import Prediction
from warplab.figures import style


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "data" / "predictions.json"


def typed(text: str, unit: str, kept: Path) -> Prediction:
    prediction = Prediction("03 a number", "a number", unit, kept)
    prediction.field.value = text
    return prediction


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("255", "threads", 255), ("255 threads", "threads", 255), ("350 GB/s", "TB/s", 0.35), ("12 KiB", "KiB", 12),
        ("2x", "times", 2), ("1,500", "cycles", 1500), ("84", "%", 84), ("0.84", "%", 84), ("84%", "%", 84),
        ("0.5 %", "%", 0.5), ("84 percent", "%", 84),
    ],
)  # fmt: skip
def test_what_is_typed_is_read_in_the_unit(text: str, unit: str, value: float, kept: Path) -> None:
    assert typed(text, unit, kept).value == pytest.approx(value)


@pytest.mark.parametrize("text", ["many", "15,7", "(4, 8)", "None", "12 ns", "1" * 400, "<b>3"])
def test_what_cannot_be_read_is_answered_and_counts_as_no_prediction(text: str, kept: Path) -> None:
    prediction = typed(text, "cycles", kept)
    assert prediction.value is None
    assert prediction.feedback.value.count("<p>") == 1 and "<b>" not in prediction.feedback.value
    assert not reveal(prediction, 12, "cycles", "Counted").shows


def test_a_prediction_is_remembered_by_its_name(kept: Path) -> None:
    typed("12 cycles", "cycles", kept)
    again = Prediction("03 a number", "a number", "cycles", kept)
    assert again.value == 12 and again.field.value == "12 cycles"
    assert Prediction("03 another", "another", "cycles", kept).value is None
    again.field.value = "14"
    assert Prediction("03 a number", "a number", "cycles", kept).value == 14


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "predictions": 3}', "no JSON"])
def test_a_damaged_file_is_as_none(text: str, kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text(text)
    assert typed("12", "cycles", kept).value == 12
    assert Prediction("03 a number", "a number", "cycles", kept).value == 12


def test_where_nothing_can_be_written_the_prediction_counts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prediction = typed("12", "cycles", tmp_path / "file" / "predictions.json")
    assert prediction.value == 12 and "cannot be kept" in prediction.feedback.value


def test_a_page_without_a_kernel_shows_what_is_asked(kept: Path) -> None:
    shown = Prediction("03 a number", "cycles of a <load>", "cycles", kept)._repr_mimebundle_()
    assert "cycles of a &lt;load&gt;" in shown["text/html"] and "_widget" not in shown["text/html"]


def test_the_answer_to_a_prediction(kept: Path) -> None:
    assert "right" in reveal(typed("250", "threads", kept), 255, "threads", "Counted").text
    assert "0.98 times" in reveal(typed("250", "threads", kept), 255, "threads", "Counted", exactly=True).text
    assert "right in percent" in reveal(84, 0.839, "of the lanes", "Counted").text


CHOICES = ("the ring", "the tree `t`")
WRONG = {"the tree `t`": "It sends the complete array."}


def chosen(answer: str | None, kept: Path) -> Prediction:
    prediction = Prediction("11 a choice", "which is faster", kept=kept, choices=CHOICES)
    if answer:
        prediction.field.value = answer
    return prediction


def shown(answer: Answer) -> dict[str, Any]:
    """All that a notebook gets, by type."""
    InteractiveShell.instance()
    with capture_output(display=True) as captured:
        answer._ipython_display_()
    return {kind: data for output in captured.outputs for kind, data in output.data.items()}


def test_an_answer_waits_for_a_prediction(kept: Path) -> None:
    prediction = Prediction("03 a number", "a number", "cycles", kept)
    answer = reveal(prediction, 12, "cycles", "Counted", also=[Markdown("| a table |")])
    given = shown(answer)
    assert VIEW in given and given["text/markdown"].startswith("<details>")
    assert given["text/markdown"].index("12 cycles") < given["text/markdown"].index("| a table |")
    widget = answer.withheld()
    assert "12 cycles" not in str([child.get_state() for child in widget.children])
    prediction.field.value = "many"
    assert len(widget.children) == 2
    prediction.field.value = "11 cycles"
    (output,) = widget.children
    texts = [part["data"]["text/markdown"] for part in output.outputs]
    assert "12 cycles" in texts[0] and "You said 11: right" in texts[0] and texts[1] == "| a table |"
    again = shown(answer)
    assert VIEW not in again and "<details>" not in again["text/markdown"]


@pytest.mark.parametrize("asked", [True, False])
def test_an_answer_shows_when_it_is_asked_for(asked: bool, kept: Path) -> None:
    guess = Prediction("03 a number", "a number", "cycles", kept) if asked else None
    answer = reveal(guess, 12, "cycles", "Counted")
    widget = answer.withheld()
    widget.children[1].click()
    (output,) = widget.children
    assert "12 cycles.** (No prediction" in output.outputs[0]["data"]["text/markdown"]
    assert answer.shows is asked, "a prediction remembers that it was declined"


def test_what_is_folded_has_a_table_and_a_figure_with_its_words(kept: Path) -> None:
    select_figure_formats(InteractiveShell.instance(), {"png"})
    figure, (axes,) = style.figure(2, 1)
    axes.set_title('A "title"')
    text = reveal(None, 1, "warp", "Counted", also=[figure]).folded()["text/markdown"]
    assert 'src="data:image/png;base64,iVBOR' in text and 'alt="Figure: A &quot;title&quot;."' in text


def test_a_choice_is_answered_with_its_reason(kept: Path) -> None:
    right = reveal(chosen("the ring", kept), "the ring", "Its chunks share the ports.", "Calculated", wrong=WRONG)
    assert right.text == "**Calculated: the ring.** Its chunks share the ports. You chose this: right."
    again = chosen(None, kept)
    assert again.value == "the ring", "it is remembered"
    again.field.value = "the tree `t`"
    wrong = reveal(again, "the ring", "Its chunks share the ports.", "Calculated", wrong=WRONG)
    assert wrong.text.endswith("You chose “the tree `t`”: It sends the complete array.")


def test_choices_of_another_edition_are_forgotten(kept: Path) -> None:
    chosen("the ring", kept)
    other = Prediction("11 a choice", "which is faster", kept=kept, choices=("a star", "a line"))
    assert other.value is None and other.field.value is None
    page = other._repr_mimebundle_()
    assert "<li>a star</li>" in page["text/html"] and "a star; a line" in page["text/plain"]


@pytest.mark.parametrize("wrong", [{}, {"a star": "no"}, WRONG | {"a star": "no"}])
def test_each_choice_needs_its_reason(wrong: dict[str, str], kept: Path) -> None:
    with pytest.raises(ValueError, match="11 a choice: the answer has to give its reason for each choice"):
        reveal(chosen(None, kept), "the ring", "", "Calculated", wrong=wrong)
