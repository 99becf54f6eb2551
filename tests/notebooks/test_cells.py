"""Cells are for readers: short where they hold no kernel and no exercise, and core ones need no optional one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jupytext
import pytest

pytestmark = pytest.mark.pages

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "source"
# Chapters whose plumbing lies in course/chapters.
HELD = [path for path in sorted(FOLDER.glob("*.md")) if int(re.findall(r"\d\d", path.stem)[0]) >= 6]
LINES, COLUMNS = 8, 100
_OWN = re.compile(r"%%kernel|%%submit|%%rung|__global__|# change (?:this|these)")  # a kernel, or what a reader changes


def cells(source: Path) -> Iterator[tuple[str, bool]]:
    """Each code cell, and whether it stands in an optional section."""
    optional = {2: False, 3: False}
    for cell in jupytext.read(source).cells:
        if cell.cell_type == "code":
            yield cell.source, any(optional.values())
            continue
        for marks, title in re.findall(r"^(##+) (.*)$", cell.source, re.MULTILINE):
            optional[len(marks)] = title.endswith("· optional")
            if len(marks) == 2:
                optional[3] = False


def names(cell: str) -> tuple[set[str], set[str]]:
    """What a cell makes, and what it takes from others."""
    if cell.startswith("%%"):
        return {cell.split()[1]}, set()
    made, taken = set(), set()
    for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", cell, flags=re.MULTILINE))):
        if isinstance(node, ast.Name):
            (taken if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, ast.alias):
            made.add(node.asname or node.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
    return made, taken - made


@pytest.mark.parametrize("source", HELD, ids=lambda source: source.stem)
def test_a_cell_without_a_kernel_is_short(source: Path) -> None:
    for cell, _ in cells(source):
        rows = [row for row in cell.splitlines() if row.strip()]
        if not _OWN.search(cell):
            assert len(rows) <= LINES and max(map(len, rows)) <= COLUMNS, cell


@pytest.mark.parametrize("source", HELD, ids=lambda source: source.stem)
def test_what_is_optional_can_be_left_out(source: Path) -> None:
    core: set[str] = set()
    optional: set[str] = set()
    for cell, is_optional in cells(source):
        made, taken = names(cell)
        assert is_optional or not (missing := taken & optional - core), (missing, cell)
        (optional if is_optional else core).update(made)
