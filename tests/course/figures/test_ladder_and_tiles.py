from io import BytesIO

import pytest

from course.figures.ladder import Metric, ladder
from course.figures.tiles import Tiling, tiles

RUNGS = ["naive", "tile", "registers"]


def widths(axes) -> list[float]:
    return [patch.get_width() for patch in axes.patches]


def test_bars_are_as_long_as_their_values() -> None:
    figure = ladder(RUNGS, [Metric("speed", "FLOP/s", [1e12, 8e12, 41e12], 55e12, "ceiling")])
    (axes,) = figure.axes
    assert widths(axes) == [1e12, 8e12, 41e12]
    said = [text.get_text() for text in axes.texts]
    assert said == ["1 TFLOP/s", "8 TFLOP/s", "41 TFLOP/s", "ceiling 55 TFLOP/s"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == RUNGS
    assert axes.yaxis_inverted()  # the first rung on top
    (limit,) = [line for line in axes.lines if line.get_gid() == "limit"]
    assert limit.get_xdata()[0] == 55e12
    assert [patch.get_alpha() for patch in axes.patches] == [0.5, 0.5, 1.0]


def test_counts_far_apart_get_a_log_scale_and_less_is_best() -> None:
    figure = ladder(RUNGS, [Metric("sectors", "", [2e7, 4e6, 1e5], higher_is_better=False)])
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and "log scale" in axes.get_title(loc="left")
    assert axes.patches[-1].get_alpha() == 1.0
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert ends == pytest.approx([2e7, 4e6, 1e5])


def test_what_was_not_measured_has_no_bar() -> None:
    figure = ladder(RUNGS, [Metric("speed", "FLOP/s", [1e12, None, 2e12]), Metric("none", "", [None, None, None])])
    figure.savefig(BytesIO(), format="png")
    first, second = figure.axes
    assert widths(first) == [1e12, 2e12] and widths(second) == []
    assert [t.get_text() for t in second.texts] == ["not measured"] * 3
    (axes,) = ladder(RUNGS, [Metric("speed", "FLOP/s", [1e12, None, 2e12], missing="other group")]).axes
    assert [t.get_text() for t in axes.texts] == ["1 TFLOP/s", "other group", "2 TFLOP/s"]


def test_zero_is_a_value() -> None:
    figure = ladder(RUNGS, [Metric("bank conflicts", "", [31744, 992, 0], higher_is_better=False)])
    figure.savefig(BytesIO(), format="png")
    assert [t.get_text() for t in figure.axes[0].texts] == ["31.7 k", "992", "0"]


def test_a_resource_that_is_not_used_is_no_record_in_sparing_it() -> None:
    figure = ladder(RUNGS, [Metric("shared wavefronts", "", [0, 16, 2], higher_is_better=False)])
    assert [text.get_fontweight() for text in figure.axes[0].texts] == ["normal", "normal", "bold"]


@pytest.mark.parametrize(("values", "message"), [([1, 2], "2 values for 3 rungs"), ([1, 2, -1], "negative")])
def test_bad_ladders(values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ladder(RUNGS, [Metric("speed", "", values)])


TILING = Tiling(m=512, n=640, k=384, block=(128, 64), depth=16, thread=(8, 4))


def test_tiles_stand_where_the_product_needs_them() -> None:
    figure = tiles(TILING, block=(2, 3), step=5)
    figure.savefig(BytesIO(), format="png")
    left, _ = figure.axes
    box = {p.get_gid(): p.get_bbox() for p in left.patches}
    # C's block takes its rows from A's slab and its columns from B's.
    assert (box["C tile"].y0, box["C tile"].y1) == (box["A slab"].y0, box["A slab"].y1)
    assert (box["C tile"].x0, box["C tile"].x1) == (box["B slab"].x0, box["B slab"].x1)
    # At one step both tiles are at the same k.
    assert box["A tile"].x0 - box["matrix A"].x0 == 5 * 16 == box["B tile"].y0 - box["matrix B"].y0
    assert (box["A tile"].width, box["A tile"].height) == (16, 128)
    assert (box["B tile"].width, box["B tile"].height) == (64, 16)
    assert (box["C tile"].width, box["C tile"].height) == (64, 128)
    assert box["C tile"].y0 - box["matrix C"].y0 == pytest.approx(2 * 128)
    assert box["C tile"].x0 - box["matrix C"].x0 == pytest.approx(3 * 64)


def test_a_threads_fragments_meet_in_its_registers() -> None:
    _, right = tiles(TILING, thread=(2, 7)).axes
    box = {p.get_gid(): p.get_bbox() for p in right.patches}
    assert (box["register tile"].y0, box["register tile"].y1) == (box["A fragment"].y0, box["A fragment"].y1)
    assert (box["register tile"].x0, box["register tile"].x1) == (box["B fragment"].x0, box["B fragment"].x1)
    assert box["register tile"].y0 - box["block C"].y0 == pytest.approx(2 * 8)
    assert box["register tile"].x0 - box["block C"].x0 == pytest.approx(7 * 4)


def test_reuse_is_multiply_adds_an_element() -> None:
    assert TILING.threads == 256
    # Per step a block loads (128 + 64) * 16 elements and does 128 * 64 * 16 multiply-adds.
    assert TILING.global_reuse == pytest.approx(128 * 64 * 16 / ((128 + 64) * 16))
    assert TILING.shared_reuse == pytest.approx(8 * 4 / (8 + 4))
    figure = tiles(TILING)
    assert "42.7 multiply-adds" in figure.texts[1].get_text() and "2.67" in figure.texts[1].get_text()


def test_a_threads_tile_must_divide_the_blocks() -> None:
    with pytest.raises(ValueError, match="must divide"):
        Tiling(512, 512, 512, block=(128, 128), depth=8, thread=(7, 8))
