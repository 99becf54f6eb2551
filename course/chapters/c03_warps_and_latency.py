"""Chapter 03: what its cells tabulate and draw of warps that diverge, wait and fill an SM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.c02_inside_an_sm import rates_by_warps
from course.experiment import emulate
from course.figures.timeline import is_divergent
from course.kernel_cell import KernelCell
from course.lesson import table
from course.measured import Measured
from warplab.emulator.profiling.timeline import Timeline
from warplab.figures import style
from warplab.hardware.chips import H200
from warplab.plan.execution import Counters
from warplab.plan.occupancy import occupancy

_REASONS = {
    "for global memory": ("Long Scoreboard", "a load from global memory is still in flight"),
    "for shared memory": ("Short Scoreboard", "the same for shared memory"),
    "at a barrier": ("Barrier", "other warps of the block have not arrived"),
    "for a result": ("Short Scoreboard", "a shuffle or a tensor core has not answered"),
}
_LAUNCHES = ("host, queued", "round trip", "between kernels", "in a graph")
_BLOCKS = (32, 64, 128, 192, 256, 384, 512, 768, 1024)


def lanes_at_work(total: Counters) -> float:
    """The share of the lanes that take part in the warp instructions."""
    return total.thread_instructions / (32 * total.warp_instructions)


def lanes_of_both_paths(chart: Timeline) -> list[int]:
    """Of each instruction of warp 0 from its first divergent branch to where its paths meet: the lanes that work."""
    issues = chart.of_warp(0)
    start = next(n for n, issue in enumerate(issues) if is_divergent(issue))
    return [issue.lanes for issue in issues[start + 1 :] if 0 < issue.lanes < 32]


def sentence_of_paths(lanes: Sequence[int]) -> Markdown:
    """How the share of the lanes follows from the instructions of the two paths, of 8 and of 24 lanes."""
    short, long = lanes.count(8), lanes.count(24)
    return Markdown(
        f"{short} instructions with 8 lanes and {long} with 24: ({short} × 8 + {long} × 24) / ({len(lanes)} × 32)."
    )


def table_of_paths(curve: Mapping[int, float]) -> Markdown:
    """Cycles of a switch by the paths that a warp's lanes take."""
    rows = [(str(paths), cycles, cycles / curve[1], paths) for paths, cycles in curve.items()]
    return table(
        ["paths taken in a warp", "cycles, measured", "times one path", "predicted: the number of paths"], rows
    )


def totals_by_bit(cell: KernelCell, bits: Sequence[int]) -> dict[int, Counters]:
    """The counters of a kernel that branches on one bit of the thread's number."""
    runs = emulate(cell, [{"out": np.zeros(4096, np.int64), "bit": bit} for bit in bits])
    return {bit: run.total for bit, run in zip(bits, runs, strict=True)}


def table_by_bit(totals: Mapping[int, Counters]) -> Markdown:
    """How often warps diverge, what they issue, and how many lanes work, by the bit that decides."""
    rows = [
        (str(bit), total.divergent_branches, total.warp_instructions, f"{lanes_at_work(total):.0%}")
        for bit, total in totals.items()
    ]
    return table(["the bit that decides", "divergent branches", "warp instructions", "lanes that work"], rows)


def drawn_turns() -> dict[str, np.ndarray]:
    """4,096 numbers from 1 to 32 as they were drawn, and sorted."""
    turns = np.random.default_rng(0).integers(1, 33, 4096)
    return {"random": turns, "sorted": np.sort(turns)}


def totals_by_order(cell: KernelCell) -> dict[str, Counters]:
    """The counters of a loop of `drawn_turns` in both orders."""
    cases = drawn_turns()
    runs = emulate(cell, [{"turns": turns, "out": np.zeros(4096, np.int64)} for turns in cases.values()])
    return {name: run.total for name, run in zip(cases, runs, strict=True)}


def table_by_order(totals: Mapping[str, Counters]) -> Markdown:
    """What a loop of random lengths issues, and how many lanes work, by the order of the lengths."""
    rows = [(name, total.warp_instructions, f"{lanes_at_work(total):.0%}") for name, total in totals.items()]
    return table(["order", "warp instructions", "lanes that work"], rows)


def idle_share(chart: Timeline) -> float:
    """The share of its cycles in which warp 0 issues nothing."""
    issues = chart.of_warp(0)
    end = max(issue.time for issue in issues) + 1
    return (end - len(issues)) / end


