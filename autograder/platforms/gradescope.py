"""A grade as Gradescope's results.json.

The form: https://gradescope-autograders.readthedocs.io/en/latest/specs/, section "Output format". Its containers have
half a processor, ten minutes and no GPU by default, so that a grade comes from the emulator inside of one, or from
another machine (`bundle.delivered`).
"""

from __future__ import annotations

from typing import Any

from autograder.platforms.judged import headline, is_judged, judged_parts
from autograder.records.report import Report

_NO_FAULT = "The judge failed, not your submission: hand it in again, and tell your instructor if that changes nothing."
_LATER = "Your file has arrived. It is graded on your instructor's machine, and your points appear here afterwards."


def results(report: Report) -> dict[str, Any]:
    """The results of a report; where the judge failed, the words of `failed`."""
    if not is_judged(report):
        return failed(report.message)
    tests = [
        {
            "name": part.name,
            "score": part.score,
            "max_score": part.most,
            "status": "passed" if part.passed else "failed",
            "output": part.text,
            "output_format": "text",
            "visibility": "visible",
        }
        for part in judged_parts(report)
    ]
    found: dict[str, Any] = {
        "score": max(0.0, report.score),
        "execution_time": round(report.seconds),
        "output": headline(report),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {key: getattr(report, key) for key in ("lab", "status", "hardware", "max_score", "full_score")},
        "tests": tests,
    }
    if report.efficiency is not None:
        percent = round(100 * report.efficiency, 1)
        found["leaderboard"] = [{"name": "% of the roofline", "value": percent, "order": "desc"}]
    return found


def failed(reason: str) -> dict[str, Any]:
    """The results where there is no grade, and words that say so."""
    return _without_grade(_NO_FAULT, reason, "judge error")


def not_handed_in(reason: str) -> dict[str, Any]:
    """The results of a submission that cannot be graded, with the sentence that says why."""
    return {"score": 0.0, **_without_grade(reason, reason, "nothing to grade"), "tests": []}


def waiting() -> dict[str, Any]:
    """The results of a submission that another machine has not graded yet."""
    return _without_grade(_LATER, "", "waiting")


def _without_grade(words: str, reason: str, status: str) -> dict[str, Any]:
    """Results without a score. Gradescope asks for one, in all or of each test, and shows none to a student who has a
    hidden test: so one hidden test stands for the grade."""
    return {
        "output": words,
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"status": status, "reason": reason},
        "tests": [{"name": "not graded", "score": 0.0, "max_score": 0.0, "visibility": "hidden"}],
    }
