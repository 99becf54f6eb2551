"""Reports as JSON files: versioned, complete, without anything secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.records.report import SCHEMA_VERSION, Report
from warplab.files import write_whole


def write_reports(reports: Sequence[Report], path: Path) -> None:
    """Write {"schema_version", "reports": [...]} to `path`. Raises OSError."""
    write_whole(path, dump({"schema_version": SCHEMA_VERSION, "reports": [r.to_json() for r in reports]}))


def write_grades(reports: Sequence[Report], path: Path) -> None:
    """Write the summary of several grades: a list with one object a report. Raises OSError."""
    write_whole(path, dump([grade_line(report) for report in reports]))


def grade_line(report: Report) -> dict[str, Any]:
    """What a list of grades says about one report."""
    return {
        "lab": report.lab,
        "language": report.language,
        "submission": report.submission,
        "status": report.status,
        "score": report.score,
        "max_score": report.max_score,
        "full_score": report.full_score,
        "parts": {
            part.part.value: {
                "status": part.status,
                "score": part.score if part.judged else None,
                "max_score": part.max_score,
            }
            for part in report.parts
        },
        "device": report.device,
        "hardware": report.hardware,
        "efficiency": report.efficiency,
        "isolation": report.isolation,
        "seconds": round(report.seconds, 2),
    }


def dump(data: Any) -> str:
    """JSON text that any parser reads: no NaN, no infinities."""
    return json.dumps(data, indent=1, allow_nan=False) + "\n"
