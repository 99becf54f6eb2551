"""A model of L1 and L2: which requests of a launch they serve, and what goes on to DRAM. Modelled, not measured.

What is modelled: lines of 128 bytes in sectors of 32; an L1 for each SM that shares its memory with shared memory,
written through; reads of one line by neighbouring SMs at one time, merged before L2; bulk and tensor copies, which go
past L1 and are asked for when they are issued, once for a multicast; one L2 that keeps what is written and reads
sectors from DRAM in pairs; all empty when a launch starts, as under Nsight Compute. Blocks go to SMs in turn, a wave of
as many as fit at a time; the blocks of a wave go on at one pace, counted in warp instructions. What is not: the two
halves of an L2 and the traffic between them, when L2 writes back, what it reads to complete a sector written in part,
and the caches' true hashing and replacement (here least recently used in sets chosen by a hash).
docs/validation.md has the model's error against hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numba
import numpy as np

from warplab.emulator.core.memory.request_log import (
    BLOCK_SHIFT,
    KIND_SHIFT,
    LINE_SHIFT,
    LOG_ATOMIC,
    LOG_BULK_READ,
    LOG_BULK_WRITE,
    LOG_LOCAL_READ,
    LOG_LOCAL_WRITE,
    LOG_READ,
    LOG_READ_PAST_L1,
    RequestLog,
)
from warplab.hardware.records import KIB, Chip
from warplab.plan.execution import CacheTraffic
from warplab.plan.limits import limits_of, parse_architecture
from warplab.plan.model import Kernel, Launch
from warplab.plan.occupancy import occupancy

LINE = 128  # bytes
L1_WAYS = 64
L2_WAYS = 16
L2_SHARE = 0.8  # of an L2 that keeps data: on an H200, 36 MiB of 60 stay between sweeps, 48 hardly
NEIGHBOURS = 6  # SMs whose reads of one line at one time are merged before L2
WINDOW = 16  # warp instructions: what one time is
_WAVE_SHIFT = 32  # of a time: below it warp instructions, above it the wave
_SM_SHIFT = 8  # of when a line was filled: below it the SM that asked for it
_MERGE_SLOTS = 1024  # a group's table of lines: the line last seen, when, and its sectors
_LINES, _TIMES, _SECTORS = range(3)
_LINES_SHIFT = 3  # of the lines that are in one slice of L2, side by side (microbench.json, "cold atomics")
SLICE_BYTES = 512 * KIB  # of L2, which is as many slices as its size has of these
LOG_LIMIT = 8 << 20  # entries of 16 bytes
REGISTERS = 32  # a thread, of a kernel that was not assembled
SLICE = 64  # clusters between two looks at the log

# What L1 and shared memory have together, and the sizes that shared memory can be given, in KiB. CUDA C++ Programming
# Guide, "Compute Capabilities", section "Shared Memory" of each.
UNIFIED = {
    (7, 0): (128, (0, 8, 16, 32, 64, 96)),
    (7, 5): (96, (32, 64)),
    (8, 0): (192, (0, 8, 16, 32, 64, 100, 132, 164)),
    (8, 6): (128, (0, 8, 16, 32, 64, 100)),
    (8, 9): (128, (0, 8, 16, 32, 64, 100)),
    (9, 0): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (10, 0): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (10, 3): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (12, 0): (128, (0, 8, 16, 32, 64, 100)),
    (12, 1): (128, (0, 8, 16, 32, 64, 100)),
}
_BITS = np.array([bin(n).count("1") for n in range(16)], dtype=np.int64)
(
    _L1_LOADS, _L1_LOAD_HITS, _MERGED, _L2_READS, _L2_READ_HITS, _L2_WRITES, _L2_WRITE_HITS,
    _L2_ATOMICS, _L2_ATOMIC_HITS, _DRAM_READS, _DRAM_WRITES, _L1_LATE, _L2_LATE, _CLOCK, _RESULTS,
) = range(15)  # fmt: skip


def residency(architecture: str, launch: Launch, registers: int, static_shared: int) -> tuple[int, int]:
    """Blocks that an SM holds at once (at least 1), and the bytes that are left to its L1.

    The driver is taken to give shared memory the least of its sizes with which as many blocks fit.
    """
    limits = limits_of(architecture)
    threads = prod(launch.block)
    blocks = max(occupancy(architecture, threads, registers, static_shared, launch.shared_bytes).blocks, 1)
    shared = static_shared + launch.shared_bytes
    needed = blocks * (shared + limits.reserved_shared) if shared else 0
    total, sizes = UNIFIED[parse_architecture(architecture)[:2]]
    carved = next((size for size in sizes if size * KIB >= needed), sizes[-1])
    return blocks, (total - carved) * KIB


class _Cache:
    """Tags of one cache or of several alike: [caches, sets, ways]."""

    def __init__(self, caches: int, size: int, ways: int) -> None:
        lines = max(size // LINE, ways)
        shape = caches, max(lines // ways, 1), ways
        self.tags = np.full(shape, -1, dtype=np.int64)
        self.stamps = np.zeros(shape, dtype=np.int64)
        self.valid = np.zeros(shape, dtype=np.uint8)
        self.dirty = np.zeros(shape, dtype=np.uint8)
        self.filled = np.full(shape, -1 << _WAVE_SHIFT, dtype=np.int64)  # when a sector was missing last, and whose

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.tags, self.stamps, self.valid, self.dirty, self.filled


class CacheModel:
    """The caches of a chip during one launch."""

    def __init__(self, chip: Chip, architecture: str, launch: Launch, kernel: Kernel, static_shared: int) -> None:
        cubin = kernel.cubins.get(architecture)
        registers = cubin.registers if cubin else REGISTERS
        self.blocks_per_sm, l1_bytes = residency(architecture, launch, registers, static_shared)
        self.log = RequestLog(LOG_LIMIT)
        self._sms = chip.sms
        self._warps = -(-prod(launch.block) // 32)
        self._cluster = prod(launch.cluster)
        self._clusters = prod(launch.grid) // self._cluster
        self._l1 = _Cache(chip.sms, l1_bytes, L1_WAYS)
        self._l2 = _Cache(1, int((chip.l2 or 0) * L2_SHARE), L2_WAYS)
        self._atomics = np.zeros(max((chip.l2 or 0) // SLICE_BYTES, 1))
        self._results = np.zeros(_RESULTS, dtype=np.int64)
        self._wave = 0

    def slices(self) -> Iterator[tuple[int, int]]:
        """Clusters [first, last) to run, one part after the other; their requests are replayed in between."""
        wave = max(self._sms * self.blocks_per_sm // self._cluster, 1)
        for number, start in enumerate(range(0, self._clusters, wave)):
            self._wave = number
            end = min(start + wave, self._clusters)
            for first in range(start, end, SLICE):
                yield first, min(first + SLICE, end)
                if self.log.used > self.log.limit // 2:
                    self._replay()
            self._replay()

    def _replay(self) -> None:
        entries = self.log.take()
        if not len(entries):
            return
        blocks, times = entries[:, 1] >> BLOCK_SHIFT, entries[:, 1] & ((1 << BLOCK_SHIFT) - 1)
        first = blocks.min()
        starts = np.full(blocks.max() - first + 1, np.iinfo(np.int64).max)
        np.minimum.at(starts, blocks - first, times)
        times += (self._wave << _WAVE_SHIFT) - starts[blocks - first]
        order = np.argsort(times, kind="stable")
        turn = self._turn(times[blocks == first])
        sms = (blocks % self._sms).astype(np.int32)
        self._count_atomics(entries[:, 0])
        groups = -(-self._sms // NEIGHBOURS)
        merge = np.full((3, groups, _MERGE_SLOTS), -1, dtype=np.int64)
        caches = *self._l1.arrays, *self._l2.arrays
        _serve(entries[:, 0].copy(), sms, times, order, *caches, merge, WINDOW, turn, self._results, _BITS)

    def _turn(self, times: np.ndarray) -> int:
        """How long it takes the emulator, in a block's warp instructions, until all of its warps have had a turn.

        What one warp asks for within a turn has one time. Another one that asks for the same line within this span
        does so together with it on a GPU, where warps go on side by side: it waits for a missing line too.
        """
        distinct = len(np.unique(times))
        return int(self._warps * (times.max() - times.min()) / max(distinct - 1, 1)) + 1

    def _count_atomics(self, words: np.ndarray) -> None:
        """Sectors of atomics by slice of L2, which a hash of an address's KiB chooses."""
        words = words[(words >> KIND_SHIFT) & 15 == LOG_ATOMIC]
        mixed = (words >> LINE_SHIFT + _LINES_SHIFT).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        slices = ((mixed >> np.uint64(32)) % np.uint64(len(self._atomics))).astype(np.int64)
        self._atomics += np.bincount(slices, _BITS[words & 15], len(self._atomics))

    def traffic(self) -> CacheTraffic:
        """What the launch has asked for so far."""
        r = [int(n) for n in self._results]
        return CacheTraffic(
            l1_load_sectors=r[_L1_LOADS],
            l1_load_hits=r[_L1_LOAD_HITS],
            merged_read_sectors=r[_MERGED],
            l2_read_sectors=r[_L2_READS],
            l2_read_hits=r[_L2_READ_HITS],
            l2_write_sectors=r[_L2_WRITES],
            l2_write_hits=r[_L2_WRITE_HITS],
            l2_atomic_sectors=r[_L2_ATOMICS],
            l2_atomic_hits=r[_L2_ATOMIC_HITS],
            dram_read_sectors=r[_DRAM_READS],
            dram_write_sectors=r[_DRAM_WRITES],
            blocks_per_sm=self.blocks_per_sm,
            busiest_atomic_share=float(self._atomics.max() / max(self._atomics.sum(), 1)),
            dropped_requests=self.log.dropped,
            l1_late_hits=r[_L1_LATE],
            l2_late_hits=r[_L2_LATE],
        )


