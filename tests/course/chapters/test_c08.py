"""Chapters 08 and 08b: what their cells compute, and the sentences that rest on records."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from autograder.spec import lab
from course.chapters import c08_hopper, c08_ladder, c08b_ladder
from course.figures.tile_order import RUNS
from course.kernel_cell import kernel_cell
from warplab.hardware.fragments import mma, wgmma_sums


def test_bytes_of_a_tile_by_hand() -> None:
    """128 x 128 x 64 multiply-adds are 512 tensor cycles; 2 x 128 x 64 elements of 2 bytes are 32 KiB."""
    assert c08_ladder.demand(128, 128) == 32 * 1024 / 512
    assert [c08_ladder.demand(m, n) for m, n in ((64, 64), (128, 256), (256, 256))] == [128, 48, 32]
    assert c08_ladder.shared_demand(64) == 1 and c08_ladder.shared_demand(256) == pytest.approx(0.625)


def test_a_box_has_zeros_outside() -> None:
    x = np.arange(1, 13, dtype=np.float16).reshape(3, 4)
    assert c08_hopper.box_of(x, 2, 3, 2, 2).tolist() == [[12, 0], [0, 0]]
    assert c08_hopper.box_of(x, 1, 1, 2, 2).tolist() == [[6, 7], [10, 11]]


def test_a_cell_without_the_line_is_refused_in_a_sentence(tmp_path) -> None:
    cell = kernel_cell("f", "def f(x):\n    return x + 1\n", tmp_path)
    changed = c08_hopper.changed(cell, ("x + 1", "x + 2"))
    assert "x + 2" in changed.path.read_text(encoding="utf-8")
    with pytest.raises(c08_hopper.CellChanged, match="no longer has 'x - 1'"):
        c08_hopper.changed(cell, ("x - 1", "x"))


def test_the_sums_of_a_warp_lie_as_those_of_an_mma() -> None:
    """The figure of section 3 shows warp 0 of wgmma.m64n8 by the layout of mma.m16n8."""
    warp, one = wgmma_sums(8), mma("d")
    assert (warp.lanes[:16] == one.lanes).all() and (warp.registers[:16] == one.registers).all()


def test_strips_of_the_first_wave_by_hand() -> None:
    """8,192 cubed has 64 x 32 tiles. By rows 132 tiles are 5 rows, all 32 columns; in groups of 8 rows 17 columns."""
    assert c08b_ladder.strips("by rows", 8192) == 5 + 32
    assert c08b_ladder.strips("in groups", 8192) == 8 + 17
    assert c08b_ladder.tiles_of(1024, 1024, 256) == 8 * 4 and c08b_ladder.tiles_of(129, 257, 256) == 2 * 2


def test_megabytes_of_an_order() -> None:
    """2,048 cubed is 128 tiles, one wave: every strip once, that is both matrices."""
    assert c08b_ladder.megabytes("by rows", 2048) == pytest.approx(2 * 2 * 2048**2 / 1e6)
    assert c08b_ladder.megabytes(RUNS, 16384) > 5 * c08b_ladder.megabytes("in groups", 16384)
    assert c08b_ladder.fresh("back and forth", 8192) < 0.76 * c08b_ladder.fresh("in groups", 8192)


def test_what_the_predictions_say_is_on_record() -> None:
    gains = c08_ladder.gains
    assert 30 < gains("rung_01_tma_wgmma", "rung_02_larger_tile")[4096] < 36
    assert 0 < gains("rung_02_larger_tile", "rung_03_producer_consumer")[4096] < 5
    assert 20 < gains("rung_03_producer_consumer", "rung_05_two_consumers")[4096] < 30
    assert all(abs(gains(before, after)[4096]) < 2 for _, before, after in c08b_ladder.FIVE)
    assert gains("rung_11_cluster", "rung_12_tma_store")[4096] > 8
    spilled = c08_ladder.recorded("rung_04_one_consumer", 4096)
    assert spilled is not None and spilled.value < 0.1 * c08_ladder.recorded("rung_03_producer_consumer", 4096).value
    runs, before = (c08_ladder.recorded(f"rung_0{name}", 16384) for name in ("7_persistent", "6_registers"))
    assert runs is not None and before is not None and runs.ratio < 0.75 * before.ratio
    odd = {record.shape: record.ratio for record in c08b_ladder.odd_shapes()}
    rates = {record.shape: record.value for record in c08b_ladder.odd_shapes()}
    assert odd and rates[4095, 4096, 4096] > 1.4 * max(rates[4096, 4095, 4096], rates[4096, 4096, 4095])


def test_the_groups_do_not_need_the_solutions(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A students' release has the records and not the rungs. Rung 4 was measured in another group at 8,192."""
    monkeypatch.setattr(lab, "labs_folder", lambda: tmp_path / "labs")
    c08_ladder._group.cache_clear()
    gained = c08_ladder.gains("rung_03_producer_consumer", "rung_05_two_consumers")
    assert list(gained) == list(c08_ladder.SIZES[:3])  # at 16,384 rung 3 was in another group
    assert 20 < gained[4096] < 30 and c08_ladder.in_group("rung_04_one_consumer", 8192) is None


def test_a_table_of_no_gain_has_a_row_for_each_idea() -> None:
    said = c08_ladder.no_gain(c08b_ladder.FIVE).data
    assert said.count("\n") == 1 + len(c08b_ladder.FIVE) and "| 11 | clusters |" in said


def test_the_figure_of_clocks_has_a_point_for_each_record() -> None:
    drawn = c08b_ladder.clock_figure()
    assert isinstance(drawn, Figure)
    points = sum(len(line.get_xdata()) for line in drawn.axes[0].lines)
    assert points == len(c08b_ladder.alone()) + len(c08b_ladder.alone("07_tensor_core_hgemm"))
