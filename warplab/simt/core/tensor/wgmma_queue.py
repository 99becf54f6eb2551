"""Wgmma operations in flight: a queue for each warp.

An operation reads a's registers when it is issued; shared memory and its accumulators it reads, and its accumulators it
writes, when a wgmma.wait_group asks for its group, in order, and not before. So a kernel that forgets to wait works on
old sums. Moves of registers in flight stand in the queue as well. With a seed, operations are also made at random
earlier moments. A warp computes its own 16 rows by itself; a log for each warpgroup tells whether its four warps
execute the same operations.
"""

from __future__ import annotations

import numpy as np

from warplab.simt.core.alu.rows import lanes_matching
from warplab.simt.core.memory.shadow import check_async_read, check_read, last_writer
from warplab.simt.core.state.faults import compiled, report
from warplab.simt.core.state.layout import (
    C_FIELDS,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    DST,
    FAULT_IN_FLIGHT,
    FAULT_NO_FENCE,
    FAULT_OPERAND,
    FAULT_OUT_OF_BOUNDS,
    FAULT_WARPGROUP,
    IMM,
    LANES,
    M_CONSTANTS,
    M_COUNTS,
    M_FRAME_BYTES,
    M_FRAMES,
    M_SHARED_SHADOW,
    M_THREADS,
    M_WARP_COUNT,
    M_WARPGROUPS,
    M_WGMMA,
    M_WGMMA_BYTES,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    WARPGROUP_DESCRIPTORS,
    WARPGROUP_DIFFERS,
    WARPGROUP_MISSING,
    WARPGROUP_SKIPS,
    WGMMA_A_REGISTERS,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_MOVE,
    WGMMA_READ,
    WGMMA_TOUCH,
    WGMMA_TOUCHED,
    WGMMA_TRANSPOSE_A,
    WGMMA_TRANSPOSE_B,
    X0,
    X1,
    X3,
)
from warplab.simt.core.state.random_order import is_random, random_below
from warplab.simt.core.state.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    increase,
    load_i64,
    load_u16,
    load_u32,
    load_u64,
    operand,
    put,
    store_u16,
    store_u32,
    trailing_zeros32,
)
from warplab.simt.core.tensor.descriptors import PIECE_BYTES
from warplab.simt.core.tensor.wgmma import (
    K_BYTES,
    ROWS,
    accumulator_offset,
    accumulators,
    copy_fragment,
    fragment_record,
    gather_pieces,
    inside,
    multiply,
    nth_piece,
    pieces,
)

# A warp's state, in int64 units: where the queue's first entry starts and its last one ends, in bytes; the groups
# committed, whether there has been a wgmma.fence, the pc of the last access to a register without one (-1: none), and
# the products issued.
_FIRST, _END, _GROUPS, _FENCED, _TOUCH, _ISSUED, _FIELDS = range(7)
# Then, for every 64 bytes of the frame, how many operations in flight write and how many have read that row (uint16),
# a buffer for gathered operands, and the queue. An entry has a header and then, for a product, what it read: A's
# registers (or A's pieces), B's pieces; for a move of a register that was not in flight, its lanes.
_KIND, _BYTES, _GROUP, _PC, _RECORD, _A, _B, _KEEP, _MASK, _HEADER = range(10)
_PRODUCT, _MOVE = range(2)
_HEADER_BYTES = 8 * _HEADER
_ROW_BYTES = 4 * LANES
_SLOT = 64  # bytes of the frame
_GATHER_BYTES = (ROWS + 256) * K_BYTES
_A_BYTES = ROWS * K_BYTES
QUEUE_BYTES = 1 << 19
# A warpgroup's log: how many products its fastest warp has issued; of each of the last ones pc, a, b and scale-d.
_LOGGED, _LOG = 0, 1
_LOG_ENTRIES, _LOG_FIELDS = 512, 4
LOG_BYTES = 8 * (_LOG + _LOG_ENTRIES * _LOG_FIELDS)
GROUP_WARPS = 4
WAVEFRONT_BYTES = 128


