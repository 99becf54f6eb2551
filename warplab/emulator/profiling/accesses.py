"""One memory access of one warp: which byte of which array each lane asks for, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np

from warplab.emulator.core.state.layout import (
    OFFSET_MASK,
    OP,
    OP_ATOMIC,
    OP_COPY,
    OP_LDMATRIX,
    OP_LOAD,
    OP_STMATRIX,
    OP_STORE,
    SHARED_BASE,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_LOCAL,
    SPACE_SHARED,
    WINDOW_HALF,
    X0,
    X1,
    X2,
    X5,
)
from warplab.emulator.core.state.trace import I_ACCESS, I_MASK, I_PC, I_TIME, I_WARP
from warplab.emulator.memory import AddressSpace
from warplab.emulator.profiling.timeline import TRACKED
from warplab.emulator.program import Program
from warplab.emulator.recorder import Trace
from warplab.emulator.report.places import Places
from warplab.hardware.requests import LANES, LINE, SECTOR, BankAccess, SectorAccess, banks_of, sectors_of

_Lanes = tuple[int, tuple["LaneAddress | None", ...]]  # a space, and what each lane asks for in it
ROW_BYTES = 16  # of a matrix that ldmatrix or stmatrix moves


class Space(StrEnum):
    """The memory that an access goes to."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"


