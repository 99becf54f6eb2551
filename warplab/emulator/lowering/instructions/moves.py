"""Logic, shifts, permutations and moves."""

from __future__ import annotations

from warplab.emulator.lowering import arithmetic, select
from warplab.emulator.lowering.instructions.alternatives import BITS, INTEGERS, RANDOM
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Logic and moves"
ROWS = (
    Row(
        (
            ("{and,or,xor}{.pred,.b16,.b32,.b64}", "T T T"),
            ("not{.pred,.b16,.b32,.b64}", "T T"),
            ("cnot" + BITS, "T T"),
        ),
        arithmetic.logic,
        tested=RANDOM,
    ),
    Row(
        (("lop3.b32", "T T T T 0x96"), ("lop3{.and,.or}.b32", "T|pred T T T 0x96 pred")),
        arithmetic.lookup,
        tested=RANDOM,
    ),
    Row((("{shl,shr}" + BITS, "T T u32"), ("shr" + INTEGERS, "T T u32")), arithmetic.shift, tested=RANDOM),
    Row((("shf{.l,.r}{.clamp,.wrap}.b32", "T T T u32"),), arithmetic.of_words, tested=RANDOM),
    Row(
        (
            ("mov{.pred,.b16,.b32,.b64,.b128,.u16,.u32,.u64,.s16,.s32,.s64,.f32,.f64}", "T T"),
            ("mov{.b32,.b64,.b128}", "T 2H"),
            ("mov{.b32,.b64,.b128}", "2H T"),
            ("mov{.b32,.b64}", "T 4Q"),
            ("mov{.b32,.b64}", "4Q T"),
            ("mov.b16", "T 2H"),
            ("mov.b16", "2H T"),
        ),
        select.mov,
        Work.MOVE,
        tested=RANDOM,
    ),
    Row((("prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "b32 b32 b32 b32"),), arithmetic.of_words, tested=RANDOM),
)
