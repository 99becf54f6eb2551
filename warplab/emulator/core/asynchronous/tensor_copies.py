"""Boxes of a tensor to and from shared memory, as a tensor map describes them.

A box lies in shared memory row by row, without gaps, or with a swizzle each row at a multiple of what that spans. The
swizzle then moves each 16 bytes: the bits of the *address* that count rows of 128 bytes are added (exclusive or) to the
bits that count 16 bytes in such a row (PTX ISA, tensors, swizzling modes). Elements outside of the tensor are filled by
a load and skipped by a store; but a store writes 16 bytes at once, so that a row has to end with such.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.atomics import combine
from warplab.emulator.core.memory.global_access import fault_kind, region_offset, resolve
from warplab.emulator.core.memory.global_races import check_handed_over, note_lane
from warplab.emulator.core.memory.request_log import log_span
from warplab.emulator.core.memory.shadow import check_async_read, check_read
from warplab.emulator.core.memory.transfer import read_element, sum_of_bytes, write_element
from warplab.emulator.core.state.bulk_layout import (
    BOX_BITS,
    MAP_BYTES,
    MAP_MAGIC,
    MAX_BOX,
    MAX_STEP,
    META_KIND_SHIFT,
    META_ROWS,
    META_SIZE_SHIFT,
    META_SWIZZLE_SHIFT,
    O_AT,
    O_MAP,
    O_SPAN,
    STEP_BITS,
    T_ADDRESS,
    T_BOX,
    T_FILL,
    T_MAGIC,
    T_META,
    T_SHAPE,
    T_STEPS,
    T_STRIDES,
)
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    FAULT_OUT_OF_BOUNDS,
    FAULT_READ_ONLY,
    FAULT_UNINITIALISED,
    M_RACES,
    R_BYTES,
    R_CELLS,
    R_FIRST_STORE,
    R_FLAGS,
    R_HOST,
    R_SHADOW,
    R_TRACKED,
    R_WRITABLE,
    SPACE_GLOBAL,
)
from warplab.emulator.core.state.races_layout import G_LIVE, SCOPE_GPU
from warplab.emulator.core.state.raw import copy_bytes, fill_bytes, get, load_u8, put, store_u64

_ROWS = np.int64(4)  # of a gather or scatter
LOAD_TILE, CHECK_TILE, STORE_TILE = range(3)
MAX_REACH = 2.0**60  # bytes: offsets in a tensor are whole numbers of 64 bits


@compiled
def find_map(m, address, rank, tensor):
    """Copy the tensor map at an address to `tensor`; False if there is none of that rank.

    Only the copy is used from then on. A kernel can write what it likes into a map, so nothing in it is taken for
    granted: a copy that passes here describes a box whose rows lie where tile_span says, swizzled or not.
    """
    entry = resolve(m, address, MAP_BYTES, 64)
    if entry == 0:
        return False
    copy_bytes(tensor, get(entry, R_HOST) + region_offset(entry, address), MAP_BYTES)
    meta = get(tensor, T_META) & ~META_ROWS
    put(tensor, T_META, meta)
    size = (meta >> META_SIZE_SHIFT) & 255
    if get(tensor, T_MAGIC) != MAP_MAGIC or meta & 255 != rank or size not in (1, 2, 4, 8):
        return False
    for i in range(5):
        box, step = box_of(tensor, i), step_of(tensor, i)
        if not (1 <= box <= MAX_BOX and 1 <= step <= MAX_STEP and 1 <= get(tensor, T_SHAPE + i) <= 1 << 32):
            return False
    for i in range(4):
        if not 0 <= get(tensor, T_STRIDES + i) < 1 << 40:
            return False
    row, swizzle = count_of(tensor, 0) * size, (meta >> META_SWIZZLE_SHIFT) & 255
    if swizzle not in (0, 1, 3, 7) or row & 15 or (swizzle and row > 16 * (swizzle + 1)):
        return False
    return _reach(tensor) < MAX_REACH


@compiled
def _reach(tensor):
    """Bytes from a tensor's start to its last element, as a float: the product may be beyond 64 bits."""
    reach = 8.0 * get(tensor, T_SHAPE)
    for i in range(4):
        reach += float(get(tensor, T_SHAPE + i + 1)) * float(get(tensor, T_STRIDES + i))
    return reach


