"""A cell that runs before the cells above it: one sentence in place of a NameError."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCES = Path(__file__).resolve().parent.parent / "notebooks" / "source"
_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def install(shell: Any) -> None:
    """Have `shell` answer a name that a chapter's cells make, and that is not there yet, by a sentence."""
    shell.set_custom_exc((NameError,), _answer)


def advice(error: NameError) -> str:
    """What to do about a missing name, or nothing where no chapter's cell makes it."""
    if error.name not in _made():
        return ""
    return (
        f"`{error.name}` comes from a cell above: choose Run > Run All Above Selected Cell, then run this cell again."
    )


def _answer(
    shell: Any, kind: type[BaseException], error: NameError, trace: TracebackType | None, tb_offset: int | None = None
) -> list[str]:
    if sentence := advice(error):
        print(sentence)
        return [sentence]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    return []


@cache
def _made() -> frozenset[str]:
    """The names that code cells of the chapters assign, import or define at their top level."""
    found: set[str] = set()
    for source in SOURCES.glob("*.md"):
        for text in _CELL.findall(source.read_text(encoding="utf-8")):
            try:
                tree = ast.parse(re.sub(r"^[%!:].*$", "", text, flags=re.MULTILINE))
            except SyntaxError:  # a cell magic's own language
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
                elif isinstance(node, ast.alias):
                    found.add(node.asname or node.name)
                elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found.add(node.name)
    return frozenset(found)
