"""All instructions: what finds the row of an opcode."""

from __future__ import annotations

from warplab.emulator.lowering.instructions import (
    asynchronous,
    atomics,
    barriers,
    blackwell,
    control,
    conversions,
    floats,
    integers,
    lanes,
    memory,
    moves,
    selections,
    tensor,
    textures,
    video,
)
from warplab.emulator.lowering.rows import InstructionTable

FAMILIES = {
    family.TITLE: family.ROWS
    for family in (
        integers,
        floats,
        selections,
        moves,
        conversions,
        memory,
        asynchronous,
        atomics,
        control,
        barriers,
        lanes,
        video,
        tensor,
        blackwell,
        textures,
    )
}
TABLE = InstructionTable([row for rows in FAMILIES.values() for row in rows])
