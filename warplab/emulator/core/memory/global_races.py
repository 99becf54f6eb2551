"""The search for races in global memory: who touched each element last, and whether anything orders the two accesses.

Inside a cluster the vector clocks of shadow.py tell, and inside a warp its epoch. Accesses of different clusters are
ordered by what causality.py has found, in kernels whose blocks run one after the other on one thread. The blocks of
other kernels can talk to each other by nothing: for each element it is kept which access was the first to read and to
write it and which was the first of another block; a race is what the host finds among those (see races.py).

Strong accesses (atomics, volatile, relaxed and the like) race with each other only if the scope of one is too small.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.causality import start_order, state_of_warp
from warplab.emulator.core.memory.cells import cells_of, cells_with, fill_cells, foreign_cells
from warplab.emulator.core.memory.conflicts import (
    block_number,
    check_access,
    check_constant,
    is_ordered,
    is_own,
    pc_of,
    record_of,
    segment_of,
)
from warplab.emulator.core.memory.transfer import data_operand, read_element
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    CONSTANT_BIT,
    EXPOSED_BIT,
    FAULT_PROXY,
    FULL_MASK,
    LANES,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER,
    M_CLUSTER_WARPS,
    M_CODE,
    M_FIRST_WARP,
    M_PEERS,
    M_RACE_WARPS,
    M_RACES,
    OP_LOAD,
    OP_STORE,
    R_CELL_FIRST,
    R_CELL_SHIFT,
    R_CELL_SLOT,
    R_CELLS,
    R_HOST,
    R_START,
    RECORD_BYTES,
    SPACE_GLOBAL,
    SRC_B,
    X1,
    X3,
)
from warplab.emulator.core.state.races_layout import (
    ACCESS_SHIFT,
    CELL_OLDER_READ,
    CELL_READ,
    CELL_STRONG,
    CELL_WRITE,
    EXTENT_FIELDS,
    EXTENT_READ,
    EXTENT_WRITTEN,
    FIRST_READ,
    FIRST_WRITE,
    G_ACCESSES,
    G_BASE,
    G_CELLS,
    G_CROSSED,
    G_EXTENTS,
    G_FIRST,
    G_LIVE,
    G_MANY,
    G_NEXT,
    G_OFF,
    G_STRIDE,
    G_VALUES,
    LANE_SHIFT,
    LANE_STEP,
    LIVE_READERS,
    MIXED,
    MORE,
    NEVER,
    OTHER_WRITE,
    RECORD_CLOCK,
    RECORD_WARP,
    S_FIELDS,
    S_SAW,
    S_SEEN,
    S_SEEN_COUNT,
    SAW,
    SCOPE,
    SEEN,
    SEGMENT_SHIFT,
    SEVERAL,
    TOUCHED,
    TOUCHED_SHIFT,
    WARP_SHIFT,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    increase,
    load_i32,
    load_i64,
    load_u32,
    put,
    store_i64,
    store_u32,
)


@compiled
def start_cluster(m):
    """A new cluster: what others did is of others from now on."""
    races = get(m, M_RACES)
    if races == 0:
        return
    if get(races, G_FIRST) != NEVER:
        put(races, G_FIRST, get(races, G_NEXT))
    if get(races, G_LIVE) == 0:
        put(races, G_BASE, get(races, G_NEXT))
    for place in range(get(m, M_CLUSTER_WARPS) * S_FIELDS):
        put(get(m, M_RACE_WARPS), place, 0)
    start_order(m, races)


@compiled
def _owner(m):
    """Whose an access is where blocks are told apart later: the number of the cluster's first block, plus one."""
    return block_number(get(m, M_PEERS)) + 1


# One cell


@compiled
def _address_of_cell(races, entry, cell, kind):
    return get(races, G_CELLS) + kind * get(races, G_STRIDE) + 8 * (get(entry, R_CELL_FIRST) + cell)


