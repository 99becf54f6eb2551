"""What lies between two kernels, and what the last blocks of a grid leave idle, by the kernels' own clock records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import cupy
import numpy as np
from cuda.bindings import driver

from course.results import Record
from warplab.gpu import trusted

KERNELS = 40  # in a row
NANOSECONDS = 5000  # that each block takes
WHOLE_SM = 120 * 1024  # bytes of shared memory of a block that leaves no room for a second one


class Row:
    """Kernels of one block an SM on a stream, one after another, and when their blocks began and ended."""

    def __init__(self, stream: Any, blocks: int, kernels: int = KERNELS, shared: int = 0, early: bool = False) -> None:
        code = (Path(__file__).parent / "gaps.cu").read_text("utf-8")
        kernel = cupy.RawKernel(code, "work")
        if shared:
            kernel.max_dynamic_shared_size_bytes = shared
        self._keep = kernel  # the driver's function lives as long
        self._function = driver.CUfunction(kernel.kernel.ptr)
        self._stream, self._times = stream, cupy.zeros((kernels, blocks, 2), np.uint64)
        self._config = driver.CUlaunchConfig()
        self._config.gridDimX, self._config.gridDimY, self._config.gridDimZ = blocks, 1, 1
        self._config.blockDimX, self._config.blockDimY, self._config.blockDimZ = 128, 1, 1
        self._config.sharedMemBytes = shared
        self._config.hStream = driver.CUstream(int(stream.handle))
        if early:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            self._config.attrs, self._config.numAttrs = [attribute], 1
        self._early = int(early)

    def launch(self) -> None:
        """Queue all kernels."""
        for times in self._times:
            values = (np.array([NANOSECONDS], np.uint64), np.array([times.data.ptr], np.uint64),
                      np.array([self._early], np.int32))  # fmt: skip
            pointers = np.array([value.ctypes.data for value in values], np.uint64)
            (error,) = driver.cuLaunchKernelEx(self._config, self._function, pointers.ctypes.data, 0)
            if int(error):
                raise RuntimeError(f"cuLaunchKernelEx: {error}")

    def times(self) -> np.ndarray:
        """Nanoseconds of [kernel][block][began, ended]."""
        return cupy.asnumpy(self._times).astype(np.int64)


def gap(times: np.ndarray) -> float:
    """Median nanoseconds from the last end of a kernel to the first beginning of the next."""
    return float(median(times[1:, :, 0].min(1) - times[:-1, :, 1].max(1)))


def idle(times: np.ndarray, sms: int) -> float:
    """The share of the SMs' time in which they have no block, from the first beginning to the last end of a kernel."""
    spans = times[:, :, 1].max(1) - times[:, :, 0].min(1)
    busy = (times[:, :, 1] - times[:, :, 0]).sum(1)
    return float(median(1 - busy / (sms * spans)))


def records(stream: Any) -> Iterator[Record]:
    """Gaps in a stream, in a graph and with dependent launch; idle shares of grids of one block an SM and more."""
    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    note = f"{KERNELS} kernels of {sms} blocks in a row, all queued before the first could run; median"
    for variant, early, graph in (("stream", False, False), ("graph", False, True), ("dependent launch", True, False)):
        row = Row(stream, sms, early=early)
        row.launch()
        stream.sync()
        if graph:
            queue = cupy.cuda.get_current_stream()
            queue.begin_capture()
            row.launch()
            queue.end_capture().launch(queue)
        else:
            trusted.spin(stream, 2000)
            row.launch()
        stream.sync()
        value = gap(row.times()) / 1e3
        yield Record("between two kernels", "idle time", value, "us", variant=variant, conditions=note)
    for blocks in (sms, sms + 1, 2 * sms):
        row = Row(stream, blocks, shared=WHOLE_SM)
        row.launch()
        stream.sync()
        yield Record(
            "tail", "idle share", idle(row.times(), sms), "1", variant=f"{blocks} blocks", shape=(blocks,),
            conditions=f"blocks of {NANOSECONDS / 1e3:g} us each, one at a time on each of {sms} SMs",
        )  # fmt: skip
