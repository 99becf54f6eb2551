"""The interpreter's loop: runs one warp, instruction by instruction.

Arithmetic goes through the table of vector functions; what remains is memory, control flow and exchange between lanes.
A warp runs until it waits, ends, or has used up its turn.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.call import call_vector
from warplab.emulator.core.alu.rows import fill_row32, fill_row64
from warplab.emulator.core.alu.unusual import note_unusual
from warplab.emulator.core.asynchronous.bulk_calls import run_bulk
from warplab.emulator.core.asynchronous.completion import make_room
from warplab.emulator.core.asynchronous.copies import group_copies, issue_copies
from warplab.emulator.core.asynchronous.launch_control import cancel
from warplab.emulator.core.asynchronous.mbarriers import operate
from warplab.emulator.core.asynchronous.remote import issue_remote
from warplab.emulator.core.asynchronous.tensor_calls import run_tensor
from warplab.emulator.core.memory.access import memory_access, watch_access
from warplab.emulator.core.memory.atomics import atomic_access
from warplab.emulator.core.memory.causality import fence_memory
from warplab.emulator.core.memory.clocks import fence_async
from warplab.emulator.core.memory.lane_order import all_meet, lanes_meet
from warplab.emulator.core.memory.local_access import local_host
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    BARRIER_ARRIVE,
    BARRIERS,
    C_DIVERGED,
    C_FIELDS,
    DST,
    FAULT_DIVERGENT_WARP_SYNC,
    FAULT_OWN_LANE,
    FAULT_TRAP,
    FAULT_UNSUPPORTED,
    FENCE_MEMORY,
    GUARD,
    GUARD_XOR,
    IMM,
    LATER,
    M_CLOCK,
    M_CLUSTER,
    M_CODE,
    M_CONSTANTS,
    M_COUNTS,
    M_FAILED,
    M_FRAME_BYTES,
    M_FRAMES,
    M_INTERLEAVES,
    M_LIVE_THREADS,
    M_LOCAL,
    M_LOCAL_BYTES,
    M_LOCAL_WINDOW,
    M_PEERS,
    M_PRINT,
    M_PRINT_BYTES,
    M_PRINT_USED,
    M_QUANTUM,
    M_SCRATCH,
    M_STOP,
    M_SWITCHED,
    M_TIME,
    M_TRACE,
    M_VECTORS,
    M_WARPS,
    OP_ACTIVEMASK,
    OP_ATOMIC,
    OP_BARRIER,
    OP_BRANCH,
    OP_BULK,
    OP_BULK_GROUP,
    OP_CANCEL,
    OP_CLUSTER_ADDRESS,
    OP_CLUSTER_BARRIER,
    OP_COPY,
    OP_COPY_GROUP,
    OP_ELECT,
    OP_EXIT,
    OP_FENCE,
    OP_JOIN,
    OP_JUMP,
    OP_LDMATRIX,
    OP_LOAD,
    OP_MATCH,
    OP_MBARRIER,
    OP_MMA,
    OP_MOVMATRIX,
    OP_NOP,
    OP_PRINT,
    OP_REDUX,
    OP_REMOTE,
    OP_ROWS,
    OP_SHUFFLE,
    OP_SPECIAL,
    OP_STMATRIX,
    OP_STORE,
    OP_TENSOR_CORE,
    OP_TENSOR_MEMORY,
    OP_TRAP,
    OP_UNUSUAL,
    OP_VOTE,
    OP_WARP_SYNC,
    OP_WATCH,
    OP_WGMMA,
    OP_WGMMA_GROUP,
    OP_WGMMA_REGISTER,
    PRINT_ARGUMENT_BYTES,
    PRINT_RECORD_BYTES,
    S_MASK,
    S_ORDER,
    S_PC,
    S_RPC,
    S_STATE,
    S_WAIT,
    SPACE_SHARED,
    SPLIT_AT_BARRIER,
    SPLIT_AT_WARP_SYNC,
    SRC_A,
    SRC_B,
    SRC_C,
    STATUS_DONE,
    STATUS_WAITING,
    TRAP_ASSERTION,
    VECTOR_BASE,
    VOLATILE_BIT,
    W_CURRENT,
    W_FENCED,
    W_LIVE,
    W_STATUS,
    W_USED,
    WAIT_BARRIER,
    WAIT_FORCED,
    WAIT_OPEN,
    WAIT_UNDECIDED,
    X0,
    X1,
    X2,
    X3,
)
from warplab.emulator.core.state.races_layout import SCOPE_BLOCK
from warplab.emulator.core.state.random_order import random_below
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    load_i32,
    load_i64,
    load_u32,
    operand,
    popcount32,
    put,
    store_i64,
    store_u32,
    trailing_zeros32,
)
from warplab.emulator.core.state.trace import OUTCOME_FAILED, OUTCOME_WAITS, record_issue, record_outcome
from warplab.emulator.core.tensor.matrix_moves import move_shared, transpose_fragment
from warplab.emulator.core.tensor.matrix_multiply import multiply
from warplab.emulator.core.tensor.products import run_product
from warplab.emulator.core.warp.barriers import arrive, barrier_result, meet_in_warp, recheck_barriers, resolve_stuck
from warplab.emulator.core.warp.cluster_addresses import cluster_address
from warplab.emulator.core.warp.cluster_barrier import cluster_barrier, leave_cluster_barrier
from warplab.emulator.core.warp.collectives import meet_at_sites, report_strayed, undefined_value
from warplab.emulator.core.warp.exchange import elect, match, redux, shuffle, vote
from warplab.emulator.core.warp.splits import choose_split, diverge, end_split, split_state


@compiled
def _print(m, warp, frame, constants, record, mask):
    """printf: keep the format's address and the argument bytes of each lane; the host formats them afterwards."""
    formats = operand(frame, constants, record, SRC_A)
    arguments = operand(frame, constants, record, SRC_B)
    limit = get(m, M_LOCAL_BYTES)
    base = get(m, M_LOCAL) + warp * limit * 32
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        used = get(get(m, M_PEERS), M_PRINT_USED)
        if used + PRINT_RECORD_BYTES > get(m, M_PRINT_BYTES):
            return
        put(get(m, M_PEERS), M_PRINT_USED, used + PRINT_RECORD_BYTES)
        to = get(m, M_PRINT) + used
        store_i64(to, load_i64(formats + 8 * lane))
        pointer = load_i64(arguments + 8 * lane)
        offset = pointer - get(m, M_LOCAL_WINDOW)
        for place in range(0, PRINT_ARGUMENT_BYTES, 4):
            inside = 0 <= offset <= limit - 4 - place
            word = load_u32(local_host(base, offset + place, lane)) if inside else np.uint32(0)
            store_u32(to + 8 + place, word)


