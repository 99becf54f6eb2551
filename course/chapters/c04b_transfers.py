"""Chapter 04b: what its cells read of transfers.json and draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.lesson import table
from course.results import DIRECTORY, Record, Results, read
from warplab.figures import style

UP, DOWN = "host to device", "device to host"
STAGES = {UP: "copy to the GPU", "kernel": "kernel", DOWN: "copy back"}
COLOURS = {UP: style.BLUE, "kernel": style.ORANGE, DOWN: style.GREEN}
NOT_20_US = {
    "2 µs": "That is the kernel alone; the wait for its launch lies between the events too.",
    "nothing: it is too short": "The clock of events ticks every half microsecond or so.",
}
TOGETHER = "copy, compute, copy back"
DRAWN = 8  # chunks of the recorded timeline


def records(path: Path = DIRECTORY / "transfers.json") -> Results:
    """What `python -m benchmarks.transfers` measured. Raises ResultsError where the file is missing."""
    return read(path)


def where(found: Results) -> Markdown:
    """One sentence: on what and when it was measured."""
    header = found.header
    return Markdown(f"Measured on {header.where} (driver {header.driver}): `{header.command}`.")


def seconds_of_copy(found: Results, way: str, kind: str) -> list[tuple[int, float]]:
    """(bytes, seconds) of the copies one way, from or to one kind of memory, by size."""
    return sorted((r.shape[0], r.shape[0] / r.value) for r in _copies(found, way, kind))


def rate_of_copy(found: Results, way: str, kind: str, size: int) -> float:
    """Bytes per second of one copy of `size` bytes."""
    return found.find(way, "rate", variant=kind, shape=(size,)).value


def _copies(found: Results, way: str, kind: str) -> list[Record]:
    return [r for r in found.records if (r.name, r.metric, r.variant) == (way, "rate", kind)]


def figure_of_copies(found: Results) -> Figure:
    """Rates by size, to the GPU and back, from pinned and pageable memory."""
    made, (axes,) = style.figure(8, 4)
    for way, line in ((UP, "-"), (DOWN, "--")):
        for kind, colour in (("pinned", style.BLUE), ("pageable", style.ORANGE)):
            points = [(size, size / seconds / 1e9) for size, seconds in seconds_of_copy(found, way, kind)]
            axes.plot(*zip(*points, strict=True), line, color=colour, marker="o", label=f"{kind}, {way}")
    axes.set(xscale="log", yscale="log", xlabel="bytes of one copy", ylabel="GB/s")
    axes.legend(frameon=False)
    style.headline(made, "Small copies pay for latency, pageable ones for a second copy")
    return made


def pipelined(stages: Sequence[float], chunks: int) -> float:
    """Seconds of stages in a row when the work is cut into equal chunks and each stage does one chunk at a time.

    The first chunk goes through all stages; after that the slowest stage finishes one chunk per turn.
    """
    return (sum(stages) + (chunks - 1) * max(stages)) / chunks


def chunk_rows(found: Results) -> list[tuple[int, float, float]]:
    """(chunks, milliseconds measured, milliseconds of `pipelined` from the run in one chunk), by chunks."""
    rows = sorted((r.shape[0], r.value) for r in found.records if (r.name, r.metric) == (TOGETHER, "time"))
    third = rows[0][1] / 3  # the kernel's length was set to that of a copy
    return [(chunks, taken * 1e3, pipelined([third] * 3, chunks) * 1e3) for chunks, taken in rows]


def chunk_table(found: Results) -> Markdown:
    """Measured and calculated time by number of chunks."""
    return table(["chunks", "measured, ms", "calculated, ms"], chunk_rows(found))


def busy(found: Results, name: str) -> list[tuple[float, float]]:
    """From when to when a stage worked on each chunk, in seconds.

    An event before a copy is passed when the copy is queued; the copy begins when the engine has finished the last one.
    """
    spans = sorted((r.value, r.extra["end"]) for r in found.records if (r.name, r.metric) == (name, "begin"))
    ends = [0.0, *(end for _, end in spans)]
    return [(max(begin, free), end) for (begin, end), free in zip(spans, ends, strict=False)]


def timeline(found: Results) -> Figure:
    """Which chunk is copied, computed and copied back when."""
    made, (axes,) = style.figure(8, 2.6)
    for row, (name, words) in enumerate(STAGES.items()):
        ink = style.ink_on(COLOURS[name])
        for chunk, (begin, end) in enumerate(busy(found, name)):
            axes.barh(row, (end - begin) * 1e3, left=begin * 1e3, height=0.7, color=COLOURS[name], edgecolor="white")
            axes.text((begin + end) / 2 * 1e3, row, str(chunk), ha="center", va="center", color=ink, fontsize=10)
        axes.text(-0.1, row, words, ha="right", va="center")
    axes.set(yticks=[], xlabel="ms since the first copy was queued")
    axes.invert_yaxis()
    style.headline(made, f"{DRAWN} chunks on three streams")
    return made


def launch_table(found: Results) -> Markdown:
    """Microseconds per small kernel, launched one by one and as one graph, by number of kernels."""
    rows: dict[int, dict[str, float]] = {}
    for record in (r for r in found.records if r.name == "small kernel"):
        rows.setdefault(record.shape[0], {})[record.variant] = record.value * 1e6
    return table(
        ["kernels", "one by one, µs per kernel", "one graph, µs per kernel"],
        [(kernels, each["one by one"], each["graph"]) for kernels, each in sorted(rows.items())],
    )


def event_table(found: Results) -> Markdown:
    """What two events say of a kernel, beside its own time, in microseconds."""
    rows = [r for r in found.records if r.metric == "time between events" and r.value != r.baseline_value]
    return table(
        ["what ran", "how it was timed", "events say, µs", "its own time, µs"],
        [(r.name, r.variant, r.value * 1e6, (r.baseline_value or 0) * 1e6) for r in rows],
    )
