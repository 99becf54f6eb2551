"""Runs the tests that need a GPU and writes their record, benchmarks/results/gpu_tests.json: `make test-gpu`.

`python -m benchmarks.gpu_tests tests/systems/network/test_execution.py` runs those of one file, or several, and
renews only their records. A test that is skipped, for want of a second GPU or of a package, leaves no record and
keeps its old one.
"""

from __future__ import annotations

import sys

import pytest

from course import results


class Record:
    """A pytest plugin that keeps the outcome of each test that ran; what fails before or after it counts as its own."""

    def __init__(self) -> None:
        self._outcomes: dict[str, str] = {}

    @property
    def records(self) -> list[results.Record]:
        """A record a test."""
        return [
            results.Record(name, "passed", int(outcome == "passed"), "1: yes, 0: no", conditions=outcome)
            for name, outcome in self._outcomes.items()
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of each test."""
        if report.failed or (report.passed and report.when == "call"):
            self._outcomes[report.nodeid.replace("\\", "/")] = report.outcome


def main(paths: list[str]) -> int:
    """Exit code of pytest; the record is written whatever it is, if any test ran. `paths` renew only their tests."""
    record = Record()
    code = pytest.main(["-q", "-m", "gpu or multigpu", *paths], plugins=[record])
    if record.records:
        header = results.make_header(" ".join(["python -m benchmarks.gpu_tests", *paths]) if paths else "make test-gpu")
        try:
            results.write(results.DIRECTORY / "gpu_tests.json", header, record.records, merge=bool(paths))
        except results.ResultsError as error:
            print(f"gpu_tests: {error}", file=sys.stderr)
            return 1
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
