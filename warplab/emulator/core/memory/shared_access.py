"""Loads and stores of shared memory, of the block or of a peer in its cluster."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.causality import strong_lanes
from warplab.emulator.core.memory.cluster_memory import owner_of, shared_host
from warplab.emulator.core.memory.counting import count_wavefronts
from warplab.emulator.core.memory.pieces import (
    P_ADDRESS,
    P_FIRST,
    P_LANES,
    P_STEP,
    PIECE_BYTES,
    are_alike,
    common_step,
    find_pieces,
    is_side_by_side,
    piece_fits,
    piece_lanes,
    piece_wavefronts,
)
from warplab.emulator.core.memory.same_store import check_store
from warplab.emulator.core.memory.shadow import EXPOSED, STRONG, check_read, check_write, read_by_several
from warplab.emulator.core.memory.transfer import load_one, load_strided, store_strided, zero_lane
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    C_FIELDS,
    C_IDEAL,
    C_REMOTE,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    EXPOSED_BIT,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    IMM,
    M_COUNTS,
    M_SCRATCH,
    M_SHARED,
    M_SHARED_BYTES,
    RANK_SHIFT,
    SHARED_BASE,
    SPACE_SHARED,
    SRC_A,
    STRONG_SHIFT,
    VOLATILE_BIT,
    X1,
    X2,
    X3,
    X7,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    leading_zeros32,
    load_i64,
    operand,
    popcount32,
    trailing_zeros32,
)


@compiled
def _host(m, shared, limit, address, size):
    """What shared_host gives; `shared` and `limit` are the place and the bytes of the block's own shared memory."""
    if address >> RANK_SHIFT:
        return shared_host(m, address, size)
    return shared + address if address >= SHARED_BASE and address + size <= limit else np.int64(0)


@compiled
def _volatile(record):
    """What check_read is told of an access that names an order, or is volatile."""
    flags = field(record, X3)
    if flags & VOLATILE_BIT == 0:
        return np.int64(0)
    return np.int64(EXPOSED if flags & EXPOSED_BIT else STRONG)


@compiled
def _in_pieces(m, warp, frame, constants, record, pc, mask, window, write):
    """An access to the block's own memory in a few pieces; False: it is none, or something is wrong with it."""
    row, pieces = operand(frame, constants, record, SRC_A), get(m, M_SCRATCH)
    offset = field(record, IMM) - window
    total = field(record, X1) * field(record, X2)
    count = find_pieces(pieces, row, offset, mask)
    if count == 0:
        return False
    for number in range(count):
        if not piece_fits(pieces + number * PIECE_BYTES, total, SHARED_BASE, get(m, M_SHARED_BYTES)):
            return False
    wavefronts = piece_wavefronts(pieces, count, total) if total <= 4 else np.int64(-1)
    _count(m, record, row, pc, mask, offset, wavefronts, np.int64(1), write)
    volatile = _volatile(record)
    checked = np.int64(0)  # the first piece that the sanitizer has not been told of
    for number in range(count):
        piece = pieces + number * PIECE_BYTES
        address, step = get(piece, P_ADDRESS), get(piece, P_STEP)
        host = get(m, M_SHARED) + address
        if number == checked:
            twice = not (write or volatile) and number + 1 < count and are_alike(piece, piece + PIECE_BYTES)
            if twice and step == total and read_by_several(m, warp, address, total * get(piece, P_LANES), pc):
                checked += 2
            else:
                _check_piece(m, warp, piece, total, pc, volatile, write)
                checked += 1
        if write:
            store_strided(frame, constants, record, piece_lanes(piece), host, step)
        else:
            load_strided(frame, constants, record, piece_lanes(piece), host, step)
    return True


@compiled
def _check_piece(m, warp, piece, size, pc, volatile, write):
    """Tell the sanitizer of a piece of an access, lane by lane where it is not one stretch of memory."""
    address, first, lanes, step = get(piece, P_ADDRESS), get(piece, P_FIRST), get(piece, P_LANES), get(piece, P_STEP)
    if is_side_by_side(piece, size):
        if write:
            check_write(m, warp, address, size * lanes, size, pc, first, volatile, 0, 0)
        else:
            check_read(m, warp, address, size * lanes, size, pc, first, volatile, 0, 0)
    elif step == 0 and not write:
        if volatile or not read_by_several(m, warp, address, size, pc):
            check_read(m, warp, address, size, size, pc, first, volatile, 0, 1)
    else:
        for lane in range(lanes):
            if write:
                check_write(m, warp, address + lane * step, size, size, pc, first + lane, volatile, 0, 0)
            else:
                check_read(m, warp, address + lane * step, size, size, pc, first + lane, volatile, 0, 0)


