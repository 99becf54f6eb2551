"""Whether an access to global memory races with an earlier one, why, and the report of it.

An access is known by its segment: a stretch of a warp's time in which neither its clock nor its epoch advances.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.causality import has_seen, includes, knows, state_of_warp
from warplab.emulator.core.memory.clocks import own_clock
from warplab.emulator.core.memory.lane_order import have_met
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    EXPOSED_BIT,
    F_FIELDS,
    F_OTHER_BLOCK,
    F_OTHER_THREAD,
    FAULT_GLOBAL_RACE,
    FAULT_NOT_CONSTANT,
    FAULT_SAME_VALUE,
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER_WARPS,
    M_CODE,
    M_FINDING_COUNT,
    M_FINDINGS,
    M_FIRST_WARP,
    M_GRID_X,
    M_GRID_Y,
    M_NUMBER,
    M_PEERS,
    M_RANK,
    M_WARP_COUNT,
    M_WARPS,
    OP_LOAD,
    OP_STORE,
    OTHER_BLOCK,
    R_CELL_FIRST,
    R_CELL_SHIFT,
    R_START,
    SAME_WARP,
    SPACE_GLOBAL,
    W_EPOCH,
    W_PARTLY,
    W_WHOLE,
    X3,
)
from warplab.emulator.core.state.races_layout import (
    ACCESS_SHIFT,
    BOTH_VOLATILE,
    G_ACCESSES,
    G_BASE,
    G_FIRST,
    G_LIVE,
    G_NEXT,
    G_ORDER,
    G_RECORDS,
    G_ROOM,
    G_TOGETHER,
    LANE_SHIFT,
    NEVER,
    REASON_NONE,
    REASON_READER_FENCE,
    REASON_SCOPE,
    REASON_SHIFT,
    REASON_WRITER_BARRIER,
    REASON_WRITER_FENCE,
    RECORD_BLOCK,
    RECORD_CLOCK,
    RECORD_CLUSTER,
    RECORD_EPOCH,
    RECORD_NARROW,
    RECORD_RELEASE,
    RECORD_SIZE,
    RECORD_WARP,
    S_CLOCK,
    S_EPOCH,
    S_NARROW,
    S_NARROW_FENCE,
    S_PENDING,
    S_PENDING_NEAR,
    S_RELEASE,
    S_SAW,
    S_SEEN,
    S_SEEN_COUNT,
    S_SEGMENT,
    SAW,
    SCOPE,
    SCOPE_BLOCK,
    SCOPE_CLUSTER,
    SCOPE_GPU,
    SEEN,
    SEGMENT_SHIFT,
    SEVERAL,
    STRONG_BEFORE,
    STRONG_NOW,
    TOGETHER,
    TOUCHED,
    WARP_SHIFT,
)
from warplab.emulator.core.state.raw import field, get, load_i32, put, store_i32


@compiled
def block_number(m):
    return get(m, M_BLOCK_X) + get(m, M_GRID_X) * (get(m, M_BLOCK_Y) + get(m, M_GRID_Y) * get(m, M_BLOCK_Z))


@compiled
def record_of(races, segment):
    return get(races, G_RECORDS) + (segment - get(races, G_BASE)) * RECORD_SIZE


@compiled
def pc_of(races, entry):
    """The instruction of an access."""
    return np.int64(load_i32(get(races, G_ACCESSES) - 4 * (1 + ((entry & 0xFFFFFFFF) >> ACCESS_SHIFT))))


@compiled
def is_own(m, races, segment):
    """Is a segment, G_BASE or later, of the cluster that has its turn?"""
    if segment >= get(races, G_FIRST):
        return True
    return np.int64(load_i32(record_of(races, segment) + 4 * RECORD_CLUSTER)) == get(m, M_NUMBER)


@compiled
def segment_of(m, races, warp):
    """The segment that a warp is in; it gets a new one if its clock or its epoch has advanced."""
    state = state_of_warp(m, warp)
    epoch, clock = get(warp_state(get(m, M_WARPS), warp), W_EPOCH), own_clock(m, warp)
    segment = get(state, S_SEGMENT)
    if segment >= get(races, G_BASE) and get(state, S_EPOCH) == epoch and get(state, S_CLOCK) == clock:
        return segment
    segment = get(races, G_NEXT)
    if segment - get(races, G_BASE) >= get(races, G_ROOM):
        put(races, G_BASE, segment)
        if get(races, G_FIRST) != NEVER:
            put(races, G_FIRST, segment)
    put(races, G_NEXT, segment + 1)
    put(state, S_SEGMENT, segment)
    put(state, S_EPOCH, epoch)
    put(state, S_CLOCK, clock)
    record = record_of(races, segment)
    store_i32(record + 4 * RECORD_BLOCK, np.int32(block_number(m)))
    store_i32(record + 4 * RECORD_CLUSTER, np.int32(get(m, M_NUMBER)))
    store_i32(record + 4 * RECORD_WARP, np.int32(get(m, M_FIRST_WARP) + warp))
    store_i32(record + 4 * RECORD_CLOCK, np.int32(clock))
    store_i32(record + 4 * RECORD_EPOCH, np.int32(epoch))
    store_i32(record + 4 * RECORD_RELEASE, np.int32(get(state, S_RELEASE)))
    store_i32(record + 4 * RECORD_NARROW, np.int32(get(state, S_NARROW)))
    return segment


@compiled
def is_ordered(m, races, warp, record, segment):
    """Does the warp know of all that was done in another warp's segment?"""
    other, clock = np.int64(load_i32(record + 4 * RECORD_WARP)), np.int64(load_i32(record + 4 * RECORD_CLOCK))
    if is_own(m, races, segment):
        row = get(m, M_CLOCKS) + 4 * (get(m, M_FIRST_WARP) + warp) * get(m, M_CLOCK_COLUMNS)
        return clock <= np.int64(load_i32(row + 4 * other))
    return knows(m, races, warp, np.int64(load_i32(record + 4 * RECORD_CLUSTER)), other, clock)