_SPACES = {SPACE_GLOBAL: Space.GLOBAL, SPACE_SHARED: Space.SHARED, SPACE_LOCAL: Space.LOCAL}
_VERBS = {
    OP_LOAD: "load", OP_STORE: "store", OP_ATOMIC: "atomic", OP_LDMATRIX: "matrix load", OP_STMATRIX: "matrix store",
    OP_COPY: "asynchronous copy",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LaneAddress:
    """What one lane asks for. `inside` is False for an address outside every array or not aligned to the access."""

    address: int  # in bytes: from the start of the array (global), of the block's shared memory, of the thread's memory
    array: str
    index: tuple[int, ...] | None  # the element, where the array has a shape, else the place in units of the access
    inside: bool = True

    def __str__(self) -> str:
        index = "" if self.index is None else f"[{', '.join(map(str, self.index))}]"
        return f"{self.array}{index}{'' if self.inside else ' (outside or misaligned)'}"


@dataclass(frozen=True)
class WarpAccess:
    """One request of one warp. `lanes` has a LaneAddress for each lane that takes part and None for the others."""

    line: int
    warp: int
    verb: str  # load, store, atomic, ...
    space: Space
    size: int  # bytes a lane
    lanes: tuple[LaneAddress | None, ...] = field(repr=False)
    occurrence: int = 0  # which execution of this access by this warp
    occurrences: int = 1  # of all that were recorded
    time: int = 0
    text: str = ""  # PTX
    row: int = -1  # of the instruction's first addresses in the trace

    @property
    def write(self) -> bool:
        """Does it only write?"""
        return self.verb in ("store", "matrix store", "asynchronous copy") and not (
            self.verb == "asynchronous copy" and self.space is Space.GLOBAL
        )

    @property
    def matrix(self) -> bool:
        """Is it an ldmatrix or stmatrix?"""
        return self.verb.startswith("matrix")

    @property
    def active(self) -> int:
        """Lanes that take part."""
        return sum(lane is not None for lane in self.lanes)

    @cached_property
    def addresses(self) -> tuple[int | None, ...]:
        """The byte address of each lane, None for lanes that are idle or outside every array.

        Local memory is given as it lies in the memory system, the words of 32 lanes side by side: a lane's first word.
        """
        good = [lane.address if lane is not None and lane.inside else None for lane in self.lanes]
        if self.space is Space.LOCAL:
            return tuple(None if a is None else a // 4 * 4 * LANES + 4 * lane + a % 4 for lane, a in enumerate(good))
        return tuple(good)

    @cached_property
    def sectors(self) -> SectorAccess:
        """Its 32-byte sectors (of local memory: of the lanes' first words). Raises ValueError for shared memory."""
        if self.space is Space.SHARED:
            raise ValueError("shared memory has banks, not sectors: look at .banks")
        return sectors_of(self.addresses, min(self.size, 4) if self.space is Space.LOCAL else self.size)

    @cached_property
    def banks(self) -> BankAccess:
        """Its wavefronts. Raises ValueError for global memory, which has no banks."""
        if self.space is not Space.SHARED:
            raise ValueError(f"{self.space} memory has sectors, not banks: look at .sectors")
        return banks_of(self.addresses, self.size, write=self.write, matrix=self.matrix)

    @property
    def _wavefronts(self) -> tuple[int, int]:
        """How many, and how many of them for conflicts: the same for lanes that go whole rows of banks further."""
        places = [address for address in self.addresses if address is not None]
        base = min(places, default=0) // LINE * LINE
        moved = tuple(None if address is None else address - base for address in self.addresses)
        return _counted(moved, self.size, self.write, self.matrix)

    @cached_property
    def cost(self) -> int:
        """Sectors of a global or local access, wavefronts of a shared one."""
        if self.space is Space.SHARED:
            return self._wavefronts[0]
        if self.verb == "atomic":
            # The lanes of one address are served in rounds, see atomic_counting.py.
            places = [address for address in self.addresses if address is not None]
            return len({(a // SECTOR, places[:i].count(a)) for i, a in enumerate(places)})
        # The words of local memory are rows of their own.
        words = max(self.size // 4, 1) if self.space is Space.LOCAL else 1
        return words * len(self.sectors.sectors)

    @property
    def ideal(self) -> int:
        """The cost of the same lanes side by side."""
        if self.space is Space.SHARED:
            return self.cost - self._wavefronts[1]
        good = sum(address is not None for address in self.addresses)
        return min(self.cost, -(-good * self.size // SECTOR))

    @property
    def arrays(self) -> str:
        """The arrays that it touches."""
        return ", ".join(dict.fromkeys(lane.array for lane in self.lanes if lane is not None))

    @property
    def title(self) -> str:
        """One line that says what it is."""
        return (
            f"line {self.line}, warp {self.warp}: {self.space} {self.verb} of {self.size} bytes a lane, {self.arrays}"
        )

    def __str__(self) -> str:
        unit = "wavefronts" if self.space is Space.SHARED else "sectors"
        rows = [
            f"{self.title}",
            f"  execution {self.occurrence} of {self.occurrences}: {self.active} lanes, {self.cost} {unit}, "
            f"{self.ideal} would do",
        ]
        for lane, place in enumerate(self.lanes):
            if place is not None:
                where = f"bank {place.address // 4 % 32}" if self.space is Space.SHARED else f"byte {place.address}"
                rows.append(f"  lane {lane:2}  {where:>12}  {place}")
        return "\n".join(rows)


@lru_cache(1 << 14)
def _counted(addresses: tuple[int | None, ...], size: int, write: bool, matrix: bool) -> tuple[int, int]:
    found = banks_of(addresses, size, write=write, matrix=matrix)
    return len(found.wavefronts), found.conflicts


@dataclass(frozen=True)
class Resolver:
    """Names addresses of one launch. Holds the regions' names and sizes, not their contents."""

    program: Program = field(repr=False)
    space: AddressSpace = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)  # bytes of each region
    places: Places = field(repr=False)
    shared_bytes: int

    def lane(self, space: int, address: int, size: int) -> LaneAddress:
        """An address that a lane asks for, in words."""
        place = self.places.at(space, address, size)
        name = place.name
        if space == SPACE_SHARED:
            address = address & OFFSET_MASK if place.owner else address
            name = self._shared_name(name, address) + place.owner
            inside = SHARED_BASE <= address <= self.shared_bytes - size
        elif space == SPACE_LOCAL:
            inside = 0 <= address <= self.program.local_bytes - size
        else:
            region, offset = self.space.find(address)
            number = next((i for i, other in enumerate(self.space.regions) if other is region), -1)
            inside = number >= 0 and 0 <= offset <= self.sizes[number] - size
            address = offset
        return LaneAddress(address, name, place.index, inside and address % size == 0)

    def _shared_name(self, name: str, address: int) -> str:
        """Several of Numba's shared arrays whose names are not known are numbered in the order of their addresses."""
        starts = sorted(offset for symbol, offset in self.program.shared_symbols.items() if "cudapy" in symbol)
        number = sum(start <= address for start in starts)
        return f"shared array {number}" if len(starts) > 1 and name == "a shared array" else name


def _ends(record: np.ndarray) -> list[tuple[int, int, int]]:
    """The ends of an access: which row of addresses behind the first, the space, and the bytes a lane."""
    op = int(record[OP])
    if op in (OP_LOAD, OP_STORE):
        return [(0, int(record[X0]), int(record[X1]) * int(record[X2]))]
    if op == OP_ATOMIC:
        return [(0, int(record[X0]), int(record[X5]))]
    if op in (OP_LDMATRIX, OP_STMATRIX):
        return [(0, int(record[X0]), ROW_BYTES)]
    return [(0, SPACE_SHARED, int(record[X0])), (1, SPACE_GLOBAL, int(record[X0]))]


def in_space(address: int, said: int, space: AddressSpace) -> tuple[int, int]:
    """An address of the space that an instruction says, as a space that is not generic and the address there."""
    if said != SPACE_GENERIC:
        return said, address
    for found, window in ((SPACE_SHARED, space.shared_window), (SPACE_LOCAL, space.local_window)):
        if -WINDOW_HALF <= address - window < WINDOW_HALF:
            return found, address - window
    return SPACE_GLOBAL, address


def _lanes(addresses: list[int], mask: int, said: int, size: int, resolver: Resolver) -> list[_Lanes]:
    """What each lane asks for, by space; `addresses` are those of 32 lanes as the instruction says them."""
    found: dict[int, list[LaneAddress | None]] = {}
    for lane, address in enumerate(addresses):
        if mask >> lane & 1:
            space, there = in_space(address, said, resolver.space)
            found.setdefault(space, [None] * LANES)[lane] = resolver.lane(space, there, size)
    return [(space, tuple(lanes)) for space, lanes in found.items()]


def accesses_of(trace: Trace, resolver: Resolver, line: int | None, warp: int | None) -> Iterator[WarpAccess]:
    """The accesses of a line (None: of any) by a warp (None: by any), in order; a generic one is split by space."""
    program = resolver.program
    wanted = (trace.events[:, I_ACCESS] >= 0) & ~np.isin(program.code[trace.events[:, I_PC], OP], TRACKED)
    if line is not None:
        wanted &= program.lines[trace.events[:, I_PC]] == line
    if warp is not None:
        wanted &= trace.events[:, I_WARP] == warp
    seen: dict[tuple[int, int, int, bytes], list[_Lanes]] = {}  # a loop repeats them
    for event in trace.events[wanted]:
        pc = int(event[I_PC])
        record, mask = program.code[pc], int(event[I_MASK])
        if record[OP] in (OP_LDMATRIX, OP_STMATRIX):
            mask &= (1 << 8 * int(record[X1])) - 1
        for behind, said, size in _ends(record):
            row = int(event[I_ACCESS]) + behind
            if row >= len(trace.addresses):
                continue
            key = (said, size, mask, trace.addresses[row].tobytes())
            if key not in seen:
                seen[key] = _lanes(trace.addresses[row].tolist(), mask, said, size, resolver)
            for space, lanes in seen[key]:
                yield WarpAccess(
                    line=int(program.lines[pc]), warp=int(event[I_WARP]), verb=_VERBS[int(record[OP])],
                    space=_SPACES[space], size=size, lanes=lanes, time=int(event[I_TIME]),
                    text=" ".join(program.texts[pc].split()), row=int(event[I_ACCESS]),
                )  # fmt: skip
