"""Captures CUDA C++ kernels launched through CuPy: a module that stands in for `cupy` while a submission is captured.

It holds what a submission needs of CuPy: RawKernel, RawModule, arrays, streams, the dtypes. Everything else says that
it is not part of a plan.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, unsupported
from warplab.plan.capture.of_cupy import arrays as cupy_arrays
from warplab.plan.capture.of_cupy.elementwise import CapturedElementwiseKernel
from warplab.plan.capture.of_cupy.kernels import CapturedRawKernel, CapturedRawModule, CapturedVariable, Compiler
from warplab.plan.capture.of_cupy.reduction import CapturedReductionKernel
from warplab.plan.capture.recorder import Recorder
from warplab.plan.capture.streams import DEFAULT_STREAM, NO_TIME, CapturedEvent, CapturedStream

_FROM_NUMPY = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "dtype", "pi", "inf", "nan", "newaxis"),
)


_INSTEAD = {
    "fuse": "write it as a RawKernel or an ElementwiseKernel",
    **dict.fromkeys(
        ("sum", "prod", "max", "min", "amax", "amin", "mean"), "write it as a ReductionKernel or a RawKernel"
    ),
    "random": "draw the numbers with NumPy and copy them with cupy.asarray",
    "texture": "a plan holds no textures and surfaces; read and write arrays in global memory",
}

_IMPORT_INSTEAD = {
    "cupyx": "do that work in a cupy.RawKernel; what cupyx.jit.rawkernel takes, numba.cuda.jit takes too, with its own "
    "names"
}


def find_spec(fullname: str, recorder: Recorder) -> importlib.machinery.ModuleSpec:
    """The stand-in for `cupy` or `cupy.cuda`; CaptureFailure for other modules of CuPy."""
    if fullname not in ("cupy", "cupy.cuda"):
        unsupported(f"Importing {fullname}", _IMPORT_INSTEAD.get(fullname, "write kernels as cupy.RawKernel"))
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
            module.__dict__.update(
                Device=_Device,
                Stream=_Stream,
                ExternalStream=_no_external_stream,
                Event=CapturedEvent,
                get_elapsed_time=_no_time,
                get_current_stream=lambda: DEFAULT_STREAM,
                runtime=_Runtime(),
            )


class _Module(ModuleType):
    """A module that refuses what it does not hold with a clear sentence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "cupy" and name == "cuda":
            return importlib.import_module("cupy.cuda")
        unsupported(
            f"{self.__name__}.{name}", _INSTEAD.get(name, "do that work in a kernel of your own, in a RawKernel")
        )


def _fill_cupy(module: ModuleType, recorder: Recorder) -> None:
    compiler = Compiler(recorder)

    def raw_kernel(
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        **kwargs: Any,
    ) -> Any:
        cooperative = bool(kwargs.pop("enable_cooperative_groups", False))
        kwargs["translate_cucomplex"] = translate_cucomplex
        return CapturedRawKernel(compiler, code, name, _options(options, backend, kwargs), (), cooperative)

    def raw_module(
        code: str | None = None,
        *,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        name_expressions: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        if path is not None or code is None:
            unsupported("cupy.RawModule with a path", "give the source as code=...")
        cooperative = bool(kwargs.pop("enable_cooperative_groups", False))
        expressions = tuple(name_expressions or ())
        return CapturedRawModule(compiler, code, _options(options, backend, kwargs), expressions, cooperative)

    module.__dict__.update({name: getattr(np, name) for name in _FROM_NUMPY})
    module.__dict__.update(
        __version__="14.0.0",
        RawKernel=raw_kernel,
        RawModule=raw_module,
        ElementwiseKernel=functools.partial(CapturedElementwiseKernel, compiler),
        ReductionKernel=functools.partial(CapturedReductionKernel, compiler),
        ndarray=_Array,
        **cupy_arrays.functions(),
    )


def _options(options: Sequence[str], backend: str, other: dict[str, Any]) -> tuple[str, ...]:
    if backend != "nvrtc":
        unsupported(f"The CuPy backend {backend!r}", "leave backend out; NVRTC compiles the source")
    for name in ("jitify", "translate_cucomplex"):
        if other.pop(name, False):
            unsupported(f"CuPy's {name}", "leave it out")
    if other:
        raise TypeError(f"unexpected keyword argument {next(iter(other))!r}")
    if isinstance(options, str) or not all(isinstance(o, str) for o in options):
        raise TypeError("options must be a tuple of strings")
    return tuple(options)


class _ArrayType(type):
    """The type of cupy.ndarray, of which every captured array is one."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, CapturedArray)

    def __call__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> Any:
        if strides is not None:
            unsupported("cupy.ndarray with strides", "make a contiguous array and take a view of it")
        if memptr is None:
            return cupy_arrays.empty(shape, dtype, order)
        if not isinstance(memptr, CapturedVariable):
            unsupported("cupy.ndarray of foreign memory", "use cupy.empty, or a view of an array")
        return memptr.array(shape, dtype)


class _Array(metaclass=_ArrayType):
    """cupy.ndarray."""


# cupy.cuda: what programs call around their launches and what changes nothing in a plan


class _Stream(CapturedStream):
    null = DEFAULT_STREAM
    ptds = DEFAULT_STREAM

    @staticmethod
    def from_external(stream: Any) -> NoReturn:
        unsupported("A foreign stream", "use cupy.cuda.Stream(), or none; launches run in order")


def _no_external_stream(*args: Any, **kwargs: Any) -> NoReturn:
    _Stream.from_external(args)


def _no_time(*args: Any) -> NoReturn:
    unsupported("Asking for the time between events", NO_TIME)


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
