"""Register allocation: gives registers that are never live together the same row of the frame.

PTX has a register for every value, and a frame with a row for each would not fit the host's caches. Liveness is that of
one thread: lanes have their own slots in every row and writes are masked, so what holds for each thread's path holds
for the warp. Rows of one width share places by a linear scan over live intervals (Poletto and Sarkar, "Linear scan
register allocation").
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from warplab.emulator.core.state.layout import (
    DST,
    GUARD,
    IMM,
    OP_ATOMIC,
    OP_BRANCH,
    OP_EXIT,
    OP_JUMP,
    OP_LDMATRIX,
    OP_LOAD,
    OP_MMA,
    OP_ROWS,
    ROWS_WRITTEN,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X3,
    X4,
    X5,
    X6,
)
from warplab.emulator.program import ROWS_BASE, Frame, Record, row_bytes
from warplab.errors import PlanError

_SOURCES = (SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5, X6)
_MORE_DATA = (X4, X5, X6)
MAX_LIVENESS = 1 << 31  # registers times basic blocks: bits of a set for each block, of which there are four


class Operands:
    """Which virtual registers a record reads and writes, by their number."""

    def __init__(self, frame: Frame) -> None:
        self.number: dict[int, int] = {}
        self.widths: list[int] = []
        for offset, width in frame.placed:
            self.number[offset] = len(self.widths)
            if width == 128:
                self.number[offset + row_bytes(64)] = len(self.widths)
            self.widths.append(width)

    def of(self, record: Record) -> tuple[list[int], list[int], bool]:
        """Reads, writes, and whether the writes replace the old values in every thread that gets here."""
        fields = record.fields
        rows = [f for f in _SOURCES if fields[f] >= ROWS_BASE]
        written = [DST] if fields[DST] >= ROWS_BASE else []
        if record.op in (OP_LOAD, OP_LDMATRIX, OP_MMA):
            written += [f for f in _MORE_DATA if fields[f] >= ROWS_BASE]
            rows = [f for f in rows if f not in _MORE_DATA]
        elif record.op == OP_ATOMIC and not fields[X4]:
            written = []
        elif record.op == OP_ROWS and fields[X3] == ROWS_WRITTEN:
            rows, written = [], rows
        numbers = [self.number[fields[f]] for f in written]
        # Half of a 128-bit register leaves the other half as it was.
        whole = not fields[GUARD] and all(self.widths[n] != 128 for n in numbers)
        return [self.number[place] for place in (*(fields[f] for f in rows), *record.keeps)], numbers, whole


def _blocks(records: list[Record]) -> tuple[list[int], list[list[int]]]:
    """Starts of the basic blocks, and each block's successors."""
    starts = {0}
    for position, record in enumerate(records):
        if record.op in (OP_BRANCH, OP_JUMP):
            starts.add(record.fields[IMM])
        if record.op in (OP_BRANCH, OP_JUMP, OP_EXIT):
            starts.add(position + 1)
    ordered = sorted(s for s in starts if s < len(records))
    index = {start: i for i, start in enumerate(ordered)}
    successors = []
    for block in range(len(ordered)):
        end = ordered[block + 1] if block + 1 < len(ordered) else len(records)
        last, following = records[end - 1], []
        if last.op in (OP_BRANCH, OP_JUMP):
            following.append(index[last.fields[IMM]])
        falls = last.op != OP_JUMP and not (last.op == OP_EXIT and not last.fields[GUARD])
        if falls and end in index:
            following.append(index[end])
        successors.append(following)
    return ordered, successors


def _live_out(uses: list[int], kills: list[int], successors: list[list[int]]) -> list[int]:
    """Registers live at the end of each block, as bit sets."""
    live_in, live_out = list(uses), [0] * len(uses)
    predecessors: list[list[int]] = [[] for _ in uses]
    for block, following in enumerate(successors):
        for other in following:
            predecessors[other].append(block)
    waiting, queued = list(range(len(uses))), [True] * len(uses)
    while waiting:
        block = waiting.pop()
        queued[block] = False
        out = 0
        for other in successors[block]:
            out |= live_in[other]
        live_out[block] = out
        into = uses[block] | out & ~kills[block]
        if into != live_in[block]:
            live_in[block] = into
            for other in predecessors[block]:
                if not queued[other]:
                    queued[other] = True
                    waiting.append(other)
    return live_out


def _bits(word: int) -> list[int]:
    result = []
    while word:
        low = word & -word
        result.append(low.bit_length() - 1)
        word ^= low
    return result


def _intervals(records: list[Record], operands: Operands) -> dict[int, tuple[int, int]]:
    """First and last moment at which each register is live: instruction p reads at 2 p and writes at 2 p + 1."""
    starts, successors = _blocks(records)
    ends = [*starts[1:], len(records)]
    touched = [operands.of(r) for r in records]
    if len(starts) * len(operands.widths) > MAX_LIVENESS:
        raise PlanError(
            f"The kernel has {len(starts)} pieces of straight code and {len(operands.widths)} registers, too many to "
            "follow; make its unrolled loops shorter."
        )
    uses, kills = [], []
    for start, end in zip(starts, ends, strict=True):
        use = kill = 0
        for reads, writes, whole in touched[start:end]:
            for number in reads if whole else reads + writes:
                if not kill >> number & 1:
                    use |= 1 << number
            if whole:
                for number in writes:
                    kill |= 1 << number
        uses.append(use)
        kills.append(kill)
    live_out = _live_out(uses, kills, successors)
    first: dict[int, int] = {}
    last: dict[int, int] = {}

    def touch(number: int, moment: int) -> None:
        first[number] = min(first.get(number, moment), moment)
        last[number] = max(last.get(number, moment), moment)

    # A register is touched where it is live for the first and for the last time: what is between follows.
    moments = []
    for block, (start, end) in enumerate(zip(starts, ends, strict=True)):
        moments.append((2 * start, uses[block] | live_out[block] & ~kills[block]))
        moments.append((2 * end - 1, live_out[block]))
    for ordered in (moments, moments[::-1]):
        seen = 0
        for moment, live in ordered:
            for number in _bits(live & ~seen):
                touch(number, moment)
            seen |= live
    for position, (reads, writes, _) in enumerate(touched):
        for number in reads:
            touch(number, 2 * position)
        for number in writes:
            touch(number, 2 * position + 1)
    return {number: (first[number], last[number]) for number in first}


def allocate(records: list[Record], frame: Frame, base: int) -> tuple[dict[int, int], int]:
    """Final frame offsets by virtual offset, rows starting at `base`; and the end of the frame.

    A register may take over a place in the very instruction that last reads it: instructions read before they write.
    """
    operands = Operands(frame)
    intervals = _intervals(records, operands)
    free: dict[int, list[int]] = defaultdict(list)
    active: dict[int, list[tuple[int, int]]] = defaultdict(list)
    places: dict[int, int] = {}
    used = base
    for number, (begin, end) in sorted(intervals.items(), key=lambda item: item[1]):
        size = row_bytes(max(operands.widths[number], 16))
        running = active[size]
        while running and running[0][0] < begin:
            heapq.heappush(free[size], heapq.heappop(running)[1])
        if free[size]:
            place = heapq.heappop(free[size])
        else:
            place, used = used, used + size
        heapq.heappush(running, (end, place))
        places[number] = place
    offsets = {}
    for offset, number in operands.number.items():
        if number in places:
            half = offset - frame.placed[number][0]
            offsets[offset] = places[number] + half
    return offsets, used
