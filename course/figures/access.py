"""One access of one warp, from a profile: its lanes and the sectors or banks that serve them."""

from __future__ import annotations

from matplotlib.figure import Figure

from course.figures.lanes import lanes_to_banks, lanes_to_sectors
from warplab.emulator.profiling.accesses import Space, WarpAccess


def access(chosen: WarpAccess, *, title: str = "") -> Figure:
    """Lanes to sectors for global and local memory, lanes to banks for shared memory."""
    heading = title or chosen.title
    if chosen.space is Space.SHARED:
        return lanes_to_banks(chosen.addresses, chosen.size, write=chosen.write, matrix=chosen.matrix, title=heading)
    # Local memory lies word by word: what is drawn is the first word of each lane.
    size = min(chosen.size, 4) if chosen.space is Space.LOCAL else chosen.size
    return lanes_to_sectors(chosen.addresses, size, title=heading)
