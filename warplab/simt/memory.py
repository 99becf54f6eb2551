"""The address space of a plan: buffers, module variables and parameter banks as regions of one 64-bit space.

Each region has a window of 2**38 bytes to itself and starts in its middle, so a pointer that strays stays in reach of
the array that it belongs to, and the finding can name it. What a kernel may read before writing it is filled with 0xFF
bytes, which are NaN in every float format.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from warplab.errors import PlanError
from warplab.plan.model import Buffer, Plan, Role
from warplab.simt.layout import (
    FIRST_REGION,
    R_BYTES,
    R_FIELDS,
    R_FIRST_STORE,
    R_FLAGS,
    R_HOST,
    R_SHADOW,
    R_TRACKED,
    R_WATCH,
    R_WRITABLE,
    R_WRITER_PC,
    WINDOW_BITS,
    WINDOW_HALF,
)
from warplab.simt.ptx import Module, Variable

POISON = 0xFF
ALIGNMENT = 256  # of a buffer's first byte, as cudaMalloc gives it


def aligned_bytes(size: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """An uninitialised uint8 array whose first byte is aligned."""
    raw = np.empty(size + alignment, dtype=np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


@dataclass
class Region:
    """A piece of memory that kernels can address. `written` is the map of defined bytes, where one is kept."""

    name: str
    data: np.ndarray
    writable: bool = True
    written: np.ndarray | None = None
    buffer: Buffer | None = None
    watched: int = -1  # the place of the byte whose writers are noted, if it has a map of defined bytes


@dataclass
class AddressSpace:
    """All regions of one execution, in the order of their addresses."""

    regions: list[Region] = field(default_factory=list)

    def add(self, region: Region) -> int:
        """Append a region; returns the address of its first byte."""
        self.regions.append(region)
        return self.address(len(self.regions) - 1)

    @staticmethod
    def address(index: int) -> int:
        """The address of the first byte of the index-th region."""
        return ((FIRST_REGION + index) << WINDOW_BITS) + WINDOW_HALF

    def find(self, address: int) -> tuple[Region | None, int]:
        """The region whose window holds an address, and the place in it (which may lie outside the region)."""
        index = (address >> WINDOW_BITS) - FIRST_REGION
        if 0 <= index < len(self.regions):
            return self.regions[index], address - self.address(index)
        return None, address

    def read_string(self, address: int) -> str:
        """A zero-terminated string; empty if the address is no good."""
        region, place = self.find(address)
        if region is None or not 0 <= place < region.data.size:
            return ""
        data = region.data[place:].tobytes()
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")

    def table(self) -> np.ndarray:
        """The regions as the interpreter reads them: int64 [FIRST_REGION + regions, R_FIELDS]."""
        table = np.zeros((FIRST_REGION + len(self.regions), R_FIELDS), dtype=np.int64)
        for entry, region in zip(table[FIRST_REGION:], self.regions, strict=True):
            entry[R_HOST] = region.data.ctypes.data
            entry[R_BYTES] = region.data.size
            entry[R_FLAGS] = (R_WRITABLE if region.writable else 0) | (R_TRACKED if region.written is not None else 0)
            entry[R_SHADOW] = region.written.ctypes.data if region.written is not None else 0
            entry[R_FIRST_STORE] = -1
            entry[R_WATCH], entry[R_WRITER_PC] = region.watched, -1
        return table


def buffer_view(buffer: Buffer, data: np.ndarray) -> np.ndarray:
    """The bytes of a region as the array that the buffer describes."""
    dtype = np.dtype(buffer.dtype)
    if 0 in buffer.shape:
        return np.zeros(buffer.shape, dtype)
    return np.ndarray(buffer.shape, dtype, buffer=data, strides=buffer.strides)


def plan_regions(plan: Plan, inputs: dict[str, np.ndarray], sanitize: bool) -> list[Region]:
    """A region for each buffer of the plan, filled, zeroed or poisoned as its role asks for.

    Raises PlanError when an input is missing or has another shape or dtype than its buffer.
    """
    regions = []
    for name, buffer in plan.buffers.items():
        data = aligned_bytes(buffer.nbytes)
        data.fill(0 if buffer.zeroed else POISON)
        defined = buffer.zeroed
        if buffer.role in (Role.INPUT, Role.INOUT):
            if name not in inputs:
                raise PlanError(f"The plan's buffer {name} got no input array; pass inputs[{name!r}].")
            array = np.asarray(inputs[name])
            if array.shape != buffer.shape or array.dtype != np.dtype(buffer.dtype):
                raise PlanError(
                    f"The input {name} is {array.dtype}{list(array.shape)}, but the plan was captured with "
                    f"{buffer.dtype}{list(buffer.shape)}; capture it again with these arguments."
                )
            buffer_view(buffer, data)[...] = array
            defined = True
        written = None if defined or not sanitize else np.zeros(buffer.nbytes, dtype=np.uint8)
        regions.append(Region(name, data, written=written, buffer=buffer))
    return regions


def variable_region(variable: Variable) -> Region:
    """Memory for a module's .global or .const variable; without an initialiser it is zero, as the driver makes it."""
    data = aligned_bytes(max(variable.size, 1))
    data.fill(0)
    data[: len(variable.initial)] = np.frombuffer(variable.initial, dtype=np.uint8)
    return Region(variable.name, data, writable=variable.space != "const")


def module_addresses(space: AddressSpace, module: Module) -> dict[str, int]:
    """Give every variable of a module memory; returns their addresses by name."""
    addresses: dict[str, int] = {}
    regions: dict[str, Region] = {}
    for name, variable in module.variables.items():
        if variable.space in ("global", "const"):
            regions[name] = variable_region(variable)
            addresses[name] = space.add(regions[name])
    functions = module.function_addresses()
    for name, region in regions.items():
        for offset, symbol, addend in module.variables[name].pointers:
            value = np.array((addresses.get(symbol) or functions.get(symbol, 0)) + addend, dtype=np.int64)
            region.data[offset : offset + 8] = value.reshape(1).view(np.uint8)
    return addresses
