from __future__ import annotations

import re

import pytest

from autograder.records.outcome import LaneRequest
from autograder.report.lanes import lanes_picture


def request(space: str, addresses: list[int | None], size: int = 4, verb: str = "load") -> LaneRequest:
    return LaneRequest(7, space, verb, "<out>", size, tuple(addresses))


def test_a_lane_far_from_the_next_has_a_sector_of_its_own() -> None:
    picture = lanes_picture(request("global", [128 * lane for lane in range(32)]))
    assert "32 sectors of 32 bytes below, 128 of the 1024 bytes are used" in picture
    assert picture.count("<rect") == 32 + 32 and picture.count("<line") == 32


def test_neighbours_share_sectors_and_idle_lanes_reach_none() -> None:
    picture = lanes_picture(request("global", [4 * lane if lane < 16 else None for lane in range(32)]))
    assert "2 sectors" in picture and picture.count("<line") == 16


def test_a_column_of_a_tile_takes_a_wavefront_a_lane() -> None:
    picture = lanes_picture(request("shared", [128 * lane for lane in range(32)]))
    assert "32 wavefronts, a row each, the first 8 of them drawn" in picture
    first_cells = re.findall(r'<text x="10.0"[^>]*>(\d+)</text>', picture)
    assert first_cells[:8] == [str(lane) for lane in range(8)]


def test_its_words_are_escaped() -> None:
    assert "<out>" not in lanes_picture(request("global", [128 * lane for lane in range(32)]))


@pytest.mark.parametrize(
    "odd", [request("global", [0] * 31), request("shared", [1] * 32), request("global", [0] * 32, 3)]
)
def test_what_no_warp_can_ask_for_is_not_drawn(odd: LaneRequest) -> None:
    assert lanes_picture(odd) == ""


def test_nothing_is_drawn_of_nothing() -> None:
    assert lanes_picture(None) == "" and lanes_picture(request("global", [None] * 32)) == ""
