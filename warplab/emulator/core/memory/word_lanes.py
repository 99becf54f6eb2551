"""Which lanes of a warp touch the bytes of a word of shared memory, and whether two of them race.

The lanes of a word are four bytes, one for each of its bytes: a lane's number, or SEVERAL. `shadow` keeps those of the
last read and of the last write.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.lane_order import have_met
from warplab.emulator.core.memory.shadow_chunks import WRITE_TAG, pc_of, warp_of
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import W_PARTLY, W_WHOLE
from warplab.emulator.core.state.raw import get, load_i32, load_u32

SEVERAL = 255


@compiled
def lanes_of_word(start, index, element, lane, several):
    """The lanes that touch the four bytes of a word, one byte each; a byte that nobody touches gets any lane."""
    if several:
        return np.uint32(0xFFFFFFFF)
    if element >= 4:
        return np.uint32(lane + (4 * index - start) // element) * np.uint32(0x01010101)
    if 4 * index >= start:
        first = np.uint32(lane + (4 * index - start) // element) * np.uint32(0x01010101)
        return first + (np.uint32(0x01010000) if element == 2 else np.uint32(0x03020100))
    lanes = np.uint32(0)
    for byte in range(4):
        place = max(4 * index + byte - start, 0) // element
        lanes |= np.uint32((lane + place) & 31) << np.uint32(8 * byte)
    return lanes


@compiled
def merged(old, new, touched):
    """The lanes of a word whose bytes a warp writes one after the other: `new` where touched now."""
    now = np.uint32(0)
    for byte in range(4):
        if touched >> byte & 1:
            now |= np.uint32(0xFF) << np.uint32(8 * byte)
    return (old & ~now) | (new & now)


@compiled
def with_earlier_lanes(old, new, known, touched):
    """Lanes that have read the bytes of a word: earlier those in `known`, now those in `touched`."""
    lanes = np.uint32(0)
    for byte in range(4):
        shift = np.uint32(8 * byte)
        a, b = (old >> shift) & np.uint32(SEVERAL), (new >> shift) & np.uint32(SEVERAL)
        if touched >> byte & 1 == 0:
            b = a
        elif known >> byte & 1 and a != b:
            b = np.uint32(SEVERAL)
        lanes |= b << shift
    return lanes


@compiled
def _other_lane(mine, theirs, touched):
    """Is one of the touched bytes accessed by a lane here and by another there?"""
    for byte in range(4):
        if touched >> byte & 1:
            a = (mine >> np.uint32(8 * byte)) & np.uint32(SEVERAL)
            b = (theirs >> np.uint32(8 * byte)) & np.uint32(SEVERAL)
            if a != b or a == np.uint32(SEVERAL):
                return True
    return False


@compiled
def _strangers(state, epoch, mine, theirs, touched, wrote):
    """Is one of the touched bytes accessed by a lane here that has not met the one that accessed it in that epoch?

    Of several lanes it is not known which they are: then it is one only if none have met.
    """
    for byte in range(4):
        if touched >> byte & 1:
            a = (mine >> np.uint32(8 * byte)) & np.uint32(SEVERAL)
            b = (theirs >> np.uint32(8 * byte)) & np.uint32(SEVERAL)
            if a == np.uint32(SEVERAL) or b == np.uint32(SEVERAL):
                if wrote and get(state, W_PARTLY) == 0:
                    return True
            elif a != b and not have_met(state, epoch, np.int64(b), np.int64(a), wrote):
                return True
    return False


@compiled
def warp_conflict(word, state, warp, epoch, lanes_at, epoch_at, tag_at, lanes, touched, pc):
    """The pc of an earlier access by another lane of this warp that it has not met since; -1 if there is none."""
    then = np.int64(load_i32(word + epoch_at))
    if then < get(state, W_WHOLE):
        return np.int64(-1)
    tag = np.int64(load_i32(word + tag_at))
    common = tag & touched & 15
    if warp_of(tag) != warp or common == 0 or pc_of(tag) == pc:
        return np.int64(-1)
    theirs = load_u32(word + lanes_at)
    if then == epoch:
        other = _other_lane(lanes, theirs, common)
    else:
        other = _strangers(state, then, lanes, theirs, common, tag_at == WRITE_TAG)
    return pc_of(tag) if other else np.int64(-1)


@compiled
def lane_shift(element, size, several):
    """By how much the number of a word goes into that of the lane that touches it; -1 where lanes are no power of two
    of bytes apart."""
    if several or element == size or element <= 4:
        return np.int64(0)
    if element == 8:
        return np.int64(1)
    return np.int64(2) if element == 16 else np.int64(-1)


@compiled
def first_lanes(element, lane, several):
    """The lanes that touch the four bytes of the first word of an access that starts with a word."""
    if several:
        return np.int64(-1)
    lanes = lane * 0x01010101
    if element == 2:
        return lanes + 0x01010000
    return lanes + 0x03020100 if element == 1 else lanes


@compiled
def lane_step(element, size, several):
    """What is to be added to them for each further word, or two or four words (`lane_shift`)."""
    if several or (element == size and element >= 4):
        return np.int64(0)
    if element == 2:
        return np.int64(0x02020202)
    return np.int64(0x04040404) if element == 1 else np.int64(0x01010101)