@compiled
def _was_seen(m, races, warp, record, pending):
    """Would the warp know of what was done in a segment, had it a fence just before? `pending`: of which reads."""
    seen = get(state_of_warp(m, warp), pending)
    cluster, other = np.int64(load_i32(record + 4 * RECORD_CLUSTER)), np.int64(load_i32(record + 4 * RECORD_WARP))
    return includes(m, races, seen, cluster, other, np.int64(load_i32(record + 4 * RECORD_CLOCK)))


@compiled
def _was_seen_nearby(m, warp, record):
    """The same for a segment of the warp's own cluster, which a smaller scope may reach."""
    other, clock = np.int64(load_i32(record + 4 * RECORD_WARP)), np.int64(load_i32(record + 4 * RECORD_CLOCK))
    return has_seen(m, warp, other, clock)


@compiled
def _is_load(m, races, entry):
    return np.int64(load_i32(get(m, M_CODE) + pc_of(races, entry) * 64)) == OP_LOAD


@compiled
def is_exposed(m, races, entry):
    """Is an access volatile and in need of an order of other origin? See passes/exposed.py."""
    if entry & SCOPE == 0:
        return False
    record = get(m, M_CODE) + pc_of(races, entry) * 64
    op = np.int64(load_i32(record))
    return op in (OP_LOAD, OP_STORE) and field(record, X3) & EXPOSED_BIT != 0


@compiled
def _have_met(m, warp, record, old, mine, wrote):
    """Have the lanes of two accesses of a warp waited for each other between the two?"""
    epoch, state = np.int64(load_i32(record + 4 * RECORD_EPOCH)), warp_state(get(m, M_WARPS), warp)
    if epoch == get(state, W_EPOCH):
        return False
    if (old | mine) & SEVERAL:  # of which it is not known which they are
        return not wrote or epoch < get(state, W_WHOLE) or get(state, W_PARTLY) != 0
    return have_met(state, epoch, (old >> LANE_SHIFT) & 31, (mine >> LANE_SHIFT) & 31, wrote)


@compiled
def _strength(m, races, old, mine):
    """The scope within which two accesses may come without an order, 0: none; volatile alone is not enough."""
    scope = min(old & SCOPE, mine & SCOPE)
    if scope and is_exposed(m, races, old) and is_exposed(m, races, mine):
        return np.int64(0)
    return scope


