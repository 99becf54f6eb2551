"""Atomic operations. The lanes of a warp go one after the other, in lane order."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import lanes_in_window
from warplab.emulator.core.memory.atomic_counting import count_atomic_sectors, count_atomic_wavefronts
from warplab.emulator.core.memory.causality import strong_read, strong_write
from warplab.emulator.core.memory.cluster_memory import owner_of, shared_host
from warplab.emulator.core.memory.global_access import fault_kind, region_offset, resolve
from warplab.emulator.core.memory.global_races import note_lane, note_seen
from warplab.emulator.core.memory.local_access import local_host, note_local
from warplab.emulator.core.memory.request_log import LOG_ATOMIC, log_sectors
from warplab.emulator.core.memory.shadow import check_read, check_write
from warplab.emulator.core.memory.transfer import read_element, write_element
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    ATOMIC_ADD,
    ATOMIC_AND,
    ATOMIC_CAS,
    ATOMIC_DEC,
    ATOMIC_EXCH,
    ATOMIC_INC,
    ATOMIC_MAX,
    ATOMIC_MIN,
    ATOMIC_OR,
    C_FIELDS,
    C_IDEAL,
    C_REMOTE,
    C_REQUESTS,
    C_SECTORS,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
    DST,
    FAULT_MISALIGNED,
    FAULT_OUT_OF_BOUNDS,
    FAULT_READ_ONLY,
    IMM,
    KIND_BF16,
    KIND_F16,
    KIND_FLOAT,
    KIND_SIGNED,
    LANES,
    M_CLUSTER,
    M_COUNTS,
    M_LOCAL,
    M_LOCAL_BYTES,
    M_LOCAL_WINDOW,
    M_LOG,
    M_SHARED_WINDOW,
    R_CELLS,
    R_FIRST_STORE,
    R_FLAGS,
    R_HOST,
    R_SHADOW,
    R_TRACKED,
    R_WRITABLE,
    RANK_SHIFT,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_LOCAL,
    SPACE_SHARED,
    SRC_A,
    SRC_B,
    SRC_C,
    WINDOW_BITS,
    WINDOW_HALF,
    X0,
    X1,
    X2,
    X3,
    X4,
    X5,
    X6,
    X7,
)
from warplab.emulator.core.state.raw import (
    bits_of_f32,
    bits_of_f64,
    f32_of_bits,
    f64_of_bits,
    field,
    fill_bytes,
    get,
    increase,
    load_i64,
    operand,
    popcount32,
    put,
    trailing_zeros32,
)

_F32_NAN = np.uint64(0x7FFFFFFF)
_F32_SMALLEST_NORMAL = np.float32(2.0**-126)


@compiled
def _small_to_float(bits, significand_bits, bias):
    """f16 or bf16 bits to float32."""
    exponent_mask = np.int64((1 << (15 - significand_bits)) - 1)
    fraction = np.int64(bits) & ((1 << significand_bits) - 1)
    exponent = (np.int64(bits) >> significand_bits) & exponent_mask
    sign = -1.0 if np.int64(bits) & 0x8000 else 1.0
    if exponent == exponent_mask:
        return np.float32(np.nan) if fraction else np.float32(sign * np.inf)
    if exponent == 0:
        return np.float32(sign * fraction * 2.0 ** (1 - bias - significand_bits))
    return np.float32(sign * (fraction + (1 << significand_bits)) * 2.0 ** (exponent - bias - significand_bits))


@compiled
def _float_to_small(value, significand_bits, bias):
    """float32 rounded to the nearest f16 or bf16, as bits."""
    bits = np.int64(bits_of_f32(value))
    sign = (bits >> 16) & 0x8000
    magnitude = bits & 0x7FFFFFFF
    infinity = ((1 << (15 - significand_bits)) - 1) << significand_bits
    if magnitude > 0x7F800000:
        return np.uint64(0x7FFF)
    if magnitude == 0x7F800000:
        return np.uint64(sign | infinity)
    exponent = magnitude >> 23
    fraction = magnitude & 0x7FFFFF
    if exponent:
        fraction |= 0x800000
    else:
        exponent = np.int64(1)
    shift = 23 - significand_bits + max(128 - bias - exponent, 0)
    if shift > 25:
        return np.uint64(sign)
    kept = fraction >> shift
    rest = fraction & ((1 << shift) - 1)
    half = np.int64(1) << (shift - 1)
    if rest > half or (rest == half and kept & 1):
        kept += 1
    result = (max(exponent - (128 - bias), 0) << significand_bits) + kept
    return np.uint64(sign | min(result, infinity))


@compiled
def _combine_small(old, value, operation, kind):
    significand_bits, bias = (10, 15) if kind == KIND_F16 else (7, 127)
    a = _small_to_float(old, significand_bits, bias)
    b = _small_to_float(value, significand_bits, bias)
    if operation == ATOMIC_ADD:
        return _float_to_small(np.float32(a + b), significand_bits, bias)
    if np.isnan(a) and np.isnan(b):
        return np.uint64(0x7FFF)
    if a == b:  # of zeros the negative one is the smaller
        return old | value if operation == ATOMIC_MIN else old & value
    if np.isnan(a) or (operation == ATOMIC_MIN and b < a) or (operation == ATOMIC_MAX and b > a):
        return value
    return old


@compiled
def combine(old, value, other, operation, kind, size):
    """What an atomic leaves in memory. `other` is the new value of a compare-and-swap."""
    if operation == ATOMIC_EXCH:
        return value
    if operation == ATOMIC_CAS:
        return other if old == value else old
    if kind == KIND_FLOAT:
        if size == 8:
            return bits_of_f64(f64_of_bits(old) + f64_of_bits(value))
        total = np.float32(f32_of_bits(np.uint32(old)) + f32_of_bits(np.uint32(value)))
        return _F32_NAN if np.isnan(total) else np.uint64(bits_of_f32(total))
    if kind in (KIND_F16, KIND_BF16):
        low = _combine_small(old & np.uint64(0xFFFF), value & np.uint64(0xFFFF), operation, kind)
        if size == 2:
            return low
        high = _combine_small(old >> np.uint64(16), value >> np.uint64(16), operation, kind)
        return low | (high << np.uint64(16))
    if operation == ATOMIC_ADD:
        return old + value
    if operation == ATOMIC_AND:
        return old & value
    if operation == ATOMIC_OR:
        return old | value
    if operation == ATOMIC_INC:
        return np.uint64(0) if old >= value else old + np.uint64(1)
    if operation == ATOMIC_DEC:
        return value if old == np.uint64(0) or old > value else old - np.uint64(1)
    if operation in (ATOMIC_MIN, ATOMIC_MAX):
        if kind == KIND_SIGNED:
            shift = np.uint64(64 - 8 * size)
            smaller = np.int64(value << shift) < np.int64(old << shift)
        else:
            smaller = value < old
        return value if smaller == (operation == ATOMIC_MIN) else old
    return old ^ value


@compiled
def _flushed(value):
    """A float32, with a zero of its sign in place of a subnormal number."""
    small = np.abs(value) < _F32_SMALLEST_NORMAL
    return np.float32(np.copysign(np.float32(0.0), value)) if small else np.float32(value)


@compiled
def _sum_in_global_memory(old, value):
    """float32 atomics in global memory flush subnormal numbers: ptxas makes RED and ATOM with .FTZ, for every target.

    In shared memory it makes a loop around an addition without it. PTX says so of atom.add.f32, too.
    """
    total = _flushed(np.float32(_flushed(f32_of_bits(np.uint32(old))) + _flushed(f32_of_bits(np.uint32(value)))))
    return _F32_NAN if np.isnan(total) else np.uint64(bits_of_f32(total))


@compiled
def _address_of_lane(m, warp, pc, lane, space, address, size, whole, strong, returns):
    """The host address of an atomic's operand and the space it is in; 0 after reporting a fault.

    `whole` is the size of the vector that the element starts, 0 for later ones: they have no fault of their own.
    """
    said = size
    size = max(size, whole)
    if space == SPACE_GENERIC:
        in_shared, in_local = address - get(m, M_SHARED_WINDOW), address - get(m, M_LOCAL_WINDOW)
        if (in_shared + WINDOW_HALF) >> WINDOW_BITS == 0:
            space, address = SPACE_SHARED, in_shared
        elif (in_local + WINDOW_HALF) >> WINDOW_BITS == 0:
            space, address = SPACE_LOCAL, in_local
        else:
            space = SPACE_GLOBAL
    if space == SPACE_GLOBAL:
        entry = resolve(m, address, size, size)
        if entry == 0:
            if whole:
                report(m, fault_kind(m, address, size), pc, warp, lane, address, size, 1, -1, SPACE_GLOBAL, 0)
            return np.int64(0), space
        if not get(entry, R_FLAGS) & R_WRITABLE:
            if whole:
                report(m, FAULT_READ_ONLY, pc, warp, lane, address, size, 1, -1, SPACE_GLOBAL, 0)
            return np.int64(0), space
        if get(entry, R_FIRST_STORE) < 0:
            put(entry, R_FIRST_STORE, pc)
        if get(entry, R_FLAGS) & R_TRACKED:
            fill_bytes(get(entry, R_SHADOW) + region_offset(entry, address), np.uint8(1), size)
        if get(entry, R_CELLS):
            place, none = region_offset(entry, address), np.int64(0)
            if returns:
                note_seen(m, entry, warp, place, 0)
            note_lane(m, entry, warp, none, none, none, pc, lane, place, said, 1, strong, 0)
        return get(entry, R_HOST) + region_offset(entry, address), space
    limit = get(m, M_LOCAL_BYTES)
    host = np.int64(0)
    if space == SPACE_SHARED:
        host = shared_host(m, address, size)
        outside = host == 0
    else:
        outside = address < 0 or address > limit - size
    if outside or address & (size - 1):
        kind = FAULT_MISALIGNED if address & (size - 1) else FAULT_OUT_OF_BOUNDS
        if whole:
            report(m, kind, pc, warp, lane, address, size, 1, -1, space, 0)
        return np.int64(0), space
    if space == SPACE_SHARED:
        check_read(m, warp, address, said, said, pc, lane, 0, 1, 0)
        check_write(m, warp, address, said, said, pc, lane, 0, 1, 0)
        return host, space
    note_local(m, warp, address, size, lane)
    return local_host(get(m, M_LOCAL) + warp * limit * 32, address, lane), space


@compiled
def _joined(low, high):
    """A 64-bit value whose halves are apart, as in local memory, where a word of each lane lies beside the others'."""
    return read_element(low, 4, 0) | (read_element(high, 4, 0) << np.uint64(32))


