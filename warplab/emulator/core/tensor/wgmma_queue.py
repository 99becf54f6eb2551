"""Wgmma operations in flight: a queue for each warp.

An operation reads a's registers when it is issued. Shared memory it reads for all four warps of its warpgroup at one
moment, as late as the first of their waits for it allows; its accumulators a warp reads and writes when its own
wgmma.wait_group asks for the group, in order. So a kernel that forgets to wait works on old sums. Moves of registers in
flight stand in the queue as well. With a seed, operations are also made at random earlier moments. `warpgroups.py` has
four warps issue a product together.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    DST,
    FAULT_IN_FLIGHT,
    LANES,
    M_CONSTANTS,
    M_FRAME_BYTES,
    M_FRAMES,
    M_WGMMA,
    M_WGMMA_BYTES,
    SRC_A,
    WARPGROUP_WARPS,
    WGMMA_A_REGISTERS,
    WGMMA_MOVE,
    WGMMA_READ,
    WGMMA_TOUCH,
    WGMMA_TRANSPOSE_A,
    WGMMA_TRANSPOSE_B,
    X0,
    X1,
    X3,
)
from warplab.emulator.core.state.random_order import is_random, random_below
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    increase,
    load_u16,
    load_u32,
    operand,
    put,
    store_u16,
    store_u32,
    trailing_zeros32,
)
from warplab.emulator.core.tensor.wgmma import (
    K_BYTES,
    ROWS,
    accumulator_offset,
    accumulators,
    copy_fragment,
    fragment_record,
    gather_pieces,
    multiply,
)

# A warp's state, in int64 units: where the queue's first entry starts and its last one ends, in bytes; the groups
# committed, whether there has been a wgmma.fence, the pc of the last access to a register without one (-1: none), the
# moment of the last product issued (see `warpgroups.py`), and what that was at each of the last commits.
_FIRST, _END, GROUPS, FENCED, TOUCH, ISSUED, COMMITS = range(7)
KEPT_COMMITS = 64
_FIELDS = COMMITS + KEPT_COMMITS
# Then, for every 64 bytes of the frame, how many operations in flight write and how many have read that row (uint16),
# and the queue. An entry has a header and then, for a product, A's registers or A's pieces, and B's pieces; for a move
# of a register that was not in flight, its lanes. _MOMENT is that of the warpgroup's product, 0 if the warp issued it
# alone; _READ whether the pieces have been read.
_KIND, _BYTES, _GROUP, _PC, _RECORD, _A, _B, _KEEP, _MASK, _MOMENT, _READ, _HEADER = range(12)
_PRODUCT, _MOVE = range(2)
_HEADER_BYTES = 8 * _HEADER
_ROW_BYTES = 4 * LANES
_SLOT = 64  # bytes of the frame
_A_BYTES = ROWS * K_BYTES
QUEUE_BYTES = 1 << 19


def state_bytes(frame_bytes: int) -> int:
    """The size of a warp's state."""
    return 8 * _FIELDS + 4 * (frame_bytes // _SLOT + 2) + QUEUE_BYTES


@compiled
def queue_state(m, warp):
    """The address of a warp's state."""
    return get(m, M_WGMMA) + warp * get(m, M_WGMMA_BYTES)


@compiled
def _counts(m, state, place, reads):
    """The address of the number of operations that have a row of the frame in flight."""
    return state + 8 * _FIELDS + 4 * (place // _SLOT) + 2 * reads


@compiled
def _queue(m, state):
    return state + 8 * _FIELDS + 4 * (get(m, M_FRAME_BYTES) // _SLOT + 2)


@compiled
def _mark(m, state, place, reads, amount):
    count = _counts(m, state, place, reads)
    store_u16(count, np.uint16(np.int64(load_u16(count)) + amount))


@compiled
def _in_flight(m, state, place):
    """Is a row of the frame still to be written?"""
    return place > 0 and load_u16(_counts(m, state, place, 0)) != 0


@compiled
def clear_queue(m, warp):
    """An empty queue, as at the start of a block."""
    state = queue_state(m, warp)
    fill_bytes(state, np.uint8(0), _queue(m, state) - state)
    put(state, TOUCH, -1)


# The queue


@compiled
def _mark_product(m, state, record, amount):
    """Count a product's registers as in flight (1), or no longer (-1)."""
    for index in range(accumulators(record)):
        _mark(m, state, accumulator_offset(record, index), 0, amount)
    if field(record, X3) & WGMMA_A_REGISTERS:
        source = fragment_record(record)
        for register in range(4):
            place = field(source, X0 if register == 3 else SRC_A + register)
            if place > 0:
                _mark(m, state, place, 1, amount)


@compiled
def _copy_row(target, source, mask):
    for lane in range(LANES):
        if (mask >> np.uint32(lane)) & np.uint32(1):
            store_u32(target + 4 * lane, load_u32(source + 4 * lane))


@compiled
def _read_operands(m, warp, entry):
    """Read what a warp's part of a product needs of shared memory."""
    record = get(entry, _RECORD)
    flags, a = field(record, X3), entry + _HEADER_BYTES
    if not flags & WGMMA_A_REGISTERS:
        gather_pieces(m, a, get(entry, _A), flags & WGMMA_TRANSPOSE_A, warp % WARPGROUP_WARPS * ROWS, ROWS)
    gather_pieces(m, a + _A_BYTES, get(entry, _B), flags & WGMMA_TRANSPOSE_B, 0, field(record, X1))
    put(entry, _READ, 1)


@compiled
def _read_product(m, warp, entry):
    """A product reads shared memory: for all warps of its warpgroup that issued it, at this moment."""
    if get(entry, _READ):
        return
    moment = get(entry, _MOMENT)
    _read_operands(m, warp, entry)
    first = warp // WARPGROUP_WARPS * WARPGROUP_WARPS
    for other in range(first, first + WARPGROUP_WARPS):
        if moment == 0 or other == warp:
            continue
        state = queue_state(m, other)
        position = get(state, _FIRST)
        while position < get(state, _END):
            theirs = _queue(m, state) + position
            position += get(theirs, _BYTES)
            if get(theirs, _KIND) == _PRODUCT and get(theirs, _MOMENT) == moment and not get(theirs, _READ):
                _read_operands(m, other, theirs)


@compiled
def _make_product(m, warp, state, entry):
    record, frame = get(entry, _RECORD), get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
    _read_product(m, warp, entry)
    a = entry + _HEADER_BYTES
    multiply(frame, record, a, a + _A_BYTES, get(entry, _KEEP), np.uint32(get(entry, _MASK)))
    _mark_product(m, state, record, -1)


@compiled
def _make_move(m, warp, state, entry):
    frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
    source = frame + get(entry, _A) if get(entry, _A) > 0 else entry + _HEADER_BYTES
    _copy_row(frame + get(entry, _B), source, np.uint32(get(entry, _MASK)))
    _mark(m, state, get(entry, _B), 0, -1)


@compiled
def _make_first(m, warp, state):
    """Make the oldest entry of a queue."""
    entry = _queue(m, state) + get(state, _FIRST)
    if get(entry, _KIND) == _PRODUCT:
        _make_product(m, warp, state, entry)
    else:
        _make_move(m, warp, state, entry)
    increase(state, _FIRST, get(entry, _BYTES))
    if get(state, _FIRST) == get(state, _END):
        put(state, _FIRST, 0)
        put(state, _END, 0)


@compiled
def make_groups(m, warp, state, groups):
    """Make the products of the first `groups` groups, and the moves that nothing else holds back."""
    while get(state, _FIRST) < get(state, _END):
        entry = _queue(m, state) + get(state, _FIRST)
        if get(entry, _KIND) == _PRODUCT and get(entry, _GROUP) >= groups:
            return
        _make_first(m, warp, state)


@compiled
def make_some(m, warp, state):
    """In a seeded run: make some of the oldest entries early."""
    if is_random(m):
        while get(state, _FIRST) < get(state, _END) and random_below(m, 3) == 0:
            _make_first(m, warp, state)


@compiled
def _new_entry(m, warp, state, kind, size, pc, mask):
    """Room for an entry of `size` bytes behind its header; what is in the way is made early."""
    needed = _HEADER_BYTES + size
    if get(state, _END) + needed > QUEUE_BYTES:
        while get(state, _FIRST) < get(state, _END) and get(state, _FIRST) < needed:
            _make_first(m, warp, state)
        kept = get(state, _END) - get(state, _FIRST)
        if get(state, _FIRST):
            _move_down(_queue(m, state), get(state, _FIRST), kept)
        put(state, _FIRST, 0)
        put(state, _END, kept)
    entry = _queue(m, state) + get(state, _END)
    increase(state, _END, needed)
    put(entry, _KIND, kind)
    put(entry, _BYTES, needed)
    put(entry, _GROUP, get(state, GROUPS))
    put(entry, _PC, pc)
    put(entry, _MASK, np.int64(mask))
    return entry


@compiled
def _move_down(queue, first, size):
    """Entries to the start of the buffer; they are multiples of 8 bytes."""
    for place in range(size // 8):
        put(queue, place, get(queue + first, place))


@compiled
def queue_product(m, warp, state, record, pc, mask, a, b, keep, moment):
    """Put a warp's part of a product at the end of its queue: descriptors a and b, and whether D is added to."""
    entry = _new_entry(m, warp, state, _PRODUCT, _A_BYTES + field(record, X1) * K_BYTES, pc, mask)
    put(entry, _RECORD, record)
    put(entry, _A, a)
    put(entry, _B, b)
    put(entry, _KEEP, keep)
    put(entry, _MOMENT, moment)
    put(entry, _READ, 0)
    if field(record, X3) & WGMMA_A_REGISTERS:
        frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
        copy_fragment(entry + _HEADER_BYTES, frame, get(m, M_CONSTANTS), record)
    _mark_product(m, state, record, 1)


# Other instructions on registers in flight


@compiled
def check_register(m, warp, state, place, write, pc, lane):
    """Report an access to a register in flight, with the product that it belongs to."""
    if place <= 0 or get(state, _FIRST) == get(state, _END):
        return
    if not _in_flight(m, state, place) and not (write and load_u16(_counts(m, state, place, 1))):
        return
    report(m, FAULT_IN_FLIGHT, pc, warp, lane, 0, 0, write, _user(m, state, place), 0, 0)


@compiled
def _user(m, state, place):
    """The pc of the oldest product in the queue that has a register in flight, followed through moves; -1: none."""
    position = get(state, _FIRST)
    oldest = np.int64(-1)
    while position < get(state, _END):
        entry = _queue(m, state) + position
        position += get(entry, _BYTES)
        if get(entry, _KIND) == _MOVE:
            if get(entry, _B) == place:
                return oldest
            continue
        record = get(entry, _RECORD)
        oldest = get(entry, _PC)
        for index in range(accumulators(record)):
            if accumulator_offset(record, index) == place:
                return oldest
        if field(record, X3) & WGMMA_A_REGISTERS:
            source = fragment_record(record)
            for register in range(4):
                if field(source, X0 if register == 3 else SRC_A + register) == place:
                    return oldest
    return oldest


@compiled
def access_register(m, warp, record, pc, mask):
    """A move of a register that may be in flight, or the check in front of another instruction."""
    state, action = queue_state(m, warp), field(record, X0)
    place, lane = field(record, SRC_A), np.int64(trailing_zeros32(mask))
    if action == WGMMA_MOVE:
        _move(m, warp, state, record, pc, mask)
    elif action == WGMMA_TOUCH:
        put(state, TOUCH, pc)
    else:
        check_register(m, warp, state, place, 0 if action == WGMMA_READ else 1, pc, lane)


@compiled
def _move(m, warp, state, record, pc, mask):
    frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
    target, source = field(record, DST), field(record, SRC_A)
    row = operand(frame, get(m, M_CONSTANTS), record, SRC_A)
    waits = _in_flight(m, state, source)
    if not waits and not _in_flight(m, state, target):
        _copy_row(frame + target, row, mask)
        return
    entry = _new_entry(m, warp, state, _MOVE, 0 if waits else _ROW_BYTES, pc, mask)
    put(entry, _A, source if waits else np.int64(0))
    put(entry, _B, target)
    if not waits:
        copy_bytes(entry + _HEADER_BYTES, row, _ROW_BYTES)
    _mark(m, state, target, 0, 1)