def table_of_stalls(chart: Timeline) -> Markdown:
    """What warp 0 waits for, in modelled cycles, with the name that Nsight Compute has for it."""
    spent: dict[str, float] = {}
    for stall in chart.stalls:
        if stall.warp == 0:
            spent[str(stall.reason)] = spent.get(str(stall.reason), 0) + stall.end - stall.start
    issued, end = len(chart.of_warp(0)), max(issue.time for issue in chart.of_warp(0)) + 1
    rows: list[tuple] = [(f"waits {reason}", *_REASONS[reason], cycles) for reason, cycles in spent.items()]
    rows.append(("issues an instruction", "Selected", "it was ready, and chosen", issued))
    other = end - issued - sum(spent.values())
    rows.append(("other cycles", "Wait, Not Selected", "a pause of fixed length, or another warp was chosen", other))
    return table(["warp 0", "its name in Nsight Compute", "what it means", "cycles, modelled"], rows)


def enough_warps(measured: Measured, chains: int) -> int:
    """The fewest warps that reach 95% of the best rate."""
    curve = rates_by_warps(measured, chains)
    return next(warps for warps, rate in curve.items() if rate > 0.95 * max(curve.values()))


def figure_of_littles_law(measured: Measured) -> Figure:
    """The rate of one SM by its warps, and by warps times chains, where all curves are one."""
    figure, (left, right) = style.figure(11, 4, widths=(1, 1))
    for number, chains in enumerate((1, 2, 4, 8)):
        curve = rates_by_warps(measured, chains)
        fair = [warps for warps in curve if warps % 4 == 0]
        label = f"{chains} chain{'s' * (chains > 1)} per warp"
        look: dict[str, Any] = {"marker": "os^D"[number], "color": style.PALETTE[number], "label": label}
        left.plot(fair, [curve[warps] for warps in fair], **look)
        right.plot([w * chains for w in fair], [curve[w] for w in fair], linestyle="none", **look)
    flight = np.arange(1, 65)
    law = np.minimum(128, 32 * flight / measured.value("fma.f32", "latency"))
    right.plot(flight, law, color=style.MUTED, linestyle="--", label="Little's law")
    right.set_xlim(0, 66)
    for axes in (left, right):
        axes.set_ylim(0, 140)
        axes.set_ylabel("multiply-adds per cycle of one SM")
        axes.grid(True)
        axes.legend(frameon=False, fontsize=style.SMALL, loc="lower right")
    left.set_xlabel("warps on the SM (multiples of four)")
    right.set_xlabel("warps x chains: instructions that could be in flight")
    style.headline(figure, "More warps, or more chains per warp: the product counts", "measured on an H200")
    return figure


def table_of_warps_needed(measured: Measured) -> Markdown:
    """Latency times rate of several instructions, in warps that have one of them in flight each."""
    rows = []
    for name in ("fma.f32", "fma.f64", "mad.s32", "ex2.f32", "shfl.b32"):
        latency, rate = measured.value(name, "latency"), measured.value(name, "rate")
        rows.append((name, latency, rate, latency * rate / 32))
    latency = measured.value("hbm", "latency")
    rate = measured.value("hbm", "bandwidth") / H200.sms / measured.value("sm clock", "rate") / 4
    rows.append(("a 4-byte load of each lane, from the main memory", latency, rate, latency * rate / 32))
    heads = ["instruction", "latency, cycles", "results per cycle of one SM", "warps, with one in flight in each"]
    return table(heads, rows)


def table_of_occupancy(registers: int = 40) -> Markdown:
    """What an SM holds of blocks of nine sizes, and what runs out first."""
    rows = []
    for threads in _BLOCKS:
        held = occupancy("sm_90a", threads, registers)
        limiters = ", ".join(map(str, held.limiters))
        rows.append((threads, held.blocks, held.warps, f"{held.fraction:.0%}", limiters))
    return table(
        [f"threads per block, {registers} registers each", "blocks", "warps", "occupancy", "what runs out"], rows
    )


def table_of_launches(measured: Measured) -> Markdown:
    """What it costs to launch an empty kernel in four ways."""
    rows = []
    for name in _LAUNCHES:
        record = measured.record("launch", "time", variant=name)
        rows.append((name, f"{record.value * 1e6:.2f}", record.conditions))
    return table(["", "us", "what was measured"], rows)
