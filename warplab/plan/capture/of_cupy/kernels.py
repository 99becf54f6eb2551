"""cupy.RawKernel and cupy.RawModule while a submission is captured: compiled with NVRTC, launches recorded."""

from __future__ import annotations

from typing import Any, NoReturn

from warplab.errors import CompileError
from warplab.isa.declarations import declarations
from warplab.isa.entry import (
    Entry,
    compiler_version,
    entries,
    externals,
    line_of,
    static_shared_bytes,
    variable_size,
    with_max_registers,
)
from warplab.isa.text import PtxError
from warplab.plan.capture import nvrtc
from warplab.plan.capture.arrays import CapturedArray, allocate, unsupported
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.of_cupy.arguments import convert
from warplab.plan.capture.of_cupy.slips import cpp_slip
from warplab.plan.capture.recorder import RecordedKernel, Recorder, dimensions
from warplab.plan.capture.source import cuda_parameters
from warplab.plan.capture.streams import check_stream
from warplab.plan.limits import LIMITS
from warplab.plan.model import NOTHING, Kernel, Language, Parameter

_DEFAULT_SHARED = next(iter(LIMITS.values())).default_shared
_UNMAPPED = "kernel.cu"  # the file of code that was not found in the submission


class Generated(str):
    """A source that was made here, not written by the user: it has no lines but those that it names itself."""

    __slots__ = ()


class CapturedVariable:
    """What RawModule.get_global gives: the memory of a variable, which cupy.ndarray makes an array of."""

    def __init__(self, recorder: Recorder, module: Any, symbol: str, size: int) -> None:
        self._recorder, self._module, self._symbol, self.size = recorder, module, symbol, size

    def array(self, shape: Any, dtype: Any) -> CapturedArray:
        """All of it as an array that the host function may fill. Raises CaptureFailure for another size."""
        made = allocate(shape, dtype)
        if made.nbytes != self.size:
            raise CaptureFailure(
                CaptureStatus.HOST_ERROR,
                f"The variable '{self._symbol}' has {self.size} bytes, but the array for it has {made.nbytes}.",
            )
        made._storage.written = self._write
        return made

    def _write(self, content: bytes) -> None:
        self._recorder.write_variable(self._module, self._symbol, content)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        unsupported(
            f"Using .{name} of a variable", "make it an array: cupy.ndarray(shape, dtype, module.get_global(...))"
        )


class CapturedRawModule:
    """cupy.RawModule: compiled when the first kernel is asked for."""

    def __init__(
        self,
        compiler: Compiler,
        code: str,
        options: tuple[str, ...],
        expressions: tuple[str, ...],
        cooperative: bool = False,
    ) -> None:
        self._compiler = compiler
        self._cooperative = cooperative
        self._code = code
        self._options = options
        self._expressions = expressions

    def get_function(self, name: str) -> CapturedRawKernel:
        """The kernel of this name or name expression. Raises CaptureFailure if the source has none."""
        kernel = CapturedRawKernel(
            self._compiler, self._code, name, self._options, self._expressions, self._cooperative
        )
        kernel.compile()
        return kernel

    def get_global(self, name: str) -> CapturedVariable:
        """A variable of the module. Raises CaptureFailure if the source has none of this name."""
        modules = self._compiler.modules(self._code, self._options, self._expressions)
        module = next(iter(modules.values()))
        symbol = module.lowered.get(name, name)
        size = variable_size(module.ptx, symbol)
        if size is None:
            raise CaptureFailure(
                CaptureStatus.COMPILE_ERROR,
                f"The CUDA C++ source defines no variable '{name}': declare it __constant__ or __device__ outside of "
                "functions and namespaces, and use it in a kernel.",
            )
        key = (self._code, self._options, self._expressions)
        return CapturedVariable(self._compiler.recorder, key, symbol, size)

    def compile(self, log_stream: Any = None) -> None:
        """Compile now, to see errors early."""
        self._compiler.modules(self._code, self._options, self._expressions)

    def __getattr__(self, name: str) -> NoReturn:
        unsupported(f"RawModule.{name}", "pass such data to the kernel as an argument")