@compiled
def _own_lanes(m, row, offset, mask):
    """The lanes whose shared address is in the block itself: others go through the network between SMs."""
    own = np.uint32(0)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        if address >> RANK_SHIFT == 0 or owner_of(m, address) == m:
            own |= np.uint32(1) << np.uint32(lane)
    return own


@compiled
def _count(m, row, offset, space, size, mask, operation, counts_lanes, cell):
    """Count an atomic where its lanes' addresses lead. Before it is made: it may overwrite the addresses."""
    shared = mask if space == SPACE_SHARED else np.uint32(0)
    others = mask if space in (SPACE_SHARED, SPACE_LOCAL) else np.uint32(0)
    if space == SPACE_GENERIC:
        shared = lanes_in_window(row, offset - get(m, M_SHARED_WINDOW) + WINDOW_HALF, WINDOW_BITS) & mask
        local = lanes_in_window(row, offset - get(m, M_LOCAL_WINDOW) + WINDOW_HALF, WINDOW_BITS) & mask
        others = shared | local
    outside = mask & ~others
    if outside:
        increase(cell, C_REQUESTS, 1)
        increase(cell, C_SECTORS, count_atomic_sectors(m, row, offset, outside))
        if get(m, M_LOG):
            log_sectors(m, row, offset, size, outside, LOG_ATOMIC)
    if shared and get(m, M_CLUSTER) > 1:
        window = get(m, M_SHARED_WINDOW) if space == SPACE_GENERIC else np.int64(0)
        own = _own_lanes(m, row, offset - window, shared)
        increase(cell, C_REMOTE, (size * np.int64(popcount32(shared & ~own)) + 127) >> 7)
        shared = own
    if shared:
        wavefronts, ideal = count_atomic_wavefronts(m, row, offset, size, shared, operation, counts_lanes)
        increase(cell, C_SHARED_REQUESTS, 1)
        increase(cell, C_WAVEFRONTS, wavefronts)
        increase(cell, C_IDEAL, ideal)


