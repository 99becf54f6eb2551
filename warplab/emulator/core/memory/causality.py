"""What orders the accesses of different blocks: fences and strong accesses, as PTX's memory model has them.

A fence makes a node: what its warp did and knew at that moment (the clocks of its cluster's warps, and the node of what
it knew of other clusters). A strong write to a place leaves the node of the last fence there, an atomic adds it to what
others left. A strong read takes what lies at its place, and the reader's next fence makes that known to its warp.
Releases and acquires are a fence and an access in one. Only what was really read orders anything: the state of the
place at that moment of the run counts.

Nodes name one or two others that they include. Whether an access is known is asked of a table of clocks, which shows
one node and all that it includes; it is mostly asked of the same one again, or of one that includes it.

Scopes: what is released or acquired for less than the GPU is kept apart and counts within the block or cluster only.
Lanes of a warp are not told apart, and a fence counts for all threads that meet its warp at a barrier: fences of
CUDA C++ and Numba are sequentially consistent ones, for which that is so.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.handovers import known_of_all_lanes
from warplab.emulator.core.state.faults import compiled, warp_state
from warplab.emulator.core.state.layout import (
    ACQUIRE_BIT,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER,
    M_CLUSTER_WARPS,
    M_FIRST_NODE,
    M_FIRST_WARP,
    M_NUMBER,
    M_PEERS,
    M_RACE_WARPS,
    M_RACES,
    M_RANK,
    M_SLOT,
    M_WARPS,
    RANK_SHIFT,
    RELEASE_BIT,
    W_MIN_CLOCK,
)
from warplab.emulator.core.state.races_layout import (
    G_OFF,
    G_ORDER,
    NODE_A,
    NODE_B,
    NODE_CLOCKS,
    NODE_CLUSTER,
    NODE_SCOPE,
    NODE_SHOWN,
    NODE_WALK,
    O_COUNT,
    O_GENERATION,
    O_JOINED,
    O_JOINED_A,
    O_JOINED_B,
    O_LISTED,
    O_LISTED_COUNT,
    O_NODE_BYTES,
    O_NODES,
    O_PLACES,
    O_PLACES_MASK,
    O_PLACES_USED,
    O_ROOM,
    O_SHOWN,
    O_STACK,
    O_STEPS,
    O_TABLE,
    O_WALK,
    PLACE_FIELDS,
    PLACE_KEY,
    PLACE_NEAR,
    PLACE_NEAR_BLOCK,
    PLACE_NEAR_SCOPE,
    PLACE_WIDE,
    S_FIELDS,
    S_KNOWN,
    S_NARROW,
    S_NARROW_FENCE,
    S_NARROW_SCOPE,
    S_PENDING,
    S_PENDING_NEAR,
    S_RELEASE,
    S_SEEN_COUNT,
    SCOPE_BLOCK,
    SCOPE_GPU,
)
from warplab.emulator.core.state.raw import (
    copy_bytes,
    get,
    increase,
    load_i32,
    load_i64,
    put,
    store_i32,
    trailing_zeros32,
)

_SHARED_END = 1 << 32  # of addresses in shared memory
_SLOT_SHIFT = 32  # of the key of such an address: each machine's clusters have their own
_SPINE = 1 << 13  # how far it is looked whether a node has another one in it already: a barrier of all blocks that fit


@compiled
def state_of_warp(m, warp):
    """The address of what the search keeps for a warp of the block."""
    return get(m, M_RACE_WARPS) + (get(m, M_FIRST_WARP) + warp) * (S_FIELDS * 8)


@compiled
def _node(order, number):
    return get(order, O_NODES) + number * get(order, O_NODE_BYTES)


@compiled
def _new_node(races, order, a, b, cluster):
    """The number of a fresh node; the search ends, and it is 0, if there is no room."""
    number = get(order, O_COUNT)
    if number >= get(order, O_ROOM):
        put(races, G_OFF, 1)
        return np.int64(0)
    put(order, O_COUNT, number + 1)
    node = _node(order, number)
    store_i32(node + 4 * NODE_A, np.int32(a))
    store_i32(node + 4 * NODE_B, np.int32(b))
    store_i32(node + 4 * NODE_CLUSTER, np.int32(cluster))
    return number


@compiled
def _has(order, node, part):
    """Does a node include another one near its top? No if it is not seen at once."""
    for _ in range(_SPINE):
        if node == part:
            return True
        if node < part:
            return False
        at = _node(order, node)
        if np.int64(load_i32(at + 4 * NODE_B)) == part:
            return True
        node = np.int64(load_i32(at + 4 * NODE_A))
    return False


@compiled
def _join(races, order, a, b):
    """A node that includes two others; 0 is nothing."""
    if b == 0 or a == b:
        return a
    if a == 0 or _has(order, b, a):
        return b
    if _has(order, a, b):
        return a
    # Blocks that meet at a barrier of the grid join the same two, one after the other.
    if get(order, O_JOINED_A) != a or get(order, O_JOINED_B) != b:
        put(order, O_JOINED, _new_node(races, order, a, b, -1))
        put(order, O_JOINED_A, a)
        put(order, O_JOINED_B, b)
    return get(order, O_JOINED)


@compiled
def _release(m, races, order, warp, scope):
    """A node for all that a warp did and knows at this moment."""
    state = state_of_warp(m, warp)
    number = _new_node(races, order, get(state, S_KNOWN), np.int64(0), get(m, M_NUMBER))
    if number == 0:
        return number
    node = _node(order, number)
    store_i32(node + 4 * NODE_SCOPE, np.int32(scope))
    row = get(m, M_CLOCKS) + 4 * (get(m, M_FIRST_WARP) + warp) * get(m, M_CLOCK_COLUMNS)
    for other in range(get(m, M_CLUSTER_WARPS)):
        store_i32(node + 4 * (NODE_CLOCKS + other), load_i32(row + 4 * other))
    return number


@compiled
def _pass_moment(m, warp):
    """Advance the warp's clock: what it does from now on is not part of what it released."""
    me = get(m, M_FIRST_WARP) + warp
    own = get(m, M_CLOCKS) + 4 * (me * get(m, M_CLOCK_COLUMNS) + me)
    store_i32(own, load_i32(own) + np.int32(1))


