"""st.async and red.async: stores and reductions in a peer's shared memory that complete at an mbarrier there."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.events import new_event
from warplab.emulator.core.asynchronous.mbarriers import change, usable
from warplab.emulator.core.memory.atomics import combine
from warplab.emulator.core.memory.clocks import own_clock, pass_moment, release_at
from warplab.emulator.core.memory.cluster_memory import shared_host
from warplab.emulator.core.memory.in_flight import end_copy_at, start_copy
from warplab.emulator.core.memory.shadow import check_read, check_write
from warplab.emulator.core.memory.transfer import data_operand, read_element, write_element
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_REMOTE,
    E_0,
    E_1,
    E_2,
    E_3,
    E_4,
    E_5,
    E_6,
    E_7,
    E_LANE,
    E_MACHINE,
    E_PC,
    E_WARP,
    EVENT_STORE,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    IMM,
    M_COUNTS,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X3,
    X7,
)
from warplab.emulator.core.state.raw import field, get, increase, load_i64, operand, popcount32, put, trailing_zeros32

# The fields of an event: the place, its mbarrier, bytes, operation, bytes of an element, kind of number, the moment,
# and up to 16 bytes of values.
_PLACE, _MBARRIER, _BYTES, _OPERATION, _SIZE, _NUMBERS, _MOMENT, _VALUES = E_0, E_1, E_2, E_3, E_4, E_5, E_6, E_7


@compiled
def queue_store(m, warp, lane, pc, place, mbarrier, total, size, moment):
    """Check a store of `total` bytes, `size` each, and queue it; where its values go, 0 after a report."""
    if not _is_there(m, warp, lane, pc, place, total) or not usable(m, mbarrier, pc, warp, lane):
        return np.int64(0)
    check_write(m, warp, place, total, total, pc, lane, 0, 0, 0)
    start_copy(m, warp, place, total, pc)
    return _queue(m, warp, lane, pc, place, mbarrier, total, np.int64(-1), size, np.int64(0), moment)


@compiled
def _is_there(m, warp, lane, pc, place, total):
    """Do some bytes lie in the memory of one block, aligned to their number? A report if not."""
    if shared_host(m, place, total) and place & (total - 1) == 0:
        return True
    kind = FAULT_MISALIGNED if place & (total - 1) else FAULT_OUT_OF_BOUNDS
    report(m, kind, pc, warp, lane, place, total, 1, -1, SPACE_SHARED, 0)
    return False


@compiled
def _queue(m, warp, lane, pc, place, mbarrier, total, operation, size, numbers, moment):
    """Queue an operation; where its values go."""
    event = new_event(m, EVENT_STORE, warp, lane, pc)
    put(event, _PLACE, place)
    put(event, _MBARRIER, mbarrier)
    put(event, _BYTES, total)
    put(event, _OPERATION, operation)
    put(event, _SIZE, size)
    put(event, _NUMBERS, numbers)
    put(event, _MOMENT, moment)
    return event + 8 * _VALUES


@compiled
def issue_remote(m, warp, frame, constants, record, pc, mask):
    """One st.async or red.async of a warp: check, and queue the operation of each active lane."""
    places, mbarriers = operand(frame, constants, record, SRC_A), operand(frame, constants, record, SRC_C)
    size, count, operation = field(record, X0), field(record, X1), field(record, X2)
    total = size * count
    moved = (total * np.int64(popcount32(mask)) + 127) >> 7
    increase(get(m, M_COUNTS) + pc * C_FIELDS * 8, C_REMOTE, moved)
    reduces = 0 if operation < 0 else 1
    moment = own_clock(m, warp)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        place = load_i64(places + 8 * lane) + field(record, IMM)
        if not _is_there(m, warp, lane, pc, place, total):
            continue
        mbarrier = load_i64(mbarriers + 8 * lane) + field(record, X3)
        if not usable(m, mbarrier, pc, warp, lane):
            continue
        if reduces:
            check_read(m, warp, place, total, total, pc, lane, 0, 1, 0)
        check_write(m, warp, place, total, total, pc, lane, 0, reduces, 0)
        if not reduces:
            start_copy(m, warp, place, total, pc)
        values = _queue(m, warp, lane, pc, place, mbarrier, total, operation, size, field(record, X7), moment)
        for element in range(count):
            value = read_element(data_operand(frame, constants, record, element, SRC_B) + lane * size, size, 0)
            write_element(values + element * size, size, value)
    pass_moment(m, warp)


@compiled
def complete_remote(event):
    """The value arrives, and its bytes are counted at the mbarrier."""
    m, warp, lane, pc = get(event, E_MACHINE), get(event, E_WARP), get(event, E_LANE), get(event, E_PC)
    place, mbarrier, total = get(event, _PLACE), get(event, _MBARRIER), get(event, _BYTES)
    size, operation = get(event, _SIZE), get(event, _OPERATION)
    host = shared_host(m, place, total)
    for offset in range(0, total, size):
        value = read_element(event + 8 * _VALUES + offset, size, 0)
        if operation >= 0:
            value = combine(read_element(host + offset, size, 0), value, value, operation, get(event, _NUMBERS), size)
        write_element(host + offset, size, value)
    if operation < 0:
        end_copy_at(m, warp, place, total, get(event, _MOMENT))
    if usable(m, mbarrier, pc, warp, lane):
        release_at(m, warp, mbarrier, get(event, _MOMENT))
        change(m, warp, mbarrier, np.int64(0), np.int64(0), -total, pc, lane)
