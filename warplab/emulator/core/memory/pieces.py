"""An access of a warp as a few pieces: runs of lanes whose addresses are equally far apart.

The threads of a tile of 16 columns, of a row with an offset or of a column make one or two of them; each is then
checked, counted and moved at once.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.alu.rows import lanes_matching, lanes_spaced
from warplab.emulator.core.memory.transfer import is_run
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import get, leading_zeros32, load_i64, popcount32, put, trailing_zeros32

MOST_PIECES = 8  # of an access; lanes that make more are served one by one
PIECE_BYTES = 40
P_ADDRESS, P_FIRST, P_LANES, P_STEP, P_ENTRY = range(5)  # int64 each; the last is for the caller
_FEW = 6  # lanes: where the first two pieces have fewer, more of them are not looked for
_BANKS = 32


@compiled
def common_step(row, mask, total):
    """By how many bytes the addresses of neighbouring lanes differ: `total` where the lanes are neighbours that access
    so many bytes each, side by side (one lane does), 0 where all addresses are the same, -1 otherwise.
    """
    first, last = np.int64(trailing_zeros32(mask)), np.int64(31) - np.int64(leading_zeros32(mask))
    start = load_i64(row + 8 * first)
    step = total if is_run(mask) and (first == last or load_i64(row + 8 * first + 8) - start == total) else np.int64(0)
    # Most accesses that are neither differ here: comparing rows takes longer.
    if load_i64(row + 8 * last) - start != (last - first) * step:
        return np.int64(-1)
    return step if lanes_matching(row, start - first * step, step) & mask == mask else np.int64(-1)


@compiled
def find_pieces(pieces, row, offset, mask):
    """Put the pieces of an access at `pieces` and return their number; 0: there are too many.

    The step of a piece is by how many bytes the addresses of neighbouring lanes differ; 0 where there is one lane.
    """
    count = np.int64(0)
    spaced, spaced_by = np.uint32(0), np.int64(0)
    rest = np.uint32(mask)
    while rest:
        if count == MOST_PIECES or (count == 2 and popcount32(mask & ~rest) < _FEW):
            return np.int64(0)
        lane = np.int64(trailing_zeros32(rest))
        address = load_i64(row + 8 * lane)
        lanes, step = np.int64(1), np.int64(0)
        after = rest >> np.uint32(lane)
        if after & np.uint32(2):
            step = load_i64(row + 8 * lane + 8) - address
            if spaced == np.uint32(0) or step != spaced_by:
                spaced, spaced_by = lanes_spaced(row, step), step
            lanes = 1 + np.int64(trailing_zeros32(~(spaced >> np.uint32(lane) & after >> np.uint32(1))))
        piece = pieces + count * PIECE_BYTES
        put(piece, P_ADDRESS, address + offset)
        put(piece, P_FIRST, lane)
        put(piece, P_LANES, lanes)
        put(piece, P_STEP, step)
        count += 1
        rest &= ~np.uint32(((np.int64(1) << lanes) - 1) << lane)
    return count


@compiled
def piece_lanes(piece):
    """The lanes of a piece as a mask."""
    return np.uint32(((np.int64(1) << get(piece, P_LANES)) - 1) << get(piece, P_FIRST))


@compiled
def piece_start(piece):
    """The lowest address of a piece."""
    return get(piece, P_ADDRESS) + min((get(piece, P_LANES) - 1) * get(piece, P_STEP), 0)


@compiled
def piece_span(piece, size):
    """The bytes from the first one of a piece to its last; `size` is that of a lane's access."""
    return size + (get(piece, P_LANES) - 1) * abs(get(piece, P_STEP))


@compiled
def piece_fits(piece, size, low, high):
    """Does the piece lie in [low, high), a range of less than 2 ** 62 bytes, aligned to `size`?"""
    address, step = get(piece, P_ADDRESS), get(piece, P_STEP)
    if (address | step) & (size - 1) or abs(step) > high - low:  # a product of such a step would wrap
        return False
    return low <= address < high and low <= piece_start(piece) and piece_start(piece) <= high - piece_span(piece, size)


@compiled
def is_side_by_side(piece, size):
    """Do the lanes of a piece access one stretch of memory, the first lane its start?"""
    return get(piece, P_STEP) == size or get(piece, P_LANES) == 1


@compiled
def are_alike(piece, other):
    """Do two pieces access the same memory, the lanes of one as those of the other?"""
    return (
        get(piece, P_ADDRESS) == get(other, P_ADDRESS)
        and get(piece, P_STEP) == get(other, P_STEP)
        and get(piece, P_LANES) == get(other, P_LANES)
    )


@compiled
def _met_before(pieces, number, size, shift):
    """How the piece `number` meets those before it, in units of 2 ** shift bytes: 0 not at all, 1 it equals one of
    them, -1 otherwise."""
    piece = pieces + number * PIECE_BYTES
    low, high = piece_start(piece) >> shift, (piece_start(piece) + piece_span(piece, size) - 1) >> shift
    for other in range(number):
        before = pieces + other * PIECE_BYTES
        if are_alike(piece, before):
            return np.int64(1)
        first, last = piece_start(before) >> shift, (piece_start(before) + piece_span(before, size) - 1) >> shift
        if low <= last and first <= high:
            return np.int64(-1)
    return np.int64(0)


@compiled
def piece_sectors(pieces, count, size):
    """The distinct sectors of the pieces of an aligned access; -1 if that is not easily said."""
    total = np.int64(0)
    for number in range(count):
        piece = pieces + number * PIECE_BYTES
        met = _met_before(pieces, number, size, 5)
        if met < 0:
            return np.int64(-1)
        if met == 0 and abs(get(piece, P_STEP)) >= 32:
            total += get(piece, P_LANES)
        elif met == 0:
            start = piece_start(piece)
            total += ((start + piece_span(piece, size) - 1) >> 5) - (start >> 5) + 1
    return total


@compiled
def piece_wavefronts(pieces, count, size):
    """The wavefronts of an access of at most 4 bytes a lane to shared memory; -1 if that is not easily said."""
    once, twice, thrice = np.uint32(0), np.uint32(0), np.uint32(0)  # banks that give one word, two, three
    for number in range(count):
        piece = pieces + number * PIECE_BYTES
        if abs(get(piece, P_STEP)) > 4:
            return np.int64(-1)
        met = _met_before(pieces, number, size, 2)
        if met < 0:
            return np.int64(-1)
        if met == 0:
            start = piece_start(piece)
            first, last = start >> 2, (start + piece_span(piece, size) - 1) >> 2
            words = ((np.int64(1) << (last - first + 1)) - 1) << (first & (_BANKS - 1))
            banks = np.uint32(words | words >> _BANKS)
            if thrice & banks:
                return np.int64(-1)
            thrice |= twice & banks
            twice |= once & banks
            once |= banks
    return np.int64(3) if thrice else np.int64(2) if twice else np.int64(1)
