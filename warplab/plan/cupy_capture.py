"""Captures CUDA C++ kernels launched through CuPy: a module that stands in for `cupy` while a submission is captured.

It holds what a submission needs of CuPy: RawKernel, RawModule, empty and zeros, the dtypes. Everything else says that
it is not part of a plan. Arguments are converted as CuPy 14 converts them (cupy/cuda/function.pyx), except that a
value of another size than its parameter, which CuPy passes on and the kernel misreads, is refused.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from warplab.errors import CompileError
from warplab.plan import nvrtc
from warplab.plan.arrays import CapturedArray, allocate, is_contiguous, unsupported
from warplab.plan.failure import CaptureFailure, CaptureStatus
from warplab.plan.limits import LIMITS
from warplab.plan.model import NOTHING, Argument, Kernel, Language, Parameter, Value
from warplab.plan.ptx_entry import (
    Entry,
    EntryParameter,
    entries,
    externals,
    rename_files,
    static_shared_bytes,
    with_max_registers,
)
from warplab.plan.recorder import RecordedKernel, Recorder, dimensions
from warplab.plan.source import cuda_parameters

_DEFAULT_SHARED = next(iter(LIMITS.values())).default_shared
_UNMAPPED = "kernel.cu"  # the file of code that was not found in the submission
_DTYPES = (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 dtype "
    "pi inf nan newaxis"
).split()


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
            import importlib

            return importlib.import_module("cupy.cuda")
        unsupported(
            f"{self.__name__}.{name}", "do that work in a kernel of your own, compiled by RawKernel or RawModule"
        )


def _fill_cupy(module: ModuleType, recorder: Recorder) -> None:
    compiler = _Compiler(recorder)

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

    module.__dict__.update({name: getattr(np, name) for name in _DTYPES})
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


# Kernels


class CapturedRawModule:
    """cupy.RawModule: compiled when the first kernel is asked for."""

    def __init__(self, compiler: _Compiler, code: str, options: tuple[str, ...], expressions: tuple[str, ...]) -> None:
        self._compiler = compiler
        self._code = code
        self._options = options
        self._expressions = expressions

    def get_function(self, name: str) -> CapturedRawKernel:
        """The kernel of this name or name expression. Raises CaptureFailure if the source has none."""
        kernel = CapturedRawKernel(self._compiler, self._code, name, self._options, self._expressions)
        kernel.compile()
        return kernel

    def compile(self, log_stream: Any = None) -> None:
        """Compile now, to see errors early."""
        self._compiler.modules(self._code, self._options, self._expressions)

    def __getattr__(self, name: str) -> NoReturn:
        unsupported(f"RawModule.{name}", "pass such data to the kernel as an argument")


class CapturedRawKernel:
    """cupy.RawKernel: compiled at its first launch, which is recorded."""

    def __init__(
        self, compiler: _Compiler, code: str, name: str, options: tuple[str, ...], expressions: tuple[str, ...]
    ) -> None:
        if not isinstance(code, str) or not isinstance(name, str):
            raise TypeError("a RawKernel needs its source and its name as strings")
        self._compiler = compiler
        self._source = (code, options, expressions)
        self.name = name
        self._max_dynamic: int | None = None
        self._recorded: RecordedKernel | None = None

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Bytes of dynamic shared memory that a launch may use; 48 KiB less the static ones unless set."""
        if self._max_dynamic is not None:
            return self._max_dynamic
        return _DEFAULT_SHARED - self.compile().static_shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, value: int) -> None:
        self._max_dynamic = dimensions(value, "max_dynamic_shared_size_bytes", self.name)[0]
        self._recorded = None

    def compile(self, log_stream: Any = None) -> RecordedKernel:
        """The compiled kernel. Raises CaptureFailure with the compiler's words."""
        if self._recorded is None:
            self._recorded = self._compiler.kernel(self.name, *self._source, self._max_dynamic)
        return self._recorded

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None) -> None:
        if stream is not None and not isinstance(stream, _Stream):
            unsupported(f"Launching '{self.name}' on a stream", "launch on the default one; launches run in order")
        grid = dimensions(grid, "grid", self.name)
        block = dimensions(block, "block", self.name)
        shared = dimensions(shared_mem, "shared memory size", self.name)[0]
        if not isinstance(args, tuple | list):
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"The arguments of '{self.name}' must be a tuple: write {self.name}(grid, block, (a, b)).",
            )
        recorded = self.compile()
        kernel, parameters = recorded.kernel, recorded.entry.parameters
        if len(args) != len(parameters):
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{self.name}' has {len(parameters)} parameters, but is launched with {len(args)} arguments.",
            )
        recorder = self._compiler.recorder
        arguments = [
            _convert(value, p, named.name, self.name, recorder)
            for value, p, named in zip(args, parameters, kernel.parameters, strict=True)
        ]
        recorder.launch(recorded, grid, block, arguments, shared)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "preferred_shared_memory_carveout":
            return  # a hint to the driver, which the executor decides
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        unsupported(f"RawKernel.{name}", "the report shows registers and shared memory of each kernel")


