"""Chapter 00: the tables and the figure beside its two kernels."""

from __future__ import annotations

from IPython.display import Markdown
from matplotlib.figure import Figure

from autograder.doctor import examine
from course.figures.ladder import Metric, ladder
from course.figures.lanes import sectors_of
from course.lesson import Lesson, table

_RUNGS = {
    "rung_1_one_element": "one element per thread",
    "rung_2_grid_stride": "grid stride",
    "rung_3_pairs": "pairs",
    "submission": "the reference",
}


def table_of_machine() -> Markdown:
    """What `autograder doctor` finds on this machine, without what only an instructor needs."""
    rows = []
    for check in examine():
        if check.name not in ("cache", "temporary files", "labs"):
            found = check.detail.split(" in /")[0]
            rows.append((check.name, str(check.state), f"Python {found}" if check.name == "Python" else found))
    return table(["what", "state", "found"], rows)


def table_of_points(lesson: Lesson) -> Markdown:
    """The parts of a grade, the points that each gives, and where it is judged."""
    points = lesson.lab.points
    rows = [
        ("correctness: right for tiny, ragged, prime and huge sizes", points.correctness, "GPU or emulator"),
        ("safety: no access out of bounds, no race, nothing read before it is written", points.safety, "emulator"),
        ("traffic: no more sectors than the lab's budget", points.traffic, "emulator"),
        ("efficiency: time, against the ceilings of this GPU", points.efficiency, "GPU only"),
    ]
    return table(["part", "points", "judged by"], rows)


def worst_stride(strides: range = range(1, 33)) -> int:
    """The first stride, in float32, with which each lane of a warp needs a sector of its own."""
    return next(n for n in strides if len(sectors_of([4 * n * lane for lane in range(32)]).sectors) == 32)


def figure_of_rungs(lesson: Lesson) -> Figure:
    """The rungs of lab 01: their sectors, which are equal, and the share of the copy's bandwidth where it is known."""
    rungs = [lesson.climb(name) for name in _RUNGS]
    sectors = [rung.total.global_load_sectors + rung.total.global_store_sectors for rung in rungs]
    metrics = [Metric("global sectors, profile case", "", sectors, higher_is_better=False)]
    shares = [100 * rung.time.efficiency if rung.time else None for rung in rungs]
    if any(shares):
        metrics.append(Metric("share of the copy bandwidth", "%", shares, limit=100, limit_name="copy"))
    return ladder(list(_RUNGS.values()), metrics, title="Four kernels, one amount of traffic")