@compiled
def _learn_nearby(m, races, order, warp, start):
    """A warp learns what releases of its own cluster that a node includes have said of the cluster's warps.

    It has learned so already from what it knows.
    """
    first, cluster = get(get(m, M_PEERS), M_FIRST_NODE), get(m, M_NUMBER)
    if start < first:
        return
    me, warps, columns = get(m, M_FIRST_WARP) + warp, get(m, M_CLUSTER_WARPS), get(m, M_CLOCK_COLUMNS)
    known = get(state_of_warp(m, warp), S_KNOWN)
    row = get(m, M_CLOCKS) + 4 * me * columns
    mark = np.int32(get(order, O_WALK) + 1)
    put(order, O_WALK, np.int64(mark))
    stack = get(order, O_STACK)
    store_i32(stack, np.int32(start))
    waiting = 1
    while waiting:
        waiting -= 1
        number = np.int64(load_i32(stack + 4 * waiting))
        node = _node(order, number)
        if number < first or number == known or load_i32(node + 4 * NODE_WALK) == mark:
            continue
        store_i32(node + 4 * NODE_WALK, mark)
        if np.int64(load_i32(node + 4 * NODE_CLUSTER)) != cluster:
            # Two others joined, or a release of a cluster that runs beside this one and knew of it.
            increase(order, O_STEPS, -1)
            store_i32(stack + 4 * waiting, load_i32(node + 4 * NODE_A))
            store_i32(stack + 4 * (waiting + 1), load_i32(node + 4 * NODE_B))
            waiting += 2
            continue
        # A release of the cluster's own knows all that those before it knew.
        for other in range(warps):
            if other != me:
                known = load_i32(row + 4 * other)
                store_i32(row + 4 * other, max(known, load_i32(node + 4 * (NODE_CLOCKS + other))))
    if get(order, O_STEPS) < 0:
        put(races, G_OFF, 1)
    lowest = np.int64(1 << 40)
    for other in range(warps):
        if other != me:
            lowest = min(lowest, known_of_all_lanes(m, other, np.int64(load_i32(row + 4 * other))))
    put(warp_state(get(m, M_WARPS), warp), W_MIN_CLOCK, lowest)


