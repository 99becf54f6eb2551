"""Numba's kernel arguments: the types that a launch gives them and the parameters that they become.

Follows numba-cuda 0.30's launcher (`_Kernel._prepare_args` in numba/cuda/dispatcher.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warplab.plan.capture.captured_tensor_maps import CapturedTensorMap
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.host_data import upload
from warplab.plan.capture.of_numba.insides import types
from warplab.plan.capture.recorder import Recorder
from warplab.plan.model import Argument, Value


def expand(recorder: Recorder, ty: Any, value: Any, name: str) -> Iterator[Argument]:
    """One Python argument as kernel arguments, in the order and the types that numba-cuda's launcher uses."""
    if isinstance(value, CapturedTensorMap):
        yield recorder.tensor_map(value, name)
    elif isinstance(ty, types.Array):
        yield Value("uint64", 0, name)  # meminfo
        yield Value("uint64", 0, name)  # parent
        value = recorder.on_device(value) if isinstance(value, np.ndarray) else value
        yield Value("int64", value.size, name)
        yield Value("int64", value.itemsize, name)
        yield recorder.pointer(value, name)
        yield from (Value("int64", n, name) for n in value.shape)
        yield from (Value("int64", s, name) for s in value.strides)
    elif isinstance(ty, types.Record):  # a copy of it on the device, which Numba copies back
        yield recorder.pointer(upload(value), name)
    elif isinstance(ty, types.BaseTuple):
        for t, v in zip(ty, value, strict=True):
            yield from expand(recorder, t, v, name)
    elif isinstance(ty, types.EnumMember):
        yield from expand(recorder, ty.dtype, value.value, name)
    elif isinstance(ty, types.Complex):
        part = "float32" if ty == types.complex64 else "float64"
        yield Value(part, float(np.dtype(part).type(value.real)), name)
        yield Value(part, float(np.dtype(part).type(value.imag)), name)
    elif ty == types.boolean:
        yield Value("bool", int(bool(value)), name)
    elif isinstance(ty, types.Integer):
        yield Value(str(ty), wrapped(int(value), str(ty)), name)
    else:
        yield Value(str(ty), float(np.dtype(str(ty)).type(value)), name)


def slots(ty: Any) -> int:
    """How many kernel parameters one argument of this type becomes."""
    if isinstance(ty, types.Array):
        return 5 + 2 * ty.ndim
    if isinstance(ty, types.Record):
        return 1
    if isinstance(ty, types.BaseTuple):
        return sum(slots(t) for t in ty)
    if isinstance(ty, types.Complex):
        return 2
    if isinstance(ty, types.EnumMember):
        return slots(ty.dtype)
    if isinstance(ty, types.Number | types.Boolean) or ty == types.float16:
        return 1
    raise CaptureFailure(CaptureStatus.LAUNCH_ERROR, f"A kernel takes arrays and numbers, not a value of type {ty}.")


def has_empty_rows(ty: Any) -> bool:
    """Whether a tuple of empty tuples is in it, whose size numba-cuda 0.30 divides by for lines; it has no code."""
    if not isinstance(ty, types.BaseTuple):
        return False
    rows = isinstance(ty, types.UniTuple | types.NamedUniTuple) and len(ty) > 0 and slots(ty) == 0
    return rows or any(map(has_empty_rows, ty))


def accepts(declared: Any, actual: Any) -> bool:
    """Whether a declared parameter type takes an argument: same arrays, except that layout A takes any; any number."""
    if isinstance(declared, types.Array):
        return (
            isinstance(actual, types.Array)
            and declared.dtype == actual.dtype
            and declared.ndim == actual.ndim
            and declared.layout in ("A", actual.layout)
        )
    if isinstance(declared, types.BaseTuple):
        return (
            isinstance(actual, types.BaseTuple) and len(declared) == len(actual) and all(map(accepts, declared, actual))
        )
    if isinstance(declared, types.Record):
        return declared == actual
    if isinstance(declared, types.Integer | types.Boolean):
        return isinstance(actual, types.Integer | types.Boolean)
    if isinstance(declared, types.Complex):
        return isinstance(actual, types.Number | types.Boolean)
    return not isinstance(actual, types.Complex) and isinstance(actual, types.Number | types.Boolean)


def wrapped(value: int, dtype: str) -> int:
    """The value as C would convert it to the type, as numba-cuda's ctypes arguments do."""
    info = np.iinfo(dtype)
    bits = info.bits
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if info.min < 0 and value >> (bits - 1) else value
