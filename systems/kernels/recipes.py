"""A call as data: its kernels, launches in order, and their arguments, for a GPU or the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from warplab.errors import WarplabError
from warplab.plan.model import NOTHING, Launch

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Code:
    """A kernel: the files that its source consists of, its name there, and what it is compiled with."""

    files: tuple[str, ...]
    entry: str
    defined: tuple[tuple[str, str], ...] = ()  # macros, and their text

    @property
    def source(self) -> str:
        """CUDA C++. Raises WarplabError where a file is missing."""
        lines = [f"#define {name} {value}" for name, value in self.defined]
        return "\n".join([*lines, *map(_text, self.files)])


@dataclass(frozen=True)
class Recipe:
    """Launches in order. Their arguments name the arrays of the call, and scratch, given in bytes.

    `Launch.kernel` is a key of `codes`. `chosen` names the choice.
    """

    codes: Mapping[str, Code]
    launches: tuple[Launch, ...]
    scratch: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    chosen: str = ""


@cache
def _text(file: str) -> str:
    path = _HERE / file
    if not path.exists():
        raise WarplabError(f"{file} is not part of this copy: use a checkout of the project, which has all kernels.")
    return path.read_text("utf-8")
