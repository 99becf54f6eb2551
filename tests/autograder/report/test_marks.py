"""Which lines of a submission an editor underlines."""

from __future__ import annotations

from dataclasses import replace

from autograder.records.report import WastedLine
from autograder.records.status import Part, Status
from autograder.report.marks import Mark, Severity, marks
from tests.autograder.report.example_reports import report
from warplab.plan.execution import Finding, FindingKind

CLEAN = tuple(
    replace(part, status=Status.PASSED, score=part.max_score, findings=(), cases=()) for part in report().parts
)
SOURCE = "one\ntwo\nthree"


def found(**more) -> list[tuple[int, str, str]]:
    made = marks(report(**{"parts": CLEAN, "source": SOURCE} | more))
    return [(mark.line, mark.severity.value, mark.message) for mark in made]


def with_part(name: Part, **changed) -> tuple:
    return tuple(replace(part, **changed) if part.part is name else part for part in CLEAN)


def test_a_right_submission_has_none() -> None:
    assert found() == []


def test_a_rejected_file_has_its_line() -> None:
    assert found(line=2, message="Line 2: invalid syntax") == [(2, "error", "Line 2: invalid syntax")]


def test_findings_stand_in_the_order_of_their_lines_and_a_line_has_two_at_most() -> None:
    says = ((3, "late"), (1, "a"), (1, "a"), (1, "b"), (1, "c"), (1, "d"))
    findings = tuple(Finding(FindingKind.RACE, words, line=line) for line, words in says)
    expected = [(1, "error", "a\nb\n… and 2 more in the report"), (3, "error", "late")]
    assert found(parts=with_part(Part.SAFETY, findings=findings)) == expected


def test_a_wrong_element_marks_the_line_that_stored_it() -> None:
    wrong = report().parts[0].cases
    ((line, severity, words),) = found(parts=with_part(Part.CORRECTNESS, cases=wrong))
    assert (line, severity) == (3, "error") and words.startswith("ragged: ")


def test_waste_is_a_warning_where_it_costs_points() -> None:
    wasted = (WastedLine(2, 0.5, "Line 2 wastes half."),)
    assert found(wasted=wasted) == []
    lost = with_part(Part.TRAFFIC, score=0.0, status=Status.OVER_BUDGET)
    assert found(wasted=wasted, parts=lost) == [(2, "warning", "Line 2 wastes half.")]
    fault = tuple(
        replace(part, findings=(Finding(FindingKind.RACE, "race", line=2),)) if part.part is Part.SAFETY else part
        for part in lost
    )
    assert found(wasted=wasted, parts=fault) == [(2, "error", "race\nLine 2 wastes half.")]


def test_advice_marks_its_line_where_nothing_else_is_marked() -> None:
    words = "Line 3 computes in float64."
    assert marks(report(parts=CLEAN, source=SOURCE, next_step=words)) == (Mark(3, Severity.WARNING, words),)
    assert found(next_step=words, line=1, message="fault") == [(1, "error", "fault")]


def test_lines_that_the_file_does_not_have_are_left_out() -> None:
    findings = tuple(Finding(FindingKind.RACE, "race", line=line) for line in (0, 4, -1))
    assert found(parts=with_part(Part.SAFETY, findings=findings)) == []
