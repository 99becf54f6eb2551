"""A warp that reads down a column of a tile in shared memory, by the distance of the tile's rows."""

from __future__ import annotations

from matplotlib.figure import Figure

from course.figures.explore import Explorer
from course.figures.lanes import lanes_to_banks
from warplab.hardware.requests import LANES, WORD, banks_of

ROWS = 32  # of the tile: a lane reads each


def column(pitch: int) -> list[int]:
    """Byte addresses of the 32 lanes: the first word of each row of a tile whose rows are `pitch` words apart."""
    return [WORD * pitch * lane for lane in range(LANES)]


def down_a_column(pitch: int) -> Figure:
    """Which banks serve such a read, wavefront by wavefront. Raises ValueError for a pitch below one word."""
    if pitch < 1:
        raise ValueError("the rows of a tile are at least one word apart")
    wavefronts = len(banks_of(column(pitch)).wavefronts)
    wide = "rows begin at multiples of 16 bytes" if pitch % 4 == 0 else "rows do not begin at multiples of 16 bytes"
    many = "wavefront" if wavefronts == 1 else "wavefronts"
    return lanes_to_banks(column(pitch), title=f"Down a column, rows {pitch} words apart: {wavefronts} {many}; {wide}")


def explore_pitch() -> Explorer:
    """A slider over the pitch of a tile."""
    return Explorer(down_a_column, pitch=(36, range(24, 65)))
