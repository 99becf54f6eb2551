"""The search for hazards in tensor memory: is an access ordered behind those before it?

Every access is asynchronous. A warp's loads and stores are done when it has waited for them (tcgen05.wait), what the
tensor core does when a commit has reported it to an mbarrier that was waited for. Between threads the order takes a
tcgen05.fence::before_thread_sync, a synchronisation and a tcgen05.fence::after_thread_sync; a commit stands for the
first. (PTX ISA, "Memory Consistency Model for 5th generation of TensorCore operations".)

Vector clocks (see shadow.py) have two further parts for this: up to which clock of each warp a fence::before has come,
and up to which its operations are known to be done. Synchronisation passes both on. What fence::after makes of them, a
row for each warp, is its own. Two operations of the tensor core by one thread are in order, but for one that reads as
A what the other makes; the ISA promises less: it leaves open a copy behind a product. Columns may be deallocated behind
a load that its warp has not waited for, as CUTLASS does: what has used its registers has waited.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.clocks import clock_of, mbarrier_clocks, own_clock, pass_moment
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    F_COUNT,
    F_EXTRA,
    F_FIELDS,
    F_KIND,
    F_OTHER,
    FAULT_TENSOR_ORDER,
    FAULT_TENSOR_UNWRITTEN,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER_WARPS,
    M_FINDING_COUNT,
    M_FINDINGS,
    M_FIRST_WARP,
    M_PEERS,
    M_SHARED_SHADOW,
    M_TENSOR,
)
from warplab.emulator.core.state.raw import get, increase, load_i32, put, store_i32, trailing_zeros32
from warplab.emulator.core.state.tensor_layout import (
    A_CLOCK,
    A_KIND,
    A_PC,
    A_WARP,
    ACCESS_FIELDS,
    ALL_LANES,
    BY_FREEING,
    BY_LOAD,
    BY_OPERAND,
    BY_PENDING,
    BY_PRODUCT,
    BY_STORE,
    COLUMNS,
    HALF_LANES,
    HALVES,
    LOADERS,
    OPERAND_READERS,
    ORDER_AFTER,
    ORDER_BEFORE,
    ORDER_COMMIT,
    ORDER_FREEING,
    ORDER_REGISTER,
    ORDER_RELAXED,
    ORDER_SYNC,
    ORDER_WAIT_LOAD,
    ORDER_WAIT_STORE,
    P_COLUMN,
    P_COLUMNS,
    P_FIELDS,
    P_HALVES,
    P_PC,
    P_WRITES,
    PENDING,
    PENDING_FIELDS,
    T_AFTER,
    T_CELLS,
    T_PENDING,
    T_RELAXED,
    WARPS,
    X_FIELDS,
    X_READERS,
    X_READS,
    X_VALID,
    X_WRITE,
)


@compiled
def _cell(owner, half, column):
    return get(owner, M_TENSOR) + 8 * T_CELLS + 4 * X_FIELDS * (half * COLUMNS + column)


@compiled
def _fenced(m):
    """The column of a row of clocks where those start that a fence::before has followed."""
    return get(m, M_CLOCK_COLUMNS) - 2 * get(m, M_CLUSTER_WARPS)


@compiled
def _done(m):
    """The column where those start up to which operations of the tensor core are known to be done."""
    return get(m, M_CLOCK_COLUMNS) - get(m, M_CLUSTER_WARPS)


@compiled
def _known(m, warp, column):
    """An element of a warp's row of clocks."""
    return clock_of(get(m, M_CLOCKS), get(m, M_CLOCK_COLUMNS), get(m, M_FIRST_WARP) + warp, column)


@compiled
def _after(m, warp, part):
    """What a warp's last fence::after has made of the clocks fenced (0) or done (1): int32 for each of the cluster."""
    warps = get(m, M_CLUSTER_WARPS)
    return get(m, M_TENSOR) + 8 * T_AFTER + 4 * (part * WARPS + warp) * warps


@compiled
def clear_after(m):
    """No warp has fenced anything, as at the start of a block."""
    for place in range(2 * WARPS * get(m, M_CLUSTER_WARPS)):
        store_i32(_after(m, np.int64(0), 0) + 4 * place, np.int32(0))


# Fences


