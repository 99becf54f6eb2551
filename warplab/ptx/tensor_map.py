"""Tensor maps for submissions: recorded while a submission is captured, encoded by the driver on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplab.errors import DeviceError
from warplab.plan.capture.arrays import CapturedArray
from warplab.plan.capture.captured_tensor_maps import CapturedTensorMap
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.tensor_maps import describe


def tensor_map(
    array: Any,
    box: tuple[int, ...],
    *,
    swizzle: int = 128,
    fill: str = "zero",
    element_strides: tuple[int, ...] | None = None,
    l2_promotion: int = 128,
    dtype: str | None = None,
) -> Any:
    """A tensor map of a device array, for a kernel parameter `const __grid_constant__ CUtensorMap`.

    `box` is the tile that one copy moves, in elements, in the order of the array's axes (outermost first), while
    a kernel gives coordinates innermost first. `swizzle` is 0, 32, 64 or 128 bytes and bounds the box's last axis;
    `fill` says what lies outside of the array: "zero" or, for floats, "nan"; `element_strides` takes every n-th element
    along an axis of the box; `l2_promotion` is 0, 64, 128 or 256 bytes. `dtype` is the element type where it is not the
    array's own: "bfloat16" for an array of uint16. The array must stay alive as long as the map is in use.

    Raises ValueError (CaptureFailure during a capture) with the rule that is broken, DeviceError where there is no GPU.
    """
    given = str(np.dtype(array.dtype)) if dtype is None else dtype
    arguments = (tuple(array.shape), tuple(array.strides), given, tuple(box))
    steps = None if element_strides is None else tuple(element_strides)
    if isinstance(array, CapturedArray):
        try:
            if array._offset % 16:
                raise ValueError(f"tensor_map: the array starts at byte {array._offset}, which is no multiple of 16.")
            return CapturedTensorMap(array, describe(*arguments, steps, swizzle, l2_promotion, fill))
        except ValueError as error:
            raise CaptureFailure(CaptureStatus.HOST_ERROR, _sentence(error)) from None
    from warplab.gpu.tensor_map_driver import encode

    tensor = describe(*arguments, steps, swizzle, l2_promotion, fill)
    return encode(tensor, array.__cuda_array_interface__["data"][0])


def tensor_map_address(tensor: Any) -> Any:
    """The address of a copy of a tensor map in global memory: an integer for a Numba kernel, or a pointer parameter.

    A kernel has to execute fence.proxy.tensormap::generic.acquire on the address before it uses the map.
    """
    if isinstance(tensor, CapturedTensorMap):
        return tensor.in_memory()
    if not isinstance(tensor, np.ndarray) or tensor.nbytes != 128:
        raise TypeError("tensor_map_address takes what tensor_map gives.")
    return DeviceAddress.of(tensor)


class DeviceAddress(int):
    """The device address of a tensor map; the memory is freed with the last reference to it."""

    memory: Any

    @classmethod
    def of(cls, tensor: np.ndarray) -> DeviceAddress:
        """Copy an encoded map (128 bytes) to the device."""
        try:
            from numba import cuda

            memory = cuda.to_device(tensor.reshape(1).view(np.uint8))
        except Exception as error:
            raise DeviceError(f"The tensor map cannot be copied to a GPU: {str(error).splitlines()[0]}.") from None
        address = cls(memory.__cuda_array_interface__["data"][0])
        address.memory = memory
        return address


def _sentence(error: ValueError) -> str:
    text = str(error)
    return text[0].upper() + text[1:]
