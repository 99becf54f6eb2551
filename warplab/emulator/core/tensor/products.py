"""Calls the code for wgmma, which is compiled by itself (products_entry.py), for kernels that have it."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, ready_warps
from warplab.emulator.core.state.layout import M_PRODUCTS
from warplab.emulator.core.state.raw import call_address, get

START, STUCK = -1, -2  # of a block, beside the opcodes


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
def free_products(m):
    """Nobody can go on: let warps go on that wait at a product for one of their warpgroup. Were there any?"""
    if get(m, M_PRODUCTS) == 0:
        return False
    before = ready_warps(m)
    run_product(m, STUCK, 0, 0, 0, 0, 0, 0)
    return ready_warps(m) > before
