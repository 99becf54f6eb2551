"""The pictures of notebook 08 say what is so: places against the emulator's copies, times and counts against rules."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from course.figures.pipeline import Pipeline, explore_pipeline, pipeline
from course.figures.swizzle import SPANS, explore_swizzle, place, swizzle, wavefronts
from course.figures.tile_order import CHOICES, ORDERS, RUNS, Product, explore_tile_order, hilbert, tile_order
from tests.emulator.asynchronous import bulk_kernel
from warplab.figures import style
from warplab.hardware.requests import banks_of

pytestmark = pytest.mark.stored


def texts(figure) -> str:
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    return "\n".join([text.get_text() for text in figure.texts] + titles)


def by_gid(axes) -> dict:
    return {patch.get_gid(): patch for patch in axes.patches if patch.get_gid()}


class TestSwizzle:
    @pytest.mark.parametrize("span", SPANS)
    def test_places_are_those_of_a_tensor_copy(self, span: int) -> None:
        body = f"""
        if (t == 0) {{ expect(&full, {8 * span}); TILE(tile, &map, 0, 0, &full) }}
        wait(&full, 0);
        for (int i = t; i < {2 * span}; i += 64) out[i] = tile[i];
        """
        result = bulk_kernel.run(body, box=(span // 4, 8), swizzle=span)
        assert result.findings == ()
        for row in range(8):
            for word in range(span // 4):
                assert result.outputs["out"][place(span, row, 4 * word) // 4] == bulk_kernel.A[row, word]

    @pytest.mark.parametrize("span", SPANS)
    @pytest.mark.parametrize("swizzled", [False, True])
    def test_wavefronts_are_those_of_ldmatrix(self, span: int, swizzled: bool) -> None:
        for piece in range(span // 16):
            rows = [place(span, row, 16 * piece, swizzled=swizzled) for row in range(8)]
            access = banks_of([*rows, *[None] * 24], 16, matrix=True)
            assert wavefronts(span, piece, swizzled=swizzled) == len(access.wavefronts)
            assert wavefronts(span, piece, swizzled=swizzled) == (1 if swizzled else span // 16)

    def test_picture_shows_every_piece_where_it_lies(self) -> None:
        figure = swizzle(64, 5, 17, "float16")
        for axes, swizzled in zip(figure.axes, (False, True), strict=True):
            patches = by_gid(axes)
            assert len(patches) == 8 * 4 + 1
            for row in range(8):
                for piece in range(4):
                    at = place(64, row, 16 * piece, swizzled=swizzled)
                    box = patches[f"row {row} piece {piece}"]
                    assert (box.get_x(), box.get_y()) == (at % 128 // 16, at // 128)
            chosen, framed = patches["row 5 piece 2"], patches["chosen"]
            assert chosen.get_x() < framed.get_x() < chosen.get_x() + 1 and chosen.get_y() == int(framed.get_y())
        said = texts(figure)
        assert "takes 4 wavefronts" in said and "takes 1 wavefront\n" in said
        assert "byte 354: bank 24 from its byte 2, line 2" in said

    @pytest.mark.parametrize(("span", "row", "byte"), [(48, 0, 0), (64, 0, 64), (128, -1, 0)])
    def test_bad_input_is_one_sentence(self, span: int, row: int, byte: int) -> None:
        with pytest.raises(ValueError, match="swizzle spans|there is no byte"):
            place(span, row, byte)

    def test_explorer_refuses_what_is_not_there(self) -> None:
        explorer = explore_swizzle()
        explorer.controls["span"].value = 32
        explorer.controls["column"].value = 40
        assert "there is no byte 80" in explorer.message.value
        explorer.controls["column"].value = 3
        assert explorer.message.value == "" and explorer.image.value[:4] == b"\x89PNG"


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    whole = st.integers(0, 40)
    return Pipeline(draw(st.integers(1, 30)), draw(st.integers(1, 6)), draw(whole), draw(whole), 1 + draw(whole))


class TestPipeline:
    @given(pipelines())
    def test_every_step_begins_as_soon_as_the_rules_let_it(self, model: Pipeline) -> None:
        steps = model.schedule()
        for number, step in enumerate(steps):
            before = steps[number - 1] if number else None
            freed = steps[number - model.stages].done if number >= model.stages else 0
            assert step.stage == number % model.stages
            assert step.asked == max(freed, before.asked + model.transfer if before else 0)
            assert step.come == step.asked + model.latency
            assert step.begun == max(step.come, before.done if before else 0)
            assert step.done == step.begun + model.compute

    @given(pipelines())
    def test_the_period_is_that_of_a_long_run(self, model: Pipeline) -> None:
        long = Pipeline(600, *(getattr(model, name) for name in ("stages", "latency", "transfer", "compute")))
        steps = long.schedule()
        turns = 60 * model.stages
        assert (steps[-1].done - steps[-1 - turns].done) / turns == pytest.approx(model.period)

    def test_figure_draws_the_schedule(self) -> None:
        model = Pipeline(6, 2, 1000, 300, 500)
        figure = pipeline(model)
        (axes,) = figure.axes
        patches = by_gid(axes)
        for number, step in enumerate(model.schedule()):
            copy, products = patches[f"copy {number}"], patches[f"products {number}"]
            assert (copy.get_x(), copy.get_width()) == (step.asked, 1000)
            assert (products.get_x(), products.get_width()) == (step.begun, 500)
            assert round(copy.get_y() + copy.get_height() / 2) == step.stage
        assert "busy 67%" in texts(figure) and "every 750 cycles, limited by the latency" in texts(figure)
        assert "limited by the tensor cores" in texts(pipeline(Pipeline(6, 4, 1000, 300, 500)))
        assert "limited by the memory" in texts(pipeline(Pipeline(6, 4, 1000, 600, 500)))

    def test_impossible_ones_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one step"):
            Pipeline(4, 0, 1, 1, 1)
        explore_pipeline().controls["stages"].value = 5


class TestTileOrder:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("grid", [(1, 1), (5, 9), (16, 16), (33, 4)])
    def test_every_tile_once(self, order: str, grid: tuple[int, int]) -> None:
        tiles = ORDERS[order](*grid, 4)
        assert len(tiles) == grid[0] * grid[1]
        assert set(tiles) == {(row, column) for row in range(grid[0]) for column in range(grid[1])}

    def test_neighbours_on_hilberts_curve_are_neighbours(self) -> None:
        curve = np.array(hilbert(32, 32, 1))
        assert np.all(np.abs(np.diff(curve, axis=0)).sum(axis=1) == 1)
        for first in range(0, 1024, 64):  # 64 in a row fill a square of 8 x 8
            part = curve[first : first + 64]
            assert np.all(np.ptp(part, axis=0) == 7)

    @pytest.mark.parametrize("order", CHOICES)
    def test_waves_count_strips(self, order: str) -> None:
        product = Product(4096, 8192, 1024)
        touched_before: set = set()
        for wave in product.waves(order, 8):
            touched = {("a", row) for row, _ in wave.tiles} | {("b", column) for _, column in wave.tiles}
            assert wave.rows + wave.columns == len(touched)
            assert wave.new_rows + wave.new_columns == len(touched - touched_before)
            touched_before = touched
        assert sum(len(wave.tiles) for wave in product.waves(order, 8)) == 32 * 32
        assert product.bytes(2, 3) == 2 * 1024 * (2 * 128 + 3 * 256)

    def test_known_waves(self) -> None:
        product = Product(8192, 8192, 8192)
        first = {order: product.waves(order, 8)[0] for order in ORDERS}
        assert (first["by rows"].rows, first["by rows"].columns) == (5, 32)
        assert (first["in groups"].rows, first["in groups"].columns) == (8, 17)
        runs = product.waves(RUNS)  # 16 tiles each for 128 blocks: half a row of tiles
        assert [tile for wave in runs for tile in wave.tiles[:1]] == [(0, column) for column in range(16)]
        assert {(wave.rows, wave.columns) for wave in runs} == {(64, 2)}
        with pytest.raises(ValueError, match="orders are by rows"):
            product.waves("spiral")

    def test_figure_colours_waves_and_measures_strips(self) -> None:
        product = Product(2048, 4096, 512, blocks=20)
        figure = tile_order(product, "back and forth", 4)
        grid, bars = figure.axes
        waves = product.waves("back and forth", 4)
        for number, wave in enumerate(waves):
            for row, column in wave.tiles:
                box = by_gid(grid)[f"tile {row} {column} wave {number}"]
                assert (box.get_x(), box.get_y()) == (column, row)
            needed = by_gid(bars)[f"needed {number}"].get_width()
            assert needed == pytest.approx(product.bytes(wave.rows, wave.columns) / 1e6)
            fresh = by_gid(bars)[f"new {number}"].get_width()
            assert fresh == pytest.approx(product.bytes(wave.new_rows, wave.new_columns) / 1e6)
        said = float(re.search(r"([\d.]+) times A and B", texts(figure)).group(1))
        total = sum(product.bytes(w.rows, w.columns) for w in waves)
        assert said == pytest.approx(total / product.bytes(16, 16), abs=0.05)

    def test_later_waves_can_stay_grey(self) -> None:
        figure = tile_order(Product(2048, 4096, 512, blocks=20), RUNS, coloured=1)
        colours = {gid.endswith("wave 0"): box.get_facecolor() for gid, box in by_gid(figure.axes[0]).items()}
        assert to_hex(colours[False]).upper() == style.EMPTY and to_hex(colours[True]).upper() == style.BLUE.upper()

    def test_explorer_draws_anew(self) -> None:
        explorer = explore_tile_order(2048)
        explorer.controls["order"].value = "Hilbert"
        assert explorer.image.value[:4] == b"\x89PNG"
