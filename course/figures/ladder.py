"""The rungs of a ladder of kernels side by side: each step's effect on speed, or on traffic, at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warplab.figures import style

_LOG_FROM = 100.0  # largest over smallest value from which a linear axis hides the small bars


@dataclass(frozen=True)
class Metric:
    """One panel: a value for each rung, or None, for which `missing` stands. `limit` is drawn as a line and named."""

    name: str
    unit: str
    values: Sequence[float | None]
    limit: float | None = None
    limit_name: str = ""
    higher_is_better: bool = True
    missing: str = "not measured"


def ladder(rungs: Sequence[str], metrics: Sequence[Metric], *, title: str = "", subtitle: str = "") -> Figure:
    """A panel of bars for each metric, rungs from top to bottom; the best bar of a panel, other than 0, is dark.

    Raises ValueError if a metric has another number of values than there are rungs, or a value is negative.
    """
    for metric in metrics:
        if len(metric.values) != len(rungs):
            raise ValueError(f"{metric.name!r} has {len(metric.values)} values for {len(rungs)} rungs")
        if any(value is not None and value < 0 for value in metric.values):
            raise ValueError(f"{metric.name!r} has a negative value")
    height = 1.35 + 0.42 * len(rungs)
    made, panels = style.figure(2.2 + 4.1 * len(metrics), height, widths=(1,) * len(metrics))
    for number, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        _panel(axes, metric, style.PALETTE[(number * 2) % len(style.PALETTE)])
        axes.set_yticks(range(len(rungs)), labels=list(rungs) if number == 0 else [])
        axes.set_ylim(len(rungs) - 0.4, -0.95)
    style.headline(made, title or "The ladder", subtitle)
    return made


def _panel(axes: Axes, metric: Metric, colour: str) -> None:
    measured = [value for value in metric.values if value is not None]
    positive = [value for value in (*measured, metric.limit) if value]
    logarithmic = bool(positive) and max(positive) / min(positive) > _LOG_FROM
    start = min(positive) / 3 if logarithmic else 0.0
    # A resource that a rung does not use at all is no record in using it sparingly.
    best = max(measured, default=None) if metric.higher_is_better else min(filter(None, measured), default=None)
    for place, value in enumerate(metric.values):
        if value is None:
            axes.text(
                0.02,
                place,
                metric.missing,
                transform=axes.get_yaxis_transform(),
                va="center",
                color=style.MUTED,
                gid="missing",
            )
            continue
        length = max(value - start, 0.0)
        axes.barh(place, length, left=start, height=0.62, color=colour, alpha=1.0 if value == best else 0.5)
        axes.annotate(
            style.quantity(value, metric.unit),
            (max(value, start), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=style.INK,
            fontweight="bold" if value == best else "normal",
            bbox={"facecolor": style.PANEL, "edgecolor": "none", "pad": 1.5},
        )
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(start, max(positive) * 12)
    else:
        axes.set_xlim(0, max(positive, default=1.0) * 1.45)
    if metric.limit is not None:
        axes.axvline(metric.limit, color=style.MUTED, linewidth=1.2, linestyle=(0, (4, 3)), gid="limit")
        axes.annotate(
            f"{metric.limit_name} {style.quantity(metric.limit, metric.unit)}".strip(),
            (metric.limit, 1),
            xycoords=("data", "axes fraction"),
            xytext=(5, -4),
            textcoords="offset points",
            va="top",
            size=style.SMALL,
            color=style.MUTED,
        )
    axes.set_title(f"{metric.name}{', log scale' if logarithmic else ''}", loc="left", size=style.TEXT, color=style.INK)
    axes.set_xticks([], minor=True)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
