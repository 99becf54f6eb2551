"""When each warp of a block issued what, with how many lanes, and where it waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from warplab.emulator.profiling.timeline import Clock, Flight, Issue, IssueKind, Reason, Timeline
from warplab.figures import style

COLOURS = {
    IssueKind.ARITHMETIC: "#B4BCC6",
    IssueKind.GLOBAL: style.BLUE,
    IssueKind.SHARED: style.SKY,
    IssueKind.BRANCH: style.PURPLE,
    IssueKind.SYNC: style.RED,
    IssueKind.TENSOR: style.ORANGE,
    IssueKind.ASYNC: style.GREEN,
}
HATCHES = {
    Reason.BARRIER: "////",
    Reason.MBARRIER: "\\\\\\\\",
    Reason.LANES: "xxxx",
    Reason.GLOBAL: "....",
    Reason.SHARED: "oo",
    Reason.RESULT: "--",
}
AXIS = {
    Clock.ISSUE_ORDER: "warp instructions issued by the emulator",
    Clock.MODEL: "cycles of the modelled scheduler",
}
NOTE = {
    Clock.ISSUE_ORDER: "the order in which the emulator ran them: modelled, not measured",
    Clock.MODEL: "a simple scheduler with fixed latencies: modelled, not measured",
}
ROW = 0.8  # of the distance between two warps: the height of 32 lanes
ROW_ABOVE_FLIGHTS = 0.5  # the same where something is on its way, which is drawn below
TRACKS = 4  # of flights below a warp: later ones that overlap share the last
FLIGHTS = {IssueKind.ASYNC: "copies on their way", IssueKind.TENSOR: "products on their way"}
_LANES = 32


def timeline(chart: Timeline, *, start: int = 0, end: int | None = None, title: str = "") -> Figure:
    """Warps as rows, time from left to right; a bar is as high as lanes ran, hatches are waits.

    Thin bars below are asynchronous copies and products, from their issue to the wait for them.
    `start` and `end` choose a part of the time. Raises ValueError if nothing was issued in it.
    """
    last = chart.end if end is None else end
    issues = [issue for issue in chart.issues if start <= issue.time < last]
    stalls = [stall for stall in chart.stalls if stall.start < last and stall.end > start]
    if not issues and not stalls:
        raise ValueError(f"no warp does anything between {start} and {last}: the timeline ends at {chart.end}")
    flights = [flight for flight in chart.flights if flight.start < last and flight.end > start]
    row = ROW_ABOVE_FLIGHTS if flights else ROW
    made, (axes,) = style.figure(11, 1.6 + (0.5 if flights else 0.34) * max(chart.warps, 2))
    bars = _bars(issues, row)
    kinds = [kind for kind in IssueKind if kind in bars]
    for kind in kinds:
        axes.add_collection(_polygons(bars[kind], COLOURS[kind], gid=str(kind)))
    reasons = [reason for reason in Reason if any(stall.reason is reason for stall in stalls)]
    for reason in reasons:
        boxes = [
            _box(s.warp, max(s.start, start), min(s.end, last), s.lanes, row) for s in stalls if s.reason is reason
        ]
        axes.add_collection(
            PolyCollection(
                boxes, facecolors=style.EMPTY, edgecolors=style.MUTED, hatch=HATCHES[reason], linewidths=0.4,
                zorder=0.5, gid=str(reason),
            )
        )  # fmt: skip
    _draw_flights(axes, flights, start, last)
    axes.set_xlim(start, last)
    axes.set_ylim(chart.warps - 0.4, -0.6)
    axes.set_yticks(range(chart.warps), [f"warp {warp}" for warp in range(chart.warps)])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(AXIS[chart.clock])
    handles: list[Artist] = [Patch(facecolor=COLOURS[kind], label=str(kind)) for kind in kinds]
    handles += [
        Patch(facecolor=style.EMPTY, edgecolor=style.MUTED, hatch=HATCHES[reason], label=f"waits {reason}")
        for reason in reasons
    ]
    handles += [
        Line2D([], [], color=COLOURS[kind], linewidth=2.5, label=label)
        for kind, label in FLIGHTS.items()
        if any(flight.kind is kind for flight in flights)
    ]
    made.legend(
        handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=style.SMALL, labelcolor=style.INK
    )
    missing = f"; {chart.truncated:,} later instructions are not in it" if chart.truncated else ""
    style.headline(
        made,
        title or f"The {chart.warps} warps of block {chart.block}",
        f"{NOTE[chart.clock]}; height: lanes that ran{missing}",
    )
    return made


def _draw_flights(axes: Axes, flights: Iterable[Flight], start: int, end: int) -> None:
    """Each flight as a line below its warp, on the first track that is free."""
    free: dict[int, list[int]] = defaultdict(lambda: [0] * TRACKS)  # of each warp, when each track is free again
    for flight in flights:
        tracks = free[flight.warp]
        track = next((n for n, until in enumerate(tracks) if until <= flight.start), TRACKS - 1)
        tracks[track] = flight.end
        level = flight.warp - 0.4 + ROW_ABOVE_FLIGHTS + 0.07 + 0.08 * track
        axes.plot(
            [max(flight.start, start), min(flight.end, end)], [level] * 2, color=COLOURS[flight.kind], linewidth=2.2,
            solid_capstyle="butt", gid=f"flight {flight.warp} {flight.start} {flight.end}",
        )  # fmt: skip


def _bars(issues: Iterable[Issue], row: float) -> dict[IssueKind, list[np.ndarray]]:
    """A box for each run of instructions of one warp that are alike and follow each other at once."""
    open_runs: dict[int, tuple[int, int, IssueKind, int]] = {}  # warp -> first time, end, kind, mask
    boxes: dict[IssueKind, list[np.ndarray]] = defaultdict(list)

    def close(warp: int) -> None:
        first, end, kind, mask = open_runs.pop(warp)
        boxes[kind].append(_box(warp, first, end, mask, row))

    for issue in issues:
        run = open_runs.get(issue.warp)
        if run is not None and run[1:] == (issue.time, issue.kind, issue.mask):
            open_runs[issue.warp] = (run[0], issue.time + 1, issue.kind, issue.mask)
            continue
        if run is not None:
            close(issue.warp)
        open_runs[issue.warp] = (issue.time, issue.time + 1, issue.kind, issue.mask)
    for warp in list(open_runs):
        close(warp)
    return boxes


def _box(warp: int, start: float, end: float, mask: int, row: float) -> np.ndarray:
    """The corners of a bar; it stands on the warp's line and is as high as its share of the lanes."""
    bottom = warp - 0.4 + row
    top = bottom - row * max(mask.bit_count(), 1) / _LANES
    return np.array([(start, bottom), (end, bottom), (end, top), (start, top)])