@compiled
def _count(m, record, row, pc, mask, offset, wavefronts, ideal, write):
    """Count an access to the block's own memory; `wavefronts` is -1 where they are to be found from the addresses.

    Where the assembler made one access of several, the first one counts for all of them: X7 has the bytes of it there,
    and -1 in the others.
    """
    whole = field(record, X7)
    if whole < 0:
        return
    if whole == 0 and wavefronts < 0:
        whole = field(record, X1) * field(record, X2)
    if whole:
        wavefronts, ideal = count_wavefronts(m, row, offset, whole, mask, write)
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    increase(cell, C_SHARED_REQUESTS, 1)
    increase(cell, C_WAVEFRONTS, wavefronts)
    increase(cell, C_IDEAL, ideal)


@compiled
def shared_access(m, warp, frame, constants, record, pc, mask, window, write):
    """A load or store of shared memory. `window` is what to take off a generic address."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM) - window
    size = field(record, X1)
    total = size * field(record, X2)
    volatile = _volatile(record)
    first = np.int64(trailing_zeros32(mask))
    start = load_i64(row + 8 * first) + offset
    cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
    shared = get(m, M_SHARED)
    limit = get(m, M_SHARED_BYTES)
    step = common_step(row, mask, total)
    if step > 0 or step == 0 and not write:
        last = np.int64(31) - np.int64(leading_zeros32(mask))
        length = total + (last - first) * step
        host = _host(m, shared, limit, start, length)
        if host and start & (total - 1) == 0:
            if start >> RANK_SHIFT == 0 or owner_of(m, start) == m:
                paired = not write and (step == 0 or last - first == 1)  # see counting.py: two lanes, or all alike
                lanes = 256 // total if paired else 128 // total  # served by one wavefront
                groups = last // lanes - first // lanes + 1
                _count(m, record, row, pc, mask, offset, groups, groups, write)
            else:
                increase(cell, C_REMOTE, (total * np.int64(popcount32(mask)) + 127) >> 7)
            if volatile:
                strong_lanes(m, warp, row, offset, mask, field(record, X3) >> STRONG_SHIFT, write)
            if write:
                check_write(m, warp, start, length, total, pc, first, volatile, 0, 0)
                store_strided(frame, constants, record, mask, host, step)
            else:
                several = 0 if step or first == last else 1
                check_read(m, warp, start, length, total, pc, first, volatile, 0, several)
                load_strided(frame, constants, record, mask, host, step)
            return
    if write:
        check_store(m, warp, frame, constants, record, pc, row, offset, mask, SPACE_SHARED)
    if _in_pieces(m, warp, frame, constants, record, pc, mask, window, write):
        return
    good = np.uint32(0)
    own = np.uint32(0)  # lanes that stay in the block: others go through the network between SMs, not through banks
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if _host(m, shared, limit, address, total) == 0 or address & (total - 1):
            kind = FAULT_MISALIGNED if address & (total - 1) else FAULT_OUT_OF_BOUNDS
            report(m, kind, pc, warp, lane, address, total, write, -1, SPACE_SHARED, 0)
            if not write:
                zero_lane(frame, constants, record, lane)
            continue
        good |= np.uint32(1) << np.uint32(lane)
        if address >> RANK_SHIFT == 0 or owner_of(m, address) == m:
            own |= np.uint32(1) << np.uint32(lane)
    # Counted first: a load may overwrite the register that holds the addresses.
    if good & ~own:
        increase(cell, C_REMOTE, (total * np.int64(popcount32(good & ~own)) + 127) >> 7)
    if own:
        _count(m, record, row, pc, own, offset, np.int64(-1), np.int64(-1), write)
    if volatile:
        strong_lanes(m, warp, row, offset, good, field(record, X3) >> STRONG_SHIFT, write)
    rest = good
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        host = _host(m, shared, limit, address, total)
        if write:
            check_write(m, warp, address, total, total, pc, lane, volatile, 0, 0)
            one = np.uint32(1) << np.uint32(lane)
            store_strided(frame, constants, record, one, host, np.int64(0))
        else:
            check_read(m, warp, address, total, total, pc, lane, volatile, 0, 0)
            load_one(frame, constants, record, lane, host)
