"""cp.async.bulk and cp.reduce.async.bulk: copies that come as late as the waits allow.

What completes at an mbarrier is an event of the cluster: it happens when no warp can go on without it. What completes
in a bulk group waits in a queue of the block: its source is read when its thread waits for that (.read), and its target
is written when the thread waits for the whole group, or when the block ends.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.events import new_event
from warplab.emulator.core.asynchronous.mbarriers import change, usable
from warplab.emulator.core.asynchronous.tensor_copies import (
    CHECK_TILE,
    LOAD_TILE,
    STORE_TILE,
    find_map,
    move_tile,
    note_read,
    note_tile,
    readable,
    reduce_bytes,
    starts_well,
    take_four_rows,
    tile_bytes,
    tile_sectors,
    tile_span,
    tile_sum,
    writable,
)
from warplab.emulator.core.memory.clocks import own_clock, pass_moment, release_at
from warplab.emulator.core.memory.cluster_memory import mapped, offset_of, owner_of
from warplab.emulator.core.memory.global_access import region_offset, resolve
from warplab.emulator.core.memory.in_flight import await_source, end_copy_at, end_source, start_copy, start_source
from warplab.emulator.core.memory.request_log import LOG_ATOMIC, LOG_BULK_READ, LOG_BULK_WRITE, log_span
from warplab.emulator.core.memory.shadow import check_async_read, check_read, check_write
from warplab.emulator.core.memory.transfer import sum_of_bytes
from warplab.emulator.core.state.bulk_layout import (
    BULK_COMMIT,
    FORM_DIRECTION,
    FORM_KIND_SHIFT,
    FORM_MASK_SHIFT,
    FORM_OPERATION_SHIFT,
    FORM_PAIR,
    FORM_RANK_SHIFT,
    FORM_ROWS,
    FORM_SIZE_SHIFT,
    K_FIELDS,
    K_GROUP,
    K_OPERATION,
    K_PC,
    K_PLACE,
    K_THREAD,
    MADE,
    MAX_STORES,
    O_AT,
    O_BYTES,
    O_FIELDS,
    O_FORM,
    O_MAP,
    O_MBARRIER,
    O_MOMENT,
    O_OTHER,
    O_SHARED,
    O_SPAN,
    O_SUM,
    Q_COMMITTED,
    Q_FIELDS,
    Q_FIRST,
    Q_ROOM,
    Q_STORES,
    Q_USED,
    T_ADDRESS,
    TO_GLOBAL,
    TO_SHARED,
    UNREAD,
    WITHIN_CLUSTER,
)
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_IDEAL,
    C_REQUESTS,
    C_SECTORS,
    E_0,
    E_LANE,
    E_MACHINE,
    E_PC,
    E_WARP,
    EVENT_BULK,
    FAULT_BOX,
    FAULT_BULK_SIZE,
    FAULT_LEFT,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    FAULT_SOURCE_CHANGED,
    FAULT_TENSOR_MAP,
    IMM,
    M_BULK,
    M_COUNTS,
    M_LIVE_THREADS,
    M_LOG,
    M_RACES,
    M_RANK,
    M_SCRATCH,
    M_SHARED,
    M_SHARED_BYTES,
    M_SHARED_SHADOW,
    M_STOP,
    M_THREADS,
    R_HOST,
    RECORD_BYTES,
    SHARED_BASE,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X7,
)
from warplab.emulator.core.state.races_layout import G_LIVE, SCOPE_GPU
from warplab.emulator.core.state.random_order import is_random, random_below
from warplab.emulator.core.state.raw import (
    copy_bytes,
    field,
    get,
    increase,
    load_i32,
    load_i64,
    load_u16,
    load_u32,
    operand,
    put,
    trailing_zeros32,
)

BULK_ALIGNMENT, TILE_ALIGNMENT = 16, 128


@compiled
def clear_bulk(m):
    """An empty queue, as at the start of a block."""
    queue = get(m, M_BULK)
    if queue:
        put(queue, Q_STORES, 0)
        put(queue, Q_USED, 0)
        for thread in range(get(m, M_THREADS)):
            put(queue, Q_COMMITTED + thread, 0)


@compiled
def _rank(operation):
    return (get(operation, O_FORM) >> FORM_RANK_SHIFT) & 7


@compiled
def _direction(operation):
    return get(operation, O_FORM) & FORM_DIRECTION


@compiled
def _reduction(operation):
    """What the operation does to what is there; -1: overwrite."""
    return ((get(operation, O_FORM) >> FORM_OPERATION_SHIFT) & 255) - 1


@compiled
def _request_kind(m, operation):
    """What the operation is in the log of requests; -1: it asks nothing of the caches, or there is no log."""
    if get(m, M_LOG) == 0 or _direction(operation) == WITHIN_CLUSTER:
        return np.int64(-1)
    if _direction(operation) == TO_SHARED:
        return np.int64(LOG_BULK_READ)
    return np.int64(LOG_BULK_WRITE if _reduction(operation) < 0 else LOG_ATOMIC)


@compiled
def _request(m, operation):
    """Log and count the sectors of global memory that the operation asks for."""
    kind = _request_kind(m, operation)
    if _rank(operation):
        return tile_sectors(m, operation, kind)
    size, start = get(operation, O_BYTES), get(operation, O_OTHER)
    if size == 0:
        return np.int64(0)
    if kind >= 0 and resolve(m, start, size, 1):
        log_span(m, start, size, kind)
    return ((start + size + 31) >> 5) - (start >> 5)


# Issuing


@compiled
def _read_operands(m, frame, constants, record, lane, operation):
    """Fill an operation from the registers of a lane; False if it needs a tensor map and has none."""
    names = record - RECORD_BYTES
    put(operation, O_FORM, field(record, X7))
    put(operation, O_SHARED, load_i64(operand(frame, constants, record, SRC_A) + 8 * lane))
    put(operation, O_OTHER, load_i64(operand(frame, constants, record, SRC_B) + 8 * lane))
    put(operation, O_MBARRIER, 0)
    if field(record, X0):
        put(operation, O_MBARRIER, load_i64(operand(frame, constants, record, X0) + 8 * lane))
    if field(names, X2):
        mask = np.int64(load_u16(operand(frame, constants, names, X2) + 2 * lane))
        put(operation, O_FORM, field(record, X7) | mask << FORM_MASK_SHIFT)
    rank = _rank(operation)
    if rank == 0:
        size = np.int64(load_u32(operand(frame, constants, record, SRC_C) + 4 * lane))
        put(operation, O_BYTES, size)
        put(operation, O_SPAN, size)
        return True
    slots = (SRC_A, SRC_B, SRC_C, X0, X1)
    for i in range(5):
        at = np.int64(0)
        if i < rank or field(record, X7) & FORM_ROWS:
            at = np.int64(load_i32(operand(frame, constants, names, slots[i]) + 4 * lane))
        put(operation, O_AT + i, at)
    tensor = operation + 8 * O_MAP
    if not find_map(m, get(operation, O_OTHER), rank, tensor):
        return False
    if field(record, X7) & FORM_ROWS and not take_four_rows(tensor):
        return False
    put(operation, O_BYTES, tile_bytes(tensor))
    put(operation, O_SPAN, tile_span(tensor))
    return True


@compiled
def _shared_fits(m, address, span, alignment, own, write, pc, warp, lane):
    """Do `span` bytes from an aligned address lie in shared memory, `own`: of this block? A report if not."""
    owner, offset = owner_of(m, address), offset_of(address)
    if own and owner != m:
        owner = np.int64(0)
    if owner and SHARED_BASE <= offset <= get(owner, M_SHARED_BYTES) - span and not offset & (alignment - 1):
        return True
    if owner and offset & (alignment - 1):
        report(m, FAULT_MISALIGNED, pc, warp, lane, address, alignment, write, -1, SPACE_SHARED, 0)
    else:
        at = max(address, address + get(m, M_SHARED_BYTES) - offset) if offset >= SHARED_BASE else address
        report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, at, 4, write, -1, SPACE_SHARED, 0)
    return False


@compiled
def _is_sound(m, operation, pc, warp, lane):
    """Are the addresses, the size and the coordinates such as the operation needs? A report if not."""
    rank, direction = _rank(operation), _direction(operation)
    alignment = TILE_ALIGNMENT if rank else BULK_ALIGNMENT
    size = get(operation, O_BYTES)
    if size & 15:
        report(m, FAULT_BULK_SIZE, pc, warp, lane, 0, size, 0, -1, 0, 0)
        return False
    if rank and not starts_well(operation, direction == TO_GLOBAL):
        report(m, FAULT_BOX, pc, warp, lane, get(operation, O_AT), 0, 0, -1, 0, 0)
        return False
    write = 1 if direction == TO_SHARED else 0
    own = direction != TO_SHARED  # a source lies in the block's own shared memory
    if not _shared_fits(m, get(operation, O_SHARED), get(operation, O_SPAN), alignment, own, write, pc, warp, lane):
        return False
    if own:
        put(operation, O_SHARED, offset_of(get(operation, O_SHARED)))
    if direction == WITHIN_CLUSTER:
        return _shared_fits(m, get(operation, O_OTHER), size, alignment, False, 1, pc, warp, lane)
    if rank == 0 and get(operation, O_OTHER) & 15:
        at, write = get(operation, O_OTHER), 1 - write
        report(m, FAULT_MISALIGNED, pc, warp, lane, at, BULK_ALIGNMENT, write, -1, SPACE_GLOBAL, 0)
        return False
    return True


@compiled
def _check_source(m, warp, operation, pc, lane):
    """For the sanitizer: the operation reads its source in shared memory now, and may do so until it was waited for."""
    start = get(operation, O_SHARED)
    if get(m, M_SHARED_SHADOW) == 0:
        return
    if _rank(operation):
        move_tile(m, warp, np.int64(0), start, operation, CHECK_TILE, np.int64(-1), pc, lane)
    else:
        for place in range(0, get(operation, O_BYTES), 16):
            check_read(m, warp, start + place, 16, 16, pc, lane, 0, 0, 0)
        check_async_read(m, warp, start, get(operation, O_BYTES), pc, lane)
    start_source(m, warp, start, get(operation, O_SPAN), pc)


@compiled
def _check_target(m, warp, start, span, pc, lane):
    """For the sanitizer: from now on the operation may write to shared memory."""
    if get(m, M_SHARED_SHADOW):
        for place in range(0, span, 16):
            check_write(m, warp, start + place, 16, 16, pc, lane, 0, 0, 0)
        start_copy(m, warp, start, span, pc)


@compiled
def _target(m, operation, rank):
    """Where the copy for block `rank` of a multicast goes."""
    return mapped(m, rank, offset_of(get(operation, O_SHARED)))


@compiled
def _start_event(m, warp, operation, pc, lane):
    """Queue an operation that completes at an mbarrier."""
    mask = get(operation, O_FORM) >> FORM_MASK_SHIFT
    span = get(operation, O_SPAN)
    if _direction(operation) == WITHIN_CLUSTER:
        _check_source(m, warp, operation, pc, lane)
        _check_target(m, warp, get(operation, O_OTHER), span, pc, lane)
    elif mask == 0:
        _check_target(m, warp, get(operation, O_SHARED), span, pc, lane)
    else:
        for rank in range(16):
            if mask >> rank & 1 and owner_of(m, _target(m, operation, rank)):
                _check_target(m, warp, _target(m, operation, rank), span, pc, lane)
    event = new_event(m, EVENT_BULK, warp, lane, pc)
    copy_bytes(event + 8 * E_0, operation, 8 * O_FIELDS)


@compiled
def _store_at(queue, position):
    return queue + (Q_FIRST + position * K_FIELDS) * 8


@compiled
def _start_store(m, warp, operation, pc, lane):
    """Queue an operation that completes in a bulk group."""
    queue = get(m, M_BULK)
    if get(queue, Q_STORES) == MAX_STORES:
        _write_store(m, _store_at(queue, 0))
        _end_source(m, _store_at(queue, 0))
        _drop_store(queue, np.int64(0))
    _check_source(m, warp, operation, pc, lane)
    store = _store_at(queue, get(queue, Q_STORES))
    increase(queue, Q_STORES, 1)
    thread = 32 * warp + lane
    put(store, K_THREAD, thread)
    put(store, K_GROUP, get(queue, Q_COMMITTED + thread))
    put(store, K_PLACE, UNREAD)
    put(store, K_PC, pc)
    copy_bytes(store + 8 * K_OPERATION, operation, 8 * O_FIELDS)


@compiled
def _note_source(m, warp, operation, pc, lane):
    """For the search for races: the operation may read its source in global memory from now on."""
    if _rank(operation):
        note_tile(m, warp, operation, pc, lane)
    else:
        note_read(m, get(operation, O_OTHER), get(operation, O_BYTES), pc, warp, lane)


@compiled
def _source_sum(m, operation):
    """A number that tells whether the operation's source in global memory has changed; 0 where that is not watched.

    Where blocks wait for each other a copy may begin before its source is whole, and be issued again.
    """
    if get(m, M_SHARED_SHADOW) == 0 or get(m, M_RACES) and get(get(m, M_RACES), G_LIVE):
        return np.int64(0)
    if _rank(operation):
        return tile_sum(m, operation)
    start, size = get(operation, O_OTHER), get(operation, O_BYTES)
    entry = resolve(m, start, size, 1) if size else np.int64(0)
    return sum_of_bytes(get(entry, R_HOST) + region_offset(entry, start), size) if entry else np.int64(0)


@compiled
def _check_unchanged(m, warp, operation, pc, lane):
    """Report a source in global memory that has changed since the operation was issued."""
    if get(operation, O_SUM) == _source_sum(m, operation):
        return
    address = get(operation + 8 * O_MAP, T_ADDRESS) if _rank(operation) else get(operation, O_OTHER)
    report(m, FAULT_SOURCE_CHANGED, pc, warp, lane, address, 4, 0, -1, SPACE_GLOBAL, 0)


@compiled
def issue_bulk(m, warp, frame, constants, record, pc, mask):
    """A bulk or tensor copy or reduction of each active lane."""
    operation = get(m, M_SCRATCH)
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    moment = own_clock(m, warp)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if not _read_operands(m, frame, constants, record, lane, operation):
            report(m, FAULT_TENSOR_MAP, pc, warp, lane, get(operation, O_OTHER), 0, 0, -1, SPACE_GLOBAL, 0)
            put(m, M_STOP, 1)
            return
        mbarrier, size = get(operation, O_MBARRIER), get(operation, O_BYTES)
        if _direction(operation) != TO_GLOBAL and not usable(m, mbarrier, pc, warp, lane):
            continue
        if not _is_sound(m, operation, pc, warp, lane):
            if _direction(operation) != TO_GLOBAL:
                # Its bytes never come; a second finding about who waits for them would say nothing new.
                change(m, warp, mbarrier, np.int64(0), np.int64(0), -size, pc, lane)
            continue
        increase(cell, C_REQUESTS, 1)
        increase(cell, C_SECTORS, _request(m, operation))
        increase(cell, C_IDEAL, size)
        if _direction(operation) == TO_GLOBAL:
            _start_store(m, warp, operation, pc, lane)
        else:
            put(operation, O_MOMENT, moment)
            put(operation, O_SUM, _source_sum(m, operation) if _direction(operation) == TO_SHARED else 0)
            if get(m, M_RACES) and _direction(operation) != WITHIN_CLUSTER:
                _note_source(m, warp, operation, pc, lane)
            _start_event(m, warp, operation, pc, lane)
    pass_moment(m, warp)


# Completing


@compiled
def _to_shared(m, warp, operation, target, mbarrier, pc, lane):
    """Make one copy to shared memory and count its bytes at the mbarrier beside it."""
    owner, offset = owner_of(m, target), offset_of(target)
    size = get(operation, O_BYTES)
    if owner == 0:
        return
    if get(owner, M_LIVE_THREADS) == 0:
        report(m, FAULT_LEFT, pc, warp, lane, target, size, 1, -1, SPACE_SHARED, 0)
    host = get(owner, M_SHARED) + offset
    if _direction(operation) == WITHIN_CLUSTER:
        source = get(m, M_SHARED) + offset_of(get(operation, O_SHARED))
        form = get(operation, O_FORM)
        if _reduction(operation) >= 0:
            unit, kind = (form >> FORM_SIZE_SHIFT) & 15, (form >> FORM_KIND_SHIFT) & 15
            reduce_bytes(host, source, size, unit, kind, _reduction(operation))
        else:
            copy_bytes(host, source, size)
        end_source(m, warp, get(operation, O_SHARED), size, pc)
    elif _rank(operation):
        move_tile(m, warp, host, offset, operation, LOAD_TILE, np.int64(-1), pc, lane)
    else:
        source = readable(m, get(operation, O_OTHER), size, np.int64(4), pc, warp, lane) if size else np.int64(0)
        if source:
            copy_bytes(host, source, size)
    end_copy_at(m, warp, target, get(operation, O_SPAN), get(operation, O_MOMENT))
    if usable(m, mbarrier, pc, warp, lane):
        release_at(m, warp, mbarrier, get(operation, O_MOMENT))
        change(m, warp, mbarrier, np.int64(0), np.int64(0), -size, pc, lane)


@compiled
def complete_bulk(event):
    """An operation whose bytes an mbarrier waits for happens."""
    m, warp, lane, pc = get(event, E_MACHINE), get(event, E_WARP), get(event, E_LANE), get(event, E_PC)
    operation = event + 8 * E_0
    mask, mbarrier = get(operation, O_FORM) >> FORM_MASK_SHIFT, get(operation, O_MBARRIER)
    if _direction(operation) == TO_SHARED:
        _check_unchanged(m, warp, operation, pc, lane)
    if _direction(operation) == WITHIN_CLUSTER:
        _to_shared(m, warp, operation, get(operation, O_OTHER), mbarrier, pc, lane)
    elif mask == 0:
        _to_shared(m, warp, operation, get(operation, O_SHARED), mbarrier, pc, lane)
    else:
        # With .cta_group::2 the block of each pair hears of it whose rank is even or odd as that of the mbarrier named.
        pair, parity = get(operation, O_FORM) & FORM_PAIR, get(owner_of(m, mbarrier), M_RANK) & 1
        for rank in range(16):
            if mask >> rank & 1:
                beside = mapped(m, rank & ~1 | parity if pair else rank, offset_of(mbarrier))
                _to_shared(m, warp, operation, _target(m, operation, rank), beside, pc, lane)


@compiled
def _read_store(m, store):
    """Keep a store's source in the queue's room, if there is any left."""
    queue, operation = get(m, M_BULK), store + 8 * K_OPERATION
    span = get(operation, O_SPAN)
    if get(queue, Q_USED) + span > get(queue, Q_ROOM):
        return False
    place = get(queue, Q_USED)
    increase(queue, Q_USED, (span + 15) & ~np.int64(15))
    copy_bytes(queue + Q_FIELDS * 8 + place, get(m, M_SHARED) + get(operation, O_SHARED), span)
    put(store, K_PLACE, place)
    return True


@compiled
def _end_source(m, store):
    """A store's source is read, as it is made early to make room."""
    if get(store, K_PLACE) < 0:
        operation = store + 8 * K_OPERATION
        end_source(m, get(store, K_THREAD) >> 5, get(operation, O_SHARED), get(operation, O_SPAN), get(store, K_PC))


