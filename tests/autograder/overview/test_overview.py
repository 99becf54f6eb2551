"""Feedback pages, statistics and the leaderboard, from records made by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.classroom.anonymity import draw
from autograder.overview.feedback import file_name, write_feedback
from autograder.overview.leaderboard import LeaderboardRow, leaderboard_page, places
from autograder.overview.stats import BINS, CaseRate, lab_stats, words
from autograder.records.status import Part, Status
from autograder.records.stored import report_of
from autograder.report.html_page import page
from tests.autograder.platforms.reports import BROKEN, ON_GPU, WRONG, line, problem
from tests.autograder.report.example_reports import SCRIPT, SOURCE, measured, report


@pytest.mark.parametrize("made", [report(), measured(1e9)], ids=["wrong", "on a GPU"])
def test_a_stored_report_is_the_report_again(made) -> None:
    found = report_of(json.loads(json.dumps(made.to_json())), SOURCE)
    assert found.to_json() == made.to_json() and found.source == made.source
    assert len(page([found])) == pytest.approx(len(page([made])), rel=0.01)  # figures have identifiers of their own


def test_a_page_holds_its_students_work_and_nobody_elses(tmp_path: Path) -> None:
    lines = [line("ada", found=WRONG, content=SOURCE.encode()), line("bob", content=b"# bob's"), problem("ada", "")]
    names = {"ada": "heron 001", "bob": "wren 002"}
    files = write_feedback(lines, tmp_path, names)
    ada, bob = files["ada"].read_text(), files["bob"].read_text()
    assert "load[i * 32]" in ada and "x.py is empty." in ada and "heron 001" in ada
    assert "bob" not in ada and "ada" not in bob and "wren" not in ada
    for text in (ada, bob):
        assert SCRIPT not in text and "<script" not in text and 'src="http' not in text and "<link" not in text


@pytest.mark.parametrize("student", ["../../x", "a/b", "", ".", "x" * 300, "\u202e", "Ada Lovelace"])
def test_a_page_stays_in_its_folder(tmp_path: Path, student: str) -> None:
    (path,) = write_feedback([problem(student)], tmp_path / "out", {student: "heron 001"}).values()
    assert path.resolve().parent == tmp_path / "out" and path.is_file()


def test_no_two_students_share_a_page() -> None:
    assert len({file_name(name) for name in ("a b", "a_b", "a/b", "a  b")}) == 4
    assert file_name("ada@x.edu") == "ada@x.edu.html"


def scored(student: str, score: float, failed: tuple[str, ...] = ()):
    cases = [
        {"name": name, "status": Status.WRONG_ANSWER if name in failed else Status.PASSED} for name in ("a", "b", "c")
    ]
    parts = [part | ({"cases": cases} if part["part"] == Part.CORRECTNESS else {}) for part in ON_GPU["parts"]]
    return replace(line(student), score=score, max_score=80.0, report={**ON_GPU, "parts": parts}, seconds=score)


def test_statistics_are_those_of_numpy() -> None:
    scores = np.random.default_rng(1).integers(0, 80, 37) + 0.5  # off the edges of bins
    scores[:3] = 80, 0, 79.9
    lines = [scored(f"s{n}", score) for n, score in enumerate(scores)]
    (found,) = lab_stats([*lines, problem("eve"), line("zoe", found=BROKEN)])
    shares = scores / 80
    assert (found.handed_in, found.graded) == (39, 37)
    assert found.mean == pytest.approx(shares.mean())
    assert found.quartiles == pytest.approx(tuple(np.quantile(shares, (0.25, 0.5, 0.75))))
    assert found.bins == tuple(np.histogram(shares, bins=BINS, range=(0, 1))[0])
    assert found.full_marks == (shares == 1).sum()
    assert (found.median_seconds, found.total_seconds) == pytest.approx((np.median(scores), scores.sum()))


def test_the_hardest_case_is_the_one_that_most_fail() -> None:
    lines = [scored("1", 0, ("a", "b")), scored("2", 0, ("b",)), scored("3", 80)]
    (found,) = lab_stats(lines)
    assert found.hardest == CaseRate("b", 2, 3)
    assert "hardest case: b, failed by 2 of 3" in "\n".join(words(found))
    assert lab_stats([scored("3", 80)])[0].hardest is None


def test_a_class_that_has_no_grades_has_statistics() -> None:
    (found,) = lab_stats([problem("eve")])
    assert words(found) == ["03_transpose: 1 handed in, 0 graded, 0 with full marks"]


def right(student: str, efficiency: float | None, sectors: int, counter: str = "global_load_sectors"):
    parts = [part | {"status": Status.PASSED} for part in ON_GPU["parts"]]
    total = ON_GPU["profile"]["total"] | {"global_load_sectors": 0} | {counter: sectors}
    found = {**ON_GPU, "parts": parts, "profile": {**ON_GPU["profile"], "total": total}}
    return replace(line(student), efficiency=efficiency, report=found)


def test_the_best_come_first_and_the_wrong_do_not_come() -> None:
    lines = [right("c", None, 100), right("a", 0.5, 900), right("b", None, 90), right("d", 0.7, 800), line("e")]
    best = places([*lines, problem("f"), line("g", found=WRONG)], "03_transpose")
    assert [place.student for place in best] == ["d", "a", "b", "c"]


@pytest.mark.parametrize("counter", ["bulk_load_sectors", "bulk_store_sectors", "bulk_reduction_sectors"])
def test_sectors_count_whichever_way_they_are_moved(counter: str) -> None:
    best = places([right("copies", None, 1000, counter), right("loads", None, 900)], "03_transpose")
    assert [place.student for place in best] == ["loads", "copies"]


def test_the_leaderboard_names_nobody_unless_asked() -> None:
    best = places([right("ada", 0.5, 900), right("bob", 0.4, 900)], "03_transpose")
    names = {"ada": "heron 0001", "bob": "wren 0002"}
    hidden, shown = leaderboard_page("03_transpose", best, names), leaderboard_page("03_transpose", best, None)
    assert "ada" not in hidden and "heron 0001" in hidden and "ada" in shown


def test_equals_share_a_place_and_stand_in_no_order_of_their_names() -> None:
    rows = [LeaderboardRow(student, None, 8, 4) for student in "abcdefghijklmnopqrstuvwxyz"]
    rows.append(LeaderboardRow("worse", None, 9, 4))
    for _ in range(3):
        names: dict[str, str] = {}
        for row in rows:
            names[row.student] = draw(names.values())
        page = leaderboard_page("01_axpy", rows, names)
        shown = re.findall(r"<tr><td>(\d+)</td><td>([^<]+)</td>", page)
        assert [place for place, _ in shown] == ["1"] * 26 + ["27"]
        theirs = [names[row.student] for row in rows[:26]]
        assert [name for _, name in shown[:26]] == sorted(theirs) != theirs
