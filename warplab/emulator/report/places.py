"""Addresses in words that a student knows: the array's name, the element's index, whose shared memory it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from warplab.emulator.core.state.layout import OFFSET_MASK, RANK_SHIFT, SHARED_BASE, SPACE_LOCAL, SPACE_SHARED
from warplab.emulator.memory import AddressSpace
from warplab.emulator.program import Program
from warplab.emulator.report.shared_arrays import shared_arrays
from warplab.isa.demangle import demangled
from warplab.plan.model import Buffer, Launch, Plan, Pointer


@dataclass(frozen=True)
class Place:
    """An address in words a student knows: the array's name, the element index and the array's shape."""

    name: str
    index: tuple[int, ...] | None
    shape: tuple[int, ...] | None
    owner: str = ""  # whose, where that is not clear

    def __str__(self) -> str:
        if self.index is None:
            return self.name + self.owner
        return f"{self.name}[{', '.join(map(str, self.index))}]{self.owner}"


def element_index(buffer: Buffer, offset: int) -> tuple[int, ...]:
    """The element that a byte offset means. A stray offset shows in the slowest dimension."""
    if not buffer.shape:
        return ()
    order = sorted(range(len(buffer.shape)), key=lambda d: -abs(buffer.strides[d]))
    index = [0] * len(buffer.shape)
    for dimension in order:
        stride = buffer.strides[dimension]
        if stride:
            index[dimension], offset = divmod(offset, stride)
    return tuple(index)


def argument_name(launch: Launch, buffer: str) -> str:
    """The kernel's name for a buffer, or the plan's if the kernel got it under several names or under none."""
    names = {a.parameter for a in launch.arguments if isinstance(a, Pointer) and a.buffer == buffer and a.parameter}
    return names.pop() if len(names) == 1 else buffer


class Places:
    """Names the addresses of one launch."""

    def __init__(self, program: Program, space: AddressSpace, launch: Launch, plan: Plan) -> None:
        self._program = program
        self._space = space
        self._launch = launch
        self._arrays = shared_arrays(plan.source, plan.kernels[launch.kernel], program.shared_symbols)
        self._names: dict[str, str] = {}  # of buffers

    def at(self, space: int, address: int, size: int) -> Place:
        """An address of a space (SPACE_SHARED, SPACE_LOCAL or SPACE_GLOBAL) in words; `size` bytes are an element."""
        if space == SPACE_SHARED:
            return self._shared(address, size)
        if space == SPACE_LOCAL:
            return Place("a local array", (address // max(size, 1),), None)
        region, offset = self._space.find(address)
        if region is None and self._space.is_drawn(address):
            return Place("an address", None, None)
        if region is None:
            return Place(f"address {address & (1 << 64) - 1:#x}", None, None)
        if region.buffer is None:
            return Place(demangled(region.name), (offset // max(size, 1),), None)
        if region.buffer.name not in self._names:
            self._names[region.buffer.name] = argument_name(self._launch, region.buffer.name)
        name = self._names[region.buffer.name]
        return Place(name, element_index(region.buffer, offset), region.buffer.shape)

    def _shared(self, address: int, size: int) -> Place:
        part, owner = address >> RANK_SHIFT, ""
        if 0 < part <= prod(self._launch.cluster):
            address, owner = address & OFFSET_MASK, f" of block {part - 1} of the cluster"
        best, start = "", SHARED_BASE
        for name, offset in self._program.shared_symbols.items():
            if offset <= address and offset >= start:
                best, start = name, offset
        if self._program.dynamic_shared and address >= self._program.dynamic_start:
            best, start = self._program.dynamic_shared[0], self._program.dynamic_start
        offset = address - start
        known = self._arrays.get(best)
        index = known.index(offset) if known else None
        return Place(self._shared_name(best), index or (offset // max(size, 1),), None, owner)

    def _shared_name(self, symbol: str) -> str:
        if symbol in self._arrays:
            return f"shared array {self._arrays[symbol].name}"
        if "cudapy" in symbol:
            return "a shared array"
        return f"shared array {demangled(symbol.rsplit(':', 1)[-1])}" if symbol else "shared memory"