@compiled
def _members(frame, constants, record, active):
    """The member mask of a .sync instruction as its first active lane gives it; the old forms name the active lanes."""
    if field(record, X2) == 0:
        return active
    row = operand(frame, constants, record, X2)
    return load_u32(row + 4 * np.int64(trailing_zeros32(active)))


@compiled
def _group(frame, constants, record, lanes):
    """The member mask of the first of some lanes, and those of them that give the same."""
    row = operand(frame, constants, record, X2)
    members = load_u32(row + 4 * np.int64(trailing_zeros32(lanes)))
    group, rest = np.uint32(0), np.uint32(lanes)
    while rest:
        lane = trailing_zeros32(rest)
        rest &= rest - np.uint32(1)
        if load_u32(row + 4 * np.int64(lane)) == members:
            group |= np.uint32(1) << np.uint32(lane)
    return members, group


@compiled
def _differ(frame, constants, record, mask, members):
    """Do the lanes give several member masks, as parts of a warp do that work side by side?"""
    if field(record, X2) == 0 or mask & ~members == np.uint32(0):
        return False
    return _group(frame, constants, record, mask)[1] != mask


@compiled
def _all_here(frame, constants, record, mask, here):
    """Are all members of all those masks at this instruction?"""
    rest = np.uint32(mask)
    while rest:
        members, group = _group(frame, constants, record, rest)
        rest &= ~group
        if members & ~here:
            return False
    return True


