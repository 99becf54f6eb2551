"""Section 7 of chapter 12: all-reduces by hand, on the emulator, as a model and as measured."""

from __future__ import annotations

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.c12_collectives import KB, KIB, MB, MIB, NOT_YET, alpha, port
from course.chapters.spoken import binary
from course.experiment import emulate
from course.figures.cost_lines import CostLine, cost_lines
from course.kernel_cell import KernelCell
from course.lesson import table
from course.measured import results_of

BY_HAND = ("one-shot", "two-shot", "two-shot, LL")


def drawn_calls(calls: int, ranks: int) -> np.ndarray:
    """Whole numbers for calls of an all-reduce, float32 [calls, ranks, 32]."""
    return np.random.default_rng(calls).integers(-8, 9, (calls, ranks, 32)).astype(np.float32)


def ends_right(
    cell: KernelCell, x: np.ndarray, sets: int, seed: int | None, function: str = "by_hand"
) -> tuple[bool, str]:
    """Whether all ranks have the exact sums of all calls, in the order that a seed draws; and the first finding."""
    inputs = {"x": x, "sets": sets, "out": np.zeros_like(x)}
    (execution,) = emulate(cell, [inputs], function, budget=60_000, seed=seed)
    right = bool((execution.outputs["out"] == x.sum(1, keepdims=True)).all())
    return right, execution.findings[0].message if execution.findings else "nothing found"


def table_of_orders(cell: KernelCell, x: np.ndarray, sets: int) -> Markdown:
    """In how many of 16 drawn orders a kernel ends right, and what the emulator says of the others."""
    outcomes = [ends_right(cell, x, sets, seed) for seed in range(1, 17)]
    wrong = next((message for right, message in outcomes if not right), "nothing found")
    rows = [(f"{sets} sets of lines" if sets > 1 else "one set", sum(right for right, _ in outcomes), wrong)]
    return table(["", "right orders of 16", "in another order"], rows)


def hops_and_bytes(ranks: int) -> dict[str, tuple[int, float]]:
    """Four ways over one switch: hops in a row, and how many times the array goes through a port."""
    share = 2 * (ranks - 1) / ranks
    return {
        "ring, LL": (2 * (ranks - 1), 2 * share),
        "one-shot, LL": (1, 2.0 * (ranks - 1)),
        "two-shot, fences": (2 * 2, share),
        "two-shot, LL": (2, 2 * share),
    }


def crossing(ranks: int) -> float:
    """Bytes from which two-shot with fences is faster than one-shot by LL."""
    (few, much), (many, less) = (hops_and_bytes(ranks)[way] for way in ("one-shot, LL", "two-shot, fences"))
    return (many - few) * alpha * port / (much - less)


def by_protocol(ranks: int) -> Figure:
    """Curves of the four ways."""
    sizes = np.geomspace(KB, 16 * MB, 60).tolist()
    ways = hops_and_bytes(ranks).items()
    drawn = [CostLine(name, sizes, [hops * alpha + times * s / port for s in sizes]) for name, (hops, times) in ways]
    marks = [(crossing(ranks), f"two-shot with fences from {crossing(ranks) / KB:.0f} kB")]
    title = f"All-reduce over {ranks} GPUs by four ways"
    return cost_lines(drawn, title=title, subtitle="hops and bytes only; a model", marks=marks)


def raced(name: str, dtype: str, way: str) -> dict[tuple[int, ...], float]:
    """Measured all-reduces by hand, in alternation with NCCL's: µs by (GPUs, size...); empty if nothing was."""
    file, wanted = results_of("collectives"), (name, dtype, f"by hand: {way}")
    found = file.records if file else ()
    return {r.shape: r.value for r in found if (r.name, r.dtype, r.variant) == wanted}


def ours(way: str) -> dict[tuple[int, ...], float]:
    """The same of an all-reduce in float32."""
    return raced("all_reduce", "float32", way)


def table_beside_nccl() -> Markdown:
    """All-reduces by hand on as many GPUs as were measured, and as shares of NCCL's time."""
    if not ours("nccl"):
        return NOT_YET
    gpus = max(shape[0] for shape in ours("nccl"))
    ways, rows = [way for way in BY_HAND if ours(way)], []
    for shape in sorted(shape for shape in ours("nccl") if shape[0] == gpus):
        times = [f"{ours(way)[shape]:.2f}" if shape in ours(way) else "" for way in ("nccl", *ways)]
        rows.append((binary(shape[1]), *times, *(_beside(way, shape) for way in ways)))
    return table([f"{gpus} GPUs, µs", "NCCL", *ways, *(f"{way} / NCCL" for way in ways)], rows)


def figure_beside_nccl() -> Figure | Markdown:
    """The same as curves."""
    if not ours("nccl"):
        return NOT_YET
    gpus, drawn = max(shape[0] for shape in ours("nccl")), []
    for way in ("nccl", *BY_HAND):
        of = sorted((shape[1], us * 1e-6) for shape, us in ours(way).items() if shape[0] == gpus)
        if of:
            drawn.append(CostLine(way, [size for size, _ in of], [seconds for _, seconds in of], dots=True))
    subtitle = "float32, in CUDA graphs, in alternation; NVLink multicast off"
    return cost_lines(drawn, title=f"All-reduce over {gpus} GPUs", subtitle=subtitle)


def table_by_ranks() -> Markdown:
    """Shares of NCCL's time, by size and number of GPUs."""
    counts = sorted({shape[0] for shape in ours("nccl")})
    rows = [
        (binary(size), way, *(_beside(way, (gpus, size)) for gpus in counts))
        for size in (KIB, 64 * KIB, 256 * KIB, MIB)
        for way in BY_HAND
        if ours(way)
    ]
    return table(["size", "way", *(f"of NCCL's time on {gpus}" for gpus in counts)], rows) if rows else NOT_YET


def table_of_fused() -> Markdown:
    """An all-reduce with residual and norm, by four ways, as measured."""
    ways = ("nccl and torch", "nccl", "one-shot", "fused")
    of = {way: raced("all_reduce, residual, RMS norm", "bfloat16", way) for way in ways}
    rows = [
        (
            f"{shape[0]} GPUs, {shape[1]} row{'s' * (shape[1] != 1)} of {shape[2]}",
            *(f"{of[way][shape]:.2f}" for way in ways),
        )
        for shape in sorted(of["fused"])
    ]
    heads = ["µs", "NCCL, then torch's operators", "NCCL, then one kernel", "one-shot, then one kernel", "fused"]
    return table(heads, rows) if rows else NOT_YET


def _beside(way: str, shape: tuple[int, ...]) -> str:
    """A way's time as a share of NCCL's; empty where one of them was not measured."""
    both = shape in ours(way) and shape in ours("nccl")
    return f"{ours(way)[shape] / ours('nccl')[shape]:.2f}" if both else ""
