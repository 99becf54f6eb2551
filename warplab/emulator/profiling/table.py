"""The counters of launches as a table: Nsight Compute's name, value, unit, and what of it is waste."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, fields

from warplab.plan.execution import METRICS, Counters, LaunchProfile

_IDEAL = "_ideal_sectors"
_CONFLICTS = "_bank_conflicts"


@dataclass(frozen=True)
class ProfileRow:
    """One counter of one launch. `ideal` is what would have done, None where there is no such figure."""

    launch: int
    kernel: str
    counter: str  # a field of Counters
    value: int
    unit: str
    metric: str = ""  # Nsight Compute's name; empty where it has none that was compared
    ideal: int | None = None

    @property
    def waste(self) -> float:
        """The share of the value, from 0 to 1, that a better access pattern would save."""
        if self.ideal is None or self.value == 0:
            return 0.0
        return max(0.0, 1 - self.ideal / self.value)


@dataclass(frozen=True)
class ProfileTable:
    """The counters of launches, without those that are zero, and a line below them."""

    rows: tuple[ProfileRow, ...]
    note: str = ""

    def value(self, counter: str, launch: int | None = None) -> int:
        """The value of a counter, of one launch or of all together; 0 if it never counted."""
        chosen = (row for row in self.rows if row.counter == counter and launch in (None, row.launch))
        return sum(row.value for row in chosen)

    def _cells(self) -> list[tuple[str, ...]]:
        several = len({row.launch for row in self.rows}) > 1
        cells = []
        for row in self.rows:
            name = row.counter.replace("_", " ")
            ideal = "" if row.ideal is None else f"{row.ideal:,}"
            waste = "" if row.ideal is None else f"{100 * row.waste:.0f}%"
            where = (f"{row.launch} {row.kernel}",) if several else ()
            cells.append((*where, name, f"{row.value:,}", row.unit, ideal, waste, row.metric))
        return cells

    @property
    def titles(self) -> tuple[str, ...]:
        """The columns' titles."""
        several = len({row.launch for row in self.rows}) > 1
        return (*(("launch",) if several else ()), "counter", "value", "unit", "ideal", "waste", "Nsight Compute")

    def __str__(self) -> str:
        cells = [self.titles, *self._cells()]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.titles))]
        right = {"value", "ideal", "waste"}
        lines = []
        for row in cells:
            columns = zip(row, widths, self.titles, strict=True)
            lines.append("  ".join(f"{c:>{w}}" if t in right else f"{c:<{w}}" for c, w, t in columns).rstrip())
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="text-align:left;padding:1px 10px">{title}</th>' for title in self.titles)
        body = []
        for row, cells in zip(self.rows, self._cells(), strict=True):
            # Strong enough to be seen on a light and on a dark page; the number says the same.
            shade = f"background:rgba(213,94,0,{0.6 * row.waste:.2f})" if row.waste else ""
            columns = "".join(
                f'<td style="padding:1px 10px;text-align:{"right" if title in ("value", "ideal", "waste") else "left"};'
                f'{shade if title == "waste" else ""}">{html.escape(cell)}</td>'
                for title, cell in zip(self.titles, cells, strict=True)
            )
            body.append(f"<tr>{columns}</tr>")
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{note}"


def table_of(launches: Sequence[LaunchProfile], note: str = "") -> ProfileTable:
    """The table of some launches of an execution, with a line below it."""
    return ProfileTable(tuple(row for number, launch in enumerate(launches) for row in _rows(number, launch)), note)


def _rows(number: int, launch: LaunchProfile) -> list[ProfileRow]:
    total = launch.total
    rows = []
    for field in fields(Counters):
        value = getattr(total, field.name)
        if not value or field.name.endswith(_IDEAL):
            continue
        unit = field.name.rsplit("_", 1)[-1].replace("adds", "multiply-adds")
        metric = METRICS.get(field.name, "")
        rows.append(ProfileRow(number, launch.kernel, field.name, value, unit, metric, _ideal(total, field.name)))
    return rows


def _ideal(total: Counters, name: str) -> int | None:
    """What would have done: sectors of lanes side by side, wavefronts without conflicts, no local memory at all."""
    if name.startswith("local_") and name.endswith("_sectors"):
        return 0
    if name.endswith(_CONFLICTS):
        return 0
    if name.endswith("_sectors"):
        ideal = getattr(total, name.removesuffix("_sectors") + _IDEAL, 0)
        return min(ideal, getattr(total, name)) if ideal else None
    if name.endswith("_wavefronts"):
        conflicts = getattr(total, name.removesuffix("_wavefronts") + _CONFLICTS, None)
        return None if conflicts is None else getattr(total, name) - conflicts
    return None
