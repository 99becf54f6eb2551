"""Who wrote the byte that a run watched, in the words of a Plan."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.layout import (
    LANES,
    R_WRITER_LANE,
    R_WRITER_PC,
    R_WRITER_WARP,
    R_WRITER_X,
    R_WRITER_Y,
    R_WRITER_Z,
)
from warplab.emulator.program import Program
from warplab.plan.execution import Writer
from warplab.plan.model import Launch


def writer(entry: np.ndarray, program: Program, launch: Launch) -> Writer | None:
    """Who stored the watched byte of a region in a launch, if anyone did."""
    pc = int(entry[R_WRITER_PC])
    if pc < 0:
        return None
    width, height, _ = launch.block
    thread = int(entry[R_WRITER_WARP]) * LANES + int(entry[R_WRITER_LANE])
    return Writer(
        launch.kernel,
        int(program.lines[pc]),
        (int(entry[R_WRITER_X]), int(entry[R_WRITER_Y]), int(entry[R_WRITER_Z])),
        (thread % width, thread // width % height, thread // (width * height)),
    )
