"""Lanes that meet at several sites: one operation of a warp, named by more than one instruction.

The PTX ISA lets lanes of a member mask wait until all of them execute the same operation with the same qualifiers and
the same mask; which instruction of the program it is does not matter. ptxas brings such lanes together with
WARPSYNC.COLLECTIVE, with the operands in fixed registers. Here each lane's operands are gathered into rows of their own
from the instruction at which it waits, the operation is carried out once, and its results go back the same way.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    DST,
    FAULT_OTHER_LANE,
    GUARD,
    GUARD_XOR,
    M_CODE,
    M_CONSTANTS,
    M_FRAME_BYTES,
    M_FRAMES,
    M_SCRATCH,
    M_UNDEFINED,
    M_UNDEFINED_AT,
    OP_ELECT,
    OP_MATCH,
    OP_REDUX,
    OP_SHUFFLE,
    OP_VOTE,
    RECORD_BYTES,
    RECORD_WORDS,
    S_MASK,
    S_PC,
    S_STATE,
    S_WAIT,
    SPLIT_AT_WARP_SYNC,
    SPLIT_READY,
    SRC_A,
    SRC_B,
    SRC_C,
    VOTE_BALLOT,
    W_LIVE,
    W_USED,
    WAIT_UNDECIDED,
    X0,
    X1,
    X2,
    X3,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    load_i32,
    load_u32,
    load_u64,
    operand,
    put,
    store_u32,
    store_u64,
    trailing_zeros32,
    trailing_zeros64,
)
from warplab.emulator.core.warp.exchange import elect, match, redux, set_predicate, shuffle, vote
from warplab.emulator.core.warp.splits import split_state

# Bytes of the scratch memory from which on the rows lie, and of each row within them
_ROWS, _A, _B, _C, _RESULT, _PREDICATE, _RECORD = 512, 0, 256, 384, 512, 640, 704
COLLECTIVE_SCRATCH = _ROWS + _RECORD + RECORD_BYTES


@compiled
def undefined_value(m, pc):
    """What a shuffle at an instruction gets of a lane that takes no part in it; 0: what lies in its register."""
    at = get(m, M_UNDEFINED_AT)
    return get(m, M_UNDEFINED) if at < 0 or at == pc else np.int64(0)


@compiled
def report_strayed(m, pc, warp, strayed):
    """Report what `shuffle` returned."""
    if strayed >= 0:
        report(m, FAULT_OTHER_LANE, pc, warp, strayed & 31, 0, 0, 0, -1, 0, strayed >> 5)


@compiled
def _same_operation(one, other):
    """Do two records name the same operation with the same qualifiers, for the lanes of a member mask?"""
    op = load_i32(one)
    if op != load_i32(other) or field(one, X0) != field(other, X0) or field(other, X2) == 0:
        return False
    if op == OP_MATCH:
        return field(one, X3) == field(other, X3)
    return op != OP_REDUX or field(one, X1) == field(other, X1)


@compiled
def _meets(m, state, record, members):
    """Does a split wait with the same member mask at an instruction of the same operation?"""
    if get(state, S_STATE) != SPLIT_AT_WARP_SYNC or np.uint32(get(state, S_WAIT)) != members:
        return False
    return _same_operation(record, get(m, M_CODE) + get(state, S_PC) * RECORD_BYTES)


@compiled
def _lanes(frame, record, mask):
    """The lanes of a mask for which an instruction's guard holds."""
    return mask & (load_u32(frame + field(record, GUARD)) ^ np.uint32(load_i32(record + 4 * GUARD_XOR)))


@compiled
def _gather(rows, frame, constants, record, lanes):
    """Copy the operands of some lanes of an instruction."""
    op = load_i32(record)
    a = operand(frame, constants, record, SRC_A)
    if op == OP_VOTE:
        kept = load_u32(rows + _A) & ~lanes
        store_u32(rows + _A, kept | (load_u32(a) & lanes))
        return
    if op == OP_ELECT:
        return
    b, c = operand(frame, constants, record, SRC_B), operand(frame, constants, record, SRC_C)
    wide = op == OP_MATCH and field(record, X3) == 8
    rest = np.uint32(lanes)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if wide:
            store_u64(rows + _A + 8 * lane, load_u64(a + 8 * lane))
        else:
            store_u32(rows + _A + 4 * lane, load_u32(a + 4 * lane))
        if op == OP_SHUFFLE:
            store_u32(rows + _B + 4 * lane, load_u32(b + 4 * lane))
            store_u32(rows + _C + 4 * lane, load_u32(c + 4 * lane))