def state_bytes(frame_bytes: int) -> int:
    """The size of a warp's state."""
    return 8 * _FIELDS + 4 * (frame_bytes // _SLOT + 2) + _GATHER_BYTES + QUEUE_BYTES


@compiled
def _state(m, warp):
    return get(m, M_WGMMA) + warp * get(m, M_WGMMA_BYTES)


@compiled
def _counts(m, state, place, reads):
    """The address of the number of operations that have a row of the frame in flight."""
    return state + 8 * _FIELDS + 4 * (place // _SLOT) + 2 * reads


@compiled
def _gathered(m, state):
    return state + 8 * _FIELDS + 4 * (get(m, M_FRAME_BYTES) // _SLOT + 2)


@compiled
def _queue(m, state):
    return _gathered(m, state) + _GATHER_BYTES


@compiled
def _mark(m, state, place, reads, amount):
    count = _counts(m, state, place, reads)
    store_u16(count, np.uint16(np.int64(load_u16(count)) + amount))


@compiled
def _in_flight(m, state, place):
    """Is a row of the frame still to be written?"""
    return place > 0 and load_u16(_counts(m, state, place, 0)) != 0


@compiled
def clear_queues(m):
    """Empty queues, as at the start of a block."""
    for warp in range(get(m, M_WARP_COUNT)):
        state = _state(m, warp)
        fill_bytes(state, np.uint8(0), _gathered(m, state) - state)
        put(state, _TOUCH, -1)
        put(get(m, M_WARPGROUPS) + warp // GROUP_WARPS * LOG_BYTES, _LOGGED, 0)


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
def _changed_operand(m, warp, entry, descriptor, transposed, first, rows, old, new):
    """Report the first piece of an operand that is no longer what it was when the product was issued."""
    for index in range(pieces(rows)):
        place = index * PIECE_BYTES
        if load_u64(old + place) != load_u64(new + place) or load_u64(old + place + 8) != load_u64(new + place + 8):
            address = nth_piece(descriptor, transposed, first, rows, index)
            word = np.int64(0)
            while load_u32(old + place + 4 * word) == load_u32(new + place + 4 * word):
                word += 1
            writer = last_writer(m, address + 4 * word)
            lane = np.int64(trailing_zeros32(np.uint32(get(entry, _MASK))))
            report(m, FAULT_OPERAND, get(entry, _PC), warp, lane, address + 4 * word, 4, 0, writer, SPACE_SHARED, 0)
            return


@compiled
def _make_product(m, warp, state, entry):
    record, frame = get(entry, _RECORD), get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
    flags, n = field(record, X3), field(record, X1)
    old_a = entry + _HEADER_BYTES
    a, b = _gathered(m, state), _gathered(m, state) + _A_BYTES
    first = warp % GROUP_WARPS * ROWS
    gather_pieces(m, b, get(entry, _B), flags & WGMMA_TRANSPOSE_B, 0, n)
    if flags & WGMMA_A_REGISTERS:
        a = old_a
    else:
        gather_pieces(m, a, get(entry, _A), flags & WGMMA_TRANSPOSE_A, first, ROWS)
    if get(m, M_SHARED_SHADOW):
        if not flags & WGMMA_A_REGISTERS:
            _changed_operand(m, warp, entry, get(entry, _A), flags & WGMMA_TRANSPOSE_A, first, ROWS, old_a, a)
        _changed_operand(m, warp, entry, get(entry, _B), flags & WGMMA_TRANSPOSE_B, 0, n, old_a + _A_BYTES, b)
    multiply(frame, record, a, b, get(entry, _KEEP), np.uint32(get(entry, _MASK)))
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
def _make_groups(m, warp, state, groups):
    """Make the products of the first `groups` groups, and the moves that nothing else holds back."""
    while get(state, _FIRST) < get(state, _END):
        entry = _queue(m, state) + get(state, _FIRST)
        if get(entry, _KIND) == _PRODUCT and get(entry, _GROUP) >= groups:
            return
        _make_first(m, warp, state)


@compiled
def _make_some(m, warp, state):
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
    put(entry, _GROUP, get(state, _GROUPS))
    put(entry, _PC, pc)
    put(entry, _MASK, np.int64(mask))
    return entry


@compiled
def _move_down(queue, first, size):
    """Entries to the start of the buffer; they are multiples of 8 bytes."""
    for place in range(size // 8):
        put(queue, place, get(queue + first, place))


# Products


@compiled
def _follow_warpgroup(m, warp, state, pc, a, b, keep, lane):
    """Compare a warp's next product with what the others of its warpgroup have issued."""
    log = get(m, M_WARPGROUPS) + warp // GROUP_WARPS * LOG_BYTES
    number = get(state, _ISSUED)
    increase(state, _ISSUED, 1)
    entry = log + (_LOG + number % _LOG_ENTRIES * _LOG_FIELDS) * 8
    if number == get(log, _LOGGED):
        increase(log, _LOGGED, 1)
        put(entry, 0, pc)
        put(entry, 1, a)
        put(entry, 2, b)
        put(entry, 3, keep)
    elif get(log, _LOGGED) - number <= _LOG_ENTRIES:
        same = get(entry, 0) == pc and get(entry, 1) == a and get(entry, 2) == b and get(entry, 3) == keep
        if not same:
            report(m, FAULT_WARPGROUP, pc, warp, lane, 0, 0, 0, get(entry, 0), 0, WARPGROUP_DIFFERS)


@compiled
def check_warpgroups(m):
    """At a block's end: have the warps of each warpgroup issued equally many products?"""
    for warp in range(get(m, M_WARP_COUNT)):
        log = get(m, M_WARPGROUPS) + warp // GROUP_WARPS * LOG_BYTES
        number = get(_state(m, warp), _ISSUED)
        if number < get(log, _LOGGED):
            entry = log + (_LOG + number % _LOG_ENTRIES * _LOG_FIELDS) * 8
            report(m, FAULT_WARPGROUP, get(entry, 0), warp, 0, 0, 0, 0, -1, 0, WARPGROUP_SKIPS)


@compiled
def _check_operand(m, warp, descriptor, transposed, first, rows, pc, lane):
    """Check that all pieces of a matrix can be read now, and record the reads."""
    for index in range(pieces(rows)):
        address = nth_piece(descriptor, transposed, first, rows, index)
        if inside(m, address):
            check_read(m, warp, address, PIECE_BYTES, PIECE_BYTES, pc, lane, 0, 0, 1)
            check_async_read(m, warp, address, PIECE_BYTES, pc, lane)
        else:
            report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, address, PIECE_BYTES, 0, -1, SPACE_SHARED, 0)


@compiled
def _descriptor(m, warp, frame, constants, record, slot, pc, lane, mask):
    """A descriptor, which all threads of the warp have to give alike."""
    row = operand(frame, constants, record, slot)
    value = load_i64(row + 8 * lane)
    if lanes_matching(row, value, np.int64(0)) & mask != mask:
        report(m, FAULT_WARPGROUP, pc, warp, lane, 0, 0, 0, -1, 0, WARPGROUP_DESCRIPTORS)
    return value


@compiled
def _check_registers(m, warp, state, record, pc, lane):
    """The rules for the registers of a product that is about to be issued."""
    if not get(state, _FENCED):
        report(m, FAULT_NO_FENCE, pc, warp, lane, 0, 0, 0, -1, 0, 0)
        put(state, _FENCED, 1)
    elif field(record, X3) & WGMMA_TOUCHED and get(state, _TOUCH) >= 0:
        report(m, FAULT_NO_FENCE, pc, warp, lane, 0, 0, 0, get(state, _TOUCH), 0, 0)
        put(state, _TOUCH, -1)
    if field(record, X3) & WGMMA_A_REGISTERS:
        source = fragment_record(record)
        for register in range(4):
            _check_register(m, warp, state, field(source, X0 if register == 3 else SRC_A + register), 0, pc, lane)


@compiled
def _count_reads(m, warp, record, pc):
    """Wavefronts of 128 bytes: a warp's rows of A, and B once a warpgroup. Canonical layouts have no conflicts."""
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    rows = np.int64(0) if field(record, X3) & WGMMA_A_REGISTERS else np.int64(ROWS)
    if warp % GROUP_WARPS == 0:
        rows += field(record, X1)
    increase(cell, C_SHARED_REQUESTS, 1)
    increase(cell, C_WAVEFRONTS, rows * K_BYTES // WAVEFRONT_BYTES)


@compiled
def issue_product(m, warp, frame, constants, record, pc, mask):
    """One wgmma.mma_async of a warp: check it and queue it."""
    state = _state(m, warp)
    lane = np.int64(trailing_zeros32(mask))
    flags, n = field(record, X3), field(record, X1)
    from_registers = flags & WGMMA_A_REGISTERS
    first = warp % GROUP_WARPS * ROWS
    a = np.int64(0)
    if not from_registers:
        a = _descriptor(m, warp, frame, constants, record, SRC_A, pc, lane, mask)
    b = _descriptor(m, warp, frame, constants, record, SRC_B, pc, lane, mask)
    keep = np.int64((load_u32(operand(frame, constants, record, SRC_C)) >> np.uint32(lane)) & np.uint32(1))
    if (warp // GROUP_WARPS + 1) * GROUP_WARPS * LANES > get(m, M_THREADS):
        report(m, FAULT_WARPGROUP, pc, warp, lane, 0, 0, 0, -1, 0, WARPGROUP_MISSING)
    else:
        _follow_warpgroup(m, warp, state, pc, a, b, keep, lane)
    _count_reads(m, warp, record, pc)
    _check_registers(m, warp, state, record, pc, lane)
    _make_some(m, warp, state)
    sanitised = get(m, M_SHARED_SHADOW) != 0
    size = _A_BYTES + n * K_BYTES if sanitised else _A_BYTES
    entry = _new_entry(m, warp, state, _PRODUCT, size, pc, mask)
    put(entry, _RECORD, record)
    put(entry, _A, a)
    put(entry, _B, b)
    put(entry, _KEEP, keep)
    copied = entry + _HEADER_BYTES
    if from_registers:
        copy_fragment(copied, frame, constants, record)
    elif sanitised:
        _check_operand(m, warp, a, flags & WGMMA_TRANSPOSE_A, first, ROWS, pc, lane)
        gather_pieces(m, copied, a, flags & WGMMA_TRANSPOSE_A, first, ROWS)
    if sanitised:
        _check_operand(m, warp, b, flags & WGMMA_TRANSPOSE_B, 0, n, pc, lane)
        gather_pieces(m, copied + _A_BYTES, b, flags & WGMMA_TRANSPOSE_B, 0, n)
    _mark_product(m, state, record, 1)


@compiled
def group_products(m, warp, record):
    """wgmma.fence, commit_group or wait_group of a warp."""
    state, action = _state(m, warp), field(record, X0)
    _make_some(m, warp, state)
    if action == WGMMA_FENCE:
        put(state, _FENCED, 1)
        put(state, _TOUCH, -1)
    elif action == WGMMA_COMMIT:
        increase(state, _GROUPS, 1)
    else:
        _make_groups(m, warp, state, get(state, _GROUPS) - field(record, IMM))


# Other instructions on registers in flight


@compiled
def _check_register(m, warp, state, place, write, pc, lane):
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
    state, action = _state(m, warp), field(record, X0)
    place, lane = field(record, SRC_A), np.int64(trailing_zeros32(mask))
    if action == WGMMA_MOVE:
        _move(m, warp, state, record, pc, mask)
    elif action == WGMMA_TOUCH:
        put(state, _TOUCH, pc)
    else:
        _check_register(m, warp, state, place, 0 if action == WGMMA_READ else 1, pc, lane)


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