@compiled
def fence_before(m, warp):
    """tcgen05.fence::before_thread_sync."""
    if get(m, M_SHARED_SHADOW):
        me = get(m, M_FIRST_WARP) + warp
        row = get(m, M_CLOCKS) + 4 * me * get(m, M_CLOCK_COLUMNS)
        store_i32(row + 4 * (_fenced(m) + me), np.int32(own_clock(m, warp)))
        pass_moment(m, warp)


@compiled
def fence_after(m, warp):
    """tcgen05.fence::after_thread_sync."""
    if get(m, M_SHARED_SHADOW):
        for part in range(2):
            first, after = _done(m) if part else _fenced(m), _after(m, warp, part)
            for other in range(get(m, M_CLUSTER_WARPS)):
                store_i32(after + 4 * other, np.int32(_known(m, warp, first + other)))
        put(get(m, M_TENSOR), T_RELAXED + warp, 0)


@compiled
def release_done(m, warp, mbarrier, moment, done):
    """At an mbarrier: a fence::before of a warp at `moment`; what it asked of the tensor core until `done` is done."""
    if get(m, M_SHARED_SHADOW):
        me, kept = get(m, M_FIRST_WARP) + warp, mbarrier_clocks(m, mbarrier)
        for first, clock in ((_fenced(m), moment), (_done(m), done)):
            place = kept + 4 * (first + me)
            store_i32(place, max(load_i32(place), np.int32(clock)))


# Checks


@compiled
def _hazard(m, warp, earlier, mine):
    """What is missing between an earlier access and one of a warp's now; 0: nothing."""
    author, clock = np.int64(load_i32(earlier + 4 * A_WARP)), np.int64(load_i32(earlier + 4 * A_CLOCK))
    other, me, kind = author - 1, get(m, M_FIRST_WARP) + warp, np.int64(load_i32(earlier + 4 * A_KIND))
    if author == 0:
        return np.int64(0)
    if kind & BY_PENDING and not (kind & BY_LOAD and mine == BY_FREEING):
        return np.int64(ORDER_WAIT_LOAD if kind & BY_LOAD else ORDER_WAIT_STORE)
    if kind & ~BY_PENDING in (BY_LOAD, BY_STORE):
        if other == me:
            return np.int64(0)
    else:
        if clock <= np.int64(load_i32(_after(m, warp, 1) + 4 * other)):
            return np.int64(0)
        done = clock <= _known(m, warp, _done(m) + other)
        if mine == BY_FREEING:
            return np.int64(0) if done else np.int64(ORDER_COMMIT)
        if mine in (BY_LOAD, BY_STORE) or mine == BY_OPERAND and kind == BY_PRODUCT:
            return np.int64(ORDER_AFTER) if done else np.int64(ORDER_COMMIT)
        if other == me:
            return np.int64(0)
    synchronised = clock <= _known(m, warp, other)
    if mine == BY_FREEING:
        return np.int64(0) if synchronised else np.int64(ORDER_SYNC)
    if clock <= np.int64(load_i32(_after(m, warp, 0) + 4 * other)):
        return np.int64(0)
    if clock <= _known(m, warp, _fenced(m) + other):
        return np.int64(ORDER_AFTER)
    return np.int64(ORDER_BEFORE) if synchronised else np.int64(ORDER_SYNC)


@compiled
def _is_known(m, other, extra):
    """Is it reported that accesses behind this earlier one lack the same? An unrolled loop has hundreds of them."""
    for index in range(get(get(m, M_PEERS), M_FINDING_COUNT)):
        known = get(m, M_FINDINGS) + index * F_FIELDS * 8
        same = get(known, F_KIND) == FAULT_TENSOR_ORDER and get(known, F_EXTRA) == extra
        if same and get(known, F_OTHER) == other:
            increase(known, F_COUNT, 1)
            return True
    return False


@compiled
def _reader(cell, place):
    """A place for what a reader of a cell did last."""
    return cell + 4 * (X_READS + place * ACCESS_FIELDS)


@compiled
def _first_hazard(m, warp, cell, mine, writes):
    """What is missing between the accesses to a cell and one of a warp's now, and the earlier access; 0: nothing."""
    earlier = cell + 4 * X_WRITE
    hazard = _hazard(m, warp, earlier, mine)
    readers, place = load_i32(cell + 4 * X_READERS) if writes else np.int32(0), 0
    while hazard == 0 and readers >> place:
        if readers >> place & 1:
            earlier = _reader(cell, place)
            hazard = _hazard(m, warp, earlier, mine)
        place += 1
    return hazard, earlier


