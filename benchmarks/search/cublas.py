"""The few calls of cuBLAS and cuBLASLt that a race needs, by ctypes: c = a b, float16, sums in float32.

The libraries are those that PyTorch has loaded, so that torch.matmul and these run the same code. Matrices in C order
are their transposes in the library's order, and c' = b' a'. Names and numbers are those of cublas_api.h and cublasLt.h
(cuBLAS documentation, sections 2 and 3).
"""

from __future__ import annotations

import ctypes
import re
from ctypes import Structure, byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from systems.search.half_product import Shape
from warplab.errors import DeviceError

WORKSPACE = 32 << 20  # bytes: what the documentation recommends for Hopper, cublasSetWorkspace
_FLOAT32, _FLOAT16 = 0, 2  # cudaDataType
_SUMS_IN_FLOAT32 = 68  # CUBLAS_COMPUTE_32F
_AS_IT_LIES, _ITS_CHOICE = 0, -1  # CUBLAS_OP_N, CUBLAS_GEMM_DEFAULT
_MOST_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES


class Heuristic(Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, the workspace that it wants, and whether it can be used."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


def loaded(name: str) -> ctypes.CDLL:
    """A library that this process has loaded already, such as "libcublasLt". Raises DeviceError if it has not."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    found = re.search(rf"/\S*/{name}\.so\S*", maps)
    if found is None:
        raise DeviceError(f"{name} is not loaded here: import a PyTorch that was built for CUDA first.")
    return ctypes.CDLL(found[0])


def checked(status: int, call: str) -> None:
    """Raise DeviceError unless a call succeeded."""
    if status:
        raise DeviceError(f"{call} failed with status {status} (cublasStatus_t).")


def _pointer(address: int) -> c_void_p:
    return c_void_p(address)


class Operands:
    """Addresses on the device of a, b and c, of a workspace, and the shape."""

    def __init__(self, shape: Shape, a: int, b: int, c: int, workspace: int) -> None:
        self.shape = shape
        self.a, self.b, self.c, self.workspace = map(_pointer, (a, b, c, workspace))


class Cublas:
    """cublasGemmEx as a candidate: the library chooses."""

    launches = 2  # at most: a product, and a sum of its parts

    def __init__(self, stream: int, operands: Operands) -> None:
        self._library = loaded("libcublas")
        self._handle = c_void_p()
        checked(self._library.cublasCreate_v2(byref(self._handle)), "cublasCreate")
        checked(self._library.cublasSetStream_v2(self._handle, _pointer(stream)), "cublasSetStream")
        room = self._handle, operands.workspace, c_size_t(WORKSPACE)
        checked(self._library.cublasSetWorkspace_v2(*room), "cublasSetWorkspace")
        (m, n, k), one, zero = operands.shape, c_float(1), c_float(0)
        self._arguments = (
            self._handle, c_int(_AS_IT_LIES), c_int(_AS_IT_LIES), c_int(n), c_int(m), c_int(k), byref(one),
            operands.b, c_int(_FLOAT16), c_int(n), operands.a, c_int(_FLOAT16), c_int(k), byref(zero),
            operands.c, c_int(_FLOAT16), c_int(n), c_int(_SUMS_IN_FLOAT32), c_int(_ITS_CHOICE),
        )  # fmt: skip

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        checked(self._library.cublasGemmEx(*self._arguments), "cublasGemmEx")

    def check(self, turn: int) -> None:
        """Nothing to check."""

    def close(self) -> None:
        """Give the handle back."""
        self._library.cublasDestroy_v2(self._handle)


class CublasLt:
    """What cuBLASLt's heuristic says of one product, best first: `candidates` are its algorithms, ready to be timed."""

    def __init__(self, stream: int, operands: Operands, most: int) -> None:
        self.library = library = loaded("libcublasLt")
        self.handle, self.stream, self.operands = c_void_p(), _pointer(stream), operands
        checked(library.cublasLtCreate(byref(self.handle)), "cublasLtCreate")
        self.description, self.layouts = c_void_p(), {}
        description = byref(self.description), c_int(_SUMS_IN_FLOAT32), c_int(_FLOAT32)
        checked(library.cublasLtMatmulDescCreate(*description), "cublasLtMatmulDescCreate")
        m, n, k = operands.shape
        for name, rows, columns in (("b", n, k), ("a", k, m), ("c", n, m)):
            self.layouts[name] = layout = c_void_p()
            sizes = c_int(_FLOAT16), c_uint64(rows), c_uint64(columns), c_int64(rows)
            checked(library.cublasLtMatrixLayoutCreate(byref(layout), *sizes), "cublasLtMatrixLayoutCreate")
        self.candidates = [Algorithm(self, found) for found in self._heuristics(most)]
        if not self.candidates:
            raise DeviceError(f"cuBLASLt knows no algorithm for {m} x {n} x {k}.")

    def _heuristics(self, most: int) -> list[Heuristic]:
        preference, found, count = c_void_p(), (Heuristic * most)(), c_int()
        checked(self.library.cublasLtMatmulPreferenceCreate(byref(preference)), "cublasLtMatmulPreferenceCreate")
        room = c_size_t(WORKSPACE)
        attribute = preference, c_int(_MOST_WORKSPACE), byref(room), c_size_t(ctypes.sizeof(room))
        status = self.library.cublasLtMatmulPreferenceSetAttribute(*attribute)
        checked(status, "cublasLtMatmulPreferenceSetAttribute")
        b, a, c = (self.layouts[name] for name in "bac")
        asked = self.handle, self.description, b, a, c, c, preference, c_int(most), found, byref(count)
        checked(self.library.cublasLtMatmulAlgoGetHeuristic(*asked), "cublasLtMatmulAlgoGetHeuristic")
        self.library.cublasLtMatmulPreferenceDestroy(preference)
        return [one for one in found[: count.value] if one.state == 0 and one.workspace <= WORKSPACE]

    def close(self) -> None:
        """Give everything back."""
        for layout in self.layouts.values():
            self.library.cublasLtMatrixLayoutDestroy(layout)
        self.library.cublasLtMatmulDescDestroy(self.description)
        self.library.cublasLtDestroy(self.handle)


class Algorithm:
    """One algorithm of cuBLASLt as a candidate."""

    launches = 2  # at most: a product, and a sum of its parts

    def __init__(self, product: CublasLt, found: Heuristic) -> None:
        self._product, self._found = product, found  # which the arguments point into
        operands, layouts = product.operands, product.layouts
        one, zero = c_float(1), c_float(0)
        self._arguments: tuple[Any, ...] = (
            product.handle, product.description, byref(one), operands.b, layouts["b"], operands.a, layouts["a"],
            byref(zero), operands.c, layouts["c"], operands.c, layouts["c"],
            byref(found),  # whose first field is the algorithm
            operands.workspace, c_size_t(found.workspace), product.stream,
        )  # fmt: skip

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        checked(self._product.library.cublasLtMatmul(*self._arguments), "cublasLtMatmul")

    def check(self, turn: int) -> None:
        """Nothing to check."""
