"""cp.async: copies from global to shared memory that happen as late as the waits allow.

A warp keeps its copies in a queue. A copy reads and writes memory when its thread waits for the group that it belongs
to, not before, so a kernel that forgets to wait works on what was there before, and the sanitizer reports the access.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.mbarriers import change, usable
from warplab.emulator.core.memory.clocks import release
from warplab.emulator.core.memory.counting import count_sectors, count_wavefronts
from warplab.emulator.core.memory.global_access import check_initialised, fault_kind, region_offset, resolve
from warplab.emulator.core.memory.global_races import note_lane
from warplab.emulator.core.memory.in_flight import end_copy, start_copy
from warplab.emulator.core.memory.request_log import LOG_READ, LOG_READ_PAST_L1, log_sectors
from warplab.emulator.core.memory.shadow import check_write
from warplab.emulator.core.memory.transfer import count_transfer, sum_of_bytes
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_IDEAL,
    C_LOCAL_REQUESTS,
    C_REQUESTS,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    COPIES,
    COPY_ARRIVE,
    COPY_COMMIT,
    COPY_SOME,
    COPY_UNLESS,
    COPY_WAIT_ALL,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    FAULT_SOURCE_CHANGED,
    IMM,
    LANES,
    M_COPIES,
    M_COUNTS,
    M_LOG,
    M_SHARED,
    M_SHARED_BYTES,
    M_SHARED_SHADOW,
    M_SHARED_WINDOW,
    M_WARP_COUNT,
    P_AT,
    P_BYTES,
    P_FIELDS,
    P_GROUP,
    P_LANE,
    P_PC,
    P_READ,
    P_SOURCE,
    P_SUM,
    P_TARGET,
    Q_COPIES,
    Q_COUNT,
    Q_GROUPS,
    QUEUE_BYTES,
    R_CELLS,
    R_FLAGS,
    R_HOST,
    R_TRACKED,
    SHARED_BASE,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
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
    load_u32,
    operand,
    put,
    trailing_zeros32,
)


@compiled
def clear_copies(m):
    """Empty queues, as at the start of a block."""
    if get(m, M_COPIES):
        for warp in range(get(m, M_WARP_COUNT)):
            queue = get(m, M_COPIES) + warp * QUEUE_BYTES
            for i in range(Q_COPIES):
                put(queue, i, 0)


@compiled
def _copy_at(queue, position):
    return queue + (Q_COPIES + position * P_FIELDS) * 8


@compiled
def _make_copy(m, warp, copy):
    """Move the bytes, fill up with zeros."""
    target, size, read = get(copy, P_TARGET), get(copy, P_BYTES), get(copy, P_READ)
    host = get(m, M_SHARED) + target
    if read and get(m, M_SHARED_SHADOW) and get(copy, P_SUM) != sum_of_bytes(get(copy, P_SOURCE), read):
        lane, pc = get(copy, P_LANE), get(copy, P_PC)
        report(m, FAULT_SOURCE_CHANGED, pc, warp, lane, get(copy, P_AT), read, 0, -1, SPACE_GLOBAL, 0)
    copy_bytes(host, get(copy, P_SOURCE), read)
    fill_bytes(host + read, np.uint8(0), size - read)
    end_copy(m, warp, target, size)


@compiled
def _waits_for_copies(queue, count, lane):
    """Are any of a lane's copies among the first `count` of a queue?"""
    for position in range(count):  # noqa: SIM110
        if get(_copy_at(queue, position), P_LANE) == lane:
            return True
    return False


@compiled
def _arrive(m, warp, arrival):
    """The copies before this arrival are made: it happens."""
    address, lane, pc = get(arrival, P_TARGET), get(arrival, P_LANE), get(arrival, P_GROUP)
    if usable(m, address, pc, warp, lane):
        release(m, warp, address, np.uint32(1) << np.uint32(lane), pc, True)
        change(m, warp, address, np.int64(1), np.int64(0), np.int64(0), pc, lane)


@compiled
def _finish(m, warp, queue, lanes, allowed):
    """Make the copies of the lanes, those of their last `allowed` committed groups and uncommitted ones excepted.

    allowed = -1 takes uncommitted ones too.
    """
    count = get(queue, Q_COUNT)
    kept = np.int64(0)
    for position in range(count):
        copy = _copy_at(queue, position)
        lane = get(copy, P_LANE)
        waited = (lanes >> np.uint32(lane)) & np.uint32(1)
        if get(copy, P_BYTES) == 0 and not _waits_for_copies(queue, kept, lane):
            _arrive(m, warp, copy)
        elif get(copy, P_BYTES) and waited and get(copy, P_GROUP) < get(queue, Q_GROUPS + lane) - allowed:
            _make_copy(m, warp, copy)
        else:
            if kept != position:
                copy_bytes(_copy_at(queue, kept), copy, P_FIELDS * 8)
            kept += 1
    put(queue, Q_COUNT, kept)


@compiled
def finish_arrivals(m):
    """Nobody can go on: make the copies that mbarriers wait for. Returns whether there were any."""
    found = False
    if get(m, M_COPIES):
        for warp in range(get(m, M_WARP_COUNT)):
            queue = get(m, M_COPIES) + warp * QUEUE_BYTES
            for position in range(get(queue, Q_COUNT)):
                if get(_copy_at(queue, position), P_BYTES) == 0:
                    found = True
                    _finish(m, warp, queue, np.uint32(0xFFFFFFFF), np.int64(-1))
                    break
    return found