@compiled
def _check(m, warp, cell, mine, writes, address, pc, lane):
    """Report what is missing before an access to a cell; True if there was something."""
    hazard, earlier = _first_hazard(m, warp, cell, mine, writes)
    if hazard == 0:
        return False
    other, wrote = np.int64(load_i32(earlier + 4 * A_PC)), 1 if earlier == cell + 4 * X_WRITE else 0
    extra = hazard | (ORDER_FREEING if mine == BY_FREEING else 0)
    if get(get(m, M_TENSOR), T_RELAXED + warp):
        extra |= ORDER_RELAXED
    if _is_known(m, other, extra):
        return True
    report(m, FAULT_TENSOR_ORDER, pc, warp, lane, address, wrote, writes, other, 0, extra)
    return True


@compiled
def _note(m, warp, access, kind, pc):
    store_i32(access + 4 * A_WARP, np.int32(get(m, M_FIRST_WARP) + warp + 1))
    store_i32(access + 4 * A_CLOCK, np.int32(own_clock(m, warp)))
    store_i32(access + 4 * A_PC, np.int32(pc))
    store_i32(access + 4 * A_KIND, np.int32(kind))


@compiled
def _place_of_reader(m, warp, cell, kind):
    """The place for a warp among a cell's readers; of too many whose products read it the last one shares its own."""
    if kind == BY_LOAD:
        return warp // 4
    author = np.int32(get(m, M_FIRST_WARP) + warp + 1)
    place = LOADERS
    while place < LOADERS + OPERAND_READERS - 1:
        if not load_i32(cell + 4 * X_READERS) >> place & 1 or load_i32(_reader(cell, place) + 4 * A_WARP) == author:
            break
        place += 1
    return place


@compiled
def _first_unwritten(cell, lanes):
    """The first of some lanes (a mask) of a cell that nothing has written; -1: all are."""
    missing = lanes & ~np.int64(load_i32(cell + 4 * X_VALID))
    return np.int64(trailing_zeros32(np.uint32(missing))) if missing else np.int64(-1)


@compiled
def _report_unwritten(m, cell, half, lanes, address, column, pc, warp, lane):
    """Report lanes of a cell that are read though nothing has written them; False: there is none."""
    first = _first_unwritten(cell, lanes)
    if first < 0:
        return False
    report(m, FAULT_TENSOR_UNWRITTEN, pc, warp, lane, address, column, 0, -1, 0, half * HALF_LANES + first)
    return True


@compiled
def read_cells(m, owner, warp, halves, address, column, count, kind, pc, lane):
    """Check and note that `count` columns of some halves (a mask) are read by a warp, from now on until waited for.

    `owner` is the block whose tensor memory it is.
    """
    if get(m, M_SHARED_SHADOW) == 0:
        return
    noted = kind | BY_PENDING if kind == BY_LOAD else kind
    quiet = False
    for half in range(HALVES):
        if halves >> half & 1:
            for at in range(column, column + count):
                cell = _cell(owner, half, at)
                quiet = quiet or _report_unwritten(m, cell, half, ALL_LANES, address, at, pc, warp, lane)
                quiet = quiet or _check(m, warp, cell, kind, 0, address, pc, lane)
                place = _place_of_reader(m, warp, cell, kind)
                store_i32(cell + 4 * X_READERS, load_i32(cell + 4 * X_READERS) | np.int32(1 << place))
                _note(m, warp, _reader(cell, place), noted, pc)
    if kind == BY_LOAD:
        _note_pending(m, warp, 0, halves, column, count, pc)


@compiled
def check_written(m, owner, warp, lanes, address, column, count, pc, lane):
    """Report sums that a product goes on from though nothing has written them; `lanes`: a mask for each half."""
    if get(m, M_SHARED_SHADOW):
        for half in range(HALVES):
            for at in range(column, column + count):
                cell = _cell(owner, half, at)
                if _report_unwritten(m, cell, half, lanes[half], address, at, pc, warp, lane):
                    return


