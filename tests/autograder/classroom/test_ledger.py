"""The record of a class: what is kept, what is graded again, and what a killed run leaves."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import TRIES, Ledger
from autograder.classroom.people import Identity
from autograder.classroom.table import table

ADA = HandedIn("ada", "01_axpy", "submission.py", b"# a")
BOB = HandedIn("bob", "01_axpy", "submission.py", b"# b")
EVE = HandedIn("eve", "", "x.py", b"# e", "Nothing says which lab x.py is for: name it with --lab.")
REPORT = {
    "status": "passed", "score": 70.0, "max_score": 70.0, "full_score": 100.0, "efficiency": None,
    "device": "emulator", "hardware": "emulator", "isolation": "bubblewrap", "seconds": 1.5,
}  # fmt: skip


def waiting(ledger: Ledger, *only: str, again: bool = False) -> list[str]:
    return sorted(one.student for one in ledger.waiting(only, again))


def test_what_has_a_grade_waits_no_more(tmp_path: Path) -> None:
    with Ledger(tmp_path / "r" / "class.sqlite") as ledger:
        assert ledger.take_in([ADA, BOB, EVE]) == 3
        assert waiting(ledger) == ["ada", "bob"]
        ledger.keep(ledger.waiting(["ada"])[0].number, REPORT)
    with Ledger(tmp_path / "r" / "class.sqlite") as ledger:
        assert ledger.take_in([ADA, BOB, EVE]) == 0
        assert waiting(ledger) == ["bob"]
        assert waiting(ledger, again=True) == ["ada", "bob"]
        assert waiting(ledger, "ada") == [] and waiting(ledger, "ada", again=True) == ["ada"]
        assert waiting(ledger, "01_axpy", again=True) == ["ada", "bob"]
        with pytest.raises(ClassError, match="nobody of that name has handed in anything, and no lab"):
            ledger.waiting(["zoe"])


def test_a_member_of_a_group_can_be_named(tmp_path: Path) -> None:
    pair = replace(ADA, student="ada + zoe", members=(Identity("ada"), Identity("zoe")))
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([pair, BOB])
        assert waiting(ledger, "zoe") == waiting(ledger, "ada + zoe") == ["ada + zoe"]


def test_what_changed_is_a_further_attempt(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([ADA])
        ledger.keep(ledger.waiting()[0].number, REPORT)
        assert ledger.take_in([replace(ADA, content=b"# better")]) == 1
        assert [one.content for one in ledger.waiting()] == [b"# better"]
        assert not next(ledger.lines()).status
        assert [(one.attempt, one.score) for one in ledger.attempts()] == [(1, 70), (2, 0)]


def test_who_is_not_in_a_further_download_keeps_the_grade(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([ADA, BOB])
        ledger.keep(ledger.waiting(["ada"])[0].number, REPORT)
        ledger.take_in([BOB])
        assert [(line.student, line.score) for line in ledger.lines()] == [("ada", 70), ("bob", 0)]
        assert ledger.take_in([ADA, BOB]) == 0
        assert next(ledger.lines()).score == 70


def test_a_lab_has_one_secret_seed(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite") as ledger:
        first = ledger.seed_of("01_axpy")
        assert first != ledger.seed_of("03_transpose")
    with Ledger(tmp_path / "class.sqlite") as ledger:
        assert ledger.seed_of("01_axpy") == first
    assert stat.S_IMODE((tmp_path / "class.sqlite").stat().st_mode) == 0o600


def test_what_is_lost_too_often_is_left_alone(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([ADA])
        (one,) = ledger.waiting()
        for _ in range(TRIES):
            assert waiting(ledger) == ["ada"]
            ledger.note_lost(one.number)
        assert waiting(ledger) == []
        assert "ended without a word 3 times" in next(ledger.lines()).problem
        assert waiting(ledger, again=True) == ["ada"]


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite"), pytest.raises(ClassError, match="is used by another run"):
        Ledger(tmp_path / "class.sqlite")


def test_a_file_that_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "class.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(ClassError, match="is not a record of a class"):
        Ledger(tmp_path / "class.sqlite")
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(ClassError, match="is not a record of a class"):
        Ledger(tmp_path / "other.sqlite")


def test_the_table_has_no_formulas(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([replace(ADA, student='=HYPERLINK("http://x")', name="@x\n.py"), EVE])
        ledger.keep(ledger.waiting()[0].number, REPORT)
        lines = table(ledger.lines()).splitlines()
    assert lines[1].startswith('"\'=HYPERLINK(""http://x"")",01_axpy,passed,70,70,100,,emulator,1.5,')
    assert "'@x" in lines[1] and len(lines) == 3
    assert lines[2].startswith("eve,,not graded,")


def test_the_log_tells_a_changed_grade_from_the_same(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite", who="TA") as ledger:
        ledger.take_in([ADA])
        (one,) = ledger.waiting()
        for score in (70.0, 70.0, 50.0):
            ledger.keep(one.number, {**REPORT, "score": score})
        assert [line.words for line in ledger.log()][1:] == [
            "attempt 1 graded: passed, 70",
            "attempt 1 graded: as before, passed, 70",
            "attempt 1 graded: passed, 70 -> passed, 50",
        ]
        assert {line.who for line in ledger.log()} == {"TA"}


@pytest.mark.parametrize("reads", [False, True])
def test_a_folder_of_the_records_name_is_one_sentence(reads: bool, tmp_path: Path) -> None:
    (tmp_path / "class.sqlite").mkdir()
    with pytest.raises(ClassError, match="There is no record" if reads else "unable to open"):
        Ledger(tmp_path / "class.sqlite", reads=reads)


def test_a_full_disc_is_one_sentence_and_what_was_kept_stays(tmp_path: Path) -> None:
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([ADA])
    full = pytest.raises(ClassError, match="disk is full.*What has a grade keeps it")
    with full, Ledger(tmp_path / "class.sqlite") as ledger:
        (pages,) = ledger._database.execute("PRAGMA page_count").fetchone()
        ledger._database.execute(f"PRAGMA max_page_count = {pages + 1}")  # SQLite's own full disc
        ledger.take_in([ADA, replace(BOB, content=b"#" * 100_000)])
    with Ledger(tmp_path / "class.sqlite", reads=True) as ledger:
        assert [line.student for line in ledger.lines()] == ["ada"]


def test_a_record_in_a_folder_that_cannot_be_written_to_is_read(tmp_path: Path) -> None:
    """SQLite then cannot make the file that it shares with other readers, as where a folder has its name."""
    with Ledger(tmp_path / "class.sqlite") as ledger:
        ledger.take_in([ADA])
    (tmp_path / "class.sqlite-shm").mkdir()
    with Ledger(tmp_path / "class.sqlite", reads=True) as ledger:
        assert [line.student for line in ledger.lines()] == ["ada"]
    with pytest.raises(ClassError, match="its folder can be written to"):
        Ledger(tmp_path / "class.sqlite")
