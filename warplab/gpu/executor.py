"""The trusted executor: a plan's cubins, buffers and launches on the GPU of this process.

Every buffer lies between two redzones; outputs and scratch start as NaN patterns, so that an element nobody wrote is
seen. A fault of the device code raises DeviceFault: the context is lost then, and the process with it (see worker).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cupy
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, Kernel, LaunchConfig, ObjectCode, Stream, launch

from warplab.errors import DeviceError, PlanError
from warplab.gpu.raw_launch import RawLaunch
from warplab.gpu.tensor_map_driver import encode
from warplab.plan.execution import Execution, Finding, FindingKind
from warplab.plan.model import Argument, Buffer, Launch, Parameter, Plan, Pointer, Role, Structure, TensorMap
from warplab.worker.process import DeviceFault

UNASKED_SHARED = 48 * 1024  # bytes of shared memory, static and dynamic, that a launch gets without asking
REDZONE_BYTES = 4096
LAUNCHES_SECONDS = 20.0  # that all launches of a plan may take together
_REDZONE_BYTE = 0xA5
_POISON_BYTE = 0xFF  # a NaN in every float type, -1 in every signed integer type

# Errors that end the context (CUDA driver API, CUresult): the process must be replaced.
_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": (FindingKind.OUT_OF_BOUNDS, "the kernel accessed an illegal address"),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (FindingKind.MISALIGNED, "the kernel accessed a misaligned address"),
    "CUDA_ERROR_LAUNCH_FAILED": (FindingKind.LAUNCH_FAILURE, "the kernel failed on the device"),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (FindingKind.TRAP, "the kernel executed an illegal instruction or a trap"),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": (FindingKind.OUT_OF_BOUNDS, "the kernel used an address of the wrong space"),
    "CUDA_ERROR_ASSERT": (FindingKind.TRAP, "a device-side assertion failed"),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (FindingKind.ENDLESS, "the driver ended a kernel that ran too long"),
}


# Not a reduction: CuPy compiles those anew for other orders of magnitude of their size, which takes seconds.
_MARK = cupy.ElementwiseKernel(
    "uint8 one, uint8 other", "raw bool differs", "if (one != other) differs[0] = true;", "warplab_mark_difference"
)
_UNENDING: list[LoadedPlan] = []  # to free what kernels that run on use would wait for them


@dataclass
class DeviceBuffer:
    """A plan's buffer on the device: the guarded bytes, and the array that the host fills and reads."""

    spec: Buffer
    arena: cupy.ndarray  # uint8: redzone, data, redzone
    array: cupy.ndarray  # the spec's dtype, shape and strides over the data

    @property
    def address(self) -> int:
        """Device address of the first element; a multiple of 256."""
        return self.arena.data.ptr + REDZONE_BYTES

    def fill(self) -> None:
        """Overwrite the data, not the redzones, with what the plan has it start with, else a NaN pattern."""
        self.arena[REDZONE_BYTES : self.arena.size - REDZONE_BYTES] = _fill_byte(self.spec)
        if self.spec.content:  # from the host each time: a copy on the device could be changed by a kernel
            data = self.arena[REDZONE_BYTES : REDZONE_BYTES + self.spec.nbytes]
            content = np.frombuffer(self.spec.content, np.uint8)
            data.reshape(-1, content.size)[...] = cupy.asarray(content)

    def redzones_intact(self) -> bool:
        """Whether nothing was written within REDZONE_BYTES before the data or behind it."""
        data_end, behind = REDZONE_BYTES + self.spec.nbytes, self.arena.size - REDZONE_BYTES
        padding = self.arena[data_end:behind]  # up to the next multiple of 256 bytes, filled as the data was
        ends = (self.arena[:REDZONE_BYTES], _REDZONE_BYTE), (self.arena[behind:], _REDZONE_BYTE)
        return not _differ(*ends, (padding, _fill_byte(self.spec)))


