"""What the panel agrees to grade: a lab's file below the server's folder, and cells with %%submit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from autograder.panel.target import NotGraded, cell_target, file_target
from autograder.spec.lab import LabError, labs_folder

TEXT = "x = 1\n"


def test_an_open_file_is_graded_as_the_editor_has_it() -> None:
    target = file_target(labs_folder().parent, "labs/03_transpose/submission.py", TEXT)
    assert (target.lab.name, target.name, target.text, target.kept) == ("03_transpose", "submission.py", TEXT, True)


def test_a_grade_of_a_solution_is_not_the_learners() -> None:
    assert not file_target(labs_folder().parent, "solutions/03_transpose/submission.py", TEXT).kept


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one lab, beside which lie other files."""
    shutil.copytree(labs_folder() / "03_transpose", tmp_path / "course" / "labs" / "03_transpose")
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "course" / "labs"))
    (tmp_path / "secret.py").write_text("secret")
    (tmp_path / "course" / "own.py").write_text("own")
    os.symlink(tmp_path / "secret.py", tmp_path / "course" / "labs" / "03_transpose" / "link.py")
    os.symlink(tmp_path / "course" / "labs", tmp_path / "course" / "elsewhere")
    return tmp_path / "course"


@pytest.mark.parametrize(
    "path",
    [
        "own.py",
        "../secret.py",
        "labs/03_transpose/../../../secret.py",
        "labs/03_transpose/link.py",
        "labs/03_transpose/missing.py",
        "labs/03_transpose/README.md",
        "labs/03_transpose",
        "",
    ],
)
def test_other_files_are_refused(course: Path, path: str) -> None:
    with pytest.raises(NotGraded, match=r"is no lab's file. Open labs/<lab>/submission.py"):
        file_target(course, path, TEXT)
    with pytest.raises(NotGraded):
        file_target(course, str((course / path).absolute()) + "/../../secret.py", TEXT)


def test_a_lab_outside_the_servers_folder_is_refused(course: Path) -> None:
    assert file_target(course, "labs/03_transpose/submission.py", TEXT).kept
    with pytest.raises(NotGraded):
        file_target(course / "labs" / "03_transpose", "../../labs/03_transpose/../../own.py", TEXT)
    with pytest.raises(NotGraded):
        file_target(course.parent / "elsewhere", str(course / "labs" / "03_transpose" / "submission.py"), TEXT)


def test_a_cells_lines_are_those_that_the_notebook_numbers() -> None:
    target = cell_target("\n  %%submit 03_transpose \nfrom numba import cuda\n")
    assert target.text == "\n# %%submit 03_transpose\nfrom numba import cuda\n"
    assert (target.lab.name, target.kept) == ("03_transpose", True)


def test_other_cells_are_refused() -> None:
    for text in ("", "x = 1", "# %%submit 03_transpose", "%%submitted 03_transpose"):
        with pytest.raises(NotGraded, match="does not begin with %%submit"):
            cell_target(text)
    with pytest.raises(LabError, match="did you mean 03_transpose"):
        cell_target("%%submit 03_transpos\n")
