"""Loads and stores of buffers, module variables and parameter banks.

The upper bits of a generic address name a window, and that the region which owns it (see `layout.py`), so any address
leads to a buffer and a place in it, or to a fault. A faulting lane's access is dropped (a load gives 0) and the kernel
goes on. Sizes are taken off limits, never added to addresses: a sum may wrap.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.causality import strong_lanes
from warplab.emulator.core.memory.counting import count_sectors, first_seen, new_stamp
from warplab.emulator.core.memory.global_races import note_lane, note_run
from warplab.emulator.core.memory.pieces import (
    P_ADDRESS,
    P_ENTRY,
    P_FIRST,
    P_LANES,
    P_STEP,
    PIECE_BYTES,
    common_step,
    find_pieces,
    is_side_by_side,
    piece_fits,
    piece_lanes,
    piece_sectors,
)
from warplab.emulator.core.memory.request_log import LOG_READ, LOG_READ_PAST_L1, LOG_WRITE, log_sectors
from warplab.emulator.core.memory.same_store import check_store
from warplab.emulator.core.memory.transfer import (
    count_transfer,
    data_operand,
    load_strided,
    read_element,
    store_strided,
    write_element,
    zero_lane,
)
from warplab.emulator.core.memory.watch import note_store
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_REQUESTS,
    DST,
    FAULT_MISALIGNED,
    FAULT_NULL,
    FAULT_OUT_OF_BOUNDS,
    FAULT_READ_ONLY,
    FAULT_UNINITIALISED,
    FIRST_WINDOW,
    IMM,
    M_COUNTS,
    M_LOG,
    M_REGIONS,
    M_SCRATCH,
    M_SEEN,
    PAST_L1_BIT,
    R_BYTES,
    R_CELLS,
    R_FIRST_STORE,
    R_FLAGS,
    R_HOST,
    R_SHADOW,
    R_START,
    R_TRACKED,
    R_WRITABLE,
    SIGNED_BIT,
    SPACE_GLOBAL,
    SRC_A,
    STRONG_SHIFT,
    WINDOW_BITS,
    WINDOWS,
    X1,
    X2,
    X3,
)
from warplab.emulator.core.state.raw import (
    field,
    fill_bytes,
    get,
    increase,
    leading_zeros32,
    load_i64,
    load_u8,
    operand,
    put,
    trailing_zeros32,
)

NULL_PAGE = 1 << 20  # addresses below are an offset from a null pointer


@compiled
def region_at(m, address):
    """The region that owns the window of an address; 0 if none does."""
    window = (address >> WINDOW_BITS) - FIRST_WINDOW
    return get(get(m, M_REGIONS), window) if 0 <= window < WINDOWS else np.int64(0)


@compiled
def region_offset(entry, address):
    """The place of a generic address in its region."""
    return address - get(entry, R_START)


@compiled
def resolve(m, address, size, alignment):
    """The region of [address, address + size), or 0 if it is not all in one region or misaligned."""
    entry = region_at(m, address)
    if entry == 0 or address & (alignment - 1):
        return np.int64(0)
    offset = region_offset(entry, address)
    if offset < 0 or offset > get(entry, R_BYTES) - size:
        return np.int64(0)
    return entry


@compiled
def fault_kind(m, address, size):
    """Why an access of `size` bytes at a generic address cannot be made; -1 if it can."""
    if address & (size - 1):
        return FAULT_MISALIGNED
    if resolve(m, address, size, 1):
        return -1
    return FAULT_NULL if 0 <= address < NULL_PAGE else FAULT_OUT_OF_BOUNDS


@compiled
def check_initialised(m, entry, address, size, element, pc, warp, lane):
    """In a region that starts out undefined, report a read of bytes that nothing wrote, `element` bytes a lane."""
    shadow = get(entry, R_SHADOW) + region_offset(entry, address)
    for i in range(size):
        if load_u8(shadow + i) == 0:
            place = i // element
            at = address + place * element
            report(m, FAULT_UNINITIALISED, pc, warp, lane + place, at, element, 0, -1, SPACE_GLOBAL, 0)
            fill_bytes(shadow, np.uint8(1), size)
            return


@compiled
def load_global(m, warp, frame, constants, record, pc, mask, counted):
    """A load from buffers, module variables or the parameter bank.

    `counted` is 0 for the constant space. Its loads count all the same where they lead out of it, to memory that can be
    written: the emulator has one space of addresses, and such a load would be one of global memory for free.
    """
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM)
    size = field(record, X1)
    total = size * field(record, X2)
    first = np.int64(trailing_zeros32(mask))
    start = load_i64(row + 8 * first) + offset
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    if counted:
        increase(cell, C_REQUESTS, 1)
        if get(m, M_LOG):
            kind = LOG_READ_PAST_L1 if field(record, X3) & PAST_L1_BIT else LOG_READ
            log_sectors(m, row, offset, total, mask, kind)
    step = common_step(row, mask, total)
    if step >= 0:
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        length = total + (last - first) * step
        entry = resolve(m, start, length, total)
        if entry:
            if counted or get(entry, R_FLAGS) & R_WRITABLE:
                count_transfer(cell, ((start + length - 1) >> 5) - (start >> 5) + 1, total, mask)
            if get(entry, R_FLAGS) & R_TRACKED:
                check_initialised(m, entry, start, length, total, pc, warp, first)
            place = region_offset(entry, start)
            strong = field(record, X3) >> STRONG_SHIFT
            if get(entry, R_CELLS):
                if step:
                    lanes = last - first + 1
                    note_run(m, entry, warp, frame, constants, record, pc, first, lanes, place, total, 0, strong)
                else:
                    several = 1 if first != last else 0
                    note_lane(m, entry, warp, frame, constants, record, pc, first, place, total, 0, strong, several)
            if strong:
                strong_lanes(m, warp, row, offset, mask, strong, 0)
            load_strided(frame, constants, record, mask, get(entry, R_HOST) + place, step)
            return
    if field(record, X3) >> STRONG_SHIFT:
        strong_lanes(m, warp, row, offset, mask, field(record, X3) >> STRONG_SHIFT, 0)
    if not _in_pieces(m, warp, frame, constants, record, pc, mask, counted, 0):
        _load_scattered(m, warp, frame, constants, record, pc, mask, counted)


@compiled
def _in_pieces(m, warp, frame, constants, record, pc, mask, counted, write):
    """An access in a few pieces; False: it is none, or something is wrong with it."""
    row, pieces = operand(frame, constants, record, SRC_A), get(m, M_SCRATCH)
    offset = field(record, IMM)
    total = field(record, X1) * field(record, X2)
    count = find_pieces(pieces, row, offset, mask)
    if count == 0:
        return False
    outside = np.int64(0)
    for number in range(count):
        piece = pieces + number * PIECE_BYTES
        entry = region_at(m, get(piece, P_ADDRESS))
        if entry == 0 or (write and not get(entry, R_FLAGS) & R_WRITABLE):
            return False
        if not piece_fits(piece, total, get(entry, R_START), get(entry, R_START) + get(entry, R_BYTES)):
            return False
        outside |= get(entry, R_FLAGS) & R_WRITABLE
        put(piece, P_ENTRY, entry)
    if counted or outside:
        sectors = piece_sectors(pieces, count, total)
        if sectors < 0:
            sectors = count_sectors(m, row, offset, total, mask)
        count_transfer(get(m, M_COUNTS) + pc * C_FIELDS * 8, sectors, total, mask)
    for number in range(count):
        piece = pieces + number * PIECE_BYTES
        entry, step = get(piece, P_ENTRY), get(piece, P_STEP)
        place = region_offset(entry, get(piece, P_ADDRESS))
        host = get(entry, R_HOST) + place
        if get(entry, R_FLAGS) & R_TRACKED:
            _track_piece(m, warp, piece, entry, place, total, pc, write)
        if get(entry, R_CELLS):
            _note_piece(m, warp, frame, constants, record, piece, entry, place, total, pc, write)
        if write:
            if get(entry, R_FIRST_STORE) < 0:
                put(entry, R_FIRST_STORE, pc)
            store_strided(frame, constants, record, piece_lanes(piece), host, step)
        else:
            load_strided(frame, constants, record, piece_lanes(piece), host, step)
    return True


@compiled
def _note_piece(m, warp, frame, constants, record, piece, entry, place, size, pc, write):
    """Tell the search for races of a piece of an access, lane by lane where it is not one stretch of memory."""
    first, lanes, step = get(piece, P_FIRST), get(piece, P_LANES), get(piece, P_STEP)
    strong = field(record, X3) >> STRONG_SHIFT
    if is_side_by_side(piece, size):
        note_run(m, entry, warp, frame, constants, record, pc, first, lanes, place, size, write, strong)
    elif step == 0 and not write:
        note_lane(m, entry, warp, frame, constants, record, pc, first, place, size, 0, strong, 1)
    else:
        for lane in range(lanes):
            at = place + lane * step
            note_lane(m, entry, warp, frame, constants, record, pc, first + lane, at, size, write, strong, 0)


@compiled
def _track_piece(m, warp, piece, entry, place, size, pc, write):
    """Note or check what a piece of an access writes or reads, lane by lane where it is not one stretch of memory."""
    address, first, lanes, step = get(piece, P_ADDRESS), get(piece, P_FIRST), get(piece, P_LANES), get(piece, P_STEP)
    runs, length = (1, lanes) if is_side_by_side(piece, size) else (lanes, 1)
    for run in range(runs):
        if write:
            note_store(m, entry, pc, warp, first + run, place + run * step, size * length, size)
        else:
            check_initialised(m, entry, address + run * step, size * length, size, pc, warp, first + run)


@compiled
def _load_scattered(m, warp, frame, constants, record, pc, mask, counted):
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM)
    size, count, flags = field(record, X1), field(record, X2), field(record, X3)
    total = size * count
    lane_bytes = flags & 0xFF
    signed = flags & SIGNED_BIT
    destination = operand(frame, constants, record, DST)
    seen = get(m, M_SEEN)
    stamp = new_stamp(m)
    sectors = np.int64(0)
    previous = np.int64(-1)
    window = np.int64(-1)
    # What is known of the window of the lane before, as lanes mostly read one array; at first nothing may be read.
    limit = np.int64(-1)
    start = np.int64(0)
    base = np.int64(0)
    tracked = np.int64(0)
    entry = np.int64(0)
    good = np.uint32(0)
    outside = np.int64(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if address >> WINDOW_BITS != window:
            window = address >> WINDOW_BITS
            limit = np.int64(-1)
            entry = region_at(m, address)
            if entry:
                limit = get(entry, R_BYTES) - total
                start = get(entry, R_START)
                base = get(entry, R_HOST)
                tracked = get(entry, R_FLAGS) & R_TRACKED
        place = address - start
        if place < 0 or place > limit or address & (total - 1):
            report(m, fault_kind(m, address, total), pc, warp, lane, address, total, 0, -1, SPACE_GLOBAL, 0)
            zero_lane(frame, constants, record, lane)
            continue
        good |= np.uint32(1) << np.uint32(lane)
        outside |= get(entry, R_FLAGS) & R_WRITABLE
        sector = address >> 5
        if sector != previous:
            previous = sector
            if first_seen(seen, stamp, sector):
                sectors += 1
        if tracked:
            check_initialised(m, entry, address, total, total, pc, warp, lane)
        if get(entry, R_CELLS):
            note_lane(m, entry, warp, frame, constants, record, pc, lane, place, total, 0, flags >> STRONG_SHIFT, 0)
        if count == 1:
            write_element(destination + lane * lane_bytes, lane_bytes, read_element(base + place, size, signed))
        else:
            for element in range(count):
                to = data_operand(frame, constants, record, element, DST) + lane * lane_bytes
                write_element(to, lane_bytes, read_element(base + place + element * size, size, signed))
    if counted or outside:
        count_transfer(get(m, M_COUNTS) + pc * C_FIELDS * 8, sectors, total, good)


@compiled
def store_global(m, warp, frame, constants, record, pc, mask):
    """A store to buffers or module variables."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM)
    size = field(record, X1)
    total = size * field(record, X2)
    first = np.int64(trailing_zeros32(mask))
    start = load_i64(row + 8 * first) + offset
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    increase(cell, C_REQUESTS, 1)
    strong = field(record, X3) >> STRONG_SHIFT
    if get(m, M_LOG):
        log_sectors(m, row, offset, total, mask, LOG_WRITE)
    if common_step(row, mask, total) > 0:
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        length = total * (last - first + 1)
        entry = resolve(m, start, length, total)
        if entry and get(entry, R_FLAGS) & R_WRITABLE:
            count_transfer(cell, ((start + length - 1) >> 5) - (start >> 5) + 1, total, mask)
            if get(entry, R_FIRST_STORE) < 0:
                put(entry, R_FIRST_STORE, pc)
            if get(entry, R_FLAGS) & R_TRACKED:
                note_store(m, entry, pc, warp, first, region_offset(entry, start), length, total)
            place = region_offset(entry, start)
            if get(entry, R_CELLS):
                lanes = last - first + 1
                note_run(m, entry, warp, frame, constants, record, pc, first, lanes, place, total, 1, strong)
            store_strided(frame, constants, record, mask, get(entry, R_HOST) + place, total)
            if strong:
                strong_lanes(m, warp, row, offset, mask, strong, 1)
            return
    check_store(m, warp, frame, constants, record, pc, row, offset, mask, SPACE_GLOBAL)
    if _in_pieces(m, warp, frame, constants, record, pc, mask, 1, 1):
        if strong:
            strong_lanes(m, warp, row, offset, mask, strong, 1)
        return
    good = np.uint32(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        entry = resolve(m, address, total, total)
        if entry == 0:
            report(m, fault_kind(m, address, total), pc, warp, lane, address, total, 1, -1, SPACE_GLOBAL, 0)
            continue
        if not get(entry, R_FLAGS) & R_WRITABLE:
            report(m, FAULT_READ_ONLY, pc, warp, lane, address, total, 1, -1, SPACE_GLOBAL, 0)
            continue
        good |= np.uint32(1) << np.uint32(lane)
        place = region_offset(entry, address)
        if get(entry, R_FIRST_STORE) < 0:
            put(entry, R_FIRST_STORE, pc)
        if get(entry, R_FLAGS) & R_TRACKED:
            note_store(m, entry, pc, warp, lane, place, total, total)
        if get(entry, R_CELLS):
            note_lane(m, entry, warp, frame, constants, record, pc, lane, place, total, 1, strong, 0)
        store_strided(
            frame, constants, record, np.uint32(1) << np.uint32(lane), get(entry, R_HOST) + place, np.int64(0)
        )
    if strong:
        strong_lanes(m, warp, row, offset, good, strong, 1)
    count_transfer(cell, count_sectors(m, row, offset, total, good), total, good)
