"""What the capture takes of numba-cuda's insides, from 0.22 (Colab's) to 0.30: no other module imports them.

`benchmarks.toolkits` tries each of these versions. What moves in the next one is mended here.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir.types import Type as LLVMType
from llvmlite.ir.values import DIValue
from numba.cuda import api, dispatcher
from numba.cuda import compiler as numba_compiler
from numba.cuda import types as numba_types
from numba.cuda.core import sigutils
from numba.cuda.core.targetconfig import ConfigStack, TargetConfig
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
    "ConfigStack",
    "DIValue",
    "LLVMType",
    "Purpose",
    "TargetConfig",
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


def texts(library: Any) -> list[str]:
    """The LLVM IR of a code library and of those that it links, one text a module: who calls before who is called.

    NVVM takes of a module what those before it call. Numba names a module once for every way that leads to it, in the
    order of sets, so that NVVM reads some of them several times, and the declarations in what comes out have another
    order in each process: nobody could tell that it is the same code.
    """
    if library._llvm_strs is None:
        called_first: dict[Any, None] = {}
        _visit(library, called_first)
        library._llvm_strs = [str(module) for module in reversed(called_first)]
    return library._llvm_strs


def _visit(library: Any, seen: dict[Any, None]) -> None:
    """Add a library's module to those seen, after those of all that it links; what is in CUDA C++ has none."""
    linked = [other for other in library._linking_libraries if getattr(other, "_module", None)]
    for other in sorted(linked, key=_order):
        if other._module not in seen:
            _visit(other, seen)
    seen[library._module] = None


def _order(library: Any) -> tuple[str, int]:
    """By name and then by Numba's count of compiled functions, which ends the name of a module."""
    name, _, count = library._module.name.rpartition("$")
    return (name, int(count)) if count.isdigit() else (library._module.name, 0)


def intermediate(library: Any, architecture: str, **options: Any) -> bytes:
    """What NVVM makes of a code library for an architecture such as "sm_90a": PTX, or LTO-IR with `gen-lto`.

    It is what numba-cuda's own get_asm_str and get_ltoir do, but for architectures that older versions cannot name.
    """
    target = architecture.replace("sm_", "compute_")
    return nvvm.compile_ir(texts(library), **(library._nvvm_options | options), arch=target)
