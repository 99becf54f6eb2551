"""A recipe on a GPU: kernels loaded, arguments laid out, launched with the addresses of each call.

Python's time dominates a call's cost, so a call writes addresses into prepared arguments and launches through the
driver directly. A tensor map has its address in its first 8 bytes. That is checked when the map is made; if it does
not hold, every call encodes the map.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import Any

from systems.kernels.compiled import image_of
from systems.kernels.errors import KernelError
from systems.kernels.recipes import Code, Recipe
from warplab.hardware.device import architecture_of, present
from warplab.plan.model import Launch, Pointer, TensorMap

_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_ELSEWHERE = 1 << 36  # an address to compare with: a multiple of what maps are aligned to


@cache
def architecture_at(device: int) -> str:
    """The architecture of a GPU by CUDA's number. Raises KernelError if these kernels are not for it."""
    found = present(device)
    if found is None:
        raise KernelError(f"There is no GPU number {device} here: these kernels need one of compute capability 9.0.")
    if found.compute_capability != (9, 0):
        words = ".".join(map(str, found.compute_capability))
        raise KernelError(
            f"{found.name} has compute capability {words}: these kernels are for 9.0, an H100 or H200. Use the "
            "library's product here."
        )
    return architecture_of(found)


@cache
def _driver() -> Any:
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    sizes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 2
    library.cuLaunchKernel.argtypes = [*sizes, ctypes.c_void_p]
    library.cuLaunchCooperativeKernel.argtypes = sizes
    library.cuCtxGetDevice.argtypes = [ctypes.c_void_p]
    return library


@cache
def _encode() -> Callable[[TensorMap, int], Any]:
    from warplab.gpu.tensor_map_driver import encode  # needs the driver's bindings, an optional package

    return encode


class _Current:
    """The context of a GPU, current for a while."""

    def __init__(self, device: int) -> None:
        from cuda.bindings import driver

        self._driver, self._context = (
            driver,
            _checked(driver.cuDevicePrimaryCtxRetain(_checked(driver.cuDeviceGet(device)))),
        )

    def __enter__(self) -> None:
        _checked(self._driver.cuCtxPushCurrent(self._context))

    def __exit__(self, *error: object) -> None:
        _checked(self._driver.cuCtxPopCurrent())


_current = cache(_Current)


@cache
def _loaded(code: Code, shared_bytes: int, device: int) -> int:
    """The handle of a kernel for a GPU whose context is current."""
    from cuda.bindings import driver

    image = image_of(code, architecture_at(device))
    module = _checked(driver.cuModuleLoadData(image))  # kept as long as the process: its kernels may be in flight
    function = _checked(driver.cuModuleGetFunction(module, code.entry.encode()))
    if shared_bytes > 48 * 1024:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _checked(driver.cuFuncSetAttribute(function, attribute, shared_bytes))
    return int(function)


class _Ready:
    """One launch. `order` are the names of the arrays whose addresses a call gives, in that order."""

    def __init__(self, launch: Launch, function: int, order: Sequence[str]) -> None:
        self._kept: list[Any] = []
        self._written: list[tuple[Any, int, int]] = []  # a number in an argument, which address, its offset
        self._encoded: list[tuple[Any, int, TensorMap]] = []
        pointers = (ctypes.c_void_p * max(len(launch.arguments), 1))()
        for i, argument in enumerate(launch.arguments):
            if isinstance(argument, TensorMap):
                pointers[i] = self._map(argument, order.index(argument.buffer))
                continue
            if isinstance(argument, Pointer):
                memory: Any = ctypes.c_uint64(0)
                self._written.append((memory, order.index(argument.buffer), argument.offset))
            else:
                content = argument.to_bytes()
                memory = (ctypes.c_uint64 * -(-len(content) // 8))()
                ctypes.memmove(memory, content, len(content))
            self._kept.append(memory)
            pointers[i] = ctypes.addressof(memory)
        self._kept.append(pointers)
        at = ctypes.addressof(pointers)
        self._last = (at,) if launch.cooperative else (at, None)
        self._launch = _driver().cuLaunchCooperativeKernel if launch.cooperative else _driver().cuLaunchKernel
        self._fixed = (function, *launch.grid, *launch.block, launch.shared_bytes)

    def _map(self, tensor: TensorMap, which: int) -> int:
        encode = _encode()
        room = (ctypes.c_uint8 * (_MAP_BYTES + _MAP_ALIGNMENT))()
        at = ctypes.addressof(room) + -ctypes.addressof(room) % _MAP_ALIGNMENT
        one, other = (encode(tensor, address).tobytes() for address in (_ELSEWHERE, 2 * _ELSEWHERE))
        ctypes.memmove(at, one, _MAP_BYTES)
        self._kept.append(room)
        words = [int.from_bytes(encoded[:8], "little") for encoded in (one, other)]
        if one[8:] == other[8:] and words == [_ELSEWHERE, 2 * _ELSEWHERE]:
            self._written.append((ctypes.c_uint64.from_address(at), which, tensor.offset))
        else:
            self._encoded.append((at, which, tensor))
        return at

    def __call__(self, addresses: Sequence[int], stream: int) -> int:
        """Queue it; the driver's error code."""
        for memory, which, offset in self._written:
            memory.value = addresses[which] + offset
        for at, which, tensor in self._encoded:
            ctypes.memmove(at, _encode()(tensor, addresses[which] + tensor.offset).tobytes(), _MAP_BYTES)
        return self._launch(*self._fixed, stream, *self._last)


class Prepared:
    """A recipe on a GPU, to be called with the addresses of its arrays: those in `order`, then its scratch."""

    def __init__(self, recipe: Recipe, device: int, order: Sequence[str]) -> None:
        architecture_at(device)
        self.chosen, self.scratch = recipe.chosen, tuple(recipe.scratch.values())
        self._device, self._lock, self._at = device, Lock(), ctypes.c_int(-1)
        names = (*order, *recipe.scratch)
        with _current(device):
            self._launches: list[Callable[[Sequence[int], int], int]] = [
                _Ready(launch, _loaded(recipe.codes[launch.kernel], launch.shared_bytes, device), names)
                for launch in recipe.launches
            ]
        self._where, self._device_at = ctypes.byref(self._at), _driver().cuCtxGetDevice

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Queue the launches on a stream. Raises KernelError with the driver's name of the error."""
        with self._lock:  # arguments are written, then read by the launch
            if self._device_at(self._where) or self._at.value != self._device:
                with _current(self._device):
                    self._launch(addresses, stream)
            else:
                self._launch(addresses, stream)

    def _launch(self, addresses: Sequence[int], stream: int) -> None:
        for launch in self._launches:
            error = launch(addresses, stream)
            if error:
                from cuda.bindings import driver

                raise KernelError(f"The driver refused a launch on GPU {self._device}: {driver.CUresult(error).name}.")


def _checked(result: tuple) -> Any:
    error, *values = result
    if int(error):
        raise KernelError(f"The driver refused to load a kernel: {error.name}.")
    return values[0] if values else None
