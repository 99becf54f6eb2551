"""What compiled code depends on: the modules of the core that a module imports, the compilers and the processor."""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import llvmlite
import numba
from numba.core.registry import cpu_target

from warplab.emulator import core

_HOW = ("compilation.py", "lean_numba.py")  # how the core is compiled
_IMPORT = re.compile(r"^from (warplab\.emulator\.core[\w.]*) import ([^\n(]*)", re.MULTILINE)


def source_digest(root: str) -> str:
    """Hex digest of a module of the core with all that it imports, directly or not, and of how it is compiled."""
    digest = hashlib.sha256()
    for name in sorted(_imported(root)):
        digest.update(_text(_path(name)))
    for name in _HOW:
        digest.update(_text(Path(__file__).with_name(name)))
    return digest.hexdigest()


def key_here(*facts: str) -> str:
    """A name for what these facts, the compilers and the processor determine."""
    digest = hashlib.sha256()
    processor = cpu_target.target_context.codegen().magic_tuple()
    for fact in (*facts, numba.__version__, llvmlite.__version__, sys.version, *processor):
        digest.update(f"\0{fact}".encode())
    return digest.hexdigest()[:24]


def forget() -> None:
    """Read the sources anew when they are asked for next."""
    _text.cache_clear()
    _imports.cache_clear()


def _imported(root: str) -> set[str]:
    """A module of the core and all those that it imports, directly or not."""
    found, asked = set(), [root]
    while asked:
        name = asked.pop()
        if name not in found:
            found.add(name)
            asked += _imports(name)
    return found


@cache
def _imports(module: str) -> list[str]:
    names = []
    for source, imported in _IMPORT.findall(_text(_path(module)).decode()):
        inner = (f"{source}.{part.strip()}" for part in imported.split(","))
        names += [source, *(submodule for submodule in inner if _path(submodule).is_file())]
    return names


@cache
def _text(path: Path) -> bytes:
    return path.read_bytes()


def _path(module: str) -> Path:
    place = Path(core.__path__[0]).joinpath(*module.split(".")[3:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
