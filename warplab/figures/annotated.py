"""A submission's lines with what each one costs beside it, as data and as plain text; needs no Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warplab.plan.execution import Counters

_MARGIN = 3  # lines of code kept around the counted ones
_SEARCH = 60  # lines above the first counted one in which its kernel must begin


@dataclass(frozen=True)
class Cell:
    """One number beside a line, as text, and the share of it (0 to 1) that a better access pattern would save."""

    text: str
    waste: float = 0.0


@dataclass(frozen=True)
class AnnotatedLine:
    """A line of the source: its number, its text, and its cells by column title (absent where there is nothing)."""

    number: int
    text: str
    cells: Mapping[str, Cell]


def annotate(text: str, lines: Mapping[int, Counters]) -> list[AnnotatedLine]:
    """The counted part of a source, line by line, each with its costs.

    `lines` maps a line number, from 1, to its counters, as `Execution.lines` does. Waste is what the same requests
    would not need with their lanes side by side (sectors beyond the ideal ones, where those were counted), all bank
    conflicts, and all local memory, which stands in for registers that did not suffice.
    """
    rows = text.splitlines()
    counted = [number for number in lines if 1 <= number <= len(rows) and _cells(lines[number])]
    first, last = (_start(rows, min(counted)), max(counted) + _MARGIN) if counted else (1, len(rows))
    return [
        AnnotatedLine(number, row, _cells(lines[number]) if number in counted else {})
        for number, row in enumerate(rows, start=1)
        if first <= number <= last
    ]


def _start(rows: list[str], counted: int) -> int:
    """The line that opens the kernel around a counted line, with its decorator; else a few lines above."""
    for number in range(counted, max(0, counted - _SEARCH), -1):
        if rows[number - 1].lstrip().startswith("def ") or "__global__" in rows[number - 1]:
            above = rows[number - 2].lstrip() if number > 1 else ""
            return number - 1 if above.startswith(("@", "template")) else number
    return max(1, counted - _MARGIN)


def _cells(counters: Counters) -> dict[str, Cell]:
    """The columns that apply to a line, in the order in which they are shown."""
    requests = counters.global_load_requests + counters.global_store_requests
    sectors = counters.global_load_sectors + counters.global_store_sectors
    wavefronts = counters.shared_load_wavefronts + counters.shared_store_wavefronts
    conflicts = counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts
    local = counters.local_load_sectors + counters.local_store_sectors
    cells: dict[str, Cell] = {}
    if requests:
        ideal = counters.global_load_ideal_sectors + counters.global_store_ideal_sectors
        cells["global sectors"] = Cell(f"{sectors:,}")
        cells["a request"] = Cell(
            f"{sectors / requests:.1f}", max(0.0, 1 - ideal / sectors) if ideal and sectors else 0.0
        )
    if wavefronts:
        cells["shared wavefronts"] = Cell(f"{wavefronts:,}")
        cells["bank conflicts"] = Cell(f"{conflicts:,}", conflicts / wavefronts)
    if local:
        cells["local sectors"] = Cell(f"{local:,}", 1.0)
    if counters.divergent_branches:
        cells["divergent"] = Cell(f"{counters.divergent_branches:,}")
    return cells


def columns_of(rows: list[AnnotatedLine]) -> list[str]:
    order = ("global sectors", "a request", "shared wavefronts", "bank conflicts", "local sectors", "divergent")
    return [title for title in order if any(title in row.cells for row in rows)]


def source_text(text: str, lines: Mapping[int, Counters]) -> str:
    """The annotated source as plain text, for a terminal; a number of which half or more is waste ends in "!"."""
    rows = annotate(text, lines)
    columns = columns_of(rows)
    code = max([20, *(len(row.text) for row in rows)])

    def line(label: str, text: str, values: Sequence[str]) -> str:
        cells = (f"{value:>{len(column) + 3}}" for column, value in zip(columns, values, strict=True))
        return f"{label:>5} {text:<{code}}{''.join(cells)}".rstrip()

    table = [line("line", "", [f"{column} " for column in columns])]
    table += [line(f"{row.number}", row.text, [_marked(row.cells.get(column)) for column in columns]) for row in rows]
    return "\n".join(table)


def _marked(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell.text}{'!' if cell.waste >= 0.5 else ' '}"
