"""The Plan: a submission compiled into data.

A plan holds everything that is needed to run a student's kernels and nothing that could run anywhere else: the kernels
as PTX, the buffers, and the ordered launches. It is what a CUDA graph is, written down. These classes only hold data;
`capture` makes plans, `archive` reads and writes them, `assemble` adds cubins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import numpy as np

NOTHING: Mapping = MappingProxyType({})
Dim3 = tuple[int, int, int]


class Role(StrEnum):
    """What a buffer is to the host function that was captured."""

    INPUT = "input"  # filled before the first launch, must come back unchanged
    OUTPUT = "output"  # poisoned before the first launch, read after the last
    INOUT = "inout"  # filled before, read after
    SCRATCH = "scratch"  # allocated by the submission itself, and filled by it if it has `content`


class Language(StrEnum):
    """The language a kernel was written in."""

    NUMBA = "numba"
    CUDA_CPP = "cuda-c++"


@dataclass(frozen=True)
class Buffer:
    """A device array of the plan. `shape` in elements, `strides` in bytes, `dtype` a NumPy dtype name.

    `content` is what an array that the host function filled itself starts each execution with: bytes that are repeated
    until it is full, all of them or those of one element. Without it, and unless `zeroed`, scratch starts poisoned.
    """

    name: str
    role: Role
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    zeroed: bool = False  # scratch made by cupy.zeros: cleared before the first launch
    content: bytes = field(default=b"", repr=False)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last one; 0 for an empty array."""
        if 0 in self.shape:
            return 0
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.itemsize


@dataclass(frozen=True)
class Pointer:
    """A kernel argument that is the address of byte `offset` of `buffer`; `parameter` is the kernel's name for it."""

    buffer: str
    offset: int = 0
    parameter: str = ""


@dataclass(frozen=True)
class Value:
    """A kernel argument passed by value; `dtype` a NumPy dtype name, `parameter` the kernel's name for it."""

    dtype: str
    value: int | float
    parameter: str = ""

    def to_bytes(self) -> bytes:
        """Little-endian bytes as the kernel sees them."""
        return np.array(self.value, dtype=self.dtype).tobytes()


@dataclass(frozen=True)
class Structure:
    """A kernel argument of several values, passed by value: the bytes of a structure as the kernel sees them."""

    content: bytes
    parameter: str = ""

    def to_bytes(self) -> bytes:
        """The bytes as the kernel sees them."""
        return self.content


@dataclass(frozen=True)
class TensorMap:
    """A kernel argument that tells the tensor memory accelerator how a tensor lies in `buffer` from byte `offset` on.

    It is what cuTensorMapEncodeTiled takes, without interleaving. Dimensions count from the innermost one. A parameter
    of 128 bytes gets the encoded map itself, one of 8 bytes the address of a copy of it in global memory. `dtype` is a
    NumPy dtype name or "bfloat16"; `shape`, `box` and `element_strides` are in elements, `strides` in bytes, from
    dimension 1 on. `swizzle` and `l2_promotion` are in bytes, 0 for none. `tensor_maps.problem` has the rules.
    """

    buffer: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int = 0
    l2_promotion: int = 0
    fill: str = "zero"  # what elements outside of the tensor read as: "zero" or "nan"
    parameter: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes from the tensor's first element to the end of its last one."""
        size = ELEMENT_BYTES[self.dtype]
        outer = zip(self.shape[1:], self.strides, strict=True)
        return self.shape[0] * size + sum((n - 1) * s for n, s in outer)


# Bytes of the element types that a tensor map can have; "bfloat16" has no NumPy dtype.
ELEMENT_BYTES: Mapping[str, int] = {
    "uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "float32": 4, "float64": 8, "bfloat16": 2,
}  # fmt: skip

Argument = Pointer | Value | Structure | TensorMap


@dataclass(frozen=True)
class Parameter:
    """One `.param` of a PTX entry: its size and alignment in bytes, and the student's name for it where known.

    A Numba array is several parameters with one name (meminfo, parent, nitems, itemsize, data, shape, strides).
    """

    name: str
    size: int
    align: int


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture with the figures that ptxas reported for it."""

    image: bytes = field(repr=False)
    registers: int  # per thread
    spill_stores: int  # bytes per thread
    spill_loads: int  # bytes per thread
    stack: int  # bytes per thread
    static_shared: int  # bytes per block


@dataclass(frozen=True)
class Kernel:
    """One `__global__` function. `ptx` and `cubins` map an architecture ("sm_90a") to its code."""

    name: str  # as the student wrote it
    entry: str  # the symbol in the PTX
    language: Language
    parameters: tuple[Parameter, ...]
    ptx: Mapping[str, str] = field(repr=False)
    cubins: Mapping[str, Cubin] = field(default_factory=lambda: NOTHING, repr=False)
    max_dynamic_shared: int | None = None  # bytes the student asked for by max_dynamic_shared_size_bytes; None: not set
    line: int = 0  # where it is defined in the submission


@dataclass(frozen=True)
class Launch:
    """One launch, in order. Arguments match the kernel's PTX parameters one to one."""

    kernel: str  # a key of Plan.kernels
    grid: Dim3
    block: Dim3
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0  # dynamic
    cluster: Dim3 = (1, 1, 1)
    line: int = 0  # where the host function launched it
    cooperative: bool = False  # all blocks are on the GPU at one time, and can wait for each other


@dataclass(frozen=True)
class Plan:
    """Kernels, buffers and ordered launches of one call of one host function.

    `source` is the submission's text, to show a student the line a finding or a counter is about; it is never run.
    """

    function: str
    kernels: Mapping[str, Kernel]
    buffers: Mapping[str, Buffer]
    launches: tuple[Launch, ...]
    source: str = field(default="", repr=False)
    source_name: str = "submission.py"
    # Versions of numba-cuda, nvrtc, nvvm: of what made the PTX.
    versions: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    def arguments(self, role: Role) -> dict[str, Buffer]:
        """The buffers of one role, by name."""
        return {name: b for name, b in self.buffers.items() if b.role is role}


@dataclass(frozen=True)
class ArrayArgument:
    """An array that the host function is called with: contiguous in C order. `role` is never SCRATCH."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar that the host function is called with, as a plain Python int, float or bool."""

    name: str
    value: int | float


@dataclass(frozen=True)
class HostCall:
    """What to capture: the function to call and what to call it with."""

    function: str
    arguments: tuple[ArrayArgument | ScalarArgument, ...]


EMULATED_ARCHITECTURE = "sm_90a"
