"""Chapter 03: shares counted by hand, Little's law against the record, and what an SM holds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course.chapters import c03_warps_and_latency as c03
from course.measured import Measured


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in markdown.splitlines()[2:]]


def test_the_orders_hold_the_same_numbers() -> None:
    drawn = c03.drawn_turns()
    assert sorted(drawn["random"]) == list(drawn["sorted"]) and drawn["random"].max() == 32


def test_idle_cycles_of_a_warp() -> None:
    """By hand: issues at 0, 1 and 9, and so ten cycles of which seven are idle."""
    issues = [SimpleNamespace(time=time) for time in (0, 1, 9)]
    stalls = [SimpleNamespace(warp=0, reason="for global memory", start=2, end=8)]
    chart = SimpleNamespace(of_warp=lambda warp: issues, stalls=stalls)
    assert c03.idle_share(chart) == pytest.approx(0.7)  # type: ignore[arg-type]
    rows = {row[0]: row[-1] for row in cells(c03.table_of_stalls(chart).data)}  # type: ignore[arg-type]
    assert rows == {"waits for global memory": "6", "issues an instruction": "3", "other cycles": "1"}


def test_enough_warps_follow_littles_law() -> None:
    """4 cycles at 4 warp instructions per cycle are 16 in flight: 16 warps with one chain, 4 with four."""
    assert [c03.enough_warps(Measured(), chains) for chains in (1, 4)] == [16, 4]


def test_occupancy_of_blocks_of_a_warp_is_limited_by_blocks() -> None:
    rows = {row[0]: row[1:] for row in cells(c03.table_of_occupancy(40).data)}
    assert rows["32"][:3] == ["32", "32", "50%"] and rows["32"][3] == "blocks"
    for threads, (blocks, warps, _, _) in rows.items():
        assert int(blocks) * int(threads.replace(",", "")) == 32 * int(warps)
        assert int(warps) * 32 * 40 <= 65536
