"""Downloads as the platforms make them, and archives that mean harm."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from autograder.classroom import entries
from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.intake import read_class

LAB = "01_axpy"


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"# {path}\n")


def zipped(**members: str | bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def found(place: Path, lab: str | None = None) -> dict[tuple[str, str], str]:
    """By student and lab: the first line of the file, or the problem."""
    return {(h.student, h.lab): h.content.decode().strip("# \n") or h.problem for h in read_class(place, lab).handed_in}


def one(place: Path, lab: str | None = LAB) -> HandedIn:
    (only,) = read_class(place, lab).handed_in
    return only


def test_a_folder_a_student(tmp_path: Path) -> None:
    write(tmp_path, "ada/submission.py", "bob/01_axpy/anything.py", "bob/03_transpose/submission.py", "bob/notes.txt")
    assert found(tmp_path) == {
        ("ada", ""): "ada/submission.py",
        ("bob", LAB): "bob/01_axpy/anything.py",
        ("bob", "03_transpose"): "bob/03_transpose/submission.py",
    }
    assert "which lab ada/submission.py is for" in read_class(tmp_path).handed_in[0].problem


def test_a_file_a_student_and_a_folder_a_lab(tmp_path: Path) -> None:
    write(tmp_path, "01_axpy/ada.py", "01_axpy/bob/submission.py", "03_transpose/ada.py")
    assert found(tmp_path) == {
        ("ada", LAB): "01_axpy/ada.py",
        ("bob", LAB): "01_axpy/bob/submission.py",
        ("ada", "03_transpose"): "03_transpose/ada.py",
    }


def test_one_student_alone(tmp_path: Path) -> None:
    write(tmp_path, "class/ada/01_axpy/submission.py")
    assert found(tmp_path) == {("ada", LAB): "class/ada/01_axpy/submission.py"}


def test_gradescope(tmp_path: Path) -> None:
    write(tmp_path, "assignment_1_export/submission_11/submission.py", "assignment_1_export/submission_12/my kernel.py")
    (tmp_path / "assignment_1_export" / "submission_metadata.yml").write_text(
        "submission_11:\n  :submitters:\n  - :name: Ada\n    :sid: '7'\n    :email: ada@x.edu\n"
        "submission_12:\n  :submitters:\n  - :name: Eve\n    :email: eve@x.edu\n  - :name: Bob\n    :email: bob@x.edu\n"
    )
    assert found(tmp_path, LAB) == {
        ("ada@x.edu", LAB): "assignment_1_export/submission_11/submission.py",
        ("bob@x.edu + eve@x.edu", LAB): "assignment_1_export/submission_12/my kernel.py",
    }


def test_gradescope_metadata_that_is_none(tmp_path: Path) -> None:
    write(tmp_path, "submission_11/submission.py")
    (tmp_path / "submission_metadata.yml").write_text("- 1\n")
    with pytest.raises(ClassError, match="not what Gradescope exports"):
        read_class(tmp_path, LAB)


def test_moodle(tmp_path: Path) -> None:
    write(
        tmp_path,
        "Ada Lovelace_123_assignsubmission_file_/submission.py",
        "Bob_Ross_124_assignsubmission_file/kernel.py",
        "Zoë Özgür_125_assignsubmission_file_axpy.py",
    )
    assert [(h.student, h.called, h.name) for h in read_class(tmp_path, LAB).handed_in] == [
        ("123", "Ada Lovelace", "submission.py"), ("124", "Bob_Ross", "kernel.py"), ("125", "Zoë Özgür", "axpy.py")
    ]  # fmt: skip


def test_canvas_takes_the_last_of_several(tmp_path: Path) -> None:
    write(
        tmp_path, "lovelaceada_11_22_submission.py", "rossbob_LATE_12_23_submission.py",
        "rossbob_LATE_12_24_submission-1.py", "rossbob_LATE_12_25_submission-10.py", "eve_13_26_kernel-2.py",
    )  # fmt: skip
    assert found(tmp_path, LAB) == {
        ("11", LAB): "lovelaceada_11_22_submission.py",
        ("12", LAB): "rossbob_LATE_12_25_submission-10.py",
        ("13", LAB): "eve_13_26_kernel-2.py",
    }


def test_nbgrader(tmp_path: Path) -> None:
    write(tmp_path, "submitted/ada/01_axpy/submission.py", "submitted/bob/01_axpy/submission.py")
    assert set(found(tmp_path)) == {("ada", LAB), ("bob", LAB)}
    assert set(found(tmp_path / "submitted")) == {("ada", LAB), ("bob", LAB)}


def test_archives_are_read_as_folders(tmp_path: Path) -> None:
    whole = tmp_path / "class.zip"
    whole.write_bytes(zipped(**{"ada/submission.py": "# a", "bob.zip": zipped(**{"src/submission.py": "# b"})}))
    assert found(whole, LAB) == {("ada", LAB): "a", ("bob", LAB): "b"}
    with tarfile.open(tmp_path / "class.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("eve/submission.py")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"# e"))
    assert found(tmp_path / "class.tar.gz", LAB) == {("eve", LAB): "e"}


def test_two_files_of_which_none_is_meant(tmp_path: Path) -> None:
    write(tmp_path, "ada/a.py", "ada/b.py", "bob/helper.py", "bob/submission.py")
    both = {h.student: h for h in read_class(tmp_path, LAB).handed_in}
    assert both["ada"].problem == "ada handed in 2 files (ada/a.py, ada/b.py): leave one, or name it submission.py."
    assert (both["bob"].name, both["bob"].problem) == ("submission.py", "")


def test_two_places_of_one_student(tmp_path: Path) -> None:
    write(tmp_path, "01_axpy/ada.py", "ada/01_axpy/submission.py", "01_axpy/bob.py", "bob/01_axpy/mine.py")
    by_student = {h.student: h for h in read_class(tmp_path).handed_in}
    assert (by_student["ada"].name, by_student["ada"].problem) == ("submission.py", "")
    assert by_student["bob"].problem.startswith(
        "bob handed in 2 files (01_axpy/bob.py, bob/01_axpy/mine.py): leave one"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../../evil.py", "leads out of its archive"),
        ("/etc/evil.py", "leads out of its archive"),
        ("..\\evil.py", "leads out of its archive"),
    ],
)
def test_members_that_lead_out(tmp_path: Path, name: str, words: str) -> None:
    place = tmp_path / "class.zip"
    place.write_bytes(zipped(**{name: "# x"}))
    assert words in one(place).problem
    assert list(tmp_path.iterdir()) == [place]


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "submission.py").symlink_to("/etc/hostname")
    assert one(tmp_path).problem == "ada/submission.py is a symbolic link, which is not followed."
    with tarfile.open(tmp_path / "class.tar", "w") as archive:
        info = tarfile.TarInfo("ada/submission.py")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    assert one(tmp_path / "class.tar").problem == "ada/submission.py is a link or a device."


def test_a_pipe_does_not_stop_the_class(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    os.mkfifo(tmp_path / "ada" / "submission.py")
    assert one(tmp_path).problem == "ada/submission.py is no regular file."


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    place = tmp_path / "class.zip"
    place.write_bytes(zipped(**{"ada/submission.py": b"#" * (64 << 20)}))
    assert one(place).problem == "ada/submission.py is larger than 1 MiB."


def test_an_archive_three_deep_is_refused(tmp_path: Path) -> None:
    inner = zipped(**{"submission.py": "# x"})
    place = tmp_path / "class.zip"
    place.write_bytes(zipped(**{"ada.zip": zipped(**{"again.zip": zipped(**{"more.zip": inner})})}))
    assert "archive in an archive" in one(place).problem


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_ENTRIES", 3)
    write(tmp_path, *(f"s{i}/submission.py" for i in range(4)))
    with pytest.raises(ClassError, match="more than 3 files"):
        read_class(tmp_path, LAB)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\3\4 damaged"])
def test_damaged_archives(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ada.zip").write_bytes(content)
    assert one(tmp_path).problem == "ada.zip is no archive that can be read."


def test_empty_and_odd_names(tmp_path: Path) -> None:
    write(tmp_path, "张伟/müller lösung.py", 'o\'neil "x"/submission.py')
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "submission.py").write_bytes(b"")
    by_student = {h.student: h for h in read_class(tmp_path, LAB).handed_in}
    assert by_student["张伟"].name == "müller lösung.py" and not by_student["张伟"].problem
    assert not by_student['o\'neil "x"'].problem
    assert by_student["empty"].problem == "empty/submission.py is empty."


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ClassError, match="Nothing in"):
        read_class(tmp_path, LAB)
    with pytest.raises(ClassError, match="There is no folder or archive"):
        read_class(tmp_path / "absent", LAB)
    with pytest.raises(ClassError, match="There is no lab 'nine'"):
        read_class(tmp_path, "nine")
