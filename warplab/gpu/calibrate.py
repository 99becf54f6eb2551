"""The candidates that give the ceilings: a streaming copy, float32 FMAs and a dense fp16 tensor-core product."""

from __future__ import annotations

import cupy
import numpy as np
from cuda.core import Device, Stream

from warplab.gpu import trusted
from warplab.gpu.executor import on_stream
from warplab.gpu.stopwatch import TurnTimes, time_in_turns
from warplab.hardware import ceilings as store
from warplab.hardware.ceilings import Ceilings
from warplab.hardware.device import Device as PresentDevice

COPY_BYTES = 2 << 30  # read plus written by one copy, where the memory allows; far beyond every L2
_FMA_STEPS = 4096
_TENSOR_STEPS = 8192


class Calibration:
    """A candidate whose work is known: `work` bytes or floating-point operations a launch."""

    launches = 1
    work: float

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the work."""
        raise NotImplementedError

    def check(self, turn: int) -> None:
        """Nothing to check."""


class Copy(Calibration):
    """A streaming copy of 16-byte elements from one buffer to another."""

    def __init__(self, stream: Stream, size: int | None = None) -> None:
        size = size or _copied(1)
        self._stream = stream
        self._in, self._out = (cupy.zeros(size, dtype=cupy.uint8) for _ in range(2))
        self._elements = size // 16
        self.work = 2.0 * size

    def launch(self) -> None:
        """Queue one copy."""
        pointers = np.uint64(self._in.data.ptr), np.uint64(self._out.data.ptr)
        trusted.run(self._stream, "copy", self._elements // 256, 256, *pointers, np.uint64(self._elements))


def _copied(placements: int) -> int:
    """Bytes of one buffer if `placements` pairs of them share half of the free memory."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    return min(COPY_BYTES // 2, free // (4 * placements)) // 32768 * 32768


def copies(stream: Stream, placements: int) -> list[Copy]:
    """The same copy several times, between buffers in different places."""
    size = _copied(placements)
    return [Copy(stream, size) for _ in range(placements)]


class Fp32Fma(Calibration):
    """Independent float32 FMAs on every SM."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._sink = cupy.zeros(512, dtype=cupy.float32)
        self._blocks = 4 * Device().properties.multiprocessor_count
        self.work = float(self._blocks * 512 * _FMA_STEPS * trusted.FMA_FLOPS_PER_STEP)

    def launch(self) -> None:
        """Queue a few milliseconds of FMAs."""
        arguments = np.uint64(self._sink.data.ptr), np.float32(0.999), np.float32(0.001), np.int32(_FMA_STEPS)
        trusted.run(self._stream, "fma_fp32", self._blocks, 512, *arguments)


class TensorFp16(Calibration):
    """Dense products with float32 accumulation from shared memory (Hopper) or from registers (others)."""

    name = "tensor_fp16"

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._sink = cupy.zeros(trusted.TENSOR_THREADS, dtype=cupy.float32)
        self._blocks = Device().properties.multiprocessor_count
        major, minor = Device().compute_capability
        self.work = float(self._blocks * _TENSOR_STEPS * trusted.tensor_flops_per_step(self.name, (major, minor)))

    def launch(self) -> None:
        """Queue a few milliseconds of products."""
        arguments = np.uint64(self._sink.data.ptr), np.int32(_TENSOR_STEPS)
        trusted.run(self._stream, self.name, self._blocks, trusted.TENSOR_THREADS, *arguments)


class TensorFp8(TensorFp16):
    """The same with operands in e4m3."""

    name = "tensor_fp8"


CANDIDATES = {"copy": Copy, "fp32_fma": Fp32Fma, "tensor_fp16": TensorFp16, "tensor_fp8": TensorFp8}
_SINCE = {"tensor_fp16": (7, 5), "tensor_fp8": (8, 9)}  # compute capabilities


def measure(device: PresentDevice, *, fresh: bool = False, budget_seconds: float = 2.0) -> Ceilings:
    """The ceilings of the GPU of this process: those kept for it, unless `fresh` asks for a new measurement."""
    measured = [name for name in CANDIDATES if device.compute_capability >= _SINCE.get(name, (0, 0))]
    kept = None if fresh else store.load(device.uuid, device.driver)
    if kept and all(getattr(kept, name) for name in measured):  # an older version measured less
        return kept
    rates: dict[str, float | None] = {}
    for name, candidate in CANDIDATES.items():
        if name not in measured:
            rates |= {name: None, f"{name}_low": None, f"{name}_high": None}
            continue
        with on_stream() as stream:
            calibration = candidate(stream)
            time = _one(name, calibration, stream, budget_seconds).time(name)
        work = calibration.work * 1e3
        rates |= {name: work / time.value, f"{name}_low": work / time.high, f"{name}_high": work / time.low}
    ceilings = Ceilings(gpu=device.name, uuid=device.uuid, driver=device.driver, **rates)  # type: ignore[arg-type]
    store.save(ceilings)
    return ceilings


def _one(name: str, calibration: Calibration, stream: Stream, budget_seconds: float) -> TurnTimes:
    return time_in_turns({name: calibration}, stream, budget_seconds=budget_seconds, precision=0.002)