@compiled
def write_cells(m, owner, warp, lanes, address, column, count, kind, pc, lane):
    """Check and note that `count` columns of some lanes are written by a warp; `lanes`: a mask for each half."""
    if get(m, M_SHARED_SHADOW) == 0:
        return
    noted = kind | BY_PENDING if kind == BY_STORE else kind
    quiet, halves = False, np.int64(0)
    for half in range(HALVES):
        if lanes[half]:
            halves |= np.int64(1) << half
            for at in range(column, column + count):
                cell = _cell(owner, half, at)
                quiet = quiet or _check(m, warp, cell, kind, 1, address, pc, lane)
                store_i32(cell + 4 * X_VALID, load_i32(cell + 4 * X_VALID) | np.int32(lanes[half]))
                _note(m, warp, cell + 4 * X_WRITE, noted, pc)
                store_i32(cell + 4 * X_READERS, np.int32(0))
    if kind == BY_STORE:
        _note_pending(m, warp, 1, halves, column, count, pc)


@compiled
def lanes_of(halves):
    """All lanes of some halves (a mask), as a mask for each half."""
    lanes = np.zeros(HALVES, np.int64)
    for half in range(HALVES):
        if halves >> half & 1:
            lanes[half] = ALL_LANES
    return lanes


@compiled
def free_cells(m, warp, address, column, count, pc, lane):
    """Check that nobody uses columns that are deallocated, and forget what is in them."""
    quiet = get(m, M_SHARED_SHADOW) == 0
    for half in range(HALVES):
        for at in range(column, column + count):
            cell = _cell(m, half, at)
            quiet = quiet or _check(m, warp, cell, BY_FREEING, 1, address, pc, lane)
            for place in (X_VALID, X_READERS, X_WRITE + A_WARP):
                store_i32(cell + 4 * place, np.int32(0))


# Waiting


@compiled
def _pending(m, warp):
    return get(m, M_TENSOR) + 8 * (T_PENDING + warp * PENDING_FIELDS)


@compiled
def _note_pending(m, warp, writes, halves, column, count, pc):
    """Keep an access that its warp has to wait for; of too many the oldest count as waited for."""
    pending = _pending(m, warp)
    if get(pending, 0) == PENDING:
        _finish(m, warp, 0)
        _finish(m, warp, 1)
    entry = pending + 8 * (1 + get(pending, 0) * P_FIELDS)
    put(entry, P_WRITES, writes)
    put(entry, P_HALVES, halves)
    put(entry, P_COLUMN, column)
    put(entry, P_COLUMNS, count)
    put(entry, P_PC, pc)
    increase(pending, 0, 1)


@compiled
def _finish(m, warp, writes):
    pending, kept = _pending(m, warp), np.int64(0)
    me, clock = get(m, M_FIRST_WARP) + warp, np.int32(own_clock(m, warp))
    for index in range(get(pending, 0)):
        entry = pending + 8 * (1 + index * P_FIELDS)
        if get(entry, P_WRITES) != writes:
            target = pending + 8 * (1 + kept * P_FIELDS)
            for place in range(P_FIELDS):
                put(target, place, get(entry, place))
            kept += 1
            continue
        for half in range(HALVES):
            if get(entry, P_HALVES) >> half & 1:
                for at in range(get(entry, P_COLUMN), get(entry, P_COLUMN) + get(entry, P_COLUMNS)):
                    cell = _cell(m, half, at)
                    access = cell + 4 * X_WRITE if writes else _reader(cell, warp // 4)
                    kind = load_i32(access + 4 * A_KIND)
                    if load_i32(access + 4 * A_WARP) == me + 1 and kind & BY_PENDING:
                        store_i32(access + 4 * A_CLOCK, clock)
                        store_i32(access + 4 * A_KIND, np.int32(kind & ~BY_PENDING))
    put(pending, 0, kept)


@compiled
def check_loaded(m, warp, pc, lane):
    """A thread uses a register of a load: report it if the warp has not waited for its loads."""
    pending = _pending(m, warp)
    for index in range(get(pending, 0) if get(m, M_SHARED_SHADOW) else 0):
        entry = pending + 8 * (1 + index * P_FIELDS)
        if get(entry, P_WRITES) == 0:
            if not _is_known(m, get(entry, P_PC), ORDER_REGISTER):
                report(m, FAULT_TENSOR_ORDER, pc, warp, lane, 0, 0, 0, get(entry, P_PC), 0, ORDER_REGISTER)
            return


@compiled
def finish_accesses(m, warp, writes):
    """tcgen05.wait::st (`writes`) or ::ld: a warp's own accesses are done."""
    if get(m, M_SHARED_SHADOW):
        _finish(m, warp, writes)
