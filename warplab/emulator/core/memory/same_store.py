"""Lanes of a warp that store to one element by one instruction.

Which of the values stays is undefined (CUDA C++ Programming Guide, "SIMT Architecture": of several lanes that write to
one location only one write is guaranteed, and which is undefined). Equal values do no harm and are not reported.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.counting import first_seen, new_stamp
from warplab.emulator.core.memory.transfer import data_operand, read_element
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    FAULT_ONE_STORE,
    M_SEEN,
    M_SHARED_SHADOW,
    SRC_B,
    X1,
    X2,
    X3,
)
from warplab.emulator.core.state.raw import field, get, load_i64, trailing_zeros32


@compiled
def _ascend(row, mask, size):
    """Do the addresses ascend from lane to lane so far that no two accesses meet?"""
    rest = np.uint32(mask)
    low = load_i64(row + 8 * np.int64(trailing_zeros32(rest)))
    rest &= rest - np.uint32(1)
    while rest:
        address = load_i64(row + 8 * np.int64(trailing_zeros32(rest)))
        rest &= rest - np.uint32(1)
        if address < low + size:
            return False
        low = address
    return True


@compiled
def _some_meet(m, row, mask):
    """Do two lanes have one address? Those of one access are aligned alike, so they are equal or do not meet."""
    seen, stamp = get(m, M_SEEN), new_stamp(m)
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        if not first_seen(seen, stamp, load_i64(row + 8 * lane)):
            return True
    return False


@compiled
def _same_value(frame, constants, record, one, other):
    """Do two lanes store the same bytes?"""
    size, lane_bytes = field(record, X1), field(record, X3) & 0xFF
    for element in range(field(record, X2)):
        row = data_operand(frame, constants, record, element, SRC_B)
        if read_element(row + one * lane_bytes, size, 0) != read_element(row + other * lane_bytes, size, 0):
            return False
    return True


@compiled
def check_store(m, warp, frame, constants, record, pc, row, offset, mask, space):
    """Report two lanes of a store that leave different values at one address; F_EXTRA is the first of them."""
    if get(m, M_SHARED_SHADOW) == 0:  # nothing is to be checked
        return
    size = field(record, X1) * field(record, X2)
    if _ascend(row, mask, size) or not _some_meet(m, row, mask):
        return
    rest = np.uint32(mask)
    while rest:
        lane = np.int64(trailing_zeros32(rest))
        rest &= rest - np.uint32(1)
        address = load_i64(row + 8 * lane)
        later = rest
        while later:
            other = np.int64(trailing_zeros32(later))
            later &= later - np.uint32(1)
            if load_i64(row + 8 * other) == address and not _same_value(frame, constants, record, lane, other):
                report(m, FAULT_ONE_STORE, pc, warp, other, address + offset, size, 1, -1, space, lane)
                return