@compiled
def _write_store(m, store):
    """Write a store's target, from its source or from what was kept of it."""
    if get(store, K_PLACE) == MADE:
        return
    queue, operation = get(m, M_BULK), store + 8 * K_OPERATION
    warp, lane, pc = get(store, K_THREAD) >> 5, get(store, K_THREAD) & 31, get(store, K_PC)
    start, size, form = get(operation, O_SHARED), get(operation, O_BYTES), get(operation, O_FORM)
    host = get(m, M_SHARED) + start
    if get(store, K_PLACE) >= 0:
        host = queue + Q_FIELDS * 8 + get(store, K_PLACE)
    if _rank(operation):
        move_tile(m, warp, host, start, operation, STORE_TILE, _reduction(operation), pc, lane)
    elif size:
        unit = (form >> FORM_SIZE_SHIFT) & 15
        strong = SCOPE_GPU if _reduction(operation) >= 0 else 0
        target = writable(m, get(operation, O_OTHER), size, max(unit, 4), pc, warp, lane, strong)
        if target and _reduction(operation) >= 0:
            reduce_bytes(target, host, size, unit, (form >> FORM_KIND_SHIFT) & 15, _reduction(operation))
        elif target:
            copy_bytes(target, host, size)


@compiled
def _drop_store(queue, position):
    """Take a store off the queue; the room is empty again when no store has anything in it."""
    count = get(queue, Q_STORES) - 1
    kept = False
    for later in range(position, count):
        copy_bytes(_store_at(queue, later), _store_at(queue, later + 1), K_FIELDS * 8)
    put(queue, Q_STORES, count)
    for other in range(count):
        kept = kept or get(_store_at(queue, other), K_PLACE) >= 0
    if not kept:
        put(queue, Q_USED, 0)


