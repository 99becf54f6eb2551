"""Runs the clusters of a grid: undefined memory, fresh warps, and turns for each warp until all have ended.

Without clusters each block is one of its own. The blocks of a cluster take turns, and start and end together.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import fill_row32
from warplab.emulator.core.asynchronous.bulk_calls import end_bulk, start_bulk
from warplab.emulator.core.asynchronous.completion import complete_all, complete_one
from warplab.emulator.core.asynchronous.copies import clear_copies, finish_arrivals
from warplab.emulator.core.asynchronous.events import clear_events
from warplab.emulator.core.asynchronous.launch_control import first_block, place_in_grid
from warplab.emulator.core.asynchronous.tensor_calls import end_tensor, free_tensor, start_tensor
from warplab.emulator.core.asynchronous.waits import report_mbarrier_wait
from warplab.emulator.core.interpreter import run_warp
from warplab.emulator.core.memory.clocks import start_clocks
from warplab.emulator.core.memory.cluster_memory import check_visits, clear_visits, peer
from warplab.emulator.core.memory.global_races import start_cluster
from warplab.emulator.core.memory.shadow import mark_written
from warplab.emulator.core.memory.shadow_chunks import CHUNK_BYTES, CHUNK_SPAN
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    FAULT_DEADLOCK,
    FAULT_ENDLESS,
    FULL_MASK,
    LATER,
    M_BACKWARDS,
    M_BLOCK_DIM_X,
    M_BLOCK_DIM_Y,
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    M_BUDGET,
    M_CLEARED,
    M_CLUSTER,
    M_CLUSTER_WARPS,
    M_CLUSTER_X,
    M_CLUSTER_Y,
    M_FAILED,
    M_FINDING_COUNT,
    M_FRAME_BYTES,
    M_FRAMES,
    M_IDLE,
    M_INTERLEAVES,
    M_LAST,
    M_LIVE_THREADS,
    M_LOCAL,
    M_LOCAL_BYTES,
    M_LOCAL_SHADOW,
    M_MAY_WAIT,
    M_NEXT,
    M_NUMBER,
    M_PEERS,
    M_PRINT_USED,
    M_QUANTUM,
    M_RANK,
    M_RECORD,
    M_RECORDED,
    M_RECORDED_RANK,
    M_RUNNING,
    M_SHARED,
    M_SHARED_BYTES,
    M_SHARED_SHADOW,
    M_SM,
    M_SPECIAL_COUNT,
    M_SPECIALS,
    M_STARTED,
    M_STOP,
    M_SWITCHED,
    M_THREADS,
    M_TIME,
    M_TRACE,
    M_WAITS,
    M_WARP_COUNT,
    M_WARPS,
    RESERVED_BYTES,
    S_MASK,
    S_ORDER,
    S_PC,
    S_STATE,
    S_WAIT,
    SHARED_BASE,
    SPECIAL_CLUSTER_CTAID_X,
    SPECIAL_CLUSTER_CTARANK,
    SPECIAL_CLUSTERID_X,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_SMID,
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPLIT_AT_BARRIER,
    SPLIT_READY,
    STATUS_DONE,
    STATUS_READY,
    W_ARRIVED,
    W_CURRENT,
    W_EPOCH,
    W_FENCED,
    W_LIVE,
    W_PARTLY,
    W_PASSABLE,
    W_STATUS,
    W_TOUCHED,
    W_USED,
    W_WHOLE,
    WAIT_BARRIER,
)
from warplab.emulator.core.state.random_order import is_random, random_below, start_random_order
from warplab.emulator.core.state.raw import (
    fill_bytes,
    get,
    increase,
    load_i64,
    put,
    store_u32,
    trailing_zeros32,
    trailing_zeros64,
)
from warplab.emulator.core.tensor.products import free_products, start_products
from warplab.emulator.core.warp.barriers import clear_barriers
from warplab.emulator.core.warp.cluster_barrier import clear_cluster_barrier
from warplab.emulator.core.warp.splits import split_state, start_splits

SMS = 132  # of an H200: what %smid counts up to
FULL_TURN = 4096  # warp instructions before another warp gets its turn
POLL = 256  # warp instructions: a longer turn than this did more than to look at an mbarrier
LONGEST_TURN_BITS = 9  # of a seeded run
PATIENCE = 10_000  # rounds in which every warp only looks at mbarriers before it counts as a deadlock
SLICE = 64  # clusters that are started between two looks at whether the user pressed Ctrl-C
LONG = 1 << 22  # warp instructions of a cluster after which it may be waiting for others
ROUNDS = 256  # of a cluster's turn where blocks interleave, at most
SWITCHES = 1 << 15  # without a cluster that starts or ends, after which they may all be waiting for others


@compiled
def _cluster_special(m, which):
    """The value of a special register that tells where the block is in its cluster, or its cluster in the grid."""
    if which == SPECIAL_CLUSTER_CTARANK:
        return get(m, M_RANK)
    axis = (which - SPECIAL_CLUSTER_CTAID_X) % (SPECIAL_CLUSTERID_X - SPECIAL_CLUSTER_CTAID_X)
    block, size = get(m, M_BLOCK_X + axis), get(m, M_CLUSTER_X + axis)
    return block // size if which >= SPECIAL_CLUSTERID_X else block % size


@compiled
def _fill_specials(m, warp, frame):
    """Rows of special registers that differ from block to block or warp to warp."""
    width, height = get(m, M_BLOCK_DIM_X), get(m, M_BLOCK_DIM_Y)
    specials = get(m, M_SPECIALS)
    start_x, start_y, start_z = warp * 32 % width, warp * 32 // width % height, warp * 32 // (width * height)
    for i in range(get(m, M_SPECIAL_COUNT)):
        which = load_i64(specials + 16 * i)
        row = frame + load_i64(specials + 16 * i + 8)
        if which <= SPECIAL_TID_Z:
            x, y, z = start_x, start_y, start_z  # counted up: a division for each lane takes long
            for lane in range(32):
                value = x if which == SPECIAL_TID_X else y if which == SPECIAL_TID_Y else z
                store_u32(row + 4 * lane, np.uint32(value))
                x += 1
                if x == width:
                    x, y = np.int64(0), y + 1
                if y == height:
                    y, z = np.int64(0), z + 1
        elif which == SPECIAL_LANEID:
            for lane in range(32):
                store_u32(row + 4 * lane, np.uint32(lane))
        else:
            if which <= SPECIAL_CTAID_Z:
                value = get(m, M_BLOCK_X + which - SPECIAL_CTAID_X)
            elif which == SPECIAL_SMID:
                value = get(m, M_SM)
            elif which >= SPECIAL_CLUSTER_CTAID_X:
                value = _cluster_special(m, which)
            else:
                value = np.int64(warp)
            fill_row32(row, np.uint64(value), np.uint32(FULL_MASK))


@compiled
def _start_block(m):
    """Undefined memory, fresh warps."""
    fill_bytes(get(m, M_SHARED), np.uint8(0xFF), get(m, M_SHARED_BYTES))
    if get(m, M_SHARED_SHADOW):
        # Nothing accesses what lies before SHARED_BASE.
        first, end = SHARED_BASE // CHUNK_SPAN, (get(m, M_SHARED_BYTES) + CHUNK_SPAN - 1) // CHUNK_SPAN
        fill_bytes(get(m, M_SHARED_SHADOW) + first * CHUNK_BYTES, np.uint8(0), (end - first) * CHUNK_BYTES)
        start_clocks(m)
        clear_visits(m)
    if get(m, M_CLEARED):
        fill_bytes(get(m, M_SHARED) + get(m, M_CLEARED), np.uint8(0), np.int64(RESERVED_BYTES))
        mark_written(m, get(m, M_CLEARED), np.int64(RESERVED_BYTES))
    clear_barriers(m)
    clear_copies(m)
    start_products(m)
    start_bulk(m)
    start_tensor(m)
    threads = get(m, M_THREADS)
    put(m, M_LIVE_THREADS, threads)
    for warp in range(get(m, M_WARP_COUNT)):
        address = warp_state(get(m, M_WARPS), warp)
        lanes = min(threads - 32 * warp, 32)
        live = np.int64((1 << lanes) - 1)
        put(address, W_STATUS, STATUS_READY)
        put(address, W_LIVE, live)
        put(address, W_EPOCH, 1)
        put(address, W_WHOLE, 1)
        put(address, W_PARTLY, 0)
        put(address, W_TOUCHED, 0)
        put(address, W_ARRIVED, 0)
        put(address, W_PASSABLE, 0)
        put(address, W_FENCED, 0)
        start_splits(address, live)
        frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
        store_u32(frame, np.uint32(FULL_MASK))
        _fill_specials(m, warp, frame)
    if get(m, M_LOCAL_BYTES):
        fill_bytes(get(m, M_LOCAL), np.uint8(0xFF), get(m, M_LOCAL_BYTES) * 32 * get(m, M_WARP_COUNT))
        if get(m, M_LOCAL_SHADOW):
            fill_bytes(get(m, M_LOCAL_SHADOW), np.uint8(0), (get(m, M_LOCAL_BYTES) >> 2) * 32 * get(m, M_WARP_COUNT))


@compiled
def _start_cluster(m, cluster):
    """Place the blocks of the cluster of that number in the grid and start them together."""
    blocks = get(m, M_CLUSTER)
    x, y, z = first_block(m, cluster)
    start_random_order(m, cluster)
    clear_cluster_barrier(m)
    clear_events(m)
    start_cluster(m)
    put(m, M_RUNNING, 1)
    put(m, M_IDLE, 0)
    put(m, M_STARTED, get(m, M_BUDGET))
    if get(m, M_INTERLEAVES):
        # Most blocks go in step, which cuts every update that takes two accesses; some at their own pace.
        put(m, M_INTERLEAVES, 2 if random_below(m, 4) == 0 else 1)
    for rank in range(blocks):
        block = peer(m, rank)
        inside = rank // get(m, M_CLUSTER_X)
        put(block, M_BLOCK_X, x + rank % get(m, M_CLUSTER_X))
        put(block, M_BLOCK_Y, y + inside % get(m, M_CLUSTER_Y))
        put(block, M_BLOCK_Z, z + inside // get(m, M_CLUSTER_Y))
        put(block, M_NUMBER, cluster)
        put(block, M_SM, (cluster * blocks + rank) % SMS)
        recorded = cluster == get(m, M_RECORDED) and rank == get(m, M_RECORDED_RANK)
        put(block, M_TRACE, get(m, M_RECORD) if recorded else np.int64(0))
        _start_block(block)


@compiled
def _report_deadlock(m):
    """Every warp that is left waits: name the place of each of the block's."""
    for warp in range(get(m, M_WARP_COUNT)):
        address = warp_state(get(m, M_WARPS), warp)
        if get(address, W_STATUS) == STATUS_DONE:
            continue
        used = np.uint64(get(address, W_USED))
        while used:
            state = split_state(address, np.int64(trailing_zeros64(used)))
            used &= used - np.uint64(1)
            lane = np.int64(trailing_zeros32(np.uint32(get(state, S_MASK))))
            if get(state, S_STATE) == SPLIT_READY:
                # It looks at an mbarrier again and again.
                report_mbarrier_wait(m, warp, lane, get(state, S_PC) - 1)
            elif get(state, S_STATE) == SPLIT_AT_BARRIER:
                number = get(state, S_WAIT) - WAIT_BARRIER
                report(m, FAULT_DEADLOCK, get(state, S_PC), warp, lane, 0, 0, 0, -1, 0, number)
    put(m, M_STOP, 1)


