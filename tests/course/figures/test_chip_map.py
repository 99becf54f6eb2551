"""The map of the chip against its datasheet, and blocks on it against counting."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from course import results
from course.figures.chip_map import blocks_on_chip, chip_map, explore_blocks_on_chip
from warplab.hardware.chips import H200


def boxes(figure, kind: str) -> list[Rectangle]:
    (axes,) = figure.axes
    return [patch for patch in axes.patches if (patch.get_gid() or "").split(" ")[0] == kind]


def said(figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def test_the_map_has_the_parts_of_the_datasheet() -> None:
    figure = chip_map()
    counts = {kind: len(boxes(figure, kind)) for kind in ("sm", "gpc", "off", "l2", "stack", "controller")}
    assert counts == {"sm": H200.sms, "gpc": 8, "off": (144 - H200.sms) // 2, "l2": 2, "stack": 6, "controller": 12}
    (axes,) = figure.axes
    assert sum("30 MiB" in text.get_text() for text in axes.texts) == 2 and H200.l2 == 2 * 30 * 2**20


def test_each_sm_is_in_one_gpc_and_both_halves_have_as_many_as_measured() -> None:
    figure = chip_map()
    gpcs = [gpc.get_bbox() for gpc in boxes(figure, "gpc")]
    for sm in boxes(figure, "sm"):
        box = sm.get_bbox()
        assert sum(gpc.contains(box.x0, box.y0) and gpc.contains(box.x1, box.y1) for gpc in gpcs) == 1
    left, right = (half.get_bbox() for half in boxes(figure, "l2"))
    middle = (left.x1 + right.x0) / 2
    near = sum(sm.get_bbox().x1 < middle for sm in boxes(figure, "sm"))
    record = results.read(results.DIRECTORY / "microbench.json").find("l2 half", "latency", variant="near")
    assert near == record.extra["sms_like_the_first"] and H200.sms - near == record.extra["sms_unlike"]


@pytest.mark.parametrize(("blocks", "places"), [(1, 1), (132, 1), (133, 1), (265, 1), (265, 2), (1000, 4)])
def test_the_last_wave_has_the_blocks_that_are_left(blocks: int, places: int) -> None:
    figure = blocks_on_chip(blocks, places)
    left = blocks
    waves = 1
    while left > H200.sms * places:
        left, waves = left - H200.sms * places, waves + 1
    held = [int(sm.get_gid().split(": ")[1]) for sm in boxes(figure, "sm")]
    assert sum(held) == left and max(held) - min(held) <= 1
    assert f"wave {waves} of {waves}" in said(figure)
    assert f"{held.count(0)} of 132" in said(figure)
    assert f"{blocks / (waves * places * H200.sms):.0%} of" in said(figure)


def test_no_blocks_and_sliders() -> None:
    with pytest.raises(ValueError, match="at least one"):
        blocks_on_chip(0)
    explorer = explore_blocks_on_chip()
    explorer.controls["blocks"].value = 400
    assert bytes(explorer.image.value).startswith(b"\x89PNG")