@compiled
def box_of(tensor, i):
    """Elements that a box spans along dimension i."""
    return (get(tensor, T_BOX) >> (BOX_BITS * i)) & ((1 << BOX_BITS) - 1)


@compiled
def step_of(tensor, i):
    """Elements from one that is copied to the next, along dimension i."""
    return (get(tensor, T_STEPS) >> (STEP_BITS * i)) & ((1 << STEP_BITS) - 1)


@compiled
def count_of(tensor, i):
    """Elements that are copied along dimension i."""
    return (box_of(tensor, i) + step_of(tensor, i) - 1) // step_of(tensor, i)


@compiled
def tile_bytes(tensor):
    """Bytes of a box in shared memory."""
    total = (get(tensor, T_META) >> META_SIZE_SHIFT) & 255
    for i in range(5):
        total *= count_of(tensor, i)
    return total


@compiled
def _pitch(tensor):
    """Bytes of shared memory from one row of a box to the next: a swizzled row takes all that the swizzle spans."""
    rows = (get(tensor, T_META) >> META_SWIZZLE_SHIFT) & 7
    row = count_of(tensor, 0) * ((get(tensor, T_META) >> META_SIZE_SHIFT) & 255)
    return 16 * (rows + 1) if rows else row


@compiled
def rows_of(tensor):
    """Rows of a box."""
    return count_of(tensor, 1) * count_of(tensor, 2) * count_of(tensor, 3) * count_of(tensor, 4)


@compiled
def tile_span(tensor):
    """Bytes of shared memory from the first to the last that a box may lie in."""
    return rows_of(tensor) * _pitch(tensor)


@compiled
def readable(m, address, size, unit, pc, warp, lane):
    """The host address of bytes to read; 0 after a report if they are not all there. `unit`: bytes of an element."""
    entry = resolve(m, address, size, 1)
    if entry == 0:
        _report_outside(m, address, size, unit, 0, pc, warp, lane)
        return np.int64(0)
    if get(entry, R_FLAGS) & R_TRACKED:
        shadow = get(entry, R_SHADOW) + region_offset(entry, address)
        for i in range(size):
            if load_u8(shadow + i) == 0:
                at = address + i // unit * unit
                report(m, FAULT_UNINITIALISED, pc, warp, lane, at, unit, 0, -1, SPACE_GLOBAL, 0)
                fill_bytes(shadow, np.uint8(1), size)
                break
    return get(entry, R_HOST) + region_offset(entry, address)


@compiled
def writable(m, address, size, unit, pc, warp, lane, strong):
    """The host address of bytes to write, which count as written from now on; 0 after a report if they cannot be.

    `strong` is the scope of a reduction, 0 of a store.
    """
    entry = resolve(m, address, size, 1)
    if entry == 0:
        _report_outside(m, address, size, unit, 1, pc, warp, lane)
        return np.int64(0)
    if not get(entry, R_FLAGS) & R_WRITABLE:
        report(m, FAULT_READ_ONLY, pc, warp, lane, address, unit, 1, -1, SPACE_GLOBAL, 0)
        return np.int64(0)
    if get(entry, R_FIRST_STORE) < 0:
        put(entry, R_FIRST_STORE, pc)
    if get(entry, R_FLAGS) & R_TRACKED:
        fill_bytes(get(entry, R_SHADOW) + region_offset(entry, address), np.uint8(1), size)
    if get(entry, R_CELLS):
        place, none = region_offset(entry, address), np.int64(0)
        note_lane(m, entry, warp, none, none, none, pc, lane, place, size, 1, strong, 0)
    return get(entry, R_HOST) + region_offset(entry, address)


@compiled
def _report_outside(m, address, size, unit, write, pc, warp, lane):
    """Report the first of the bytes that is in no region."""
    at = address
    entry = resolve(m, address, 1, 1)
    if entry:
        at = address + get(entry, R_BYTES) - region_offset(entry, address)
    report(m, fault_kind(m, at, 1), pc, warp, lane, at, unit, write, -1, SPACE_GLOBAL, 0)


