"""A slider over the timeline of a block, for notebooks."""

from __future__ import annotations

import html
from typing import Any

from matplotlib.figure import Figure

from course.figures.live_form import with_still
from course.figures.snapshot import describe, snapshot
from course.figures.timeline import COLOURS
from warplab.emulator.profiling import Profile
from warplab.emulator.profiling.timeline import Issue, Stall, Timeline
from warplab.figures import style

_LANES = 32


class TimelineSlider:
    """What `timeline_slider` gives: the figure of one moment, and a slider that is live while a kernel runs."""

    def __init__(self, chart: Timeline, source: str, time: int) -> None:
        import ipywidgets

        self.chart = chart
        self.source = source
        self.figure: Figure = snapshot(chart, time, source)
        self.slider = ipywidgets.IntSlider(
            value=time, min=0, max=max(chart.end - 1, 0), description="time", continuous_update=True,
            layout=ipywidgets.Layout(width="100%"),
        )  # fmt: skip
        self.state = ipywidgets.HTML(state_html(chart, time, source))
        self.slider.observe(self._move, names="value")
        self.widget = ipywidgets.VBox([self.slider, self.state])

    def _move(self, change: dict[str, Any]) -> None:
        self.state.value = state_html(self.chart, change["new"], self.source)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return with_still(self.widget, self.figure)


def timeline_slider(profile: Profile, *, time: int | None = None, chart: Timeline | None = None) -> TimelineSlider:
    """A slider through a profile's timeline: at each moment the line of each warp, its lanes, and who waits.

    The figure of `time` (default: the middle) stays in the notebook when no kernel is there to move the slider.
    `chart` replaces the profile's timeline, by a modelled schedule for example. Raises ValueError for a moment outside.
    """
    shown = profile.timeline() if chart is None else chart
    start = shown.end // 2 if time is None else time
    if not 0 <= start < max(shown.end, 1):
        raise ValueError(f"there is no moment {start}: the timeline goes from 0 to {shown.end - 1}")
    return TimelineSlider(shown, profile.plan.source, start)


def state_html(chart: Timeline, time: int, source: str) -> str:
    """The moment as an HTML table, quick enough to follow a slider; everything from the source is escaped."""
    rows = source.splitlines()
    now, waits, ended = chart.at(time), chart.waits_at(time), chart.ended_at(time)
    body = "".join(
        _row_html(warp, now[warp], waits.get(warp), describe(now[warp], waits.get(warp), rows, warp in ended), time)
        for warp in range(chart.warps)
    )
    return (
        f'<table style="border-collapse:collapse;background:{style.PANEL};color:{style.INK};'
        f'font:12px/1.5 ui-monospace,Menlo,Consolas,monospace">{body}</table>'
    )


def _row_html(warp: int, issue: Issue | None, stall: Stall | None, words: str, time: int) -> str:
    cells = []
    for lane in range(_LANES):
        face = style.EMPTY
        if issue is not None and issue.active >> lane & 1:
            face = COLOURS[issue.kind] if issue.mask >> lane & 1 else style.FAINT
        cells.append(f'<span style="display:inline-block;width:6px;height:11px;margin-right:1px;background:{face}">')
    lanes = "</span>".join(cells) + "</span>"
    weight = "bold" if issue is not None and issue.time == time else "normal"
    waits = f"color:{style.MUTED};font-style:italic;" if stall is not None else ""
    text = html.escape(words)
    return (
        f'<tr><td style="padding:0 8px;font-weight:{weight}">warp {warp}</td><td style="padding:0 8px">{lanes}</td>'
        f'<td style="padding:0 8px;white-space:pre;text-align:left;{waits}">{text}</td></tr>'
    )
