"""Collects what a host function does while it is captured, and makes the Plan of it.

The front ends (Numba, CuPy) translate their own launches to `Recorder.launch`; the checks that every launch needs,
and the naming of kernels and scratch buffers, are here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NoReturn

import numpy as np

from warplab.isa.entry import Entry, with_initial
from warplab.plan.capture.arrays import CapturedArray, Storage, argument_array
from warplab.plan.capture.captured_tensor_maps import CapturedTensorMap
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.host_data import upload
from warplab.plan.capture.source import Source
from warplab.plan.limits import limits_of
from warplab.plan.model import (
    Argument,
    ArrayArgument,
    Buffer,
    Dim3,
    HostCall,
    Kernel,
    Launch,
    Plan,
    Pointer,
    Role,
    TensorMap,
)
from warplab.plan.validate import MAX_CONTENT

MAX_LAUNCHES = 10_000
_GRID_MAX = (2**31 - 1, 65535, 65535)
_BLOCK_MAX = (1024, 1024, 64)
_ROUNDED_UP = "as in (n + block - 1) // block, so that the last, partly filled block is there"


@dataclass
class RecordedKernel:
    """A compiled kernel with what its launches are checked against; `entry` and `static_shared` of one architecture."""

    kernel: Kernel
    entry: Entry
    static_shared: int  # bytes
    opt_in_shared: int | None = None  # bytes of dynamic shared memory asked for; None: the front end need not ask
    key: str = ""  # in the plan; given at its first launch
    cooperative: bool = False  # its blocks wait for each other
    module: Any = None  # what its module is known by, whose variables it shares


@dataclass(frozen=True)
class HostArray:
    """A NumPy array that a launch was given, its bytes at the time, and what stands for it on the device."""

    array: np.ndarray
    content: np.ndarray
    device: CapturedArray


class Recorder:
    """The state of one capture: kernels live for all calls, buffers and launches for one."""

    def __init__(self, source: Source, architectures: Sequence[str], most_content: int = MAX_CONTENT) -> None:
        self.source = source
        self.most_content = most_content
        self.architectures = tuple(architectures)
        self.versions: dict[str, str] = {}
        self._keys: set[str] = set()
        self._buffers: dict[str, Buffer] = {}
        self._names: dict[int, str] = {}
        self._used: dict[str, RecordedKernel] = {}
        self._alive: list[Storage] = []
        self._launches: list[Launch] = []
        self._content = 0  # bytes of host data
        self._variables: dict[Any, dict[str, bytes]] = {}  # of modules: what the host function has written to them
        self._imported: dict[Any, dict[str, bytes]] | None = None  # before the first call
        self.host_arrays: dict[int, HostArray] = {}  # by id()
        self.host_names: dict[int, str] = {}  # what to call them, by id()
        self.copies: list[CapturedArray] = []  # the device's copies, in the order in which they were made
        # Which of these the host function loses when they are made: it may not use what kernels have changed.
        self.spoiled: frozenset[int] = frozenset()
        # Whether CuPy's kernels take NumPy arrays as well, as they do not outside of a capture.
        self.takes_host_arrays = False
        # Whether compilers leave out what nobody reads, which hides faults of it.
        self.optimises = True

    def begin(self, call: HostCall) -> list[Any]:
        """Forget the last call's buffers and launches; returns what to call the host function with."""
        self._buffers, self._names, self._used, self._alive, self._launches = {}, {}, {}, [], []
        self._content, self.host_arrays = 0, {}
        if self._imported is None:
            self._imported = self._variables
        self._variables = {module: dict(values) for module, values in self._imported.items()}
        values: list[Any] = []
        for argument in call.arguments:
            if not isinstance(argument, ArrayArgument):
                values.append(argument.value)
                continue
            array = argument_array(argument.name, argument.dtype, argument.shape, argument.role)
            self._register(array._storage, argument.name)
            values.append(array)
        return values

    def pointer(self, array: CapturedArray, parameter: str, *, reading: bool = False) -> Pointer:
        """The kernel argument for an array; scratch becomes part of the plan at its first use.

        `reading`: no launch takes it, the host function returns it.
        """
        if array._storage.written is not None:
            raise CaptureFailure(
                CaptureStatus.UNSUPPORTED,
                f"'{parameter}' is given a variable of a module, which kernels use by its name: leave it out.",
            )
        if array._storage.copied and not reading:
            raise CaptureFailure(
                CaptureStatus.UNSUPPORTED,
                f"'{parameter}' is given an array that was copied to the host before: what a launch makes of it would "
                "be seen in the copy, so copy it after the last launch that takes it.",
            )
        name = self._names.get(id(array._storage))
        if name is None:
            if array._storage.buffer.role is not Role.SCRATCH:
                raise CaptureFailure(
                    CaptureStatus.UNSUPPORTED,
                    f"The array '{array._storage.buffer.name}' is from an earlier call of the host function: "
                    "use the arrays that each call is given.",
                )
            name = self._new_name(array._storage.buffer)
            self._register(array._storage, name)
        array._storage.used = True
        return Pointer(name, array._offset, parameter)

    def write_variable(self, module: Any, symbol: str, content: bytes) -> None:
        """What a variable of a module starts with. Raises CaptureFailure if one of its kernels was launched before."""
        if any(kernel.module == module for kernel in self._used.values()):
            raise CaptureFailure(
                CaptureStatus.UNSUPPORTED,
                f"The variable '{symbol}' is written after a launch of its module: write it before the first one, or "
                "pass the values as an argument.",
            )
        self._variables.setdefault(module, {})[symbol] = content

    def _with_variables(self, recorded: RecordedKernel) -> Kernel:
        values = self._variables.get(recorded.module, {})
        texts = dict(recorded.kernel.ptx)
        for symbol, content in values.items():
            texts = {architecture: with_initial(text, symbol, content) for architecture, text in texts.items()}
        return replace(recorded.kernel, ptx=texts) if values else recorded.kernel

    def on_device(self, array: np.ndarray) -> CapturedArray:
        """The device's copy of a NumPy array that a launch is given, made at the first one.

        It is made again if the host function has changed the array since. What kernels write to it later launches see,
        as Numba's would, which copy to the host and back; the host function does not.
        """
        known = self.host_arrays.get(id(array))
        if known is None or not np.array_equal(_bytes(array), known.content):
            device = upload(array)
            device._storage.buffer = replace(device._storage.buffer, name=self.host_names.get(id(array), ""))
            if len(self.copies) in self.spoiled and array.flags.writeable:
                array.view(np.ndarray)[...] = np.frombuffer(b"\xff" * array.itemsize, array.dtype)[0]
            self.copies.append(device)
            known = self.host_arrays[id(array)] = HostArray(array, _bytes(array), device)
        return known.device

    def tensor_map(self, value: CapturedTensorMap, parameter: str) -> TensorMap:
        """The kernel argument for a tensor map, or for the address of one."""
        pointer = self.pointer(value.array, parameter)
        return replace(value.tensor, buffer=pointer.buffer, offset=pointer.offset, parameter=parameter)

    def name_of(self, array: CapturedArray) -> str | None:
        """The plan's name for the buffer of an array; None if no launch has used it."""
        return self._names.get(id(array._storage))

    def _new_name(self, buffer: Buffer) -> str:
        if buffer.name and buffer.name not in self._buffers:
            return buffer.name
        kind = "data" if buffer.content else "scratch"
        n = sum(b.role is Role.SCRATCH for b in self._buffers.values())
        while f"{kind}{n}" in self._buffers:
            n += 1
        return f"{kind}{n}"

    def _register(self, storage: Storage, name: str) -> None:
        self._alive.append(storage)
        self._names[id(storage)] = name
        self._buffers[name] = replace(storage.buffer, name=name)
        self._content += len(storage.buffer.content)
        if self._content > self.most_content:
            raise CaptureFailure(
                CaptureStatus.RESOURCES,
                f"The host function copies {self._content / 2**20:.3g} MiB of its own data to the device, but "
                f"{self.most_content / 2**20:.3g} MiB is the most: compute large arrays in a kernel.",
            )

    def launch(
        self,
        kernel: RecordedKernel,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[Argument],
        shared_bytes: int,
        cooperative: bool = False,
    ) -> None:
        """Check one launch as a driver would, and record it. Raises CaptureFailure (LAUNCH_ERROR)."""
        name = kernel.kernel.name
        cluster = kernel.entry.cluster or (1, 1, 1)
        _check_dimensions(name, grid, block, cluster)
        self._check_threads(kernel, block)
        self._check_shared(kernel, shared_bytes)
        if len(self._launches) >= MAX_LAUNCHES:
            raise CaptureFailure(
                CaptureStatus.RESOURCES,
                f"The host function launches more than {MAX_LAUNCHES} kernels: loop inside a kernel instead.",
            )
        if not kernel.key:
            kernel.key = self._new_key(kernel.kernel.name)
        self._used[kernel.key] = kernel
        line = self.source.calling_line()
        self._launches.append(
            Launch(kernel.key, grid, block, tuple(arguments), shared_bytes, cluster, line, cooperative)
        )

    def _new_key(self, name: str) -> str:
        """The student's name for a kernel as an identifier, numbered when several kernels have it."""
        base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:80] or "kernel"
        key, n = base, 1
        while key in self._keys:
            n += 1
            key = f"{base}_{n}"
        self._keys.add(key)
        return key

    def _check_threads(self, kernel: RecordedKernel, block: Dim3) -> None:
        name, entry = kernel.kernel.name, kernel.entry
        if entry.required_block is not None and block != entry.required_block:
            _launch_error(f"'{name}' was compiled for blocks of {entry.required_block} threads, not {block}")
        if entry.max_threads is not None and prod(block) > entry.max_threads:
            _launch_error(
                f"'{name}' is launched with {prod(block)} threads per block, more than the {entry.max_threads} "
                "of its launch bounds"
            )

    def _check_shared(self, kernel: RecordedKernel, shared_bytes: int) -> None:
        name, static = kernel.kernel.name, kernel.static_shared
        if shared_bytes < 0:
            _launch_error(f"'{name}' is launched with {shared_bytes} bytes of shared memory")
        opt_in = kernel.opt_in_shared
        if opt_in is not None and shared_bytes > max(opt_in, 0):
            _launch_error(
                f"'{name}' is launched with {shared_bytes} bytes of dynamic shared memory, more than the {opt_in} "
                f"it may use: set kernel.max_dynamic_shared_size_bytes = {shared_bytes} before the launch"
            )
        for architecture in self.architectures:
            limits = limits_of(architecture)
            most = limits.block_shared
            if static > limits.default_shared:
                # ptxas 13 takes more for sm_90, but CUDA's guide allows it for dynamic shared memory only.
                _launch_error(
                    f"'{name}' declares {static} bytes of shared memory per block, more than the "
                    f"{limits.default_shared} that static arrays may have: use a smaller tile or dynamic shared memory"
                )
            if static + shared_bytes > most:
                _launch_error(
                    f"'{name}' needs {static + shared_bytes} bytes of shared memory per block "
                    f"({static} static, {shared_bytes} dynamic), but {architecture} has at most {most}: "
                    "use smaller tiles"
                )

    def plan(self, call: HostCall) -> Plan:
        """The plan of the call that was begun. Raises CaptureFailure (NO_LAUNCH)."""
        if not self._launches:
            raise CaptureFailure(
                CaptureStatus.NO_LAUNCH,
                f"'{call.function}' launched no kernel: launch one as kernel[grid, block](...) or, with CuPy, "
                "kernel(grid, block, args).",
            )
        kernels = {key: self._with_variables(k) for key, k in self._used.items()}
        return Plan(
            call.function,
            kernels,
            dict(self._buffers),
            tuple(self._launches),
            self.source.text,
            self.source.name,
            dict(self.versions),
        )


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(array.tobytes(), np.uint8)


