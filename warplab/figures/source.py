"""A submission's text with what each line costs beside it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warplab.figures import style
from warplab.plan.execution import Counters

_MARGIN = 3  # lines of code kept around the counted ones
_SEARCH = 60  # lines above the first counted one in which its kernel must begin
_ROW = 0.2  # inches
_GLYPH = 0.0712  # inches, one character at the size of the code


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


def _columns(rows: list[AnnotatedLine]) -> list[str]:
    order = ("global sectors", "a request", "shared wavefronts", "bank conflicts", "local sectors", "divergent")
    return [title for title in order if any(title in row.cells for row in rows)]


def source(text: str, lines: Mapping[int, Counters], *, title: str = "") -> Figure:
    """The annotated source as a picture: the more of a number is waste, the redder its cell; see `annotate`."""
    rows = annotate(text, lines)
    columns = _columns(rows)
    widths = [0.085 * max(len(column), 8) + 0.25 for column in columns]
    code = 0.55 + _GLYPH * max([40, *(len(row.text) for row in rows)]) + 0.3
    width, height = code + sum(widths), _ROW * (len(rows) + 1.6)
    made, (axes,) = style.figure(width + 0.2, height + 0.7)
    style.canvas(axes)
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    edges = [code + sum(widths[:n]) for n in range(len(columns) + 1)]
    for column, right in zip(columns, edges[1:], strict=True):
        axes.text(right - 0.12, _ROW, column, ha="right", va="center", size=style.SMALL, color=style.MUTED)
    mono: dict[str, Any] = {"family": "DejaVu Sans Mono", "size": style.SMALL, "va": "center"}
    for place, row in enumerate(rows):
        middle = _ROW * (place + 2.1)
        if row.cells:
            axes.add_patch(Rectangle((0, middle - _ROW / 2), code, _ROW, facecolor=style.EMPTY, edgecolor="none"))
        axes.text(0.42, middle, f"{row.number}", ha="right", color=style.MUTED, **mono)
        axes.text(0.55, middle, row.text, color=style.INK, **mono)
        for column, left, right in zip(columns, edges, edges[1:], strict=False):
            if (cell := row.cells.get(column)) is None:
                continue
            face = style.HEAT(cell.waste)
            axes.add_patch(
                Rectangle(
                    (left + 0.03, middle - _ROW / 2 + 0.012),
                    right - left - 0.06,
                    _ROW - 0.024,
                    facecolor=face,
                    edgecolor="none",
                    gid=f"{row.number} {column}",
                )
            )
            axes.text(right - 0.12, middle, cell.text, ha="right", color=style.ink_on(face), **mono)
    style.headline(made, title or "What each line costs", "the redder a number, the more of it is waste")
    return made


def source_html(text: str, lines: Mapping[int, Counters]) -> str:
    """The annotated source as an HTML table with its styles inline; everything from the source is escaped.

    The numbers stand left of the code, where long lines cannot push them out of sight.
    """
    rows = annotate(text, lines)
    columns = _columns(rows)
    number = "text-align:right;padding:1px 10px;"
    head = "".join(f'<th style="{number}font-weight:normal;color:{style.MUTED}">{column}</th>' for column in columns)
    body = "\n".join(_html_row(row, columns, number) for row in rows)
    return (
        f'<table style="border-collapse:collapse;background:{style.PANEL};color:{style.INK};'
        'font:12px/1.45 ui-monospace,Menlo,Consolas,monospace">\n'
        f"<thead><tr>{head}<th></th><th></th></tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )


def _html_row(row: AnnotatedLine, columns: list[str], number: str) -> str:
    cells = "".join(_html_cell(row.cells.get(column), number) for column in columns)
    background = f"background:{style.EMPTY};" if row.cells else ""
    return (
        f'<tr>{cells}<td style="{number}color:{style.MUTED}">{row.number}</td>'
        f'<td style="{background}white-space:pre;text-align:left">{html.escape(row.text)}</td></tr>'
    )


def _html_cell(cell: Cell | None, number: str) -> str:
    if cell is None:
        return "<td></td>"
    face = style.HEAT(cell.waste)
    return f'<td style="{number}background:{to_hex(face)};color:{style.ink_on(face)}">{cell.text}</td>'


def source_text(text: str, lines: Mapping[int, Counters]) -> str:
    """The annotated source as plain text, for a terminal; a number of which half or more is waste ends in "!"."""
    rows = annotate(text, lines)
    columns = _columns(rows)
    code = max([20, *(len(row.text) for row in rows)])

    def line(label: str, text: str, values: Sequence[str]) -> str:
        cells = (f"{value:>{len(column) + 3}}" for column, value in zip(columns, values, strict=True))
        return f"{label:>5} {text:<{code}}{''.join(cells)}".rstrip()

    table = [line("line", "", [f"{column} " for column in columns])]
    table += [line(f"{row.number}", row.text, [_marked(row.cells.get(column)) for column in columns]) for row in rows]
    return "\n".join(table)


def _marked(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell.text}{'!' if cell.waste >= 0.5 else ' '}"
