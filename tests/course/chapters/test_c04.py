"""Chapter 04: the ring by walking it, Little's law and the curve by hand, tables against the records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from course.chapters import c04_memory_hierarchy as c04
from course.measured import Measured
from warplab.hardware.chips import H200

RECORD = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "microbench.json"


def value(name: str, metric: str, **where: object) -> float:
    records = json.loads(RECORD.read_text(encoding="utf-8"))["records"]
    fitting = [r for r in records if (r["name"], r["metric"]) == (name, metric)]
    (found,) = [r["value"] for r in fitting if all(r[key] == wanted for key, wanted in where.items())]
    return found


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in markdown.splitlines()[2:]]


def test_the_ring_visits_every_line_once_and_returns() -> None:
    places, place, visited = c04.ring(64 * 1024), 0, []
    for _ in range(512):
        visited.append(place)
        place = int(places[place])
    assert place == 0 and sorted(visited) == list(range(0, 8192, 16))
    assert visited != sorted(visited), "in random order"


def test_littles_bytes_from_the_records() -> None:
    seconds = value("hbm", "latency") / value("sm clock", "rate")
    assert c04.littles_bytes(Measured()) == pytest.approx(value("hbm", "bandwidth") * seconds / 132)


def test_between_two_points_of_the_curve() -> None:
    measured, peak = Measured(), value("hbm", "bandwidth")
    rate = c04.bandwidth_by_warps(measured, 4)[16]
    assert c04.bytes_for(measured, rate / peak) == pytest.approx(16 * 4 * 512)
    assert c04.share_at(measured, 16 * 4 * 512) == pytest.approx(rate / peak)
    assert c04.share_at(measured, c04.bytes_for(measured, 0.8)) == pytest.approx(0.8)
    assert c04.bytes_for(measured, 0.9) > 2 * c04.littles_bytes(measured), "as the summary says"


@pytest.mark.parametrize("size", [4, 8, 16])
def test_sectors_by_counting_them(size: int) -> None:
    for stride in (1, 2, 3, 12):
        touched = {(size * stride * lane + byte) // 32 for lane in range(32) for byte in range(size)}
        assert c04.sectors_at(stride * size, size) == len(touched)
    assert c04.alone_from(size) * size == 32


def test_bytes_per_cycle_of_an_sm() -> None:
    rates = c04.bytes_per_cycle(Measured())
    assert rates["L2"] == pytest.approx(value("l2", "bandwidth") / 132 / value("sm clock", "rate"))
    assert rates["main memory"] * H200.sms * value("sm clock", "rate") == pytest.approx(value("hbm", "bandwidth"))
    assert sorted(rates.values(), reverse=True) == list(rates.values())


def test_the_far_lines_cannot_explain_the_step() -> None:
    """By hand: near lines at n cycles in one half of the loads leave 2 x - n for the others."""
    near, at_40 = value("l2 half", "latency", variant="near"), value("dependent load", "latency", shape=[40 * 2**20])
    assert f"would take {2 * at_40 - near:.0f};" in c04.sentence_of_far_lines(Measured()).data
    assert 2 * at_40 - near > value("hbm", "latency") > value("l2 half", "latency", variant="far")


def test_the_answers_about_latencies_and_atomics() -> None:
    assert 20 < value("l1", "latency") < 50 and 15 < value("hbm", "latency") / value("l1", "latency") < 25
    rates = [value("global atomics", "rate", variant=place) for place in ("a word each", "one word")]
    assert 200 < rates[0] / rates[1] < 1000


def test_the_summary_has_four_memories_that_grow_slower() -> None:
    latencies = [int(row[1]) for row in cells(c04.table_of_levels(Measured()).data)]
    assert latencies == sorted(latencies) and len(latencies) == 4
