"""Which of several findings is said first."""

from __future__ import annotations

from warplab.plan.execution import Extent, Finding, FindingKind
from warplab.plan.ranking import ranked


def race(line: int, array: str, extent: Extent) -> Finding:
    return Finding(FindingKind.RACE, "race", line=line, array=array, extent=extent)


OUTSIDE = Finding(FindingKind.OUT_OF_BOUNDS, "outside", line=14, array="out")


def test_an_index_that_leaves_an_array_comes_before_the_race_that_it_makes_there() -> None:
    assert ranked([race(14, "out", Extent.GRID), OUTSIDE])[0] is OUTSIDE


def test_a_race_in_shared_memory_may_have_parted_a_warp_or_kept_a_loop_going() -> None:
    parted = Finding(FindingKind.DIVERGENT_BARRIER, "lanes", line=20, extent=Extent.WARP)
    endless = Finding(FindingKind.ENDLESS, "endless", line=21)
    barrier = Finding(FindingKind.DIVERGENT_BARRIER, "barrier", line=22)
    shared, grid = race(9, "tile", Extent.SHARED), race(10, "out", Extent.GRID)
    assert ranked([parted, endless, grid, shared, barrier]) == [barrier, shared, parted, endless, grid]


def test_a_race_elsewhere_may_have_made_the_index_and_comes_first() -> None:
    for other in (race(14, "tile", Extent.SHARED), race(9, "out", Extent.GRID)):
        assert ranked([OUTSIDE, other])[0] is other
