"""Arithmetic on bytes and halves, from the time of units for video."""

from __future__ import annotations

from warplab.emulator.lowering import video
from warplab.emulator.lowering.instructions.alternatives import CONDITIONS
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Video"
_TYPES = "{.u32,.s32}{.u32,.s32}{.u32,.s32}"
_NAMES = "vadd,vsub,vabsdiff,vmin,vmax"

ROWS = (
    Row(
        (
            ("{" + _NAMES + "}" + _TYPES + "{,.sat}", "b32 b32 b32"),
            ("{" + _NAMES + "}" + _TYPES + "{,.sat}{.add,.min,.max}", "b32 b32 b32 b32"),
            ("vset{.u32,.s32}{.u32,.s32}" + CONDITIONS, "b32 b32 b32"),
        ),
        video.scalar,
        Work.INTEGER,
        tested="tests/emulator/test_forms.py",
    ),
    Row(refused=(("{vshl,vshr}.u32.u32.u32{.clamp,.wrap}", "b32 b32 b32"), ("vmad" + _TYPES, "b32 b32 b32 b32"))),
    Row(
        (
            ("{vadd2,vsub2,vabsdiff2,vmin2,vmax2,vavrg2}" + _TYPES + "{,.sat,.add}", "b32 b32 b32 b32"),
            ("{vadd4,vsub4,vabsdiff4,vmin4,vmax4,vavrg4}" + _TYPES + "{,.sat,.add}", "b32 b32 b32 b32"),
            ("{vset2,vset4}{.u32,.s32}{.u32,.s32}" + CONDITIONS + "{,.add}", "b32 b32 b32 b32"),
        ),
        video.packed,
        Work.INTEGER,
        tested="tests/emulator/test_forms.py",
    ),
)