@compiled
def _queue_arrivals(m, warp, queue, frame, constants, record, pc, mask):
    """cp.async.mbarrier.arrive: each active lane arrives once its copies so far are made."""
    addresses = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM) - (get(m, M_SHARED_WINDOW) if field(record, X2) else np.int64(0))
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(addresses + 8 * lane) + offset
        if not usable(m, address, pc, warp, lane):
            continue
        if field(record, X1) == 0:
            change(m, warp, address, np.int64(-1), np.int64(0), np.int64(0), pc, lane)
        if get(queue, Q_COUNT) + 1 > COPIES:
            _finish(m, warp, queue, np.uint32(0xFFFFFFFF), np.int64(-1))
        arrival = _copy_at(queue, get(queue, Q_COUNT))
        increase(queue, Q_COUNT, 1)
        put(arrival, P_LANE, lane)
        put(arrival, P_GROUP, pc)
        put(arrival, P_TARGET, address)
        put(arrival, P_BYTES, 0)
    _finish(m, warp, queue, np.uint32(0), np.int64(0))


@compiled
def group_copies(m, warp, frame, constants, record, pc, mask):
    """commit_group, wait_group, wait_all or an arrival at an mbarrier, of the active lanes."""
    queue = get(m, M_COPIES) + warp * QUEUE_BYTES
    action = field(record, X0)
    if action == COPY_COMMIT:
        rest = np.uint32(mask)
        while rest:
            lane = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            increase(queue, Q_GROUPS + lane, 1)
    elif action == COPY_ARRIVE:
        _queue_arrivals(m, warp, queue, frame, constants, record, pc, mask)
    else:
        _finish(m, warp, queue, np.uint32(mask), np.int64(-1) if action == COPY_WAIT_ALL else field(record, IMM))


@compiled
def _bytes_read(frame, constants, record, lane, size):
    """How many of the copy's bytes come from the source; the rest are zeros."""
    meaning = field(record, X1)
    if meaning == COPY_SOME:
        return min(size, np.int64(load_u32(operand(frame, constants, record, SRC_C) + 4 * lane)))
    if meaning == COPY_UNLESS:
        word = load_u32(operand(frame, constants, record, SRC_C))
        return np.int64(0) if (word >> np.uint32(lane)) & np.uint32(1) else size
    return size


@compiled
def _source_host(m, source, size, read, pc, warp, lane):
    """The host address of a copy's source; 0 after a report if it cannot be read."""
    entry = resolve(m, source, read, size)
    if entry == 0:
        report(m, fault_kind(m, source, size), pc, warp, lane, source, size, 0, -1, SPACE_GLOBAL, 0)
        return np.int64(0)
    if get(entry, R_FLAGS) & R_TRACKED:
        check_initialised(m, entry, source, read, read, pc, warp, lane)
    if get(entry, R_CELLS):
        place, none = region_offset(entry, source), np.int64(0)
        note_lane(m, entry, warp, none, none, none, pc, lane, place, read, 0, none, 0)
    return get(entry, R_HOST) + region_offset(entry, source)


@compiled
def issue_copies(m, warp, frame, constants, record, pc, mask):
    """One cp.async of a warp: check both ends, count, and queue a copy for each active lane."""
    targets, sources = operand(frame, constants, record, SRC_A), operand(frame, constants, record, SRC_B)
    target_offset, source_offset = field(record, IMM), field(record, X3)
    size = field(record, X0)
    queue = get(m, M_COPIES) + warp * QUEUE_BYTES
    if get(queue, Q_COUNT) + LANES > COPIES:
        _finish(m, warp, queue, np.uint32(0xFFFFFFFF), np.int64(-1))
    good = np.uint32(0)
    reading = np.uint32(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        target = load_i64(targets + 8 * lane) + target_offset
        source = load_i64(sources + 8 * lane) + source_offset
        if target < SHARED_BASE or target > get(m, M_SHARED_BYTES) - size or target & (size - 1):
            kind = FAULT_MISALIGNED if target & (size - 1) else FAULT_OUT_OF_BOUNDS
            report(m, kind, pc, warp, lane, target, size, 1, -1, SPACE_SHARED, 0)
            continue
        read = _bytes_read(frame, constants, record, lane, size)
        host = np.int64(0)
        if read:
            host = _source_host(m, source, size, read, pc, warp, lane)
            if host == 0:
                read = np.int64(0)
            else:
                reading |= np.uint32(1) << np.uint32(lane)
        good |= np.uint32(1) << np.uint32(lane)
        check_write(m, warp, target, size, size, pc, lane, 0, 0, 0)
        start_copy(m, warp, target, size, pc)
        copy = _copy_at(queue, get(queue, Q_COUNT))
        increase(queue, Q_COUNT, 1)
        put(copy, P_LANE, lane)
        put(copy, P_GROUP, get(queue, Q_GROUPS + lane))
        put(copy, P_TARGET, target)
        put(copy, P_SOURCE, host)
        put(copy, P_BYTES, size)
        put(copy, P_READ, read)
        put(copy, P_AT, source)
        put(copy, P_PC, pc)
        put(copy, P_SUM, sum_of_bytes(host, read))
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    if reading:
        if get(m, M_LOG):
            log_sectors(m, sources, source_offset, size, reading, LOG_READ_PAST_L1 if field(record, X2) else LOG_READ)
        count_transfer(cell, count_sectors(m, sources, source_offset, size, reading), size, reading)
    if good:
        increase(cell, C_REQUESTS, 1)
        increase(cell, C_LOCAL_REQUESTS, 0 if reading else 1)  # those that read nothing: no request to memory
        wavefronts, ideal = count_wavefronts(m, targets, target_offset, size, good, 1)
        increase(cell, C_SHARED_REQUESTS, 1)
        increase(cell, C_WAVEFRONTS, wavefronts)
        increase(cell, C_IDEAL, ideal)
