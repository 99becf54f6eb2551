"""The shipped record of the stopwatch shows what docs/measuring.md says of it."""

from __future__ import annotations

import pytest

from autograder.spec.lab import find_lab
from autograder.spec.score import efficiency_points
from benchmarks.stopwatch import CLOSE, FILE, WORKS
from course import results

pytestmark = pytest.mark.pages

# Thirty timings of a reference take minutes of a GPU: those that were made are held to their promise.
REGRADED = [r.name for r in results.read(FILE).records if r.metric == "efficiency, spread" and not r.variant]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_two_copies_of_a_kernel_take_the_same_time(work) -> None:
    record = results.read(FILE)
    assert record.find(work.name, "two copies within 0.5%").value >= 0.95
    assert record.find(work.name, "two copies, largest difference", variant="").value < 2 * CLOSE


@pytest.mark.parametrize("label", REGRADED)
def test_a_reference_gets_the_same_points_thirty_times(label: str) -> None:
    record, lab = results.read(FILE), find_lab(label.split("/")[0])
    assert record.find(label, "efficiency, spread", variant="").value < 0.01
    extremes = record.find(label, "efficiency", variant="").interval
    assert extremes is not None
    assert {efficiency_points(value, lab.efficiency, lab.points.efficiency) for value in extremes} == {
        lab.points.efficiency
    }
    assert record.find(label, "wrongly called shared").value == 0


def test_a_shared_gpu_is_noticed() -> None:
    record = results.read(FILE)
    assert record.find("shared GPU", "noticed", variant="all the time").value == 1
    for alone in ("alone, before", "alone, after"):
        assert record.find("shared GPU", "noticed", variant=alone).value == 0
    for load in ("all the time", "a fifth of the time"):  # what is not noticed has not disturbed
        noticed = record.find("shared GPU", "noticed", variant=load).value
        assert noticed or abs(record.find("shared GPU", "efficiency off by", variant=load).value) < 0.01
