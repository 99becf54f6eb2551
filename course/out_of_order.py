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
    if _is_of_the_cell(trace) and (sentence := advice(error)):
        print(sentence)
        return [sentence]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    return []


def _is_of_the_cell(trace: TracebackType | None) -> bool:
    """Whether the innermost call is the cell itself: within a reader's own function the name is their mistake."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_name == "<module>"


class _Names(ast.NodeVisitor):
    """Collects the names of code's own scope, without those of functions, classes and comprehensions in it."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        """A name that is assigned."""
        if isinstance(node.ctx, ast.Store):
            self.found.add(node.id)

    def visit_alias(self, node: ast.alias) -> None:
        """A name that is imported."""
        self.found.add(node.asname or node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        """The name of a function or a class, and nothing within."""
        self.found.add(node.name)

    visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.AST) -> None:
        """Nothing within: a scope of its own."""

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda


@cache
def _made() -> frozenset[str]:
    """The names that cells of the chapters assign, import or define; of a cell magic, the one in its first line."""
    names = _Names()
    for source in SOURCES.glob("*.md"):
        for text in _CELL.findall(source.read_text(encoding="utf-8")):
            if text.startswith("%%"):
                names.found.add(text.splitlines()[0].split()[-1])
                continue
            names.visit(ast.parse(re.sub(r"^[%!:].*$", "", text, flags=re.MULTILINE)))
    return frozenset(names.found)