class CapturedRawKernel:
    """cupy.RawKernel: compiled at its first launch, which is recorded."""

    def __init__(
        self,
        compiler: Compiler,
        code: str,
        name: str,
        options: tuple[str, ...],
        expressions: tuple[str, ...],
        cooperative: bool = False,
    ) -> None:
        if not isinstance(code, str) or not isinstance(name, str):
            raise TypeError("a RawKernel needs its source and its name as strings")
        self._compiler = compiler
        self._source = (code, options, expressions)
        self._cooperative = cooperative
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

    def __getitem__(self, configuration: Any) -> NoReturn:
        raise CaptureFailure(CaptureStatus.LAUNCH_ERROR, f"A RawKernel is launched with parentheses, {self._usage()}.")

    def _usage(self) -> str:
        return f"as in {self.name}((blocks,), (threads,), (a, b))"

    def __call__(
        self, grid: Any, block: Any, args: Any = None, *more: Any, shared_mem: int = 0, stream: Any = None
    ) -> None:
        check_stream(stream, self.name)
        grid = dimensions(grid, "grid", self.name)
        block = dimensions(block, "block", self.name)
        shared = dimensions(shared_mem, "shared memory size", self.name)[0]
        if more or not isinstance(args, tuple | list):
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"The arguments of '{self.name}' must be a tuple: launch it {self._usage()}.",
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
            convert(value, p, named.name, self.name, recorder)
            for value, p, named in zip(args, parameters, kernel.parameters, strict=True)
        ]
        recorder.launch(recorded, grid, block, arguments, shared, self._cooperative)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "preferred_shared_memory_carveout":
            return  # a hint to the driver, which the executor decides
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        unsupported(f"RawKernel.{name}", "the report shows registers and shared memory of each kernel")


class Compiler:
    """Compiles each source once for every architecture of the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._modules: dict[tuple, dict[str, nvrtc.Module]] = {}
        self._kernels: dict[tuple, RecordedKernel] = {}

    def modules(self, code: str, options: tuple[str, ...], expressions: tuple[str, ...]) -> dict[str, nvrtc.Module]:
        """The source's PTX for each architecture."""
        key = (code, options, expressions)
        if key not in self._modules:
            start = self._start(code)
            self._modules[key] = {
                architecture: self._compile(code, start, options, expressions, architecture)
                for architecture in self.recorder.architectures
            }
        return self._modules[key]

    def _start(self, code: str) -> int | None:
        return None if isinstance(code, Generated) else self.recorder.source.literal_line(code)

    def _compile(
        self, code: str, start: int | None, options: tuple[str, ...], expressions: tuple[str, ...], architecture: str
    ) -> nvrtc.Module:
        path = self.recorder.source.path
        located = code if start is None else f'#line {start} "{path}"\n{code}'
        try:
            given = options if self.recorder.optimises else nvrtc.unoptimised(options)
            module = nvrtc.compile_cpp(located, _UNMAPPED, given, expressions, architecture)
        except nvrtc.CppError as error:
            inside = error.file == path
            slip, at = cpp_slip(str(error), self.recorder.source.lines, error.line or 0) if inside else ("", 0)
            if slip:
                words = f"{slip.rstrip('?')}{'?' if slip.endswith('?') else '.'}"
                raise CaptureFailure(CaptureStatus.COMPILE_ERROR, words, at, error.original) from None
            where = "" if inside else f" (line {error.line} of {error.file.rsplit('/', 1)[-1]})"
            raise CaptureFailure(
                CaptureStatus.COMPILE_ERROR,
                f"The CUDA C++ source does not compile for {architecture}: {str(error).rstrip('.')}{where}.",
                error.line if inside else start,
                error.original,
            ) from None
        except CompileError as error:
            raise CaptureFailure(
                CaptureStatus.COMPILE_ERROR, f"The CUDA C++ source does not compile: {str(error).rstrip('.')}.", start
            ) from None
        self.recorder.versions["nvrtc"] = compiler_version(module.ptx)
        ptx = self.recorder.source.ours(module.ptx)
        try:
            declarations(ptx)
        except PtxError as error:  # of inline assembly, which the compiler passes on unread
            line = line_of(ptx, error.ptx_line, self.recorder.source.name)
            message = f"The PTX of the CUDA C++ source cannot be used: {error.message}."
            raise CaptureFailure(CaptureStatus.COMPILE_ERROR, message, line or start) from None
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
            self._kernels[key] = self._make(name, code, options, expressions, max_dynamic)
        return self._kernels[key]

    def _make(
        self, name: str, code: str, options: tuple[str, ...], expressions: tuple[str, ...], max_dynamic: int | None
    ) -> RecordedKernel:
        modules = self.modules(code, options, expressions)
        start = self._start(code)
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
        static = static_shared_bytes(next(iter(ptx.values())), found.name)
        allowed = max_dynamic if max_dynamic is not None else _DEFAULT_SHARED - static
        return RecordedKernel(kernel, found, static, allowed, module=(code, options, expressions))


def _missing(name: str, module: nvrtc.Module) -> str:
    others = [e for e in entries(module.ptx) if name in e]
    if others:
        return (
            f"The CUDA C++ source has the kernel '{name}' under a mangled name: declare it extern \"C\" __global__, or "
            "list it in name_expressions."
        )
    return (
        f"The CUDA C++ source defines no kernel '{name}': declare it extern \"C\" __global__ void {name}(...), under "
        "the name that is asked for."
    )
