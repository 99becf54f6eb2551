"""What the part for bulk copies is compiled from: the function that bulk_calls.py calls."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.bulk_calls import COMPLETE, START
from warplab.emulator.core.asynchronous.bulk_copies import (
    clear_bulk,
    complete_bulk,
    finish_stores,
    group_bulk,
    issue_bulk,
)
from warplab.emulator.core.state.layout import OP_BULK, OP_BULK_GROUP


def run_bulk_copies(m, what, warp, frame, constants, record, pc, mask):
    """One instruction of a warp, or START, END and the like; called through its address."""
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