@compiled
def _check_own_lanes(m, warp, frame, constants, record, pc, mask):
    """Report a lane that is not in the member mask that it gives: the PTX ISA leaves undefined what happens."""
    row = operand(frame, constants, record, X2)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        members = load_u32(row + 4 * lane)
        if not members >> np.uint32(lane) & np.uint32(1):
            report(m, FAULT_OWN_LANE, pc, warp, lane, 0, 0, 0, -1, 0, np.int64(members))
            return


@compiled
def _exchange(m, warp, op, frame, constants, record, pc, mask):
    if op == OP_SHUFFLE:
        strayed = shuffle(get(m, M_SCRATCH), frame, constants, record, mask, undefined_value(m, pc))
        report_strayed(m, pc, warp, strayed)
    elif op == OP_VOTE:
        vote(frame, constants, record, mask)
    elif op == OP_MATCH:
        match(get(m, M_SCRATCH), frame, constants, record, mask)
    elif op == OP_REDUX:
        redux(frame, constants, record, mask)
    elif op == OP_ELECT:
        elect(frame, constants, record, mask)
    elif op != OP_WARP_SYNC:
        _matrix_operation(m, warp, op, frame, constants, record, pc, mask)


@compiled
def _matrix_operation(m, warp, op, frame, constants, record, pc, mask):
    """An .aligned instruction on fragments: every lane of the warp has to take part."""
    needed = np.uint32(0xFFFFFFFF)
    if op in (OP_WGMMA, OP_WGMMA_GROUP, OP_TENSOR_MEMORY):  # a missing lane of a warpgroup is reported there
        needed = np.uint32(get(warp_state(get(m, M_WARPS), warp), W_LIVE))
    missing = needed & ~mask
    if missing:
        lane = np.int64(trailing_zeros32(mask))
        report(m, FAULT_DIVERGENT_WARP_SYNC, pc, warp, lane, 0, 0, 0, -1, 0, np.int64(missing))
    if op == OP_MMA:
        multiply(frame, constants, record, mask)
    elif op in (OP_LDMATRIX, OP_STMATRIX):
        move_shared(m, warp, frame, constants, record, pc, mask, 1 if op == OP_STMATRIX else 0)
        # All lanes have read when ldmatrix is done: none of them can overwrite what another still needs.
        if op == OP_LDMATRIX:
            lanes_meet(warp_state(get(m, M_WARPS), warp), np.uint32(0xFFFFFFFF), False)
    elif op == OP_MOVMATRIX:
        transpose_fragment(m, frame, constants, record, mask)
    elif op in (OP_WGMMA, OP_WGMMA_GROUP):
        run_product(m, op, warp, frame, constants, record, pc, mask)
    elif op == OP_TENSOR_MEMORY:
        run_tensor(m, op, warp, frame, constants, record, pc, mask)


@compiled
def _order_lanes(warp_address, op, members):
    """Lanes meet at an instruction among them: what they did before may be known to all of them from now on."""
    if op not in (OP_WGMMA, OP_WGMMA_GROUP, OP_TENSOR_MEMORY):
        lanes_meet(warp_address, members, op == OP_WARP_SYNC)
    else:
        all_meet(warp_address)


@compiled
def _warp_exchange(m, warp, warp_address, state, op, frame, constants, record, pc, active, mask):
    """An instruction among the lanes of a warp; True if it was done, False if the split has to wait for lanes."""
    members = _members(frame, constants, record, mask)
    if mask & ~members and op in (OP_SHUFFLE, OP_VOTE, OP_MATCH, OP_REDUX, OP_ELECT, OP_WARP_SYNC):
        _check_own_lanes(m, warp, frame, constants, record, pc, mask)
    if _differ(frame, constants, record, mask, members) and _all_here(
        frame, constants, record, mask, active | ~np.uint32(get(warp_address, W_LIVE))
    ):
        rest = np.uint32(mask)
        while rest:
            members, group = _group(frame, constants, record, rest)
            rest &= ~group
            _order_lanes(warp_address, op, members)
            _exchange(m, warp, op, frame, constants, record, pc, group & members)
        return True
    if members & ~active == np.uint32(0) or get(state, S_WAIT) == WAIT_FORCED:
        put(state, S_WAIT, WAIT_UNDECIDED)
        if field(record, X2) != 0:
            _order_lanes(warp_address, op, members)
        _exchange(m, warp, op, frame, constants, record, pc, mask & members)
        return True
    together = meet_in_warp(warp_address, get(warp_address, W_CURRENT), pc, op, active, members)
    if together:
        _order_lanes(warp_address, op, members)
        _exchange(m, warp, op, frame, constants, record, pc, together & members)
        return True
    if meet_at_sites(m, warp, warp_address, get(warp_address, W_CURRENT), op, record, pc, mask, active, members):
        lanes_meet(warp_address, members, False)
        return True
    put(state, S_STATE, SPLIT_AT_WARP_SYNC)
    put(state, S_WAIT, np.int64(members))
    put(state, S_PC, pc)
    return False