class _Compiler:
    """Compiles each source once for every architecture of the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._modules: dict[tuple, dict[str, nvrtc.Module]] = {}
        self._kernels: dict[tuple, RecordedKernel] = {}

    def modules(self, code: str, options: tuple[str, ...], expressions: tuple[str, ...]) -> dict[str, nvrtc.Module]:
        """The source's PTX for each architecture."""
        key = (code, options, expressions)
        if key not in self._modules:
            self.recorder.versions["nvrtc"] = nvrtc.version()
            start = self.recorder.source.literal_line(code)
            self._modules[key] = {
                architecture: self._compile(code, start, options, expressions, architecture)
                for architecture in self.recorder.architectures
            }
        return self._modules[key]

    def _compile(
        self, code: str, start: int | None, options: tuple[str, ...], expressions: tuple[str, ...], architecture: str
    ) -> nvrtc.Module:
        path = self.recorder.source.path
        located = code if start is None else f'#line {start} "{path}"\n{code}'
        try:
            module = nvrtc.compile_cpp(located, _UNMAPPED, options, expressions, architecture)
        except nvrtc.CppError as error:
            inside = error.file == path
            where = "" if inside else f" (line {error.line} of {error.file.rsplit('/', 1)[-1]})"
            raise CaptureFailure(
                CaptureStatus.COMPILE_ERROR,
                f"The CUDA C++ source does not compile for {architecture}: {str(error).rstrip('.')}{where}.",
                error.line if inside else start,
            ) from None
        except CompileError as error:
            raise CaptureFailure(
                CaptureStatus.COMPILE_ERROR, f"The CUDA C++ source does not compile: {str(error).rstrip('.')}.", start
            ) from None
        ptx = rename_files(module.ptx, path, self.recorder.source.name)
        return nvrtc.Module(ptx, module.lowered, module.max_registers)

    def kernel(
        self,
        name: str,
        code: str,
        options: tuple[str, ...],
        expressions: tuple[str, ...],
        max_dynamic: int | None,
    ) -> RecordedKernel:
        """One kernel of a source. Kernels that ask for different dynamic shared memory are different kernels."""
        key = (name, code, options, expressions, max_dynamic)
        if key not in self._kernels:
            self._kernels[key] = self.recorder.add_kernel(self._make(name, code, options, expressions, max_dynamic))
        return self._kernels[key]

    def _make(
        self, name: str, code: str, options: tuple[str, ...], expressions: tuple[str, ...], max_dynamic: int | None
    ) -> RecordedKernel:
        modules = self.modules(code, options, expressions)
        start = self.recorder.source.literal_line(code)
        ptx: dict[str, str] = {}
        found: Entry | None = None
        for architecture, module in modules.items():
            symbol = module.lowered.get(name, name)
            found = entries(module.ptx).get(symbol)
            if found is None:
                raise CaptureFailure(CaptureStatus.COMPILE_ERROR, _missing(name, module), start)
            if missing := externals(module.ptx):
                raise CaptureFailure(
                    CaptureStatus.COMPILE_ERROR,
                    f"The CUDA C++ source calls {', '.join(missing[:3])}, which it does not define.",
                    start,
                )
            registers = module.max_registers
            ptx[architecture] = with_max_registers(module.ptx, symbol, registers) if registers else module.ptx
        assert found is not None
        plain = name.partition("<")[0].rpartition("::")[2].strip()
        names, offset = cuda_parameters(code, plain)
        if len(names) != len(found.parameters):
            names = [f"argument {i + 1}" for i in range(len(found.parameters))]
        parameters = tuple(Parameter(n, p.size, p.align) for n, p in zip(names, found.parameters, strict=True))
        line = start + offset if start else 0
        kernel = Kernel(name, found.name, Language.CUDA_CPP, parameters, ptx, NOTHING, max_dynamic, line)
        static = static_shared_bytes(next(iter(ptx.values()))) if len(entries(next(iter(ptx.values())))) == 1 else 0
        allowed = max_dynamic if max_dynamic is not None else _DEFAULT_SHARED - static
        return RecordedKernel(kernel, found, static, allowed)