@compiled
def atomic_access(m, warp, frame, constants, record, pc, mask):
    """One atom or red of a warp."""
    row = operand(frame, constants, record, SRC_A)
    values = operand(frame, constants, record, SRC_B)
    others = operand(frame, constants, record, SRC_C)
    destination = operand(frame, constants, record, DST)
    offset, space, size = field(record, IMM), field(record, X0), field(record, X1)
    operation, kind, returns = field(record, X2), field(record, X3), field(record, X4)
    whole, strong = field(record, X5), field(record, X7)
    if whole:
        cell = get(m, M_COUNTS) + pc * C_FIELDS * 8
        _count(m, row, offset, space, whole, mask, operation, field(record, X6), cell)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane) + offset
        host, found = _address_of_lane(m, warp, pc, lane, space, address, size, whole, strong, returns)
        old = np.uint64(0)
        if host:
            high = host + 4 * LANES if found == SPACE_LOCAL and size == 8 else np.int64(0)
            key = address
            if found == SPACE_SHARED and space == SPACE_GENERIC:
                key -= get(m, M_SHARED_WINDOW)
            if found != SPACE_LOCAL and returns:
                strong_read(m, warp, key, strong)
            old = _joined(host, high) if high else read_element(host, size, 0)
            value = read_element(values + lane * size, size, 0)
            other = read_element(others + lane * size, size, 0) if operation == ATOMIC_CAS else value
            if found == SPACE_GLOBAL and kind == KIND_FLOAT and size == 4 and operation == ATOMIC_ADD:
                new = _sum_in_global_memory(old, value)
            else:
                new = combine(old, value, other, operation, kind, size)
            write_element(host, 4 if high else size, new)
            if high:
                write_element(high, 4, new >> np.uint64(32))
            if found != SPACE_LOCAL and (operation != ATOMIC_CAS or old == value):
                strong_write(m, warp, key, strong, True)
        if returns:
            write_element(destination + lane * size, size, old)