def dimensions(value: Any, what: str, kernel: str) -> Dim3:
    """A grid or block as students write it, an integer or up to three, filled up with ones."""
    items = list(value) if isinstance(value, tuple | list) else [value]
    if not 1 <= len(items) <= 3:
        _launch_error(f"the {what} of '{kernel}' has {len(items)} dimensions: give one, two or three")
    try:
        numbers = [operator.index(n) for n in items]
    except TypeError:
        wrong = next(n for n in items if not hasattr(n, "__index__"))
        hint = f": round up, {_ROUNDED_UP}" if isinstance(wrong, float) else ""
        _launch_error(f"the {what} of '{kernel}' must be integers, not {wrong!r}{hint}")
    x, y, z = numbers + [1] * (3 - len(numbers))
    return (x, y, z)


def _check_dimensions(name: str, grid: Dim3, block: Dim3, cluster: Dim3) -> None:
    for what, dims in (("grid", grid), ("block", block)):
        if min(dims) < 1:
            hint = (
                f": round up, {_ROUNDED_UP}" if what == "grid" and min(dims) == 0 else ", and each must be at least 1"
            )
            _launch_error(f"'{name}' is launched with a {what} of {dims}{hint}")
    if prod(block) > 1024:
        swapped = ". The number of blocks comes first, then the threads of a block" if prod(grid) <= 1024 else ""
        _launch_error(
            f"'{name}' is launched with {prod(block)} threads per block ({' x '.join(map(str, block))}): "
            f"the most is 1024{swapped}"
        )
    for what, dims, most in (("grid", grid, _GRID_MAX), ("block", block, _BLOCK_MAX)):
        for axis, n, limit in zip("xyz", dims, most, strict=True):
            if n > limit:
                _launch_error(f"'{name}' is launched with a {what} of {dims}: {axis} may be at most {limit}")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        _launch_error(f"'{name}' is launched with a grid of {grid}, no multiple of its cluster of {cluster}")


def _launch_error(message: str) -> NoReturn:
    raise CaptureFailure(CaptureStatus.LAUNCH_ERROR, message[0].upper() + message[1:] + ".")
