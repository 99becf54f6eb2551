"""Loads and stores of the threads' own memory."""

from __future__ import annotations

import numpy as np

from warplab.simt.core.alu.rows import lanes_matching
from warplab.simt.core.memory.counting import first_seen, new_stamp
from warplab.simt.core.memory.request_log import LOG_LOCAL_READ, LOG_LOCAL_WRITE, log_local
from warplab.simt.core.memory.transfer import data_operand, read_element, write_element, zero_lane
from warplab.simt.core.state.faults import compiled, report
from warplab.simt.core.state.layout import (
    C_FIELDS,
    C_LOCAL_REQUESTS,
    C_LOCAL_SECTORS,
    DST,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    FULL_MASK,
    IMM,
    M_COUNTS,
    M_LOCAL,
    M_LOCAL_BYTES,
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
from warplab.simt.core.state.raw import copy_bytes, field, get, increase, load_i64, operand, trailing_zeros32


@compiled
def local_host(base, offset, lane):
    """Local memory interleaves the lanes word by word, as the hardware does: a word's 32 copies are one row."""
    return base + ((offset >> 2) * 32 + lane) * 4 + (offset & 3)


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
    words = size == 4 and lane_bytes == 4 and 0 <= start <= limit - total and start & (total - 1) == 0
    if words and mask == np.uint32(FULL_MASK) and lanes_matching(row, start - offset, 0) == mask:
        for element in range(count):
            data = data_operand(frame, constants, record, element, SRC_B if write else DST)
            host = base + (start + 4 * element) * 32
            if write:
                copy_bytes(host, data, 128)
            else:
                copy_bytes(data, host, 128)
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