@numba.njit(cache=True, nogil=True, inline="never")
def _find(tags, stamps, cache, line):
    """The set of a line, its way (-1: not there), and the way to give up for it."""
    mixed = np.uint64(line) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    chosen = np.int64((mixed >> np.uint64(32)) % np.uint64(tags.shape[1]))
    oldest = 0
    for way in range(tags.shape[2]):
        if tags[cache, chosen, way] == line:
            return chosen, way, way
        if stamps[cache, chosen, way] < stamps[cache, chosen, oldest]:
            oldest = way
    return chosen, -1, oldest


@numba.njit(cache=True, nogil=True)
def _ask_l2(line, sectors, write, sm, time, turn, tags, stamps, valid, dirty, filled, results, bits):
    """One request of L2; returns the sectors that it had."""
    chosen, way, victim = _find(tags, stamps, 0, line)
    if way < 0:
        way = victim
        results[_DRAM_WRITES] += bits[dirty[0, chosen, way]]
        tags[0, chosen, way] = line
        valid[0, chosen, way] = 0
        dirty[0, chosen, way] = 0
    stamps[0, chosen, way] = results[_CLOCK]
    had = np.int64(valid[0, chosen, way]) & sectors
    fetched = sectors
    if write:
        dirty[0, chosen, way] |= np.uint8(sectors)
    else:
        missing = sectors & ~had
        missing |= (missing & 5) << 1 | (missing & 10) >> 1
        fetched |= missing
        if had and filled[0, chosen, way] & 255 != sm and time - (filled[0, chosen, way] >> _SM_SHIFT) < turn:
            results[_L2_LATE] += bits[had]
        if missing:
            filled[0, chosen, way] = time << _SM_SHIFT | sm
        results[_DRAM_READS] += bits[missing & ~np.int64(valid[0, chosen, way])]
    valid[0, chosen, way] |= np.uint8(fetched)
    return had


