import itertools
from io import BytesIO

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from warplab.figures.roofline import Point, roofline
from warplab.hardware import Roofline

ROOF = Roofline(60e12, 4e12, "measured")


def texts(figure: Figure) -> str:
    (axes,) = figure.axes
    return "\n".join([*(t.get_text() for t in axes.texts), *(t.get_text() for t in figure.texts)])


def test_points_stand_where_they_were_measured() -> None:
    figure = roofline(ROOF, [Point("axpy", 1 / 6, 0.6e12), Point("gemm", 1000, 45e12, (44e12, 46e12))])
    (axes,) = figure.axes
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == [(1 / 6, 0.6e12), (1000, 45e12)]
    said = texts(figure)
    assert "axpy: 600 GFLOP/s, 90%" in said  # 0.6 of 4/6 TFLOP/s
    assert "gemm: 45 TFLOP/s, 75%" in said
    assert "60 TFLOP/s" in said and "4 TB/s" in said and "ridge 15" in said
    assert axes.get_xscale() == axes.get_yscale() == "log"


def text_box(annotation: Annotation) -> Bbox:
    """The extent of the text alone, in pixels: that of an annotation has its line in it."""
    annotation.get_window_extent()  # puts the text where it belongs; before, its place is in other coordinates
    return Text.get_window_extent(annotation)


def test_labels_of_neighbouring_points_do_not_touch() -> None:
    figure = roofline(ROOF, [Point(f"rung {n}", 1000, flops) for n, flops in enumerate((45e12, 44e12, 40e12, 1e12))])
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [t.get_window_extent() for t in axes.texts if t.get_text().startswith("rung")]
    assert len(labels) == 4
    for above, below in itertools.combinations(labels, 2):
        assert not above.overlaps(below)


def test_labels_right_of_the_ridge_cover_no_point() -> None:
    group = [Point(f"op {n}", 20.0 * 3**n, flops) for n, flops in enumerate((50e12, 55e12, 52e12, 48e12))]
    figure = roofline(ROOF, group)
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [text_box(t) for t in axes.texts if t.get_text().startswith("op")]
    dots = [axes.transData.transform((p.intensity, p.flops)) for p in group]
    assert len(labels) == 4 and not any(box.contains(*dot) for box in labels for dot in dots)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(labels, 2))


def test_labels_below_many_points_stay_inside_the_axes() -> None:
    rungs = [Point(f"op {n}", 1000, flops) for n, flops in enumerate((5e11, 1.3e12, 8e12, 10e12, 33e12, 47e12))]
    figure = roofline(ROOF, [*rungs, Point("op a", 120, 50e12)])
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [text_box(t) for t in axes.texts if t.get_text().startswith("op")]
    (ridge,) = (text_box(t) for t in axes.texts if t.get_text().startswith("ridge"))
    assert len(labels) == 7 and min(box.y0 for box in labels) > axes.get_window_extent().y0
    assert not any(a.overlaps(b) for a, b in itertools.combinations([*labels, ridge], 2))


def test_labels_left_of_the_ridge_cover_no_point() -> None:
    group = [Point("op a", 1 / 6, 0.66e12), Point("op b", 0.25, 0.95e12), Point("op c", 0.75, 0.66e12)]
    figure = roofline(ROOF, group)
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [t.get_window_extent() for t in axes.texts if t.get_text().startswith("op")]
    dots = [axes.transData.transform((p.intensity, p.flops)) for p in group]
    assert len(labels) == 3 and not any(box.contains(*dot) for box in labels for dot in dots)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(labels, 2))


def test_every_point_is_inside_the_axes() -> None:
    extremes = [Point("slow", 1e-4, 1e6), Point("fast", 1e6, 5e13)]
    (axes,) = roofline(ROOF, extremes).axes
    for point in extremes:
        assert axes.get_xlim()[0] < point.intensity < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < point.flops < axes.get_ylim()[1]


def test_the_datasheet_is_dashed_and_named() -> None:
    figure = roofline(ROOF, datasheet=Roofline(67e12, 4.8e12, "H200 datasheet"))
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["H200 datasheet", "measured"]
    dashed, solid = axes.lines[:2]
    assert dashed.is_dashed() and not solid.is_dashed()
    assert max(solid.get_ydata()) == 60e12


@pytest.mark.parametrize("format", ["png", "svg"])
def test_it_draws(format: str) -> None:
    buffer = BytesIO()
    roofline(ROOF, [Point("a & <b>", 2, 1e12)]).savefig(buffer, format=format)
    assert len(buffer.getvalue()) > 10_000


@pytest.mark.parametrize("point", [Point("zero", 0, 1e12), Point("stopped", 1, 0)])
def test_a_point_without_a_place_is_refused(point: Point) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        roofline(ROOF, [point])
