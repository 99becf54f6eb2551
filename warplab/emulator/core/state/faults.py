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
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    M_FINDING_COUNT,
    M_FINDING_LIMIT,
    M_FINDINGS,
    M_PEERS,
    M_STOP,
    W_FIELDS,
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
def report(m, kind, pc, warp, lane, address, size, write, other, space, extra):
    """Record a fault; repeats of one kind at one instruction are only counted."""
    home = get(m, M_PEERS)  # all blocks of a cluster share one list
    findings = get(m, M_FINDINGS)
    count = get(home, M_FINDING_COUNT)
    for i in range(count):
        known = findings + i * F_FIELDS * 8
        if get(known, F_KIND) == kind and get(known, F_PC) == pc:
            increase(known, F_COUNT, 1)
            return
    if count >= get(m, M_FINDING_LIMIT):
        put(m, M_STOP, 1)
        put(home, M_STOP, 1)
        return
    new = findings + count * F_FIELDS * 8
    put(new, F_KIND, kind)
    put(new, F_PC, pc)
    put(new, F_BLOCK_X, get(m, M_BLOCK_X))
    put(new, F_BLOCK_Y, get(m, M_BLOCK_Y))
    put(new, F_BLOCK_Z, get(m, M_BLOCK_Z))
    put(new, F_WARP, warp)
    put(new, F_LANE, lane)
    put(new, F_ADDRESS, address)
    put(new, F_BYTES, size)
    put(new, F_WRITE, write)
    put(new, F_OTHER, other)
    put(new, F_SPACE, space)
    put(new, F_COUNT, 1)
    put(new, F_EXTRA, extra)
    put(home, M_FINDING_COUNT, count + 1)
