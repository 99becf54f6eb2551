"""Grades the one submission in a platform's own container, and always writes the results that the platform waits for.

usage: python -m autograder.platforms.in_container gradescope|prairielearn --lab LAB --submission FOLDER --results FILE

The first thing written says that there is no grade, so that whatever ends this process leaves a file of the right form.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autograder.classroom.entries import ClassError
from autograder.classroom.intake import read_one
from autograder.platforms import gradescope, prairielearn
from autograder.records.report import Report
from autograder.records.stored import only_report
from warplab.files import write_whole

MOST_RESULTS = 1_000_000  # bytes: what PrairieLearn takes
_LAST_WORDS = 500  # characters of what the judge said before it failed

Form = Callable[[Report], dict[str, Any]]
_REPORTS: Mapping[str, Form] = {"gradescope": gradescope.results, "prairielearn": prairielearn.results}
_FAILED = {"gradescope": gradescope.failed, "prairielearn": prairielearn.not_gradable}
_NOTHING = {"gradescope": gradescope.not_handed_in, "prairielearn": prairielearn.not_gradable}


def grade_for(platform: str, lab: str, submission: Path, seconds: float) -> dict[str, Any]:
    """The results of the file in the folder `submission`, graded within `seconds`. Never raises for what it holds."""
    try:
        one = read_one(submission, lab)
    except ClassError as error:
        return _NOTHING[platform](str(error))
    if one.problem:
        return _NOTHING[platform](one.problem)
    with tempfile.TemporaryDirectory(prefix="warplab-one-") as folder:
        source, report = Path(folder) / "submission.py", Path(folder) / "report.json"
        source.write_bytes(one.content)
        command = [sys.executable, "-m", "autograder", "grade", str(source), "--lab", lab, "--json", str(report)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
        except subprocess.TimeoutExpired:
            return _FAILED[platform](f"It did not finish within {seconds:g} s.")
        if not report.is_file():
            return _FAILED[platform](done.stderr.strip()[-_LAST_WORDS:] or f"It ended with code {done.returncode}.")
        try:
            return _REPORTS[platform](only_report(report.read_bytes()))
        except msgspec.DecodeError as error:
            return _FAILED[platform](f"What the judge wrote is no report ({error}).")


def write_results(results: Mapping[str, Any], path: Path) -> None:
    """Write results.json whole, without the parts' texts where they would be too large. Raises OSError."""
    text = json.dumps(results, indent=1, allow_nan=False) + "\n"
    if len(text.encode()) > MOST_RESULTS:
        tests = [test | {"output": ""} for test in results["tests"]]
        text = json.dumps({**results, "tests": tests}, indent=1, allow_nan=False) + "\n"
    write_whole(path, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, for there are results in every case."""
    parser = argparse.ArgumentParser(prog="in_container", description=__doc__.splitlines()[0])
    parser.add_argument("platform", choices=sorted(_REPORTS))
    parser.add_argument("--lab", required=True)
    parser.add_argument("--submission", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=540.0, help="leave a minute of Gradescope's ten")
    options = parser.parse_args(arguments)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    write_results(_FAILED[options.platform]("It was ended before it finished."), options.results)
    try:
        results = grade_for(options.platform, options.lab, options.submission, options.seconds)
    except Exception as error:  # a fault of ours: the platform still gets its file
        results = _FAILED[options.platform](f"{type(error).__name__}: {error}")
    write_results(results, options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
