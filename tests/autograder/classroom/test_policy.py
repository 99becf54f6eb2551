"""Which attempt counts, and for how much, against points and days worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger
from autograder.classroom.people import Identity, Person
from autograder.classroom.policy import read_policy, read_times, what_counts
from autograder.cli import main
from tests.autograder.platforms.reports import ON_GPU, line

LAB, NEXT = "01_axpy", "03_transpose"
DEADLINE = 'zone = "Europe/Berlin"\n[deadlines]\n01_axpy = 2026-11-20T23:59:00\n'


def attempt(number: int, score: float, at: str, student: str = "ada", lab: str = LAB) -> GradeLine:
    return replace(line(student, lab), attempt=number, score=score, at=at)


def counted(text: str, *attempts: GradeLine) -> dict[str, tuple[int, float]]:
    found = what_counts(attempts, read_policy(text, "policy.toml"), {})
    return {one.student: (one.attempt, round(one.points, 6)) for one in found}


THREE = (
    attempt(1, 75, "2026-11-20T21:00:00+00:00"),
    attempt(2, 80, "2026-11-20T22:58:59+00:00"),  # a second before the deadline in Berlin
    attempt(3, 60, "2026-11-21T11:00:00+00:00"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (3, 60)),
        ('attempt = "best"', (2, 80)),
        (DEADLINE, (3, 54)),  # a day that has begun
        (DEADLINE + "[late]\nstep = 0.5\n", (3, 54)),  # 12 hours and a minute: two halves
        (DEADLINE + "[late]\npenalty = 80\nmost = 50\n", (3, 30)),
        (DEADLINE + "[late]\nfree = 1\n", (3, 60)),
        ('attempt = "on-time"\n' + DEADLINE, (2, 80)),
        ('attempt = "on-time"\n' + DEADLINE + "[extensions.ada]\n01_axpy = 0.5\n", (2, 80)),
        ('attempt = "on-time"\n' + DEADLINE + "[extensions.ada]\n01_axpy = 1\n", (3, 60)),
        ('attempt = "on-time"\n' + DEADLINE + "[extensions.ada]\n01_axpy = 2026-11-21T12:00:00\n", (3, 60)),
        ('attempt = "on-time"\n' + DEADLINE.replace("Europe/Berlin", "America/New_York"), (2, 80)),
        ('attempt = "on-time"\n' + DEADLINE.replace("Europe/Berlin", "Asia/Tokyo"), (3, 0)),
    ],
)
def test_the_attempt_that_counts_and_its_points(text: str, expected: tuple[int, float]) -> None:
    assert counted(text, *THREE)["ada"] == expected


def test_half_days() -> None:
    text = DEADLINE + "[late]\nstep = 0.5\n"
    assert counted(text, attempt(1, 100, "2026-11-21T10:58:00+00:00"))["ada"] == (1, 95)
    assert counted(text, attempt(1, 100, "2026-11-21T11:00:00+00:00"))["ada"] == (1, 90)


def test_clocks_that_change_between_a_deadline_and_its_extension() -> None:
    """Berlin's clocks go back on 2026-10-25: a day later by the wall is 25 hours later."""
    text = 'attempt = "on-time"\nzone = "Europe/Berlin"\n[deadlines]\n01_axpy = 2026-10-24T12:00:00\n'
    text += "[extensions.ada]\n01_axpy = 1\n"
    late = attempt(1, 50, "2026-10-25T11:00:01+00:00")
    assert counted(text, attempt(1, 50, "2026-10-25T10:59:00+00:00"))["ada"] == (1, 50)
    assert counted(text, late)["ada"] == (1, 0)


