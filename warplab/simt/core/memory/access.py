"""One ld or st of a warp: sends its lanes to the memory that their addresses are in."""

from __future__ import annotations

from warplab.simt.core.alu.rows import lanes_in_window
from warplab.simt.core.memory.global_access import load_global, store_global
from warplab.simt.core.memory.local_access import local_access
from warplab.simt.core.memory.shared_access import shared_access
from warplab.simt.core.state.faults import compiled
from warplab.simt.core.state.layout import (
    IMM,
    M_LOCAL_WINDOW,
    M_SHARED_WINDOW,
    SPACE_CONST,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_PARAM,
    SPACE_SHARED,
    SRC_A,
    WINDOW_BITS,
    WINDOW_HALF,
    X0,
)
from warplab.simt.core.state.raw import field, get, operand


@compiled
def memory_access(m, warp, frame, constants, record, pc, mask, write):
    """One ld or st of a warp, in whatever space."""
    space = field(record, X0)
    if space == SPACE_GLOBAL:
        if write:
            store_global(m, warp, frame, constants, record, pc, mask)
        else:
            load_global(m, warp, frame, constants, record, pc, mask, 1)
    elif space == SPACE_SHARED:
        shared_access(m, warp, frame, constants, record, pc, mask, 0, write)
    elif space == SPACE_CONST:
        load_global(m, warp, frame, constants, record, pc, mask, 0)
    elif space == SPACE_GENERIC:
        _generic_access(m, warp, frame, constants, record, pc, mask, write)
    else:
        local_access(m, warp, frame, constants, record, pc, mask, 0, write, 0 if space == SPACE_PARAM else 1)


@compiled
def _generic_access(m, warp, frame, constants, record, pc, mask, write):
    """Sort the lanes of a generic access by the space that their addresses are in."""
    row = operand(frame, constants, record, SRC_A)
    offset = field(record, IMM)
    shared_window, local_window = get(m, M_SHARED_WINDOW), get(m, M_LOCAL_WINDOW)
    shared = lanes_in_window(row, offset - shared_window + WINDOW_HALF, WINDOW_BITS) & mask
    local = lanes_in_window(row, offset - local_window + WINDOW_HALF, WINDOW_BITS) & mask
    other = mask & ~(shared | local)
    if shared:
        shared_access(m, warp, frame, constants, record, pc, shared, shared_window, write)
    if local:
        local_access(m, warp, frame, constants, record, pc, local, local_window, write, 1)
    if other:
        if write:
            store_global(m, warp, frame, constants, record, pc, other)
        else:
            load_global(m, warp, frame, constants, record, pc, other, 1)
