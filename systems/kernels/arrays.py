"""Arrays of CuPy and PyTorch: device, layout, the library's current stream, and new arrays like them.

A tuple describes an array: shape, strides, dtype, device and the address's last four bits. It is a cheap key of a
dictionary. `described` reads it when a call is prepared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from systems.kernels.errors import KernelError

Description = tuple[Any, ...]


class Library(Protocol):
    """The operations that these functions need of an array library. `empty` is on the device of `like`."""

    def address(self, array: Any) -> int:
        """Of the first element."""
        ...

    def describe(self, array: Any) -> Description:
        """The array's description."""
        ...

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str = "") -> Any:
        """A new array in C order, of a dtype by its name or of that of `like`."""
        ...

    def stream(self, like: Any) -> int:
        """The handle of the library's current stream."""
        ...

    def records(self, one: Any, other: Any) -> bool:
        """Whether the library would record an operation on two arrays for a backward pass."""
        ...


@dataclass(frozen=True)
class Described:
    """An array by its description: strides in elements; dtype by NumPy's name, or "bfloat16" or "float8_e4m3fn".

    `device` is CUDA's number of its GPU, -1 for memory of the host.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int
    aligned: bool  # begins at a multiple of 16 bytes


class _Cupy:
    def __init__(self) -> None:
        import cupy

        self._empty, self._current_stream = cupy.empty, cupy.cuda.get_current_stream

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def describe(self, array: Any) -> Description:
        memory = array.data
        return array.shape, array.strides, array.dtype, memory.device_id, memory.ptr & 15

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str = "") -> Any:
        return self._empty(shape, dtype or like.dtype)

    def stream(self, like: Any) -> int:
        return int(self._current_stream().ptr)

    def records(self, one: Any, other: Any) -> bool:
        return False


class _Torch:
    def __init__(self) -> None:
        import torch

        self._torch, self._empty, self._is_recording = torch, torch.empty, torch.is_grad_enabled
        self._current_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # none without CUDA

    def address(self, array: Any) -> int:
        return array.data_ptr()

    def describe(self, array: Any) -> Description:
        return array.shape, array.stride(), array.dtype, array.device, array.data_ptr() & 15

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str = "") -> Any:
        kind = getattr(self._torch, dtype) if dtype else like.dtype
        return self._empty(shape, dtype=kind, device=like.device)

    def stream(self, like: Any) -> int:
        return self._current_stream(like.device.index)

    def records(self, one: Any, other: Any) -> bool:
        return (one.requires_grad or other.requires_grad) and self._is_recording()


_KNOWN: dict[type, Library] = {}


def library_of(name: str, array: Any) -> Library:
    """The library of an array. Raises KernelError, with the argument's name, if it is neither CuPy's nor PyTorch's."""
    found = _KNOWN.get(type(array))
    if found is None:
        origins = {base.__module__.partition(".")[0] for base in type(array).__mro__ if base is not object}
        for origin, library in (("torch", _Torch), ("cupy", _Cupy)):
            if origin in origins and hasattr(array, "data_ptr" if origin == "torch" else "data"):
                found = _KNOWN[type(array)] = library()
    if found is None:
        raise KernelError(
            f"{name} is {type(array).__name__}: give an array of CuPy or PyTorch. cupy.asarray and cupy.from_dlpack "
            "make one of another array on a GPU, without a copy."
        )
    return found


def together(function: str, library: Library, /, **others: Any) -> None:
    """Raise KernelError if an array is of another library; None is no array."""
    for name, array in others.items():
        if array is not None and library_of(name, array) is not library:
            raise KernelError(f"{function}: {name} is {type(array).__name__}: give all arrays of one library.")


def described(name: str, description: Description) -> Described:
    """A description in one form for both libraries. Raises KernelError if the array is not on a GPU."""
    shape, strides, dtype, device, low = description
    if hasattr(dtype, "itemsize") and hasattr(dtype, "kind"):  # CuPy's: strides in bytes
        size = dtype.itemsize
        if any(stride % size for stride in strides):
            raise KernelError(
                f"{name} has strides of {strides} bytes, not multiples of its {size}-byte elements: copy it."
            )
        return Described(tuple(shape), tuple(stride // size for stride in strides), dtype.name, device, low == 0)
    if device.type != "cuda":
        raise KernelError(f"{name} is in the memory of {device.type}: move it to a GPU first.")
    return Described(tuple(shape), tuple(strides), str(dtype).removeprefix("torch."), device.index, low == 0)