@compiled
def _conflict(m, races, warp, old, mine, other_writes):
    """Does an access race with an earlier one? -1, or what its F_EXTRA says of the two threads."""
    segment = old >> SEGMENT_SHIFT
    if segment < get(races, G_BASE) or old & mine & TOUCHED == 0:
        return np.int64(-1)
    strong = _strength(m, races, old, mine)
    record = record_of(races, segment)
    if not is_own(m, races, segment):
        if get(races, G_LIVE) == 0 or strong == SCOPE_GPU or is_ordered(m, races, warp, record, segment):
            return np.int64(-1)
        # A strong access keeps its place behind the strong reads before it: it needs no fence of its own.
        if mine & SCOPE and _was_seen(m, races, warp, record, S_PENDING):
            return np.int64(-1)
        return np.int64(OTHER_BLOCK)
    other = np.int64(load_i32(record + 4 * RECORD_WARP))
    if other == get(m, M_FIRST_WARP) + warp:
        same_lane = (old ^ mine) & (31 << LANE_SHIFT) == 0 and (old | mine) & SEVERAL == 0
        same_access = ((old ^ mine) & 0xFFFFFFFF) >> ACCESS_SHIFT == 0
        if strong or same_lane or same_access or _have_met(m, warp, record, old, mine, other_writes != 0):
            return np.int64(-1)
        return np.int64(SAME_WARP)
    near = other // get(m, M_WARP_COUNT) == get(m, M_RANK)
    if strong >= (SCOPE_BLOCK if near else SCOPE_CLUSTER) or is_ordered(m, races, warp, record, segment):
        return np.int64(-1)
    if mine & SCOPE and _is_load(m, races, mine) and _was_seen_nearby(m, warp, record):
        return np.int64(-1)
    return np.int64(0 if near else OTHER_BLOCK)


@compiled
def _reason(m, races, warp, old):
    """Why an access of another cluster is not ordered, though a strong write that followed it was read."""
    segment = old >> SEGMENT_SHIFT
    record = record_of(races, segment)
    if is_own(m, races, segment):
        return np.int64(REASON_READER_FENCE if _was_seen_nearby(m, warp, record) else REASON_NONE)
    block, cluster = load_i32(record + 4 * RECORD_BLOCK), np.int64(load_i32(record + 4 * RECORD_CLUSTER))
    other, clock = np.int64(load_i32(record + 4 * RECORD_WARP)), np.int64(load_i32(record + 4 * RECORD_CLOCK))
    state = state_of_warp(m, warp)
    if _was_seen(m, races, warp, record, S_PENDING_NEAR):
        return np.int64(REASON_SCOPE)
    if _was_seen(m, races, warp, record, S_PENDING):
        return np.int64(REASON_SCOPE if get(state, S_NARROW_FENCE) else REASON_READER_FENCE)
    count = min(get(state, S_SEEN_COUNT), SEEN)
    together = get(races, G_FIRST) == NEVER
    for place in range(count):
        seen = get(state, S_SEEN + place)
        flag = record_of(races, seen >> 2)
        # Of blocks that run side by side a flag may be older than the access: it told of what came before.
        oldest = segment if together else get(races, G_BASE)
        if seen >> 2 >= oldest and load_i32(flag + 4 * RECORD_BLOCK) == block:
            return _reason_of_flag(m, races, flag, seen & SCOPE, cluster, other, clock)
    if get(races, G_ORDER) == 0 or count == 0 or together:
        return np.int64(REASON_NONE)
    # An atomic that it read goes back to those of other blocks: is anything of that cluster known by it?
    known = False
    for mate in range(get(m, M_CLUSTER_WARPS)):
        known = known or knows(m, races, warp, cluster, mate, np.int64(1))
    if known:
        beside = knows(m, races, warp, cluster, other, np.int64(1))
        return np.int64(REASON_WRITER_FENCE if beside else REASON_WRITER_BARRIER)
    seen = get(state, S_SEEN + (get(state, S_SEEN_COUNT) - 1) % SEEN)
    flag = record_of(races, seen >> 2)
    if seen >> 2 < get(races, G_BASE) or load_i32(flag + 4 * RECORD_RELEASE):
        return np.int64(REASON_NONE)
    return np.int64(REASON_SCOPE if load_i32(flag + 4 * RECORD_NARROW) else REASON_WRITER_FENCE)


