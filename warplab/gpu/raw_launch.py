"""Launches with tensor maps or structures among their arguments, which cuda.core's launch has no type for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cuda.bindings import driver
from cuda.core import Kernel, Stream

from warplab.plan.model import Launch


class RawLaunch:
    """One launch of a kernel through the driver; `arguments` are arrays, each with the bytes of its parameter."""

    def __init__(self, item: Launch, kernel: Kernel, arguments: Sequence[np.ndarray]) -> None:
        self._arguments = arguments  # whose memory the pointers below are of
        self._pointers = np.array([a.ctypes.data for a in arguments] or [0], np.uint64)
        self._function = driver.CUfunction(int(kernel.handle))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = item.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = item.block
        config.sharedMemBytes = item.shared_bytes
        attributes = []
        if item.cooperative:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        if item.cluster != (1, 1, 1):
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dims = attribute.value.clusterDim
            dims.x, dims.y, dims.z = item.cluster
            attributes.append(attribute)
        config.attrs, config.numAttrs = attributes, len(attributes)
        self._config = config

    def __call__(self, stream: Stream) -> None:
        """Queue the launch. Raises RuntimeError with the driver's name for what went wrong."""
        self._config.hStream = driver.CUstream(int(stream.handle))
        (error,) = driver.cuLaunchKernelEx(self._config, self._function, self._pointers.ctypes.data, 0)
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(error.name)
