"""mbarrier objects: eight bytes of shared memory that count arrivals and bytes, phase by phase.

The object's bits are the emulator's own (PTX leaves them open): pending arrivals, expected arrivals, bytes still
expected, the phase's parity, and a mark that only mbarrier.init makes. A phase ends when both pending counts are zero.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.clocks import acquire, release
from warplab.emulator.core.memory.cluster_memory import mapped, offset_of, shared_host
from warplab.emulator.core.memory.shadow import check_read, check_write
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    DST,
    FAULT_ARRIVALS,
    FAULT_MBARRIER,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    IMM,
    M_RANK,
    M_SHARED_WINDOW,
    M_TENSOR,
    MB_ARRIVE,
    MB_COMPLETE,
    MB_COUNT,
    MB_DROPS,
    MB_INIT,
    MB_INVALIDATE,
    MB_RELAXED,
    MB_TEST,
    MB_TEST_PARITY,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    load_i64,
    load_u32,
    operand,
    put,
    store_i64,
    store_u32,
    trailing_zeros32,
)
from warplab.emulator.core.state.tensor_layout import T_RELAXED
from warplab.emulator.core.warp.exchange import set_predicate

_COUNT = (1 << 20) - 1
_EXPECTED_SHIFT, _BYTES_SHIFT, _PHASE_SHIFT, _MARK_SHIFT = 20, 40, 61, 62
_BYTES_BIAS = 1 << 20


@compiled
def _pack(pending, expected, missing, phase):
    low = pending | (expected << _EXPECTED_SHIFT) | ((missing + _BYTES_BIAS) << _BYTES_SHIFT)
    return low | (phase << _PHASE_SHIFT) | (np.int64(1) << _MARK_SHIFT)


@compiled
def phase_of(word):
    """The parity of a state's phase."""
    return (word >> _PHASE_SHIFT) & 1


@compiled
def is_mbarrier(word):
    """Is this the state of an initialised mbarrier?"""
    return word >> _MARK_SHIFT == 1


@compiled
def missing_arrivals(word):
    """Arrivals that a state's phase still needs."""
    return word & _COUNT


@compiled
def missing_bytes(word):
    """Bytes that a state's phase still expects; negative if more came than were announced so far."""
    return ((word >> _BYTES_SHIFT) & (2 * _BYTES_BIAS - 1)) - _BYTES_BIAS


@compiled
def _changed(word, arrivals, dropped, added):
    """The state after arrivals (`dropped` of which never come again) and `added` expected bytes."""
    pending = (word & _COUNT) - arrivals
    expected = ((word >> _EXPECTED_SHIFT) & _COUNT) - dropped
    missing = missing_bytes(word) + added
    phase = phase_of(word)
    if pending == 0 and missing == 0:
        return _pack(expected, expected, np.int64(0), phase ^ 1)
    return _pack(max(pending, np.int64(0)), expected, missing, phase)


@compiled
def usable(m, address, pc, warp, lane):
    """Is there an initialised mbarrier at this address of the block's or a peer's shared memory? A report if not."""
    host = shared_host(m, address, 8)
    if host == 0 or address & 7:
        kind = FAULT_MISALIGNED if address & 7 else FAULT_OUT_OF_BOUNDS
        report(m, kind, pc, warp, lane, address, 8, 1, -1, SPACE_SHARED, 0)
        return False
    if not is_mbarrier(load_i64(host)):
        report(m, FAULT_MBARRIER, pc, warp, lane, address, 8, 0, -1, SPACE_SHARED, 0)
        return False
    return True


@compiled
def change(m, warp, address, arrivals, dropped, added, pc, lane):
    """Arrivals and bytes at an mbarrier that is there; returns its state before."""
    host = shared_host(m, address, 8)
    word = load_i64(host)
    if arrivals > word & _COUNT:
        report(m, FAULT_ARRIVALS, pc, warp, lane, address, 8, 1, -1, SPACE_SHARED, 0)
    store_i64(host, _changed(word, arrivals, dropped, added))
    return word


