"""A grade as the results.json of PrairieLearn's external graders.

The form: PrairieLearn's docs/externalGrading.md, section "Grading results": a score from 0 to 1, at most 1 MB, and
`gradable: false` for what costs a student no attempt.
"""

from __future__ import annotations

from typing import Any

from autograder.platforms.judged import headline, is_judged, judged_parts
from autograder.records.report import Report
from autograder.records.status import Status

# Faults of a file as such, which PrairieLearn lets a student correct without losing an attempt.
_NOT_GRADABLE = (Status.NOT_FOUND, Status.NOT_PYTHON, Status.SYNTAX_ERROR, Status.IMPORT_ERROR, Status.NO_FUNCTION)


def results(report: Report) -> dict[str, Any]:
    """The results of a report; the score is a share of what could be judged here."""
    if not is_judged(report):
        return not_gradable(f"The judge failed, not your submission: {report.message}")
    if report.status in _NOT_GRADABLE:
        return not_gradable(report.message)
    parts = judged_parts(report)
    most = sum(part.most for part in parts)
    return {
        "gradable": True,
        "score": min(1.0, sum(part.score for part in parts) / most) if most else 0.0,
        "message": headline(report),
        "tests": [
            {
                "name": part.name,
                "description": part.text.split("\n", 1)[0],
                "points": part.score,
                "max_points": part.most,
                "message": "All points." if part.passed else "Points were lost here.",
                "output": part.text,
            }
            for part in parts
        ],
    }


def not_gradable(reason: str) -> dict[str, Any]:
    """The results where there is no grade, and no attempt is lost."""
    return {"gradable": False, "format_errors": [reason], "message": reason}
