"""Captures Numba CUDA.

`install` replaces how a dispatcher compiles and launches. Compilation runs Numba's own front end and NVVM, which need
no driver; a launch becomes a record of the kernel and of the arguments as numba-cuda's launcher would pass them.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from llvmlite import ir
from numba import cuda

from warplab.isa.entry import (
    compiler_version,
    entries,
    externals,
    static_shared_bytes,
    with_max_registers,
)
from warplab.plan.capture.arrays import CapturedArray, allocate, is_contiguous, unsupported
from warplab.plan.capture.captured_tensor_maps import CapturedTensorMap
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.host_data import upload
from warplab.plan.capture.of_numba import link as numba_link
from warplab.plan.capture.of_numba import shortcuts as numba_shortcuts
from warplab.plan.capture.of_numba.arguments import accepts, expand, has_empty_rows, slots
from warplab.plan.capture.of_numba.insides import (
    CUDACallConv,
    CUSource,
    Purpose,
    api,
    compiler,
    dispatcher,
    numpy_support,
    nvvm,
    sigutils,
    typeof,
    types,
)
from warplab.plan.capture.of_numba.messages import explained
from warplab.plan.capture.of_numba.names import renumbered, versions
from warplab.plan.capture.recorder import RecordedKernel, Recorder, dimensions
from warplab.plan.capture.source import Source
from warplab.plan.capture.streams import DEFAULT_STREAM, NO_TIME, CapturedEvent, CapturedStream, check_stream
from warplab.plan.limits import parse_architecture
from warplab.plan.model import NOTHING, Argument, Kernel, Language, Parameter

FORALL_THREADS = 256  # what forall uses when it is not told: the driver's heuristic needs a driver


def install(recorder: Recorder) -> None:
    """Make every launch in this process a record. Called once, before the submission sees numba.cuda."""
    front = _NumbaFront(recorder)
    recorder.versions["numba-cuda"] = _version()
    warnings.filterwarnings("ignore", module="numba")
    numba_shortcuts.install()
    front.replace_dispatcher()
    front.replace_host_api()


def _version() -> str:
    from importlib.metadata import version

    return version("numba-cuda")


class _Launcher:
    """What `kernel[grid, block]` gives: call it to record the launch."""

    def __init__(self, front: _NumbaFront, disp: Any, grid: Any, block: Any, stream: Any, shared: Any) -> None:
        self._front = front
        self._dispatcher = disp
        name = disp.py_func.__name__
        self._grid = dimensions(grid, "grid", name)
        self._block = dimensions(block, "block", name)
        check_stream(stream, name)
        self._shared = dimensions(shared, "shared memory size", name)[0]

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            raise TypeError("a kernel takes no keyword arguments")
        kernel, argtypes = self._front.kernel_for(self._dispatcher, args)
        names = self._dispatcher.py_func.__code__.co_varnames
        arguments: list[Argument] = []
        for name, ty, value in zip(names, argtypes, args, strict=False):
            arguments.extend(expand(self._front.recorder, ty, value, name))
        self._front.recorder.launch(kernel, self._grid, self._block, arguments, self._shared, kernel.cooperative)


class _NumbaFront:
    """The replaced parts of numba-cuda with the recorder they write to."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        # One lowering serves all architectures, so it may use only what the oldest of them has.
        self._oldest = min(parse_architecture(a)[:2] for a in recorder.architectures)
        self._compiled: dict[tuple[int, Any], RecordedKernel] = {}
        self._alive: list[Any] = []
        self.traps = False  # whether what is compiled now stops where it raises an exception

    # Compilation

    def replace_dispatcher(self) -> None:
        """Launching, eager compilation and the target's compute capability."""
        front = self
        cls: Any = dispatcher.CUDADispatcher
        original_init = cls.__init__

        def init(disp: Any, py_func: Any, targetoptions: dict, *args: Any, **kwargs: Any) -> None:
            # Lines are what findings and counters are reported by; a debug build would change the code.
            # A device function's Python error model is its own debug=True; with lineinfo that leaves its code alone.
            traps = bool(targetoptions.get("debug"))
            options = {**targetoptions, "lineinfo": True, "debug": traps and bool(targetoptions.get("device"))}
            original_init(disp, py_func, options, *args, **kwargs)
            disp.traps = traps

        def getitem(disp: Any, config: Any) -> _Launcher:
            config = config if isinstance(config, tuple) else (config,)
            if not 2 <= len(config) <= 4:
                raise CaptureFailure(
                    CaptureStatus.LAUNCH_ERROR,
                    f"'{disp.py_func.__name__}' needs a grid and a block: launch it as "
                    f"{disp.py_func.__name__}[grid, block](...).",
                )
            return configure(disp, *config)

        def configure(disp: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0) -> _Launcher:
            return _Launcher(front, disp, griddim, blockdim, stream, sharedmem)

        def call_unconfigured(disp: Any, *args: Any, **kwargs: Any) -> NoReturn:
            name = disp.py_func.__name__
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{name}' is called without a grid and a block: launch it as {name}[grid, block](...).",
            )

        def forall(disp: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Any:
            if ntasks == 0:
                return lambda *args: None
            threads = tpb or FORALL_THREADS
            return configure(disp, (ntasks + threads - 1) // threads, threads, stream, sharedmem)

        def compile_eagerly(disp: Any, sig: Any) -> Any:
            argtypes, _ = sigutils.normalize_signature(sig)
            # The entry in `overloads` only says which signatures exist; the compiled kernel is the front's.
            disp.overloads[tuple(argtypes)] = front.compile(disp, tuple(argtypes))
            return disp.overloads[tuple(argtypes)]

        cls.__init__, cls.__getitem__, cls.__call__ = init, getitem, call_unconfigured
        cls.enable_caching = lambda disp: None  # cache=True only keeps compiled code on disk
        cls.configure, cls.forall, cls.compile = configure, forall, compile_eagerly
        original_raise = CUDACallConv.return_user_exc

        def return_user_exc(convention: Any, builder: Any, *args: Any, **kwargs: Any) -> None:
            # With debug=True Numba's launcher raises on the host what a kernel raised; here it stops at that line.
            if front.traps:
                kind = ir.FunctionType(ir.VoidType(), ())
                builder.call(builder.module.declare_intrinsic("llvm.trap", (), kind), ())
            original_raise(convention, builder, *args, **kwargs)

        CUDACallConv.return_user_exc = return_user_exc
        target = type("TargetDevice", (), {"compute_capability": self._oldest})
        dispatcher.get_current_device = lambda: target

    def compile(self, disp: Any, argtypes: tuple) -> RecordedKernel:
        """The kernel for these argument types, compiled at its first use."""
        found = self._compiled.get((id(disp), argtypes))
        if found is None:
            found = self._compiled[id(disp), argtypes] = self._compile(disp, argtypes)
            self._alive.append(disp)
        return found

    def _compile(self, disp: Any, argtypes: tuple) -> RecordedKernel:
        function, options = disp.py_func, disp.targetoptions
        line = self.recorder.source.definition_line(function.__code__)
        if options.get("device"):
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{function.__name__}' is a device function: launch a kernel that calls it.",
            )
        if options.get("extensions"):
            unsupported(f"Extending the arguments of '{function.__name__}'", "pass arrays and numbers")
        if not all(isinstance(code, CUSource) for code in options.get("link") or ()):
            unsupported(f"Linking a file into '{function.__name__}'", "give its text, as cuda.CUSource(text)")
        with _compiler_words(function.__name__, self.recorder.source, line):
            fastmath = options.get("fastmath", False)
            self.traps = disp.traps
            result = compiler.compile_cuda(
                function,
                types.void,
                argtypes,
                debug=disp.traps,  # for its error model: with lineinfo Numba writes no other debugging code
                lineinfo=not any(map(has_empty_rows, argtypes)),
                forceinline=options.get("forceinline", False),
                fastmath=fastmath,
                nvvm_options=_nvvm_options(options, disp.traps, self.recorder.optimises),
                cc=self._oldest,
                max_registers=options.get("max_registers"),
            )
            library = result.library
            for code in options.get("link") or ():
                library.add_linking_file(code)
            entry_function = library.get_function(result.fndesc.llvm_func_name)
            compiler.kernel_fixup(entry_function, False)
            nvvm.set_launch_bounds(entry_function, options.get("launch_bounds"))
            raw = {name: self._ptx(library, name, entry_function.name, options) for name in self.recorder.architectures}
            numbers = versions(next(iter(raw.values())))
            symbol = renumbered(entry_function.name, numbers)
            ptx = {name: renumbered(text, numbers) for name, text in raw.items()}
        self.recorder.versions["nvvm"] = compiler_version(next(iter(ptx.values())))
        for text in ptx.values():
            if missing := externals(text):
                raise CaptureFailure(CaptureStatus.COMPILE_ERROR, _external_message(function.__name__, missing), line)
        first = next(iter(ptx.values()))
        entry = entries(first)[symbol]
        names = [n for n, t in zip(_parameter_names(function), argtypes, strict=True) for _ in range(slots(t))]
        parameters = tuple(Parameter(n, p.size, p.align) for n, p in zip(names, entry.parameters, strict=True))
        kernel = Kernel(function.__name__, entry.name, Language.NUMBA, parameters, ptx, NOTHING, None, line)
        cooperative = library.use_cooperative  # as Numba itself launches what waits for the whole grid
        return RecordedKernel(kernel, entry, static_shared_bytes(first, entry.name), cooperative=cooperative)

    def _ptx(self, library: Any, architecture: str, entry: str, options: Mapping[str, Any]) -> str:
        ptx = numba_link.ptx_of(library, architecture)
        # Numba links a fastmath kernel by LTO, which drops flush-to-zero: 1e-40 + 1e-40 is 2e-40 on a GPU.
        if externals(ptx) or (options.get("fastmath") and options.get("lto")):
            ptx = numba_link.linked(library, ptx, architecture)
        ptx = self.recorder.source.ours(ptx)
        registers = options.get("max_registers")
        return with_max_registers(ptx, entry, registers) if registers else ptx

    # Launching

    def kernel_for(self, disp: Any, args: tuple) -> tuple[RecordedKernel, tuple]:
        """The compiled kernel and the argument types that a launch with these arguments uses."""
        name = disp.py_func.__name__
        wanted = len(_parameter_names(disp.py_func))
        if len(args) != wanted:
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR, f"'{name}' takes {wanted} arguments, but is launched with {len(args)}."
            )
        actual = tuple(self._type_of(a, name, i) for i, a in enumerate(args))
        if disp._can_compile:
            return self.compile(disp, actual), actual
        chosen = self._choose(disp, actual)
        return self.compile(disp, chosen), chosen

    def _type_of(self, value: Any, kernel: str, index: int) -> Any:
        if isinstance(value, CapturedArray):
            return types.Array(numpy_support.from_dtype(value.dtype), value.ndim, value.layout)
        if isinstance(value, CapturedTensorMap):
            if value.is_address:
                return types.int64  # as Numba types the Python integer that it is outside of a capture
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"Argument {index + 1} of '{kernel}' is a tensor map, which a Numba kernel cannot take: pass "
                "tensor_map_address(...) of it.",
            )
        if type(value).__module__.partition(".")[0] == "torch":
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"Argument {index + 1} of '{kernel}' is a PyTorch tensor: pass cuda.to_device(tensor.numpy()).",
            )
        if type(value) is tuple or hasattr(type(value), "_fields"):
            members = [self._type_of(member, kernel, index) for member in value]
            return types.BaseTuple.from_types(members, None if type(value) is tuple else type(value))
        try:
            return typeof(value, Purpose.argument)
        except Exception:
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"Argument {index + 1} of '{kernel}' is a {type(value).__name__}: a kernel takes arrays and numbers.",
            ) from None

    def _choose(self, disp: Any, actual: tuple) -> tuple:
        """The declared signature that takes the arguments, with the fewest conversions; the first of equals."""
        declared = list(disp.overloads)
        if actual in disp.overloads:
            return actual
        fitting = [d for d in declared if len(d) == len(actual) and all(map(accepts, d, actual))]
        if not fitting:
            given = ", ".join(map(str, actual))
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{disp.py_func.__name__}' is launched with ({given}), which fits none of its declared signatures: "
                f"{'; '.join('(' + ', '.join(map(str, d)) + ')' for d in declared)}.",
            )
        return max(fitting, key=lambda d: sum(t == u for t, u in zip(d, actual, strict=True)))

    # Host functions of numba.cuda

    def replace_host_api(self) -> None:
        """cuda.device_array and its kind make captured arrays; what a plan cannot hold says so."""

        def device_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0):
            if strides is not None:
                unsupported("cuda.device_array with strides", "make a contiguous array and take a view of it")
            return allocate(shape, dtype, order)

        def device_array_like(array: Any, stream: Any = 0) -> CapturedArray:
            column = is_contiguous(array.shape, array.strides, array.dtype.itemsize, "F") and not is_contiguous(
                array.shape, array.strides, array.dtype.itemsize, "C"
            )
            return allocate(array.shape, array.dtype, "F" if column else "C")

        def to_device(obj: Any, *args: Any, **kwargs: Any) -> CapturedArray:
            return obj if isinstance(obj, CapturedArray) else upload(obj)

        def as_cuda_array(obj: Any, sync: bool = True) -> CapturedArray:
            return to_device(obj)

        def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> np.ndarray:
            return np.zeros(shape, dtype, order)  # type: ignore[call-overload]

        @contextlib.contextmanager
        def pinned(*arrays: Any) -> Iterator[None]:
            yield

        replacements: dict[str, Any] = {
            "device_array": device_array,
            "device_array_like": device_array_like,
            "to_device": to_device,
            "as_cuda_array": as_cuda_array,
            "is_cuda_array": lambda obj: isinstance(obj, CapturedArray),
            "synchronize": lambda: None,
            "is_available": lambda: True,
            **dict.fromkeys(("default_stream", "legacy_default_stream", "per_thread_default_stream"), _default_stream),
            "stream": CapturedStream,
            "event": CapturedEvent,
            "pinned_array": pinned_array,
            "pinned_array_like": lambda array: pinned_array(array.shape, array.dtype),
            "pinned": pinned,
        }
        for name, instead in _REFUSED.items():
            replacements[name] = _refusal(name, instead)
        for name, function in replacements.items():
            setattr(cuda, name, function)
            if hasattr(api, name):
                setattr(api, name, function)


