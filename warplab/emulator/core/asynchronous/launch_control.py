"""clusterlaunchcontrol.try_cancel: a cluster takes over the work of one that has not started.

The one that would start next is cancelled and never does. Its first block's place in the grid comes as 16 bytes, which
complete at an mbarrier like an st.async. A request fails where no cluster is left; in a seeded run others fail as well,
as on a GPU where the next cluster has just started. (PTX ISA, "clusterlaunchcontrol".)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.remote import queue_store
from warplab.emulator.core.memory.clocks import own_clock, pass_moment
from warplab.emulator.core.memory.cluster_memory import mapped, offset_of
from warplab.emulator.core.memory.transfer import write_element
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    CANCEL_BYTES,
    CANCEL_X_BITS,
    CANCEL_Y_BITS,
    IMM,
    M_CLUSTER,
    M_CLUSTER_X,
    M_CLUSTER_Y,
    M_CLUSTER_Z,
    M_CLUSTERS,
    M_GRID_X,
    M_GRID_Y,
    M_LAST,
    M_NEXT,
    M_ORDER_START,
    M_ORDER_STEP,
    M_ORDER_WINDOW,
    M_PEERS,
    M_SHARED_WINDOW,
    SRC_A,
    SRC_C,
    X0,
    X1,
    X3,
)
from warplab.emulator.core.state.random_order import is_random, random_below
from warplab.emulator.core.state.raw import field, get, increase, load_i64, operand, trailing_zeros32


@compiled
def place_in_grid(m, position):
    """The number of the cluster that is the `position`-th to start.

    A GPU starts clusters in the order of their numbers as room becomes free; which of those that are there together
    comes first is open. So the order differs within windows of as many clusters as there is room for. A step that has
    no factor in common with the size of a window meets each of its clusters once.
    """
    window, step = get(m, M_ORDER_WINDOW), get(m, M_ORDER_STEP)
    first = position // window * window
    size = min(window, get(m, M_CLUSTERS) - first)
    return first + (get(m, M_ORDER_START) + step * (position - first)) % size


@compiled
def first_block(m, cluster):
    """Where in the grid the first block of the cluster of that number is: x, y, z."""
    width, height = get(m, M_GRID_X) // get(m, M_CLUSTER_X), get(m, M_GRID_Y) // get(m, M_CLUSTER_Y)
    x, y, z = cluster % width, cluster // width % height, cluster // (width * height)
    return x * get(m, M_CLUSTER_X), y * get(m, M_CLUSTER_Y), z * get(m, M_CLUSTER_Z)


@compiled
def _answer(m):
    """Cancel the next cluster to start; the answer's first eight bytes, 0 if there is none."""
    home = get(m, M_PEERS)
    if get(home, M_NEXT) >= get(home, M_LAST) or is_random(m) and random_below(m, 8) == 0:
        return np.int64(0)
    x, y, z = first_block(home, place_in_grid(home, get(home, M_NEXT)))
    increase(home, M_NEXT, 1)
    return x | np.int64(1) << CANCEL_X_BITS | (z << CANCEL_Y_BITS | y) << (CANCEL_X_BITS + 1)


@compiled
def cancel(m, warp, frame, constants, record, pc, mask):
    """One try_cancel of a warp, lane by lane."""
    places, mbarriers = operand(frame, constants, record, SRC_A), operand(frame, constants, record, SRC_C)
    window = get(m, M_SHARED_WINDOW) if field(record, X1) else np.int64(0)
    moment = own_clock(m, warp)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        place = load_i64(places + 8 * lane) + field(record, IMM) - window
        mbarrier = load_i64(mbarriers + 8 * lane) + field(record, X3) - window
        answer = _answer(m)
        for rank in range(get(m, M_CLUSTER) if field(record, X0) else 1):
            target, at = place, mbarrier
            if field(record, X0):
                target, at = mapped(m, rank, offset_of(place)), mapped(m, rank, offset_of(mbarrier))
            values = queue_store(m, warp, lane, pc, target, at, np.int64(CANCEL_BYTES), np.int64(8), moment)
            if values:
                write_element(values, np.int64(8), np.uint64(answer))
                write_element(values + 8, np.int64(8), np.uint64(0))
    pass_moment(m, warp)
