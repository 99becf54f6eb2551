"""Feedback in the names of Canvas's download, read as Canvas reads them."""

from __future__ import annotations

import ast
import json
import re
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger
from autograder.classroom.people import Person
from autograder.cli import main
from autograder.platforms.canvas_comments import comments
from tests.autograder.platforms.reports import ON_GPU, WRONG, line, problem

LAB = "03_transpose"
DOWNLOADED = (
    "lovelaceada_11_501_submission.py", "lovelaceada_11_502_notes.py", "babbage_LATE_12_503_lesson.ipynb",
    "3 of 3_13_504_hw.zip", "anon_x1Yz9_505_kernel.py", "link_14_link.html", "pdf_15_506_report.pdf",
)  # fmt: skip


def of_canvas(name: str) -> tuple[str, str]:
    """The user and the attachment, as `infer_comment_context_from_filename` of Canvas finds them."""
    parts = [part for part in name.split("_") if part != "LATE"]
    if parts[0] == "anon":
        return parts[1], parts[2]
    user, attachment, *_ = [part for part in parts if re.fullmatch(r"\d+", part)]
    return user, attachment


def made(*lines, skipped=None) -> dict[str, bytes]:
    content = comments(lines, DOWNLOADED, lambda number: number, lambda one: f"<p>{one.student}", skipped)
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_each_student_gets_a_comment_on_the_file_that_counts() -> None:
    """Under the name of a file of theirs, which is what Canvas shows: Python stays Python, an archive an archive."""
    skipped: list[str] = []
    lines = [
        line("11", content=b"x = 1\n"),
        replace(line("12", found=WRONG), file="lesson.py", counts=7.0, why="2 days late"),
        line("13"),
        line("anon_x1Yz9", content="x = 'é'".encode("utf-16")),
        line("14"),
        line("15"),
        problem("11", "01_axpy"),
    ]
    found = made(*lines, skipped=skipped)
    assert {of_canvas(name) for name in found} == {("11", "501"), ("12", "503"), ("13", "504"), ("x1Yz9", "505")}
    assert set(found) <= set(DOWNLOADED) and [words.split()[-1] for words in skipped] == ["14", "15"]
    python = found["lovelaceada_11_501_submission.py"].decode()
    assert python.startswith(f"# {LAB}: 15 points count.") and python.endswith("\nx = 1\n")
    assert ast.unparse(ast.parse(python)) == "x = 1"  # all else is comments
    assert "x\0 \0=" in found["anon_x1Yz9_505_kernel.py"].decode()  # readable, whatever was handed in
    words, code = json.loads(found["babbage_LATE_12_503_lesson.ipynb"])["cells"]
    assert "7 points count. 2 days late" in words["source"] and code["source"] == "# x"
    with zipfile.ZipFile(BytesIO(found["3 of 3_13_504_hw.zip"])) as archive:
        assert archive.read("feedback.html") == b"<p>13"


def test_a_download_of_another_platform_is_refused() -> None:
    with pytest.raises(ClassError, match="no file with a name of Canvas's"):
        comments([line("11")], ["submission.py"], str, lambda one: "")
    with pytest.raises(ClassError, match="no Python file, notebook or zip archive of 14"):
        made(line("14"))


def test_the_command_takes_the_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a roster that calls the student by another name."""
    with Ledger(tmp_path / "results" / RECORD) as ledger:
        ledger.enrol([Person("ada@x.edu", "Ada", frozenset({"11"}))])
        ledger.take_in([HandedIn("11", LAB, "submission.py", b"# x", called="lovelaceada")])
        for one in ledger.waiting():
            ledger.keep(one.number, {**ON_GPU, "lab": LAB, "submission": one.file})
    with zipfile.ZipFile(tmp_path / "submissions.zip", "w") as archive:
        archive.writestr(DOWNLOADED[0], "# x")
    command = ["export", str(tmp_path / "results"), "--to", "canvas-feedback", "--out", str(tmp_path / "out.zip")]
    assert main(command) == 2 and "--submissions" in capsys.readouterr().err
    assert main([*command, "--lab", LAB, "--submissions", str(tmp_path / "submissions.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.namelist() == [DOWNLOADED[0]]
