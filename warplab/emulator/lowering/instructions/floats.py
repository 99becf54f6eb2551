"""Arithmetic on floats, single ones and packed ones."""

from __future__ import annotations

from collections.abc import Sequence

from warplab.emulator.lowering import arithmetic
from warplab.emulator.lowering.instructions.alternatives import HALVES, RANDOM, ROUND
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Floats"


def _special(parts: Sequence[str]) -> Work:
    """Functions that the special units begin, but for those in float64, which are made of products."""
    return Work.FP64 if parts[-1] == "f64" else Work.SPECIAL


ROWS = (
    Row(
        (
            ("{add,sub}{," + ROUND[1:-1] + "}{,.ftz}{,.sat}.f32", "T T T"),
            ("{add,sub}{," + ROUND[1:-1] + "}.f64", "T T T"),
            ("{add,sub}{,.rn}{,.ftz}{,.sat}{.f16,.f16x2}", "T T T"),
            ("{add,sub}{,.rn}{.bf16,.bf16x2}", "T T T"),
            ("{add,sub}{," + ROUND[1:-1] + "}{,.sat}.f32{.f16,.bf16}", "D T D"),
        ),
        arithmetic.rounded,
        since={"bf16": 90, "bf16x2": 90, "f32.f16": 100, "f32.bf16": 100},
        float_operation="add",
        tested=RANDOM,
    ),
    Row(
        (
            ("mul{," + ROUND[1:-1] + "}{,.ftz}{,.sat}.f32", "T T T"),
            ("mul{," + ROUND[1:-1] + "}.f64", "T T T"),
            ("mul{,.rn}{,.ftz}{,.sat}{.f16,.f16x2}", "T T T"),
            ("mul{,.rn}{.bf16,.bf16x2}", "T T T"),
        ),
        arithmetic.rounded,
        since={"bf16": 90, "bf16x2": 90},
        float_operation="mul",
        tested=RANDOM,
    ),
    Row(
        (
            ("{fma,mad}" + ROUND + "{,.ftz}{,.sat}.f32", "T T T T"),
            ("{fma,mad}" + ROUND + ".f64", "T T T T"),
            ("fma.rn{,.ftz}{,.sat}{.f16,.f16x2}", "T T T T"),
            ("fma.rn{,.ftz}.relu{.f16,.f16x2}", "T T T T"),
            ("fma.rn{,.relu}{.bf16,.bf16x2}", "T T T T"),
            ("fma" + ROUND + "{,.sat}.f32{.f16,.bf16}", "D T T D"),
        ),
        arithmetic.fused,
        since={"bf16": 80, "bf16x2": 80, "relu": 80, "oob": 90, "f32.f16": 100, "f32.bf16": 100},
        refused=(("fma.rn.oob{,.relu}" + HALVES, "T T T T"),),
        float_operation="fma",
        tested=RANDOM,
    ),
    Row(
        (("{add,sub}{," + ROUND[1:-1] + "}{,.ftz}.f32x2", "T T T"),),
        arithmetic.pairs_of_floats,
        float_operation="add",
        since={"": 100},
        tested="tests/emulator/test_blackwell.py",
    ),
    Row(
        (("mul{," + ROUND[1:-1] + "}{,.ftz}.f32x2", "T T T"),),
        arithmetic.pairs_of_floats,
        float_operation="mul",
        since={"": 100},
        tested="tests/emulator/test_blackwell.py",
    ),
    Row(
        (("fma" + ROUND + "{,.ftz}.f32x2", "T T T T"),),
        arithmetic.pairs_of_floats,
        float_operation="fma",
        since={"": 100},
        tested="tests/emulator/test_blackwell.py",
    ),
    Row(
        (
            ("div" + ROUND + "{,.ftz}.f32", "T T T"),
            ("div{.approx,.full}{,.ftz}.f32", "T T T"),
            ("div" + ROUND + ".f64", "T T T"),
        ),
        arithmetic.divide,
        _special,
        tested=RANDOM,
    ),
    Row(
        (
            ("{rcp,sqrt}" + ROUND + "{,.ftz}.f32", "T T"),
            ("{rcp,sqrt}" + ROUND + ".f64", "T T"),
            ("{rcp,sqrt,rsqrt,lg2,ex2}.approx{,.ftz}.f32", "T T"),
            ("{rcp,rsqrt}.approx.ftz.f64", "T T"),
            ("rsqrt.approx.f64", "T T"),
            ("tanh.approx{.f32,.f16,.f16x2,.bf16,.bf16x2}", "T T"),
            ("ex2.approx{.f16,.f16x2,.ftz.bf16,.ftz.bf16x2}", "T T"),
        ),
        arithmetic.function,
        _special,
        since={"bf16": 90, "bf16x2": 90},
        tested="tests/emulator/test_floats.py",
    ),
    # These begin with a product, which makes turns of radians.
    Row(
        (("{sin,cos}.approx{,.ftz}.f32", "T T"),),
        arithmetic.function,
        _special,
        float_operation="mul",
        tested="tests/emulator/test_floats.py",
    ),
    Row(
        (
            ("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32", "T T T"),
            ("{min,max}.f64", "T T T"),
            ("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}{.f16,.f16x2}", "T T T"),
            ("{min,max}{,.NaN}{,.xorsign.abs}{.bf16,.bf16x2}", "T T T"),
        ),
        arithmetic.choose_float,
        since={"NaN": 80, "f16": 80, "f16x2": 80, "bf16": 80, "bf16x2": 80, "xorsign": 86},
        tested=RANDOM,
    ),
    Row(
        (("{neg,abs}{,.ftz}{.f32,.f16,.f16x2}", "T T"), ("{neg,abs}{.f64,.bf16,.bf16x2}", "T T")),
        arithmetic.sign_of_float,
        since={"bf16": 80, "bf16x2": 80},
        tested=RANDOM,
    ),
    Row((("copysign{.f32,.f64}", "T T T"),), arithmetic.by_name, tested=RANDOM),
    Row(
        (("testp{.finite,.infinite,.number,.notanumber,.normal,.subnormal}{.f32,.f64}", "pred T"),),
        arithmetic.has_property,
        tested=RANDOM,
    ),
)