@compiled
def _reason_of_flag(m, races, flag, scope, cluster, other, clock):
    """What a strong write that was read lacks to release what another warp of its block did."""
    wide, narrow = np.int64(load_i32(flag + 4 * RECORD_RELEASE)), np.int64(load_i32(flag + 4 * RECORD_NARROW))
    if scope != SCOPE_GPU or includes(m, races, wide, cluster, other, clock):
        return np.int64(REASON_SCOPE)
    if narrow != wide and includes(m, races, narrow, cluster, other, clock):
        return np.int64(REASON_SCOPE)
    same_warp = np.int64(load_i32(flag + 4 * RECORD_WARP)) == other
    return np.int64(REASON_WRITER_FENCE if same_warp or narrow == 0 else REASON_WRITER_BARRIER)


@compiled
def _report(m, races, entry, pc, warp, lane, cell, write, old, other_writes, extra, kind):
    """Report a race with an earlier access; its thread and block beside."""
    shift = get(entry, R_CELL_SHIFT)
    address = get(entry, R_START) + (cell << shift)
    record = record_of(races, old >> SEGMENT_SHIFT)
    other = pc_of(races, old)
    home = get(m, M_PEERS)
    count = get(home, M_FINDING_COUNT)
    report(m, kind, pc, warp, lane, address, np.int64(1) << shift, write, other, SPACE_GLOBAL, extra | other_writes)
    if get(home, M_FINDING_COUNT) > count:
        new = get(m, M_FINDINGS) + count * F_FIELDS * 8
        put(new, F_OTHER_BLOCK, np.int64(load_i32(record + 4 * RECORD_BLOCK)))
        put(new, F_OTHER_THREAD, ((old >> WARP_SHIFT) & 31) * 32 + ((old >> LANE_SHIFT) & 31))


@compiled
def _explain(m, races, warp, old, mine, write, extra):
    """F_EXTRA with the reason, which of the two accesses are strong, and whether the blocks were there together."""
    volatile = min(old & SCOPE, mine & SCOPE) != 0 and _strength(m, races, old, mine) == 0
    if extra & OTHER_BLOCK:
        extra |= TOGETHER if get(races, G_TOGETHER) else 0
        reason = np.int64(REASON_NONE)
        if old & SCOPE and mine & SCOPE and not volatile:
            reason = np.int64(REASON_SCOPE)
        elif volatile or not (write and mine & SCOPE):
            reason = _reason(m, races, warp, old)
        extra |= reason << REASON_SHIFT
    elif extra & SAME_WARP == 0 and not (write and mine & SCOPE):
        extra |= _reason(m, races, warp, old) << REASON_SHIFT
    if volatile:
        return extra | BOTH_VOLATILE
    return extra | (STRONG_NOW if mine & SCOPE else 0) | (STRONG_BEFORE if old & SCOPE else 0)


@compiled
def check_access(m, races, entry, warp, pc, lane, cell, mine, write, old, other_writes, same):
    """Report a race with an earlier access, if it is one. `same`: both write the same, if the earlier one writes."""
    extra = _conflict(m, races, warp, old, mine, other_writes)
    if extra < 0:
        return False
    both_strong = old & SCOPE != 0 and mine & SCOPE != 0
    if both_strong and other_writes and _strength(m, races, old, mine) == 0:
        index = get(entry, R_CELL_FIRST) + cell
        saw = state_of_warp(m, warp) + 8 * (S_SAW + 2 * (index % SAW))
        # It changes nothing, or the warp knows of it: what comes then is a later one.
        if same or (get(saw, 0) == index + 1 and get(saw, 1) == old >> SEGMENT_SHIFT):
            return False
    kind = FAULT_SAME_VALUE if same and other_writes and (old | mine) & SCOPE == 0 else FAULT_GLOBAL_RACE
    extra = _explain(m, races, warp, old, mine, write, extra)
    _report(m, races, entry, pc, warp, lane, cell, write, old, other_writes, extra, kind)
    return True


@compiled
def check_constant(m, races, entry, warp, pc, lane, cell, mine, old):
    """Report a load of what no thread may write during the launch if this earlier write did; was it so?"""
    if old >> SEGMENT_SHIFT < get(races, G_BASE) or old & mine & TOUCHED == 0:
        return False
    _report(m, races, entry, pc, warp, lane, cell, 0, old, 1, np.int64(0), FAULT_NOT_CONSTANT)
    return True
