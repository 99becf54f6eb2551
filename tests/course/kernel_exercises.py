"""The kernels of a chapter's %%kernel cells, and the exercises on them: the cell that judges, the printed solution."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from course.kernel_cell import KernelCell, kernel_cell
from course.trial import attempt
from tests.course.exercises import SOURCES


class KernelExercises:
    """Those of notebooks/source/`name`.md, whose cells call `chapter`; `kernels` has the texts by their names."""

    def __init__(self, name: str, chapter: ModuleType) -> None:
        self.chapter = chapter
        self.text = (SOURCES / f"{name}.md").read_text(encoding="utf-8")
        self.cells = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", self.text, re.S)
        parts = (one.split("\n", 1) for one in self.cells if one.startswith("%%kernel"))
        self.kernels = {head.split()[1]: kernel for head, kernel in parts}

    def cell(self, name: str, folder: Path) -> KernelCell:
        """A kernel as its cell makes it, with its file in `folder`."""
        return kernel_cell(name, self.kernels[name], folder)

    def solved(self, name: str) -> str:
        """The given cell with its kernel replaced by the one of the folded solution."""
        found = re.search(r"<details>.*?```python\n(.*?)```", self.text[self.text.index(f"%%kernel {name}\n") :], re.S)
        assert found
        given, solution = self.kernels[name], found.group(1).rstrip()
        return re.sub(r"^@cuda\.jit\n.*?(?=\n\n\n)", lambda _: solution, given, flags=re.S | re.M)

    def reached(self, name: str, text: str, folder: Path) -> bool:
        """Whether the judging cell accepts a text in place of the given cell."""
        (goal,) = [one for one in self.cells if f"attempt({name}," in one]
        said: list[bool] = []
        names: dict[str, Any] = {"np": np, "attempt": attempt, "chapter": self.chapter}
        names |= {"goal": lambda yes, _: said.append(yes), name: kernel_cell(name, text, folder)}
        exec(goal, names)
        return bool(said[0])
