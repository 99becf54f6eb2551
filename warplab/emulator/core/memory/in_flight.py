"""The shadow of shared memory that asynchronous copies may still write, or read as their source."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.clocks import own_clock
from warplab.emulator.core.memory.cluster_memory import offset_of
from warplab.emulator.core.memory.shadow import ASYNC_WRITE, keep_read, shadow_of
from warplab.emulator.core.memory.shadow_chunks import (
    PENDING,
    SOURCE,
    VALID,
    WRITE_CLOCK,
    WRITE_EPOCH,
    WRITE_TAG,
    tag_of,
    word_at,
)
from warplab.emulator.core.state.faults import compiled, warp_state
from warplab.emulator.core.state.layout import M_FIRST_WARP, M_SHARED_SHADOW, M_WARPS, W_EPOCH, W_MIN_CLOCK, W_TOUCHED
from warplab.emulator.core.state.raw import get, load_i32, put, store_i32


@compiled
def start_copy(m, warp, start, size, pc):
    """From now on an asynchronous copy may write `size` bytes (whole words): nobody else may touch them."""
    shadow, first = shadow_of(m, start), offset_of(start) >> 2
    if shadow:
        tag = tag_of(pc, get(m, M_FIRST_WARP) + warp, 15)
        for index in range(first, first + (size >> 2)):
            store_i32(word_at(shadow, index) + PENDING, tag)


@compiled
def end_copy(m, warp, start, size):
    """The copy's thread has waited for it: its write counts as made by the warp at this moment."""
    end_copy_at(m, warp, start, size, own_clock(m, warp))


@compiled
def end_copy_at(m, warp, start, size, clock):
    """The copy's bytes are there: its write counts as made by the warp when its clock was `clock`."""
    shadow, first = shadow_of(m, start), offset_of(start) >> 2
    if shadow:
        epoch = np.int32(get(warp_state(get(m, M_WARPS), warp), W_EPOCH))
        for index in range(first, first + (size >> 2)):
            word = word_at(shadow, index)
            store_i32(word + WRITE_CLOCK, np.int32(clock))
            store_i32(word + WRITE_TAG, load_i32(word + PENDING))
            store_i32(word + WRITE_EPOCH, epoch)
            store_i32(word + VALID, np.int32(15 | ASYNC_WRITE))
            store_i32(word + PENDING, np.int32(0))


@compiled
def start_source(m, warp, start, size, pc):
    """From now on a bulk copy may read `size` bytes (whole words) of the own block: nobody may write to them."""
    shadow, first = shadow_of(m, start), offset_of(start) >> 2
    if shadow:
        tag = tag_of(pc, get(m, M_FIRST_WARP) + warp, 15)
        for index in range(first, first + (size >> 2)):
            store_i32(word_at(shadow, index) + SOURCE, tag)


@compiled
def end_source(m, warp, start, size, pc):
    """The copy has read its source; another copy that reads the same words may still be on its way."""
    shadow, first = shadow_of(m, start), offset_of(start) >> 2
    if shadow:
        tag = tag_of(pc, get(m, M_FIRST_WARP) + warp, 15)
        for index in range(first, first + (size >> 2)):
            word = word_at(shadow, index)
            if load_i32(word + SOURCE) == tag:
                store_i32(word + SOURCE, np.int32(0))


@compiled
def await_source(m, warp, lane, start, size, pc):
    """The copy's thread has waited until its source was read: for all others it is read at this moment."""
    end_source(m, warp, start, size, pc)
    shadow, first = get(m, M_SHARED_SHADOW), offset_of(start) >> 2
    if shadow:
        me, mine, state = get(m, M_FIRST_WARP) + warp, np.int32(own_clock(m, warp)), warp_state(get(m, M_WARPS), warp)
        known, epoch = get(state, W_MIN_CLOCK), np.int32(get(state, W_EPOCH))
        put(state, W_TOUCHED, get(state, W_EPOCH))
        tag, lanes = tag_of(pc, me, 15), np.uint32(lane) * np.uint32(0x01010101)
        for index in range(first, first + (size >> 2)):
            keep_read(word_at(shadow, index), me, mine, known, epoch, tag, lanes)
