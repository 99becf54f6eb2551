"""The microbenchmarks' record: whole, beside what is known, and every deviation of more than 5% explained."""

from __future__ import annotations

import pytest

from benchmarks.micro import known
from course.results import DIRECTORY, Record, read
from warplab.hardware.chips import H200

pytestmark = pytest.mark.pages

RESULTS = read(DIRECTORY / "microbench.json")
COMPARED = [record for record in RESULTS.records if "known" in record.extra]


def name_of(record: Record) -> str:
    return "-".join(map(str, (record.name, record.metric, record.variant, record.dtype, *record.shape)))


def test_it_was_measured_on_an_h200_at_a_commit_that_is_there() -> None:
    assert RESULTS.header.gpu == "NVIDIA H200"
    assert len(RESULTS.header.commit) == 40  # not "-dirty", not "unknown"


@pytest.mark.parametrize("record", COMPARED, ids=name_of)
def test_a_figure_is_near_the_known_one_or_says_why_not(record: Record) -> None:
    assert len(record.extra["known_from"]) > 20, "the document, not the digest of a kernel"
    deviation = record.value / record.extra["known"] - 1
    assert record.extra["deviation"] == pytest.approx(deviation, abs=1e-4)
    if abs(deviation) > known.TOLERANCE:
        assert len(record.extra["explanation"]) > 40


def test_what_the_issue_names_is_compared() -> None:
    names = {(record.name, record.metric) for record in COMPARED}
    assert {
        ("sm count", "count"), ("sm clock", "rate"), ("fma.f32", "latency"), ("fma.f32", "rate"),
        ("shared memory", "bandwidth"), ("l1", "bandwidth"), ("hbm", "bandwidth"), ("register file", "size"),
        ("tensor core", "rate"), ("divergence", "latency"),
    } <= names  # fmt: skip


def test_the_exact_ones_are_exact() -> None:
    assert RESULTS.find("sm count", "count").value == H200.sms
    assert RESULTS.find("register file", "size").value == H200.register_file_per_sm
    assert RESULTS.find("fma.f32", "latency").value == pytest.approx(4, rel=0.02)
    for lanes in (2, 4, 8, 16, 32):
        assert RESULTS.find("shared request", "time", shape=(lanes,)).value == pytest.approx(lanes, rel=0.02)


def test_levels_of_memory_are_in_order() -> None:
    cycles = [RESULTS.find("shared memory", "latency", shape=(1,)).value]
    cycles += [RESULTS.find(level, "latency").value for level in ("l1", "l2", "hbm")]
    assert cycles == sorted(cycles) and cycles[-1] > 10 * cycles[0]
    near, far = (RESULTS.find("l2 half", "latency", variant=half).value for half in ("near", "far"))
    assert near < RESULTS.find("l2", "latency").value < far * 1.05


def test_comparing_marks_what_is_far_off() -> None:
    record = Record("fma.f32", "latency", 5.0, "cycles")
    (compared,) = known.compare([record])
    assert "Volta Tuning Guide" in compared.extra["known_from"]
    assert compared.extra["known"] == 4 and compared.extra["deviation"] == 0.25
    assert known.known_of(Record("launch", "time", 1.0, "s"), []) is None
