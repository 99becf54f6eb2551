"""Chapter 17: its arithmetic by counting, its formats by their codes, its bounds by hand, its products emulated."""

from __future__ import annotations

import numpy as np
import pytest

from course.chapters import c17_blackwell_and_beyond as chapter
from warplab.hardware import Math
from warplab.hardware.chips import B200, GB200
from warplab.hardware.small_floats import E2M1


def test_sums_and_operands_are_those_of_arrays() -> None:
    assert chapter.registers(128, 256, 128) == np.empty((128, 256), np.float32).nbytes / 4 / 128
    assert chapter.operand_bytes(1) == sum(np.empty((rows, 16), np.float16).nbytes for rows in (128, 256))
    assert 2 * chapter.operand_bytes(2) == sum(np.empty((rows, 16), np.float16).nbytes for rows in (256, 256))


def test_the_rate_of_an_sm_is_the_published_peak_at_a_clock_that_the_chip_has() -> None:
    peak, clock = B200.peak(Math.FP16_TENSOR), B200.boost_clock
    assert peak is not None and clock is not None
    assert 0.9 * clock < peak / B200.sms / chapter.PER_CYCLE < clock
    assert chapter.product_cycles() == 128


def test_the_least_width_of_experts_is_chapter_13s_formula() -> None:
    peak = GB200.peak(Math.BF16_TENSOR)
    assert peak is not None
    assert chapter.least_width(72) == pytest.approx(2 / 3 * (1 - 1 / 64) * peak / 900e9)
    nodes = 64 / 8
    visited = nodes * (1 - (1 - 1 / nodes) ** 8)
    assert chapter.least_width(8) == pytest.approx(2 / 3 * visited * (1 - 1 / nodes) / 8 * peak / 50e9)


def test_block_scales_keep_the_error_from_normal_to_heavy_tails() -> None:
    found = chapter.errors_of_products(chapter.tails())
    for name in ("MXFP8", "NVFP4"):
        assert max(found[name]) < 1.2 * min(found[name])
    assert found["e2m1, one scale"][2] > 2.5 * found["e2m1, one scale"][-1]
    assert all(four > 2.5 * eight for four, eight in zip(found["NVFP4"], found["MXFP8"], strict=True))


@pytest.mark.parametrize(("kind", "block", "most"), [("mxfp8", 32, 1 - 448 / 512), ("nvfp4", 16, 0.26)])
def test_codes_stand_for_the_nearest_values(kind: str, block: int, most: float) -> None:
    x = np.random.default_rng(5).standard_normal((4, 256))
    elements, scales, value = chapter.codes(x, kind)
    assert elements.shape == (4, 256 if kind == "mxfp8" else 128) and scales.shape == (4, 256 // block // 4)
    largest = np.repeat(np.abs(x).reshape(4, -1, block).max(axis=2), block, axis=1)
    assert (np.abs(value - x) <= most * largest).all()
    if kind == "nvfp4":
        low = E2M1.decode(elements & 15) * np.repeat(_scales(scales), 8, axis=1)
        assert np.array_equal(low, value[:, ::2])


def _scales(words: np.ndarray) -> np.ndarray:
    """Numbers of e4m3 codes by their bits: sign, exponent less 7, fraction of 8."""
    codes = words.view(np.uint8).astype(int)
    exponent, fraction = codes >> 3 & 15, codes & 7
    return np.where(exponent > 0, (8 + fraction) * 2.0 ** (exponent - 10), fraction * 2.0**-9)


def test_a_pairs_tile_is_the_largest() -> None:
    fit = [
        (m, n, sets, stages)
        for m in (128, 256)
        for n in (64, 128, 256)
        for sets in (1, 2, 3)
        for stages in (4, 6, 7, 8)
        if chapter.judged_tile(m, n, sets, stages)
    ]
    assert fit == [(256, 256, 2, 6), (256, 256, 2, 7)]


@pytest.mark.processes
def test_the_tensor_core_adds_up_what_codes_stand_for() -> None:
    rows = chapter.table_of_products(chapter.tails(depth=512)[3.0]).data.splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["mxfp8", "nvfp4"]
    assert [int(row[1]) for row in cells] == [512 // 32, 512 // 64]
    assert all(float(row[3]) < 1e-6 for row in cells)


@pytest.mark.processes
def test_packed_multiply_adds_are_taken_apart_on_consumer_chips() -> None:
    text = chapter.table_of_packed().data
    assert "| sm_100a | FFMA2 |" in text and "| sm_120a | FFMA, FFMA |" in text
