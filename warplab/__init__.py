"""Warplab: write GPU kernels, run them anywhere, and see where their time and bytes go."""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """`warplab.run`, imported when it is first asked for: the rest needs no emulator."""
    if name in ("run", "run_file"):
        return getattr(import_module("warplab.own_kernels"), name)
    raise AttributeError(f"module 'warplab' has no attribute {name!r}")
