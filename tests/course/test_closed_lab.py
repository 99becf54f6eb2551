"""A chapter in a students' release: a cell that needs a solution says so in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course import lesson
from course.lesson import ClosedLab, Lesson, solution


def test_a_step_that_a_release_left_out_is_a_sentence_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert solution("03_transpose", "rung_1_naive").exists()
    monkeypatch.setattr(lesson, "solutions_folder", lambda: tmp_path)
    for ask in (Lesson("03_transpose").climb, Lesson("03_transpose").profile):
        with pytest.raises(ClosedLab, match="solutions/03_transpose/rung_1_naive.py is not in this release"):
            ask("rung_1_naive")
    shell = InteractiveShell()
    shell.run_cell("from course.lesson import solution\nsolution('03_transpose', 'rung_1_naive')")
    said = capsys.readouterr().out
    assert "is not in this release" in said and "Traceback" not in said and "lesson.py" not in said
