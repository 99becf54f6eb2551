"""Comparisons, and choices by what they say."""

from __future__ import annotations

from warplab.emulator.lowering import select
from warplab.emulator.lowering.instructions.alternatives import BITS, CONDITIONS, FLOAT_CONDITIONS, INTEGERS, RANDOM
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Comparisons and selections"
ROWS = (
    Row(
        (
            ("setp" + CONDITIONS + INTEGERS, "pred T T"),
            ("setp{.lo,.ls,.hi,.hs}{.u16,.u32,.u64}", "pred T T"),
            ("setp{.eq,.ne}" + BITS, "pred T T"),
            ("setp" + CONDITIONS + "{.and,.or,.xor}{.u32,.s64}", "pred|pred T T pred"),
            ("setp" + FLOAT_CONDITIONS + "{,.ftz}.f32", "pred T T"),
            ("setp" + FLOAT_CONDITIONS + "{.f64,.f16,.bf16}", "pred T T"),
            ("setp" + FLOAT_CONDITIONS + "{.f16x2,.bf16x2}", "pred|pred T T"),
            ("setp" + FLOAT_CONDITIONS + ".and.f32", "pred|pred T T pred"),
        ),
        select.set_predicate,
        since={"bf16": 90, "bf16x2": 90},
        tested=RANDOM,
    ),
    Row(
        (
            ("set" + CONDITIONS + "{.u32,.s32,.f32}" + INTEGERS, "D T T"),
            ("set" + FLOAT_CONDITIONS + "{,.ftz}{.u32,.s32,.f32}.f32", "D T T"),
            ("set" + FLOAT_CONDITIONS + "{.u32,.s32,.f32}.f64", "D T T"),
            ("set" + FLOAT_CONDITIONS + "{.u16,.f16}.f16", "D T T"),
            ("set" + FLOAT_CONDITIONS + ".f16x2.f16x2", "D T T"),
            ("set" + FLOAT_CONDITIONS + ".bf16x2.bf16x2", "D T T"),
        ),
        select.set_register,
        since={"bf16": 90, "bf16x2": 90},
        tested=RANDOM,
    ),
    Row(
        (("selp{.b16,.b32,.b64,.u16,.s16,.u32,.s32,.u64,.s64,.f32,.f64}", "T T T pred"),),
        select.select,
        Work.INTEGER,
        tested=RANDOM,
    ),
    Row(
        (
            ("slct{.b16,.b32,.b64,.u32,.s32,.f32,.f64}.s32", "D D D s32"),
            ("slct{,.ftz}{.b16,.b32,.b64,.u32,.s32,.f32,.f64}.f32", "D D D f32"),
        ),
        select.select_by_sign,
        tested=RANDOM,
    ),
)
