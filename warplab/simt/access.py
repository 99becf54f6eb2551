"""Loads and stores of a warp: address resolution, data, counters, faults.

A generic address names a region in its upper bits (see `layout.py`), so any address leads to a buffer and a place in
it, or to a fault. A faulting lane's access is dropped (a load gives 0) and the kernel goes on.
"""

from __future__ import annotations

import numpy as np

from warplab.simt.counting import count_sectors, count_wavefronts, first_seen, new_stamp
from warplab.simt.layout import (
    C_FIELDS,
    C_IDEAL,
    C_IDEAL_SECTORS,
    C_LOCAL_REQUESTS,
    C_LOCAL_SECTORS,
    C_REQUESTS,
    C_SECTORS,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    DST,
    FAULT_MISALIGNED,
    FAULT_NULL,
    FAULT_OUT_OF_BOUNDS,
    FAULT_READ_ONLY,
    FAULT_UNINITIALISED,
    FIRST_REGION,
    FULL_MASK,
    IMM,
    M_COUNTS,
    M_LOCAL,
    M_LOCAL_BYTES,
    M_REGION_COUNT,
    M_REGIONS,
    M_SEEN,
    M_SHARED,
    M_SHARED_BYTES,
    R_BYTES,
    R_FIELDS,
    R_FIRST_STORE,
    R_FLAGS,
    R_HOST,
    R_SHADOW,
    R_TRACKED,
    R_WRITABLE,
    REGION_LOCAL,
    REGION_SHARED,
    SIGNED_BIT,
    SPACE_CONST,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_LOCAL,
    SPACE_PARAM,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    VOLATILE_BIT,
    WINDOW_BITS,
    WINDOW_HALF,
    X0,
    X1,
    X2,
    X3,
    X4,
)
from warplab.simt.lower import SHARED_BASE
from warplab.simt.raw import (
    copy_bytes,
    field,
    fill_bytes,
    get,
    increase,
    leading_zeros32,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    operand,
    popcount32,
    put,
    store_u8,
    store_u16,
    store_u32,
    store_u64,
    trailing_zeros32,
)
from warplab.simt.rows import fill_row16, fill_row32, fill_row64, lanes_in_region, lanes_matching
from warplab.simt.shadow import check_read, check_write
from warplab.simt.state import compiled, report

SHARED_WINDOW = (REGION_SHARED << WINDOW_BITS) + WINDOW_HALF
LOCAL_WINDOW = (REGION_LOCAL << WINDOW_BITS) + WINDOW_HALF
NULL_PAGE = 1 << 20  # addresses below are an offset from a null pointer


@compiled
def read_element(host, size, signed):
    """`size` bytes at a host address as a 64-bit value, extended by sign or zero."""
    if size == 4:
        value = np.uint64(load_u32(host))
    elif size == 8:
        return load_u64(host)
    elif size == 2:
        value = np.uint64(load_u16(host))
    else:
        value = np.uint64(load_u8(host))
    if signed:
        shift = np.uint64(64 - 8 * size)
        return np.uint64(np.int64(value << shift) >> np.int64(shift))
    return value


@compiled
def write_element(host, size, value):
    """The low `size` bytes of a value to a host address."""
    if size == 4:
        store_u32(host, np.uint32(value))
    elif size == 8:
        store_u64(host, value)
    elif size == 2:
        store_u16(host, np.uint16(value))
    else:
        store_u8(host, np.uint8(value))


@compiled
def data_operand(frame, constants, record, element, first):
    """The row of the n-th data register of an access; `first` is the record field of the first one."""
    return operand(frame, constants, record, first if element == 0 else X4 - 1 + element)


@compiled
def fault_kind(m, address, size):
    """Why an access of `size` bytes at a generic address cannot be made; -1 if it can."""
    if address & (size - 1):
        return FAULT_MISALIGNED
    region = address >> WINDOW_BITS
    if FIRST_REGION <= region < get(m, M_REGION_COUNT):
        entry = get(m, M_REGIONS) + region * R_FIELDS * 8
        offset = address - (region << WINDOW_BITS) - WINDOW_HALF
        if offset >= 0 and offset + size <= get(entry, R_BYTES):
            return -1
    return FAULT_NULL if 0 <= address < NULL_PAGE else FAULT_OUT_OF_BOUNDS


