"""What the capture takes of numba-cuda's insides, from 0.22 (Colab's) to 0.30: no other module imports them.

`benchmarks.toolkits` tries each of these versions. What moves in the next one is mended here.
"""

from __future__ import annotations

from typing import Any

from numba.cuda import api, dispatcher
from numba.cuda import compiler as numba_compiler
from numba.cuda import types as numba_types
from numba.cuda.core import sigutils
from numba.cuda.cudadrv import nvvm as numba_nvvm
from numba.cuda.cudadrv.linkable_code import CUSource
from numba.cuda.np import numpy_support
from numba.cuda.typing.typeof import Purpose, typeof

try:
    from numba.cuda.core.callconv import CUDACallConv
except ImportError:  # its place in 0.22
    from numba.cuda.target import CUDACallConv

__all__ = [
    "CUDACallConv",
    "CUSource",
    "Purpose",
    "api",
    "compiler",
    "dispatcher",
    "intermediate",
    "nvvm",
    "numpy_support",
    "sigutils",
    "typeof",
    "types",
]

# Built at import time: no type checker knows what is in them.
compiler: Any = numba_compiler
nvvm: Any = numba_nvvm
types: Any = numba_types


def intermediate(library: Any, architecture: str, **options: Any) -> bytes:
    """What NVVM makes of a code library for an architecture such as "sm_90a": PTX, or LTO-IR with `gen-lto`.

    It is what numba-cuda's own get_asm_str and get_ltoir do, but for architectures that older versions cannot name.
    """
    target = architecture.replace("sm_", "compute_")
    return nvvm.compile_ir(library.llvm_strs, **(library._nvvm_options | options), arch=target)
