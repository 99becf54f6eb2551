"""What a warp waits for when its block is stuck."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.asynchronous.mbarriers import is_mbarrier, missing_arrivals, missing_bytes
from warplab.emulator.core.memory.cluster_memory import shared_host
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import (
    FAULT_DEADLOCK,
    IMM,
    M_CODE,
    M_CONSTANTS,
    M_FRAME_BYTES,
    M_FRAMES,
    M_SHARED_WINDOW,
    OP,
    OP_MBARRIER,
    RECORD_BYTES,
    SPACE_SHARED,
    SRC_A,
    X2,
)
from warplab.emulator.core.state.raw import field, get, load_i64, operand


@compiled
def report_mbarrier_wait(m, warp, lane, pc):
    """Report a warp that looks at an mbarrier in vain: which one (F_ADDRESS), and the bytes and arrivals it lacks."""
    record = get(m, M_CODE) + pc * RECORD_BYTES
    address, bytes_, arrivals = np.int64(0), np.int64(0), np.int64(-1)
    if field(record, OP) == OP_MBARRIER:
        frame = get(m, M_FRAMES) + warp * get(m, M_FRAME_BYTES)
        row = operand(frame, get(m, M_CONSTANTS), record, SRC_A)
        window = get(m, M_SHARED_WINDOW) if field(record, X2) else np.int64(0)
        address = load_i64(row + 8 * lane) + field(record, IMM) - window
        host = shared_host(m, address, 8)
        if host and is_mbarrier(load_i64(host)):
            bytes_, arrivals = missing_bytes(load_i64(host)), missing_arrivals(load_i64(host))
    report(m, FAULT_DEADLOCK, pc, warp, lane, address, bytes_, 0, arrivals, SPACE_SHARED, -1)
