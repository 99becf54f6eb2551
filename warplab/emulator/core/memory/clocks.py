"""The vector clocks of a cluster's warps: what each knows of the others, and how it learns.

A warp's clock advances at every barrier and whenever it releases something; a row has, for each warp, up to which of
its clocks is known. `shadow` says what the clocks are for, and what the further parts of a row are.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.causality import learn_from_cluster, meet
from warplab.emulator.core.memory.cluster_memory import offset_of, owner_of
from warplab.emulator.core.memory.handovers import clear_handovers, known_of_all_lanes, note_handover
from warplab.emulator.core.memory.lane_order import all_meet
from warplab.emulator.core.state.faults import compiled, warp_state
from warplab.emulator.core.state.layout import (
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER_WARPS,
    M_FIRST_WARP,
    M_MBARRIER_CLOCKS,
    M_SHARED_SHADOW,
    M_WARP_COUNT,
    M_WARPS,
    MBARRIER_CLOCKS,
    W_MIN_CLOCK,
    WARPGROUP_WARPS,
)
from warplab.emulator.core.state.raw import get, load_i32, put, store_i32, trailing_zeros32


@compiled
def clock_of(clocks, columns, viewer, other):
    """Up to which clock of another warp one knows what that did."""
    return np.int64(load_i32(clocks + 4 * (viewer * columns + other)))


@compiled
def own_clock(m, warp):
    """A warp's own clock."""
    me = get(m, M_FIRST_WARP) + warp
    return np.int64(clock_of(get(m, M_CLOCKS), get(m, M_CLOCK_COLUMNS), me, me))


@compiled
def pass_moment(m, warp):
    """Advance a warp's clock and return what it was: what the warp does from now on comes after that moment."""
    me = get(m, M_FIRST_WARP) + warp
    own = get(m, M_CLOCKS) + 4 * (me * get(m, M_CLOCK_COLUMNS) + me)
    store_i32(own, load_i32(own) + np.int32(1))
    return np.int64(load_i32(own)) - 1


@compiled
def synchronise(m, warps_mask):
    """The warps in the mask meet at a barrier: each learns all the others' clocks, then its own advances."""
    if get(m, M_SHARED_SHADOW) == 0:
        return
    meet(m, warps_mask)
    columns = get(m, M_CLOCK_COLUMNS)
    clocks = get(m, M_CLOCKS) + get(m, M_FIRST_WARP) * columns * 4  # of the block's warps
    states, own_column = get(m, M_WARPS), get(m, M_FIRST_WARP)
    first = np.int64(trailing_zeros32(np.uint32(warps_mask)))
    for other in range(columns):
        newest = np.int32(0)
        rest = np.uint32(warps_mask)
        while rest:
            warp = np.int64(trailing_zeros32(rest))
            rest &= rest - np.uint32(1)
            newest = max(newest, load_i32(clocks + 4 * (warp * columns + other)))
        store_i32(clocks + 4 * (first * columns + other), newest)
    lowest = np.int64(1 << 40)
    for other in range(get(m, M_CLUSTER_WARPS)):
        known = np.int64(load_i32(clocks + 4 * (first * columns + other)))
        lowest = min(lowest, known_of_all_lanes(m, other, known))
    rest = np.uint32(warps_mask)
    while rest:
        warp = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        row = clocks + 4 * warp * columns
        if warp != first:
            for other in range(columns):
                store_i32(row + 4 * other, load_i32(clocks + 4 * (first * columns + other)))
        put(warp_state(states, warp), W_MIN_CLOCK, lowest)
        all_meet(warp_state(states, warp))
    rest = np.uint32(warps_mask)
    while rest:
        warp = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        own = clocks + 4 * (warp * columns + own_column + warp)
        store_i32(own, load_i32(own) + np.int32(1))


@compiled
def release_to(m, warp, kept, last):
    """Add what a warp did and knows to the vector clock at `kept`.

    `last`: the warp's clock advances, as what it does from then on is not part of that.
    """
    if get(m, M_SHARED_SHADOW) == 0:
        return
    columns = get(m, M_CLOCK_COLUMNS)
    mine = get(m, M_CLOCKS) + 4 * (get(m, M_FIRST_WARP) + warp) * columns
    for other in range(columns):
        store_i32(kept + 4 * other, max(load_i32(kept + 4 * other), load_i32(mine + 4 * other)))
    if last:
        pass_moment(m, warp)


