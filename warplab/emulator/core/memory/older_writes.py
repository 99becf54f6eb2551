"""Writes to bytes of a word of shared memory that others have followed in the other bytes of the word.

The shadow of a word keeps its last write. What earlier ones left in other bytes is kept in front of the shadow, for the
words whose OLDER bit is set: the clock and the tag of up to three, each with the bytes that no later write has touched.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.shadow_chunks import OLDER, VALID, WRITE_CLOCK, WRITE_TAG
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import load_i32, store_i32

OLDER_WRITES = 3
OLDER_BYTES = 8 * OLDER_WRITES  # of a word: clocks and tags


@compiled
def older_write(shadow, index, number):
    """The address of the clock of one of a word's older writes; its tag follows, which has no bytes if it is free."""
    return shadow - OLDER_BYTES * (index + 1) + 8 * number


@compiled
def follow_older(shadow, index, word, touched, waiting):
    """A write to `touched` bytes of a word takes the place of the last one, which not all others come after.

    `waiting`: then what that wrote in other bytes is kept. There is room: no byte is kept twice.
    """
    valid, clock = np.int64(load_i32(word + VALID)), load_i32(word + WRITE_CLOCK)
    tag = np.int64(load_i32(word + WRITE_TAG)) & ~touched
    waiting = waiting and tag & 15 != 0
    if valid & OLDER == 0:
        if not waiting:
            return
        for number in range(OLDER_WRITES):
            store_i32(older_write(shadow, index, number) + 4, np.int32(0))
    left = np.int64(0)
    for number in range(OLDER_WRITES):
        at = older_write(shadow, index, number)
        older = np.int64(load_i32(at + 4)) & ~touched
        if older & 15 == 0:
            older = np.int64(0)
            if waiting:
                store_i32(at, clock)
                older, waiting = tag, False
        store_i32(at + 4, np.int32(older))
        left |= older
    store_i32(word + VALID, np.int32(valid | OLDER if left else valid & ~OLDER))


@compiled
def forget_ordered(shadow, index, word, known):
    """Forget the older writes to a word if a warp that knows all others up to clock `known` comes after all of them."""
    for number in range(OLDER_WRITES):
        at = older_write(shadow, index, number)
        if load_i32(at + 4) & 15 and np.int64(load_i32(at)) > known:
            return
    store_i32(word + VALID, np.int32(np.int64(load_i32(word + VALID)) & ~OLDER))
