"""The record of a class: a SQLite file with what was handed in and what it got. Only one process writes to it.

Every change is one transaction of a write-ahead log, so that a killed run leaves each grade whole or not there at all,
and the next run goes on with what has none.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import Any, Self

from filelock import FileLock, Timeout

from autograder.classroom.anonymity import Shown, draw
from autograder.classroom.cards import card, counts, with_cards
from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.people import Identity, Person
from autograder.classroom.policy import NOTHING_USED, Policy, Used, read_policy, what_counts
from autograder.spec.seeds import secret_seed

RECORD = "class.sqlite"  # its name in the folder of a class's results
SCHEMA = "3"
_HIDDEN = "names hidden"  # the setting
TRIES = 3  # of a submission whose grading was lost with the process that did it

_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE submission (
    id INTEGER PRIMARY KEY, student TEXT NOT NULL, lab TEXT NOT NULL, attempt INTEGER NOT NULL, file TEXT NOT NULL,
    content BLOB NOT NULL, digest TEXT NOT NULL, problem TEXT NOT NULL, called TEXT NOT NULL, members TEXT NOT NULL,
    at TEXT NOT NULL, note TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0, UNIQUE (student, lab, attempt)
);
CREATE TABLE grade (
    submission INTEGER PRIMARY KEY REFERENCES submission (id), status TEXT NOT NULL, score REAL NOT NULL,
    max_score REAL NOT NULL, full_score REAL NOT NULL, efficiency REAL, device TEXT NOT NULL, hardware TEXT NOT NULL,
    isolation TEXT NOT NULL, seconds REAL NOT NULL, gpu_seconds REAL NOT NULL, finished TEXT NOT NULL,
    report TEXT NOT NULL
);
CREATE TABLE seed (lab TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE person (id TEXT PRIMARY KEY, name TEXT NOT NULL, aliases TEXT NOT NULL);
CREATE TABLE pseudonym (student TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE override (
    student TEXT NOT NULL, lab TEXT NOT NULL, score REAL NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (student, lab)
);
CREATE TABLE log (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, student TEXT NOT NULL, lab TEXT NOT NULL,
    words TEXT NOT NULL
);
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
class LogLine:
    """One change of the record: its author, time, student and lab."""

    number: int
    at: str
    who: str
    student: str
    lab: str
    words: str


class Ledger:
    """The record at `path`, made if there is none; `who` changes it, in the log. Use as a context manager.

    One run at a time writes; with `reads` it is only read, also while another run writes. Raises ClassError if the file
    is something else, another run writes to it, or, also later, its disc is full or fails.
    """

    def __init__(self, path: Path, who: str = "", reads: bool = False) -> None:
        self.path, self.who = path, who or _user()
        self._writes = FileLock(path.with_suffix(".lock"), mode=0o600)  # ends with its process, however that ends
        if reads:
            self._database = self._to_read()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # it holds everybody's work, and the seeds
        try:
            self._writes.acquire(timeout=1.0)
        except Timeout:
            raise ClassError(f"The record {path} is used by another run.") from None
        self._database = self._connect("rw")
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._prepare()
        except (ClassError, sqlite3.Error) as error:
            self.close()
            raise self._meant(error) from None

    def _to_read(self) -> sqlite3.Connection:
        """The record, opened to be read. In a folder that cannot be written to it is read as a file that nobody
        changes, if the run that wrote it has ended."""
        if not self.path.is_file():
            raise ClassError(f"There is no record {self.path}: grade the class first, with `autograder class`.")
        ways = ["ro"] if self._has_log() else ["ro", "ro&immutable=1"]
        for way in ways:
            self._database = self._connect(way)
            try:
                self._check(self._tables())
                return self._database
            except (ClassError, sqlite3.Error) as error:
                self._database.close()
                if way == ways[-1] or not isinstance(error, sqlite3.OperationalError):
                    raise self._meant(error) from None
        raise AssertionError

    def _has_log(self) -> bool:
        """Whether changes stand in the log that are not in the file yet."""
        log = self.path.with_name(self.path.name + "-wal")
        return log.exists() and log.stat().st_size > 0

    def _connect(self, mode: str) -> sqlite3.Connection:
        place = f"{self.path.resolve().as_uri()}?mode={mode}"
        try:
            return sqlite3.connect(place, uri=True, isolation_level=None, timeout=10.0)
        except sqlite3.Error as error:
            self._writes.release()
            raise self._meant(error) from None

    def _meant(self, error: Exception) -> Exception:
        """The sentence for an error of SQLite's: what is wrong with the file or its place."""
        if isinstance(error, sqlite3.OperationalError):
            return ClassError(
                f"The record {self.path} cannot be used ({error}): see that its disc has space and its folder can be "
                "written to. What has a grade keeps it."
            )
        if isinstance(error, sqlite3.DatabaseError):
            return ClassError(f"{self.path} is not a record of a class: name another folder with --out.")
        return error

    def close(self) -> None:
        """Let another run write."""
        self._database.close()
        self._writes.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self.close()
        if isinstance(error, sqlite3.OperationalError):
            raise self._meant(error) from None

    def _transaction(self) -> _Transaction:
        return _Transaction(self._database)

    def _tables(self) -> set[str]:
        return {row[0] for row in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _prepare(self) -> None:
        names = self._tables()
        if not names:
            for statement in _TABLES.split(";"):
                self._database.execute(statement)
            self._database.execute("INSERT INTO about VALUES ('schema', ?)", (SCHEMA,))
            return
        self._check(names)

    def _check(self, names: set[str]) -> None:
        if "about" not in names:
            raise sqlite3.DatabaseError
        (schema,) = self._database.execute("SELECT value FROM about WHERE name = 'schema'").fetchone()
        if schema != SCHEMA:
            raise ClassError(f"The record {self.path} is of another version of autograder: start a new one with --out.")

    def take_in(self, handed_in: Sequence[HandedIn]) -> int:
        """Note what is handed in now; how many of them are new or changed. What changed is a further attempt at its
        lab; the earlier ones keep their grades. Students who are not among them stay as they are.

        They are noted, and so graded later, in a drawn order: that of names would tell from the log, and from when each
        was graded, whose pseudonym is whose."""
        changed = 0
        handed_in = self.by_roster(handed_in)
        SystemRandom().shuffle(handed_in)
        with self._transaction():
            nameless = {(one.student, one.name, one.problem) for one in handed_in if not one.lab}
            for number, *what in self._rows("SELECT id, student, file, problem FROM submission WHERE lab = ''"):
                if tuple(what) not in nameless:  # of a download that did not say which lab it was
                    self._database.execute("DELETE FROM submission WHERE id = ?", (number,))
            for one in handed_in:
                changed += self._take(one)
            self._draw_pseudonyms()
        return changed

    def _draw_pseudonyms(self) -> None:
        """Give a pseudonym to every student without one."""
        known = self.pseudonyms()
        taken = set(known.values())
        everybody: set[str] = set()
        for student, members in self._rows("SELECT student, members FROM submission"):
            everybody |= {student, *(name for name, _ in json.loads(members))}
        for student in sorted(everybody | {person.id for person in self.people()}):
            if student not in known:
                taken.add(name := draw(taken))
                self._database.execute("INSERT INTO pseudonym VALUES (?, ?)", (student, name))

    def pseudonyms(self) -> dict[str, str]:
        """The pseudonym of each student and each group, drawn once."""
        return dict(self._rows("SELECT * FROM pseudonym"))

    def shown(self) -> Shown:
        """What students are called where grades are looked at."""
        return Shown(self.pseudonyms(), bool(self.setting(_HIDDEN)))

    def hide_names(self, hidden: bool) -> None:
        """Show pseudonyms where grades are looked at from now on, or names again."""
        if hidden != bool(self.setting(_HIDDEN)):
            self.keep_setting(_HIDDEN, "yes" if hidden else "", "names hidden" if hidden else "names shown")

    def by_roster(self, handed_in: Sequence[HandedIn]) -> list[HandedIn]:
        """The hand-ins under the roster's IDs and names. Different files for one lab under two names of one student
        become one refused hand-in."""
        names, called = self.names(), {person.id: person.name for person in self.people()}

        def known(one: Identity) -> Identity:
            found = names.get(one.id.casefold(), one.id)
            return Identity(found, called.get(found) or one.name)

        resolved: dict[tuple[str, str], list[HandedIn]] = defaultdict(list)
        came_as: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in handed_in:
            who = known(Identity(one.student, one.called))
            members = tuple(known(member) for member in one.members)
            found = replace(one, student=who.id, called=who.name, members=members)
            resolved[who.id, one.lab].append(found)
            came_as[who.id, one.lab].append(one.student)
        return [_only_one(several, came_as[key]) for key, several in resolved.items()]

    def _take(self, one: HandedIn) -> bool:
        """Note one hand-in; whether it is new."""
        digest = hashlib.sha256(one.content).hexdigest()
        members = json.dumps([[member.id, member.name] for member in one.members])
        rows = self._rows(
            "SELECT id, attempt, digest, file, problem, at FROM submission WHERE student = ? AND lab = ? "
            "ORDER BY attempt DESC", one.student, one.lab,
        )  # fmt: skip
        same = [row for row in rows if row[2:5] == (digest, one.name, one.problem)]
        known = [row for row in same if row is rows[0] or (one.at and row[5] == one.at)]
        if known:  # the newest attempt once more, or an old download; who hands in the same again was no later for it
            at = min(time for time in (known[0][5], one.at) if time or not (known[0][5] or one.at))
            self._database.execute(
                "UPDATE submission SET called = ?, members = ?, at = ?, note = ? WHERE id = ?",
                (one.called, members, at, one.note, known[0][0]),
            )
            return False
        attempt = rows[0][1] + 1 if rows else 1
        self._database.execute(
            "INSERT INTO submission (student, lab, attempt, file, content, digest, problem, called, members, at, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (one.student, one.lab, attempt, one.name, one.content, digest, one.problem, one.called, members, one.at,
             one.note),
        )  # fmt: skip
        self.write_log(one.student, one.lab, f"attempt {attempt} came in: {one.name or 'no file'}", inside=True)
        return True

    def enrol(self, people: Sequence[Person]) -> None:
        """Note who is in the class. Hand-ins under another name of a student's are theirs from now on."""
        with self._transaction():
            for person in people:
                known = {name for one in self.people() if one.id == person.id for name in one.aliases}
                row = (person.id, person.name, json.dumps(sorted(person.aliases | known)))
                self._database.execute("INSERT OR REPLACE INTO person VALUES (?, ?, ?)", row)
            names = self.names()
            for (student,) in self._rows("SELECT DISTINCT student FROM submission"):
                if (known_as := names.get(student.casefold(), student)) != student:
                    self._rename(student, known_as)
            for number, members in self._rows("SELECT id, members FROM submission WHERE members != '[]'"):
                changed = [[names.get(one.casefold(), one), called] for one, called in json.loads(members)]
                self._database.execute("UPDATE submission SET members = ? WHERE id = ?", (json.dumps(changed), number))
            self._draw_pseudonyms()

    def names(self) -> dict[str, str]:
        """The ID of each name of a student, in small letters, that no other has."""
        names: dict[str, set[str]] = defaultdict(set)
        for person in self.people():
            for name in (person.id, *person.aliases):
                names[name.casefold()].add(person.id)
        return {name: next(iter(ids)) for name, ids in names.items() if len(ids) == 1}

    def _rename(self, old: str, new: str) -> None:
        self._database.execute("UPDATE OR IGNORE override SET student = ? WHERE student = ?", (new, old))
        self._database.execute("UPDATE OR IGNORE pseudonym SET student = ? WHERE student = ?", (new, old))
        for number, lab, attempt in self._rows(
            "SELECT id, lab, attempt FROM submission WHERE student = ? ORDER BY attempt", old
        ):
            ((last,),) = self._rows("SELECT max(attempt) FROM submission WHERE student = ? AND lab = ?", new, lab)
            self._database.execute(
                "UPDATE submission SET student = ?, attempt = ? WHERE id = ?", (new, (last or 0) + 1, number)
            )
            self.write_log(new, lab, f"attempt {attempt} of {old} is theirs by the roster", inside=True)

    def people(self) -> list[Person]:
        """The students of the class, by ID; none without a roster."""
        rows = self._rows("SELECT * FROM person ORDER BY id")
        return [Person(name, called, frozenset(json.loads(aliases))) for name, called, aliases in rows]

    def override(self, student: str, lab: str, score: float, reason: str) -> None:
        """Set by hand what counts for a student and lab, whatever is graded later. Raises ClassError."""
        labs = {name for (name,) in self._rows("SELECT DISTINCT lab FROM submission")}
        students = {one for line in self.attempts() for one in (line.student, *(who.id for who in line.members))}
        if student not in students | {person.id for person in self.people()} or lab not in labs:
            raise ClassError(f"The record has no such student, or no lab {lab!r}: see its results.csv.")
        with self._transaction():
            before = self._rows("SELECT score FROM override WHERE student = ? AND lab = ?", student, lab)
            self._database.execute("INSERT OR REPLACE INTO override VALUES (?, ?, ?, ?)", (student, lab, score, reason))
            words = f"override {before[0][0]:g} -> {score:g}" if before else f"override {score:g}"
            self.write_log(student, lab, f"{words}: {reason}", inside=True)

    def withdraw_override(self, student: str, lab: str, reason: str) -> None:
        """Let what is graded count again. Raises ClassError if there is no override."""
        with self._transaction():
            done = self._database.execute("DELETE FROM override WHERE student = ? AND lab = ?", (student, lab))
            if not done.rowcount:
                raise ClassError(f"There is no override of this student for {lab}.")
            self.write_log(student, lab, f"override withdrawn: {reason}", inside=True)

    def write_log(self, student: str, lab: str, words: str, inside: bool = False) -> int:
        """Add a line to the log, with the time and who runs this; its number. `inside` a transaction that has begun."""
        row = (_now(), self.who, student, lab, words)
        with nullcontext() if inside else self._transaction():
            done = self._database.execute("INSERT INTO log (at, who, student, lab, words) VALUES (?, ?, ?, ?, ?)", row)
        return done.lastrowid or 0

    def log(self, after: int = 0) -> list[LogLine]:
        """The lines of the log from a number on."""
        return [LogLine(*row) for row in self._rows("SELECT * FROM log WHERE id > ? ORDER BY id", after)]

    def last_log(self) -> int:
        """The number of the log's last line; 0 where there is none."""
        return self._rows("SELECT coalesce(max(id), 0) FROM log")[0][0]

    def setting(self, name: str) -> str:
        """A text that was kept under a name; empty if there is none."""
        return next((row[0] for row in self._rows("SELECT value FROM about WHERE name = ?", name)), "")

    def keep_setting(self, name: str, value: str, words: str) -> None:
        """Keep a text under a name, and say so in the log."""
        with self._transaction():
            self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
            self.write_log("", "", words, inside=True)

    def waiting(self, only: Sequence[str] = (), again: bool = False) -> list[Waiting]:
        """What is to be graded: submissions without a grade, or all with `again`, of these students, members of groups
        and labs, if any are named. Raises ClassError for a name that is none of them."""
        rows = self._rows(
            "SELECT id, student, lab, file, content, grade.submission IS NULL, lost FROM submission "
            "LEFT JOIN grade ON grade.submission = submission.id WHERE problem = '' ORDER BY lab, id"
        )
        names = {
            number: {student, lab, *(one for one, _ in json.loads(members))}
            for number, student, lab, members in self._rows("SELECT id, student, lab, members FROM submission")
        }
        for name in only:
            if not any(name in theirs for theirs in names.values()):
                shown = self.shown()
                called = shown.pseudonyms.get(name, name) if shown.hidden else name
                raise ClassError(f"--only {called}: nobody of that name has handed in anything, and no lab has it.")
        quota, used = self.policy().quota, self.used()
        return [
            Waiting(*row[:5])
            for row in rows
            if (again or (row[5] and row[6] < TRIES)) and (not only or names[row[0]] & set(only))
            if not (row[5] and quota.exceeded(used.get(row[1], NOTHING_USED)))
        ]

    def seed_of(self, lab: str) -> int:
        """The class's secret seed for a lab, from which each grade's follows; drawn when it is first asked for."""
        with self._transaction():
            self._database.execute("INSERT OR IGNORE INTO seed VALUES (?, ?)", (lab, secret_seed()))
            (value,) = self._database.execute("SELECT value FROM seed WHERE lab = ?", (lab,)).fetchone()
        return value

    def keep(self, number: int, report: dict[str, Any]) -> None:
        """Keep the grade of a submission: `report` is Report.to_json(), with `gpu_seconds` where it had a GPU. It
        replaces the one before."""
        row = (
            number, report["status"], report["score"], report["max_score"], report["full_score"],
            report["efficiency"], report["device"], report["hardware"], report["isolation"], report["seconds"],
            report.get("gpu_seconds", 0.0), _now(), json.dumps(report, allow_nan=False),
        )  # fmt: skip
        with self._transaction():
            before = self._rows(
                "SELECT student, lab, attempt, status, score FROM submission LEFT JOIN grade ON submission = id "
                "WHERE id = ?", number,
            )  # fmt: skip
            for student, lab, attempt, status, score in before:
                now = f"{report['status']}, {report['score']:g}"
                same = (status, score) == (report["status"], report["score"])
                then = "as before, " if same else f"{status}, {score:g} -> " if status else ""
                words = f"attempt {attempt} graded: {then}{now}"
                self.write_log(student, lab, words, inside=True)
            marks = ", ".join("?" * len(row))
            self._database.execute(f"INSERT OR REPLACE INTO grade VALUES ({marks})", row)
            self._database.execute("UPDATE submission SET lost = 0 WHERE id = ?", (number,))

    def note_lost(self, number: int) -> None:
        """Note that the process that graded a submission is gone; after TRIES of them it is left alone."""
        with self._transaction():
            self._database.execute("UPDATE submission SET lost = lost + 1 WHERE id = ?", (number,))

    def attempts(self) -> list[GradeLine]:
        """Every attempt, by student, lab and time."""
        found = []
        quota, used = self.policy().quota, self.used()
        for student, lab, file, problem, lost, status, *numbers, hardware, seconds, finished, report, content, called, \
                members, attempt, at, note, device, gpu_seconds in self._rows(
            "SELECT student, lab, file, problem, lost, status, score, max_score, full_score, efficiency, hardware, "
            "seconds, finished, report, content, called, members, attempt, at, note, device, gpu_seconds "
            "FROM submission LEFT JOIN grade ON grade.submission = submission.id ORDER BY student, lab, attempt"
        ):  # fmt: skip
            if not (status or problem):
                if lost >= TRIES:
                    problem = f"Its grading ended without a word {TRIES} times: grade it alone with `autograder grade`."
                else:
                    problem = quota.exceeded(used.get(student, NOTHING_USED))
            score, most, full, efficiency = numbers
            found.append(GradeLine(
                student, lab, file, problem, status or "", score or 0.0, most or 0.0, full or 0.0, efficiency,
                hardware or "", seconds or 0.0, finished or "", json.loads(report) if report else {}, content, called,
                tuple(Identity(*one) for one in json.loads(members)), attempt, at, note, device=device or "",
                gpu_seconds=gpu_seconds or 0.0,
            ))  # fmt: skip
        return found

    def lines(self) -> Iterator[GradeLine]:
        """The line that counts for each student and lab: the attempt that the policy chooses, with its points after
        lateness or those set by hand. Raises ClassError for a policy that this version does not understand."""
        yield from with_cards(what_counts(self.attempts(), self.policy(), self.overrides()))

    def used(self) -> dict[str, Used]:
        """What grading took so far, by student, over all labs and attempts; of each attempt the last grade counts."""
        rows = self._rows(
            "SELECT student, sum(seconds), sum(gpu_seconds) FROM grade JOIN submission ON submission = id "
            "GROUP BY student"
        )
        return {student: Used(seconds, gpu_seconds) for student, seconds, gpu_seconds in rows}

    def over_quota(self, one: Waiting) -> str:
        """Why a submission that has no grade is not graded, in a sentence; empty if its student's quota lasts."""
        if self._rows("SELECT 1 FROM grade WHERE submission = ?", one.number):
            return ""
        return self.policy().quota.exceeded(self.used().get(one.student, NOTHING_USED))

    def cards(self, without: Collection[int] = ()) -> dict[str, set[str]]:
        """What each lab's grades were measured on (`cards`), those of some submissions left out."""
        found: dict[str, set[str]] = defaultdict(set)
        rows = self._rows("SELECT id, lab, status, device, hardware FROM grade JOIN submission ON submission = id")
        for number, lab, status, device, hardware in rows:
            if number not in without and counts(status):
                found[lab].add(card(device, hardware))
        return found

    def policy(self) -> Policy:
        """The course's rules; without any the newest attempt counts, whenever it came."""
        return read_policy(self.setting("policy"), "The record's policy")

    def overrides(self) -> dict[tuple[str, str], tuple[float, str]]:
        """The points that were set by hand, with the reason, by student and lab."""
        return {(student, lab): (score, why) for student, lab, score, why in self._rows("SELECT * FROM override")}

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._database.execute(query, values).fetchall()


def _only_one(several: Sequence[HandedIn], names: Sequence[str]) -> HandedIn:
    """A student's hand-in for a lab, which came under each of these names. Equal files count from the earliest time;
    different ones are refused."""
    whole = [one for one in several if one.content and not one.problem]
    if len({one.content for one in whole}) < 2:
        chosen = (whole or several)[0]
        return replace(chosen, at=min((one.at for one in whole if one.at), default=chosen.at))
    words = (
        f"{' and '.join(names)} are one student in the roster, but their files differ. Keep the files of one name only."
    )
    return replace(several[0], content=b"", problem=words)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the system knows no name for whoever this is
        return "unknown"


class _Transaction:
    """All or nothing."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database.execute("COMMIT")
        elif self._database.in_transaction:  # a full disc may have ended it
            self._database.execute("ROLLBACK")