@compiled
def _acquire(m, races, order, warp, scope):
    """What strong reads of a warp have seen is known to it, as far as the scope of its fence goes."""
    state = state_of_warp(m, warp)
    pending, near, known = get(state, S_PENDING), get(state, S_PENDING_NEAR), get(state, S_KNOWN)
    if pending and _has(order, known, pending):
        pending = np.int64(0)  # as of each but the first look at a flag
        put(state, S_PENDING, 0)
    if scope > SCOPE_BLOCK or get(m, M_CLUSTER) == 1:
        if near:
            _learn_nearby(m, races, order, warp, near)
            put(state, S_PENDING_NEAR, 0)
        if pending:
            _learn_nearby(m, races, order, warp, pending)
    if pending and scope == SCOPE_GPU:
        put(state, S_KNOWN, _join(races, order, known, pending))
        put(state, S_PENDING, 0)
        put(state, S_NARROW_FENCE, 0)
    elif pending:
        put(state, S_NARROW_FENCE, 1)


@compiled
def fence_memory(m, warp, scope):
    """A fence of a warp, of a scope: what it read strongly is known, what it did may be released."""
    races = get(m, M_RACES)
    if races == 0 or get(races, G_ORDER) == 0 or get(races, G_OFF):
        return
    order = get(races, G_ORDER)
    _acquire(m, races, order, warp, scope)
    number = _release(m, races, order, warp, scope)
    state = state_of_warp(m, warp)
    put(state, S_NARROW, number)
    put(state, S_NARROW_SCOPE, scope)
    if scope == SCOPE_GPU:
        put(state, S_RELEASE, number)
    _pass_moment(m, warp)


@compiled
def _place_of(m, races, order, address, make):
    """The entry of an address among the places that were released; 0: there is none."""
    if 0 <= address < _SHARED_END and address >> RANK_SHIFT == 0:
        address |= (get(m, M_RANK) + 1) << RANK_SHIFT
    shared = 0 <= address < _SHARED_END
    key = address + 1 + (get(m, M_SLOT) << _SLOT_SHIFT if shared else 0)
    mask = get(order, O_PLACES_MASK)
    slot = (key * np.int64(0x9E3779B97F4A7C1) >> 20) & mask
    while True:
        place = get(order, O_PLACES) + slot * (PLACE_FIELDS * 8)
        found = get(place, PLACE_KEY)
        if found == key:
            if shared and get(place, PLACE_WIDE) < get(get(m, M_PEERS), M_FIRST_NODE):
                put(place, PLACE_WIDE, 0)  # the shared memory of blocks that have ended
            return place
        if found == 0:
            break
        slot = (slot + 1) & mask
    if not make:
        return np.int64(0)
    if 2 * get(order, O_PLACES_USED) > mask:
        put(races, G_OFF, 1)
        return np.int64(0)
    increase(order, O_PLACES_USED, 1)
    put(place, PLACE_KEY, key)
    return place


@compiled
def strong_write(m, warp, address, strength, atomic):
    """A strong write of a warp, after it was made; an atomic leaves what others released there."""
    races = get(m, M_RACES)
    if races == 0 or get(races, G_ORDER) == 0 or get(races, G_OFF):
        return
    order, state = get(races, G_ORDER), state_of_warp(m, warp)
    scope = strength & 3
    wide, near, near_scope = get(state, S_RELEASE), get(state, S_NARROW), get(state, S_NARROW_SCOPE)
    if strength & RELEASE_BIT:
        near, near_scope = _release(m, races, order, warp, scope), scope
        wide = near if scope == SCOPE_GPU else np.int64(0)
        _pass_moment(m, warp)
    if scope < SCOPE_GPU:
        wide = np.int64(0)
        near_scope = min(near_scope, scope)
    if near == wide:
        near = np.int64(0)
    place = _place_of(m, races, order, address, wide != 0 or near != 0)
    if place == 0:
        return
    block = get(m, M_NUMBER) * 16 + get(m, M_RANK)
    put(place, PLACE_WIDE, _join(races, order, get(place, PLACE_WIDE), wide) if atomic else wide)
    if near and atomic and get(place, PLACE_NEAR_BLOCK) == block:
        put(place, PLACE_NEAR, _join(races, order, get(place, PLACE_NEAR), near))
        put(place, PLACE_NEAR_SCOPE, near_scope)
    elif near or not atomic:
        put(place, PLACE_NEAR, near)
        put(place, PLACE_NEAR_SCOPE, near_scope)
        put(place, PLACE_NEAR_BLOCK, block)


