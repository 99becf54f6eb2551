"""tcgen05.shift: rows of eight columns of tensor memory move by one lane.

Each lane from the address on gets what the next one has, and the last keeps its own, which a tcgen05.cp of the shape
4x256b can then replace. The ISA says "downwards" without a figure; that it means towards lane 0 follows from the pairs
that it keeps in order, a shift before such a copy. (PTX ISA, "tcgen05.shift", "Pipelined tcgen05 instructions".)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import FAULT_TENSOR_RULE
from warplab.emulator.core.state.raw import copy_bytes, get
from warplab.emulator.core.state.tensor_layout import (
    BY_COPY,
    FORM_PAIR,
    HALF_LANES,
    LANES_OF_MEMORY,
    O_D,
    O_FORM,
    O_LANE,
    O_PC,
    O_WARP,
    RULE_NO_PAIR,
    RULE_SHIFT_LANE,
    WARP_LANES,
    WORD,
)
from warplab.emulator.core.tensor_memory.order import lanes_of, read_cells, write_cells
from warplab.emulator.core.tensor_memory.pairs import block_of, blocks_of, has_pair
from warplab.emulator.core.tensor_memory.places import allocated, column_of, host_of, lane_of

_COLUMNS = 8


@compiled
def accept_shift(m, operation):
    """Check a shift that is issued and note what it will read and write; False if it cannot be made."""
    pc, warp, lane = get(operation, O_PC), get(operation, O_WARP), get(operation, O_LANE)
    form, address = get(operation, O_FORM), get(operation, O_D)
    first, column, count = lane_of(address), column_of(address), np.int64(_COLUMNS)
    rule = np.int64(-1)
    if first % WARP_LANES or first >= LANES_OF_MEMORY:
        rule = np.int64(RULE_SHIFT_LANE)
    elif form & FORM_PAIR and not has_pair(m):
        rule = np.int64(RULE_NO_PAIR)
    if rule >= 0:
        report(m, FAULT_TENSOR_RULE, pc, warp, lane, address, 0, 0, -1, 0, rule)
        return False
    halves = np.int64(0xFF) & ~((np.int64(1) << (first // HALF_LANES)) - 1)
    for index in range(blocks_of(form)):
        owner = block_of(m, form, index)
        if not allocated(m, owner, address, count, 1, pc, warp, lane):
            return False
        read_cells(m, owner, warp, halves, address, column, count, BY_COPY, pc, lane)
        write_cells(m, owner, warp, lanes_of(halves), address, column, count, BY_COPY, pc, lane)
    return True


@compiled
def make_shift(m, operation):
    """Move the rows, of a pair those of each block."""
    form, address = get(operation, O_FORM), get(operation, O_D)
    for index in range(blocks_of(form)):
        owner = block_of(m, form, index)
        for lane in range(lane_of(address), LANES_OF_MEMORY - 1):
            target, source = host_of(owner, lane, column_of(address)), host_of(owner, lane + 1, column_of(address))
            copy_bytes(target, source, _COLUMNS * WORD)