@compiled
def _draw_turn(m, address):
    """In a seeded run: does the warp get its turn, which of its splits goes on, and for how long?"""
    if random_below(m, 4) == 0:
        return False
    put(m, M_QUANTUM, 1 + random_below(m, np.int64(1) << random_below(m, LONGEST_TURN_BITS + 1)))
    if random_below(m, 2):
        put(address, W_CURRENT, -1)
    return True


@compiled
def _pass_on(address):
    """A warp has used up its turn: other lanes of it that can run go first in the next one."""
    current = get(address, W_CURRENT)
    if current >= 0:
        increase(split_state(address, current), S_ORDER, -LATER)
        put(address, W_CURRENT, -1)


@compiled
def _turn(m, warp, address):
    """Let a warp run; True if it did no more than to look at mbarriers in vain."""
    home = get(m, M_PEERS)
    put(m, M_FAILED, 0)
    issued = run_warp(m, warp)
    increase(m, M_TIME, issued)
    put(home, M_BUDGET, get(home, M_BUDGET) - issued)
    if get(home, M_BUDGET) < 0:
        current = max(get(address, W_CURRENT), 0)
        pc = get(split_state(address, current), S_PC)
        lane = np.int64(trailing_zeros32(np.uint32(get(address, W_LIVE)) | np.uint32(1 << 31)))
        report(m, FAULT_ENDLESS, pc, warp, lane, 0, 0, 0, -1, 0, 0)
        put(home, M_STOP, 1)
    if issued >= FULL_TURN:
        _pass_on(address)
    if get(m, M_STOP):
        put(home, M_STOP, 1)
    if get(address, W_STATUS) == STATUS_DONE and get(m, M_LIVE_THREADS) == 0:
        check_visits(m)
        end_bulk(m)
        end_tensor(m)
    return get(m, M_FAILED) != 0 and issued < POLL


