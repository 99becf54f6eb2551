"""Loads and stores of the threads' own memory."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import lanes_matching
from warplab.emulator.core.memory.counting import first_seen, new_stamp
from warplab.emulator.core.memory.request_log import LOG_LOCAL_READ, LOG_LOCAL_WRITE, log_local
from warplab.emulator.core.memory.transfer import data_operand, read_element, write_element, zero_lane
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_LOCAL_REQUESTS,
    C_LOCAL_SECTORS,
    DST,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    FAULT_UNINITIALISED,
    FULL_MASK,
    IMM,
    M_COUNTS,
    M_LOCAL,
    M_LOCAL_BYTES,
    M_LOCAL_SHADOW,
    M_LOG,
    M_SEEN,
    SIGNED_BIT,
    SPACE_LOCAL,
    SRC_A,
    SRC_B,
    X1,
    X2,
    X3,
)
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    increase,
    load_i64,
    load_u8,
    load_u64,
    operand,
    store_u8,
    trailing_zeros32,
)


@compiled
def local_host(base, offset, lane):
    """Local memory interleaves the lanes word by word, as the hardware does: a word's 32 copies are one row."""
    return base + ((offset >> 2) * 32 + lane) * 4 + (offset & 3)


@compiled
def note_local(m, warp, offset, size, lane):
    """A lane has written `size` bytes of its local memory."""
    if get(m, M_LOCAL_SHADOW) == 0:
        return
    shadow = get(m, M_LOCAL_SHADOW) + warp * (get(m, M_LOCAL_BYTES) >> 2) * 32
    for word in range(offset >> 2, (offset + size + 3) >> 2):
        at = shadow + word * 32 + lane
        store_u8(at, np.uint8(load_u8(at) | _bytes_of(word, offset, size)))


@compiled
def _bytes_of(word, offset, size):
    """The bits of the bytes of a word that an access touches."""
    low, high = max(offset - 4 * word, 0), min(offset + size - 4 * word, 4)
    return np.uint8(((1 << high) - 1) & ~((1 << low) - 1))


@compiled
def _check_local(m, warp, offset, size, lane, pc):
    """Report a lane's read of bytes that nothing has written, once."""
    shadow = get(m, M_LOCAL_SHADOW) + warp * (get(m, M_LOCAL_BYTES) >> 2) * 32
    for word in range(offset >> 2, (offset + size + 3) >> 2):
        at, touched = shadow + word * 32 + lane, _bytes_of(word, offset, size)
        if load_u8(at) & touched != touched:
            report(m, FAULT_UNINITIALISED, pc, warp, lane, offset, size, 0, -1, SPACE_LOCAL, 0)
            note_local(m, warp, offset, size, lane)
            return


@compiled
def _row_is_written(m, warp, offset):
    """Has each lane written the word of its local memory at `offset`?"""
    at = get(m, M_LOCAL_SHADOW) + (warp * (get(m, M_LOCAL_BYTES) >> 2) + (offset >> 2)) * 32
    both = load_u64(at) & load_u64(at + 8) & load_u64(at + 16) & load_u64(at + 24)
    return both == np.uint64(0x0F0F0F0F0F0F0F0F)


@compiled
def local_access(m, warp, frame, constants, record, pc, mask, window, write, counted):
    """A load or store of the threads' own memory."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM) - window
    size, count, flags = field(record, X1), field(record, X2), field(record, X3)
    total = size * count
    lane_bytes = flags & 0xFF
    limit = get(m, M_LOCAL_BYTES)
    base = get(m, M_LOCAL) + warp * limit * 32
    first = np.int64(trailing_zeros32(mask))
    start = load_i64(row + 8 * first) + offset
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    seen = get(m, M_SEEN)
    stamp = new_stamp(m)
    sectors = np.int64(0)
    if counted:
        increase(cell, C_LOCAL_REQUESTS, 1)
        if get(m, M_LOG):
            log_local(m, warp, row, offset, total, mask, LOG_LOCAL_WRITE if write else LOG_LOCAL_READ)
    sanitised = get(m, M_LOCAL_SHADOW) != 0
    words = size == 4 and lane_bytes == 4 and 0 <= start <= limit - total and start & (total - 1) == 0
    if words and mask == np.uint32(FULL_MASK) and lanes_matching(row, start - offset, 0) == mask:
        for element in range(count):
            data = data_operand(frame, constants, record, element, SRC_B if write else DST)
            place = start + 4 * element
            host = base + place * 32
            if write:
                copy_bytes(host, data, 128)
                if sanitised:
                    shadow = get(m, M_LOCAL_SHADOW) + (warp * (limit >> 2) + (place >> 2)) * 32
                    fill_bytes(shadow, np.uint8(15), np.int64(32))
            else:
                copy_bytes(data, host, 128)
                if sanitised and counted and not _row_is_written(m, warp, place):
                    for each in range(32):
                        _check_local(m, warp, place, np.int64(4), np.int64(each), pc)
        if counted:
            increase(cell, C_LOCAL_SECTORS, 4 * count)
        return
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if address < 0 or address > limit - total or address & (total - 1):
            kind = FAULT_MISALIGNED if address & (total - 1) else FAULT_OUT_OF_BOUNDS
            report(m, kind, pc, warp, lane, address, total, write, -1, SPACE_LOCAL, 0)
            if not write:
                zero_lane(frame, constants, record, lane)
            continue
        for word in range(address >> 2, (address + total + 3) >> 2):
            if first_seen(seen, stamp, (word << 2) | (lane >> 3)):
                sectors += 1
        if sanitised and write:
            note_local(m, warp, address, total, lane)
        elif sanitised and counted:
            _check_local(m, warp, address, total, lane, pc)
        for element in range(count):
            data = data_operand(frame, constants, record, element, SRC_B if write else DST) + lane * lane_bytes
            place = address + element * size
            if write:
                value = read_element(data, lane_bytes, 0)
                write_element(local_host(base, place, lane), min(size, 4), value)
                if size == 8:
                    write_element(local_host(base, place + 4, lane), 4, value >> np.uint64(32))
            else:
                value = read_element(local_host(base, place, lane), min(size, 4), flags & SIGNED_BIT)
                if size == 8:
                    high = read_element(local_host(base, place + 4, lane), 4, 0)
                    value = (value & np.uint64(0xFFFFFFFF)) | (high << np.uint64(32))
                write_element(data, lane_bytes, value)
    if counted:
        increase(cell, C_LOCAL_SECTORS, sectors)
