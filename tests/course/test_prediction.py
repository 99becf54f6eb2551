"""Predictions: whatever is typed is read or answered in a sentence, and is there again the next time."""

from __future__ import annotations

from pathlib import Path

import pytest

from course.lesson import reveal
from course.prediction import Prediction


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
def test_what_cannot_be_read_is_answered_and_reveals_all_the_same(text: str, kept: Path) -> None:
    prediction = typed(text, "cycles", kept)
    assert prediction.value is None
    assert prediction.feedback.value.count("<p>") == 1 and "<b>" not in prediction.feedback.value
    assert "No prediction" in reveal(prediction, 12, "cycles", "Counted").data


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
    assert "right" in reveal(typed("250", "threads", kept), 255, "threads", "Counted").data
    assert "0.98 times" in reveal(typed("250", "threads", kept), 255, "threads", "Counted", exactly=True).data
    assert "right in percent" in reveal(84, 0.839, "of the lanes", "Counted").data