@compiled
def strong_read(m, warp, address, strength):
    """A strong read of a warp: it has seen what was released at the place."""
    races = get(m, M_RACES)
    if races == 0 or get(races, G_ORDER) == 0 or get(races, G_OFF):
        return
    order = get(races, G_ORDER)
    place = _place_of(m, races, order, address, False)
    if place == 0:
        return
    state, scope = state_of_warp(m, warp), strength & 3
    block = get(m, M_NUMBER) * 16 + get(m, M_RANK)
    wide, near, other = get(place, PLACE_WIDE), get(place, PLACE_NEAR), get(place, PLACE_NEAR_BLOCK)
    if wide and scope == SCOPE_GPU:
        put(state, S_PENDING, _join(races, order, get(state, S_PENDING), wide))
    elif wide:
        put(state, S_PENDING_NEAR, _join(races, order, get(state, S_PENDING_NEAR), wide))
    reach = min(scope, get(place, PLACE_NEAR_SCOPE))
    if near and (other == block or (other >> 4 == block >> 4 and reach > SCOPE_BLOCK)):
        put(state, S_PENDING_NEAR, _join(races, order, get(state, S_PENDING_NEAR), near))
    if strength & ACQUIRE_BIT:
        _acquire(m, races, order, warp, scope)


@compiled
def strong_lanes(m, warp, row, offset, mask, strength, write):
    """The strong accesses of some lanes, to global or shared addresses in a row."""
    races = get(m, M_RACES)
    if races == 0 or get(races, G_ORDER) == 0:
        return
    previous = np.int64(-1)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if address != previous and write:
            strong_write(m, warp, address, strength, False)
        elif address != previous:
            strong_read(m, warp, address, strength)
        previous = address


@compiled
def meet(m, warps_mask):
    """Warps of the block have met at a barrier: they share what they know, have seen and may release."""
    races = get(m, M_RACES)
    if races == 0 or get(races, G_ORDER) == 0 or get(races, G_OFF):
        return
    order = get(races, G_ORDER)
    same = True  # the last fence of each was for the GPU
    rest = np.uint32(warps_mask)
    while rest:
        state = state_of_warp(m, np.int64(trailing_zeros32(rest)))
        rest &= rest - np.uint32(1)
        same = same and get(state, S_NARROW) == get(state, S_RELEASE)
    for field in (S_KNOWN, S_PENDING, S_PENDING_NEAR, S_RELEASE, S_NARROW, S_NARROW_SCOPE):
        joined = np.int64(0)
        rest = np.uint32(warps_mask)
        while rest:
            warp = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            state = state_of_warp(m, warp)
            own = get(state, S_RELEASE if same and field == S_NARROW else field)
            joined = max(joined, own) if field == S_NARROW_SCOPE else _join(races, order, joined, own)
        rest = np.uint32(warps_mask)
        while rest:
            warp = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            put(state_of_warp(m, warp), field, joined)
    _share_seen(m, races, warps_mask)


@compiled
def _share_seen(m, races, warps_mask):
    """What one warp has seen of others' strong writes is what those saw that have seen none themselves."""
    source = np.int64(0)
    for spread in range(2):
        rest = np.uint32(warps_mask)
        while rest:
            state = state_of_warp(m, np.int64(trailing_zeros32(rest)))
            rest &= rest - np.uint32(1)
            if get(state, S_SEEN_COUNT) and spread == 0:
                source = state
            elif spread and source and get(state, S_SEEN_COUNT) == 0:
                copy_bytes(state + 8 * S_SEEN_COUNT, source + 8 * S_SEEN_COUNT, np.int64(8 * (S_FIELDS - S_SEEN_COUNT)))


@compiled
def learn_from_cluster(m, warp):
    """A warp has waited for others of its cluster: it knows what any of them knows of other clusters."""
    races = get(m, M_RACES)
    if races == 0 or get(races, G_ORDER) == 0 or get(races, G_OFF):
        return
    order, mine = get(races, G_ORDER), state_of_warp(m, warp)
    for field in (S_KNOWN, S_PENDING, S_RELEASE):
        joined = get(mine, field)
        for other in range(get(m, M_CLUSTER_WARPS)):
            joined = _join(races, order, joined, get(get(m, M_RACE_WARPS) + other * (S_FIELDS * 8), field))
        put(mine, field, joined)