@compiled
def acquire_from(m, warp, kept):
    """A warp learns what the vector clock at `kept` has been given by others."""
    all_meet(warp_state(get(m, M_WARPS), warp))
    learn_from_cluster(m, warp)
    warps, columns = get(m, M_CLUSTER_WARPS), get(m, M_CLOCK_COLUMNS)
    if get(m, M_SHARED_SHADOW) == 0 or columns == 1:
        return
    me = get(m, M_FIRST_WARP) + warp
    mine = get(m, M_CLOCKS) + 4 * me * columns
    lowest = np.int64(1 << 40)
    for other in range(columns):
        if other != me:
            newest = max(load_i32(kept + 4 * other), load_i32(mine + 4 * other))
            store_i32(mine + 4 * other, newest)
            if other < warps:
                lowest = min(lowest, known_of_all_lanes(m, other, np.int64(newest)))
    put(warp_state(get(m, M_WARPS), warp), W_MIN_CLOCK, lowest)


@compiled
def mbarrier_clocks(m, address):
    """What arrivals at an mbarrier, of the block or of a peer, have released."""
    place = (offset_of(address) >> 3) & (MBARRIER_CLOCKS - 1)
    return get(owner_of(m, address), M_MBARRIER_CLOCKS) + place * get(m, M_CLOCK_COLUMNS) * 4


@compiled
def release(m, warp, address, lanes, pc, last):
    """Some lanes arrive at an mbarrier: who waits for it learns what they did and know. `last`: see release_to."""
    if get(m, M_SHARED_SHADOW):
        note_handover(m, warp, lanes, pc)
    release_to(m, warp, mbarrier_clocks(m, address), last)


@compiled
def release_at(m, warp, address, clock):
    """An asynchronous operation completes at an mbarrier: release what its warp did until its clock was `clock`."""
    if get(m, M_SHARED_SHADOW) == 0:
        return
    kept = mbarrier_clocks(m, address) + 4 * (get(m, M_FIRST_WARP) + warp)
    before = load_i32(kept)
    release_to(m, warp, mbarrier_clocks(m, address), False)
    store_i32(kept, max(before, np.int32(clock)))


@compiled
def acquire(m, warp, address):
    """A warp has seen a phase of an mbarrier end: it learns what those who arrived had released."""
    acquire_from(m, warp, mbarrier_clocks(m, address))


@compiled
def fence_async(m, warp):
    """fence.proxy.async: what the warp knows to have been written may be read by the async proxy from now on."""
    warps, columns = get(m, M_CLUSTER_WARPS), get(m, M_CLOCK_COLUMNS)
    if get(m, M_SHARED_SHADOW) == 0 or columns == warps:
        return
    row = get(m, M_CLOCKS) + 4 * (get(m, M_FIRST_WARP) + warp) * columns
    for other in range(warps):
        fenced = row + 4 * (warps + other)
        store_i32(fenced, max(load_i32(fenced), load_i32(row + 4 * other)))
    pass_moment(m, warp)


@compiled
def products_known(m, viewer, number):
    """The address of the last product of a warpgroup that a warp knows to have been waited for, by their numbers."""
    warps = get(m, M_WARP_COUNT)
    groups = (warps + WARPGROUP_WARPS - 1) // WARPGROUP_WARPS
    column = 2 * get(m, M_CLUSTER_WARPS) + number // warps * groups + number % warps // WARPGROUP_WARPS
    return get(m, M_CLOCKS) + 4 * (viewer * get(m, M_CLOCK_COLUMNS) + column)


@compiled
def know_product(m, warp, moment):
    """A warp has waited for the products of its warpgroup up to this one."""
    if get(m, M_SHARED_SHADOW):
        me = get(m, M_FIRST_WARP) + warp
        known = products_known(m, me, me)
        store_i32(known, max(load_i32(known), np.int32(moment)))


@compiled
def start_clocks(m):
    """At the start of a block each warp's own clock is 1 and it knows nothing of the others."""
    warps, columns = get(m, M_CLUSTER_WARPS), get(m, M_CLOCK_COLUMNS)
    first = get(m, M_FIRST_WARP)
    clear_handovers(m)
    for place in range(MBARRIER_CLOCKS * columns):
        store_i32(get(m, M_MBARRIER_CLOCKS) + 4 * place, np.int32(0))
    for warp in range(get(m, M_WARP_COUNT)):
        row = get(m, M_CLOCKS) + 4 * (first + warp) * columns
        for other in range(columns):
            store_i32(row + 4 * other, np.int32(1 if first + warp == other else 0))
        alone = np.int64(1 << 40) if warps == 1 else np.int64(0)
        put(warp_state(get(m, M_WARPS), warp), W_MIN_CLOCK, alone)
