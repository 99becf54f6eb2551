"""The shipped record of the stopwatch shows what docs/measuring.md says of it."""

from __future__ import annotations

import pytest

from autograder.lab import known_labs, solutions_folder
from benchmarks.stopwatch import CLOSE, FILE, WORKS
from warplab import results

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="nobody has measured the stopwatch yet")


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_two_copies_of_a_kernel_take_the_same_time(work) -> None:
    record = results.read(FILE)
    assert record.find(work.name, "two copies within 0.5%").value >= 0.95
    assert record.find(work.name, "two copies, largest difference", variant="").value < 2 * CLOSE


@pytest.mark.parametrize(
    "path", sorted(solutions_folder().glob("*/submission*.py")), ids=lambda p: "/".join(p.parts[-2:])
)
def test_a_reference_gets_the_same_points_thirty_times(path) -> None:
    assert path.parent.name in known_labs()
    record, name = results.read(FILE), f"{path.parent.name}/{path.stem}"
    assert record.find(name, "efficiency, spread").value < 0.01
    assert record.find(name, "different points").value == 1
    assert record.find(name, "wrongly called shared").value == 0


def test_a_shared_gpu_is_noticed() -> None:
    record = results.read(FILE)
    assert record.find("shared GPU", "noticed", variant="all the time").value == 1
    for alone in ("alone, before", "alone, after"):
        assert record.find("shared GPU", "noticed", variant=alone).value == 0
    for load in ("all the time", "a fifth of the time"):  # what is not noticed has not disturbed
        noticed = record.find("shared GPU", "noticed", variant=load).value
        assert noticed or abs(record.find("shared GPU", "efficiency off by", variant=load).value) < 0.01