def _missing(name: str, module: nvrtc.Module) -> str:
    others = [e for e in entries(module.ptx) if name in e]
    if others:
        return (
            f'The CUDA C++ source has the kernel \'{name}\' under a mangled name: declare it extern "C" __global__, or '
            "list it in name_expressions."
        )
    return f"The CUDA C++ source defines no kernel '{name}'."


# Arguments

_NUMPY_OF_INTEGER = {1: ("int8", "uint8"), 2: ("int16", "uint16"), 4: ("int32", "uint32"), 8: ("int64", "uint64")}
_C_NAMES = {"f32": "a float", "f64": "a double", "b8": "a byte"}


def _convert(value: Any, parameter: EntryParameter, name: str, kernel: str, recorder: Recorder) -> Argument:
    """One argument as CuPy passes it, for a parameter of the kernel's PTX."""
    floating = parameter.type in ("f32", "f64", "f16", "bf16")

    def refuse(hint: str) -> NoReturn:
        given = f"a NumPy {value.dtype}" if isinstance(value, np.generic) else f"a Python {type(value).__name__}"
        raise CaptureFailure(
            CaptureStatus.LAUNCH_ERROR,
            f"'{name}' of '{kernel}' is {_described(parameter)}, but is given {given}: {hint}.",
        )

    if isinstance(value, CapturedArray):
        if parameter.size != 8 or floating:
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{name}' of '{kernel}' is {_described(parameter)}, but is given an array: check the order of arguments.",
            )
        return recorder.pointer(value, name)
    if value is None:
        if parameter.size != 8 or floating:
            refuse("only a pointer can be None")
        return Value("uint64", 0, name)
    if isinstance(value, np.ndarray):
        unsupported(f"Passing a NumPy array to '{kernel}'", "use the arrays that the host function is given")
    if isinstance(value, np.generic):
        if value.dtype.kind not in "biuf":
            refuse("pass real numbers")
        if value.dtype.itemsize != parameter.size or (value.dtype.kind == "f") != floating:
            # A half is two bytes without a PTX type of its own.
            if not (value.dtype == np.float16 and parameter.size == 2 and not floating):
                refuse(_hint(parameter))
        return Value(value.dtype.name, value.item() if value.dtype.kind != "b" else int(value), name)
    if isinstance(value, bool):
        if parameter.size != 1:
            refuse(_hint(parameter))
        return Value("bool", int(value), name)
    if isinstance(value, int):
        if floating or parameter.size not in _NUMPY_OF_INTEGER:
            refuse(_hint(parameter))
        for dtype in _NUMPY_OF_INTEGER[parameter.size]:
            if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                return Value(dtype, value, name)
        refuse(f"{value} does not fit")
    if isinstance(value, float):
        if parameter.type != "f64":
            refuse(_hint(parameter))
        return Value("float64", value, name)
    refuse("pass arrays and numbers")


def _described(parameter: EntryParameter) -> str:
    if parameter.is_aggregate:
        return f"a structure of {parameter.size} bytes"
    return _C_NAMES.get(parameter.type, f"an integer or pointer of {parameter.size} bytes")


def _hint(parameter: EntryParameter) -> str:
    if parameter.type == "f32":
        return "pass np.float32(...)"
    if parameter.type == "f64":
        return "pass np.float64(...)"
    if parameter.is_aggregate:
        return "structures cannot be passed, except a half as np.float16(...)" if parameter.size == 2 else (
            "structures cannot be passed; pass their members"
        )
    return f"pass np.int{parameter.size * 8}(...)"
