"""docs/validation.md says how far the models are off as the recorded results do."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from course import results
from course.results import Record
from warplab.plan.execution import CACHE_METRICS

pytestmark = pytest.mark.pages

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation.md"
NAMES = {
    "l1_load_hits": "sectors that L1 has",
    "l2_read_sectors": "sectors read from L2",
    "l2_write_sectors": "sectors written to L2",
    "dram_read_sectors": "sectors read from DRAM",
    "dram_write_sectors": "sectors written to DRAM",
}


def row(name: str, records: list[Record]) -> str:
    """A row of the page's table. A pair of which one is zero has no error that many times could tell."""
    errors = sorted((max(r.ratio, 1 / r.ratio), r.name) for r in records if r.ratio)
    median, (worst, kernel) = statistics.median(error for error, _ in errors), errors[-1]
    return f"| {name} | {len(errors)} | {median:.2f} | {worst:.{2 if worst < 10 else 0}f} | `{kernel}` |"


def rows() -> list[str]:
    caches = results.read(results.DIRECTORY / "cache_model.json").records
    times = results.read(results.DIRECTORY / "estimate.json").records
    found = [row(NAMES[field], [r for r in caches if r.metric == metric]) for field, metric in CACHE_METRICS.items()]
    sized = [r for r in times if r.name.startswith("sized/")]
    found.append(row("time, kernels of `sized.py`", sized))
    found.append(row("time, labs' kernels", [r for r in times if r not in sized]))
    return found


@pytest.mark.parametrize("expected", rows(), ids=lambda text: text.split("|")[1].strip())
def test_the_page_has_the_recorded_error(expected: str) -> None:
    assert expected in PAGE.read_text().splitlines()
