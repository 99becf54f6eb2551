"""Calls the code for bulk copies, which is compiled by itself, and only for kernels that have such instructions."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from numba import types

from warplab.simt.core.asynchronous.bulk_copies import clear_bulk, complete_bulk, finish_stores, group_bulk, issue_bulk
from warplab.simt.core.fingerprint import source_fingerprint
from warplab.simt.core.state.faults import compiled
from warplab.simt.core.state.layout import E_MACHINE, M_BULK_CODE, OP_BULK, OP_BULK_GROUP
from warplab.simt.core.state.raw import CALL_ARGUMENTS, call_address, get

START, END, COMPLETE = -1, -2, -3  # of a block, of an operation, beside the opcodes


@cache
def bulk_function() -> numba.core.ccallback.CFunc:
    """`run(m, what, warp, frame, constants, record, pc, mask)`, compiled on first use and kept on disk."""
    fingerprint = source_fingerprint()

    def run(m, what, warp, frame, constants, record, pc, mask):
        # The name makes the digest part of the cache's key.
        fingerprint  # noqa: B018
        if what == OP_BULK:
            issue_bulk(m, warp, frame, constants, record, pc, np.uint32(mask))
        elif what == OP_BULK_GROUP:
            group_bulk(m, warp, record, np.uint32(mask))
        elif what == COMPLETE:
            complete_bulk(record)
        elif what == START:
            clear_bulk(m)
        else:
            finish_stores(m)

    return numba.cfunc(types.void(*[types.int64] * CALL_ARGUMENTS), cache=True, error_model="numpy")(run)


@compiled
def run_bulk(m, what, warp, frame, constants, record, pc, mask):
    """Run an instruction of bulk copies for a warp."""
    call_address(get(m, M_BULK_CODE), m, what, warp, frame, constants, record, pc, np.int64(mask))


@compiled
def start_bulk(m):
    """Nothing is on its way, as at the start of a block."""
    if get(m, M_BULK_CODE):
        run_bulk(m, START, 0, 0, 0, 0, 0, 0)


@compiled
def end_bulk(m):
    """A block has ended: its stores are made."""
    if get(m, M_BULK_CODE):
        run_bulk(m, END, 0, 0, 0, 0, 0, 0)


@compiled
def finish_bulk(event):
    """An operation whose bytes an mbarrier waits for happens."""
    run_bulk(get(event, E_MACHINE), COMPLETE, 0, 0, 0, event, 0, 0)
