"""What the benchmark of products measures, without a GPU."""

from __future__ import annotations

import pytest

from benchmarks import figures
from benchmarks.bench_gemm import DRAWN_FROM, SIZES, drawn, entries, geometric_mean
from benchmarks.gemm.ladder import BEST, rungs
from course import results

pytestmark = pytest.mark.processes


def test_the_ladder_is_in_order_and_has_the_best_rung() -> None:
    names = [rung.name for rung in rungs()]
    assert BEST in names and len(names) == len(set(names))
    hopper = [name for name in names if name.startswith("08_hopper_hgemm/rung_")]
    assert hopper == sorted(hopper)
    assert {rung.result for rung in rungs() if rung.name.startswith("06")} == {"float32"}


def test_the_drawn_shapes_are_sixty_different_ones_and_always_the_same() -> None:
    shapes = drawn()
    assert len(set(shapes)) == 60 and shapes == drawn()
    assert {size for shape in shapes for size in shape} == set(DRAWN_FROM)
    assert any(m != n for m, n, _ in shapes)


def test_the_mean_of_ratios_is_geometric() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_figures_of_an_entry_are_the_assemblers() -> None:
    rung = next(rung for rung in rungs() if rung.name.endswith("rung_05_two_consumers"))
    (entry,) = entries([rung], (256, 512, 64), "sm_90a")
    figures = entry.figures()
    assert (figures["threads"], figures["blocks"], figures["launches"]) == (384, 4, 1)
    assert 128 < figures["registers"] <= 168 and figures["spill_bytes"] == 0
    assert figures["occupancy"] == 12 / 64  # shared memory leaves room for one block of 12 warps


def test_the_picture_has_every_rung_and_says_what_was_not_measured() -> None:
    records = [
        results.Record(
            f"08_hopper_hgemm/rung_0{number}_some_idea",
            "rate",
            number * 1e14,
            "FLOP/s",
            variant="squares",
            shape=(size,) * 3,
            dtype="float16",
            baseline="the library",
            baseline_value=7e14,
            ratio=number / 7,
        )
        for number in (1, 2)
        for size in SIZES
        if (number, size) != (1, 16384)
    ]
    drawn_figure = figures._products(results.Results(results.make_header("a test"), tuple(records)))
    texts = [text.get_text() for axes in drawn_figure.axes for text in axes.texts]
    assert texts.count("not measured") == 1 and any("700" in text for text in texts)
