"""What this machine can grade on, and the words for it in a report."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

from autograder.verdict import Device
from warplab.errors import DeviceError

EMULATED_ARCHITECTURE = "sm_90a"
_PACKAGES = ("warplab", "numba", "numba-cuda", "cupy-cuda13x", "cuda-core", "nvidia-cuda-nvcc", "numpy")


@dataclass(frozen=True)
class Machine:
    """The device that grades: `architecture` is what plans are assembled for, `hardware` names it in reports."""

    device: Device
    architecture: str
    hardware: str


def choose_machine(wanted: str) -> Machine:
    """The machine for "auto", "gpu" or "emulator". Raises DeviceError if a GPU is wanted and there is none."""
    if wanted != "emulator":
        from warplab.hardware.device import architecture_of, present

        gpu = present()
        if gpu is not None:
            return Machine(Device.GPU, architecture_of(gpu), f"{gpu.name}, driver {gpu.driver}")
        if wanted == "gpu":
            raise DeviceError("No usable GPU was found: run `autograder doctor`, or grade with --device emulator.")
    return Machine(
        Device.EMULATOR, EMULATED_ARCHITECTURE, f"emulator ({EMULATED_ARCHITECTURE}) on {platform.machine()}"
    )


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a grade depends on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
