"""Who wrote an element: one byte of one buffer is watched, and the last thread that stored it is remembered."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    R_SHADOW,
    R_WATCH,
    R_WRITER_LANE,
    R_WRITER_PC,
    R_WRITER_WARP,
    R_WRITER_X,
    R_WRITER_Y,
    R_WRITER_Z,
)
from warplab.emulator.core.state.raw import fill_bytes, get, put


@compiled
def note_store(m, entry, pc, warp, lane, place, length, size):
    """Mark the bytes of a store as written: `length` from `place` on, `size` a lane, `lane` being the first."""
    fill_bytes(get(entry, R_SHADOW) + place, np.uint8(1), length)
    watched = get(entry, R_WATCH)
    if place <= watched < place + length:
        put(entry, R_WRITER_PC, pc)
        put(entry, R_WRITER_WARP, warp)
        put(entry, R_WRITER_LANE, lane + (watched - place) // size)
        put(entry, R_WRITER_X, get(m, M_BLOCK_X))
        put(entry, R_WRITER_Y, get(m, M_BLOCK_Y))
        put(entry, R_WRITER_Z, get(m, M_BLOCK_Z))
