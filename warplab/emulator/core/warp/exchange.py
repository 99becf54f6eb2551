"""Instructions by which the lanes of a warp exchange values: shuffle, vote, match, redux, elect."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import fill_row32
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    DST,
    REDUX_ABS,
    REDUX_ADD,
    REDUX_AND,
    REDUX_FLOAT,
    REDUX_MAX,
    REDUX_MIN,
    REDUX_NAN,
    REDUX_OR,
    REDUX_SIGNED,
    SHUFFLE_BUTTERFLY,
    SHUFFLE_DOWN,
    SHUFFLE_UP,
    SRC_A,
    SRC_B,
    SRC_C,
    VOTE_ALL,
    VOTE_ANY,
    VOTE_BALLOT,
    X0,
    X1,
    X3,
)
from warplab.emulator.core.state.raw import (
    field,
    load_u32,
    load_u64,
    operand,
    store_u32,
    trailing_zeros32,
)


@compiled
def set_predicate(frame, place, mask, bits):
    """Write lane bits into a predicate register, lanes of `mask` only; place 0 means there is none."""
    if place:
        old = load_u32(frame + place)
        store_u32(frame + place, (old & ~mask) | (bits & mask))


@compiled
def shuffle(scratch, frame, constants, record, mask, fill):
    """shfl: each lane reads another lane's value, inside the segment that its clamp operand describes.

    Returns the first lane of `mask` that reads a lane outside of it, plus 32 times that one; -1: none does. PTX leaves
    undefined what it gets: here `fill`, or if that is 0 what lies in the other lane's register.
    """
    values = operand(frame, constants, record, SRC_A)
    places = operand(frame, constants, record, SRC_B)
    clamps = operand(frame, constants, record, SRC_C)
    destination = operand(frame, constants, record, DST)
    mode = field(record, X0)
    inside = np.uint32(0)
    strayed = np.int64(-1)
    for number in range(32):
        lane = np.int64(number)
        packed = np.int64(load_u32(clamps + 4 * lane))
        clamp, segment = packed & 31, (packed >> 8) & 31
        b = np.int64(load_u32(places + 4 * lane)) & 31
        low = lane & segment
        high = low | (clamp & ~segment & 31)
        if mode == SHUFFLE_UP:
            source = lane - b
            valid = source >= high
        elif mode == SHUFFLE_DOWN:
            source = lane + b
            valid = source <= high
        elif mode == SHUFFLE_BUTTERFLY:
            source = lane ^ b
            valid = source <= high
        else:
            source = low | (b & ~segment & 31)
            valid = source <= high
        if not valid:
            source = lane
        else:
            inside |= np.uint32(1) << np.uint32(lane)
        value = load_u32(values + 4 * (source & 31))
        if mask >> np.uint32(lane) & ~(mask >> np.uint32(source & 31)) & np.uint32(1):
            if strayed < 0:
                strayed = lane + 32 * (source & 31)
            if fill:
                value = np.uint32(fill)
        store_u32(scratch + 4 * lane, value)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        store_u32(destination + 4 * lane, load_u32(scratch + 4 * lane))
    set_predicate(frame, field(record, X1), mask, inside)
    return strayed


@compiled
def vote(frame, constants, record, mask):
    """vote: all, any, uniform or ballot over the active lanes."""
    mode = field(record, X0)
    ballot = load_u32(operand(frame, constants, record, SRC_A)) & mask
    if mode == VOTE_BALLOT:
        fill_row32(operand(frame, constants, record, DST), np.uint64(ballot), mask)
        return
    if mode == VOTE_ALL:
        holds = ballot == mask
    elif mode == VOTE_ANY:
        holds = ballot != np.uint32(0)
    else:
        holds = ballot == mask or ballot == np.uint32(0)
    set_predicate(frame, field(record, DST), mask, np.uint32(0xFFFFFFFF) if holds else np.uint32(0))


@compiled
def _lane_value(row, lane, size):
    return load_u64(row + 8 * lane) if size == 8 else np.uint64(load_u32(row + 4 * lane))


@compiled
def match(scratch, frame, constants, record, mask):
    """match: which active lanes hold the same value (any), or whether all do (all)."""
    row = operand(frame, constants, record, SRC_A)
    destination = operand(frame, constants, record, DST)
    size = field(record, X3)
    everywhere = True
    outer = np.uint32(mask)
    while outer:
        lane = np.int64(trailing_zeros32(outer))
        outer &= outer - np.uint32(1)
        same = np.uint32(0)
        inner = np.uint32(mask)
        while inner:
            other = np.int64(trailing_zeros32(inner))
            inner &= inner - np.uint32(1)
            if _lane_value(row, lane, size) == _lane_value(row, other, size):
                same |= np.uint32(1) << np.uint32(other)
        store_u32(scratch + 4 * lane, same)
        everywhere = everywhere and same == mask
    outer = np.uint32(mask)
    while outer:
        lane = np.int64(trailing_zeros32(outer))
        outer &= outer - np.uint32(1)
        same = load_u32(scratch + 4 * lane)
        if field(record, X0):
            same = mask if everywhere else np.uint32(0)
        store_u32(destination + 4 * lane, same)
    if field(record, X0):
        set_predicate(frame, field(record, X1), mask, np.uint32(0xFFFFFFFF) if everywhere else np.uint32(0))


@compiled
def _redux_floats(row, mode, values, mask):
    """The least or largest of the active lanes' floats, as bits. -0 lies below 0; NaN counts where it wins alone."""
    result, found = np.int64(0), False
    rest = mask
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        bits = np.int64(load_u32(row + 4 * lane))
        magnitude = bits & 0x7FFFFFFF
        if magnitude > 0x7F800000:
            if values & REDUX_NAN:
                return np.int64(0x7FFFFFFF)
            continue
        value = -magnitude - 1 if bits >> 31 and not values & REDUX_ABS else magnitude
        if not found or (value < result if mode == REDUX_MIN else value > result):
            result, found = value, True
    if not found:
        return np.int64(0x7FFFFFFF)
    return result if result >= 0 else (-result - 1) | 0x80000000


@compiled
def redux(frame, constants, record, mask):
    """redux: one value out of all active lanes' values."""
    row = operand(frame, constants, record, SRC_A)
    mode, values = field(record, X0), field(record, X1)
    if values & REDUX_FLOAT:
        fill_row32(operand(frame, constants, record, DST), np.uint64(_redux_floats(row, mode, values, mask)), mask)
        return
    signed = values == REDUX_SIGNED
    first = np.int64(trailing_zeros32(mask))
    result = np.int64(load_u32(row + 4 * first))
    if signed:
        result = np.int64(np.int32(result))
    rest = mask & (mask - np.uint32(1))
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        value = np.int64(load_u32(row + 4 * lane))
        if signed:
            value = np.int64(np.int32(value))
        if mode == REDUX_ADD:
            result = result + value
        elif mode == REDUX_MIN:
            result = min(result, value)
        elif mode == REDUX_MAX:
            result = max(result, value)
        elif mode == REDUX_AND:
            result &= value
        elif mode == REDUX_OR:
            result |= value
        else:
            result ^= value
    fill_row32(operand(frame, constants, record, DST), np.uint64(result & 0xFFFFFFFF), mask)


@compiled
def elect(frame, constants, record, mask):
    """elect: the lowest active lane is the leader."""
    leader = trailing_zeros32(mask)
    fill_row32(operand(frame, constants, record, DST), np.uint64(leader), mask)
    set_predicate(frame, field(record, X1), mask, np.uint32(1) << leader)
