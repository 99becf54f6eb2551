"""A submission's text with what each line costs beside it, as a picture and as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warplab.figures import style
from warplab.figures.annotated import AnnotatedLine, Cell, annotate, columns_of
from warplab.plan.execution import Counters

_ROW = 0.2  # inches
_GLYPH = 0.0712  # inches, one character at the size of the code


def source(text: str, lines: Mapping[int, Counters], *, title: str = "") -> Figure:
    """The annotated source as a picture: the more of a number is waste, the redder its cell; see `annotate`."""
    rows = annotate(text, lines)
    columns = columns_of(rows)
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
    columns = columns_of(rows)
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