@compiled
def resolve(m, address, size, alignment):
    """The region of [address, address + size), or 0 if it is not all in one region or misaligned."""
    region = address >> WINDOW_BITS
    if region < FIRST_REGION or region >= get(m, M_REGION_COUNT) or address & (alignment - 1):
        return np.int64(0)
    entry = get(m, M_REGIONS) + region * R_FIELDS * 8
    offset = address - (region << WINDOW_BITS) - WINDOW_HALF
    if offset < 0 or offset + size > get(entry, R_BYTES):
        return np.int64(0)
    return entry


@compiled
def region_offset(address):
    """The place of a generic address in its region."""
    return (address & ((1 << WINDOW_BITS) - 1)) - WINDOW_HALF


@compiled
def count_transfer(cell, sectors, size, lanes):
    """Add the sectors of a request, and the least that `size` bytes for each of `lanes` could take, side by side."""
    increase(cell, C_SECTORS, sectors)
    increase(cell, C_IDEAL_SECTORS, min(sectors, (size * np.int64(popcount32(lanes)) + 31) >> 5))


@compiled
def _is_run(mask):
    """Are the active lanes neighbours, without a gap?"""
    run = np.uint64(mask) >> np.uint64(trailing_zeros32(mask))
    return run & (run + np.uint64(1)) == np.uint64(0)


@compiled
def _load_strided(frame, constants, record, mask, host, step):
    """Fill the destination rows from `host + (lane - first lane) * step`."""
    size, count, flags = field(record, X1), field(record, X2), field(record, X3)
    lane_bytes = flags & 0xFF
    if step == size and size == lane_bytes and mask == np.uint32(FULL_MASK):
        row = operand(frame, constants, record, DST)
        if size == 4:
            copy_bytes(row, host, 128)
        elif size == 2:
            copy_bytes(row, host, 64)
        else:
            copy_bytes(row, host, 256)
        return
    signed = flags & SIGNED_BIT
    first = np.int64(trailing_zeros32(mask))
    for element in range(count):
        row = data_operand(frame, constants, record, element, DST)
        source = host + element * size
        if step == 0:
            value = read_element(source, size, signed)
            if lane_bytes == 4:
                fill_row32(row, value, mask)
            elif lane_bytes == 8:
                fill_row64(row, value, mask)
            else:
                fill_row16(row, value, mask)
        elif size == 4 and lane_bytes == 4 and mask == np.uint32(FULL_MASK):
            for lane in range(32):
                store_u32(row + 4 * lane, load_u32(source + lane * step))
        else:
            rest = np.uint32(mask)
            while rest:
                lane = np.int64(trailing_zeros32(rest))
                rest &= rest - np.uint32(1)
                value = read_element(source + (lane - first) * step, size, signed)
                write_element(row + lane * lane_bytes, lane_bytes, value)


@compiled
def _store_strided(frame, constants, record, mask, host, step):
    """Write the source rows to `host + (lane - first lane) * step`; where lanes meet, the highest one wins."""
    size, count, lane_bytes = field(record, X1), field(record, X2), field(record, X3) & 0xFF
    if step == size and size == lane_bytes and mask == np.uint32(FULL_MASK):
        row = operand(frame, constants, record, SRC_B)
        if size == 4:
            copy_bytes(host, row, 128)
        elif size == 2:
            copy_bytes(host, row, 64)
        else:
            copy_bytes(host, row, 256)
        return
    first = np.int64(trailing_zeros32(mask))
    for element in range(count):
        row = data_operand(frame, constants, record, element, SRC_B)
        rest = np.uint32(mask)
        while rest:
            lane = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            value = read_element(row + lane * lane_bytes, lane_bytes, 0)
            write_element(host + (lane - first) * step + element * size, size, value)


@compiled
def _check_initialised(m, entry, address, size, pc, warp, lane):
    """In a region that starts out undefined, report a read of bytes that nothing wrote."""
    shadow = get(entry, R_SHADOW) + region_offset(address)
    for i in range(size):
        if load_u8(shadow + i) == 0:
            report(m, FAULT_UNINITIALISED, pc, warp, lane, address, size, 0, -1, SPACE_GLOBAL, 0)
            fill_bytes(shadow, np.uint8(1), size)
            return


@compiled
def _zero_lane(frame, constants, record, lane):
    lane_bytes = field(record, X3) & 0xFF
    for element in range(field(record, X2)):
        row = data_operand(frame, constants, record, element, DST)
        write_element(row + lane * lane_bytes, lane_bytes, np.uint64(0))


