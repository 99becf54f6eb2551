"""How the interpreter's parts are compiled: which functions they are, and where their helpers are kept.

This file belongs to the digest of what is compiled, as all of `core` does. compiled.py keeps and loads the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.ccallback import CFunc

from warplab.emulator import core
from warplab.emulator.core.alu.dispatch import vector_functions
from warplab.emulator.core.asynchronous.bulk_entry import run_bulk_copies
from warplab.emulator.core.blocks import run_clusters
from warplab.emulator.core.state.raw import CALL_ARGUMENTS
from warplab.emulator.core.tensor.products_entry import run_products
from warplab.emulator.core_digest import key_here, source_digest
from warplab.emulator.lean_numba import Library, lean
from warplab.folders import COMPILED
from warplab.plan import cache

HELPERS = f"{COMPILED}/helpers"
_CALL = types.void(*[types.int64] * CALL_ARGUMENTS)
# By the names of compiled.Piece
SOURCES: dict[str, tuple[Callable, Any]] = {
    "loop": (run_clusters, types.int64(*[types.int64] * 4)),
    "arithmetic": (vector_functions, types.int64()),
    "bulk": (run_bulk_copies, _CALL),
    "wgmma": (run_products, _CALL),
}


def function_of(part: str) -> CFunc:
    """A part, compiled in this process."""
    source, signature = SOURCES[part]
    function = CFunc(source, (signature.args, signature.return_type), {}, {"error_model": "numpy", "nopython": True})
    wholes = frozenset(source.__name__ for source, _ in SOURCES.values())
    with lean(wholes, core.__name__, Helpers()):
        function.compile()
    return function


def module_of(part: str) -> tuple[str, bytes]:
    """The name of a part's function and its LLVM module as bitcode, everything linked and nothing optimised."""
    Library.kept = b""
    function = function_of(part)
    if not Library.kept:
        raise RuntimeError("this Numba does not compile parts as compilation.py knows it")
    return function.native_name, Library.kept


class Helpers:
    """Compiled helpers on disk, which the parts share and which a change elsewhere leaves as they are."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def _key(self, module: str, function: str) -> str:
        if module not in self._digests:
            self._digests[module] = source_digest(module)
        return key_here(self._digests[module], function)

    def read(self, module: str, function: str) -> bytes | None:
        """What is kept of a function of a module, if it is there and whole."""
        return cache.read(HELPERS, self._key(module, function))

    def write(self, module: str, function: str, content: bytes) -> None:
        """Keep a function's compiled form, if the folder allows it."""
        cache.write(HELPERS, self._key(module, function), content)