@compiled
def group_bulk(m, warp, record, mask):
    """commit_group or wait_group of the active lanes. In a seeded run any store may be made meanwhile."""
    queue = get(m, M_BULK)
    if is_random(m) and get(queue, Q_STORES) and random_below(m, 2):
        chosen = random_below(m, get(queue, Q_STORES))
        store = _store_at(queue, chosen)
        _write_store(m, store)
        if get(store, K_PLACE) >= 0:
            _drop_store(queue, chosen)
        else:
            put(store, K_PLACE, MADE)  # nobody knows so before its thread has waited
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        thread = 32 * warp + lane
        if field(record, X0) == BULK_COMMIT:
            increase(queue, Q_COMMITTED + thread, 1)
            continue
        last = get(queue, Q_COMMITTED + thread) - field(record, IMM)
        position = np.int64(0)
        while position < get(queue, Q_STORES):
            store = _store_at(queue, position)
            place, only_read = get(store, K_PLACE), field(record, X1)
            if get(store, K_THREAD) != thread or get(store, K_GROUP) >= last or (only_read and place >= 0):
                position += 1
                continue
            if place < 0:
                operation = store + 8 * K_OPERATION
                await_source(m, warp, lane, get(operation, O_SHARED), get(operation, O_SPAN), get(store, K_PC))
            if only_read and place == UNREAD and _read_store(m, store):
                position += 1
                continue
            _write_store(m, store)
            _drop_store(queue, position)


@compiled
def finish_stores(m):
    """The block has ended: its stores are made; those whose source nobody waited for are reported."""
    queue = get(m, M_BULK)
    if queue == 0:
        return
    for position in range(get(queue, Q_STORES)):
        store = _store_at(queue, position)
        if get(store, K_PLACE) < 0:
            thread, operation = get(store, K_THREAD), store + 8 * K_OPERATION
            start, size = get(operation, O_SHARED), get(operation, O_BYTES)
            report(m, FAULT_LEFT, get(store, K_PC), thread >> 5, thread & 31, start, size, 0, -1, SPACE_SHARED, 0)
        _write_store(m, store)
    put(queue, Q_STORES, 0)
