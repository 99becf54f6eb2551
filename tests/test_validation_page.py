"""The numbers of docs/validation.md are those of the recorded results and of the corpus."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from corpus.emulator import recorded
from corpus.emulator.global_races import PAIRS
from corpus.emulator.handovers import LONE_LANES, UNREAD_SOURCES
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
    times = [r for r in results.read(results.DIRECTORY / "clock.json").records if r.ratio]
    found = [row(NAMES[field], [r for r in caches if r.metric == metric]) for field, metric in CACHE_METRICS.items()]
    for half, name in (("tuning", "time, half of 261 kernels"), ("held", "time, the half held back")):
        found.append(row(name, [r for r in times if r.extra["half"] == half]))
    return found


@pytest.mark.parametrize("expected", rows(), ids=lambda text: text.split("|")[1].strip())
def test_the_page_has_the_recorded_error(expected: str) -> None:
    assert expected in PAGE.read_text().splitlines()


def parts() -> list[str]:
    """Parts of lines of the page that say how many were compared."""
    counters = results.read(results.DIRECTORY / "counters.json").records
    outputs = [r for r in counters if r.metric == "elements that differ"]
    counted = [r for r in counters if r.baseline_value is not None]
    said = [r for r in results.read(results.DIRECTORY / "sanitizers.json").records if r.metric == "agreement"]
    tests = results.read(results.DIRECTORY / "gpu_tests.json").records
    tiles = {r.name for r in results.read(results.DIRECTORY / "tensor_tiles.json").records}
    shared = len(LONE_LANES) + len(UNREAD_SOURCES)
    kernels = len({r.name for r in counted})
    return [
        f"| kernels: outputs | {len(outputs):,} | {sum(r.value == 0 for r in outputs):,} |",
        f"| counters of {kernels} kernels beside Nsight Compute's | {len(counted):,} | "
        f"{sum(r.value == r.baseline_value for r in counted):,} |",
        f"one verdict | {len(said)} | {sum(r.value == 1 for r in said)} |",
        f"| tests that need a GPU | {len(tests)} | {sum(r.value == 1 for r in tests)} |",
        f"100,000 tiles each | {len(tiles)} |",
        f"| {len(recorded.names()):,} kernels by theme",
        f"| {len(PAIRS)} races in global, {shared} in shared memory |",
    ]


def suites() -> list[str]:
    """The rows of published suites."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in results.read(results.DIRECTORY / "suites.json").records:
        reported = f": {one.extra['reported']}" if "reported" in one.extra else ""
        found.setdefault((one.name, one.variant), []).append(f"{one.value}{reported}")
    rows = {" ".join(name): cells for name, cells in found.items()}
    races, bounds = rows["Indigo races"], rows["Indigo bounds"]
    indigo = [f"{race}; {bound}" for race, bound in zip(races[:2], bounds[:2], strict=True)]
    return [
        "| " + " | ".join((name, *cells)) + " |"
        for name, cells in (
            ("Indigo's 590, of HiRace: races; bounds", [*indigo, races[2]]),
            ("GPUVerify's CUDA, 134", rows["GPUVerify "]),
            ("ScoR's 32", rows["ScoR "]),
            ("ScoR without `volatile`", rows["ScoR without volatile"]),
            ("Faial's examples, 53", rows["Faial "]),
        )
    ]


@pytest.mark.parametrize("expected", [*parts(), *suites()])
def test_the_page_has_the_recorded_number(expected: str) -> None:
    assert expected in PAGE.read_text()


@pytest.mark.parametrize("name", [name for name in recorded.sets() if name.startswith("unseen")])
def test_the_page_says_how_a_set_replays(name: str) -> None:
    kernels = recorded.of_set(name).values()
    (line,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}`, "))
    assert line.startswith(f"| `{name}`, {len(kernels)} |")
    assert line.endswith(f"| {sum(len(kernel.apart) for kernel in kernels)} |")
