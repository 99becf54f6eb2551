"""Submissions in notebooks, as nbgrader collects them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.classroom.hand_in import HandedIn
from autograder.classroom.intake import read_class
from autograder.classroom.notebook import written_by


def notebook(*sources: str | list[str], kind: str = "code") -> dict:
    return {"cells": [{"cell_type": kind, "source": source, "metadata": {}} for source in sources]}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (notebook("x = 1", "%%writefile submission.py\na = 1\n"), "a = 1\n"),
        (notebook(["%%writefile submission.py\n", "a = 1\n", "b = 2\n"]), "a = 1\nb = 2\n"),
        (notebook("%%submit 01_axpy\na = 1"), "a = 1"),
        (notebook("%%writefile submission.py\na = 1", "%%writefile submission.py\na = 2"), "a = 2"),
        (notebook("%%writefile submission.py\na = 1", "%%writefile submission.py\n\n"), "a = 1"),
        (notebook("%%writefile other.py\na = 1"), None),
        (notebook("%%writefile submission.py\na = 1", kind="markdown"), None),
        (notebook(), None),
    ],
)
def test_the_last_cell_that_writes_it_counts(found: dict, code: str | None) -> None:
    assert next(iter(written_by(found).values()), None) == code


def hand_in(folder: Path, student: str, name: str, text: str) -> None:
    place = folder / "submitted" / student / "01_axpy" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def test_nbgraders_tree_of_notebooks_is_read(tmp_path: Path) -> None:
    hand_in(tmp_path, "ada", "01_axpy.ipynb", json.dumps(notebook("%%writefile submission.py\na = 1")))
    hand_in(tmp_path, "ada", "submission.py", "stale = True\n")
    hand_in(tmp_path, "bob", "01_axpy.ipynb", json.dumps(notebook("x = 1")))
    hand_in(tmp_path, "eve", "01_axpy.ipynb", "[" * 100_000)
    hand_in(tmp_path, "fay", "01_axpy.ipynb", json.dumps({"cells": [{"cell_type": "code"}]}))
    ada, bob, eve, fay = read_class(tmp_path).handed_in
    assert ada == HandedIn("ada", "01_axpy", "01_axpy.py", b"a = 1")
    assert "has no cell that begins with %%writefile submission.py" in bob.problem
    assert "no notebook that can be read" in eve.problem and "no notebook that can be read" in fay.problem


def test_a_notebook_with_large_outputs_is_read(tmp_path: Path) -> None:
    large = notebook("%%writefile submission.py\na = 1") | {"metadata": {"x": "y" * (2 << 20)}}
    hand_in(tmp_path, "ada", "01_axpy.ipynb", json.dumps(large))
    assert read_class(tmp_path).handed_in[0].content == b"a = 1"