def _polygons(boxes: list[np.ndarray], colour: str, gid: str) -> PolyCollection:
    return PolyCollection(boxes, facecolors=colour, edgecolors=colour, linewidths=0.15, gid=gid)


def masks(chart: Timeline, warp: int = 0, *, first: int = 0, last: int | None = None, title: str = "") -> Figure:
    """Which lanes of a warp run each of its instructions: lanes as rows, instructions from left to right.

    Divergent branches are marked above. `first` and `last` choose a part of the warp's instructions, counted from 0.
    Raises ValueError if there are none in it.
    """
    issues = chart.of_warp(warp)[first:last]
    if not issues:
        raise ValueError(f"warp {warp} issued {len(chart.of_warp(warp))} instructions, none from {first} on")
    made, (axes,) = style.figure(11, 4.4)
    axes.imshow(
        _pixels(issues), aspect="auto", interpolation="nearest", extent=(first, first + len(issues), _LANES, 0),
        gid="masks",
    )  # fmt: skip
    axes.set_ylabel("lane")
    axes.set_yticks([lane + 0.5 for lane in (0, 8, 16, 24, 31)], ["0", "8", "16", "24", "31"])
    axes.set_ylim(_LANES + 3.6, -1.4)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"instructions of warp {warp}; above the axis: the source lines that they belong to")
    divergent = [n for n, issue in enumerate(issues) if is_divergent(issue)]
    for n in divergent:
        axes.plot(
            [first + n + 0.5], [-0.8], marker="v", color=style.INK, markersize=5, clip_on=False, gid=f"divergent {n}"
        )
    _label_lines(axes, issues, first)
    kinds = [kind for kind in IssueKind if any(issue.kind is kind for issue in issues)]
    handles = [Patch(facecolor=COLOURS[kind], label=str(kind)) for kind in kinds]
    handles += [
        Patch(facecolor=style.FAINT, label="switched off by a predicate"),
        Patch(facecolor=style.EMPTY, edgecolor=style.FAINT, label="elsewhere, or ended"),
    ]
    made.legend(
        handles=handles, loc="outside lower left", ncols=4, frameon=False, fontsize=style.SMALL, labelcolor=style.INK
    )
    lanes = sum(issue.lanes for issue in issues)
    style.headline(
        made,
        title or f"The lanes of warp {warp} of block {chart.block}",
        f"{len(issues)} instructions, {100 * lanes / (_LANES * len(issues)):.0f}% of their lanes run; "
        f"{len(divergent)} divergent branches (triangles)",
    )
    return made


def is_divergent(issue: Issue) -> bool:
    """Is it a branch at which the lanes part?"""
    return issue.kind is IssueKind.BRANCH and issue.mask not in (0, issue.active)


def _pixels(issues: tuple[Issue, ...]) -> np.ndarray:
    """RGB [32, instructions, 3]."""
    from matplotlib.colors import to_rgb

    pixels = np.empty((_LANES, len(issues), 3))
    pixels[:] = to_rgb(style.EMPTY)
    lanes = np.arange(_LANES)
    for place, issue in enumerate(issues):
        pixels[(issue.active >> lanes & 1).astype(bool), place] = to_rgb(style.FAINT)
        pixels[(issue.mask >> lanes & 1).astype(bool), place] = to_rgb(COLOURS[issue.kind])
    return pixels


def _label_lines(axes, issues: tuple[Issue, ...], first: int) -> None:
    """Source lines under the picture, where a run of instructions of one line is wide enough for its number."""
    starts = [0, *(n for n in range(1, len(issues)) if issues[n].line != issues[n - 1].line), len(issues)]
    for start, end in zip(starts, starts[1:], strict=False):
        axes.plot([first + start] * 2, [_LANES, _LANES + 1.2], color=style.MUTED, linewidth=0.6, clip_on=False)
        if (end - start) / len(issues) > 0.022:
            axes.text(
                first + (start + end) / 2, _LANES + 2.3, f"{issues[start].line}", ha="center", va="center",
                size=style.SMALL, color=style.MUTED, gid=f"line {issues[start].line}",
            )  # fmt: skip