@numba.njit(cache=True, nogil=True)
def _serve(words, sms, times, order, t1, s1, v1, d1, f1, t2, s2, v2, d2, f2, merge, window, turn, results, bits):
    """Serve requests in an order; see CacheModel."""
    groups = merge.shape[1]
    for i in order:
        word, sm = words[i], sms[i]
        line, kind, sectors = word >> LINE_SHIFT, (word >> KIND_SHIFT) & 15, word & 15
        results[_CLOCK] += 1
        local = kind in (LOG_LOCAL_READ, LOG_LOCAL_WRITE)
        if local:
            line = (line * len(t1) + sm) | (np.int64(1) << 54)  # threads of another SM have their own
        if kind == LOG_ATOMIC:
            results[_L2_ATOMICS] += bits[sectors]
            results[_L2_ATOMIC_HITS] += bits[
                _ask_l2(line, sectors, False, sm, times[i], turn, t2, s2, v2, d2, f2, results, bits)
            ]
            _ask_l2(line, sectors, True, sm, times[i], turn, t2, s2, v2, d2, f2, results, bits)
            continue
        if kind in (LOG_READ_PAST_L1, LOG_BULK_READ):
            if kind == LOG_READ_PAST_L1:
                results[_L1_LOADS] += bits[sectors]
            results[_L2_READS] += bits[sectors]
            results[_L2_READ_HITS] += bits[
                _ask_l2(line, sectors, False, sm, times[i], turn, t2, s2, v2, d2, f2, results, bits)
            ]
            continue
        if kind == LOG_BULK_WRITE:
            results[_L2_WRITES] += bits[sectors]
            results[_L2_WRITE_HITS] += bits[
                _ask_l2(line, sectors, True, sm, times[i], turn, t2, s2, v2, d2, f2, results, bits)
            ]
            continue
        chosen, way, victim = _find(t1, s1, sm, line)
        there = np.int64(v1[sm, chosen, way]) if way >= 0 else np.int64(0)
        reads = kind in (LOG_READ, LOG_LOCAL_READ)
        if reads:
            results[_L1_LOADS] += bits[sectors]
            results[_L1_LOAD_HITS] += bits[sectors & there]
            if sectors & there and 0 < times[i] - f1[sm, chosen, way] < turn:
                results[_L1_LATE] += bits[sectors & there]
        if way < 0 and (reads or local):
            way = victim
            if d1[sm, chosen, way]:
                _ask_l2(
                    t1[sm, chosen, way],
                    np.int64(d1[sm, chosen, way]),
                    True,
                    sm,
                    times[i],
                    turn,
                    t2,
                    s2,
                    v2,
                    d2,
                    f2,
                    results,
                    bits,
                )
                results[_L2_WRITES] += bits[d1[sm, chosen, way]]
            t1[sm, chosen, way] = line
            v1[sm, chosen, way] = 0
            d1[sm, chosen, way] = 0
        if way >= 0:
            s1[sm, chosen, way] = results[_CLOCK]
            v1[sm, chosen, way] |= np.uint8(sectors)
        if kind == LOG_LOCAL_WRITE:
            d1[sm, chosen, way] |= np.uint8(sectors)
        elif reads:
            missing = sectors & ~there
            if missing:
                f1[sm, chosen, way] = times[i]
                group = sm % groups
                slot = np.int64((np.uint64(line) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(54))
                if merge[_LINES, group, slot] == line and times[i] - merge[_TIMES, group, slot] <= window:
                    again = missing & merge[_SECTORS, group, slot]
                    results[_MERGED] += bits[again]
                    merge[_SECTORS, group, slot] |= missing
                    missing &= ~again
                else:
                    merge[_LINES, group, slot] = line
                    merge[_TIMES, group, slot] = times[i]
                    merge[_SECTORS, group, slot] = missing
            if missing:
                results[_L2_READS] += bits[missing]
                results[_L2_READ_HITS] += bits[
                    _ask_l2(line, missing, False, sm, times[i], turn, t2, s2, v2, d2, f2, results, bits)
                ]
        else:
            results[_L2_WRITES] += bits[sectors]
            results[_L2_WRITE_HITS] += bits[
                _ask_l2(line, sectors, True, sm, times[i], turn, t2, s2, v2, d2, f2, results, bits)
            ]
