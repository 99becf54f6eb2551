"""Runs the tests that need a GPU and writes their record, benchmarks/results/gpu_tests.json: `make test-gpu`."""

from __future__ import annotations

import sys

import pytest

from warplab import results


class Record:
    """A pytest plugin that keeps each test's outcome."""

    def __init__(self) -> None:
        self.records: list[results.Record] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of each test."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            passed = 1 if report.passed else 0
            name = report.nodeid.replace("\\", "/")
            self.records.append(results.Record(name, "passed", passed, "1: yes, 0: no", conditions=report.outcome))


def main(paths: list[str]) -> int:
    """Exit code of pytest; the record is written whatever it is, if any test ran. `paths` renew only their tests."""
    record = Record()
    code = pytest.main(["-q", "-m", "gpu or multigpu", *paths], plugins=[record])
    if record.records:
        header = results.make_header(" ".join(["python -m benchmarks.gpu_tests", *paths]) if paths else "make test-gpu")
        results.write(results.DIRECTORY / "gpu_tests.json", header, record.records, merge=bool(paths))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
