"""Chapter 04b, the shared GPU: tables and a figure from sharing.json."""

from __future__ import annotations

from collections.abc import Sequence

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.lesson import table
from course.measured import needed
from course.results import Record
from warplab.figures import style

SLICES, STREAMS, MPS = "time slices", "streams", "MPS"
COLOURS = {SLICES: style.BLUE, STREAMS: style.ORANGE, MPS: style.GREEN}
MARKERS = {SLICES: "o", STREAMS: "s", MPS: "D"}
OFFSETS = (-0.22, 0.0, 0.22)  # of the ways within a row
NEIGHBOURS = ("copy", "product", "atomics", "L2 sweep")
PROBES = {
    "copy": ("rate", "rate of a copy"),
    "product": ("rate", "rate of a product"),
    "small kernel": ("latency", "latency of a small kernel"),
    "dependent loads in L2": ("latency", "latency of a load in L2"),
}
LEFT = {
    "fresh memory": ("the same process", "another process lives", "another process ended"),
    "shared memory": ("the same process", "another process lives"),
}
WRITERS = {
    "the same process": "the same process",
    "another process lives": "another, still running",
    "another process ended": "another, ended",
}


def of(probe: str, way: str, neighbour: str, part: str = "") -> Record:
    """A probe's record beside a neighbour; `part` is of a latency, such as "99th percentile"."""
    metric = PROBES[probe][0] + (f", {part}" if part else "")
    return needed("sharing", probe, metric, variant=f"{way}, beside {neighbour}")


def slower(probe: str, way: str, neighbour: str) -> float:
    """How many times as slow a probe is beside a neighbour as alone."""
    ratio = of(probe, way, neighbour).ratio
    # The ratio of a latency in ns or s and that of a rate both say how much better it is than alone.
    assert ratio
    return 1 / ratio


def figure_of_neighbours() -> Figure:
    """How many times as slow four probes get beside four neighbours, in three ways of sharing."""
    made, panels = style.figure(8.3, 5.2, widths=(1, 1), heights=(1, 1))
    for axes, (probe, (_, title)) in zip(panels, PROBES.items(), strict=True):
        axes.axvline(1, color=style.MUTED, linewidth=1)
        for offset, (way, colour) in zip(OFFSETS, COLOURS.items(), strict=True):
            points = [slower(probe, way, neighbour) for neighbour in NEIGHBOURS]
            rows = [row + offset for row in range(len(points))]
            axes.plot(points, rows, MARKERS[way], color=colour, markersize=7, label=way)
        axes.set(xscale="log", xlim=(0.6, 250), ylim=(len(NEIGHBOURS) - 0.5, -0.5), title=title)
        axes.set_yticks(range(len(NEIGHBOURS)), NEIGHBOURS)
        axes.set_xticks((1, 10, 100), ("1", "10", "100"))
        axes.tick_params(axis="x", which="minor", length=0)
        axes.grid(axis="x")
    for axes in panels[2:]:
        axes.set_xlabel("times as slow as alone")
    panels[1].legend(frameon=False, loc="lower right", fontsize=style.SMALL)
    style.headline(
        made,
        "What a neighbour costs depends on how the GPU is shared",
        "rows: what the neighbour runs without a pause; further right is worse",
    )
    return made


def table_of_tails() -> Markdown:
    """Median and 99th percentile of the small kernel's latency, by way and neighbour, in microseconds."""
    rows: list[Sequence[object]] = []
    for neighbour in ("nobody", *NEIGHBOURS):
        cells = [of("small kernel", way, neighbour, part) for way in COLOURS for part in ("", "99th percentile")]
        rows.append((neighbour, *(f"{cell.value * 1e6:,.0f}" for cell in cells)))
    heads = [f"{way}, {part}" for way in COLOURS for part in ("median", "99%")]
    return table(["the neighbour's work", *heads], rows)


def table_of_what_is_left() -> Markdown:
    """What a process finds of a pattern that was written there before, by way of sharing."""
    rows = []
    for name, cases in LEFT.items():
        for case in cases:
            found = [needed("sharing", name, "left behind", variant=f"{way}, {case}").value for way in (SLICES, MPS)]
            rows.append((name, WRITERS[case], *(f"{value:.0%} of the words" for value in found)))
    faults = [needed("sharing", "fault", "ends the neighbour", variant=way).value for way in (SLICES, MPS)]
    rows.append(("a fault", "another, still running", *("ends both" if value else "ends itself" for value in faults)))
    return table(["what", "written by", SLICES, MPS], rows)