@compiled
def _clear_table(m, order):
    """Take out of the table what it shows."""
    warps = get(m, M_CLUSTER_WARPS)
    for place in range(get(order, O_LISTED_COUNT)):
        node = _node(order, np.int64(load_i32(get(order, O_LISTED) + 4 * place)))
        row = get(order, O_TABLE) + 4 * warps * np.int64(load_i32(node + 4 * NODE_CLUSTER))
        for other in range(warps):
            store_i32(row + 4 * other, np.int32(0))
    increase(order, O_STEPS, -get(order, O_LISTED_COUNT))
    put(order, O_LISTED_COUNT, 0)
    put(order, O_SHOWN, 0)
    increase(order, O_GENERATION, 1)


@compiled
def _add_to_table(m, races, order, start):
    """Add a node and what it includes to the table. Did that include the node that the table showed?"""
    warps = get(m, M_CLUSTER_WARPS)
    shown, mark = get(order, O_SHOWN), np.int32(get(order, O_GENERATION))
    stack, listed = get(order, O_STACK), get(order, O_LISTED)
    met = shown == 0
    steps = np.int64(0)
    store_i32(stack, np.int32(start))
    waiting = np.int64(1)
    while waiting:
        waiting -= 1
        number = np.int64(load_i32(stack + 4 * waiting))
        met = met or number == shown
        node = _node(order, number)
        if number == 0 or load_i32(node + 4 * NODE_SHOWN) == mark:
            continue
        store_i32(node + 4 * NODE_SHOWN, mark)
        steps += 1
        cluster = np.int64(load_i32(node + 4 * NODE_CLUSTER))
        if cluster >= 0:
            row = get(order, O_TABLE) + 4 * warps * cluster
            for other in range(warps):
                clock = load_i32(node + 4 * (NODE_CLOCKS + other))
                store_i32(row + 4 * other, max(load_i32(row + 4 * other), clock))
            store_i32(listed + 4 * get(order, O_LISTED_COUNT), np.int32(number))
            increase(order, O_LISTED_COUNT, 1)
        store_i32(stack + 4 * waiting, load_i32(node + 4 * NODE_A))
        store_i32(stack + 4 * (waiting + 1), load_i32(node + 4 * NODE_B))
        waiting += 2
    put(order, O_SHOWN, start)
    increase(order, O_STEPS, -steps)
    if get(order, O_STEPS) < 0:
        put(races, G_OFF, 1)
    return met


@compiled
def _clock_in(m, races, order, node, cluster, warp):
    """The latest clock of a warp of another cluster that a node includes; 0: none."""
    if node == 0:
        return np.int64(0)
    if get(order, O_SHOWN) != node and not _add_to_table(m, races, order, node):
        _clear_table(m, order)
        _add_to_table(m, races, order, node)
    return np.int64(load_i32(get(order, O_TABLE) + 4 * (get(m, M_CLUSTER_WARPS) * cluster + warp)))


@compiled
def knows(m, races, warp, cluster, other, clock):
    """Does a warp know of what a warp of another cluster did until its clock was `clock`?"""
    order = get(races, G_ORDER)
    if order == 0:
        return False
    return _clock_in(m, races, order, get(state_of_warp(m, warp), S_KNOWN), cluster, other) >= clock


@compiled
def includes(m, races, node, cluster, other, clock):
    """Does a node include what a warp of another cluster did until its clock was `clock`?"""
    order = get(races, G_ORDER)
    return order != 0 and _clock_in(m, races, order, node, cluster, other) >= clock


@compiled
def has_seen(m, warp, other, clock):
    """Would a warp know of what one of its cluster did until its clock was `clock`, had it a fence just before?"""
    races = get(m, M_RACES)
    if races == 0:
        return False
    state, cluster = state_of_warp(m, warp), get(m, M_NUMBER)
    far = includes(m, races, get(state, S_PENDING), cluster, other, clock)
    return far or includes(m, races, get(state, S_PENDING_NEAR), cluster, other, clock)


@compiled
def start_order(m, races):
    """At the start of a cluster its warps know nothing of others."""
    order = get(races, G_ORDER)
    if order:
        put(m, M_FIRST_NODE, get(order, O_COUNT))
