"""Chapter 07: tiles of a warp, banks of a swizzle, and what the records say of mma.sync."""

from __future__ import annotations

import numpy as np
import pytest

from course.chapters import c07_tensor_cores as c07
from warplab.hardware.fragments import mma


def test_a_tile_of_a_warp_by_hand() -> None:
    """64 x 64: 16 x 64 elements of each operand are 4,096 bytes or 32 wavefronts, for 64 x 64 / 128 = 32 mmas."""
    assert c07.wavefronts(64, 64) == 1 and c07.wavefronts(32, 32) == 2
    assert c07.registers(64, 64) == (64 * 64 // 32, 4 * mma("a").registers_a_lane + 8 * mma("b").registers_a_lane)


def test_conflicts_of_rows_of_64_bytes() -> None:
    """Rows r, r + 2, r + 4 and r + 6 begin in one bank: four wavefronts per matrix, four matrices, two steps."""
    assert c07.conflicts(lambda row, piece: piece) == (2 * 4 * 3, True)
    assert c07.conflicts(lambda row, piece: piece ^ (row // 2 % 4)) == (0, True)
    assert c07.conflicts(lambda row, piece: 0)[1] is False


def test_the_instruction_of_ampere_runs_at_two_thirds() -> None:
    rates = c07.alone_rates()
    assert 0.6 < rates["mma.sync"].value / rates["wgmma"].value < 0.7
    share = c07.share_of_the_instruction("07_tensor_core_hgemm")
    assert share is not None and 0.75 < share < 0.9  # 433 TFLOP/s at 1.46 GHz on 132 SMs, of 2,700 FLOP per cycle


def test_bytes_in_flight_by_hand() -> None:
    """4.8 TB/s over 132 SMs at 1.83 GHz are 19.9 bytes per cycle."""
    assert c07.in_flight().data.startswith("19.9 bytes per cycle")


def test_the_largest_relative_error_of_each_depth() -> None:
    values, truth = np.array([[[1.0, 2.2]], [[3.0, 4.0]]]), np.array([[[1.0, 2.0]], [[4.0, 4.0]]])
    np.testing.assert_allclose(c07.relative(values, truth), [0.1, 0.25])


def test_the_figure_of_errors_has_a_line_for_each_way() -> None:
    drawn = c07.errors_figure({"a": np.array([1e-3, 2e-3]), "b": np.array([1e-6, 1e-6])})
    assert [list(line.get_xdata()) for line in drawn.axes[0].lines] == [[256, 512], [256, 512]]


def test_the_peak_is_one_mma_per_cycle_of_an_sm() -> None:
    from warplab.hardware.chips import H200

    assert c07.peak() / 2 / H200.sms / H200.tensor_clock == pytest.approx(c07.WORK, rel=1e-3)
