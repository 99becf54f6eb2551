"""Moving data between registers and host memory, for accesses whose addresses are already resolved."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import fill_row16, fill_row32, fill_row64
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    C_IDEAL_SECTORS,
    C_SECTORS,
    DST,
    FULL_MASK,
    LANES,
    SIGNED_BIT,
    SRC_B,
    X1,
    X2,
    X3,
    X4,
)
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    increase,
    leading_zeros32,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    operand,
    popcount32,
    store_u8,
    store_u16,
    store_u32,
    store_u64,
    trailing_zeros32,
)


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
def sum_of_bytes(host, size):
    """A number that tells whether bytes in host memory have changed."""
    total = np.uint64(0)
    for place in range(0, size - 7, 8):
        total = total * np.uint64(31) + load_u64(host + place)
    for place in range(size & ~np.int64(7), size):
        total = total * np.uint64(31) + np.uint64(load_u8(host + place))
    return np.int64(total)


@compiled
def data_operand(frame, constants, record, element, first):
    """The row of the n-th data register of an access; `first` is the record field of the first one."""
    return operand(frame, constants, record, first if element == 0 else X4 - 1 + element)


@compiled
def count_transfer(cell, sectors, size, lanes):
    """Add the sectors of a request, and the least that `size` bytes for each of `lanes` could take, side by side."""
    increase(cell, C_SECTORS, sectors)
    increase(cell, C_IDEAL_SECTORS, min(sectors, (size * np.int64(popcount32(lanes)) + 31) >> 5))


@compiled
def is_run(mask):
    """Are the active lanes neighbours, without a gap?"""
    run = np.uint64(mask) >> np.uint64(trailing_zeros32(mask))
    return run & (run + np.uint64(1)) == np.uint64(0)


@compiled
def _load_words(row, mask, first, host, step):
    """What load_strided does, of one word a lane: most loads that are not of a whole warp side by side are these."""
    lanes = np.int64(popcount32(mask))
    if step == 0:
        fill_row32(row, np.uint64(load_u32(host)), mask)
    elif step != 4:
        for place in range(lanes):
            store_u32(row + 4 * (first + place), load_u32(host + place * step))
    elif lanes == LANES // 2:
        copy_bytes(row + 4 * first, host, 4 * (LANES // 2))  # a known size needs no call
    else:
        copy_bytes(row + 4 * first, host, 4 * lanes)


@compiled
def load_strided(frame, constants, record, mask, host, step):
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
    first = np.int64(trailing_zeros32(mask))
    if size == 4 and lane_bytes == 4 and count == 1 and (step == 0 or is_run(mask)):
        _load_words(operand(frame, constants, record, DST), mask, first, host, step)
        return
    signed = flags & SIGNED_BIT
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
        elif step == size and size == lane_bytes and count == 1 and is_run(mask):
            copy_bytes(row + first * size, source, np.int64(popcount32(mask)) * size)
        elif size == 4 and lane_bytes == 4 and is_run(mask):
            last = np.int64(31) - np.int64(leading_zeros32(mask))
            for place in range(first, last + 1):
                store_u32(row + 4 * place, load_u32(source + (place - first) * step))
        else:
            rest = np.uint32(mask)
            while rest:
                lane = np.int64(trailing_zeros32(rest))
                rest &= rest - np.uint32(1)
                value = read_element(source + (lane - first) * step, size, signed)
                write_element(row + lane * lane_bytes, lane_bytes, value)


@compiled
def store_strided(frame, constants, record, mask, host, step):
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
    if size == 4 and lane_bytes == 4 and is_run(mask):
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        for element in range(count):
            row = data_operand(frame, constants, record, element, SRC_B)
            for place in range(first, last + 1):
                store_u32(host + (place - first) * step + element * size, load_u32(row + 4 * place))
        return
    for element in range(count):
        row = data_operand(frame, constants, record, element, SRC_B)
        rest = np.uint32(mask)
        while rest:
            lane = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            value = read_element(row + lane * lane_bytes, lane_bytes, 0)
            write_element(host + (lane - first) * step + element * size, size, value)


@compiled
def zero_lane(frame, constants, record, lane):
    lane_bytes = field(record, X3) & 0xFF
    for element in range(field(record, X2)):
        row = data_operand(frame, constants, record, element, DST)
        write_element(row + lane * lane_bytes, lane_bytes, np.uint64(0))


@compiled
def load_one(frame, constants, record, lane, host):
    size, flags = field(record, X1), field(record, X3)
    lane_bytes = flags & 0xFF
    for element in range(field(record, X2)):
        row = data_operand(frame, constants, record, element, DST)
        value = read_element(host + element * size, size, flags & SIGNED_BIT)
        write_element(row + lane * lane_bytes, lane_bytes, value)
