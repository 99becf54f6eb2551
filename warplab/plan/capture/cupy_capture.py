"""Captures CUDA C++ kernels launched through CuPy: a module that stands in for `cupy` while a submission is captured.

It holds what a submission needs of CuPy: RawKernel, RawModule, empty and zeros, the dtypes. Everything else says that
it is not part of a plan.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, allocate, is_contiguous, unsupported
from warplab.plan.capture.cupy_kernels import CapturedRawKernel, CapturedRawModule, Compiler
from warplab.plan.capture.recorder import Recorder

_FROM_NUMPY = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "dtype", "pi", "inf", "nan", "newaxis"),
)


def find_spec(fullname: str, recorder: Recorder) -> importlib.machinery.ModuleSpec:
    """The stand-in for `cupy` or `cupy.cuda`; CaptureFailure for other modules of CuPy."""
    if fullname not in ("cupy", "cupy.cuda"):
        unsupported(f"Importing {fullname}", "use cupy.RawKernel, cupy.RawModule, cupy.empty and cupy.zeros")
    return importlib.machinery.ModuleSpec(fullname, _Loader(recorder), is_package=fullname == "cupy")


class _Loader(importlib.abc.Loader):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "cupy":
            _fill_cupy(module, self._recorder)
        else:
            module.__dict__.update(Device=_Device, Stream=_Stream, runtime=_Runtime())


class _Module(ModuleType):
    """A module that refuses what it does not hold with a clear sentence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "cupy" and name == "cuda":
            return importlib.import_module("cupy.cuda")
        unsupported(
            f"{self.__name__}.{name}", "do that work in a kernel of your own, compiled by RawKernel or RawModule"
        )


def _fill_cupy(module: ModuleType, recorder: Recorder) -> None:
    compiler = Compiler(recorder)

    def raw_kernel(code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", **kwargs: Any) -> Any:
        return CapturedRawKernel(compiler, code, name, _options(options, backend, kwargs), ())

    def raw_module(
        *,
        code: str | None = None,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        name_expressions: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        if path is not None or code is None:
            unsupported("cupy.RawModule with a path", "give the source as code=...")
        return CapturedRawModule(compiler, code, _options(options, backend, kwargs), tuple(name_expressions or ()))

    module.__dict__.update({name: getattr(np, name) for name in _FROM_NUMPY})
    module.__dict__.update(
        __version__="14.0.0",
        RawKernel=raw_kernel,
        RawModule=raw_module,
        ndarray=CapturedArray,
        empty=_empty,
        zeros=_zeros,
        empty_like=_empty_like,
        zeros_like=_zeros_like,
        asarray=_as_array,
        ascontiguousarray=_as_contiguous,
    )


def _options(options: Sequence[str], backend: str, other: dict[str, Any]) -> tuple[str, ...]:
    if backend != "nvrtc":
        unsupported(f"The CuPy backend {backend!r}", "leave backend out; NVRTC compiles the source")
    for name in ("enable_cooperative_groups", "jitify", "translate_cucomplex"):
        if other.pop(name, False):
            unsupported(f"CuPy's {name}", "leave it out")
    if other:
        raise TypeError(f"unexpected keyword argument {next(iter(other))!r}")
    if isinstance(options, str) or not all(isinstance(o, str) for o in options):
        raise TypeError("options must be a tuple of strings")
    return tuple(options)


# Arrays


def _empty(shape: Any, dtype: Any = float, order: str = "C") -> CapturedArray:
    return allocate(shape, dtype, order)


def _zeros(shape: Any, dtype: Any = float, order: str = "C") -> CapturedArray:
    return allocate(shape, dtype, order, zeroed=True)


def _like(array: Any, dtype: Any, zeroed: bool) -> CapturedArray:
    if not isinstance(array, CapturedArray):
        unsupported("Copying host data to the GPU", "use the arrays that the host function is given")
    columns = array.layout == "F"
    return allocate(array.shape, array.dtype if dtype is None else dtype, "F" if columns else "C", zeroed=zeroed)


def _empty_like(array: Any, dtype: Any = None) -> CapturedArray:
    return _like(array, dtype, False)


def _zeros_like(array: Any, dtype: Any = None) -> CapturedArray:
    return _like(array, dtype, True)


def _as_array(array: Any, dtype: Any = None) -> CapturedArray:
    if not isinstance(array, CapturedArray) or (dtype is not None and np.dtype(dtype) != array.dtype):
        unsupported("Copying or converting data with cupy.asarray", "use the arrays that the host function is given")
    return array


def _as_contiguous(array: Any, dtype: Any = None) -> CapturedArray:
    found = _as_array(array, dtype)
    if not is_contiguous(found.shape, found.strides, found.itemsize, "C"):
        unsupported("Copying an array to make it contiguous", "index the array with its strides in the kernel")
    return found


# cupy.cuda: what programs call around their launches and what changes nothing in a plan


class _Stream:
    """The default stream; synchronising it means nothing while launches are only recorded."""

    is_default = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        unsupported("A CUDA stream", "launch on the default one; launches run in order")

    def synchronize(self) -> None:
        pass


_Stream.null = _Stream.__new__(_Stream)  # type: ignore[attr-defined]


class _Device:
    def __init__(self, device: int = 0) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def use(self) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        unsupported(
            f"Asking for cupy.cuda.Device().{name}",
            "it is captured without a GPU; take such numbers as arguments or write them down as constants",
        )


class _Runtime:
    def deviceSynchronize(self) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        unsupported(f"cupy.cuda.runtime.{name}", "leave allocation, copies and timing to the judge")
