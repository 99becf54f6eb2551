"""Which lanes of a warp have waited for each other: __syncwarp may name a part of the warp only.

An epoch is a stretch of a warp's time in which none of its lanes wait for each other. What a lane did in an epoch comes
before what another does now if they have met since, or if each has met a third one in that order.

Shuffles, votes, matches and reductions "do not imply a memory barrier" (CUDA C++ Programming Guide, "Warp Vote
Functions", "Warp Match Functions", "Warp Shuffle Functions"): what was written before them may not be there yet. What
was read has been read, as the lanes go on with what they have. The same is true of ldmatrix, stmatrix and mma: their
`.sync` has the lanes wait for each other, and no more (PTX ISA).
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import MEETINGS, W_EPOCH, W_MET, W_PARTLY, W_WHOLE
from warplab.emulator.core.state.raw import get, increase, put

_MEMORY = 1 << 32  # of a meeting: it orders memory


@compiled
def all_meet(warp_address):
    """All lanes of a warp have waited for each other, and memory is in order."""
    increase(warp_address, W_EPOCH, 1)
    put(warp_address, W_WHOLE, get(warp_address, W_EPOCH))
    put(warp_address, W_PARTLY, 0)


@compiled
def lanes_meet(warp_address, lanes, memory):
    """The lanes of a member mask have waited for each other; `memory`: that orders what they wrote, too.

    A lane that has left the kernel counts only if the mask names it: what it wrote last, the others do not wait for.
    """
    if memory and lanes == np.uint32(0xFFFFFFFF):
        all_meet(warp_address)
        return
    epoch = get(warp_address, W_EPOCH) + 1
    put(warp_address, W_EPOCH, epoch)
    put(warp_address, W_MET + epoch % MEETINGS, np.int64(lanes) | (_MEMORY if memory else 0))
    if memory:
        put(warp_address, W_PARTLY, 1)


@compiled
def have_met(warp_address, epoch, lane, mine, wrote):
    """Is what `lane` read, or wrote, in an epoch before what lane `mine` does now?

    Where it is too long ago to tell, yes, if any lanes have had their memory in order since.
    """
    now = get(warp_address, W_EPOCH)
    if epoch < get(warp_address, W_WHOLE):
        return True
    if epoch == now or (wrote and get(warp_address, W_PARTLY) == 0):
        return False
    if now - epoch >= MEETINGS:
        return True
    known = np.uint32(1) << np.uint32(lane)
    for later in range(epoch + 1, now + 1):
        meeting = get(warp_address, W_MET + later % MEETINGS)
        met = np.uint32(meeting & 0xFFFFFFFF)
        if met & known and (meeting & _MEMORY or not wrote):
            known |= met
    return (known >> np.uint32(mine)) & np.uint32(1) != np.uint32(0)
