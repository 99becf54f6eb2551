"""One ld or st of a warp: sends its lanes to the memory that their addresses are in."""

from __future__ import annotations

from warplab.emulator.core.alu.rows import lanes_in_window
from warplab.emulator.core.memory.global_access import load_global, store_global
from warplab.emulator.core.memory.local_access import local_access
from warplab.emulator.core.memory.shared_access import shared_access
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    IMM,
    M_LOCAL_SHADOW,
    M_LOCAL_WINDOW,
    M_LOG,
    M_SHARED_SHADOW,
    M_SHARED_WINDOW,
    SPACE_CONST,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_PARAM,
    SPACE_SHARED,
    SRC_A,
    UNWATCHED_BIT,
    WINDOW_BITS,
    WINDOW_HALF,
    X0,
    X3,
)
from warplab.emulator.core.state.raw import field, get, operand, put


@compiled
def memory_access(m, warp, frame, constants, record, pc, mask, write):
    """One ld or st of a warp, in whatever space."""
    space = field(record, X0)
    if space == SPACE_GLOBAL:
        if write:
            store_global(m, warp, frame, constants, record, pc, mask)
        else:
            load_global(m, warp, frame, constants, record, pc, mask, 1)
    elif space == SPACE_CONST:
        load_global(m, warp, frame, constants, record, pc, mask, 0)
    elif space == SPACE_GENERIC:
        _generic_access(m, warp, frame, constants, record, pc, mask, write)
    elif field(record, X3) & UNWATCHED_BIT:
        _access_unwatched(m, warp, frame, constants, record, pc, mask)
    elif space == SPACE_SHARED:
        shared_access(m, warp, frame, constants, record, pc, mask, 0, write)
    else:
        local_access(m, warp, frame, constants, record, pc, mask, 0, write, 0 if space == SPACE_PARAM else 1)


@compiled
def _access_unwatched(m, warp, frame, constants, record, pc, mask):
    """A load of shared or local memory of which the sanitizers do not hear."""
    shared, local = get(m, M_SHARED_SHADOW), get(m, M_LOCAL_SHADOW)
    put(m, M_SHARED_SHADOW, 0)
    put(m, M_LOCAL_SHADOW, 0)
    if field(record, X0) == SPACE_SHARED:
        shared_access(m, warp, frame, constants, record, pc, mask, 0, 0)
    else:
        local_access(m, warp, frame, constants, record, pc, mask, 0, 0, 1)
    put(m, M_SHARED_SHADOW, shared)
    put(m, M_LOCAL_SHADOW, local)


@compiled
def watch_access(m, warp, frame, constants, record, pc, mask):
    """Tell the sanitizers, if there are any, of what an unwatched load reads in some of its lanes."""
    if field(record, X0) == SPACE_SHARED:
        if get(m, M_SHARED_SHADOW):
            shared_access(m, warp, frame, constants, record, pc, mask, 0, 0)
    elif get(m, M_LOCAL_SHADOW):
        log = get(m, M_LOG)
        put(m, M_LOG, 0)
        local_access(m, warp, frame, constants, record, pc, mask, 0, 0, 1)
        put(m, M_LOG, log)


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