def allocate(spec: Buffer) -> DeviceBuffer:
    """A guarded device buffer, poisoned. Raises DeviceError when the GPU's memory does not suffice."""
    size = -(-max(spec.nbytes, 1) // 256) * 256
    try:
        arena = cupy.empty(size + 2 * REDZONE_BYTES, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        raise DeviceError(f"buffer '{spec.name}' of {spec.nbytes:,} bytes does not fit into the GPU's memory") from None
    arena[:REDZONE_BYTES] = _REDZONE_BYTE
    arena[REDZONE_BYTES + size :] = _REDZONE_BYTE
    array = cupy.ndarray(spec.shape, dtype=spec.dtype, memptr=arena.data + REDZONE_BYTES, strides=spec.strides)
    buffer = DeviceBuffer(spec, arena, array)
    buffer.fill()
    return buffer


class LoadedPlan:
    """A plan on the device: modules loaded anew, buffers allocated, ready to launch any number of times.

    Raises PlanError if the plan has no cubin for this GPU, DeviceError if the GPU refuses it.
    """

    def __init__(self, plan: Plan, architecture: str, stream: Stream) -> None:
        self.plan = plan
        self.stream = stream
        self.buffers = {name: self._allocated(spec) for name, spec in plan.buffers.items()}
        kernels = {}
        modules: dict[bytes, ObjectCode] = {}  # kernels of one source are one module, and share its variables
        for key, spec in plan.kernels.items():
            if architecture not in spec.cubins:
                raise PlanError(f"Kernel {spec.name} has no machine code for {architecture}: assemble the plan for it")
            image = spec.cubins[architecture].image
            if image not in modules:
                modules[image] = ObjectCode.from_cubin(image, name=key)
            kernels[key] = modules[image].get_kernel(spec.entry)
        self._maps: list[cupy.ndarray] = []  # copies of tensor maps that kernels get the address of
        self._launches = [self._prepared(item, kernels[item.kernel], architecture) for item in plan.launches]

    def _allocated(self, spec: Buffer) -> DeviceBuffer:
        return allocate(spec)

    def _prepared(self, item: Launch, kernel: Kernel, architecture: str) -> Callable[[Stream], None]:
        static = self.plan.kernels[item.kernel].cubins[architecture].static_shared
        if static + item.shared_bytes > UNASKED_SHARED and item.shared_bytes:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(driver.cuKernelSetAttribute(attribute, item.shared_bytes, kernel.handle, Device().device_id))
        alike = {"block": item.block, "shmem_size": item.shared_bytes}
        if item.cluster == (1, 1, 1):
            config = LaunchConfig(grid=item.grid, **alike)
        else:  # cuda.core counts the grid in clusters, the plan counts it in blocks as CUDA does
            clusters = tuple(g // c for g, c in zip(item.grid, item.cluster, strict=True))
            config = LaunchConfig(grid=clusters, cluster=item.cluster, **alike)
        parameters = self.plan.kernels[item.kernel].parameters
        arguments = [self._argument(a, p) for a, p in zip(item.arguments, parameters, strict=True)]
        # cuda.core takes no structures, and its name for a cooperative launch is not the same in all its versions.
        if item.cooperative or any(isinstance(a, np.ndarray) for a in arguments):
            return RawLaunch(item, kernel, [np.asarray(a) for a in arguments])
        return lambda stream: launch(stream, config, kernel, *arguments)

    def _argument(self, argument: Argument, parameter: Parameter) -> np.generic | np.ndarray:
        """The value of an argument; a tensor map that goes into the parameter itself is an array, and a structure."""
        if isinstance(argument, Pointer):
            return np.uint64(self.buffers[argument.buffer].address + argument.offset)
        if isinstance(argument, TensorMap):
            encoded = encode(argument, self.buffers[argument.buffer].address + argument.offset)
            if parameter.size == encoded.nbytes:
                return encoded
            self._maps.append(cupy.asarray(encoded.reshape(1).view(np.uint8)))
            return np.uint64(self._maps[-1].data.ptr)
        if isinstance(argument, Structure):
            return np.frombuffer(argument.content, np.uint8)
        return np.dtype(argument.dtype).type(argument.value)

    def reset(self, values: Mapping[str, np.ndarray | cupy.ndarray]) -> None:
        """Queue fresh contents: `values` into inputs, what the plan says or NaN patterns into all else."""
        for name, buffer in self.buffers.items():
            if buffer.spec.role in (Role.INPUT, Role.INOUT):
                value = values[name]
                buffer.array[...] = value if isinstance(value, cupy.ndarray) else cupy.asarray(value)
            else:
                buffer.fill()

    def launch(self) -> None:
        """Queue all launches of the plan, in order."""
        try:
            for start in self._launches:
                start(self.stream)
        except Exception as error:
            raise _translated(error) from error

    def launch_one(self, number: int) -> None:
        """Queue one launch of the plan by its number; it finds in the buffers what the last ones have left."""
        try:
            self._launches[number](self.stream)
        except Exception as error:
            raise _translated(error) from error

    def synchronize(self) -> None:
        """Wait for the device. Raises DeviceFault if a kernel failed."""
        try:
            self.stream.sync()
        except Exception as error:
            raise _translated(error) from error

    def finish(self, seconds: float) -> None:
        """Wait for what is queued. Raises DeviceFault if a kernel failed, or if this takes more than `seconds`."""
        end = time.monotonic() + seconds
        while driver.cuStreamQuery(self.stream.handle)[0] == driver.CUresult.CUDA_ERROR_NOT_READY:
            if time.monotonic() > end:
                _UNENDING.append(self)
                words = f"the kernels did not finish within {seconds:g} s; see whether every loop ends"
                raise DeviceFault(f"{FindingKind.ENDLESS}: {words}")
            time.sleep(0.0002)
        self.synchronize()

    def outputs(self) -> dict[str, np.ndarray]:
        """Copies on the host of the OUTPUT and INOUT buffers, after a synchronisation."""
        self.synchronize()
        return {
            name: buffer.array.get()
            for name, buffer in self.buffers.items()
            if buffer.spec.role in (Role.OUTPUT, Role.INOUT)
        }

    def findings(self, values: Mapping[str, np.ndarray | cupy.ndarray]) -> list[Finding]:
        """What the run damaged: redzones, and inputs that differ from the `values` they were filled with."""
        found = []
        for name, buffer in self.buffers.items():
            if not buffer.redzones_intact():
                found.append(Finding(FindingKind.REDZONE, f"something wrote beside the array '{name}'", array=name))
            if buffer.spec.role is not Role.INPUT:
                continue
            if _differ((_bytes(buffer.array), _bytes(cupy.asarray(values[name])))):
                message = f"the input array '{name}' was changed by the kernels"
                found.append(Finding(FindingKind.INPUT_MODIFIED, message, array=name))
        return found

    def erase(self) -> None:
        """Overwrite all buffers, so that the next plan's kernels find nothing of this one, and release them."""
        for buffer in self.buffers.values():
            buffer.arena[...] = 0
        self.synchronize()
        self.buffers.clear()
        self._launches.clear()
        cupy.get_default_memory_pool().free_all_blocks()


def execute(plan: Plan, inputs: Mapping[str, np.ndarray], architecture: str, runs: int = 1) -> list[Execution]:
    """Run a plan `runs` times on the GPU, poisoned afresh each time; `inputs` has each INPUT and INOUT array.

    Raises DeviceFault after which this process must end, DeviceError, PlanError.
    """
    with on_stream() as stream:
        loaded = LoadedPlan(plan, architecture, stream)
        results = []
        for _ in range(runs):
            loaded.reset(inputs)
            loaded.synchronize()
            loaded.launch()
            loaded.finish(LAUNCHES_SECONDS)
            results.append(Execution(loaded.outputs(), tuple(loaded.findings(inputs))))
        loaded.erase()
    return results


class on_stream:  # noqa: N801 - reads as a verb
    """A context manager: makes one stream of this device current for cuda.core and CuPy alike, and gives it."""

    def __enter__(self) -> Stream:
        device = Device()
        device.set_current()
        self._stream = device.create_stream()
        self._cupy = cupy.cuda.Stream.from_external(self._stream)
        self._cupy.__enter__()
        return self._stream

    def __exit__(self, *exception: object) -> None:
        self._cupy.__exit__(*exception)


def _fill_byte(spec: Buffer) -> int:
    return 0 if spec.zeroed else _POISON_BYTE


def _differ(*pairs: tuple[cupy.ndarray, cupy.ndarray | int]) -> bool:
    """Whether bytes of an array differ from those of the other one, or from one byte, in any of the pairs."""
    differs = cupy.zeros(1, bool)
    for one, other in pairs:
        _MARK(one, other, differs)
    return bool(differs.get()[0])


def _bytes(array: cupy.ndarray) -> cupy.ndarray:
    """The array's contents as bytes, so that NaNs compare too."""
    return cupy.ascontiguousarray(array).reshape(-1).view(cupy.uint8)


def checked(result: tuple) -> None:
    """Raise DeviceError if a call of the driver, whose status comes first in `result`, failed."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"the GPU refused the launch configuration ({result[0].name})")


def _translated(error: Exception) -> Exception:
    """The DeviceFault for an error that ended the context, else a DeviceError, in the student's words."""
    text = str(error)
    for name, (kind, words) in _FAULTS.items():
        if name in text or name.replace("CUDA_ERROR_", "cudaError").replace("_", "").lower() in text.lower():
            return DeviceFault(f"{kind}: {words}")
    return DeviceError(f"the GPU refused a launch: {text.splitlines()[0] if text else type(error).__name__}")
