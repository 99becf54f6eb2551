"""Reports as JSON files: versioned, complete, without anything secret."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.records.report import SCHEMA_VERSION, Report


def write_reports(reports: Sequence[Report], path: Path) -> None:
    """Write {"schema_version", "reports": [...]} to `path`. Raises OSError."""
    write_atomically(path, dump({"schema_version": SCHEMA_VERSION, "reports": [r.to_json() for r in reports]}))


def write_grades(reports: Sequence[Report], path: Path) -> None:
    """Write the summary of several grades: a list with one object a report. Raises OSError."""
    write_atomically(path, dump([grade_line(report) for report in reports]))


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


def write_atomically(path: Path, text: str) -> None:
    """Replace the file as a whole, so that nobody reads half a report. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # a name that no pattern for reports matches: a judge that is killed here leaves the file behind
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
