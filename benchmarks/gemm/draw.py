"""What a product draws: the SM clock and the power while it runs back to back for a while, as NVML has them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

_BATCH = 0.02  # seconds of launches between two looks at the clock


@dataclass(frozen=True)
class Drawn:
    """Milliseconds a launch, the SM clock in MHz (median), the power in W (energy by time), the temperature in C."""

    ms: float
    clock: float
    power: float
    temperature: float


def back_to_back(candidate: Any, stream: Any, uuid: str, seconds: float) -> Drawn:
    """Launch a candidate for so long without a gap. Raises pynvml.NVMLError where the driver does not say."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        candidate.launch()
        stream.sync()
        begin = time.perf_counter()
        candidate.launch()
        stream.sync()
        batch = max(1, round(_BATCH / (time.perf_counter() - begin)))
        energy, begin = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), time.perf_counter()
        launched, clocks, waiting = 0, [], None
        while time.perf_counter() - begin < seconds:
            for _ in range(batch):
                candidate.launch()
            launched += batch
            queued = stream.record()
            if waiting is not None:
                waiting.sync()
            waiting = queued
            clocks.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        stream.sync()
        took = time.perf_counter() - begin
        joules = (pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - energy) * 1e-3
        degrees = pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
        return Drawn(took / launched * 1e3, median(clocks), joules / took, degrees)
    finally:
        pynvml.nvmlShutdown()
