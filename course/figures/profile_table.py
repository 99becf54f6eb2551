"""The counters of a profile for which there is an ideal: how much was needed, and how much was waste."""

from __future__ import annotations

from matplotlib.figure import Figure

from warplab.emulator.profiling.table import ProfileRow, ProfileTable
from warplab.figures import style


def profile_table(table: ProfileTable, *, launch: int | None = None, title: str = "") -> Figure:
    """A bar for each counter, as long as its value is of its ideal: blue what would have done, red the rest.

    Counters of conflicts are left out: they are the red part of their wavefronts. `launch` picks one launch (default:
    all). Raises ValueError if no counter has an ideal.
    """
    rows = [row for row in table.rows if _is_drawn(row) and launch in (None, row.launch)]
    if not rows:
        raise ValueError("no counter of this profile has an ideal to compare with: it moved no data")
    made, (axes,) = style.figure(9, 1.0 + 0.36 * len(rows))
    longest = max(row.value for row in rows)
    for place, row in enumerate(rows):
        ideal = min(row.ideal or 0, row.value)
        axes.barh(place, ideal, 0.62, color=style.BLUE, gid=f"ideal {row.counter}")
        axes.barh(place, row.value - ideal, 0.62, left=ideal, color=style.RED, gid=f"waste {row.counter}")
        text = f"{row.value:,}" + (f", {100 * row.waste:.0f}% waste" if row.waste else "")
        axes.text(row.value + 0.01 * longest, place, text, va="center", size=style.SMALL, color=style.INK)
    several = len({row.launch for row in rows}) > 1
    names = [f"{row.launch} " * several + row.counter.replace("_", " ") for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, longest * 1.22)
    axes.tick_params(axis="y", length=0)
    style.headline(
        made, title or "What moved, and what had to", "blue: what the same lanes side by side need; red: waste"
    )
    return made


def _is_drawn(row: ProfileRow) -> bool:
    return row.ideal is not None and not row.counter.endswith("_conflicts")
