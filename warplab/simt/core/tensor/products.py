"""Calls the code for wgmma, which is compiled by itself, and only for kernels that have such instructions."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from numba import types

from warplab.simt.core.fingerprint import source_fingerprint
from warplab.simt.core.state.faults import compiled
from warplab.simt.core.state.layout import M_PRODUCTS, OP_WGMMA, OP_WGMMA_GROUP, OP_WGMMA_REGISTER
from warplab.simt.core.state.raw import CALL_ARGUMENTS, call_address, get
from warplab.simt.core.tensor.wgmma_queue import (
    access_register,
    check_warpgroups,
    clear_queues,
    group_products,
    issue_product,
)

START, END = -1, -2  # of a block, beside the opcodes


@cache
def product_function() -> numba.core.ccallback.CFunc:
    """`run(m, what, warp, frame, constants, record, pc, mask)`, compiled on first use and kept on disk."""
    fingerprint = source_fingerprint()

    def run(m, what, warp, frame, constants, record, pc, mask):
        # The name makes the digest part of the cache's key.
        fingerprint  # noqa: B018
        if what == OP_WGMMA:
            issue_product(m, warp, frame, constants, record, pc, np.uint32(mask))
        elif what == OP_WGMMA_GROUP:
            group_products(m, warp, record)
        elif what == OP_WGMMA_REGISTER:
            access_register(m, warp, record, pc, np.uint32(mask))
        elif what == START:
            clear_queues(m)
        else:
            check_warpgroups(m)

    return numba.cfunc(types.void(*[types.int64] * CALL_ARGUMENTS), cache=True, error_model="numpy")(run)


@compiled
def run_product(m, what, warp, frame, constants, record, pc, mask):
    """Run an instruction of wgmma for a warp."""
    call_address(get(m, M_PRODUCTS), m, what, warp, frame, constants, record, pc, np.int64(mask))


@compiled
def start_products(m):
    """Nothing is in flight, as at the start of a block."""
    if get(m, M_PRODUCTS):
        run_product(m, START, 0, 0, 0, 0, 0, 0)


@compiled
def end_products(m):
    """A block has ended: check what can only be seen then."""
    if get(m, M_PRODUCTS):
        run_product(m, END, 0, 0, 0, 0, 0, 0)
