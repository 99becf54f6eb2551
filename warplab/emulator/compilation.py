"""How the interpreter's parts are compiled: which functions they are, and that helpers are optimised once.

This file belongs to the digest of what is compiled, as all of `core` does. compiled.py keeps and loads the parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from numba import types
from numba.core import codegen
from numba.core.ccallback import CFunc
from numba.core.registry import cpu_target

from warplab.emulator.core.alu.dispatch import vector_functions
from warplab.emulator.core.asynchronous.bulk_entry import run_bulk_copies
from warplab.emulator.core.blocks import run_clusters
from warplab.emulator.core.state.raw import CALL_ARGUMENTS
from warplab.emulator.core.tensor.products_entry import run_products

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
    with _compiled_once():
        function.compile()
    return function


def module_of(part: str) -> tuple[str, bytes]:
    """The name of a part's function and its LLVM module as bitcode, everything linked and nothing optimised."""
    _Inlined.kept = b""
    function = function_of(part)
    if not _Inlined.kept:
        raise RuntimeError("this Numba does not compile parts as compilation.py knows it")
    return function.native_name, _Inlined.kept


class _Inlined(codegen.JITCodeLibrary):
    """A helper that is compiled only to be linked into what calls it: no optimisation and no code of its own.

    Numba optimises each of the interpreter's hundreds of helpers, and makes code of each, before it does so again with
    all that it calls. Once, in the end, is enough.
    """

    _whole = frozenset(function.__name__ for function, _ in SOURCES.values())
    kept = b""  # the bitcode of the last whole module before it was optimised

    def _optimize_functions(self, ll_module: Any) -> None:
        if self.name in self._whole:
            super()._optimize_functions(ll_module)

    def _optimize_final_module(self) -> None:
        if self.name in self._whole:
            _Inlined.kept = self._final_module.as_bitcode()
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self.name in self._whole:
            super()._finalize_final_module()
        else:
            self._finalize_dynamic_globals()
            self._finalized = True


@contextlib.contextmanager
def _compiled_once() -> Iterator[None]:
    """Within, helpers are compiled as _Inlined; as Numba does it where it is not the Numba that this knows."""
    jit = cpu_target.target_context.codegen()
    if not isinstance(jit, codegen.JITCPUCodegen) or jit._library_class is not codegen.JITCodeLibrary:
        yield
        return
    set_environment = jit.set_env

    def set_env(name: str, environment: Any) -> None:
        if jit._engine.is_symbol_defined(name):  # helpers have no code, so no place for theirs, and need none
            set_environment(name, environment)

    jit._library_class, jit.set_env = _Inlined, set_env  # type: ignore[method-assign]
    try:
        yield
    finally:
        del jit._library_class, jit.set_env
