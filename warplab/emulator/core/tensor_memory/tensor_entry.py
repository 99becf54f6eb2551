"""What the part for tensor memory is compiled from: the function that tensor_calls.py calls."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.tensor_calls import COMPLETE, END, START
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import M_TENSOR, OP_TENSOR_CORE, OP_TENSOR_MEMORY, X3
from warplab.emulator.core.state.raw import field, fill_bytes, get, trailing_zeros32
from warplab.emulator.core.state.tensor_layout import (
    COLUMNS,
    LANES_OF_MEMORY,
    T_AFTER,
    T_CELLS,
    T_DATA,
    TM_ALLOC,
    TM_DEALLOC,
    TM_LOAD,
    TM_RELINQUISH,
    TM_STORE,
    TM_WAIT_STORE,
    WORD,
)
from warplab.emulator.core.tensor_memory.access import move_registers
from warplab.emulator.core.tensor_memory.allocation import (
    allocate,
    deallocate,
    relinquish,
    report_left,
    report_starved,
)
from warplab.emulator.core.tensor_memory.operations import ask_core, complete_commit, end_operations
from warplab.emulator.core.tensor_memory.order import clear_after, finish_accesses


@compiled
def _clear(m):
    """Undefined content, nothing allocated, nothing in flight: as at the start of a block."""
    tensor = get(m, M_TENSOR)
    fill_bytes(tensor, np.uint8(0), 8 * T_DATA)
    fill_bytes(tensor + 8 * T_DATA, np.uint8(0xFF), LANES_OF_MEMORY * COLUMNS * WORD)
    fill_bytes(tensor + 8 * T_CELLS, np.uint8(0), 8 * (T_AFTER - T_CELLS))
    clear_after(m)


@compiled
def _together(m, warp, frame, constants, record, pc, mask):
    """An instruction that a warp executes together."""
    action, lane = field(record, X3), np.int64(trailing_zeros32(mask))
    if action == TM_ALLOC:
        allocate(m, warp, frame, constants, record, pc, lane)
    elif action == TM_DEALLOC:
        deallocate(m, warp, frame, constants, record, pc, lane)
    elif action == TM_RELINQUISH:
        relinquish(m, pc)
    elif action in (TM_LOAD, TM_STORE):
        move_registers(m, warp, frame, constants, record, pc, mask, lane, 1 if action == TM_STORE else 0)
    else:
        finish_accesses(m, warp, 1 if action == TM_WAIT_STORE else 0)


def run_tensor_memory(m, what, warp, frame, constants, record, pc, mask):
    """One instruction of a warp, or START, END and the like; called through its address."""
    if what == OP_TENSOR_MEMORY:
        _together(m, warp, frame, constants, record, pc, np.uint32(mask))
    elif what == OP_TENSOR_CORE:
        ask_core(m, warp, frame, constants, record, pc, np.uint32(mask))
    elif what == COMPLETE:
        complete_commit(record)
    elif what == START:
        _clear(m)
    elif what == END:
        end_operations(m)
        report_left(m)
    else:
        report_starved(m)
