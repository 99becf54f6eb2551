"""The pictures of notebooks 00 and 01: each box, line and number in them against a truth of its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from course.figures.edge import Cover, explore_edge, last_block
from course.figures.lanes import explore_stride
from course.figures.matrix import explore_layout, places_of_warp, threads_on_matrix, warp_on_matrix
from course.figures.steps import explore_tree, halving, lane_rows, tree
from course.figures.submission import way_of_a_submission
from course.figures.threads import threads_to_elements
from course.figures.waves import explore_waves, place_blocks, waves
from warplab.emulator.profiling.reach import Reach, Touch
from warplab.figures import style
from warplab.hardware.requests import sectors_of
from warplab.plan.execution import Execution


def by_gid(figure) -> dict:
    return {patch.get_gid(): patch for patch in figure.axes[0].patches if patch.get_gid()}


def texts(figure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


def line_of(size: int, blocks: int, threads: int, guarded: bool = True) -> Reach:
    touches = [
        Touch((b, 0, 0), (t, 0, 0), (b * threads + t,), b * threads + t < size)
        for b in range(blocks)
        for t in range(threads)
        if b * threads + t < size or not guarded
    ]
    return Reach("out", (size,), (blocks, 1, 1), (threads, 1, 1), tuple(touches), (1,) * blocks, Execution({}))


class TestThreads:
    def test_idle_threads_are_empty_and_elements_have_their_blocks_colour(self) -> None:
        figure = threads_to_elements(line_of(30, 4, 8))
        boxes = by_gid(figure)
        assert len(boxes) == 32 + 30 and len(figure.axes[0].lines) == 30 + 4
        assert to_hex(boxes["thread 3 6"].get_facecolor()) == style.EMPTY.lower()
        assert to_hex(boxes["element 9"].get_facecolor()) == to_hex(boxes["thread 1 0"].get_facecolor())
        assert "4 blocks of 8 threads" in texts(figure) and "2 of 32 threads are idle" in texts(figure)

    def test_what_is_outside_is_drawn_behind_the_end(self) -> None:
        figure = threads_to_elements(line_of(30, 4, 8, guarded=False))
        boxes = by_gid(figure)
        assert {"outside 30", "outside 31"} <= boxes.keys() and "red: 2 reach outside of out" in texts(figure)
        assert boxes["outside 30"].get_x() > boxes["element 29"].get_x()
        assert sum(to_hex(line.get_color()) == style.RED.lower() for line in figure.axes[0].lines) == 2

    def test_lines_end_at_the_element_that_was_touched(self) -> None:
        figure = threads_to_elements(line_of(12, 3, 4))
        boxes = by_gid(figure)
        lines = [line for line in figure.axes[0].lines if line.get_ydata()[0] != line.get_ydata()[1]]
        for line, (block, thread) in zip(lines, itertools.product(range(3), range(4)), strict=True):
            start, end = line.get_xdata()
            element = boxes[f"element {4 * block + thread}"]
            assert abs(start - boxes[f"thread {block} {thread}"].get_x() - 0.42) < 1e-9
            assert abs(end - element.get_x() - element.get_width() / 2) < 1e-9

    def test_too_many_or_of_two_dimensions_is_a_sentence(self) -> None:
        with pytest.raises(ValueError, match="at most 64"):
            threads_to_elements(line_of(80, 10, 8))
        with pytest.raises(ValueError, match="one dimension"):
            threads_to_elements(Reach("a", (2, 2), (1, 1, 1), (2, 2, 1), (), (1,), Execution({})))


class TestMatrix:
    def test_elements_that_nobody_touches_are_empty(self) -> None:
        touches = tuple(Touch((0, 0, 0), (c, r, 0), (r, c)) for r in range(4) for c in range(7))
        stray = Touch((0, 0, 0), (0, 4, 0), (4, 0), inside=False)
        made = Reach("out", (4, 15), (1, 1, 1), (8, 8, 1), (*touches, stray), (1,), Execution({}))
        figure = threads_on_matrix(made)
        faces = {gid: to_hex(patch.get_facecolor()) for gid, patch in by_gid(figure).items()}
        assert len(faces) == 60 and sum(face == style.EMPTY.lower() for face in faces.values()) == 32
        assert "32 elements are touched by nobody" in " ".join(texts(figure).split())
        assert {"6,3"} <= {text.get_text() for text in figure.axes[0].texts}

    @pytest.mark.parametrize(("width", "x_is_column"), [(1, True), (8, True), (8, False), (32, True), (32, False)])
    def test_sectors_are_those_of_the_lanes(self, width: int, x_is_column: bool) -> None:
        lanes = places_of_warp((width, 32 // width), x_is_column)
        assert len(set(lanes)) == 32
        assert lanes[1] == ((0, 1) if (width > 1) == x_is_column else (1, 0))
        figure = warp_on_matrix(lanes, (32, 32))
        drawn = {gid for gid in by_gid(figure) if gid.startswith("sector")}
        sectors = sectors_of([4 * (32 * r + c) for r, c in lanes]).sectors
        assert drawn == {f"sector {sector}" for sector in sectors} and f"{len(sectors)} sectors" in texts(figure)

    def test_the_controls_draw_anew(self) -> None:
        page = explore_layout()
        assert "4 sectors" in texts(page.figure)
        page.controls["block"].value = "1 x 32"
        assert page.image.value[:4] == b"\x89PNG" and not page.message.value


class TestWaves:
    @given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 3))
    def test_every_block_runs_once_in_a_place_of_its_own(self, durations: list[int], sms: int, slots: int) -> None:
        placed = place_blocks(durations, sms, slots)
        assert [one.block for one in placed] == list(range(len(durations)))
        assert [one.end - one.start for one in placed] == durations
        for a, b in itertools.combinations(placed, 2):
            assert (a.sm, a.slot) != (b.sm, b.slot) or a.end <= b.start or b.end <= a.start
        starts = [one.start for one in placed]
        assert starts == sorted(starts), "in order of their number"
        for one in placed:
            if one.start:  # it waited, so every place was taken until then
                assert sum(other.start < one.start <= other.end for other in placed) >= sms * slots

    def test_the_picture_says_when_it_ends(self) -> None:
        figure = waves([1.0] * 9, sms=4)
        assert len(by_gid(figure)) == 9 and "ends after 3 block lengths; 75% of" in texts(figure)
        assert "no order is promised" in texts(figure)
        with pytest.raises(ValueError, match="at least one block"):
            waves([])
        page = explore_waves()
        page.controls["places_per_SM"].value = 4
        assert page.image.value[:4] == b"\x89PNG"


class TestEdge:
    @given(st.integers(1, 5000), st.integers(1, 1024))
    def test_a_cover_counts_as_threads_do(self, n: int, block: int) -> None:
        cover = Cover(n, block)
        threads = np.arange(cover.blocks * block)
        assert cover.blocks * block >= n > (cover.blocks - 1) * block
        assert cover.idle == (threads >= n).sum()
        last = threads[-block:]
        parted = [0 < (last[w : w + 32] < n).sum() < len(last[w : w + 32]) for w in range(0, block, 32)]
        assert (cover.last, cover.parted, cover.warps) == ((last < n).sum(), sum(parted), len(parted))

    def test_lanes_without_an_element_are_told_apart_by_their_warp(self) -> None:
        boxes = by_gid(last_block(1000, 96))  # 11 blocks, the last with 40 of 96
        faces = {gid: to_hex(patch.get_facecolor()) for gid, patch in boxes.items()}
        assert len(faces) == 96
        assert faces["thread 39 busy"] == style.BLUE.lower() and faces["thread 40 idle"] == style.ORANGE.lower()
        assert faces["thread 64 idle"] == style.FAINT.lower()
        with pytest.raises(ValueError, match="1 to 1,024"):
            last_block(10, 2000)

    def test_the_controls_draw_anew(self) -> None:
        page = explore_edge()
        assert "5 blocks, 255 idle threads" in texts(page.figure)
        page.controls["block"].value = 1000
        assert page.image.value[:4] == b"\x89PNG"


class TestSteps:
    def test_a_tree_has_a_row_and_arrows_for_each_step(self) -> None:
        values = np.arange(1, 9)
        history = [values.copy()]
        for partners in halving(8):
            for thread, source in partners.items():
                values[thread] += values[source]
            history.append(values.copy())
        assert values[0] == 36 and [len(partners) for partners in halving(8)] == [4, 2, 1]
        figure = tree(np.array(history), halving(8), steps=2)
        assert len([gid for gid in by_gid(figure) if gid]) == 3 * 8 and "after 2 of 3 steps" in texts(figure)
        shown = [text.get_text() for text in figure.axes[0].texts]
        assert shown.count("16") == 1, "1 + 3 + 5 + 7"
        page = explore_tree(np.array(history))
        page.controls["steps"].value = 0
        assert page.image.value[:4] == b"\x89PNG"
        with pytest.raises(ValueError, match="3 steps"):
            tree(np.array(history), halving(8), steps=4)

    def test_rows_of_lanes(self) -> None:
        figure = lane_rows({"x": list(range(32))}, marked={"x": [lane % 2 == 1 for lane in range(32)]}, title="t")
        faces = {gid: to_hex(patch.get_facecolor()) for gid, patch in by_gid(figure).items()}
        assert faces["x 1"] == style.BLUE.lower() and faces["x 2"] == style.EMPTY.lower()
        with pytest.raises(ValueError, match="32 lanes"):
            lane_rows({"x": [1]}, marked={})


def test_a_slider_over_strides() -> None:
    page = explore_stride()
    assert "8 sectors" in texts(page.figure)
    page.controls["stride"].value = 8
    assert page.image.value[:4] == b"\x89PNG"


def test_the_way_of_a_submission_has_five_places() -> None:
    assert by_gid(way_of_a_submission()).keys() == {
        "submission.py",
        "capture",
        "Plan",
        "emulator",
        "GPU, if there is one",
    }
