"""One moment of a block: what each warp has just issued, with which lanes, and which warps wait."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.timeline import COLOURS, HATCHES
from warplab.emulator.profiling.timeline import Clock, Issue, Stall, Timeline
from warplab.figures import style

_LANES = 32
_CODE = 60  # characters of a source line that are shown


def snapshot(chart: Timeline, time: int, source: str = "", *, title: str = "") -> Figure:
    """Warps as rows: their 32 lanes, coloured where they ran the last instruction; hatched if the warp waits.

    Beside it the line of `source`, the submission's text. `time` as in the timeline.
    """
    rows = source.splitlines()
    now, waits, ended = chart.at(time), chart.waits_at(time), chart.ended_at(time)
    made, (axes,) = style.figure(11, 1.0 + 0.3 * chart.warps)
    style.canvas(axes)
    axes.set_xlim(-6, _LANES + 66)
    axes.set_ylim(chart.warps, -0.1)
    for warp in range(chart.warps):
        issue, stall = now[warp], waits.get(warp)
        newest = issue is not None and issue.time == time
        axes.text(
            -0.6, warp + 0.5, f"warp {warp}", ha="right", va="center", size=style.TEXT, color=style.INK,
            weight="bold" if newest else "normal", gid=f"warp {warp}",
        )  # fmt: skip
        if warp not in ended:
            _lanes(axes, warp, issue, stall)
        axes.text(
            _LANES + 0.8, warp + 0.5, describe(issue, stall, rows, warp in ended), va="center",
            family="DejaVu Sans Mono", size=style.SMALL, color=style.INK, gid=f"state {warp}",
        )  # fmt: skip
    unit = "instruction" if chart.clock is Clock.ISSUE_ORDER else "modelled cycle"
    style.headline(
        made,
        title or f"Block {chart.block} at {unit} {time:,} of {chart.end:,}",
        "what each warp issued last (bold: just now); coloured lanes ran it, hatched warps wait",
    )
    return made


def describe(issue: Issue | None, stall: Stall | None, rows: Sequence[str], ended: bool) -> str:
    """Where a warp stands, in words."""
    if ended:
        return "has ended"
    if issue is None:
        return "has not started"
    text = rows[issue.line - 1].strip() if 1 <= issue.line <= len(rows) else issue.text
    text = text if len(text) <= _CODE else f"{text[: _CODE - 3]}..."
    place = f"{issue.line:>4}  {text}"
    return f"{place}  (waits {stall.reason})" if stall is not None else place


def _lanes(axes, warp: int, issue: Issue | None, stall: Stall | None) -> None:
    for lane in range(_LANES):
        ran = issue is not None and issue.mask >> lane & 1
        there = issue is not None and issue.active >> lane & 1
        face = COLOURS[issue.kind] if issue is not None and ran else style.FAINT if there else style.EMPTY
        axes.add_artist(
            Rectangle(
                (lane + 0.06, warp + 0.12), 0.88, 0.76, facecolor=face, edgecolor="none",
                gid=f"{warp} {lane} {'ran' if ran else 'idle'}",
            )
        )  # fmt: skip
    if stall is not None:
        axes.add_artist(
            Rectangle(
                (0.06, warp + 0.12), _LANES - 0.12, 0.76, facecolor="none", edgecolor=style.INK, linewidth=0,
                hatch=HATCHES[stall.reason], gid=f"waits {warp}",
            )
        )  # fmt: skip
