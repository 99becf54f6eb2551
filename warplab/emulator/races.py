"""The host's side of the search for races in global memory: its memory, and races among blocks that ran side by side.

What compiled code keeps is described in core/state/races_layout.py. Every array that a kernel may write gets a cell an
element, or more where the kernel accesses less than an element at a time, up to CELLS of them in a launch: small arrays
get all of theirs, large ones the same number each, for their first elements. Each worker has entries of its own, which
stay from launch to launch: segments are numbered on, so that what earlier launches left is known to be old.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from mmap import ACCESS_COPY, mmap
from typing import ClassVar

import numpy as np

from warplab.emulator.core.state import layout as L
from warplab.emulator.core.state import races_layout as G
from warplab.emulator.memory import AddressSpace, Region, RegionTable
from warplab.emulator.program import Program
from warplab.isa.syntax import Function
from warplab.plan.model import Launch, Pointer, Role, TensorMap

CELLS = 1 << 19  # of a launch, unless told otherwise; each takes 68 bytes of a worker's memory once it is used
SEGMENTS_LIVE, SEGMENTS_OF_A_CLUSTER = 1 << 21, 1 << 16
NODE_MEMORY = 48 << 20  # bytes
TABLE_MEMORY = 64 << 20  # bytes
STEPS = 1 << 28  # nodes visited in a launch
LARGEST_SEGMENT = 1 << 30
_OF_WRITES = slice(G.FIRST_WRITE, None, G.OTHER_WRITE - G.FIRST_WRITE)  # kinds that only writes enter
_OF_READS = slice(G.FIRST_READ, None, G.OTHER_READ - G.FIRST_READ)
SPARE = 8  # workers' entries that are kept for the next execution


class WorkerCells:
    """The entries of one worker, and the number of its next segment."""

    _spare: ClassVar[list[WorkerCells]] = []  # of executions that have ended: to clear memory takes long
    _taking: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, cells: int) -> None:
        # Not np.zeros, which asks for huge pages: a worker's blocks may write a few cells here and there.
        memory = mmap(-1, 8 * G.CELL_KINDS * cells, access=ACCESS_COPY)  # a process that is forked has its own
        self.entries = np.frombuffer(memory, dtype=np.int64).reshape(G.CELL_KINDS, cells)
        self.values = np.zeros(cells, dtype=np.uint32)
        self.next = 1

    @classmethod
    def take(cls, cells: int) -> WorkerCells:
        """Some with room for so many cells; what earlier executions left in them has older numbers."""
        with cls._taking:
            fitting = [spare for spare in cls._spare if spare.values.size >= cells]
            if fitting:
                cls._spare.remove(fitting[0])
                return fitting[0]
        return cls(max(64, 1 << (cells - 1).bit_length()))

    def give_back(self) -> None:
        """The execution has ended as it should."""
        with self._taking:
            if len(self._spare) < SPARE:
                self._spare.append(self)

    def forget_old(self) -> None:
        """Numbers are used up: start again with empty entries."""
        if self.next > LARGEST_SEGMENT:
            self.entries[:] = 0
            self.next = 1


class CellMap:
    """Which regions have cells in the running launch, and the workers' entries for them."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._places: list[tuple[Region, int, int]] = []  # by slot: a region, its first cell and log2 of a cell's bytes
        self.workers: list[WorkerCells] = []

    def fill(self, table: RegionTable, space: AddressSpace, reach: Reach) -> None:
        """Give the regions that a launch may write their cells, and write into its table where these are."""
        self._places = []
        wanted = [
            (region.data.size, reach.shift(region), entry, region)
            for entry, region in zip(table.entries, space.regions, strict=True)
            if reach.writes(region)
        ]
        self._used = 0
        for position, (size, shift, entry, region) in enumerate(sorted(wanted, key=lambda w: w[0] >> w[1])):
            cells = min(-(-size >> shift), (self._room - self._used) // (len(wanted) - position))
            entry[L.R_CELLS], entry[L.R_CELL_FIRST], entry[L.R_CELL_SHIFT] = cells, self._used, shift
            entry[L.R_CELL_SLOT] = position
            self._places.append((region, self._used, shift))
            self._used += cells

    def worker(self, number: int) -> WorkerCells:
        """The entries of a worker, with room for all cells of the launch."""
        while len(self.workers) <= number:
            self.workers.append(WorkerCells.take(self._used))
        if self.workers[number].values.size < self._used:
            self.workers[number] = WorkerCells.take(self._used)
        self.workers[number].forget_old()
        return self.workers[number]

    def give_back(self) -> None:
        """The execution has ended as it should: others may use the workers' entries."""
        for worker in self.workers:
            worker.give_back()
        self.workers = []

    @property
    def regions(self) -> list[Region]:
        """Those that have cells, by slot."""
        return [region for region, _, _ in self._places]

    def cells_of(self, slot: int) -> tuple[int, int]:
        """The first cell of a region, and log2 of the bytes of one."""
        return self._places[slot][1:]


@dataclass(frozen=True)
class Reach:
    """What a launch may write, and by how many bytes at a time it accesses what."""

    written: frozenset[str] | None  # names of buffers and variables; None: all
    widths: dict[frozenset[str], int]  # bytes of the narrowest access to one of these; an empty set: to anything

    @classmethod
    def of(cls, program: Program, function: Function, launch: Launch) -> Reach:
        """As a launch's arguments make it of what a kernel does with its parameters."""
        arguments = zip(function.parameters, launch.arguments, strict=True)
        buffers = {p.name: a.buffer for p, a in arguments if isinstance(a, Pointer | TensorMap)}
        scalars = {p.name for p in function.parameters} - buffers.keys()
        widths: dict[frozenset[str], int] = {}
        for names, width in program.widths.items():
            key = frozenset(buffers.get(name, name) for name in names - scalars)
            widths[key] = min(width, widths.get(key, width))
        written = program.writes
        return cls(None if written is None else frozenset(buffers.get(name, name) for name in written), widths)

    def writes(self, region: Region) -> bool:
        """May a region be written, and not only by mistake?"""
        meant = region.writable if region.buffer is None else region.buffer.role is not Role.INPUT
        return meant and (self.written is None or region.name in self.written)

    def shift(self, region: Region) -> int:
        """log2 of the bytes of a cell: an element, or as many bytes of one as the narrowest access touches."""
        widths = [width for names, width in self.widths.items() if not names or region.name in names]
        size = np.dtype(region.buffer.dtype).itemsize if region.buffer is not None else 4
        element = {1: 0, 2: 1, 8: 3, 16: 3}.get(size, 2)
        return min([element, *(width.bit_length() - 1 for width in widths)])


class RaceSearch:
    """The search in one worker's part of one launch. `address` is for the machine's M_RACES."""

    def __init__(self, program: Program, launch: Launch, cells: WorkerCells, slots: int) -> None:
        self.cells = cells
        self.accesses = _accesses(program)
        self.extents = np.tile(np.array([G.NOWHERE, -1] * 2, dtype=np.int64), (max(slots, 1), 1))
        warps = prod(launch.cluster) * -(-prod(launch.block) // L.LANES)
        live = not program.parallel or launch.cooperative
        room = SEGMENTS_LIVE if live else SEGMENTS_OF_A_CLUSTER
        # Not cleared: a record is written when its segment begins, and read only behind that.
        self._kept: list[np.ndarray] = [np.empty((room, G.RECORD_SIZE // 4), dtype=np.int32)]
        self.state = np.zeros(G.G_FIELDS, dtype=np.int64)
        for key, value in {
            G.G_NEXT: cells.next, G.G_BASE: cells.next, G.G_FIRST: cells.next,
            G.G_RECORDS: self._kept[0].ctypes.data, G.G_ROOM: room,
            G.G_CELLS: cells.entries.ctypes.data, G.G_STRIDE: cells.entries.strides[0],
            G.G_VALUES: cells.values.ctypes.data, G.G_EXTENTS: self.extents.ctypes.data,
            G.G_ACCESSES: self.accesses.ctypes.data + 4 * G.ACCESSES, G.G_LIVE: live,
        }.items():  # fmt: skip
            self.state[key] = value
        if live and _orders(program):
            self._make_order(launch, warps)
        self.address = self.state.ctypes.data

    def _make_order(self, launch: Launch, warps: int) -> None:
        """Memory for what orders blocks."""
        clusters = prod(launch.grid) // prod(launch.cluster)
        node = 4 * (G.NODE_CLOCKS + warps)
        nodes = min(NODE_MEMORY // node, 1 << 20)
        if 4 * clusters * warps > TABLE_MEMORY:
            self.state[G.G_OFF] = 1
            return
        order = np.zeros(G.O_FIELDS, dtype=np.int64)
        memory: dict[int, np.ndarray] = {
            G.O_NODES: np.zeros(nodes * node // 4, dtype=np.int32),
            G.O_TABLE: np.zeros(clusters * warps, dtype=np.int32),
            G.O_LISTED: np.zeros(nodes, dtype=np.int32),
            G.O_STACK: np.zeros(nodes + 8, dtype=np.int32),
            G.O_PLACES: np.zeros(G.PLACES * G.PLACE_FIELDS, dtype=np.int64),
        }
        for key, array in memory.items():
            order[key] = array.ctypes.data
        order[G.O_NODE_BYTES], order[G.O_ROOM], order[G.O_COUNT] = node, nodes, 1
        order[G.O_GENERATION], order[G.O_PLACES_MASK], order[G.O_STEPS] = 1, G.PLACES - 1, STEPS
        self._kept += [order, *memory.values()]
        self.state[G.G_ORDER] = order.ctypes.data

    def finish(self) -> None:
        """The launch is over: keep the number of the next segment, and empty what is of this launch only."""
        self.cells.next = int(self.state[G.G_NEXT])

    def used(self, slot: int) -> tuple[int, int]:
        """The first and the last cell used of a region; the first is behind the last if there is none."""
        extent = self.extents[slot]
        return (
            int(min(extent[G.EXTENT_WRITTEN], extent[G.EXTENT_READ])),
            int(max(extent[G.EXTENT_WRITTEN + 1], extent[G.EXTENT_READ + 1])),
        )

    def forget_blocks(self, slot: int, base: int) -> None:
        """Empty the entries of a region, whose first cell is `base`, that are compared at the end of a launch."""
        extent = self.extents[slot].tolist()
        for at, kinds in ((G.EXTENT_WRITTEN, _OF_WRITES), (G.EXTENT_READ, _OF_READS)):
            self.cells.entries[kinds, base + extent[at] : base + extent[at + 1] + 1] = 0

    def forget_readers(self) -> None:
        """Empty the entries of further readers, which other launches use otherwise."""
        if self.state[G.G_MANY]:
            self.cells.entries[G.FIRST_WRITE :] = 0

    def take_turns(self) -> None:
        """From now on several clusters run in turns."""
        self.state[G.G_FIRST] = G.NEVER

    def meet(self) -> None:
        """From now on all clusters that the GPU has room for are there together."""
        self.state[G.G_TOGETHER] = 1

    @property
    def ended_early(self) -> str:
        """Why a part of the launch was not searched; empty if all of it was."""
        return "synchronises its blocks more often than there is room for" if self.state[G.G_OFF] else ""

    @property
    def is_live(self) -> bool:
        """Were blocks compared as they ran?"""
        return bool(self.state[G.G_LIVE])

    @property
    def crossed(self) -> bool:
        """May blocks of this part race with each other?"""
        return bool(self.state[G.G_CROSSED])


def _orders(program: Program) -> bool:
    """Does a kernel have fences, or accesses that release or acquire?"""
    code = program.code
    memory = np.isin(code[:, L.OP], (L.OP_LOAD, L.OP_STORE))
    atomic = code[:, L.OP] == L.OP_ATOMIC
    ordering = L.ACQUIRE_BIT | L.RELEASE_BIT
    ordered = (code[:, L.X3] >> L.STRONG_SHIFT & ordering != 0) & memory | (code[:, L.X7] & ordering != 0) & atomic
    fences = (code[:, L.OP] == L.OP_FENCE) & (code[:, L.X0] == L.FENCE_MEMORY)
    return bool(ordered.any() or fences.any())


def _accesses(program: Program) -> np.ndarray:
    """int32 [ACCESSES + instructions]: backwards from ACCESSES on the pc of each access, forwards its number or -1."""
    ops = (L.OP_LOAD, L.OP_STORE, L.OP_ATOMIC, L.OP_COPY, L.OP_BULK)
    places = np.flatnonzero(np.isin(program.code[:, L.OP], ops))[: G.ACCESSES]
    table = np.full(G.ACCESSES + len(program.code), -1, dtype=np.int32)
    table[G.ACCESSES + places] = np.arange(len(places))
    table[G.ACCESSES - 1 - np.arange(len(places))] = places
    return table


def races_between_blocks(cells: CellMap, parts: Sequence[RaceSearch], launch: Launch) -> list[np.ndarray]:
    """Fault records of the races among blocks that nothing could order, and forget their accesses.

    `parts` are the workers' shares of the launch, in the order of their blocks.
    """
    records: list[np.ndarray] = []
    if parts[0].is_live:
        for part in parts:
            part.forget_readers()
        return records
    crossed = any(p.crossed for p in parts)
    for slot, region in enumerate(cells.regions):
        extents = [(p, *p.used(slot)) for p in parts]
        used = [(p, first, last) for p, first, last in extents if first <= last]
        if not used:
            continue
        base, shift = cells.cells_of(slot)
        low, high = base + min(u[1] for u in used), base + max(u[2] for u in used) + 1
        # Blocks of two workers can have met only where both have used cells.
        spans = sorted((first, last) for _, first, last in used)
        if crossed or any(end >= start for (_, end), (start, _) in pairwise(spans)):
            for found in _conflicts(_join(used, base, low, high)):
                records.append(_record(found, parts[0].accesses, launch, region, low - base, shift))
        for part, _, _ in used:
            part.forget_blocks(slot, base)
    return records


def _block(entries: np.ndarray) -> np.ndarray:
    return entries >> G.SEGMENT_SHIFT


def _join(used: Sequence[tuple[RaceSearch, int, int]], base: int, low: int, high: int) -> np.ndarray:
    """int64 [4, cells]: FIRST_WRITE and so on of all workers together, of the cells from `low` on before `high`.

    `used` has the first and the last cell that each worker used, counted from `base`: a worker's others are empty.
    """
    joined = used[0][0].cells.entries[G.FIRST_WRITE :, low:high].copy()
    values = used[0][0].cells.values[low:high].copy()
    for part, begin, end in used[1:]:
        here, there = slice(base + begin - low, base + end + 1 - low), slice(base + begin, base + end + 1)
        old, known = joined[:, here], values[here]
        new, stored = part.cells.entries[G.FIRST_WRITE :, there], part.cells.values[there]
        for first, other in ((0, 2), (1, 3)):
            fresh = (old[first] == 0) & (new[first] != 0)
            both = (old[first] != 0) & (new[first] != 0)
            if first == 0:
                differs = both & ((known != stored) | (new[0] & G.MIXED != 0))
                old[0, differs] |= G.MIXED
                known[fresh] = stored[fresh]
            old[other] = np.where(both & (old[other] == 0), new[first], old[other])
            old[first] = np.where(fresh, new[first], old[first])
            old[other] = np.where(fresh, new[other], old[other])
    return joined


def _conflicts(joined: np.ndarray) -> list[tuple[int, int, int, int, int, int, int]]:
    """(fault, cell, earlier access, it writes, later access, it writes, cells) of each pair of instructions."""
    first_write, first_read, other_write, other_read = joined
    found = []

    def add(fault: int, a: np.ndarray, a_writes: int, b: np.ndarray, b_writes: int, where: np.ndarray) -> None:
        overlap = (a & b & G.TOUCHED) != 0
        cells = np.flatnonzero(where & (a != 0) & (b != 0) & (_block(a) != _block(b)) & overlap)
        pairs = ((a[cells] & L.FULL_MASK) >> G.ACCESS_SHIFT) * G.ACCESSES + ((b[cells] & L.FULL_MASK) >> G.ACCESS_SHIFT)
        for pair in np.unique(pairs):
            same = cells[pairs == pair]
            cell = int(same[0])
            sides = [(int(a[cell]), a_writes), (int(b[cell]), b_writes)]
            (early, early_writes), (late, late_writes) = sorted(sides, key=lambda side: side[0] >> G.SEGMENT_SHIFT)
            found.append((fault, cell, early, early_writes, late, late_writes, len(same)))

    mixed = first_write & G.MIXED != 0
    add(L.FAULT_GLOBAL_RACE, first_write, 1, other_write, 1, mixed)
    add(L.FAULT_SAME_VALUE, first_write, 1, other_write, 1, ~mixed)
    rest = np.ones(first_write.size, dtype=bool)
    for write, read in ((first_write, first_read), (first_write, other_read), (other_write, first_read)):
        add(L.FAULT_GLOBAL_RACE, write, 1, read, 0, rest)
        rest &= (write == 0) | (read == 0) | (_block(write) == _block(read))
    return found


def _record(
    found: tuple[int, int, int, int, int, int, int],
    accesses: np.ndarray,
    launch: Launch,
    region: Region,
    first: int,
    shift: int,
) -> np.ndarray:
    """A fault record of a race between blocks."""
    fault, cell, early, early_writes, late, late_writes, count = found
    record = np.zeros(L.F_FIELDS, dtype=np.int64)

    def pc(entry: int) -> int:
        return int(accesses[G.ACCESSES - 1 - ((entry & L.FULL_MASK) >> G.ACCESS_SHIFT)])

    x, y, z = block_at(launch, (late >> G.SEGMENT_SHIFT) - 1)
    for key, value in {
        L.F_KIND: fault, L.F_PC: pc(late), L.F_BLOCK_X: x, L.F_BLOCK_Y: y, L.F_BLOCK_Z: z,
        L.F_WARP: late >> G.WARP_SHIFT & 31, L.F_LANE: late >> G.LANE_SHIFT & 31,
        L.F_ADDRESS: region.address + (first + cell << shift), L.F_BYTES: 1 << shift, L.F_WRITE: late_writes,
        L.F_OTHER: pc(early), L.F_SPACE: L.SPACE_GLOBAL, L.F_COUNT: count, L.F_EXTRA: L.OTHER_BLOCK | early_writes,
        L.F_OTHER_BLOCK: (early >> G.SEGMENT_SHIFT) - 1,
        L.F_OTHER_THREAD: (early >> G.WARP_SHIFT & 31) * 32 + (early >> G.LANE_SHIFT & 31),
    }.items():  # fmt: skip
        record[key] = value
    return record


def block_at(launch: Launch, number: int) -> tuple[int, int, int]:
    """The block of that number in the grid, x fastest."""
    width, height, _ = launch.grid
    return number % width, number // width % height, number // (width * height)
