"""A learner's copies: without outputs, renewed while they are untouched, never overwritten once they are not."""

from __future__ import annotations

import json
from pathlib import Path

from course.own_notebooks import lay_out, without_outputs


def notebook(source: str) -> str:
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": [{"text": "4.0"}], "execution_count": 3}
    words = {"cell_type": "markdown", "source": "Predict: é", "metadata": {}}
    return json.dumps({"cells": [words, cell], "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5})


def test_a_copy_is_the_chapter_without_outputs() -> None:
    made = json.loads(without_outputs(notebook("x = 1")))
    assert made["cells"][1] == {
        "cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [], "execution_count": None,
    }  # fmt: skip
    assert made["cells"][0]["source"] == "Predict: é" and made["metadata"] == {"a": 1}


def test_copies_follow_their_chapters_until_the_learner_changes_them(tmp_path: Path) -> None:
    chapters, mine = tmp_path / "notebooks", tmp_path / "mine"
    chapters.mkdir()
    for name in ("00.ipynb", "01.ipynb"):
        (chapters / name).write_text(notebook("old"))
    assert lay_out(chapters, mine) == []
    assert {path.name for path in mine.glob("*.ipynb")} == {"00.ipynb", "01.ipynb"}
    (mine / "01.ipynb").write_text("mine")
    for name in ("00.ipynb", "01.ipynb"):
        (chapters / name).write_text(notebook("new"))
    assert lay_out(chapters, mine) == ["01.ipynb"]
    assert '"new"' in (mine / "00.ipynb").read_text() and (mine / "01.ipynb").read_text() == "mine"
    (mine / "01.ipynb").rename(mine / "01 mine.ipynb")
    assert lay_out(chapters, mine) == []
    assert '"new"' in (mine / "01.ipynb").read_text() and (mine / "01 mine.ipynb").read_text() == "mine"


def test_a_chapter_that_is_only_run_again_leaves_the_copy(tmp_path: Path) -> None:
    chapters, mine = tmp_path / "notebooks", tmp_path / "mine"
    chapters.mkdir()
    (chapters / "00.ipynb").write_text(notebook("x"))
    lay_out(chapters, mine)
    (mine / "00.ipynb").write_text("run and saved")
    (chapters / "00.ipynb").write_text(notebook("x").replace("4.0", "5.0"))
    assert lay_out(chapters, mine) == []