@compiled
def _barrier(m, warp, warp_address, state, frame, constants, record, pc, active):
    """A bar instruction; True if the split goes on, False if it has to wait."""
    wait = get(state, S_WAIT)
    first = np.int64(trailing_zeros32(active))
    number = np.int64(load_u32(operand(frame, constants, record, SRC_A) + 4 * first)) & (BARRIERS - 1)
    if wait == WAIT_OPEN:
        put(state, S_WAIT, WAIT_UNDECIDED)
        barrier_result(m, frame, constants, record, number, active)
        return True
    live = np.uint32(get(warp_address, W_LIVE))
    aligned = field(record, X2)
    if aligned and active != live and wait != WAIT_FORCED:
        # Some lanes are elsewhere. They may be about to exit, so the verdict waits until no split can run.
        put(state, S_STATE, SPLIT_AT_BARRIER)
        put(state, S_WAIT, WAIT_UNDECIDED)
        put(state, S_PC, pc)
        return False
    put(state, S_WAIT, WAIT_UNDECIDED)
    expected = np.int64(0)
    lanes = np.int64(popcount32(live if aligned else active))
    if field(record, X1):
        expected = np.int64(load_u32(operand(frame, constants, record, SRC_B) + 4 * first))
        lanes = np.int64(32) if aligned else lanes
    votes = load_u32(operand(frame, constants, record, SRC_C)) if field(record, X0) > BARRIER_ARRIVE else np.uint32(0)
    if arrive(m, warp, number, lanes, expected, active, votes):
        if field(record, X0) != BARRIER_ARRIVE:
            barrier_result(m, frame, constants, record, number, active)
        return True
    if field(record, X0) == BARRIER_ARRIVE:
        return True
    put(state, S_STATE, SPLIT_AT_BARRIER)
    put(state, S_WAIT, WAIT_BARRIER + number)
    put(state, S_PC, pc)
    return False


@compiled
def _wait(m, warp_address, cell, mask):
    """The running split waits and will issue its instruction again: count it only then."""
    record_outcome(m, OUTCOME_WAITS)
    store_i64(cell, load_i64(cell) - 1)
    store_i64(cell + 8, load_i64(cell + 8) - np.int64(popcount32(mask)))
    put(warp_address, W_CURRENT, -1)


@compiled
def _lets_others_go(m):
    """After a strong access outside shared memory, in a run that interleaves blocks: is it another block's turn?"""
    home = get(m, M_PEERS)
    if get(home, M_INTERLEAVES) == 2 and random_below(m, 2):
        return False
    put(home, M_SWITCHED, 1)
    return True


