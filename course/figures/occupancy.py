"""What stops an SM from holding more warps of a kernel, and what other numbers of registers or bytes would give."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warplab.figures import style
from warplab.plan.limits import limits_of
from warplab.plan.occupancy import UNLIMITED, Limiter, Occupancy, occupancy

_NAMES = {
    Limiter.REGISTERS: "registers",
    Limiter.SHARED_MEMORY: "shared memory",
    Limiter.WARPS: "places for warps",
    Limiter.BLOCKS: "places for blocks",
}
_STEP = 256  # bytes between the points of the right panel


def occupancy_limits(architecture: str, threads: int, registers: int, shared: int = 0, *, title: str = "") -> Figure:
    """Warps that each resource of an SM allows a kernel, and how the answer moves with registers and shared memory.

    `threads` per block, `registers` per thread, `shared` bytes per block. Raises as `warplab.plan.occupancy.occupancy`.
    """
    here = occupancy(architecture, threads, registers, shared)
    made, (bars, by_registers, by_shared) = style.figure(11, 3.6, widths=(1.25, 1, 1))
    warps_a_block = -(-threads // 32)
    _bars(bars, here, warps_a_block)
    each = range(16, 256)
    _curve(
        by_registers, [float(n) for n in each],
        [occupancy(architecture, threads, n, shared).warps for n in each], (registers, here.warps), here.max_warps,
    )  # fmt: skip
    by_registers.set_xlabel("registers per thread")
    most = limits_of(architecture).block_shared
    sizes = range(0, most + 1, _STEP)
    _curve(
        by_shared, [size / 1024 for size in sizes],
        [occupancy(architecture, threads, registers, size).warps for size in sizes], (shared / 1024, here.warps),
        here.max_warps,
    )  # fmt: skip
    by_shared.set_xlabel("shared KiB per block")
    limiters = " and ".join(_NAMES[limiter] for limiter in here.limiters)
    style.headline(
        made,
        title or f"Blocks of {threads} threads, {registers} registers per thread, {shared:,} bytes shared",
        f"{here.blocks} blocks, {here.warps} of {here.max_warps} warps per SM ({here.fraction:.0%});"
        f" what runs out: {limiters}",
    )
    return made


def _bars(axes: Axes, here: Occupancy, warps_a_block: int) -> None:
    for row, (limiter, blocks) in enumerate(here.allowed.items()):
        warps = blocks * warps_a_block
        runs_out = limiter in here.limiters
        unlimited = blocks >= UNLIMITED
        axes.barh(
            row, min(warps, 1.5 * here.max_warps), height=0.62, color=style.RED if runs_out else style.BLUE,
            alpha=1 if runs_out else 0.45, gid=str(limiter),
        )  # fmt: skip
        text = "no limit" if unlimited else f"{blocks} blocks, {warps} warps"
        axes.annotate(
            text, (0, row), xytext=(5, 0), textcoords="offset points", va="center", size=style.SMALL,
            weight="bold" if runs_out else "normal",
            bbox={"facecolor": style.PANEL, "edgecolor": "none", "pad": 1.5, "alpha": 0.85},
        )  # fmt: skip
    axes.axvline(here.max_warps, color=style.MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(here.allowed)), [_NAMES[limiter] for limiter in here.allowed])
    axes.set_ylim(len(here.allowed) - 0.5, -0.5)
    axes.set_xlim(0, 1.55 * here.max_warps)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("warps that it allows")


def _curve(axes: Axes, x: list[float], warps: list[int], point: tuple[float, int], most: int) -> None:
    axes.step(x, warps, where="post", color=style.BLUE, linewidth=1.6)
    axes.plot(*point, marker="o", markersize=8, color=style.RED, gid="here")
    axes.set_ylim(0, most * 1.08)
    axes.set_yticks(range(0, most + 1, most // 4))
    axes.set_ylabel("warps per SM")
    axes.grid(True, axis="y")
