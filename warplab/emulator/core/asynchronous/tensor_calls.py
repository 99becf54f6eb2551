"""Calls the code for tensor memory, which is compiled by itself (tensor_entry.py), for kernels that have tcgen05."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled, ready_warps
from warplab.emulator.core.state.layout import E_MACHINE, M_TENSOR_CODE
from warplab.emulator.core.state.raw import call_address, get

START, END, COMPLETE, STUCK = -1, -2, -3, -4  # of a block, of a commit, beside the opcodes


@compiled
def run_tensor(m, what, warp, frame, constants, record, pc, mask):
    """Run an instruction of tcgen05 for a warp."""
    call_address(get(m, M_TENSOR_CODE), m, what, warp, frame, constants, record, pc, np.int64(mask))


@compiled
def start_tensor(m):
    """Nothing is allocated or in flight, as at the start of a block."""
    if get(m, M_TENSOR_CODE):
        run_tensor(m, START, 0, 0, 0, 0, 0, 0)


@compiled
def end_tensor(m):
    """A block has ended: everything has to be waited for and deallocated."""
    if get(m, M_TENSOR_CODE):
        run_tensor(m, END, 0, 0, 0, 0, 0, 0)


@compiled
def finish_tensor(event):
    """The operations that a commit tracks end, and arrive at its mbarrier."""
    run_tensor(get(event, E_MACHINE), COMPLETE, 0, 0, 0, event, 0, 0)


@compiled
def free_tensor(m):
    """No warp can go on: let those go on that wait for columns. Were there any?"""
    if get(m, M_TENSOR_CODE) == 0:
        return False
    before = ready_warps(m)
    run_tensor(m, STUCK, 0, 0, 0, 0, 0, 0)
    return ready_warps(m) > before
