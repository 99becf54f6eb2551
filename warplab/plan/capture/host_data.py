"""Arrays whose contents the host function says itself: copies of NumPy arrays, and arrays filled with one value.

The bytes become part of the plan. Each execution starts with them, whatever kernels have made of them in another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, Storage, allocate, set_content, storage_dtype
from warplab.plan.model import Buffer, Role


def upload(value: Any) -> CapturedArray:
    """A device array with the contents of a NumPy array or of what makes one; F order stays, other orders become C.

    Raises CaptureFailure for a dtype that a plan cannot hold.
    """
    array = np.asarray(value)
    if array.size > 1 and not any(array.strides):  # one number broadcast, as @vectorize passes it
        return filled(array.shape, array.dtype, array[(0,) * array.ndim])
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    made = allocate(array.shape, array.dtype, order)
    set_content(made, array)
    return made


def filled(shape: Any, dtype: Any, value: Any, order: str = "C") -> CapturedArray:
    """A device array with one value in all elements, of which the plan keeps one."""
    made = allocate(shape, dtype, order)
    set_content(made, np.asarray(value, made.dtype))
    return made


def constant(name: str, array: np.ndarray) -> Storage:
    """A buffer of the plan with the contents of a NumPy array in C order."""
    dtype, shape, strides = storage_dtype(array.dtype, array.shape, "C")
    return Storage(Buffer(name, Role.SCRATCH, dtype.name, shape, strides, content=array.tobytes()))
