"""A kernel's bytes on their way, on the curve of what an SM's share of the memory delivers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from course.figures.explore import Explorer
from warplab.figures import style

LANES = 32
_KIB = 1024


def in_flight(warps: int, loads: int, bytes_per_lane: int) -> int:
    """Bytes that an SM has on their way, if each lane of each warp has so many loads of so many bytes outstanding."""
    return warps * loads * LANES * bytes_per_lane


def bandwidth_of(
    points: Sequence[tuple[int, float]], little: float, warps: int, loads: int, bytes_per_lane: int
) -> Figure:
    """Where a kernel lies on measured `points` (bytes per SM, bytes per second); `little`: bytes by Little's law.

    The mean of the points of one size is taken, and what lies between two sizes interpolated; beyond the last one it
    stays. Raises ValueError without points.
    """
    if not points:
        raise ValueError("the curve needs points")
    sizes = sorted({size for size, _ in points})
    rates = [float(np.mean([rate for size, rate in points if size == one])) for one in sizes]
    here = in_flight(warps, loads, bytes_per_lane)
    reached = float(np.interp(here, sizes, rates))
    most = max(rates)
    made, (axes,) = style.figure(9, 3.8)
    axes.plot([size / _KIB for size, _ in points], [rate / 1e12 for _, rate in points], color=style.BLUE, marker="o",
              linestyle="none", markersize=4, label="measured: the points of the figure above")  # fmt: skip
    axes.axvline(little / _KIB, color=style.MUTED, linestyle="--", label="Little's law, an idle memory's latency")
    axes.plot([here / _KIB], [reached / 1e12], marker="D", markersize=10, color=style.RED, linestyle="none",
              label="the kernel of the sliders", gid="here")  # fmt: skip
    axes.set_xscale("log", base=2)
    ticks = [2.0**power for power in range(-3, 10)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlim(min(0.1, here / _KIB / 1.5), max(600, here / _KIB * 1.5))
    axes.set_ylim(0, most / 1e12 * 1.1)
    axes.set_xlabel("KiB on their way in each SM")
    axes.set_ylabel("TB/s from the main memory")
    axes.grid(True)
    axes.legend(frameon=False, fontsize=style.SMALL, loc="lower right")
    many = f"{warps} warp{'s' * (warps > 1)}, {loads} load{'s' * (loads > 1)}"
    style.headline(
        made,
        f"{many} of {bytes_per_lane} bytes per lane: {here / _KIB:g} KiB",
        f"about {reached / 1e12:.2f} TB/s, {reached / most:.0%} of the best; between measurements of 16-byte loads",
    )
    return made


def explore_in_flight(points: Sequence[tuple[int, float]], little: float) -> Explorer:
    """Controls for the warps of an SM, their loads on the way and the bytes a lane loads. Raises as `bandwidth_of`."""

    def draw(warps: int, loads: int, bytes_per_lane: int) -> Figure:
        return bandwidth_of(points, little, warps, loads, bytes_per_lane)

    return Explorer(draw, warps=(16, range(1, 65)), loads=(1, range(1, 17)), bytes_per_lane=(4, [4, 8, 16]))
