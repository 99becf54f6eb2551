"""Chapter 03b: what its cells read of beside_cpu.json, draw, and count in a processor's own code."""

from __future__ import annotations

import re
from pathlib import Path

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.lesson import table
from course.results import DIRECTORY, Results, read
from warplab.figures import style

CORE, SM = "one core", "one SM"
NOT_SOONER = {
    "the GPU thread's": "A GPU's path to memory is longer: more banks, more queues, a slower clock.",
    "about the same: both wait for DRAM": "DRAM is a small part of it; the way there is the larger one.",
}
_WIDTHS = {"zmm": 16, "ymm": 8, "xmm": 4}  # float32 values of a vector register, by its name in x86's assembly


def records(path: Path = DIRECTORY / "beside_cpu.json") -> Results:
    """What `python -m benchmarks.beside_cpu` measured. Raises ResultsError where the file is missing."""
    return read(path)


def where(found: Results) -> Markdown:
    """On what it was measured."""
    host = next(record.conditions for record in found.records if record.conditions != "GPU")
    return Markdown(f"Measured on {found.header.where} and its host ({host}), in one run: `{found.header.command}`.")


def rate(found: Results, what: str, how: str, *shape: int) -> float:
    """Bytes, operations or steps per second of one record."""
    records = [r for r in found.records if (r.name, r.variant) == (what, how) and (not shape or r.shape == shape)]
    (record,) = records
    return record.value


def chased(found: Results, by: str) -> list[tuple[int, float]]:
    """(pointers followed at a time, steps per second) of one core or one SM."""
    return sorted((r.shape[0], r.value) for r in found.records if (r.name, r.variant) == ("chase", by))


def latency(found: Results, by: str) -> float:
    """Seconds of one step, from the chase with the fewest pointers."""
    pointers, steps = chased(found, by)[0]
    return pointers / steps


def figure_of_chases(found: Results) -> Figure:
    """Steps per second by pointers in flight, for one core and one SM."""
    made, (axes,) = style.figure(8, 3.8)
    for by, colour in ((CORE, style.ORANGE), (SM, style.BLUE)):
        points = chased(found, by)
        axes.plot(*zip(*points, strict=True), color=colour, marker="o")
        axes.annotate(by, points[-1], xytext=(8, -3), textcoords="offset points", color=style.INK)
    axes.set(
        xscale="log", yscale="log", xlabel="pointers followed at a time", ylabel="steps per second", xlim=(0.8, 2500)
    )
    style.headline(made, "A core answers sooner, an SM asks more often")
    return made


def figure_of_rooflines(found: Results) -> Figure:
    """Both machines' measured ceilings, the axpy and the three loops below them, by compulsory FLOP per byte."""
    made, (axes,) = style.figure(8, 4)
    (side, *_) = next(r.shape for r in found.records if r.name == "product")
    intensities = {"axpy": 2 / 12, "product": 2 * side**3 / (12 * side**2)}
    machines = (
        ("CPU, all cores", style.ORANGE, "Numba, all cores", "NumPy (BLAS), all cores", "three loops, all cores"),
        ("GPU", style.BLUE, "GPU", "GPU, cuBLAS", "GPU, a thread per element"),
    )
    for name, colour, copier, library, loops in machines:
        bandwidth, peak = rate(found, "axpy", copier), rate(found, "product", library)
        ends = (0.05, peak / bandwidth, 2000)
        axes.plot(ends, [min(peak, bandwidth * at) for at in ends], color=colour, linewidth=2)
        axes.text(1500, peak * 1.15, name, ha="right", color=style.INK)
        axes.plot(intensities["axpy"], bandwidth * intensities["axpy"], "o", color=colour)
        axes.plot(intensities["product"], rate(found, "product", loops), "o", color=colour)
    for name, at in intensities.items():
        axes.axvline(at, color=style.FAINT, zorder=0)
        axes.text(at, 6e9, f" {name}", color=style.MUTED)
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte of memory", ylabel="FLOP/s", ylim=(5e9, 2e14))
    style.headline(
        made, "Two roofs of one shape", "ceilings: the axpy's bandwidth and the library's product; dots: plain loops"
    )
    return made


def rows_of(found: Results, what: str) -> Markdown:
    """A table of the ways to do it, with the gain over the slowest."""
    rows = [(r.variant, r.value) for r in found.records if r.name == what]
    least = min(value for _, value in rows)
    heads = ["how", {"axpy": "GB/s", "product": "GFLOP/s"}[what], "times the slowest"]
    return table(heads, [(how, value / 1e9, value / least) for how, value in rows])


def lanes_of(assembly: str) -> int:
    """float32 lanes of the widest vector register that x86 assembly multiplies and adds in; 1 where there is none.

    The code of other processors has other names: 0.
    """
    if not re.search("%[xyz]mm", assembly):
        return 0
    for register, lanes in _WIDTHS.items():
        if re.search(rf"v(?:fmadd\w+p|mulp|addp)s\s.*%{register}", assembly):
            return lanes
    return 1
