"""Arithmetic on integers, and on their bits and bytes."""

from __future__ import annotations

from warplab.emulator.lowering import arithmetic
from warplab.emulator.lowering.instructions.alternatives import INTEGERS, RANDOM, WIDE_INTEGERS
from warplab.emulator.lowering.rows import Row

TITLE = "Integers"
ROWS = (
    Row(
        (
            ("{add,sub}" + INTEGERS, "T T T"),
            ("{add,sub}.sat.s32", "T T T"),
            ("add{.u16x2,.s16x2}", "T T T"),
            ("{add,sub}.cc" + WIDE_INTEGERS, "T T T"),
        ),
        arithmetic.add,
        since={"u16x2": 90, "s16x2": 90},
        tested=RANDOM,
    ),
    Row((("{addc,subc}{,.cc}" + WIDE_INTEGERS, "T T T"),), arithmetic.carry, tested=RANDOM),
    Row(
        (
            ("mul{.hi,.lo}" + INTEGERS, "T T T"),
            ("mul.wide{.u16,.s16}", "u32 T T"),
            ("mul.wide{.u32,.s32}", "u64 T T"),
        ),
        arithmetic.multiply,
        tested=RANDOM,
    ),
    Row(
        (
            ("mad{.hi,.lo}" + INTEGERS, "T T T T"),
            ("mad.wide{.u16,.s16}", "u32 T T u32"),
            ("mad.wide{.u32,.s32}", "u64 T T u64"),
            ("mad.hi.sat.s32", "T T T T"),
            ("mad{.hi,.lo}.cc" + WIDE_INTEGERS, "T T T T"),
        ),
        arithmetic.multiply_add,
        tested=RANDOM,
    ),
    Row((("madc{.hi,.lo}{,.cc}" + WIDE_INTEGERS, "T T T T"),), arithmetic.multiply_add, tested=RANDOM),
    Row(
        (
            ("mul24{.hi,.lo}{.u32,.s32}", "T T T"),
            ("mad24{.hi,.lo}{.u32,.s32}", "T T T T"),
            ("mad24.hi.sat.s32", "T T T T"),
        ),
        arithmetic.of_24_bits,
        tested=RANDOM,
    ),
    Row((("sad" + INTEGERS, "T T T T"),), arithmetic.signed_operation, tested=RANDOM),
    Row((("div" + INTEGERS, "T T T"),), arithmetic.signed_operation, tested=RANDOM),
    Row((("rem" + INTEGERS, "T T T"),), arithmetic.signed_operation, tested=RANDOM),
    Row((("{abs,neg}{.s16,.s32,.s64}", "T T"),), arithmetic.sign, tested=RANDOM),
    Row(
        (
            ("{min,max}" + INTEGERS, "T T T"),
            ("{min,max}{.u16x2,.s16x2}", "T T T"),
            ("{min,max}.relu{.s16x2,.s32}", "T T T"),
        ),
        arithmetic.choose,
        since={"u16x2": 90, "s16x2": 90, "relu": 90},
        tested=RANDOM,
    ),
    Row(
        (("{popc,clz}{.b32,.b64}", "u32 T"), ("bfind{,.shiftamt}" + WIDE_INTEGERS, "u32 T")),
        arithmetic.count_bits,
        tested=RANDOM,
    ),
    Row((("fns.b32", "b32 b32 b32 s32"),), arithmetic.nth_bit, tested="tests/emulator/test_integers.py"),
    Row((("brev{.b32,.b64}", "T T"),), arithmetic.by_name, tested=RANDOM),
    Row(
        (("bfe" + WIDE_INTEGERS, "T T u32 u32"), ("bfi{.b32,.b64}", "T T T u32 u32")),
        arithmetic.bit_field,
        tested=RANDOM,
    ),
    Row((("bmsk{.clamp,.wrap}.b32", "T T T"),), arithmetic.of_words, tested=RANDOM),
    Row(
        (("szext{.clamp,.wrap}{.u32,.s32}", "T T u32"),), arithmetic.of_words, tested="tests/emulator/test_integers.py"
    ),
    Row(
        (
            ("dp4a{.u32,.s32}{.u32,.s32}", "b32 b32 b32 b32"),
            ("dp2a{.lo,.hi}{.u32,.s32}{.u32,.s32}", "b32 b32 b32 b32"),
        ),
        arithmetic.of_words,
        tested=RANDOM,
    ),
)