@compiled
def _merged(old, mine):
    """An entry for one instruction of which several lanes, or one with several elements, touch a cell."""
    if ((old ^ mine) >> LANE_SHIFT) & 31:
        mine |= SEVERAL
    return mine | (old & (TOUCHED | SEVERAL | MORE))


@compiled
def _with_earlier_lane(old, mine):
    """A read that takes the place of an earlier one; of several lanes, if another lane made that at the same moment."""
    same_moment = old >> SEGMENT_SHIFT == mine >> SEGMENT_SHIFT
    other_lane = (old ^ mine) & (31 << LANE_SHIFT) != 0 or old & SEVERAL != 0
    return mine | SEVERAL if same_moment and other_lane and mine & TOUCHED & ~old == 0 else mine


@compiled
def _is_same_access(old, mine):
    """One instruction of one warp, between the same two moments?"""
    return old >> WARP_SHIFT == mine >> WARP_SHIFT


@compiled
def _check_writes(m, races, entry, warp, pc, lane, cell, mine, write, same):
    """Check an access against the last writes to a cell, the ordinary one and the strong one."""
    at = _address_of_cell(races, entry, cell, CELL_WRITE)
    oldest = get(races, G_BASE) << SEGMENT_SHIFT
    old = load_i64(at)
    found = old >= oldest and check_access(m, races, entry, warp, pc, lane, cell, mine, write, old, 1, same)
    if not found and get(races, G_LIVE):
        old = load_i64(at + CELL_STRONG * get(races, G_STRIDE))
        found = old >= oldest and check_access(m, races, entry, warp, pc, lane, cell, mine, write, old, 1, same)
    return found


@compiled
def _is_constant(m, pc):
    """Is an instruction a load of what no thread may write during the launch?"""
    record = get(m, M_CODE) + pc * 64
    return np.int64(load_i32(record)) == OP_LOAD and field(record, X3) & CONSTANT_BIT != 0


@compiled
def _further_reader(races, number):
    """The kind of entry of a reader beside CELL_READ; -1: there is no more room."""
    if number == 0:
        return np.int64(CELL_OLDER_READ)
    # Where blocks are compared as they run, the last kinds have no other use.
    return np.int64(FIRST_WRITE + number - 1) if get(races, G_LIVE) and number <= LIVE_READERS else np.int64(-1)


@compiled
def _keep_reader(m, races, entry, warp, cell, mine):
    """Keep a third reader and those after it, in the place of one that comes before it, or in one that is free."""
    number = 0
    while True:
        kind = _further_reader(races, number)
        if kind < 0:
            return
        at = _address_of_cell(races, entry, cell, kind)
        segment = load_i64(at) >> SEGMENT_SHIFT
        if segment < get(races, G_BASE) or is_ordered(m, races, warp, record_of(races, segment), segment):
            if number:
                put(races, G_MANY, 1)
            store_i64(at, mine)
            return
        number += 1


@compiled
def _read_cell(m, races, entry, warp, pc, lane, cell, mine):
    at = _address_of_cell(races, entry, cell, CELL_WRITE)
    if not (_is_constant(m, pc) and check_constant(m, races, entry, warp, pc, lane, cell, mine, load_i64(at))):
        _check_writes(m, races, entry, warp, pc, lane, cell, mine, 0, False)
    at = _address_of_cell(races, entry, cell, CELL_READ)
    old = load_i64(at)
    if old < get(races, G_BASE) << SEGMENT_SHIFT:
        store_i64(at, mine)
    elif _is_same_access(old, mine):
        store_i64(at, _merged(old, mine))
    else:
        record = record_of(races, old >> SEGMENT_SHIFT)
        own = is_own(m, races, old >> SEGMENT_SHIFT)
        own = own and np.int64(load_i32(record + 4 * RECORD_WARP)) == get(m, M_FIRST_WARP) + warp
        if own and mine & SCOPE and old & SCOPE == 0:
            return  # an ordinary read races with more than a strong one
        if own or is_ordered(m, races, warp, record, old >> SEGMENT_SHIFT):
            store_i64(at, _with_earlier_lane(old, mine) | (old & MORE))
        elif old & MORE == 0:
            store_i64(at + get(races, G_STRIDE), old)
            store_i64(at, mine | MORE)
        else:
            _keep_reader(m, races, entry, warp, cell, mine)


