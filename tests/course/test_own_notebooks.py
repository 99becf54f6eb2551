"""A learner's copies: renewed while they are untouched, never overwritten once they are not."""

from __future__ import annotations

import json
from pathlib import Path

from course.own_notebooks import lay_out


def notebook(source: str) -> str:
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


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