_ORDER = "use cuda.stream(), or none; launches run in the order in which they are made"
_SCRATCH = "use cuda.device_array for scratch memory"
_DEVICE = "it is captured without a GPU; take such numbers as arguments or write them down as constants"
_WRITE_KERNEL = "write the kernel itself with cuda.jit"
_REFUSED = {
    "external_stream": _ORDER,
    **dict.fromkeys(("event_elapsed_time", "event_elapsed"), NO_TIME),
    **dict.fromkeys(("managed_array", "mapped_array", "mapped_array_like", "mapped"), _SCRATCH),
    **dict.fromkeys(("get_current_device", "current_context", "select_device", "list_devices", "detect"), _DEVICE),
    **dict.fromkeys(("reduce", "Reduce", "vectorize", "guvectorize"), _WRITE_KERNEL),
    **dict.fromkeys(("profile_start", "profile_stop", "profiling"), "the judge profiles the kernels itself"),
    **dict.fromkeys(("from_cuda_array_interface", "open_ipc_array"), "keep everything in this file"),
}


def _nvvm_options(options: Mapping[str, Any], debug: bool, optimises: bool) -> dict[str, Any]:
    """NVVM's options for what Numba's own compiler and linker would end at.

    nvJitLink optimises whatever it links by LTO, so `opt=False` alone changes nothing. A debug build is not linked so,
    and fuses no product with a sum where it is not optimised either.
    """
    fast = {"fastmath": options.get("fastmath", False)}
    if not optimises:
        return fast | {"opt": 0, "fma": 0}
    if options.get("opt") or options.get("lto"):
        return fast | {"opt": 3}
    return fast | ({"opt": 0, "fma": 0} if debug else {"opt": 0})


def _default_stream() -> CapturedStream:
    return DEFAULT_STREAM


def _refusal(name: str, instead: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        unsupported(f"cuda.{name}", instead)

    return refused


@contextlib.contextmanager
def _compiler_words(kernel: str, source: Source, line: int) -> Iterator[None]:
    """Turns whatever the compiler raises into one COMPILE_ERROR sentence with the student's line."""
    try:
        yield
    except CaptureFailure:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        message, found, original = explained(error, source, kernel, line)
        raise CaptureFailure(CaptureStatus.COMPILE_ERROR, message, found, original) from None


def _external_message(kernel: str, missing: list[str]) -> str:
    return f"The kernel '{kernel}' calls {', '.join(missing[:3])}, which is not part of the submission's device code."


def _parameter_names(function: Any) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]
