"""The panel's lists of labs and chapters, with a learner's progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import own_history
from autograder.panel.contents import contents
from autograder.records.report import PartResult, Report
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import CHECKOUT, known_labs


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLAB_DATA", str(tmp_path / "data"))
    return tmp_path


def report(lab: str, points: float) -> Report:
    parts = (PartResult(Part.CORRECTNESS, Status.PASSED, points, 75),)
    return Report(lab, "", "submission.py", Status.PASSED, "", parts, 100, Executor.EMULATOR, "", {})


def test_labs_have_their_files_and_the_best_grade() -> None:
    own_history.keep(report("03_transpose", 60))
    own_history.keep(report("03_transpose", 15))
    labs = {lab["name"]: lab for lab in contents(CHECKOUT)["labs"]}
    assert list(labs) == known_labs()
    lab = labs["03_transpose"]
    assert lab["files"] == ["labs/03_transpose/submission.py", "labs/03_transpose/submission_cuda.py"]
    assert lab["handout"] == "labs/03_transpose/README.md" and lab["title"].startswith("transpose")
    assert lab["share"] == 60 / 75 and lab["progress"].startswith("60 of 75") and "2 grades" in lab["progress"]
    assert labs["01_axpy"]["share"] == 0 and labs["01_axpy"]["progress"] == "not begun"


def test_chapters_have_their_headings_and_solved_questions() -> None:
    from course.quiz.progress import Progress

    Progress().record("seed", "01-tree-barriers", True)
    chapters = {chapter["name"]: chapter for chapter in contents(CHECKOUT)["chapters"]}
    assert chapters["04"]["title"] == "04 · The memory hierarchy"
    assert chapters["01b"]["progress"].startswith("1 of ") and 0 < chapters["01b"]["share"] < 1
    assert chapters["01"]["progress"].startswith("0 of ") and chapters["01"]["share"] == 0
    (path,) = chapters["04"]["files"]
    assert (CHECKOUT / path).name == "04_memory_hierarchy.ipynb"


def test_nothing_outside_the_servers_folder_has_a_path(tmp_path: Path) -> None:
    found = contents(tmp_path)
    assert not [path for entry in (*found["labs"], *found["chapters"]) for path in entry["files"] if path]
    assert {lab["handout"] for lab in found["labs"]} == {""}
