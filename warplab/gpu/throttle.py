"""Notices, through NVML, that the GPU slowed its clocks for heat or hardware protection during a measurement."""

from __future__ import annotations

import contextlib

import pynvml

from warplab.hardware.device import Device

# NVML's nvmlClocksEventReasons that make a time unfit for comparison. A software power cap is not among them: large
# products run into it on healthy cards, and the ceilings measured beside them run into it too.
_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class Throttle:
    """Use as a context manager around a measurement; `seen` and `reasons` tell what was active at its end."""

    def __init__(self, device: Device) -> None:
        self._uuid = device.uuid
        self.reasons: list[str] = []

    @property
    def seen(self) -> bool:
        """Whether the GPU was throttled."""
        return bool(self.reasons)

    def __enter__(self) -> Throttle:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(pynvml.NVMLError):  # a driver without NVML cannot say, and the time still stands
            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByUUID(self._uuid)
            active = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            self.reasons = [name for bit, name in _REASONS.items() if active & bit]
