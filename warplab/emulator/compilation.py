"""How the interpreter's parts are compiled: which functions they are, and that each helper is compiled once.

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
from warplab.emulator.core.tensor_memory.tensor_entry import run_tensor_memory
from warplab.emulator.lean_numba import Library, Store, lean

_CALL = types.void(*[types.int64] * CALL_ARGUMENTS)
# By the names of compiled.Piece
SOURCES: dict[str, tuple[Callable, Any]] = {
    "loop": (run_clusters, types.int64(*[types.int64] * 4)),
    "arithmetic": (vector_functions, types.int64()),
    "bulk": (run_bulk_copies, _CALL),
    "wgmma": (run_products, _CALL),
    "tcgen05": (run_tensor_memory, _CALL),
}


def function_of(part: str, helpers: Store) -> CFunc:
    """A part, compiled in this process with those of its helpers that are not kept."""
    source, signature = SOURCES[part]
    function = CFunc(source, (signature.args, signature.return_type), {}, {"error_model": "numpy", "nopython": True})
    wholes = frozenset(source.__name__ for source, _ in SOURCES.values())
    with lean(wholes, core.__name__, helpers):
        function.compile()
    return function


def module_of(part: str, helpers: Store) -> tuple[str, bytes]:
    """The name of a part's function and its LLVM module as bitcode, everything linked and nothing optimised."""
    Library.kept = b""
    function = function_of(part, helpers)
    if not Library.kept:
        raise RuntimeError("this Numba does not compile parts as compilation.py knows it")
    return function.native_name, Library.kept
