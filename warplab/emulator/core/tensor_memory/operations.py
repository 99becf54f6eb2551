"""What threads ask of the tensor core: a queue for each block, done as late as its commits allow.

A commit is an event of the cluster (asynchronous/events.py): when it happens, what its thread has issued is done, with
all that the queue holds before it, in the order of issue, and its mbarriers hear of it. What no commit tracks is done
when the block ends.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.events import new_event
from warplab.emulator.core.asynchronous.mbarriers import change, usable
from warplab.emulator.core.memory.clocks import own_clock, pass_moment, release_at
from warplab.emulator.core.memory.cluster_memory import mapped, offset_of
from warplab.emulator.core.memory.shadow import check_read
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    E_0,
    E_LANE,
    E_MACHINE,
    E_PC,
    E_WARP,
    EVENT_TENSOR,
    FAULT_TENSOR_ORDER,
    IMM,
    M_CLUSTER,
    M_SHARED_WINDOW,
    M_TENSOR,
    RECORD_BYTES,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
    X3,
    X4,
    X5,
    X6,
    X7,
)
from warplab.emulator.core.state.random_order import is_random, random_below
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    load_i64,
    load_u16,
    load_u32,
    operand,
    put,
    trailing_zeros32,
)
from warplab.emulator.core.state.tensor_layout import (
    FORM_A_MEMORY,
    FORM_MASKED,
    FORM_SPARSE,
    FORM_ZERO_COLUMNS,
    O_A,
    O_ACTION,
    O_B,
    O_COMMITTED,
    O_D,
    O_DESCRIPTOR,
    O_FIELDS,
    O_FORM,
    O_KEEP,
    O_LANE,
    O_MASK,
    O_METADATA,
    O_MOMENT,
    O_PC,
    O_SHIFT,
    O_WARP,
    O_ZERO_COLUMNS,
    ORDER_LEFT,
    QUEUE,
    T_FIRST,
    T_ISSUED,
    T_QUEUE,
    TC_COMMIT,
    TC_COPY,
    TC_FENCE_AFTER,
    TC_FENCE_BEFORE,
    TC_SHIFT,
    TC_USED,
)
from warplab.emulator.core.tensor_memory.copies import accept_copy, make_copy
from warplab.emulator.core.tensor_memory.order import check_loaded, fence_after, fence_before, release_done
from warplab.emulator.core.tensor_memory.pairs import blocks_of
from warplab.emulator.core.tensor_memory.product import accept_product, make_product
from warplab.emulator.core.tensor_memory.scales import scales_of
from warplab.emulator.core.tensor_memory.shifts import accept_shift, make_shift

_MBARRIER, _MASK, _MOMENT, _UP_TO = range(E_0, E_0 + 4)
_MASK_SLOTS = np.array([SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5], np.int64)


@compiled
def _operation(m, number):
    """Where the number-th operation is that the block has issued."""
    return get(m, M_TENSOR) + 8 * (T_QUEUE + number % QUEUE * O_FIELDS)


@compiled
def _do_first(m):
    """Do the oldest operation of the queue."""
    tensor = get(m, M_TENSOR)
    operation = _operation(m, get(tensor, T_FIRST))
    if get(operation, O_ACTION) == TC_COPY:
        make_copy(m, operation)
    elif get(operation, O_ACTION) == TC_SHIFT:
        make_shift(m, operation)
    else:
        make_product(m, operation)
    increase(tensor, T_FIRST, 1)


@compiled
def _do_some(m):
    """In a seeded run: do some of the oldest operations early."""
    tensor = get(m, M_TENSOR)
    if is_random(m):
        while get(tensor, T_FIRST) < get(tensor, T_ISSUED) and random_below(m, 3) == 0:
            _do_first(m)


@compiled
def _word(frame, constants, record, slot, lane):
    return np.int64(load_u32(operand(frame, constants, record, slot) + 4 * lane))


@compiled
def _read_product(frame, constants, record, lane, operation):
    form = field(record, X7)
    put(operation, O_FORM, form)
    put(operation, O_D, _word(frame, constants, record, SRC_A, lane))
    if form & FORM_A_MEMORY:
        put(operation, O_A, _word(frame, constants, record, SRC_B, lane))
    else:
        put(operation, O_A, load_i64(operand(frame, constants, record, SRC_B) + 8 * lane))
    put(operation, O_B, load_i64(operand(frame, constants, record, SRC_C) + 8 * lane))
    put(operation, O_DESCRIPTOR, _word(frame, constants, record, X0, lane))
    put(operation, O_KEEP, np.int64(load_u32(operand(frame, constants, record, X1)) >> np.uint32(lane)) & 1)
    put(operation, O_SHIFT, field(record, IMM))
    if form & FORM_SPARSE:
        put(operation, O_METADATA, _word(frame, constants, record - RECORD_BYTES, X6, lane))
    if form & FORM_ZERO_COLUMNS:
        put(operation, O_ZERO_COLUMNS, load_i64(operand(frame, constants, record - RECORD_BYTES, SRC_A) + 8 * lane))
    elif form & FORM_MASKED or scales_of(form):
        for part in range(4 * blocks_of(form) if form & FORM_MASKED else 2):
            put(operation, O_MASK + part, _word(frame, constants, record - RECORD_BYTES, _MASK_SLOTS[part], lane))


@compiled
def _issue(m, warp, frame, constants, record, pc, lane, moment):
    """A thread asks for an operation."""
    tensor = get(m, M_TENSOR)
    if get(tensor, T_ISSUED) - get(tensor, T_FIRST) == QUEUE:
        _do_first(m)
    operation = _operation(m, get(tensor, T_ISSUED))
    put(operation, O_ACTION, field(record, X3))
    put(operation, O_WARP, warp)
    put(operation, O_LANE, lane)
    put(operation, O_PC, pc)
    put(operation, O_MOMENT, moment)
    put(operation, O_COMMITTED, 0)
    if field(record, X3) == TC_COPY:
        put(operation, O_FORM, field(record, X7))
        put(operation, O_D, _word(frame, constants, record, SRC_A, lane))
        put(operation, O_A, load_i64(operand(frame, constants, record, SRC_B) + 8 * lane))
        accepted = accept_copy(m, operation)
    elif field(record, X3) == TC_SHIFT:
        put(operation, O_FORM, field(record, X7))
        put(operation, O_D, _word(frame, constants, record, SRC_A, lane))
        accepted = accept_shift(m, operation)
    else:
        _read_product(frame, constants, record, lane, operation)
        accepted = accept_product(m, operation)
    if accepted:
        increase(tensor, T_ISSUED, 1)


@compiled
def _reached(m, warp, mbarrier, pc, lane):
    """Is there an mbarrier for a commit to arrive at? Its initialisation has to be ordered before. A report if not."""
    if not usable(m, mbarrier, pc, warp, lane):
        return False
    check_read(m, warp, mbarrier, 8, 8, pc, lane, 0, 1, 0)
    return True


@compiled
def _commit(m, warp, frame, constants, record, pc, lane, moment):
    """tcgen05.commit of a thread."""
    address = load_i64(operand(frame, constants, record, SRC_A) + 8 * lane) + field(record, IMM)
    address -= get(m, M_SHARED_WINDOW) if field(record, X5) else np.int64(0)
    mask = np.int64(0)
    if field(record, SRC_B):
        mask = np.int64(load_u16(operand(frame, constants, record, SRC_B) + 2 * lane))
    if mask == 0 and not _reached(m, warp, address, pc, lane):
        return
    for rank in range(get(m, M_CLUSTER)):
        if mask >> rank & 1:
            _reached(m, warp, mapped(m, rank, offset_of(address)), pc, lane)
    event = new_event(m, EVENT_TENSOR, warp, lane, pc)
    put(event, _MBARRIER, address)
    put(event, _MASK, mask)
    put(event, _MOMENT, moment)
    put(event, _UP_TO, get(get(m, M_TENSOR), T_ISSUED))


@compiled
def ask_core(m, warp, frame, constants, record, pc, mask):
    """An instruction that each active thread executes for itself."""
    action = field(record, X3)
    if action == TC_FENCE_BEFORE:
        fence_before(m, warp)
        return
    if action == TC_FENCE_AFTER:
        fence_after(m, warp)
        return
    if action == TC_USED:
        check_loaded(m, warp, pc, np.int64(trailing_zeros32(np.uint32(mask))))
        return
    moment = own_clock(m, warp)
    _do_some(m)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if action == TC_COMMIT:
            _commit(m, warp, frame, constants, record, pc, lane, moment)
        else:
            _issue(m, warp, frame, constants, record, pc, lane, moment)
    pass_moment(m, warp)


@compiled
def _done_until(m, warp, lane, up_to, moment):
    """The clock of its warp up to which everything is done once a thread's commit has happened.

    A commit tracks what its own thread has issued. Where other lanes of the warp have issued operations as well, those
    that no commit of their own tracks hold the clock back.
    """
    issued, several, earliest = get(get(m, M_TENSOR), T_ISSUED), False, np.int64(-1)
    for number in range(max(np.int64(0), issued - QUEUE), issued):
        operation = _operation(m, number)
        if get(operation, O_WARP) != warp:
            continue
        if get(operation, O_LANE) != lane:
            several = True
        elif number < up_to:
            put(operation, O_COMMITTED, 1)
        if get(operation, O_COMMITTED) == 0 and (earliest < 0 or get(operation, O_MOMENT) < earliest):
            earliest = get(operation, O_MOMENT)
    if not several:
        return moment
    return (earliest if earliest >= 0 else own_clock(m, warp)) - 1


@compiled
def _arrive(m, warp, mbarrier, moment, done, pc, lane):
    if usable(m, mbarrier, pc, warp, lane):
        release_at(m, warp, mbarrier, moment)
        release_done(m, warp, mbarrier, moment, done)
        change(m, warp, mbarrier, np.int64(1), np.int64(0), np.int64(0), pc, lane)


@compiled
def _do_all_of(m, warp, lane, up_to):
    """Do what a thread has issued before the `up_to`-th operation, and all that the queue holds before that."""
    tensor, last = get(m, M_TENSOR), up_to
    while last > get(tensor, T_FIRST):
        operation = _operation(m, last - 1)
        if get(operation, O_WARP) == warp and get(operation, O_LANE) == lane:
            break
        last -= 1
    while get(tensor, T_FIRST) < last:
        _do_first(m)


@compiled
def complete_commit(event):
    """What a commit tracks is done, and its mbarriers hear of it."""
    m, warp, lane, pc = get(event, E_MACHINE), get(event, E_WARP), get(event, E_LANE), get(event, E_PC)
    _do_all_of(m, warp, lane, get(event, _UP_TO))
    mbarrier, mask, moment = get(event, _MBARRIER), get(event, _MASK), get(event, _MOMENT)
    done = _done_until(m, warp, lane, get(event, _UP_TO), moment)
    if mask == 0:
        _arrive(m, warp, mbarrier, moment, done, pc, lane)
    for rank in range(16):
        if mask >> rank & 1:
            _arrive(m, warp, mapped(m, rank, offset_of(mbarrier)), moment, done, pc, lane)


@compiled
def end_operations(m):
    """The block has ended: report what may not be done yet, and do it."""
    tensor = get(m, M_TENSOR)
    while get(tensor, T_FIRST) < get(tensor, T_ISSUED):
        operation = _operation(m, get(tensor, T_FIRST))
        pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
        report(m, FAULT_TENSOR_ORDER, pc, warp, lane, get(operation, O_D), 1, 1, -1, 0, ORDER_LEFT)
        _do_first(m)
