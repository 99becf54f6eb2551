"""The record of a class: a SQLite file with what was handed in and what it got. Only one process writes to it.

Every change is one transaction of a write-ahead log, so that a killed run leaves each grade whole or not there at all,
and the next run goes on with what has none.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from autograder.classroom.entries import ClassError
from autograder.classroom.intake import HandedIn
from autograder.records.report import Report
from autograder.records.stored import report_of
from autograder.spec.seeds import secret_seed

RECORD = "class.sqlite"  # its name in the folder of a class's results
SCHEMA = "1"
TRIES = 3  # of a submission whose grading was lost with the process that did it

_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE submission (
    id INTEGER PRIMARY KEY, student TEXT NOT NULL, lab TEXT NOT NULL, file TEXT NOT NULL, content BLOB NOT NULL,
    digest TEXT NOT NULL, problem TEXT NOT NULL, present INTEGER NOT NULL, lost INTEGER NOT NULL DEFAULT 0,
    UNIQUE (student, lab)
);
CREATE TABLE grade (
    submission INTEGER PRIMARY KEY REFERENCES submission (id), status TEXT NOT NULL, score REAL NOT NULL,
    max_score REAL NOT NULL, full_score REAL NOT NULL, efficiency REAL, device TEXT NOT NULL, hardware TEXT NOT NULL,
    isolation TEXT NOT NULL, seconds REAL NOT NULL, finished TEXT NOT NULL, report TEXT NOT NULL
);
CREATE TABLE seed (lab TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Waiting:
    """A submission that has no grade yet."""

    number: int
    student: str
    lab: str
    file: str
    content: bytes


@dataclass(frozen=True)
class GradeLine:
    """A submission as it stands: `status` is empty until it is graded, `problem` says why it cannot be."""

    student: str
    lab: str
    file: str
    problem: str
    status: str
    score: float
    max_score: float
    full_score: float
    efficiency: float | None
    hardware: str
    seconds: float
    finished: str
    report: dict[str, Any]  # as it was stored; empty until it is graded
    content: bytes = b""

    def graded(self) -> Report | None:
        """The report, with the submission as its source; None until it is graded. Raises ClassError."""
        if not self.report:
            return None
        try:
            return report_of(self.report, self.content.decode("utf-8", "replace"))
        except msgspec.ValidationError as error:
            raise ClassError(
                f"The class's record holds no whole report of {self.lab} for {self.student!r} ({error}): grade it "
                "again, with --regrade and --only of `autograder class`."
            ) from None


class Ledger:
    """The record at `path`, made if there is none. Use as a context manager.

    Raises ClassError if the file is something else or another run has it open for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # it holds everybody's work, and the seeds
        self._database = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            # One writer at a time: the lock is kept until the record is closed.
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._prepare()
        except sqlite3.OperationalError as error:
            self._database.close()
            words = "is used by another run" if "locked" in str(error) else f"cannot be used ({error})"
            raise ClassError(f"The record {path} {words}.") from None
        except sqlite3.DatabaseError:
            self._database.close()
            raise ClassError(f"{path} is not a record of a class: name another folder with --out.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._database)

    def _prepare(self) -> None:
        names = {row[0] for row in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not names:
            for statement in _TABLES.split(";"):
                self._database.execute(statement)
            self._database.execute("INSERT INTO about VALUES ('schema', ?)", (SCHEMA,))
            return
        if "about" not in names:
            raise sqlite3.DatabaseError
        (schema,) = self._database.execute("SELECT value FROM about WHERE name = 'schema'").fetchone()
        if schema != SCHEMA:
            raise ClassError(f"The record {self.path} is of another version of autograder: start a new one with --out.")

    def take_in(self, handed_in: Sequence[HandedIn]) -> int:
        """Note what is handed in now; how many of them are new or changed. What changed loses its grade, what is no
        longer there keeps it."""
        changed = 0
        with self._transaction():
            self._database.execute("UPDATE submission SET present = 0")
            for one in handed_in:
                digest = hashlib.sha256(one.content).hexdigest()
                key = (one.student, one.lab)
                known = self._database.execute(
                    "SELECT id, digest, file, problem FROM submission WHERE student = ? AND lab = ?", key
                ).fetchone()
                if known is None:
                    self._database.execute(
                        "INSERT INTO submission (student, lab, file, content, digest, problem, present) "
                        "VALUES (?, ?, ?, ?, ?, ?, 1)",
                        (*key, one.name, one.content, digest, one.problem),
                    )
                    changed += 1
                elif known[1:] == (digest, one.name, one.problem):
                    self._database.execute("UPDATE submission SET present = 1 WHERE id = ?", known[:1])
                else:
                    self._database.execute(
                        "UPDATE submission SET file = ?, content = ?, digest = ?, problem = ?, present = 1, lost = 0 "
                        "WHERE id = ?",
                        (one.name, one.content, digest, one.problem, known[0]),
                    )
                    self._database.execute("DELETE FROM grade WHERE submission = ?", known[:1])
                    changed += 1
        return changed

    def waiting(self, only: Sequence[str] = (), again: bool = False) -> list[Waiting]:
        """What is to be graded: submissions without a grade, or all with `again`, of these students and labs, if any
        are named. Raises ClassError for a name that is neither."""
        rows = self._database.execute(
            "SELECT id, student, lab, file, content, grade.submission IS NULL, lost FROM submission "
            "LEFT JOIN grade ON grade.submission = submission.id WHERE problem = '' AND present ORDER BY lab, student"
        ).fetchall()
        names = {name for row in self._database.execute("SELECT student, lab FROM submission") for name in row}
        for name in only:
            if name not in names:
                raise ClassError(f"--only {name}: there is no student and no lab of that name.")
        return [
            Waiting(*row[:5])
            for row in rows
            if (again or (row[5] and row[6] < TRIES)) and (not only or {row[1], row[2]} & set(only))
        ]

    def seed_of(self, lab: str) -> int:
        """The secret seed of a lab, the same for the whole class; drawn when it is first asked for."""
        with self._transaction():
            self._database.execute("INSERT OR IGNORE INTO seed VALUES (?, ?)", (lab, secret_seed()))
            (value,) = self._database.execute("SELECT value FROM seed WHERE lab = ?", (lab,)).fetchone()
        return value

    def keep(self, number: int, report: dict[str, Any]) -> None:
        """Keep the grade of a submission: `report` is Report.to_json(). It replaces the one before."""
        row = (
            number, report["status"], report["score"], report["max_score"], report["full_score"],
            report["efficiency"], report["device"], report["hardware"], report["isolation"], report["seconds"],
            time.strftime("%Y-%m-%dT%H:%M:%S%z"), json.dumps(report, allow_nan=False),
        )  # fmt: skip
        with self._transaction():
            marks = ", ".join("?" * len(row))
            self._database.execute(f"INSERT OR REPLACE INTO grade VALUES ({marks})", row)
            self._database.execute("UPDATE submission SET lost = 0 WHERE id = ?", (number,))

    def note_lost(self, number: int) -> None:
        """Note that the process that graded a submission is gone; after TRIES of them it is left alone."""
        with self._transaction():
            self._database.execute("UPDATE submission SET lost = lost + 1 WHERE id = ?", (number,))

    def lines(self) -> Iterator[GradeLine]:
        """Everything that is handed in now, by student and lab."""
        rows = self._database.execute(
            "SELECT student, lab, file, problem, lost, status, score, max_score, full_score, efficiency, hardware, "
            "seconds, finished, report, content FROM submission LEFT JOIN grade ON grade.submission = submission.id "
            "WHERE present ORDER BY student, lab"
        )
        for student, lab, file, problem, lost, status, *numbers, hardware, seconds, finished, report, content in rows:
            if lost >= TRIES and not status:
                problem = f"Its grading ended without a word {TRIES} times: grade it alone with `autograder grade`."
            score, most, full, efficiency = numbers
            yield GradeLine(
                student, lab, file, problem, status or "", score or 0.0, most or 0.0, full or 0.0, efficiency,
                hardware or "", seconds or 0.0, finished or "", json.loads(report) if report else {},
                content,
            )  # fmt: skip


class _Transaction:
    """All or nothing."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._database.execute("ROLLBACK" if kind else "COMMIT")
