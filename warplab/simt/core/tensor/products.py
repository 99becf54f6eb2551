"""Calls the code for wgmma, which is compiled by itself, and only for kernels that have such instructions."""

from __future__ import annotations

import numpy as np

from warplab.simt.core.state.faults import compiled
from warplab.simt.core.state.layout import M_PRODUCTS, OP_WGMMA, OP_WGMMA_GROUP, OP_WGMMA_REGISTER
from warplab.simt.core.state.raw import call_address, get
from warplab.simt.core.tensor.wgmma_queue import (
    access_register,
    check_warpgroups,
    clear_queues,
    group_products,
    issue_product,
)

START, END = -1, -2  # of a block, beside the opcodes


def run_products(m, what, warp, frame, constants, record, pc, mask):
    """One instruction of a warp, or START, END and the like; called through its address."""
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
