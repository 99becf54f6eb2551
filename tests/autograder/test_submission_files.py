"""Submissions that share a file are taken as if each had its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autograder.spec.lab import solutions_folder
from autograder.submissions import is_own
from corpus.judge import submission_files
from corpus.judge.submission_files import submission, submissions
from corpus.judge.truth import SUBMISSIONS

SHARED = """\
# submission: one
# expect: all: passed: one way
def twice(x, out): ...


# submission: two
# expect: all: passed: another
def twice(x, out): ...
"""


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of two labs: one has a folder of right submissions, the other both, a folder and a shared file."""
    monkeypatch.setattr(submission_files, "SUBMISSIONS", tmp_path / "submissions")
    monkeypatch.setattr(submission_files, "TAKEN_APART", tmp_path / "taken_apart")
    for name in ("90_twice/correct/three.py", "91_other/correct/four.py", "90_twice/wrong/no_guard.py"):
        path = tmp_path / "submissions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# expect: all: passed: as it is\n")
    (tmp_path / "submissions" / "90_twice" / "correct.py").write_text(SHARED)
    return tmp_path / "submissions"


def test_each_of_them_is_a_file_of_its_lab_and_kind(corpus: Path) -> None:
    names = ["90_twice/correct/one.py", "90_twice/correct/three.py", "90_twice/correct/two.py"]
    assert ["/".join(path.parts[-3:]) for path in submissions("correct", "90_twice")] == names
    assert ["/".join(path.parts[-3:]) for path in submissions("correct")] == [*names, "91_other/correct/four.py"]
    assert [path.name for path in submissions("wrong")] == ["no_guard.py"] and submissions("exploit") == []
    one, three, two = submissions("correct", "90_twice")
    assert one.read_text() == "# expect: all: passed: one way\ndef twice(x, out): ...\n"
    assert two.read_text() == "# expect: all: passed: another\ndef twice(x, out): ...\n"
    assert three.parent == corpus / "90_twice" / "correct"


def test_they_follow_the_file_that_they_are_from(corpus: Path) -> None:
    submissions("correct")
    (corpus / "90_twice" / "correct.py").write_text(SHARED.replace("another", "a third").replace("one", "last"))
    assert [path.stem for path in submissions("correct", "90_twice")] == ["last", "three", "two"]
    assert "a third" in submissions("correct", "90_twice")[-1].read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has to begin with a line"),
        ("# expect: all: passed: nameless\n\n" + SHARED, "has to begin with a line"),
        (SHARED.replace("two", "one"), "have one name"),
        (SHARED.replace("two", "three"), "have one name"),
    ],
    ids=["empty", "nameless", "twice", "also in the folder"],
)
def test_a_file_that_hides_one_is_refused(text: str, words: str, corpus: Path) -> None:
    (corpus / "90_twice" / "correct.py").write_text(text)
    with pytest.raises(ValueError, match=words):
        submissions("correct")


PLAIN = "# expect: all: passed: plain\n" + "".join(f"{n} = {n}\n" for n in "abcdefgh")
DIFFS = """\
--- correct/plain.py
+++ wrong/changed.py
@@ -1,2 +1,2 @@
-# expect: all: passed: plain
+# expect: correctness: wrong answer: b is c
 a = a
@@ -3,2 +3,4 @@
-b = b
+b = c
+b += 1
 c = c
@@ -8,2 +10,1 @@
-g = g
 h = h

--- solution/submission.py
+++ wrong/shorter.py
@@ -1,2 +1,1 @@
-# mine
 x = 1
"""


@pytest.fixture
def diffs(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with diffs of a lab that has a right submission and a solution."""
    monkeypatch.setattr(submission_files, "solutions_folder", lambda: corpus.parent / "solutions")
    for path, text in (
        (corpus / "90_twice" / "correct" / "plain.py", PLAIN),
        (corpus.parent / "solutions" / "90_twice" / "submission.py", "# mine\nx = 1\n"),
        (corpus / "90_twice" / "wrong.diff", DIFFS),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return corpus / "90_twice" / "wrong.diff"


def test_a_diff_is_a_file_of_its_own(diffs: Path) -> None:
    found = {path.name: path.read_text() for path in submissions("wrong", "90_twice")}
    assert found.keys() == {"changed.py", "no_guard.py", "shorter.py"} and found["shorter.py"] == "x = 1\n"
    first, rest = found["changed.py"].split("\n", 1)
    assert first == "# expect: correctness: wrong answer: b is c"
    assert rest == "a = a\nb = c\nb += 1\nc = c\nd = d\ne = e\nf = f\nh = h\n"
    assert submission("90_twice/wrong/shorter.py").read_text() == "x = 1\n"
    with pytest.raises(KeyError):
        submission("90_twice/wrong/longer.py")


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
def test_diffs_are_what_patch_takes_them_for(tmp_path: Path) -> None:
    for file in sorted(SUBMISSIONS.glob("*/*.diff")):
        for part in re.split(r"\n(?=---)", file.read_text()):
            base, made = (line.split()[1] for line in part.splitlines()[:2])
            solution = base.startswith("solution/")
            old = solutions_folder() / file.parent.name / base[9:] if solution else file.parent / base
            new = tmp_path / "new.py"
            (tmp_path / "one.diff").write_text(part.rstrip("\n") + "\n")
            subprocess.run(["patch", "-s", "-o", new, old, tmp_path / "one.diff"], check=True)
            assert new.read_text() == submission(f"{file.parent.name}/{made}").read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("-b = b", "-b = x", "correct/plain.py has changed at line 3: make the diff of wrong/changed.py again"),
        ("+++ wrong/shorter", "+++ correct/shorter", "can have files of wrong/ only"),
        ("+++ wrong/shorter", "+++ wrong/no_guard", "have one name"),
        ("+++ wrong/shorter", "wrong/shorter", "outside of unified diffs"),
        ("@@ -1,2 +1,1 @@", "about it", "outside of unified diffs"),
    ],
)
def test_a_diff_that_says_nothing_certain_is_refused(old: str, new: str, words: str, diffs: Path) -> None:
    diffs.write_text(DIFFS.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(words)):
        submissions("wrong")


def test_they_are_not_taken_for_the_work_of_who_runs_the_judge() -> None:
    assert not is_own(submission_files.TAKEN_APART / "90_twice" / "exploit" / "stale_output.py")
