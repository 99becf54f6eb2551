"""CuPy's functions that make arrays, while a submission is captured: scratch, and arrays that the host fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, allocate, is_contiguous, unsupported
from warplab.plan.capture.host_data import filled, upload

# Made by NumPy on the host, from numbers alone, then copied to the device.
_FROM_NUMBERS = ("arange", "linspace", "logspace", "eye", "identity", "tri", "fromiter")


def functions() -> dict[str, Callable[..., Any]]:
    """The functions by their names in cupy."""
    made: dict[str, Callable[..., Any]] = {name: _on_host(getattr(np, name)) for name in _FROM_NUMBERS}
    return made | {
        "empty": empty,
        "zeros": zeros,
        "ones": ones,
        "full": full,
        "empty_like": empty_like,
        "zeros_like": zeros_like,
        "ones_like": ones_like,
        "full_like": full_like,
        "array": array,
        "asarray": as_array,
        "asanyarray": as_array,
        "ascontiguousarray": as_contiguous,
        "asnumpy": as_numpy,
    }


def _on_host(function: Callable[..., np.ndarray]) -> Callable[..., CapturedArray]:
    def made(*args: Any, **kwargs: Any) -> CapturedArray:
        return upload(function(*args, **kwargs))

    return made


def empty(shape: Any, dtype: Any = float, order: str = "C") -> CapturedArray:
    """cupy.empty: scratch, poisoned."""
    return allocate(shape, dtype, order)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> CapturedArray:
    """cupy.zeros."""
    return allocate(shape, dtype, order, zeroed=True)


def ones(shape: Any, dtype: Any = float, order: str = "C") -> CapturedArray:
    """cupy.ones."""
    return filled(shape, dtype, 1, order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> CapturedArray:
    """cupy.full with a number."""
    return filled(shape, np.asarray(fill_value).dtype if dtype is None else dtype, fill_value, order)


def _like(model: Any, dtype: Any, make: Callable[..., CapturedArray], *args: Any) -> CapturedArray:
    columns = is_contiguous(model.shape, model.strides, model.dtype.itemsize, "F")
    rows = is_contiguous(model.shape, model.strides, model.dtype.itemsize, "C")
    order = "F" if columns and not rows else "C"
    return make(model.shape, *args, dtype=model.dtype if dtype is None else dtype, order=order)


def empty_like(a: Any, dtype: Any = None) -> CapturedArray:
    """cupy.empty_like."""
    return _like(a, dtype, empty)


def zeros_like(a: Any, dtype: Any = None) -> CapturedArray:
    """cupy.zeros_like."""
    return _like(a, dtype, zeros)


def ones_like(a: Any, dtype: Any = None) -> CapturedArray:
    """cupy.ones_like."""
    return _like(a, dtype, ones)


def full_like(a: Any, fill_value: Any, dtype: Any = None) -> CapturedArray:
    """cupy.full_like with a number."""
    return _like(a, dtype, full, fill_value)


def array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K") -> CapturedArray:
    """cupy.array of host data. A copy of a device array would be a kernel's work."""
    if isinstance(obj, CapturedArray) and copy:
        unsupported("Copying a device array with cupy.array", "use cupy.asarray, or copy in a kernel")
    return as_array(obj, dtype, order)


def as_array(a: Any, dtype: Any = None, order: str = "K") -> CapturedArray:
    """cupy.asarray: device arrays as they are, host data as arrays that the plan holds."""
    if not isinstance(a, CapturedArray):
        if isinstance(a, list | tuple) and any(isinstance(item, CapturedArray) for item in a):
            unsupported("Joining device arrays into one", "copy in a kernel")
        return upload(np.asarray(a, dtype=dtype, order=order))  # type: ignore[call-overload]
    if dtype is not None and np.dtype(dtype) != a.dtype:
        unsupported("Converting a device array with cupy.asarray", "convert inside a kernel")
    return a


def as_contiguous(a: Any, dtype: Any = None) -> CapturedArray:
    """cupy.ascontiguousarray."""
    found = as_array(a, dtype)
    if not is_contiguous(found.shape, found.strides, found.itemsize, "C"):
        unsupported("Copying an array to make it contiguous", "index the array with its strides in the kernel")
    return found


def as_numpy(a: Any, stream: Any = None, order: str = "C", out: Any = None) -> Any:
    """cupy.asnumpy."""
    return a.get(out=out) if isinstance(a, CapturedArray) else np.asarray(a)