@compiled
def _scatter(rows, frame, constants, record, lanes):
    """Copy the results of some lanes to where an instruction wants them."""
    op = load_i32(record)
    predicate = load_u32(rows + _PREDICATE)
    if op == OP_VOTE and field(record, X0) != VOTE_BALLOT:
        set_predicate(frame, field(record, DST), lanes, predicate)
        return
    destination = operand(frame, constants, record, DST)
    rest = np.uint32(lanes)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        store_u32(destination + 4 * lane, load_u32(rows + _RESULT + 4 * lane))
    if op in (OP_SHUFFLE, OP_ELECT) or op == OP_MATCH and field(record, X0):
        set_predicate(frame, field(record, X1), lanes, predicate)


@compiled
def _carry_out(m, warp, scratch, rows, record, pc, mask):
    """The operation on the gathered rows: a record of its own names them."""
    op = load_i32(record)
    own = rows + _RECORD
    for word in range(RECORD_WORDS):
        store_u32(own + 4 * word, load_u32(record + 4 * word))
    store_u32(own + 4 * SRC_A, np.uint32(_A))
    store_u32(own + 4 * SRC_B, np.uint32(_B))
    store_u32(own + 4 * SRC_C, np.uint32(_C))
    store_u32(own + 4 * DST, np.uint32(_RESULT))
    if op == OP_SHUFFLE:
        store_u32(own + 4 * X1, np.uint32(_PREDICATE))
        report_strayed(m, pc, warp, shuffle(scratch, rows, rows, own, mask, undefined_value(m, pc)))
    elif op == OP_VOTE:
        if field(record, X0) != VOTE_BALLOT:
            store_u32(own + 4 * DST, np.uint32(_PREDICATE))
        vote(rows, rows, own, mask)
    elif op == OP_MATCH:
        store_u32(own + 4 * X1, np.uint32(_PREDICATE))
        match(scratch, rows, rows, own, mask)
    elif op == OP_REDUX:
        redux(rows, rows, own, mask)
    else:
        store_u32(own + 4 * X1, np.uint32(_PREDICATE))
        elect(rows, rows, own, mask)


@compiled
def meet_at_sites(m, warp, warp_address, current, op, record, pc, mask, active, members):
    """Carry out an operation if all `members` wait at instructions that name it; True if it was done.

    `active` are the lanes of the running split, `mask` those of them for which the instruction's guard holds.
    """
    if op not in (OP_SHUFFLE, OP_VOTE, OP_MATCH, OP_REDUX, OP_ELECT) or field(record, X2) == 0:
        return False
    live = np.uint32(get(warp_address, W_LIVE))
    code, constants = get(m, M_CODE), get(m, M_CONSTANTS)
    frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
    together = active
    used = np.uint64(get(warp_address, W_USED))
    rest = used
    while rest:
        split = np.int64(trailing_zeros64(rest))
        rest &= rest - np.uint64(1)
        state = split_state(warp_address, split)
        if split != current and _meets(m, state, record, members):
            together |= np.uint32(get(state, S_MASK)) & live
    if members & live & ~together:
        return False
    scratch = get(m, M_SCRATCH)
    rows = scratch + _ROWS
    take_part = mask & members
    _gather(rows, frame, constants, record, take_part)
    rest = used
    while rest:
        split = np.int64(trailing_zeros64(rest))
        rest &= rest - np.uint64(1)
        state = split_state(warp_address, split)
        if split != current and _meets(m, state, record, members):
            site = code + get(state, S_PC) * RECORD_BYTES
            lanes = _lanes(frame, site, np.uint32(get(state, S_MASK)) & live) & members
            _gather(rows, frame, constants, site, lanes)
            take_part |= lanes
    _carry_out(m, warp, scratch, rows, record, pc, take_part)
    _scatter(rows, frame, constants, record, mask & members)
    rest = used
    while rest:
        split = np.int64(trailing_zeros64(rest))
        rest &= rest - np.uint64(1)
        state = split_state(warp_address, split)
        if split != current and _meets(m, state, record, members):
            site = code + get(state, S_PC) * RECORD_BYTES
            lanes = _lanes(frame, site, np.uint32(get(state, S_MASK)) & live) & members
            _scatter(rows, frame, constants, site, lanes)
            put(state, S_STATE, SPLIT_READY)
            put(state, S_WAIT, WAIT_UNDECIDED)
            increase(state, S_PC, 1)
    return True