@compiled
def reduce_bytes(target, source, size, unit, kind, operation):
    """Combine `size` bytes at `source` into those at `target`, element by element of `unit` bytes."""
    for place in range(0, size, unit):
        value = read_element(source + place, unit, 0)
        old = read_element(target + place, unit, 0)
        write_element(target + place, unit, combine(old, value, value, operation, kind, unit))


@compiled
def _fill(host, pattern):
    store_u64(host, np.uint64(pattern))
    store_u64(host + 8, np.uint64(pattern))


@compiled
def take_four_rows(tensor):
    """Make the box of a copied map, of one row in two dimensions, one of four; False if it is another."""
    if count_of(tensor, 1) != 1:
        return False
    box = get(tensor, T_BOX) & ~(((np.int64(1) << BOX_BITS) - 1) << BOX_BITS)
    put(tensor, T_BOX, box | _ROWS << BOX_BITS)
    steps = get(tensor, T_STEPS) & ~(((np.int64(1) << STEP_BITS) - 1) << STEP_BITS)
    put(tensor, T_STEPS, steps | np.int64(1) << STEP_BITS)
    put(tensor, T_META, get(tensor, T_META) | META_ROWS)
    return True


@compiled
def _row_offset(tensor, row, at):
    """The offset in bytes of a box's row from the tensor's start, its first coordinate aside; -1 if it is outside."""
    if get(tensor, T_META) & META_ROWS:
        index = get(at, 1 + row)
        inside = 0 <= index < get(tensor, T_SHAPE + 1)
        return index * get(tensor, T_STRIDES) if inside else np.int64(-1)
    offset = np.int64(0)
    for i in range(1, 5):
        count = count_of(tensor, i)
        index = get(at, i) + row % count * step_of(tensor, i)
        if index < 0 or index >= get(tensor, T_SHAPE + i):
            return np.int64(-1)
        offset += index * get(tensor, T_STRIDES + i - 1)
        row //= count
    return offset


@compiled
def starts_well(operation, store):
    """Can a box start at an operation's coordinates? An H200 ends the kernel if not."""
    at, tensor = operation + 8 * O_AT, operation + 8 * O_MAP
    size = (get(tensor, T_META) >> META_SIZE_SHIFT) & 255
    good = get(at, 0) * size & 15 == 0
    for i in range(5):
        good = good and not (store and get(at, i) < 0)
    return good


@compiled
def _columns_inside(tensor, first):
    """The range of a row's elements that lie in the tensor, if the row does."""
    columns = count_of(tensor, 0)
    low = min(max(-first, np.int64(0)), columns)
    return low, max(min(columns, get(tensor, T_SHAPE) - first), low)


@compiled
def tile_sectors(m, operation, kind):
    """Sectors of global memory that a box's elements lie in; rows that share one count it once.

    They are logged as requests of a kind, unless it is -1.
    """
    at, tensor = operation + 8 * O_AT, operation + 8 * O_MAP
    size = (get(tensor, T_META) >> META_SIZE_SHIFT) & 255
    low, high = _columns_inside(tensor, get(at, 0))
    total, previous = np.int64(0), np.int64(-1)
    if low == high:
        return total
    for row in range(rows_of(tensor)):
        offset = _row_offset(tensor, row, at)
        if offset >= 0:
            start = get(tensor, T_ADDRESS) + offset + get(at, 0) * size
            begin, end = (start + low * size) >> 5, (start + high * size - 1) >> 5
            begin += 1 if begin == previous else 0
            if begin <= end:
                total += end - begin + 1
                if kind >= 0:
                    log_span(m, begin << 5, (end - begin + 1) << 5, kind)
            previous = end
    return total


@compiled
def note_read(m, address, size, pc, warp, lane):
    """Tell the search for races of bytes that a copy may read from now on, at the moment when it is issued.

    Who waits for the copy's mbarrier knows of all that its thread did until then. Where blocks wait for each other a
    copy may begin before its source is whole, and be asked for again: there nothing is told.
    """
    entry = resolve(m, address, size, 1)
    if entry and get(entry, R_CELLS) and get(get(m, M_RACES), G_LIVE) == 0:
        none, place = np.int64(0), region_offset(entry, address)
        check_handed_over(m, entry, warp, pc, lane, place, size)
        note_lane(m, entry, warp, none, none, none, pc, lane, place, size, 0, none, 0)


