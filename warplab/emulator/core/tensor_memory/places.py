"""Tensor memory: 128 lanes of 512 columns of 32 bits for a block, and which of its columns are allocated.

An address has the lane in its upper and the column in its lower 16 bits. (PTX ISA, "Tensor Memory Addressing".)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import FAULT_TENSOR_PLACE, M_TENSOR
from warplab.emulator.core.state.raw import get
from warplab.emulator.core.state.tensor_layout import (
    COLUMNS,
    PLACE_BEYOND,
    PLACE_FREED,
    T_DATA,
    T_FREED,
    T_TAKEN,
    UNIT,
    WORD,
)


@compiled
def lane_of(address):
    """The lane that an address names."""
    return (address >> 16) & 0xFFFF


@compiled
def column_of(address):
    """The column that an address names."""
    return address & 0xFFFF


@compiled
def host_of(m, lane, column):
    """Where a word of tensor memory is."""
    return get(m, M_TENSOR) + 8 * T_DATA + (lane * COLUMNS + column) * WORD


@compiled
def units_of(column, count):
    """The units of allocation that some columns lie in, as a mask."""
    first, last = column // UNIT, (column + count - 1) // UNIT
    return ((np.int64(1) << (last - first + 1)) - 1) << first


@compiled
def allocated(m, owner, address, count, write, pc, warp, lane):
    """Has the block `owner` allocated `count` columns from an address on? A report of a warp's of block m if not."""
    tensor, column = get(owner, M_TENSOR), column_of(address)
    if column + count > COLUMNS:
        report(m, FAULT_TENSOR_PLACE, pc, warp, lane, address, count, write, -1, 0, PLACE_BEYOND)
        return False
    missing = units_of(column, count) & ~get(tensor, T_TAKEN)
    if missing:
        reason = PLACE_FREED if missing & get(tensor, T_FREED) else PLACE_BEYOND
        report(m, FAULT_TENSOR_PLACE, pc, warp, lane, address, count, write, -1, 0, reason)
        return False
    return True
