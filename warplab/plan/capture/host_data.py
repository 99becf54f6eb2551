"""Arrays whose contents the host function says itself: copies of NumPy arrays, and arrays filled with one value.

The bytes become part of the plan. Each execution starts with them, whatever kernels have made of them in another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, Storage, allocate, storage_dtype, unsupported
from warplab.plan.model import Buffer, Role


def upload(value: Any) -> CapturedArray:
    """A device array with the contents of a NumPy array or of what makes one; F order stays, other orders become C.

    Raises CaptureFailure for a dtype that a plan cannot hold.
    """
    array = np.asarray(value)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    made = allocate(array.shape, array.dtype, order)
    set_content(made, array)
    return made


def filled(shape: Any, dtype: Any, value: Any, order: str = "C") -> CapturedArray:
    """A device array with one value in all elements, of which the plan keeps one."""
    made = allocate(shape, dtype, order)
    set_content(made, np.asarray(value, made.dtype))
    return made


def set_content(array: CapturedArray, value: np.ndarray) -> None:
    """Say what an array starts with: a NumPy array of its shape, or a single value.

    The array has to be scratch that no launch has used, and not a view of a part of it. Raises CaptureFailure.
    """
    storage, buffer = array._storage, array._storage.buffer
    if buffer.role is not Role.SCRATCH or storage.used:
        unsupported(
            "Writing to an array that a kernel may have used",
            "fill it before the first launch that takes it, or write to it in a kernel",
        )
    if array.nbytes != buffer.nbytes or array._offset or array.layout == "A":
        unsupported("Writing to a part of a device array on the host", "make it whole on the host, then copy it")
    value = np.asarray(value).astype(array.dtype, copy=False)
    if value.ndim == 0:
        content = value.tobytes()
    else:
        content = np.broadcast_to(value, array.shape).tobytes(order="F" if array.layout == "F" else "C")
    storage.buffer = replace(buffer, content=content if array.size else b"", zeroed=False)
    if storage.written is not None:
        storage.written(content * (array.nbytes // max(len(content), 1)))


def known_content(array: CapturedArray) -> np.ndarray:
    """What an array holds that no launch has used yet, and that the host function has filled. Raises CaptureFailure."""
    storage, buffer = array._storage, array._storage.buffer
    if storage.used or not (buffer.content or buffer.zeroed):
        unsupported("Copying from one device array to another", "copy in a kernel")
    content = np.frombuffer(buffer.content or bytes(1), np.uint8)
    raw = np.resize(content, buffer.nbytes)
    return np.ndarray(array.shape, array.dtype, raw, array._offset, array.strides)


def constant(name: str, array: np.ndarray) -> Storage:
    """A buffer of the plan with the contents of a NumPy array in C order."""
    dtype, shape, strides = storage_dtype(array.dtype, array.shape, "C")
    return Storage(Buffer(name, Role.SCRATCH, dtype.name, shape, strides, content=array.tobytes()))
