"""The address space of a plan: buffers, module variables and parameter banks as regions of one 64-bit space.

Addresses look like those of device memory on a Linux host and differ from one execution to the next, so that a kernel
cannot tell the emulator by them. Each region has a window of 2**34 bytes to itself, or several, and starts near the
middle of the first, so a pointer that strays stays in reach of the array that it belongs to, and the finding can name
it. What a kernel may read before writing it is filled with 0xFF bytes, which are NaN in every float format.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from warplab.emulator.core.state.layout import (
    FIRST_WINDOW,
    R_BYTES,
    R_FIELDS,
    R_FIRST_STORE,
    R_FLAGS,
    R_HOST,
    R_SHADOW,
    R_START,
    R_TRACKED,
    R_WATCH,
    R_WRITABLE,
    R_WRITER_PC,
    WINDOW_BITS,
    WINDOW_HALF,
    WINDOWS,
)
from warplab.errors import PlanError
from warplab.isa.syntax import Module, Variable
from warplab.plan.model import Buffer, Plan, Role

POISON = 0xFF
ALIGNMENT = 512  # of a region's first byte, on the host and in its address, as cudaMalloc gives it
PAGE = 2 << 20  # arrays of this size and larger start at a multiple of it
SHARED_ALIGNMENT = 1 << 24  # of the generic addresses of shared and local memory
PLACES = 1 << 20  # that a region may start at in its window, half a GiB
MAX_REGIONS = 512  # half of the windows: an address that is drawn is mostly free
DRAWS = 1000  # after which there is no room
LONGEST_STRING = 8192  # that printf or an assertion shows


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
    address: int = 0  # of its first byte, given by the address space


@dataclass(frozen=True)
class RegionTable:
    """The regions as the interpreter reads them.

    `entries` is int64 [regions, R_FIELDS]; `windows`, int64 [WINDOWS], has the place in memory of each window's entry.
    """

    entries: np.ndarray
    windows: np.ndarray


class AddressSpace:
    """All regions of one execution, in the order in which they were added, at addresses drawn from a seed.

    Without a seed the operating system draws them.
    """

    def __init__(self, seed: int | str | None = None) -> None:
        self.regions: list[Region] = []
        self._random = random.SystemRandom() if seed is None else random.Random(seed)
        self._owners: dict[int, Region | None] = {}  # of windows, counted from the first
        self.shared_window = self._draw(1, SHARED_ALIGNMENT, None)
        self.local_window = self._draw(1, SHARED_ALIGNMENT, None)
        self.clock = self._random.getrandbits(44)

    def _draw(self, size: int, alignment: int, owner: Region | None) -> int:
        """An address for so many bytes, in windows of their own."""
        count = 1 + (WINDOW_HALF + PLACES * ALIGNMENT + size >> WINDOW_BITS)
        for _ in range(DRAWS if count <= WINDOWS else 0):
            first = self._random.randrange(WINDOWS - count + 1)
            if all(first + i not in self._owners for i in range(count)):
                break
        else:
            raise PlanError(f"The plan needs {size} more bytes than the emulator has addresses for.")
        self._owners.update((first + i, owner) for i in range(count))
        place = alignment * self._random.randrange(PLACES * ALIGNMENT // alignment or 1)
        return (FIRST_WINDOW + first << WINDOW_BITS) + WINDOW_HALF + place

    def add(self, region: Region) -> int:
        """Append a region; returns the address of its first byte. Raises PlanError if there are too many."""
        if len(self.regions) >= MAX_REGIONS:
            raise PlanError(
                f"The plan's buffers and its kernels' variables are more than {MAX_REGIONS} arrays, which is more than "
                "the emulator keeps: put small tables together into one."
            )
        region.address = self._draw(region.data.size, PAGE if region.data.size >= PAGE else ALIGNMENT, region)
        self.regions.append(region)
        return region.address

    def keep(self, count: int) -> None:
        """Forget all regions but the first `count`."""
        del self.regions[count:]
        kept = {id(region) for region in self.regions}
        self._owners = {w: r for w, r in self._owners.items() if r is None or id(r) in kept}

    def find(self, address: int) -> tuple[Region | None, int]:
        """The region whose window holds an address, and the place in it (which may lie outside the region)."""
        region = self._owners.get((address >> WINDOW_BITS) - FIRST_WINDOW)
        return (None, address) if region is None else (region, address - region.address)

    @staticmethod
    def is_drawn(address: int) -> bool:
        """Does an address lie where addresses are drawn? Then it says nothing to a reader, and differs in each run."""
        return 0 <= (address >> WINDOW_BITS) - FIRST_WINDOW < WINDOWS

    def read_string(self, address: int) -> str:
        """A zero-terminated string, the first LONGEST_STRING bytes of it; empty if the address is no good."""
        region, place = self.find(address)
        if region is None or not 0 <= place < region.data.size:
            return ""
        data = region.data[place : place + LONGEST_STRING].tobytes()
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")

    def outline(self) -> AddressSpace:
        """The same addresses and names, without the contents."""
        nothing = np.empty(0, dtype=np.uint8)
        copies = {id(r): replace(r, data=nothing, written=None) for r in self.regions}
        outline = copy(self)
        outline.regions = list(copies.values())
        outline._owners = {w: r if r is None else copies[id(r)] for w, r in self._owners.items()}
        return outline

    def table(self) -> RegionTable:
        """The regions as the interpreter reads them."""
        entries = np.zeros((len(self.regions), R_FIELDS), dtype=np.int64)
        places = {}
        for entry, region in zip(entries, self.regions, strict=True):
            entry[R_HOST] = region.data.ctypes.data
            entry[R_BYTES] = region.data.size
            entry[R_FLAGS] = (R_WRITABLE if region.writable else 0) | (R_TRACKED if region.written is not None else 0)
            entry[R_SHADOW] = region.written.ctypes.data if region.written is not None else 0
            entry[R_FIRST_STORE] = -1
            entry[R_START] = region.address
            entry[R_WATCH], entry[R_WRITER_PC] = region.watched, -1
            places[id(region)] = entry.ctypes.data
        windows = np.zeros(WINDOWS, dtype=np.int64)
        for window, owner in self._owners.items():
            windows[window] = places[id(owner)] if owner is not None else 0
        return RegionTable(entries, windows)


def buffer_view(buffer: Buffer, data: np.ndarray) -> np.ndarray:
    """The bytes of a region as the array that the buffer describes."""
    dtype = np.dtype(buffer.dtype)
    if 0 in buffer.shape:
        return np.zeros(buffer.shape, dtype)
    return np.ndarray(buffer.shape, dtype, buffer=data, strides=buffer.strides)


def plan_regions(plan: Plan, inputs: dict[str, np.ndarray], sanitize: bool) -> list[Region]:
    """A region for each buffer of the plan, filled, zeroed or poisoned as its role and content ask for.

    Raises PlanError when an input is missing or has another shape or dtype than its buffer.
    """
    regions = []
    for name, buffer in plan.buffers.items():
        data = aligned_bytes(buffer.nbytes)
        data.fill(0 if buffer.zeroed else POISON)
        if buffer.content:
            data.reshape(-1, len(buffer.content))[...] = np.frombuffer(buffer.content, np.uint8)
        defined = buffer.zeroed or bool(buffer.content)
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


def place_variables(space: AddressSpace, module: Module, names: Iterable[str], addresses: dict[str, int]) -> None:
    """Give module variables memory, and those that their initialisers point to; adds to their addresses by name.

    Only what a kernel names is placed: headers declare more than a thousand variables that no kernel uses.
    """
    functions = module.function_addresses()
    new: dict[str, Region] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        variable = module.variables.get(name)
        if variable is None or name in addresses or variable.space not in ("global", "const"):
            continue
        new[name] = variable_region(variable)
        addresses[name] = space.add(new[name])
        waiting += [symbol for _, symbol, _ in variable.pointers]
    for name, region in new.items():
        for offset, symbol, addend in module.variables[name].pointers:
            value = (addresses.get(symbol) or functions.get(symbol, 0)) + addend & (1 << 64) - 1
            region.data[offset : offset + 8] = np.frombuffer(value.to_bytes(8, "little"), dtype=np.uint8)