@compiled
def _complete_something(m):
    """No warp of the cluster can go on: let asynchronous operations complete that it may wait for. Were there any?"""
    found = False
    for rank in range(get(m, M_CLUSTER)):
        found = finish_arrivals(peer(m, rank)) or found
    return found or complete_one(m)


@compiled
def _give_up_on_others(m):
    """No warp of the cluster can go on: let those go on that wait for others of their warpgroup, or for tensor memory.
    Were there any?"""
    found = False
    for rank in range(get(m, M_CLUSTER)):
        found = free_products(peer(m, rank)) or free_tensor(peer(m, rank)) or found
    return found


@compiled
def _round(m):
    """Give each warp of a cluster a turn: one after the other, upwards or downwards, or as chance has it (seeded)."""
    warps = get(m, M_WARP_COUNT)
    total = get(m, M_CLUSTER_WARPS)
    random = is_random(m)
    backwards = get(m, M_BACKWARDS) or random_below(m, 2)
    done = 0
    failed = 0
    ran = 0
    skipped = 0
    start = total - 1 if get(m, M_BACKWARDS) else random_below(m, total)
    block = peer(m, start // warps)
    warp = start % warps
    for _ in range(total):
        address = warp_state(get(block, M_WARPS), warp)
        if get(address, W_STATUS) == STATUS_READY:
            if random and not _draw_turn(block, address):
                skipped += 1
            else:
                ran += 1
                failed += _turn(block, warp, address)
                if get(m, M_STOP):
                    return
                if get(m, M_SWITCHED):
                    put(m, M_IDLE, 0)
                    if random_below(m, 8) == 0:
                        complete_one(m)
                    return
        if get(address, W_STATUS) == STATUS_DONE:
            done += 1
        if backwards:
            warp -= 1
            if warp < 0:
                warp = warps - 1
                block = peer(m, (get(block, M_RANK) + get(m, M_CLUSTER) - 1) % get(m, M_CLUSTER))
        else:
            warp += 1
            if warp == warps:
                warp = np.int64(0)
                block = peer(m, (get(block, M_RANK) + 1) % get(m, M_CLUSTER))
    if done == total:
        complete_all(m)
        put(m, M_RUNNING, 0)
        return
    if random and random_below(m, 8) == 0:
        complete_one(m)
    put(m, M_IDLE, get(m, M_IDLE) + 1 if failed == ran else 0)
    if get(m, M_IDLE) and _complete_something(m):
        put(m, M_IDLE, 0)
    elif ran + skipped == 0 or get(m, M_IDLE) > PATIENCE:
        put(m, M_IDLE, 0)
        if not _give_up_on_others(m):
            for rank in range(get(m, M_CLUSTER)):
                _report_deadlock(peer(m, rank))


@compiled
def _rounds(m):
    """A cluster's turn where blocks interleave: until one of its warps has touched what others may touch as well."""
    put(m, M_SWITCHED, 0)
    for _ in range(ROUNDS):
        _round(m)
        if get(m, M_SWITCHED) or get(m, M_STOP) or get(m, M_RUNNING) == 0:
            break
    return get(m, M_SWITCHED) != 0


@compiled
def _hand_over(m, following):
    """What all clusters of a worker share goes to the next one that has its turn."""
    put(following, M_BUDGET, get(m, M_BUDGET))
    put(following, M_FINDING_COUNT, get(m, M_FINDING_COUNT))
    put(following, M_PRINT_USED, get(m, M_PRINT_USED))
    put(following, M_STOP, get(m, M_STOP))


def run_clusters(machines, count, first, last):
    """Run clusters, `count` of them at one time, until some have been started; gives the next to start.

    They are those that are the `first`-th and so on to start, up to the one before the `last`-th.

    At `machines` are the addresses of the states of so many clusters' first blocks. Clusters that have not ended
    (M_RUNNING) go on in the next call. The first machine has M_WAITS set where no cluster has ended for long: they may
    be waiting for others.
    """
    home = load_i64(machines)
    m = home
    stop = min(first + SLICE, last)
    running = 1
    switches = 0
    put(home, M_WAITS, 0)
    while (first < stop or (first == last and running)) and not get(m, M_STOP):
        running = 0
        for place in range(count):
            following = load_i64(machines + 8 * place)
            _hand_over(m, following)
            m = following
            touched = False
            while not touched and (get(m, M_RUNNING) or first < last):
                if not get(m, M_RUNNING):
                    _start_cluster(m, place_in_grid(m, first))
                    first += 1
                    switches = 0
                put(m, M_NEXT, first)
                put(m, M_LAST, last)
                if get(m, M_INTERLEAVES):
                    touched = _rounds(m)
                else:
                    _round(m)
                first = get(m, M_NEXT)
                # Where one ends, the next one goes on in its place: with a turn left out blocks could pass each other.
                touched = touched or not get(m, M_INTERLEAVES) or get(m, M_RUNNING) != 0 or get(m, M_STOP) != 0
            switches = switches + 1 if get(m, M_RUNNING) else 0
            running += get(m, M_RUNNING)
            if get(m, M_STOP):
                break
        alone = count == 1 and get(m, M_STARTED) - get(m, M_BUDGET) > LONG
        together = get(m, M_INTERLEAVES) != 0 and switches > SWITCHES
        if running and get(m, M_MAY_WAIT) and (alone or together):
            put(home, M_WAITS, 1)
            break
    _hand_over(m, home)
    return first
