"""Appendix 09: what promotion and narrow tiles cost a complete kernel, by records and by a model."""

from __future__ import annotations

import math

from IPython.display import Markdown

from course.chapters.c09_fp8 import PER_CYCLE
from course.chapters.spoken import dimensions
from course.lesson import table
from course.measured import results_of
from warplab.hardware.chips import H200


def promotion_measured(name: str) -> Markdown:
    """Rates of two tiles with promotion and without, at m = 4,096, or a sentence."""
    file = results_of(name)
    if file is None:
        return Markdown("*Not measured yet.*")
    times = {(r.shape, r.variant): r.value for r in file.records if r.metric == "time"}
    rows = []
    for shape in sorted({shape for shape, variant in times if variant == "choice 128x192-none"}):
        work, cells = 2e-9 * math.prod(shape), []
        for width, tile in ((192, "128x192-none"), (256, "128x256-by2-none")):
            promoted = [ms for (other, way), ms in times.items() if other == shape and _promotes(way, width)]
            plain = times[shape, f"choice {tile}"]
            cells += [f"{work / min(promoted):,.0f}" if promoted else "", f"{work / plain:,.0f}"]
            cells += [f"{min(promoted) / plain - 1:.0%}" if promoted else ""]
        rows.append((dimensions(shape), *cells))
    heads = [
        f"128 x {w}, {what}" for w in (192, 256) for what in ("promoted", "not promoted (wrong)", "promotion costs")
    ]
    words = f"Measured on {file.header.where}, TFLOP/s.\n\n"
    return Markdown(words + table(["m x n x k", *heads], rows).data)


def _promotes(variant: str, width: int) -> bool:
    return f"x{width}-" in variant and "none" not in variant


def step_cycles(width: int) -> tuple[float, float]:
    """Cycles of products, and of shared memory at 128 bytes per cycle, for 128 of k of a tile of 128 x `width`."""
    moved = 8 * 32 * (64 + width) + 128 * (128 + width)
    return 128 * width * 128 / PER_CYCLE, moved / 128


def narrow_tiles(name: str = "fp8", shape: tuple[int, int, int] = (4096, 24576, 1536)) -> Markdown:
    """The model's cycles beside what a column of a step took, by width, for a product with many waves of tiles."""
    file, (m, n, k) = results_of(name), shape
    found = file.records if file else []
    times = {r.variant: r.value for r in found if r.metric == "time" and r.shape == shape}
    rows = []
    for width in (64, 96, 128, 144, 160, 192, 256):
        steps = math.ceil(m // 128 * math.ceil(n / width) / H200.sms) * k // 128
        cells = []
        for promoted in (True, False):
            own = [t for way, t in times.items() if way.startswith(f"choice 128x{width}-")
                   and way.endswith("none") != promoted]  # fmt: skip
            cells.append(f"{1e6 * min(own) / steps / width:.2f}" if own else "")
        products, shared = step_cycles(width)
        modelled = (f"{products:,.0f}", f"{shared:,.0f}", f"{max(products, shared) / width:.2f}")
        rows.append((f"128 x {width}", *modelled, *cells))
    heads = ["cycles of products", "of shared memory", "the longer, per column", "measured, ns per column"]
    return table(["tile, 128 of k, H200", *heads, "not promoted (wrong), ns"], rows)