@compiled
def _write_cell(m, races, entry, warp, pc, lane, cell, mine, place, size, value, near):
    """A write of `value` to `size` bytes from `place` in the region on; size 0: of an atomic. `near`: see _use."""
    oldest = get(races, G_BASE) << SEGMENT_SHIFT
    same = size and read_element(get(entry, R_HOST) + place, size, 0) == value
    found = _check_writes(m, races, entry, warp, pc, lane, cell, mine, 1, same)
    if near:
        at = _address_of_cell(races, entry, cell, CELL_READ)
        old = load_i64(at)
        if old >= oldest and not found:
            found = check_access(m, races, entry, warp, pc, lane, cell, mine, 1, old, 0, False)
            number = 0
            kind = _further_reader(races, number) if old & MORE else np.int64(-1)
            while kind >= 0 and not found:
                older = load_i64(_address_of_cell(races, entry, cell, kind))
                if older >= oldest:
                    found = check_access(m, races, entry, warp, pc, lane, cell, mine, 1, older, 0, False)
                number += 1
                kind = _further_reader(races, number)
    at = _address_of_cell(races, entry, cell, CELL_STRONG if mine & SCOPE else CELL_WRITE)
    old = load_i64(at)
    store_i64(at, _merged(old, mine) if old >= oldest and _is_same_access(old, mine) else mine)


@compiled
def _first_of_cell(races, entry, cell, mine, block, write, value, near):
    """Keep the first access of all to a cell, and the first of another block. `mine`: the lower half of an entry."""
    index = get(entry, R_CELL_FIRST) + cell
    stride = get(races, G_STRIDE)
    at = get(races, G_CELLS) + (FIRST_WRITE if write else FIRST_READ) * stride + 8 * index
    values = get(races, G_VALUES) + 4 * index
    old = load_i64(at)
    if old == 0:
        store_i64(at, block << SEGMENT_SHIFT | mine)
        if write:
            store_u32(values, value)
        if not near:
            return
        beside = at + stride if write else at - stride  # the first access of the other kind, and that of another block
        other = load_i64(beside)
        if other and (other >> SEGMENT_SHIFT != block or load_i64(beside + (OTHER_WRITE - FIRST_WRITE) * stride)):
            put(races, G_CROSSED, 1)
        return
    if write and load_u32(values) != value:
        store_i64(at, old | MIXED)
    if old >> SEGMENT_SHIFT != block:
        if write or (near and load_i64(at - stride)):
            put(races, G_CROSSED, 1)
        at += (OTHER_WRITE - FIRST_WRITE) * stride
        if load_i64(at) == 0:
            store_i64(at, block << SEGMENT_SHIFT | mine)


# The accesses of a warp. `strong` is the scope and the order of the access, 0 of an ordinary one.


