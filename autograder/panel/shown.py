"""A report as the panel shows it: plain data. The page shows it as text, never as HTML."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from autograder.records.report import Report
from autograder.records.status import Status
from autograder.report.marks import marks
from autograder.report.words import budget_words, plain_name

_MOST_CASES = 3


def shown(report: Report) -> dict[str, Any]:
    """{"lab", "score", "status", "opening", "parts", "marks", "counters", ...}; a panel has no room for more."""
    return {
        "lab": report.lab,
        "title": report.title,
        "submission": report.submission,
        "status": report.status,
        "score": report.score,
        "max_score": report.max_score,
        "full_marks": report.full_marks,
        "device": report.device,
        "seconds": round(report.seconds, 2),
        "opening": report.opening,
        "original": report.original,
        "printed": report.printed,
        "parts": [
            {
                "part": part.part,
                "status": part.status,
                "judged": part.judged,
                "score": part.score,
                "max_score": part.max_score,
                "message": part.message,
                "cases": [
                    {"name": case.name, "message": case.message}
                    for case in part.cases
                    if case.status not in (Status.PASSED, Status.SKIPPED)
                ][:_MOST_CASES],
                "findings": [{"line": finding.line, "message": finding.message} for finding in part.findings],
                "budgets": [
                    {
                        "name": plain_name(budget.counter),
                        "value": budget.value,
                        "limit": budget.limit,
                        "passed": budget.passed,
                        "words": "" if budget.passed else budget_words(budget),
                    }
                    for budget in part.budgets
                ],
            }
            for part in report.parts
        ],
        "marks": [asdict(mark) for mark in marks(report)],
        "counters": _counters(report),
        "note": report.profile.note if report.profile else "",
    }


def _counters(report: Report) -> list[dict[str, Any]]:
    """The counters of the profile case that are not zero."""
    if report.profile is None:
        return []
    total = asdict(report.profile.total)
    return [{"name": plain_name(name), "value": value} for name, value in total.items() if value]