def test_an_extension_of_one_member_is_the_groups() -> None:
    group = replace(attempt(1, 50, "2026-11-21T08:00:00+00:00", "a + b"), members=(Identity("a"), Identity("b")))
    assert counted(DEADLINE, group)["a + b"] == (1, 45)
    assert counted(DEADLINE + "[extensions.b]\n01_axpy = 1\n", group)["a + b"] == (1, 50)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("attempt = ", "is no TOML"),
        ('attempt = "worst"', "attempt is one of newest, best, on-time"),
        ('attempt = "on-time"', r"needs \[deadlines\]"),
        ('zone = "Europe/Nowhere"', "no time zone 'Europe/Nowhere'"),
        ("[deadlines]\n99_x = 2026-11-20T23:59:00\n", "no lab '99_x'"),
        ("[extensions.ada]\n01_axpy = 1\n", "01_axpy has no deadline"),
        (DEADLINE + "[extensions.ada]\n01_axpy = -1\n", "0 days or more"),
        ("[late]\nstep = 0.3\n", "step is 1 or 0.5"),
        ("[late]\nmost = 101\n", "0 to 100 percent"),
        ("free = 2", "unknown field `free`"),
    ],
)
def test_a_wrong_policy_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(ClassError, match=words):
        read_policy(text, "policy.toml")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two labs of ada and bob, of two downloads, and somebody who handed in nothing."""
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.enrol([Person("ada", "Ada L"), Person("bob", "Bob R", frozenset({"17"})), Person("eve", "Eve")])
        for lab, names in ((LAB, ("ada", "17")), (NEXT, ("bob",))):
            ledger.take_in([HandedIn(name, lab, "submission.py", f"# {name}".encode()) for name in names])
        for one in ledger.waiting():
            ledger.keep(one.number, {**ON_GPU, "lab": one.lab})
    return tmp_path


def rows(results: Path) -> dict[tuple[str, str], str]:
    with Ledger(results / RECORD) as ledger:
        return {(one.student, one.lab): f"{one.points:g}" for one in ledger.lines()}


def test_labs_add_up_in_one_record_under_the_rosters_ids(results: Path) -> None:
    assert set(rows(results)) == {("ada", LAB), ("bob", LAB), ("bob", NEXT)}


def test_an_override_survives_regrades_and_answers_an_appeal(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = [str(results), "--student", "ada", "--lab", LAB]
    assert main(["log", *about, "--appeal", "the race is benign", "--by", "Ada"]) == 0
    number = capsys.readouterr().out.split()[1].rstrip(":")
    override = ["override", *about, "--score", "42", "--reason", "she is right", "--by", "TA"]
    assert main([*override, "--appeal", "999"]) == 2 and main([*override, "--appeal", number]) == 0
    assert "ada, 01_axpy: 15 -> 42" in capsys.readouterr().out
    with Ledger(results / RECORD) as ledger:
        for one in ledger.waiting(again=True):
            ledger.keep(one.number, {**ON_GPU, "lab": one.lab, "score": 1.0})
        assert next(ledger.lines()).points == 42
        ledger.take_in([HandedIn("ada", LAB, "submission.py", b"# another")])
        assert next(ledger.lines()).points == 42
    assert main(["log", *about]) == 0
    said = capsys.readouterr().out
    assert f"Ada  ada, {LAB}: appeal: the race is benign" in said
    assert f"TA  ada, {LAB}: override 42: she is right (appeal {number})" in said
    assert "attempt 1 graded: wrong answer, 15 -> wrong answer, 1\n" in said and "attempt 2 came in" in said
    assert main(["override", *about, "--withdraw", "--reason", "no"]) == 0
    assert rows(results)["ada", LAB] == "0"  # the second attempt, which has no grade yet
    table = (results / "results.csv").read_text()
    assert "eve,01_axpy,nothing handed in" in table and "ada,01_axpy,waiting" in table


def test_points_for_who_handed_in_nothing(results: Path) -> None:
    command = ["override", str(results), "--student", "eve", "--lab", LAB, "--reason", "shown in person"]
    assert main([*command, "--score", "30"]) == 0
    assert rows(results)["eve", LAB] == "30"
    out = results / "grades.csv"
    assert main(["export", str(results), "--to", "moodle", "--out", str(out), "--lab", LAB]) == 0
    assert "eve,30" in out.read_text()


def test_a_policy_says_whose_points_it_changes(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger(results / RECORD) as ledger:
        ledger.take_in([HandedIn("ada", LAB, "submission.py", b"# worse")])
        for one in ledger.waiting():
            ledger.keep(one.number, {**ON_GPU, "lab": one.lab, "score": 5.0})
    (results / "policy.toml").write_text('attempt = "best"\n')
    assert main(["policy", str(results), str(results / "policy.toml")]) == 0
    assert "ada, 01_axpy: 5 -> 15" in capsys.readouterr().out
    (results / "more.toml").write_text(DEADLINE + "[extensions.adda]\n01_axpy = 1\n")
    assert main(["policy", str(results), str(results / "more.toml")]) == 0
    assert "adda has an extension, and is not in the record" in capsys.readouterr().out
    assert main(["policy", str(results), str(results / "policy.toml")]) == 0
    capsys.readouterr()
    assert main(["policy", str(results)]) == 0 and 'attempt = "best"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--student", "ada", "--lab", LAB, "--reason", "x"], "--withdraw"),
        (["--student", "ada", "--lab", LAB, "--reason", " ", "--score", "1"], "--reason"),
        (["--student", "nobody", "--lab", LAB, "--reason", "x", "--score", "1"], "no such student"),
        (["--student", "ada", "--lab", LAB, "--reason", "x", "--withdraw"], "no override of this student for"),
    ],
)
def test_a_wrong_override_is_one_sentence(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["override", str(results), *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_downloads_in_another_order_than_attempts_were_made(tmp_path: Path) -> None:
    def hand_in(text: bytes, at: str) -> HandedIn:
        return HandedIn("ada", LAB, "submission.py", text, at=at)

    first, second = hand_in(b"# 1", "2026-11-01T10:00:00+00:00"), hand_in(b"# 2", "2026-11-02T10:00:00+00:00")
    with Ledger(tmp_path / RECORD) as ledger:
        assert [ledger.take_in([one]) for one in (second, first, second, first)] == [1, 1, 0, 0]
        assert next(ledger.lines()).content == b"# 2"
        ledger.take_in([replace(second, at="2026-11-09T10:00:00+00:00"), first])  # the same once more is not later
        assert {one.at for one in ledger.attempts()} >= {first.at, second.at}


def test_times_of_a_table_are_in_the_policys_zone(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("student,lab,time\nada,01_axpy,2026-11-20T23:59:00\nbob,01_axpy,2026-11-20T23:59:00-05:00\n")
    assert read_times(path, read_policy(DEADLINE, "x")) == {
        ("ada", LAB): "2026-11-20T22:59:00+00:00",
        ("bob", LAB): "2026-11-21T04:59:00+00:00",
    }
    path.write_text("student,lab,time\nada,01_axpy,yesterday\n")
    with pytest.raises(ClassError, match="line 2: the time is none"):
        read_times(path, read_policy("", "x"))


def test_a_rosters_id_takes_over_overrides_and_members(tmp_path: Path) -> None:
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.take_in([HandedIn("17", LAB, "a.py", b"# a"), HandedIn("17 + 18", NEXT, "b.py", b"# b")])
        ledger.override("17", LAB, 5, "x")
        ledger.enrol([Person("bob", "Bob", frozenset({"17"}))])
        assert {(one.student, one.points) for one in ledger.lines()} == {("bob", 5), ("17 + 18", 0)}


def test_two_names_of_one_student_by_the_roster(tmp_path: Path) -> None:
    """What came under both in one download is refused, or one hand-in if it is the same; again it is nothing new."""
    one, other = HandedIn("17", LAB, "a.py", b"# a"), HandedIn("bob@x.edu", LAB, "b.py", b"# b")
    with Ledger(tmp_path / RECORD) as ledger:
        ledger.enrol([Person("bob@x.edu", "Bob", frozenset({"17"}))])
        for again in range(2):
            (found,) = ledger.by_roster([one, other])
            assert (found.student, found.content) == ("bob@x.edu", b"")
            assert found.problem.startswith("17 and bob@x.edu are one student in the roster")
            assert ledger.take_in([found]) == 1 - again
        (found,) = ledger.by_roster([one, replace(other, content=b"# a")])
        assert (found.student, found.content, found.problem) == ("bob@x.edu", b"# a", "")
        times = [replace(one, at="2026-03-02T10:00:00"), replace(other, content=b"# a", at="2026-03-01T10:00:00")]
        assert [found.at for found in ledger.by_roster(times)] == ["2026-03-01T10:00:00"]
        nothing = HandedIn("18", LAB, "", problem="The download has no file of 18.")
        assert [found.content for found in ledger.by_roster([nothing, other])] == [b"", b"# b"]


def test_a_group_of_whom_one_is_late_by_the_table(results: Path) -> None:
    with Ledger(results / RECORD) as ledger:
        members = (Identity("fay", "Fay"), Identity("gil", "Gil"))
        ledger.take_in([HandedIn("fay + gil", LAB, "submission.py", b"# fg", members=members)])
        for one in ledger.waiting():
            ledger.keep(one.number, {**ON_GPU, "lab": one.lab})
    (results / "late.csv").write_text(f"student,lab,days\ngil,{LAB},1.5\n")
    out = results / "grades.csv"
    command = ["export", str(results), "--to", "moodle", "--out", str(out), "--lab", LAB, "--late"]
    assert main([*command, str(results / "late.csv"), "--late-penalty", "50", "--late-cap", "60"]) == 0
    assert {"fay,15", "gil,6"} <= set(out.read_text().splitlines())
    assert main(["feedback", str(results), "--out", str(results / "pages")]) == 0