@compiled
def run_warp(m, warp):
    """Run a warp until it waits, ends, stops the launch, or its turn is over. Returns the instructions issued."""
    code = get(m, M_CODE)
    constants = get(m, M_CONSTANTS)
    counts = get(m, M_COUNTS)
    vectors = get(m, M_VECTORS)
    recorded = get(m, M_TRACE) != 0
    frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
    warp_address = warp_state(get(m, M_WARPS), warp)
    limit = get(m, M_QUANTUM)
    interleaves = get(m, M_INTERLEAVES) != 0
    issued = np.int64(0)
    state = np.int64(0)
    pc = np.int64(0)
    rpc = np.int64(-1)
    active = np.uint32(0)
    switch = True
    while True:
        if switch:
            current = get(warp_address, W_CURRENT)
            if current < 0:
                current = choose_split(m, warp_address)
                if current < 0:
                    if get(warp_address, W_USED) == 0:
                        put(warp_address, W_STATUS, STATUS_DONE)
                        return issued
                    if resolve_stuck(m, warp, warp_address):
                        continue
                    put(warp_address, W_STATUS, STATUS_WAITING)
                    return issued
            state = split_state(warp_address, current)
            pc = get(state, S_PC)
            rpc = get(state, S_RPC)
            active = np.uint32(get(state, S_MASK)) & np.uint32(get(warp_address, W_LIVE))
            switch = False
        record = code + pc * 64
        op = np.int64(load_i32(record))
        mask = active & (load_u32(frame + field(record, GUARD)) ^ np.uint32(load_i32(record + 4 * GUARD_XOR)))
        cell = counts + pc * (C_FIELDS * 8)
        store_i64(cell, load_i64(cell) + 1)
        store_i64(cell + 8, load_i64(cell + 8) + np.int64(popcount32(mask)))
        issued += 1
        if recorded:
            record_issue(m, issued, warp, frame, constants, record, pc, active, mask)
        if op >= VECTOR_BASE:
            if mask:
                call_vector(vectors, op - VECTOR_BASE, frame, constants, record, mask)
            pc += 1
        elif op in (OP_LOAD, OP_STORE):
            if mask:
                memory_access(m, warp, frame, constants, record, pc, mask, 1 if op == OP_STORE else 0)
            pc += 1
            strong = field(record, X3) & VOLATILE_BIT != 0 and field(record, X0) != SPACE_SHARED
            if (interleaves and mask and strong and _lets_others_go(m)) or issued >= limit:
                put(state, S_PC, pc)
                return issued
        elif op == OP_BRANCH:
            other = active & ~mask
            if mask == np.uint32(0):
                pc += 1
            elif other == np.uint32(0) or field(record, IMM) == pc + 1:
                pc = field(record, IMM)
            else:
                increase(cell, C_DIVERGED, 1)
                put(state, S_MASK, np.int64(active))
                # Lanes on their way out go first: a barrier must not find them pending.
                other_first = 1 - field(record, X1)
                diverge(m, warp_address, mask, field(record, IMM), other, pc + 1, field(record, X0), other_first)
                if get(m, M_STOP):
                    return issued
                switch = True
            if issued >= limit and not switch:
                put(state, S_PC, pc)
                return issued
        elif op == OP_JUMP:
            pc = field(record, IMM)
            if issued >= limit:
                put(state, S_PC, pc)
                return issued
        elif op == OP_JOIN:
            if pc == rpc:
                end_split(warp_address, get(warp_address, W_CURRENT))
                put(warp_address, W_CURRENT, -1)
                switch = True
            else:
                pc += 1
        elif op == OP_BARRIER:
            if mask == np.uint32(0) or _barrier(m, warp, warp_address, state, frame, constants, record, pc, active):
                pc += 1
            else:
                _wait(m, warp_address, cell, mask)
                switch = True
        elif op == OP_EXIT:
            if mask:
                put(warp_address, W_LIVE, get(warp_address, W_LIVE) & ~np.int64(mask))
                put(m, M_LIVE_THREADS, get(m, M_LIVE_THREADS) - np.int64(popcount32(mask)))
                recheck_barriers(m)
                leave_cluster_barrier(m, warp_address, mask)
            active &= ~mask
            pc += 1
            if active == np.uint32(0):
                end_split(warp_address, get(warp_address, W_CURRENT))
                put(warp_address, W_CURRENT, -1)
                switch = True
        elif op == OP_ATOMIC:
            if mask:
                atomic_access(m, warp, frame, constants, record, pc, mask)
            pc += 1
            shared = field(record, X0) == SPACE_SHARED
            if (interleaves and mask and not shared and _lets_others_go(m)) or issued >= limit:
                put(state, S_PC, pc)
                return issued
        elif op == OP_COPY:
            if mask:
                issue_copies(m, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_COPY_GROUP:
            if mask:
                group_copies(m, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_MBARRIER:
            passed = mask == np.uint32(0) or operate(m, warp, frame, constants, record, pc, mask)
            pc += 1
            if issued >= limit or not passed:
                put(state, S_PC, pc)
                if not passed:
                    record_outcome(m, OUTCOME_FAILED)
                    # Other lanes of the warp go first from now on: they may be the ones that it waits for.
                    put(m, M_FAILED, 1)
                    increase(state, S_ORDER, -LATER)
                    put(warp_address, W_CURRENT, -1)
                return issued
        elif op == OP_CLUSTER_BARRIER:
            if mask == np.uint32(0) or cluster_barrier(m, warp, warp_address, state, record, pc, mask):
                pc += 1
            else:
                _wait(m, warp_address, cell, mask)
                switch = True
        elif op == OP_CLUSTER_ADDRESS:
            if mask:
                cluster_address(m, warp, frame, constants, record, pc, mask)
            if get(m, M_STOP):
                return issued
            pc += 1
        elif op == OP_REMOTE:
            if mask:
                make_room(m, np.int64(32))
                issue_remote(m, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_CANCEL:
            if mask:
                make_room(m, np.int64(32) * get(m, M_CLUSTER))
                cancel(m, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_BULK:
            if mask:
                make_room(m, np.int64(32))
                run_bulk(m, op, warp, frame, constants, record, pc, mask)
                if get(m, M_STOP):
                    return issued
            pc += 1
        elif op == OP_TENSOR_CORE:
            if mask:
                make_room(m, np.int64(32))
                run_tensor(m, op, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_BULK_GROUP:
            if mask:
                run_bulk(m, op, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_FENCE:
            if mask and field(record, X0) == FENCE_MEMORY:
                if field(record, X1) > SCOPE_BLOCK:
                    put(warp_address, W_FENCED, 1)
                fence_memory(m, warp, field(record, X1))
            elif mask:
                fence_async(m, warp)
            pc += 1
        elif op in (OP_NOP, OP_ROWS):
            pc += 1
        elif op == OP_UNUSUAL:
            if mask:
                note_unusual(cell, frame, constants, record, mask)
            pc += 1
        elif op == OP_WGMMA_REGISTER:
            if mask:
                run_product(m, op, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_WATCH:
            if mask:
                watch_access(m, warp, frame, constants, record, pc, mask)
            pc += 1
        elif op == OP_ACTIVEMASK:
            fill_row32(operand(frame, constants, record, DST), np.uint64(mask), mask)
            pc += 1
        elif op == OP_SPECIAL:
            time = np.uint64(get(m, M_CLOCK) + get(m, M_TIME) + issued) >> np.uint64(32 * field(record, X0))
            if field(record, X1) == 64:
                fill_row64(operand(frame, constants, record, DST), time, mask)
            else:
                fill_row32(operand(frame, constants, record, DST), time, mask)
            pc += 1
        elif op == OP_PRINT:
            _print(m, warp, frame, constants, record, mask)
            pc += 1
        elif op in (
            OP_SHUFFLE, OP_VOTE, OP_MATCH, OP_REDUX, OP_ELECT, OP_WARP_SYNC, OP_MMA, OP_LDMATRIX, OP_STMATRIX,
            OP_MOVMATRIX, OP_WGMMA, OP_WGMMA_GROUP, OP_TENSOR_MEMORY,
        ):  # fmt: skip
            if mask == np.uint32(0) or _warp_exchange(
                m, warp, warp_address, state, op, frame, constants, record, pc, active, mask
            ):
                pc += 1
                if op in (OP_WGMMA, OP_TENSOR_MEMORY) and get(warp_address, W_STATUS) == STATUS_WAITING:
                    put(state, S_PC, pc)  # a product waits for other warps, an allocation for columns
                    return issued
            else:
                _wait(m, warp_address, cell, mask)
                switch = True
        else:
            if mask:
                kind = FAULT_TRAP if op == OP_TRAP else FAULT_UNSUPPORTED
                lane = np.int64(trailing_zeros32(mask))
                reason = field(record, X0) if op == OP_TRAP else 0
                message = np.int64(0)
                if reason == TRAP_ASSERTION:
                    message = load_i64(operand(frame, constants, record, SRC_A) + 8 * lane)
                report(m, kind, pc, warp, lane, message, 0, 0, -1, 0, reason)
                put(m, M_STOP, 1)
                return issued
            pc += 1
