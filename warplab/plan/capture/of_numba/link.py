"""Links a Numba kernel with the CUDA C++ functions that Numba itself leaves to its linker: half precision, reshape.

Numba hands the kernel as LTO-IR and these functions, compiled by NVRTC, to nvJitLink, which inlines them. The same is
done here, except that nvJitLink stops at PTX, so that what leaves the capture is one module that needs no linker.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from numba import cuda

from warplab.errors import CompileError
from warplab.isa.entry import externals
from warplab.plan.capture.nvrtc import compile_lto, version
from warplab.plan.capture.of_numba.insides import CUSource, intermediate

# Numba marks this flag "warning", NVRTC "error", which LLVM does not link; "override" goes with either.
_DEBUG_VERSION = re.compile(r"i32 \d+, (!\"Debug Info Version\")")
# What Numba calls for cuda.cg.this_grid().sync(), which is CUDA's device runtime outside of a capture.
_GRID = """
#include <cooperative_groups.h>
extern "C" __device__ unsigned long long cudaCGGetIntrinsicHandle(enum cudaCGScope) { return 1; }
extern "C" __device__ cudaError_t cudaCGSynchronize(unsigned long long, unsigned int) {
    cooperative_groups::this_grid().sync();
    return cudaSuccess;
}
"""


def ptx_of(library: Any, architecture: str) -> str:
    """The PTX of a code library for an architecture such as "sm_90a"."""
    return intermediate(library, architecture).decode().strip("\0").strip()


def linked(library: Any, ptx: str, architecture: str) -> str:
    """The PTX of a code library after link-time optimisation, with the functions in CUDA C++ that it calls.

    Raises CompileError if a source does not compile or link, or if code that is no source is to be linked.
    """
    folder = Path(cuda.__path__[0])
    sources = _sources(library)
    if "numba_attempt_nocopy_reshape" in ptx:
        sources["reshape_funcs.cu"] = (folder / "reshape_funcs.cu").read_text()
    if "cudaCG" in ptx:
        sources["grid.cu"] = _GRID
    library._llvm_strs = [_DEBUG_VERSION.sub(r"i32 4, \1", text) for text in library.llvm_strs]
    if not sources and externals(ptx):  # the caller names what is missing
        return ptx
    include = [folder / "include" / version().partition(".")[0], folder / "memory_management"]
    parts = [intermediate(library, architecture, **{"gen-lto": None})]
    parts += [compile_lto(code, name, include, architecture) for name, code in sources.items()]
    return _link(parts, architecture)


def _sources(library: Any) -> dict[str, str]:
    sources: dict[str, str] = {}
    for i, code in enumerate(sorted(library._linking_files, key=lambda c: str(getattr(c, "data", c)))):
        if not isinstance(code, CUSource):
            raise CompileError("it links a file: keep everything in this file")
        text = code.data
        sources[f"numba_{i}.cu"] = text.decode() if isinstance(text, bytes) else text
    return sources


def _link(parts: list[bytes], architecture: str) -> str:
    try:
        from cuda.bindings import nvjitlink
    except ImportError:
        raise CompileError("it needs nvJitLink: install the nvidia-nvjitlink package") from None
    options = [f"-arch={architecture}", "-lto", "-ptx", "-lineinfo"]
    handle = nvjitlink.create(len(options), options)
    try:
        for i, part in enumerate(parts):
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, part, len(part), f"part{i}")
        nvjitlink.complete(handle)
        ptx = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, ptx)
    except nvjitlink.nvJitLinkError:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        words = " ".join(log.rstrip(b"\0 ").decode("utf-8", "replace").split())
        raise CompileError(f"it does not link ({words[:200]})") from None
    finally:
        nvjitlink.destroy(handle)
    return ptx.rstrip(b"\0 ").decode()
