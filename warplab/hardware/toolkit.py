"""Which CUDA toolkit's packages are installed, and which drivers load what it compiles."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

CUPY = ("cupy-cuda13x", "cupy-cuda12x")  # one of them is installed
# A driver loads what any toolkit of its major version compiles: CUDA Compatibility, "Minor Version Compatibility".
LEAST_DRIVER = {12: "525.60.13", 13: "580.65.06"}
# CUDA 13 compiles for no older GPU (its release notes, "Deprecated Architectures"); with CUDA 12 it is what plans know.
LEAST_CAPABILITY = {12: (7, 0), 13: (7, 5)}


def installed(distributions: Sequence[str]) -> str:
    """The first of these distributions that is installed, else the first."""
    return next(filter(_is_installed, distributions), distributions[0])


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def toolkit() -> int | None:
    """The major version of the installed toolkit, 12 or 13, or None without one. CuPy's build tells: PyTorch may bring
    another `cuda-toolkit` along."""
    name = installed(CUPY)
    return int(name[9:11]) if _is_installed(name) else None


def refusal(driver: str, capability: tuple[int, int], major: int | None) -> str:
    """Why a GPU of this compute capability, with a driver such as "550.54.15", runs nothing that a toolkit of this
    major version compiles, or "". A driver whose version nobody knows, as in some containers, is taken to serve."""
    if major not in LEAST_DRIVER:
        return ""
    if capability < LEAST_CAPABILITY[major]:
        return f"CUDA {major} compiles here for {_name(LEAST_CAPABILITY[major])} and newer, not for {_name(capability)}"
    if not _numbers(driver) or _numbers(driver) >= _numbers(LEAST_DRIVER[major]):
        return ""
    return f"driver {driver} does not load what CUDA {major} compiles, which needs {LEAST_DRIVER[major]}"


def remedy(driver: str, capability: tuple[int, int]) -> str:
    """What to do where a GPU is refused, as a command: which packages set-up chooses, the driver and the GPU decide."""
    oldest = min(LEAST_DRIVER)
    if capability < LEAST_CAPABILITY[oldest]:
        return f"use a GPU of {_name(LEAST_CAPABILITY[oldest])} or newer"
    if _numbers(driver) and _numbers(driver) < _numbers(LEAST_DRIVER[oldest]):
        return f"renew the driver, from {LEAST_DRIVER[oldest]} on, then remove .venv and run `make venv`"
    return "remove .venv and run `make venv`, which installs the packages that this GPU and its driver take"


def _name(capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