@compiled
def note_tile(m, warp, operation, pc, lane):
    """The same of the box whose coordinates an operation holds."""
    at, tensor = operation + 8 * O_AT, operation + 8 * O_MAP
    size = (get(tensor, T_META) >> META_SIZE_SHIFT) & 255
    low, high = _columns_inside(tensor, get(at, 0))
    for row in range(rows_of(tensor) if low < high else 0):
        offset = _row_offset(tensor, row, at)
        if offset >= 0:
            start = get(tensor, T_ADDRESS) + offset + (get(at, 0) + low) * size
            note_read(m, start, (high - low) * size, pc, warp, lane)


@compiled
def tile_sum(m, operation):
    """A number that tells whether the elements of a box have changed in global memory."""
    at, tensor = operation + 8 * O_AT, operation + 8 * O_MAP
    size = (get(tensor, T_META) >> META_SIZE_SHIFT) & 255
    low, high = _columns_inside(tensor, get(at, 0))
    total = np.int64(0)
    for row in range(rows_of(tensor) if low < high else 0):
        offset = _row_offset(tensor, row, at)
        if offset >= 0:
            start, length = get(tensor, T_ADDRESS) + offset + (get(at, 0) + low) * size, (high - low) * size
            entry = resolve(m, start, length, 1)
            if entry:
                total = total * 31 + sum_of_bytes(get(entry, R_HOST) + region_offset(entry, start), length)
    return total


@compiled
def move_tile(m, warp, host, start, operation, action, reduction, pc, lane):
    """Load, check or store the box whose coordinates an operation holds.

    `host` is where the bytes of address `start` of shared memory are. A check reads the words that a store would, for
    the sanitizer; `reduction` is what a store does to what is there, -1: overwrite.
    """
    at, tensor, span = operation + 8 * O_AT, operation + 8 * O_MAP, get(operation, O_SPAN)
    meta = get(tensor, T_META)
    size = (meta >> META_SIZE_SHIFT) & 255
    swizzle = (meta >> META_SWIZZLE_SHIFT) & 7
    kind = (meta >> META_KIND_SHIFT) & 255
    columns = count_of(tensor, 0)
    rows, pitch = rows_of(tensor), _pitch(tensor)
    first = get(at, 0)
    low, high = _columns_inside(tensor, first)
    place = start
    for row in range(rows):
        offset = _row_offset(tensor, row, at)
        begin, end, there = low * size, high * size, np.int64(0)
        if offset < 0 or begin == end:
            begin = end = np.int64(0)
        elif action != CHECK_TILE:
            address = get(tensor, T_ADDRESS) + offset + first * size + begin
            if action == LOAD_TILE:
                there = readable(m, address, end - begin, size, pc, warp, lane)
            else:
                strong = SCOPE_GPU if reduction >= 0 else 0
                there = writable(m, address, end - begin, size, pc, warp, lane, strong)
            if there == 0:
                end = begin
            there -= begin
        for chunk in range(0, columns * size, 16):
            spot = place + chunk
            spot ^= (spot >> 7 & swizzle) << 4
            if not 0 <= spot - start <= span - 16:
                return  # cannot be: find_map has seen to it. No byte moves where O_SPAN was not checked.
            here = host + spot - start
            a, b = max(begin, chunk), min(end, chunk + 16)
            if action == LOAD_TILE:
                if b - a < 16:
                    _fill(here, get(tensor, T_FILL))
                if b > a:
                    copy_bytes(here + a - chunk, there + a, b - a)
            elif b > a:
                if action == STORE_TILE and b - a < 16:
                    past = get(tensor, T_ADDRESS) + offset + first * size + b
                    report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, past, size, 1, -1, SPACE_GLOBAL, 0)
                if action == CHECK_TILE:
                    check_read(m, warp, spot + a - chunk, b - a, b - a, pc, lane, 0, 0, 0)
                    check_async_read(m, warp, spot, np.int64(16), pc, lane)
                elif reduction >= 0:
                    reduce_bytes(there + a, here + a - chunk, b - a, size, kind, reduction)
                else:
                    copy_bytes(there + a, here + a - chunk, b - a)
        place += pitch
