"""Calls the code for bulk copies, which is compiled by itself (bulk_entry.py), for kernels that have such copies."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import E_MACHINE, M_BULK_CODE
from warplab.emulator.core.state.raw import call_address, get

START, END, COMPLETE = -1, -2, -3  # of a block, of an operation, beside the opcodes


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
