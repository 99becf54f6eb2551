"""What the pictures of a profile draw: places, sizes, colours and words."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from course.figures.access import access
from course.figures.profile_table import profile_table
from course.figures.snapshot import snapshot
from course.figures.timeline import COLOURS, masks, timeline
from course.figures.timeline_slider import state_html, timeline_slider
from warplab.emulator.profiling.accesses import LaneAddress, Space, WarpAccess
from warplab.emulator.profiling.table import ProfileRow, ProfileTable
from warplab.emulator.profiling.timeline import Flight, Issue, IssueKind, Reason, Stall, Timeline
from warplab.figures import style
from warplab.hardware.requests import LANES

FULL = 0xFFFFFFFF
LOW = 0x0000FFFF
SOURCE = "def kernel(x):\n    a = x[0] < 1\n    cuda.syncthreads()\n"


def issue(time: int, warp: int, kind: IssueKind, mask: int = FULL, active: int = FULL, line: int = 2) -> Issue:
    return Issue(time, warp, line, kind, mask, active, pc=time, text=f"op {time};")


@pytest.fixture
def chart() -> Timeline:
    issues = (
        issue(0, 0, IssueKind.ARITHMETIC),
        issue(1, 0, IssueKind.ARITHMETIC),
        issue(2, 0, IssueKind.BRANCH, LOW),
        issue(3, 0, IssueKind.GLOBAL, LOW, LOW),
        issue(4, 0, IssueKind.SYNC, line=3),
        issue(5, 1, IssueKind.ARITHMETIC),
        issue(6, 1, IssueKind.SYNC, line=3),
        issue(7, 1, IssueKind.SHARED, 0),
        issue(8, 0, IssueKind.TENSOR),
    )
    return Timeline((2, 0, 0), 2, issues, (Stall(0, 5, 8, Reason.BARRIER, 3, FULL),))


def boxes(figure, gid: str) -> list[tuple[float, float, float, float]]:
    """Left, right, top and bottom of each bar of one kind."""
    (axes,) = figure.axes
    (collection,) = [c for c in axes.collections if c.get_gid() == gid]
    corners = [path.vertices for path in collection.get_paths()]
    return [(c[:, 0].min(), c[:, 0].max(), c[:, 1].min(), c[:, 1].max()) for c in corners]


def test_a_bar_stands_at_its_time_and_is_as_high_as_its_lanes(chart: Timeline) -> None:
    figure = timeline(chart)
    # Two instructions alike that follow each other are one bar.
    assert boxes(figure, "arithmetic") == [pytest.approx((0, 2, -0.4, 0.4)), pytest.approx((5, 6, 0.6, 1.4))]
    assert boxes(figure, "branch") == [pytest.approx((2, 3, 0, 0.4))]
    assert boxes(figure, "tensor core") == [pytest.approx((8, 9, -0.4, 0.4))]
    assert boxes(figure, "at a barrier") == [pytest.approx((5, 8, -0.4, 0.4))]
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["warp 0", "warp 1"]
    assert axes.get_xlim() == (0, 9) and axes.get_ylim()[0] > axes.get_ylim()[1]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["arithmetic", "global memory", "shared memory", "branch", "synchronisation", "tensor core",
                      "waits at a barrier"]  # fmt: skip
    assert "modelled, not measured" in figure.texts[1].get_text()
    figure.savefig(BytesIO(), format="png")


def test_what_is_on_its_way_lies_below_its_warp(chart: Timeline) -> None:
    flights = (
        Flight(0, 1, 4, IssueKind.ASYNC, 2, 1),
        Flight(0, 3, 8, IssueKind.ASYNC, 2, 1),
        Flight(1, 5, 9, IssueKind.TENSOR, 2, 4),
    )
    figure = timeline(replace(chart, flights=flights), end=8)
    lines = {str(line.get_gid()): line for line in figure.axes[0].lines}
    assert list(lines) == ["flight 0 1 4", "flight 0 3 8", "flight 1 5 9"]
    first, second, product = lines.values()
    assert list(first.get_xdata()) == [1, 4] and list(product.get_xdata()) == [5, 8]
    assert 0.1 < first.get_ydata()[0] < second.get_ydata()[0] < 0.5 < product.get_ydata()[0] < 1.5
    assert product.get_color() == COLOURS[IssueKind.TENSOR]
    assert boxes(figure, "arithmetic")[0] == pytest.approx((0, 2, -0.4, 0.1))  # bars are lower, to leave room
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-2:] == ["copies on their way", "products on their way"]


def test_a_part_of_the_time_can_be_chosen(chart: Timeline) -> None:
    figure = timeline(chart, start=6, end=8)
    assert figure.axes[0].get_xlim() == (6, 8)
    assert boxes(figure, "at a barrier") == [pytest.approx((6, 8, -0.4, 0.4))]
    assert not [c for c in figure.axes[0].collections if c.get_gid() == "arithmetic"]
    with pytest.raises(ValueError, match="the timeline ends at 9"):
        timeline(chart, start=20, end=30)


def test_what_is_missing_is_said(chart: Timeline) -> None:
    short = Timeline(chart.block, 2, chart.issues, (), truncated=1234)
    assert "1,234 later instructions are not in it" in " ".join(timeline(short).texts[1].get_text().split())


def test_colours_differ_without_colour_vision() -> None:
    """Every pair of kinds differs clearly in lightness or in hue as protanopes and deuteranopes see it."""
    # Viénot, Brettel and Mollon (1999): linear RGB as a deuteranope and a protanope see it.
    deutan = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    protan = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    colours = [np.array(to_rgb(c)) ** 2.2 for c in COLOURS.values()]
    for view in (np.eye(3), deutan, protan):
        seen = [np.clip(view @ c, 0, 1) ** (1 / 2.2) for c in colours]
        distances = [np.abs(a - b).max() for n, a in enumerate(seen) for b in seen[:n]]
        assert min(distances) > 0.09


def test_masks_have_a_pixel_for_each_lane(chart: Timeline) -> None:
    figure = masks(chart, 0)
    (axes,) = figure.axes
    (image,) = axes.images
    pixels = np.asarray(image.get_array())
    assert pixels.shape == (32, 6, 3) and tuple(image.get_extent()) == (0, 6, 32, 0)
    # At the branch the low lanes jump and the others fall through; behind it the others are elsewhere.
    assert np.allclose(pixels[:16, 2], to_rgb(COLOURS[IssueKind.BRANCH]))
    assert np.allclose(pixels[16:, 2], to_rgb(style.FAINT))
    assert np.allclose(pixels[:16, 3], to_rgb(COLOURS[IssueKind.GLOBAL]))
    assert np.allclose(pixels[16:, 3], to_rgb(style.EMPTY))
    assert np.allclose(pixels[:, 4], to_rgb(COLOURS[IssueKind.SYNC]))
    markers = [line for line in axes.lines if str(line.get_gid()).startswith("divergent")]
    assert [line.get_xdata()[0] for line in markers] == [2.5]
    assert "6 instructions, 83% of their lanes run; 1 divergent branches" in figure.texts[1].get_text()
    labels = [t.get_text() for t in axes.texts]
    assert labels == ["2", "3", "2"]
    figure.savefig(BytesIO(), format="png")
    part = masks(chart, 0, first=2, last=4)
    assert tuple(part.axes[0].images[0].get_extent()) == (2, 4, 32, 0)
    with pytest.raises(ValueError, match="warp 0 issued 6 instructions, none from 10 on"):
        masks(chart, 0, first=10)


def test_a_moment_shows_lanes_and_lines(chart: Timeline) -> None:
    figure = snapshot(chart, 7, SOURCE)
    (axes,) = figure.axes
    gids = [patch.get_gid() for patch in axes.patches]
    assert "waits 0" in gids and "waits 1" not in gids
    assert [f"0 {lane} ran" in gids for lane in range(LANES)] == [True] * 32
    assert [f"1 {lane} idle" in gids for lane in range(LANES)] == [True] * 32
    words = {t.get_gid(): t for t in axes.texts}
    assert words["state 0"].get_text() == "   3  cuda.syncthreads()  (waits at a barrier)"
    assert words["state 1"].get_text() == "   2  a = x[0] < 1"
    assert words["warp 1"].get_weight() == "bold" and words["warp 0"].get_weight() == "normal"
    assert "instruction 7 of 9" in figure.texts[0].get_text()
    start = {t.get_gid(): t.get_text() for t in snapshot(chart, 0, SOURCE).axes[0].texts}
    assert start["state 1"] == "has not started"
    end = {t.get_gid(): t.get_text() for t in snapshot(chart, 8).axes[0].texts}
    assert end["state 1"] == "has ended" and end["state 0"] == "   2  op 8;"


def test_the_slider_moves_the_state(chart: Timeline) -> None:
    class Shown:
        plan = type("Plan", (), {"source": SOURCE})

        @staticmethod
        def timeline() -> Timeline:
            return chart

    made = timeline_slider(Shown(), time=0)  # type: ignore[arg-type]
    assert (made.slider.min, made.slider.max, made.slider.value) == (0, 8, 0)
    assert made.state.value == state_html(chart, 0, SOURCE)
    assert "has not started" in made.state.value
    made.slider.value = 7
    assert "waits at a barrier" in made.state.value and "has not started" not in made.state.value
    assert "x[0] &lt; 1" in made.state.value  # escaped
    assert made.state.value.count("<tr>") == 2 and made.state.value.count("<span") == 64
    made.figure.savefig(BytesIO(), format="png")
    assert timeline_slider(Shown()).slider.value == 4  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no moment 9: the timeline goes from 0 to 8"):
        timeline_slider(Shown(), time=9)  # type: ignore[arg-type]


def warp_access(space: Space, step: int, size: int, **more) -> WarpAccess:
    lanes = tuple(LaneAddress(step * lane, "x", (lane,)) for lane in range(32))
    return WarpAccess(12, 3, "load", space, size, lanes, **more)


def test_an_access_goes_to_its_picture() -> None:
    figure = access(warp_access(Space.SHARED, 128, 4))
    assert "32 wavefronts, 31 bank conflicts" in figure.texts[1].get_text()
    assert figure.texts[0].get_text() == "line 12, warp 3: shared load of 4 bytes a lane, x"
    assert "8 sectors of 32 bytes move, 100%" in access(warp_access(Space.GLOBAL, 8, 8)).texts[1].get_text()
    # The same word of the 32 threads' own memory lies side by side.
    own = WarpAccess(1, 0, "load", Space.LOCAL, 4, tuple(LaneAddress(20, "x", (5,)) for _ in range(32)))
    assert "4 sectors of 32 bytes move, 100%" in access(own).texts[1].get_text()


def test_the_table_draws_ideal_and_waste() -> None:
    rows = (
        ProfileRow(0, "k", "global_load_sectors", 320, "sectors", "l1tex", 40),
        ProfileRow(0, "k", "shared_load_wavefronts", 40, "wavefronts", "l1tex", 40),
        ProfileRow(0, "k", "shared_load_bank_conflicts", 280, "conflicts", "l1tex", 0),
        ProfileRow(0, "k", "warp_instructions", 5000, "instructions"),
    )
    figure = profile_table(ProfileTable(rows))
    (axes,) = figure.axes
    bars = {p.get_gid(): (p.get_x(), p.get_width()) for p in axes.patches if p.get_gid()}
    assert bars == {
        "ideal global_load_sectors": (0, 40), "waste global_load_sectors": (40, 280),
        "ideal shared_load_wavefronts": (0, 40), "waste shared_load_wavefronts": (40, 0),
    }  # fmt: skip
    assert [t.get_text() for t in axes.texts] == ["320, 88% waste", "40"]
    with pytest.raises(ValueError, match="moved no data"):
        profile_table(ProfileTable(rows[3:]))
