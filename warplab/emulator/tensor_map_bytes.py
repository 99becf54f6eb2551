"""Tensor maps of a launch as the 128 bytes that a kernel's parameter, or a copy of it in memory, holds."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.bulk_layout import (
    BOX_BITS,
    MAP_BYTES,
    MAP_MAGIC,
    META_KIND_SHIFT,
    META_SIZE_SHIFT,
    META_SWIZZLE_SHIFT,
    STEP_BITS,
    T_ADDRESS,
    T_BOX,
    T_FILL,
    T_MAGIC,
    T_META,
    T_SHAPE,
    T_STEPS,
    T_STRIDES,
)
from warplab.emulator.core.state.layout import KIND_BF16, KIND_F16, KIND_FLOAT, KIND_SIGNED, KIND_UNSIGNED
from warplab.plan.model import ELEMENT_BYTES, TensorMap

_KINDS = {"int": KIND_SIGNED, "uint": KIND_UNSIGNED, "float": KIND_FLOAT, "bfloat": KIND_BF16}
# Rows of 128 bytes whose number takes part in a swizzle, as a mask.
_ROWS = {0: 0, 32: 1, 64: 3, 128: 7}
# Eight bytes of what lies outside of a tensor of floats of any size where NaN is asked for, as seen on an H200.
_NAN = 0x7FF77FF77FF77FF7


def encode(tensor: TensorMap, address: int) -> bytes:
    """The map of the tensor whose first element has this address, in a form that only the emulator reads."""
    size = ELEMENT_BYTES[tensor.dtype]
    kind = KIND_F16 if tensor.dtype == "float16" else _KINDS[tensor.dtype.rstrip("0123456789")]
    words = np.zeros(MAP_BYTES // 8, np.int64)
    words[T_MAGIC], words[T_ADDRESS] = MAP_MAGIC, address
    words[T_META] = (
        len(tensor.shape)
        | size << META_SIZE_SHIFT
        | _ROWS[tensor.swizzle] << META_SWIZZLE_SHIFT
        | kind << META_KIND_SHIFT
    )
    for i in range(5):
        inside = i < len(tensor.shape)
        words[T_SHAPE + i] = tensor.shape[i] if inside else 1
        words[T_BOX] |= (tensor.box[i] if inside else 1) << BOX_BITS * i
        words[T_STEPS] |= (tensor.element_strides[i] if inside else 1) << STEP_BITS * i
    words[T_STRIDES : T_STRIDES + len(tensor.strides)] = tensor.strides
    words[T_FILL] = _NAN if tensor.fill == "nan" else 0
    return words.tobytes()
