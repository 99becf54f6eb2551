"""The rules that tensor maps keep: cuTensorMapEncodeTiled's, without interleaving.

CUDA driver API, tensor map object management.
"""

from __future__ import annotations

from math import prod

from warplab.plan.model import ELEMENT_BYTES, TensorMap

MAX_RANK = 5
MAX_BOX = 256
MAX_BOX_BYTES = 228 * 1024  # the shared memory of an SM
SWIZZLES = (0, 32, 64, 128)
L2_PROMOTIONS = (0, 64, 128, 256)
FILLS = ("zero", "nan")
_FLOATS = ("float16", "float32", "float64", "bfloat16")
_PLAIN = {"int8": "uint8", "bool": "uint8", "int16": "uint16"}  # moved as they are; the accelerator has no such type


def problem(tensor: TensorMap) -> str:
    """The first rule that a tensor map breaks, in words; empty if it keeps them all."""
    rank = len(tensor.shape)
    if tensor.dtype not in ELEMENT_BYTES:
        return f"the dtype is {tensor.dtype[:40]}, but it can be {', '.join(ELEMENT_BYTES)}"
    size = ELEMENT_BYTES[tensor.dtype]
    if not 1 <= rank <= MAX_RANK:
        return f"it has {rank} dimensions, but 1 to {MAX_RANK} are possible"
    if (len(tensor.strides), len(tensor.box), len(tensor.element_strides)) != (rank - 1, rank, rank):
        return f"box and strides are not those of {rank} dimensions"
    if tensor.offset % 16:
        return f"it starts at byte {tensor.offset} of its buffer, which is not a multiple of 16"
    for n in tensor.shape:
        if not 1 <= n <= 1 << 32:
            return f"a dimension has {n} elements, but 1 to 2**32 are possible"
    for stride in tensor.strides:
        if stride % 16 or not 0 <= stride < 1 << 40:
            return f"a stride is {stride} bytes, but it must be a multiple of 16 below 2**40: pad the rows"
    for n in tensor.box:
        if not 1 <= n <= MAX_BOX:
            return f"the box has {n} elements along a dimension, but 1 to {MAX_BOX} are possible"
    for step in tensor.element_strides:
        if not 1 <= step <= 8:
            return f"an element stride is {step}, but 1 to 8 are possible"
    if tensor.element_strides[0] != 1:
        return "the innermost element stride has to be 1"
    inner = tensor.box[0] * size
    if inner % 16:
        return f"the box's innermost dimension has {inner} bytes, which is not a multiple of 16"
    if tensor.swizzle not in SWIZZLES:
        return f"the swizzle is {tensor.swizzle}, but it can be 0, 32, 64 or 128 bytes"
    if tensor.swizzle and inner > tensor.swizzle:
        return f"the box's innermost dimension has {inner} bytes, more than the swizzle of {tensor.swizzle}"
    if box_bytes(tensor) > MAX_BOX_BYTES:
        return f"the box has {box_bytes(tensor)} bytes, but {MAX_BOX_BYTES} are possible"
    if tensor.l2_promotion not in L2_PROMOTIONS:
        return f"the L2 promotion is {tensor.l2_promotion}, but it can be 0, 64, 128 or 256 bytes"
    if tensor.fill not in FILLS:
        return f"the fill is {tensor.fill[:40]!r}, but it can be 'zero' or 'nan'"
    if tensor.fill == "nan" and tensor.dtype not in _FLOATS:
        return f"only numbers with a fraction can be filled with NaN, not {tensor.dtype}"
    return ""


def box_bytes(tensor: TensorMap) -> int:
    """Bytes of shared memory that a box takes, and that a copy of it completes at its mbarrier."""
    steps = zip(tensor.box, tensor.element_strides, strict=True)
    return prod(-(-n // step) for n, step in steps) * ELEMENT_BYTES[tensor.dtype]


def describe(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    box: tuple[int, ...],
    element_strides: tuple[int, ...] | None,
    swizzle: int,
    l2_promotion: int,
    fill: str,
) -> TensorMap:
    """The tensor map of an array in NumPy's order (outermost dimension first), at offset 0 of a buffer without a name.

    `shape`, `box` and `element_strides` in elements, `strides` in bytes. Raises ValueError, in one sentence.
    """
    dtype = _PLAIN.get(dtype, dtype)
    rank = len(shape)
    steps = (1,) * rank if element_strides is None else element_strides
    if len(box) != rank or len(steps) != rank:
        wrong = "box" if len(box) != rank else "element_strides"
        raise ValueError(f"tensor_map: the array has {rank} dimensions, so {wrong} needs {rank} numbers.")
    size = ELEMENT_BYTES.get(dtype, 0)
    if rank and size and strides[-1] != size and shape[-1] != 1:
        raise ValueError("tensor_map: the elements of the last axis have to lie side by side.")
    # The stride of an axis of length 1 is never used, so that it need not follow the rules.
    outer = tuple(16 if n == 1 and s % 16 else s for n, s in zip(shape[:-1], strides[:-1], strict=True))
    turned = (shape[::-1], outer[::-1], box[::-1], steps[::-1])
    tensor = TensorMap("", 0, dtype, *turned, swizzle, l2_promotion, fill)
    wrong = problem(tensor)
    if wrong:
        raise ValueError(f"tensor_map: {wrong}.")
    return tensor
