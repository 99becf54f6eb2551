"""A quantity against the size of what is accessed, with the levels of memory behind it: steps show where each ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warplab.figures import style

_MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class Level:
    """A memory that holds what is accessed up to `size` bytes; None for the last one."""

    name: str
    size: float | None


def working_set(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    unit: str,
    levels: Sequence[Level],
    *,
    label: str,
    across: str = "size of what is read again and again",
    logarithmic: bool = False,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Curves of (bytes, value) over a logarithmic axis of bytes; `levels` from the smallest to the largest are bands.

    `label` names the values, `across` the bytes.

    Raises ValueError if a curve has no points, or a size or a value that is not positive.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points or any(not curve for curve in curves.values()):
        raise ValueError("every curve needs points")
    if any(size <= 0 or value <= 0 for size, value in points):
        raise ValueError("sizes and values must be positive")
    made, (axes,) = style.figure(11, 4.4)
    low, high = min(size for size, _ in points) / 1.3, max(size for size, _ in points) * 1.3
    for number, (name, curve) in enumerate(curves.items()):
        ordered = sorted(curve)
        colour = style.PALETTE[number % len(style.PALETTE)]
        axes.plot(
            [size for size, _ in ordered], [value for _, value in ordered], color=colour, linewidth=1.8,
            marker=_MARKERS[number % len(_MARKERS)], markersize=4.5, label=name, gid=name,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    if logarithmic:
        axes.set_yscale("log")
        bottom, top = min(v for _, v in points) / 1.5, max(v for _, v in points) * 2
        axes.set_ylim(bottom, top)
        steps = [m * 10.0**power for power in range(-12, 18) for m in (1, 2, 5)]
        axes.set_yticks([s for s in steps if bottom <= s <= top], [f"{s:g}" for s in steps if bottom <= s <= top])
        axes.set_yticks([], minor=True)
    else:
        axes.set_ylim(0, max(v for _, v in points) * 1.22)
    _bands(axes, levels, low, high)
    ticks = [2.0**power for power in range(60) if low <= 2.0**power <= high]
    every = -(-len(ticks) // 8)
    axes.set_xticks(ticks[::every], [byte_size(tick) for tick in ticks[::every]])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(across)
    axes.set_ylabel(f"{label}, {unit}")
    axes.grid(True, axis="y")
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=style.SMALL, labelcolor=style.INK, loc="center right")
    style.headline(made, title or f"{label.capitalize()} by working set", subtitle)
    return made


def _bands(axes: Axes, levels: Sequence[Level], low: float, high: float) -> None:
    start = low
    for number, level in enumerate(levels):
        end = min(level.size or high, high)
        if end <= start:
            continue
        axes.axvspan(start, end, color=style.EMPTY if number % 2 else style.PANEL, zorder=-2, gid=f"level {level.name}")
        axes.text(
            (start * end) ** 0.5, 0.985, level.name, transform=axes.get_xaxis_transform(), ha="center", va="top",
            size=style.SMALL, color=style.MUTED, weight="bold",
        )  # fmt: skip
        start = end


def byte_size(size: float) -> str:
    """A number of bytes as people say it: 65536 is "64 KiB"."""
    for factor, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= factor:
            return f"{size / factor:.3g} {name}"
    return f"{size:.3g} B"
