"""tcgen05.cp: rows of shared memory to lanes of tensor memory, 16 bytes at a time.

Row r goes to lane r of 128; of 4 to the lanes 32 r from the address on; of 32 to that lane of each warp's 32; of 64 to
lanes r and r + 64 (.warpx2::02_13), or the first 32 to lanes r and r + 32 and the others behind them (::01_23). (PTX
ISA, "tcgen05.cp"; CUTLASS, copy_traits_sm100.hpp.) Of packed formats 16 bytes hold 16 elements of 4 or 6 bits and
padding behind them; each gets a byte, in the bits that mma.sync has it in.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import FAULT_TENSOR_RULE, M_SHARED
from warplab.emulator.core.state.raw import copy_bytes, fill_bytes, get
from warplab.emulator.core.state.tensor_layout import (
    BY_COPY,
    COPY_4X256B,
    COPY_32X128B,
    COPY_64X128B_01_23,
    COPY_64X128B_02_13,
    COPY_128X256B,
    FORM_KIND_SHIFT,
    FORM_PACKED_SHIFT,
    FORM_PAIR,
    HALF_LANES,
    HALVES,
    O_A,
    O_D,
    O_FORM,
    O_LANE,
    O_PC,
    O_WARP,
    RULE_ALIGNMENT,
    RULE_DESCRIPTOR,
    RULE_NO_PAIR,
    WARP_LANES,
    WORD,
)
from warplab.emulator.core.tensor.pieces import unpack_piece
from warplab.emulator.core.tensor_memory.matrices import PIECE_BYTES, element_address, inside, is_absolute, well_formed
from warplab.emulator.core.tensor_memory.order import lanes_of, write_cells
from warplab.emulator.core.tensor_memory.pairs import block_of, blocks_of, has_pair
from warplab.emulator.core.tensor_memory.places import allocated, column_of, host_of, lane_of
from warplab.emulator.core.tensor_memory.shared_operands import end_reading, start_reading, used_bytes


@compiled
def _shape(form):
    return (form >> FORM_KIND_SHIFT) & 0xFF


@compiled
def _rows(shape):
    if shape == COPY_4X256B:
        return np.int64(4)
    if shape == COPY_32X128B:
        return np.int64(32)
    return np.int64(64) if shape in (COPY_64X128B_02_13, COPY_64X128B_01_23) else np.int64(128)


@compiled
def _width(shape):
    """The bytes of a row."""
    return np.int64(32) if shape in (COPY_128X256B, COPY_4X256B) else np.int64(16)


@compiled
def _lane(shape, first, row, copy):
    """The lane that the copy-th image of a row goes to."""
    if shape == COPY_4X256B:
        return first + row * WARP_LANES
    if shape == COPY_32X128B:
        return row + copy * WARP_LANES
    if shape == COPY_64X128B_02_13:
        return row + copy * 2 * WARP_LANES
    if shape == COPY_64X128B_01_23:
        return row + row // WARP_LANES * WARP_LANES + copy * WARP_LANES
    return row


@compiled
def accept_copy(m, operation):
    """Check a copy that is issued and note what it will read and write; False if it cannot be made."""
    pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
    form, address, descriptor = get(operation, O_FORM), get(operation, O_D), get(operation, O_A)
    shape = _shape(form)
    rows, width, first = _rows(shape), _width(shape), lane_of(address)
    if not well_formed(descriptor, False, np.int64(1)) or is_absolute(descriptor):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, descriptor, 0, 0, -1, 0, RULE_DESCRIPTOR)
        return False
    if first and (shape != COPY_4X256B or first >= WARP_LANES):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, address, 0, 0, -1, 0, RULE_ALIGNMENT)
        return False
    if form & FORM_PAIR and not has_pair(m):
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, address, 0, 0, -1, 0, RULE_NO_PAIR)
        return False
    lanes, used = lanes_of(np.int64(0xFF)), used_bytes(form >> FORM_PACKED_SHIFT)
    if shape == COPY_4X256B:
        for half in range(HALVES):
            taken = half % 2 == first // HALF_LANES
            lanes[half] = np.int64(1) << first % HALF_LANES if taken else np.int64(0)
    for index in range(blocks_of(form)):
        owner = block_of(m, form, index)
        if not allocated(m, owner, address, width // WORD, 1, pc, warp, lane):
            return False
        start_reading(m, owner, warp, descriptor, False, np.int64(1), np.int64(0), rows, width, used, pc, lane)
        write_cells(m, owner, warp, lanes, address, column_of(address), width // WORD, BY_COPY, pc, lane)
    return True


@compiled
def _copy_rows(m, owner, operation):
    address, descriptor = get(operation, O_D), get(operation, O_A)
    shape = _shape(get(operation, O_FORM))
    bits = get(operation, O_FORM) >> FORM_PACKED_SHIFT
    rows, width = _rows(shape), _width(shape)
    for row in range(rows):
        for copy in range(max(1, 128 // rows) if shape != COPY_4X256B else 1):
            for at in range(0, width, PIECE_BYTES):
                source = element_address(descriptor, False, np.int64(1), row, at)
                target = host_of(owner, _lane(shape, lane_of(address), row, copy), column_of(address)) + at
                if bits and inside(owner, source, PIECE_BYTES):
                    unpack_piece(target, get(owner, M_SHARED) + source, bits)
                elif inside(owner, source, PIECE_BYTES):
                    copy_bytes(target, get(owner, M_SHARED) + source, PIECE_BYTES)
                else:
                    fill_bytes(target, np.uint8(0), PIECE_BYTES)
    warp, pc = get(operation, O_WARP), get(operation, O_PC)
    end_reading(m, owner, warp, descriptor, False, np.int64(1), np.int64(0), rows, width, pc)


@compiled
def make_copy(m, operation):
    """Copy the rows, of a pair those of each block to its own tensor memory."""
    form = get(operation, O_FORM)
    for index in range(blocks_of(form)):
        _copy_rows(m, block_of(m, form, index), operation)
