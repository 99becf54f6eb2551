"""Records what the warps of one block do: each warp instruction with its time, its lanes and the addresses it asks for.

The buffers are of a fixed size; what no longer fits is only counted.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    IMM,
    LANES,
    M_TIME,
    M_TRACE,
    OP,
    OP_ATOMIC,
    OP_BULK,
    OP_COPY,
    OP_LDMATRIX,
    OP_LOAD,
    OP_MBARRIER,
    OP_STMATRIX,
    OP_STORE,
    OP_WATCH,
    SPACE_CONST,
    SPACE_PARAM,
    SRC_A,
    SRC_B,
    X0,
    X3,
    X5,
)
from warplab.emulator.core.state.raw import field as record_field
from warplab.emulator.core.state.raw import get, increase, load_i64, operand, put, store_i64

# The state of a trace: int64 units.
(
    T_EVENTS,  # address of the events
    T_EVENT_COUNT,
    T_EVENT_LIMIT,
    T_LOST_EVENTS,
    T_ACCESSES,  # address of rows of 32 int64 addresses
    T_ACCESS_COUNT,
    T_ACCESS_LIMIT,
    T_LOST_ACCESSES,
    T_FIELDS,
) = range(9)
# What it says of a warp instruction that was issued.
I_TIME, I_WARP, I_PC, I_MASK, I_ACTIVE, I_ACCESS, I_OUTCOME, I_FIELDS = range(8)
OUTCOME_WAITS = 1  # its lanes wait and issue it again, or others go on for them
OUTCOME_FAILED = 2  # a test of an mbarrier that was too early


@compiled
def _has_addresses(record, op):
    """Does an instruction ask for memory that a picture of its lanes says something about?"""
    if op in (OP_LOAD, OP_STORE):
        space = record_field(record, X0)
        return space != SPACE_CONST and space != SPACE_PARAM
    # The second and later elements of a vector atomic belong to the first.
    return op in (OP_COPY, OP_LDMATRIX, OP_STMATRIX) or (op == OP_ATOMIC and record_field(record, X5) != 0)


@compiled
def _keep_addresses(trace, row, offset):
    """Copy 32 addresses; returns their place, or -1 if the buffer is full."""
    place = get(trace, T_ACCESS_COUNT)
    if place >= get(trace, T_ACCESS_LIMIT):
        increase(trace, T_LOST_ACCESSES, 1)
        return np.int64(-1)
    put(trace, T_ACCESS_COUNT, place + 1)
    to = get(trace, T_ACCESSES) + place * LANES * 8
    for lane in range(LANES):
        store_i64(to + 8 * lane, load_i64(row + 8 * lane) + offset)
    return place


@compiled
def record_issue(m, issued, warp, frame, constants, record, pc, active, mask):
    """Record a warp instruction that is about to run. `mask`: the lanes of `active` that its guard lets through."""
    trace = get(m, M_TRACE)
    if trace == 0 or record_field(record, OP) == OP_WATCH:
        return
    count = get(trace, T_EVENT_COUNT)
    if count >= get(trace, T_EVENT_LIMIT):
        increase(trace, T_LOST_EVENTS, 1)
        return
    put(trace, T_EVENT_COUNT, count + 1)
    event = get(trace, T_EVENTS) + count * I_FIELDS * 8
    put(event, I_TIME, get(m, M_TIME) + issued)
    put(event, I_WARP, warp)
    put(event, I_PC, pc)
    put(event, I_MASK, np.int64(mask))
    put(event, I_ACTIVE, np.int64(active))
    put(event, I_OUTCOME, 0)
    access = np.int64(-1)
    op = record_field(record, OP)
    if mask and op == OP_MBARRIER:
        access = _keep_addresses(trace, operand(frame, constants, record, SRC_A), record_field(record, IMM))
    elif mask and op == OP_BULK and record_field(record, X0) != 0:
        # The mbarrier at which it completes.
        access = _keep_addresses(trace, operand(frame, constants, record, X0), np.int64(0))
    elif mask and _has_addresses(record, op):
        access = _keep_addresses(trace, operand(frame, constants, record, SRC_A), record_field(record, IMM))
        if op == OP_COPY and access >= 0:
            # The other end of a copy lies right behind.
            _keep_addresses(trace, operand(frame, constants, record, SRC_B), record_field(record, X3))
    put(event, I_ACCESS, access)


@compiled
def record_outcome(m, outcome):
    """What became of the instruction recorded last: OUTCOME_WAITS or OUTCOME_FAILED."""
    trace = get(m, M_TRACE)
    if trace and get(trace, T_LOST_EVENTS) == 0:
        put(get(trace, T_EVENTS) + (get(trace, T_EVENT_COUNT) - 1) * I_FIELDS * 8, I_OUTCOME, outcome)