@compiled
def _initialise(m, warp, address, count, pc, lane):
    host = shared_host(m, address, 8)
    if host == 0 or address & 7:
        usable(m, address, pc, warp, lane)
        return
    check_write(m, warp, address, 8, 8, pc, lane, 0, 0, 0)
    store_i64(host, _pack(count, count, np.int64(0), np.int64(0)))


@compiled
def _ended(m, warp, address, action, row, lane):
    """Has the phase that a test names ended? Then this warp knows what the others did before they arrived."""
    word = load_i64(shared_host(m, address, 8))
    asked = phase_of(load_i64(row + 8 * lane)) if action == MB_TEST else np.int64(load_u32(row + 4 * lane)) & 1
    if phase_of(word) == asked:
        return False
    acquire(m, warp, address)
    return True


@compiled
def _is_own(m, address):
    """Is an address in the block's own shared memory? No block can wait at the mbarrier of another."""
    return address == offset_of(address) or address == mapped(m, get(m, M_RANK), offset_of(address))


@compiled
def operate(m, warp, frame, constants, record, pc, mask):
    """One mbarrier instruction of a warp, lane by lane. Returns False if it is a test that failed for some lane."""
    action, flags = field(record, X0), field(record, X1)
    addresses = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM) - (get(m, M_SHARED_WINDOW) if field(record, X2) else np.int64(0))
    row = operand(frame, constants, record, SRC_B)
    result = operand(frame, constants, record, DST)
    ended = np.uint32(0)
    # The warp's earlier accesses are released before any of its arrivals can end a phase; its clock then advances.
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if action == MB_COUNT:
            store_u32(result + 4 * lane, np.uint32(load_i64(row + 8 * lane) & _COUNT))
            continue
        address = load_i64(addresses + 8 * lane) + offset
        if action == MB_INIT:
            _initialise(m, warp, address, np.int64(load_u32(row + 4 * lane)) & _COUNT, pc, lane)
            continue
        if action in (MB_TEST, MB_TEST_PARITY, MB_INVALIDATE) and not _is_own(m, address):
            report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, address, 8, 0, -1, SPACE_SHARED, 0)
            ended |= np.uint32(1) << np.uint32(lane)
            continue
        if not usable(m, address, pc, warp, lane):
            ended |= np.uint32(1) << np.uint32(lane)  # else the kernel would wait forever
            continue
        check_read(m, warp, address, 8, 8, pc, lane, 0, 1, 0)
        if action == MB_INVALIDATE:
            store_i64(shared_host(m, address, 8), np.int64(0))
        elif action in (MB_TEST, MB_TEST_PARITY):
            if _ended(m, warp, address, action, row, lane):
                ended |= np.uint32(1) << np.uint32(lane)
        else:
            bytes_ = np.int64(0)
            if field(record, SRC_C):
                bytes_ = np.int64(load_u32(operand(frame, constants, record, SRC_C) + 4 * lane))
            arrivals = np.int64(0)
            if action == MB_ARRIVE:
                arrivals = np.int64(load_u32(row + 4 * lane)) & _COUNT
                if not flags & MB_RELAXED:
                    release(m, warp, address, np.uint32(mask), pc, rest == np.uint32(0))
            elif action == MB_COMPLETE:
                bytes_ = -bytes_
            dropped = arrivals if flags & MB_DROPS else np.int64(0)
            before = change(m, warp, address, arrivals, dropped, bytes_, pc, lane)
            if field(record, DST):
                store_i64(result + 8 * lane, before)
    if action in (MB_TEST, MB_TEST_PARITY):
        set_predicate(frame, field(record, DST), mask, ended)
        if get(m, M_TENSOR):
            put(get(m, M_TENSOR), T_RELAXED + warp, flags & MB_RELAXED)
        return ended == mask
    return True
