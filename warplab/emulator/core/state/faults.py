"""What every part of the interpreter shares: how its helpers are compiled, and how faults are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from warplab.emulator.core.state.layout import (
    F_ADDRESS,
    F_BLOCK_X,
    F_BLOCK_Y,
    F_BLOCK_Z,
    F_BYTES,
    F_COUNT,
    F_EXTRA,
    F_FIELDS,
    F_KIND,
    F_LANE,
    F_OTHER,
    F_PC,
    F_SPACE,
    F_WARP,
    F_WRITE,
    FAULT_RACE,
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    M_FINDING_COUNT,
    M_FINDING_LIMIT,
    M_FINDINGS,
    M_PEERS,
    M_STOP,
    M_WARP_COUNT,
    M_WARPS,
    SAME_WARP,
    STATUS_READY,
    W_FIELDS,
    W_STATUS,
)
from warplab.emulator.core.state.raw import get, increase, put


def compiled(function: Callable) -> Callable:
    """`numba.njit` for a helper that is compiled into whoever calls it."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


@compiled
def warp_state(machine_warps, warp):
    """The address of a warp's state."""
    return machine_warps + warp * W_FIELDS * 8


@compiled
def ready_warps(m):
    """How many warps of a block can run."""
    count = 0
    for warp in range(get(m, M_WARP_COUNT)):
        count += get(warp_state(get(m, M_WARPS), warp), W_STATUS) == STATUS_READY
    return count


@compiled
def _describe(m, record, warp, lane, address, size, write, other, space, extra):
    """Write into a fault's record who met it, and where."""
    put(record, F_BLOCK_X, get(m, M_BLOCK_X))
    put(record, F_BLOCK_Y, get(m, M_BLOCK_Y))
    put(record, F_BLOCK_Z, get(m, M_BLOCK_Z))
    put(record, F_WARP, warp)
    put(record, F_LANE, lane)
    put(record, F_ADDRESS, address)
    put(record, F_BYTES, size)
    put(record, F_WRITE, write)
    put(record, F_OTHER, other)
    put(record, F_SPACE, space)
    put(record, F_EXTRA, extra)


@compiled
def report(m, kind, pc, warp, lane, address, size, write, other, space, extra):
    """Record a fault; repeats of one kind at one instruction are only counted."""
    home = get(m, M_PEERS)  # all blocks of a cluster share one list
    findings = get(m, M_FINDINGS)
    count = get(home, M_FINDING_COUNT)
    for i in range(count):
        known = findings + i * F_FIELDS * 8
        if get(known, F_KIND) == kind and get(known, F_PC) == pc:
            increase(known, F_COUNT, 1)
            if kind == FAULT_RACE and get(known, F_EXTRA) & SAME_WARP and extra & SAME_WARP == 0:
                # Of races with a lane of the warp and with another warp the latter is told: it takes a wider barrier.
                _describe(m, known, warp, lane, address, size, write, other, space, extra)
            return
    if count >= get(m, M_FINDING_LIMIT):
        put(m, M_STOP, 1)
        put(home, M_STOP, 1)
        return
    new = findings + count * F_FIELDS * 8
    put(new, F_KIND, kind)
    put(new, F_PC, pc)
    put(new, F_COUNT, 1)
    _describe(m, new, warp, lane, address, size, write, other, space, extra)
    put(home, M_FINDING_COUNT, count + 1)
