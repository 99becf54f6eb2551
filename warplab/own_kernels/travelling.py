"""Functions on their way to the child process: pickled by value where they lie in a notebook or a program.

Kernels of Numba and CuPy are taken apart and made again there, where launches are recorded. CuPy's, which know no file,
are found again by the text of their source.
"""

from __future__ import annotations

import io
import linecache
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import cloudpickle


class Unpicklable(Exception):
    """Something that the function needs cannot go to another process; its text says what."""


def packed(value: Any) -> tuple[bytes, dict[str, str]]:
    """A pickle of functions and what they need, and the sources of those that lie in no file. Raises Unpicklable."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(value)
    except Exception as error:  # whatever an object's own way to be pickled raises
        raise Unpicklable(" ".join(str(error).split())[:300] or type(error).__name__) from None
    return buffer.getvalue(), _cells()


def _cells() -> dict[str, str]:
    """The sources that Python knows and that lie in no file: cells of a notebook, oldest first."""
    known = [(name, entry[2]) for name, entry in list(linecache.cache.items()) if len(entry) > 2]
    return {name: "".join(lines) for name, lines in known if lines and not Path(name).exists()}


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        module, name = type(obj).__module__, type(obj).__name__
        if module.startswith("numba") and name == "CUDADispatcher":
            signatures = [] if obj._can_compile else [tuple(map(str, types)) for types in obj.overloads]
            return numba_kernel, (obj.py_func, _options(obj), signatures)
        if module.startswith("cupy._core.raw") and name in ("RawKernel", "RawModule"):
            if obj.code is None:
                raise Unpicklable(f"a cupy.{name} of a file: give its source as code=...")
            make: Callable[..., Any] = raw_kernel if name == "RawKernel" else raw_module
            last = obj.name if name == "RawKernel" else obj.name_expressions
            return make, (obj.code, tuple(obj.options), bool(obj.enable_cooperative_groups), last)
        if module.startswith("cupy") and hasattr(obj, "__cuda_array_interface__"):
            raise Unpicklable("a CuPy array outside of the function: make it inside, with cupy.asarray(...)")
        if isinstance(obj, FunctionType):
            linecache.checkcache(obj.__code__.co_filename)
            linecache.getlines(obj.__code__.co_filename, obj.__globals__)
        return super().reducer_override(obj)


def _options(dispatcher: Any) -> dict[str, Any]:
    """The options of a Numba kernel, as cuda.jit takes them."""
    kept = (
        "device",
        "fastmath",
        "debug",
        "lineinfo",
        "max_registers",
        "launch_bounds",
        "forceinline",
        "inline",
        "link",
    )
    given = dict(dispatcher.targetoptions)
    decided = {name: given[name] for name in ("opt", "lto") if name in given}
    return {name: given[name] for name in kept if given.get(name)} | decided


# In the child process


def numba_kernel(function: Any, options: dict[str, Any], signatures: list[tuple[str, ...]]) -> Any:
    """The kernel again."""
    from numba import cuda

    device = options.pop("device", False)
    if device or not signatures:
        return cuda.jit(function, device=device, **options)  # as a decorator it would forget `lto`
    return cuda.jit([f"void({', '.join(types)})" for types in signatures], **options)(function)


def raw_kernel(code: str, options: tuple[str, ...], cooperative: bool, name: str) -> Any:
    """The kernel again."""
    import cupy

    return cupy.RawKernel(code, name, options, enable_cooperative_groups=cooperative)


def raw_module(code: str, options: tuple[str, ...], cooperative: bool, expressions: Any) -> Any:
    """The module again."""
    import cupy

    return cupy.RawModule(
        code=code, options=options, name_expressions=expressions, enable_cooperative_groups=cooperative
    )
