"""Kernels of a module of PTX on this process's GPU.

They are loaded through CuPy, which a machine without a GPU may lack: imported in a rank's process only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cupy

from warplab.plan.capture.nvrtc import Module


def functions(module: Module, names: Iterable[str]) -> dict[str, Any]:
    """CuPy's kernels by their names in C++."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.ptx"
        path.write_text(module.ptx)
        loaded = cupy.RawModule(path=str(path))
        found = {name: loaded.get_function(module.lowered[name]) for name in names}
        assert all(function.num_regs for function in found.values())  # has them loaded while the file is there
    return found
