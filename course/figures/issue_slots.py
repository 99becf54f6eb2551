"""One scheduler, cycle by cycle: which warp issues, which ones wait, and which slots stay empty. A model."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course.figures.explore import Explorer
from warplab.figures import style

_CYCLES = 48  # that are drawn


def issues(warps: int, chains: int, latency: int, cycles: int) -> list[int | None]:
    """The warp that issues in each cycle, None for an empty slot.

    Each warp has `chains` chains of instructions, each of which needs the result of the one before it in its chain,
    `latency` cycles after that was issued. Of the chains that are ready the one that has waited longest goes first.
    Raises ValueError for a number below 1.
    """
    if min(warps, chains, latency) < 1:
        raise ValueError("a scheduler has at least one warp with one chain, and a latency of at least one cycle")
    ready = [0] * (warps * chains)
    issued: list[int | None] = []
    for cycle in range(cycles):
        oldest = min(range(len(ready)), key=lambda chain: ready[chain])
        if ready[oldest] > cycle:
            issued.append(None)
            continue
        ready[oldest] = cycle + latency
        issued.append(oldest % warps)
    return issued


def slots_used(warps: int, chains: int, latency: int) -> float:
    """The share of issue slots used in the long run. Raises as `issues`."""
    shown = issues(warps, chains, latency, 3 * latency)[2 * latency :]
    return sum(warp is not None for warp in shown) / latency


def issue_slots(warps: int, chains: int, latency: int) -> Figure:
    """Warps as rows, cycles from left to right; below them the scheduler's slots. Raises as `issues`."""
    issued = issues(warps, chains, latency, _CYCLES)
    made, (axes,) = style.figure(11, 1.7 + 0.24 * (warps + 2))
    for cycle, warp in enumerate(issued):
        if warp is not None:
            for start, width, colour, name in (
                (cycle, min(latency, _CYCLES - cycle), style.EMPTY, "waits"),
                (cycle, 1, style.PALETTE[warp % 5], f"warp {warp}"),
            ):
                axes.add_artist(
                    Rectangle((start, warp + 0.1), width, 0.8, facecolor=colour, edgecolor=style.PANEL, gid=name,
                              linewidth=0.6, zorder=1 if name == "waits" else 2)
                )  # fmt: skip
        colour = style.FAINT if warp is None else style.PALETTE[warp % 5]
        axes.add_artist(
            Rectangle((cycle, warps + 0.7), 1, 0.9, facecolor=colour, edgecolor=style.PANEL, linewidth=0.6,
                      hatch="////" if warp is None else None, gid="empty" if warp is None else "used")
        )  # fmt: skip
    axes.set_xlim(0, _CYCLES)
    axes.set_ylim(warps + 1.8, -0.1)
    axes.set_yticks([*(w + 0.5 for w in range(warps)), warps + 1.15], [*(f"warp {w}" for w in range(warps)), "slots"])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("cycles (modelled)")
    handles = [
        Patch(facecolor=style.EMPTY, label="waits for a result"),
        Patch(facecolor=style.FAINT, hatch="////", edgecolor=style.PANEL, label="nobody is ready: an empty slot"),
    ]
    made.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=style.SMALL)
    word = "chain" if chains == 1 else "chains"
    style.headline(
        made,
        f"{warps} warp{'s' * (warps > 1)} with {chains} {word} each, a latency of {latency} cycles",
        f"{slots_used(warps, chains, latency):.0%} of the issue slots are used in the long run",
    )
    return made


def explore_issue_slots() -> Explorer:
    """Sliders over the warps of a scheduler, their independent chains and the latency."""
    return Explorer(issue_slots, warps=(2, range(1, 17)), chains=(1, range(1, 9)), latency=(4, range(1, 33)))