@compiled
def load_global(m, warp, frame, constants, record, pc, mask, counted):
    """A load from buffers, module variables or the parameter bank."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM)
    size = field(record, X1)
    total = size * field(record, X2)
    first = np.int64(trailing_zeros32(mask))
    start = load_i64(row + 8 * first) + offset
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    if counted:
        increase(cell, C_REQUESTS, 1)
    step = np.int64(-1)
    if lanes_matching(row, start - offset - first * total, total) & mask == mask and _is_run(mask):
        step = total
    elif lanes_matching(row, start - offset, 0) & mask == mask:
        step = np.int64(0)
    if step >= 0:
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        length = total + (last - first) * step
        entry = resolve(m, start, length, total)
        if entry:
            if counted:
                count_transfer(cell, ((start + length - 1) >> 5) - (start >> 5) + 1, total, mask)
            if get(entry, R_FLAGS) & R_TRACKED:
                _check_initialised(m, entry, start, length, pc, warp, first)
            _load_strided(frame, constants, record, mask, get(entry, R_HOST) + region_offset(start), step)
            return
    _load_scattered(m, warp, frame, constants, record, pc, mask, counted)


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
    entry = np.int64(0)
    region = np.int64(-1)
    limit = np.int64(0)
    base = np.int64(0)
    tracked = np.int64(0)
    good = np.uint32(0)
    regions, region_count = get(m, M_REGIONS), get(m, M_REGION_COUNT)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if address >> WINDOW_BITS != region:
            region = address >> WINDOW_BITS
            limit = np.int64(-1)
            if FIRST_REGION <= region < region_count:
                entry = regions + region * R_FIELDS * 8
                limit = get(entry, R_BYTES) - total
                base = get(entry, R_HOST)
                tracked = get(entry, R_FLAGS) & R_TRACKED
        place = address - (region << WINDOW_BITS) - WINDOW_HALF
        if place < 0 or place > limit or address & (total - 1):
            report(m, fault_kind(m, address, total), pc, warp, lane, address, total, 0, -1, SPACE_GLOBAL, 0)
            _zero_lane(frame, constants, record, lane)
            continue
        good |= np.uint32(1) << np.uint32(lane)
        sector = address >> 5
        if sector != previous:
            previous = sector
            if first_seen(seen, stamp, sector):
                sectors += 1
        if tracked:
            _check_initialised(m, entry, address, total, pc, warp, lane)
        if count == 1:
            write_element(destination + lane * lane_bytes, lane_bytes, read_element(base + place, size, signed))
        else:
            for element in range(count):
                to = data_operand(frame, constants, record, element, DST) + lane * lane_bytes
                write_element(to, lane_bytes, read_element(base + place + element * size, size, signed))
    if counted:
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
    if lanes_matching(row, start - offset - first * total, total) & mask == mask and _is_run(mask):
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        length = total * (last - first + 1)
        entry = resolve(m, start, length, total)
        if entry and get(entry, R_FLAGS) & R_WRITABLE:
            count_transfer(cell, ((start + length - 1) >> 5) - (start >> 5) + 1, total, mask)
            if get(entry, R_FIRST_STORE) < 0:
                put(entry, R_FIRST_STORE, pc)
            if get(entry, R_FLAGS) & R_TRACKED:
                fill_bytes(get(entry, R_SHADOW) + region_offset(start), np.uint8(1), length)
            _store_strided(frame, constants, record, mask, get(entry, R_HOST) + region_offset(start), total)
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
        place = region_offset(address)
        if get(entry, R_FIRST_STORE) < 0:
            put(entry, R_FIRST_STORE, pc)
        if get(entry, R_FLAGS) & R_TRACKED:
            fill_bytes(get(entry, R_SHADOW) + place, np.uint8(1), total)
        _store_strided(
            frame, constants, record, np.uint32(1) << np.uint32(lane), get(entry, R_HOST) + place, np.int64(0)
        )
    count_transfer(cell, count_sectors(m, row, offset, total, good), total, good)


@compiled
def shared_access(m, warp, frame, constants, record, pc, mask, window, write):
    """A load or store of the block's shared memory. `window` is what to take off a generic address."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM) - window
    size = field(record, X1)
    total = size * field(record, X2)
    volatile = field(record, X3) & VOLATILE_BIT
    first = np.int64(trailing_zeros32(mask))
    start = load_i64(row + 8 * first) + offset
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    shared = get(m, M_SHARED)
    limit = get(m, M_SHARED_BYTES)
    increase(cell, C_SHARED_REQUESTS, 1)
    step = np.int64(-1)
    if lanes_matching(row, start - offset - first * total, total) & mask == mask and _is_run(mask):
        step = total
    elif not write and lanes_matching(row, start - offset, 0) & mask == mask:
        step = np.int64(0)
    if step >= 0:
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        length = total + (last - first) * step
        if start >= SHARED_BASE and start + length <= limit and start & (total - 1) == 0:
            lanes = 128 // total if step else 256 // total  # served by one wavefront
            groups = last // lanes - first // lanes + 1
            increase(cell, C_WAVEFRONTS, groups)
            increase(cell, C_IDEAL, groups)
            if write:
                check_write(m, warp, start, length, pc, first, volatile, 0)
                _store_strided(frame, constants, record, mask, shared + start, step)
            else:
                check_read(m, warp, start, length, pc, first, volatile, 0)
                _load_strided(frame, constants, record, mask, shared + start, step)
            return
    good = np.uint32(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if address < SHARED_BASE or address + total > limit or address & (total - 1):
            kind = FAULT_MISALIGNED if address & (total - 1) else FAULT_OUT_OF_BOUNDS
            report(m, kind, pc, warp, lane, address, total, write, -1, SPACE_SHARED, 0)
            if not write:
                _zero_lane(frame, constants, record, lane)
            continue
        one = np.uint32(1) << np.uint32(lane)
        good |= one
        if write:
            check_write(m, warp, address, total, pc, lane, volatile, 0)
            _store_strided(frame, constants, record, one, shared + address, np.int64(0))
        else:
            check_read(m, warp, address, total, pc, lane, volatile, 0)
            _load_one(frame, constants, record, lane, shared + address)
    if good:
        wavefronts, ideal = count_wavefronts(m, row, offset, total, good)
        increase(cell, C_WAVEFRONTS, wavefronts)
        increase(cell, C_IDEAL, ideal)


@compiled
def _load_one(frame, constants, record, lane, host):
    size, flags = field(record, X1), field(record, X3)
    lane_bytes = flags & 0xFF
    for element in range(field(record, X2)):
        row = data_operand(frame, constants, record, element, DST)
        value = read_element(host + element * size, size, flags & SIGNED_BIT)
        write_element(row + lane * lane_bytes, lane_bytes, value)


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
    if lanes_matching(row, start - offset, 0) & mask == mask and mask == np.uint32(FULL_MASK) and size == lane_bytes:
        if size == 4 and start >= 0 and start + total <= limit and start & (total - 1) == 0:
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
        if address < 0 or address + total > limit or address & (total - 1):
            kind = FAULT_MISALIGNED if address & (total - 1) else FAULT_OUT_OF_BOUNDS
            report(m, kind, pc, warp, lane, address, total, write, -1, SPACE_LOCAL, 0)
            if not write:
                _zero_lane(frame, constants, record, lane)
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


@compiled
def memory_access(m, warp, frame, constants, record, pc, mask, write):
    """One ld or st of a warp, in whatever space."""
    space = field(record, X0)
    if space == SPACE_GLOBAL:
        if write:
            store_global(m, warp, frame, constants, record, pc, mask)
        else:
            load_global(m, warp, frame, constants, record, pc, mask, 1)
    elif space == SPACE_SHARED:
        shared_access(m, warp, frame, constants, record, pc, mask, 0, write)
    elif space == SPACE_CONST:
        load_global(m, warp, frame, constants, record, pc, mask, 0)
    elif space == SPACE_GENERIC:
        _generic_access(m, warp, frame, constants, record, pc, mask, write)
    else:
        local_access(m, warp, frame, constants, record, pc, mask, 0, write, 0 if space == SPACE_PARAM else 1)


@compiled
def _generic_access(m, warp, frame, constants, record, pc, mask, write):
    """Sort the lanes of a generic access by the space that their addresses are in."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM)
    shared = lanes_in_region(row, offset, WINDOW_BITS, REGION_SHARED) & mask
    local = lanes_in_region(row, offset, WINDOW_BITS, REGION_LOCAL) & mask
    other = mask & ~(shared | local)
    if shared:
        shared_access(m, warp, frame, constants, record, pc, shared, SHARED_WINDOW, write)
    if local:
        local_access(m, warp, frame, constants, record, pc, local, LOCAL_WINDOW, write, 1)
    if other:
        if write:
            store_global(m, warp, frame, constants, record, pc, other)
        else:
            load_global(m, warp, frame, constants, record, pc, other, 1)
