"""Which CUDA toolkit's packages are installed, and which drivers load what it compiles."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

CUPY = ("cupy-cuda13x", "cupy-cuda12x")  # one of them is installed
# A driver loads what any toolkit of its major version compiles: CUDA Compatibility, "Minor Version Compatibility".
LEAST_DRIVER = {12: "525.60.13", 13: "580.65.06"}


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


def refusal(driver: str, major: int | None) -> str:
    """Why a driver such as "550.54.15" does not load what a toolkit of this major version compiles, or ""."""
    least = LEAST_DRIVER.get(major or 0, "")
    if not least or _numbers(driver) >= _numbers(least):
        return ""
    return f"driver {driver} does not load what CUDA {major} compiles, which needs {least}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
