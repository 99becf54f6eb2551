"""Writes docs/api.md, the public names of warplab, warplab.ptx and systems.kernels: `python -m scripts.api`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import warplab
from systems import kernels
from warplab import ptx
from warplab.files import write_whole

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
SECTIONS = {
    "Running kernels": ("emulate", "run", "run_file"),
    "Results": ("Result", "Finding", "FindingKind", "Counters"),
    "Errors": ("WarplabError", "EmulateError", "OwnCodeError"),
}
_INTRODUCTION = """\
# Public names

Made by `python -m scripts.api` from docstrings. Examples are in [your own kernels](your-own-kernels.md),
[profiling](profiling.md) and [ptx](ptx.md). `emulate` needs no extra; the others need `cuda`.
Names that this page does not list may change in any version.
"""


def page() -> str:
    """The whole page, as Markdown."""
    blocks = [_INTRODUCTION.rstrip()]
    for title, names in SECTIONS.items():
        blocks.append(f"## {title}")
        for name in names:
            blocks += _described(warplab, name)
    numbers = [name for name in ptx.__all__ if isinstance(getattr(ptx, name), int)]
    blocks += ["## warplab.ptx", inspect.getdoc(ptx) or ""]
    blocks.append(f"Swizzles of matrices in shared memory: {', '.join(f'`{name}`' for name in numbers)}.")
    blocks.append("\n".join(_instruction(name) for name in ptx.__all__ if name not in numbers))
    blocks += ["## systems.kernels", inspect.getdoc(kernels) or ""]
    for name in kernels.__all__:
        blocks += _described(kernels, name)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _described(package: ModuleType, name: str) -> Iterator[str]:
    """A function with its signature, or a class with its fields, properties and methods."""
    thing = getattr(package, name)
    definition, lines = _source(thing)
    yield f"### {package.__name__}.{name}"
    if isinstance(definition, ast.FunctionDef):
        yield _code(_signature(definition, lines))
        yield inspect.getdoc(thing) or ""
    if isinstance(definition, ast.ClassDef):
        yield _code(_fields(definition, lines))
        yield inspect.getdoc(thing) or ""
        methods = (node for node in definition.body if isinstance(node, ast.FunctionDef))
        yield "\n".join(_method(node, lines) for node in methods if not node.name.startswith("_"))


def _instruction(name: str) -> str:
    """A function of warplab.ptx; the docstring of one that is called in a kernel begins with its signature."""
    thing = getattr(ptx, name)
    text = inspect.getdoc(thing) or ""
    if text.startswith(f"{name}("):
        shown, _, text = text.partition(": ")
    else:
        shown = _signature(*_source(inspect.unwrap(thing)))
    return _item(shown, text)


def _source(thing: Any) -> tuple[ast.stmt, list[str]]:
    text = textwrap.dedent(inspect.getsource(thing))
    return ast.parse(text).body[0], text.splitlines()


def _signature(node: ast.stmt, lines: list[str]) -> str:
    """What stands between `def` and the colon, as it stands in the source."""
    assert isinstance(node, ast.FunctionDef)
    shown = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.body[0].lineno - 1]))
    return shown.strip().removeprefix("def ").removesuffix(":")


def _fields(definition: ast.ClassDef, lines: list[str]) -> str:
    """The fields of a class as they stand in the source, with what is said beside them; empty if it has none."""
    nodes = [node for node in definition.body if isinstance(node, ast.AnnAssign | ast.Assign)]
    fields = [node for node in nodes if not ast.unparse(node).startswith("_")]
    text = "\n".join(lines[fields[0].lineno - 1 : fields[-1].end_lineno]) if fields else ""
    return textwrap.dedent(text).replace(" = field(repr=False)", "")


def _method(function: ast.FunctionDef, lines: list[str]) -> str:
    shown = _signature(function, lines).replace("(self, ", "(").replace("(self)", "()")
    if any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in function.decorator_list):
        shown = shown.replace("()", "", 1)
    return _item(shown, ast.get_docstring(function) or "")


def _item(shown: str, text: str) -> str:
    one_line = " ".join(shown.split()).replace("( ", "(").replace(", )", ")")
    return f"* `{one_line}`: {' '.join(text.split())}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```" if text else ""


if __name__ == "__main__":
    write_whole(PAGE, page())
