"""Submissions that share a file are taken as if each had its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.submissions import is_own
from corpus.judge import submission_files
from corpus.judge.submission_files import submissions

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


def test_they_are_not_taken_for_the_work_of_who_runs_the_judge() -> None:
    assert not is_own(submission_files.TAKEN_APART / "90_twice" / "exploit" / "stale_output.py")