@compiled
def _element(frame, constants, record, lane, place):
    """What a store's lane writes at a byte of its own."""
    size, lane_bytes = field(record, X1), field(record, X3) & 0xFF
    row = data_operand(frame, constants, record, place // size, SRC_B)
    return read_element(row + lane * lane_bytes, size, 0)


@compiled
def _folded(value):
    """32 bits that stand for a value, itself if it has no more; a factor tells 0 from -1 and other equal halves."""
    upper = (value >> np.uint64(32)) * np.uint64(0x9E3779B1)
    return np.uint32((value ^ upper) & np.uint64(FULL_MASK))


@compiled
def _use(races, entry, first, last, write):
    """Cells of a region are read or written in this launch. Has one between them been written, or read, before?"""
    extent = get(races, G_EXTENTS) + 8 * EXTENT_FIELDS * get(entry, R_CELL_SLOT)
    mine, other = (EXTENT_WRITTEN, EXTENT_READ) if write else (EXTENT_READ, EXTENT_WRITTEN)
    put(extent, mine, min(get(extent, mine), first))
    put(extent, mine + 1, max(get(extent, mine + 1), last))
    return first <= get(extent, other + 1) and last >= get(extent, other)


@compiled
def _access_of(races, pc):
    return np.int64(load_i32(get(races, G_ACCESSES) + 4 * pc))


@compiled
def _lane_cells(m, races, entry, warp, frame, constants, record, pc, lane, place, size, write, mine):
    """The cells of one lane's access of `size` bytes at `place` of a region."""
    shift, count = get(entry, R_CELL_SHIFT), get(entry, R_CELLS)
    first, last = place >> shift, min((place + size - 1) >> shift, count - 1)
    mine += lane << LANE_SHIFT
    live = get(races, G_LIVE)
    near = _use(races, entry, first, last, write)
    for cell in range(first, last + 1):
        low, high = max(place - (cell << shift), 0), min(place + size - (cell << shift), 1 << shift)
        one = mine
        if high - low < 1 << shift:
            # A byte of a cell of 4 is a bit; cells of 8 have one for each two.
            wide = max(shift - 2, 0)
            bits = ((1 << ((high + (1 << wide) - 1) >> wide)) - 1) & ~((1 << (low >> wide)) - 1)
            one = (mine & ~TOUCHED) | bits << TOUCHED_SHIFT
        value = np.uint64(0)
        bytes_ = np.int64(0)
        at = place
        if write and record:
            bytes_ = field(record, X1)
            inside = max((cell << shift) - place, 0) // bytes_ * bytes_
            at = place + inside
            value = _element(frame, constants, record, lane, inside)
        if write:
            _write_cell(m, races, entry, warp, pc, lane, cell, one, at, bytes_, value, near)
        else:
            _read_cell(m, races, entry, warp, pc, lane, cell, one)
        if live == 0:
            # What a copy writes is not known: it counts as different each time.
            lower = (one & FULL_MASK) | (MIXED if write and record == 0 else 0)
            _first_of_cell(races, entry, cell, lower, _owner(m), write, _folded(value), near)


@compiled
def note_lane(m, entry, warp, frame, constants, record, pc, lane, place, size, write, strong, several):
    """One lane's access of `size` bytes at `place` of a region. `record` 0: an atomic or a copy, of no known value."""
    races = get(m, M_RACES)
    access = _access_of(races, pc)
    if get(races, G_OFF) or access < 0 or place >> get(entry, R_CELL_SHIFT) >= get(entry, R_CELLS):
        return
    mine = segment_of(m, races, warp) << SEGMENT_SHIFT | access << ACCESS_SHIFT | warp << WARP_SHIFT
    mine |= TOUCHED | (strong & SCOPE) | (SEVERAL if several else 0)
    if not write and strong & SCOPE:
        note_seen(m, entry, warp, place, field(record, X3) & EXPOSED_BIT)
    _lane_cells(m, races, entry, warp, frame, constants, record, pc, lane, place, size, write, mine)


@compiled
def check_handed_over(m, entry, warp, pc, lane, place, size):
    """Report bytes that an asynchronous copy reads and a thread of the cluster has written with no proxy fence since.

    Only where blocks are compared after the launch. Writes that the warp does not know of are races anyway.
    """
    races, warps, columns = get(m, M_RACES), get(m, M_CLUSTER_WARPS), get(m, M_CLOCK_COLUMNS)
    if get(races, G_OFF) or columns == warps:
        return
    shift = get(entry, R_CELL_SHIFT)
    row = get(m, M_CLOCKS) + 4 * (get(m, M_FIRST_WARP) + warp) * columns
    for cell in range(place >> shift, min((place + size - 1) >> shift, get(entry, R_CELLS) - 1) + 1):
        old = load_i64(_address_of_cell(races, entry, cell, CELL_WRITE))
        segment = old >> SEGMENT_SHIFT
        if segment < get(races, G_BASE) or not is_own(m, races, segment):
            continue
        op = np.int64(load_i32(get(m, M_CODE) + pc_of(races, old) * RECORD_BYTES))
        record = record_of(races, segment)
        writer, clock = np.int64(load_i32(record + 4 * RECORD_WARP)), load_i32(record + 4 * RECORD_CLOCK)
        unfenced = load_i32(row + 4 * (warps + writer)) < clock <= load_i32(row + 4 * writer)
        if op == OP_STORE and unfenced:
            address = get(entry, R_START) + (cell << shift)
            size = np.int64(1) << shift
            report(m, FAULT_PROXY, pc, warp, lane, address, size, 0, pc_of(races, old), SPACE_GLOBAL, 0)
            return


@compiled
def note_run(m, entry, warp, frame, constants, record, pc, lane, lanes, place, size, write, strong):
    """Neighbouring lanes from `lane` on access `size` bytes each, side by side from `place` of a region on."""
    races = get(m, M_RACES)
    access = _access_of(races, pc)
    shift = get(entry, R_CELL_SHIFT)
    each = size >> shift  # cells a lane
    room = get(entry, R_CELLS) - (place >> shift)
    if get(races, G_OFF) or access < 0 or room <= 0:
        return
    mine = segment_of(m, races, warp) << SEGMENT_SHIFT | access << ACCESS_SHIFT | warp << WARP_SHIFT
    mine |= TOUCHED | (strong & SCOPE)
    if strong and not write:
        for other in range(lanes):
            note_seen(m, entry, warp, place + other * size, field(record, X3) & EXPOSED_BIT)
    if lanes < LANES or each == 0 or room < LANES * each or place & ((1 << shift) - 1):
        for other in range(lanes):
            at = place + other * size
            if at >> shift < get(entry, R_CELLS):
                _lane_cells(m, races, entry, warp, frame, constants, record, pc, lane + other, at, size, write, mine)
        return
    spread = np.int64(0)
    while 1 << spread < each:
        spread += 1
    first = place >> shift
    near = _use(races, entry, first, first + LANES * each - 1, write)
    for group in range(each):
        start = first + group * LANES
        _row_of_cells(m, races, entry, warp, frame, constants, record, pc, start, spread, group, write, mine, near)


@compiled
def _row_of_cells(m, races, entry, warp, frame, constants, record, pc, first, spread, group, write, mine, near):
    """32 neighbouring cells from `first` on, `1 << spread` a lane, the group-th such row of a warp's access."""
    stride = get(races, G_STRIDE)
    at = _address_of_cell(races, entry, first, 0)
    start = mine + ((group * LANES) >> spread) * LANE_STEP
    own = get(races, G_FIRST) if get(m, M_CLUSTER) == 1 else np.int64(NEVER)
    # Strong accesses, and cells that have had one, are compared one by one.
    foreign = np.uint32(mine & SCOPE)
    if get(races, G_LIVE):
        foreign |= foreign_cells(at + CELL_STRONG * stride, start, spread, get(races, G_BASE), np.int64(NEVER))
    if near and not write and _is_constant(m, pc):
        foreign |= np.uint32(FULL_MASK)
    if write or near:
        foreign |= foreign_cells(at, start, spread, get(races, G_BASE), own)
    if near or not write:
        foreign |= foreign_cells(at + stride, start, spread, get(races, G_BASE), own)
    if foreign == np.uint32(0):
        fill_cells(at if write else at + stride, start, spread)
    else:
        shift = get(entry, R_CELL_SHIFT)
        for i in range(LANES):
            lane = (group * LANES + i) >> spread
            one = mine + lane * LANE_STEP
            if write:
                size = field(record, X1)
                inside = ((((group * LANES + i) & ((1 << spread) - 1)) << shift) // size) * size
                value = _element(frame, constants, record, lane, inside)
                place = ((first + i) << shift) // size * size
                _write_cell(m, races, entry, warp, pc, lane, first + i, one, place, size, value, near)
            else:
                _read_cell(m, races, entry, warp, pc, lane, first + i, one)
    if get(races, G_LIVE) == 0:
        _first_of_row(m, races, entry, frame, constants, record, first, spread, group, write, start, near)


@compiled
def _first_of_row(m, races, entry, frame, constants, record, first, spread, group, write, start, near):
    """As _first_of_cell for 32 neighbouring cells."""
    stride = get(races, G_STRIDE)
    at = _address_of_cell(races, entry, first, FIRST_WRITE if write else FIRST_READ)
    block = _owner(m)
    full = np.uint32(FULL_MASK)
    if cells_of(at, block) == full:
        if not write or cells_with(at, np.int64(MIXED)) == full:
            return
    elif not write and cells_of(at, np.int64(0)) | cells_of(at + 2 * stride, np.int64(0)) == np.uint32(0):
        return
    lower = start & FULL_MASK
    beside = at + stride if write else at - stride
    plain = field(record, X1) == 4 and field(record, X3) & 0xFF == 4 and get(entry, R_CELL_SHIFT) == 2
    if cells_of(at, np.int64(0)) == full and (plain or not write):
        alone = not near or (
            (cells_of(beside, np.int64(0)) | cells_of(beside, block)) == full
            and cells_of(beside + 2 * stride, np.int64(0)) == full
        )
        if alone:
            fill_cells(at, block << SEGMENT_SHIFT | lower, spread)
            if write:
                values = get(races, G_VALUES) + 4 * (get(entry, R_CELL_FIRST) + first)
                for element in range(1 << spread):
                    row = data_operand(frame, constants, record, element, SRC_B) + 4 * ((group * LANES) >> spread)
                    for lane in range(LANES >> spread):
                        store_u32(values + 4 * ((lane << spread) + element), load_u32(row + 4 * lane))
            return
    shift = get(entry, R_CELL_SHIFT)
    for i in range(LANES):
        lane = (group * LANES + i) >> spread
        value = np.uint64(0)
        if write:
            inside = ((group * LANES + i) & ((1 << spread) - 1)) << shift
            value = _element(frame, constants, record, lane, inside // field(record, X1) * field(record, X1))
        one = lower + ((i >> spread) << LANE_SHIFT)
        _first_of_cell(races, entry, first + i, one, block, write, _folded(value), near)


@compiled
def note_seen(m, entry, warp, place, exposed):
    """A strong read, before it is noted itself: keep which strong write of another warp it sees."""
    races = get(m, M_RACES)
    cell = place >> get(entry, R_CELL_SHIFT)
    if get(races, G_OFF) or cell >= get(entry, R_CELLS):
        return
    old = load_i64(_address_of_cell(races, entry, cell, CELL_STRONG))
    segment = old >> SEGMENT_SHIFT
    if exposed or old & SCOPE == 0 or segment < get(races, G_BASE):
        return
    state = state_of_warp(m, warp)
    index = get(entry, R_CELL_FIRST) + cell
    put(state, S_SAW + 2 * (index % SAW), index + 1)
    put(state, S_SAW + 2 * (index % SAW) + 1, segment)
    if is_own(m, races, segment):
        return
    seen = segment << 2 | (old & SCOPE)
    count = get(state, S_SEEN_COUNT)
    if count == 0 or get(state, S_SEEN + (count - 1) % SEEN) != seen:
        put(state, S_SEEN + count % SEEN, seen)
        increase(state, S_SEEN_COUNT, 1)
