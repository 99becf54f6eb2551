"""Tensor maps as the driver encodes them for an address on the device."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver

from warplab.errors import DeviceError
from warplab.plan.model import TensorMap

_TYPES = {
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "int32": "INT32",
    "uint64": "UINT64",
    "int64": "INT64",
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "bfloat16": "BFLOAT16",
}
_BYTES = 128
_ALIGNMENT = 64


def encode(tensor: TensorMap, address: int) -> np.ndarray:
    """The map of the tensor whose first element is at `address`, as an array without dimensions of 128 opaque bytes.

    Raises DeviceError if the driver refuses it.
    """
    swizzle, promotion = tensor.swizzle, tensor.l2_promotion
    swizzles, promotions = driver.CUtensorMapSwizzle, driver.CUtensorMapL2promotion
    filled = driver.CUtensorMapFloatOOBfill
    error, encoded = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[tensor.dtype]}"),
        len(tensor.shape),
        address,
        [driver.cuuint64_t(n) for n in tensor.shape],
        [driver.cuuint64_t(n) for n in tensor.strides or (16,)],  # the driver wants an array of strides even if unused
        [driver.cuuint32_t(n) for n in tensor.box],
        [driver.cuuint32_t(n) for n in tensor.element_strides],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{f'{swizzle}B' if swizzle else 'NONE'}"),
        getattr(promotions, f"CU_TENSOR_MAP_L2_PROMOTION_{f'L2_{promotion}B' if promotion else 'NONE'}"),
        filled.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
        if tensor.fill == "nan"
        else filled.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"the driver refuses the tensor map of '{tensor.parameter}' ({error.name})")
    memory = np.zeros(_BYTES + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    data = memory[start : start + _BYTES]
    data[:] = np.array([int(word) for word in encoded.opaque], np.uint64).view(np.uint8)
    return data.view(f"V{_BYTES}").reshape(())
