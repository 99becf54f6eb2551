"""What the panel gets of a report: JSON, with budgets first to be compared and every counter that counted something."""

from __future__ import annotations

import json

from autograder.panel.shown import shown
from autograder.records.report import Profile
from tests.autograder.report.example_reports import EVIL, report
from warplab.plan.execution import Counters


def test_it_is_json_without_the_submissions_text() -> None:
    text = json.dumps(shown(report(source="print('secret')")), allow_nan=False)
    assert "secret" not in text and "\x1b" not in text and EVIL not in text


def test_counters_that_are_zero_are_left_out() -> None:
    made = shown(report(profile=Profile("profile", Counters(barriers=3), {}, "a note")))
    assert made["counters"] == [{"name": "warps that arrive at barriers", "value": 3}] and made["note"] == "a note"
    assert shown(report(profile=None))["counters"] == []


def test_an_exceeded_budget_says_by_how_much() -> None:
    (budget,) = (budget for part in shown(report())["parts"] for budget in part["budgets"])
    assert (budget["value"], budget["limit"], budget["passed"]) == (4096, 128.0, False)
    assert budget["words"].endswith("(32 times). Read neighbours.")
