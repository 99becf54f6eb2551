"""Divergence: a warp as a tree of splits.

A split is a group of lanes with one pc. When a branch divides the running split, it becomes an inner node that waits
where the two sides meet (its children end there), so nested and unequal control flow reconverges as early as it
can. Any leaf that is ready may run, which lets threads that diverged wait for each other at a warp-level barrier.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    FAULT_SPLITS,
    M_STOP,
    MAX_SPLITS,
    S_FIELDS,
    S_MASK,
    S_ORDER,
    S_PARENT,
    S_PC,
    S_PENDING,
    S_RPC,
    S_STATE,
    S_WAIT,
    SPLIT_READY,
    SPLIT_WAITS_FOR_CHILDREN,
    W_CURRENT,
    W_LIVE,
    W_SPLITS,
    W_USED,
)
from warplab.emulator.core.state.random_order import is_random, random_below
from warplab.emulator.core.state.raw import (
    get,
    increase,
    put,
    trailing_zeros64,
)


@compiled
def split_state(warp_address, split):
    """The address of a split's state."""
    return warp_address + (W_SPLITS + split * S_FIELDS) * 8


@compiled
def start_splits(warp_address, lanes):
    """One split with all lanes at the kernel's first instruction."""
    put(warp_address, W_USED, 1)
    put(warp_address, W_CURRENT, 0)
    root = split_state(warp_address, 0)
    put(root, S_PC, 0)
    put(root, S_MASK, lanes)
    put(root, S_RPC, -1)
    put(root, S_PARENT, -1)
    put(root, S_PENDING, 0)
    put(root, S_STATE, SPLIT_READY)
    put(root, S_WAIT, 0)
    put(root, S_ORDER, 0)


@compiled
def _new_split(m, warp_address, pc, mask, rpc, parent, order):
    used = np.uint64(get(warp_address, W_USED))
    split = np.int64(trailing_zeros64(~used))
    if split >= MAX_SPLITS:
        report(m, FAULT_SPLITS, pc, 0, 0, 0, 0, 0, -1, 0, 0)
        put(m, M_STOP, 1)
        return np.int64(0)
    put(warp_address, W_USED, np.int64(used | (np.uint64(1) << np.uint64(split))))
    state = split_state(warp_address, split)
    put(state, S_PC, pc)
    put(state, S_MASK, np.int64(mask))
    put(state, S_RPC, rpc)
    put(state, S_PARENT, parent)
    put(state, S_PENDING, 0)
    put(state, S_STATE, SPLIT_READY)
    put(state, S_WAIT, 0)
    put(state, S_ORDER, order)
    return split


@compiled
def diverge(m, warp_address, taken, target, other, following, meet, other_first):
    """Divide the running split: `taken` lanes go to `target`, `other` ones to `following`.

    They meet at `meet`, or never if that is -1. Leaves the split to run next in W_CURRENT. `other_first`: run the lanes
    that fall through first.
    """
    current = get(warp_address, W_CURRENT)
    state = split_state(warp_address, current)
    rpc, parent, order = get(state, S_RPC), get(state, S_PARENT), get(state, S_ORDER)
    if meet != rpc:
        # The running split waits at the meeting point; its two sides become its children.
        put(state, S_PC, meet)
        put(state, S_STATE, SPLIT_WAITS_FOR_CHILDREN)
        put(state, S_PENDING, 0)
        parent = current
        order += 1
        current = np.int64(-1)
    # Else the sides end where the running split would: they become siblings, one of them in its place.
    chosen = np.int64(-1)
    for turn in range(2):
        first = turn == 0
        use_taken = first == (other_first != 0)
        mask, pc = (taken, target) if use_taken else (other, following)
        if pc == meet and meet >= 0:
            continue  # already there
        if current >= 0:
            put(state, S_MASK, np.int64(mask))
            put(state, S_PC, pc)
            chosen = current
            current = np.int64(-1)
            continue
        if parent >= 0 and (meet != rpc or chosen >= 0):
            above = split_state(warp_address, parent)
            increase(above, S_PENDING, 1)
        chosen = _new_split(m, warp_address, pc, mask, meet, parent, order + turn)
    put(warp_address, W_CURRENT, chosen)


@compiled
def choose_split(m, warp_address):
    """The most recent split that is ready (a random one in a seeded run), or -1; it becomes the running one."""
    random = is_random(m)
    used = np.uint64(get(warp_address, W_USED))
    best = np.int64(-1)
    best_order = np.int64(-(1 << 62))
    while used:
        split = np.int64(trailing_zeros64(used))
        used &= used - np.uint64(1)
        state = split_state(warp_address, split)
        if get(state, S_STATE) == SPLIT_READY:
            order = random_below(m, 1 << 30) if random else get(state, S_ORDER)
            if order > best_order:
                best, best_order = split, order
    put(warp_address, W_CURRENT, best)
    return best


@compiled
def end_split(warp_address, split):
    """A split has reached its meeting point or its lanes have exited: free it; the last one wakes its parent."""
    live = get(warp_address, W_LIVE)
    while split >= 0:
        used = np.uint64(get(warp_address, W_USED))
        put(warp_address, W_USED, np.int64(used & ~(np.uint64(1) << np.uint64(split))))
        parent = get(split_state(warp_address, split), S_PARENT)
        if parent < 0:
            return
        above = split_state(warp_address, parent)
        pending = get(above, S_PENDING) - 1
        put(above, S_PENDING, pending)
        if pending > 0:
            return
        mask = get(above, S_MASK) & live
        put(above, S_MASK, mask)
        if mask and get(above, S_PC) >= 0:
            put(above, S_STATE, SPLIT_READY)
            return
        split = parent
