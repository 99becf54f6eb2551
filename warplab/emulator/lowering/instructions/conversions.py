"""Conversions of numbers and of addresses."""

from __future__ import annotations

from collections.abc import Sequence

from warplab.emulator.lowering import convert, memory
from warplab.emulator.lowering.instructions.alternatives import RANDOM, ROUND
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work
from warplab.isa.syntax import TYPE_BITS

TITLE = "Conversions"
_ALL_INTEGERS = "{.u8,.s8,.u16,.s16,.u32,.s32,.u64,.s64}"
_ALL_FLOATS = "{.f16,.bf16,.f32,.f64}"
_SINCE = {
    **{f"bf16.{kind}": 90 for kind in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f64")},
    **dict.fromkeys(("bf16.f32", "relu", "f16x2", "bf16x2", "tf32"), 80),
    **dict.fromkeys(("rn.tf32", "rz.tf32"), 90),
    **dict.fromkeys(("rs", "rn.satfinite.tf32", "rz.satfinite.tf32"), 100),
    **dict.fromkeys(("e4m3x2", "e5m2x2"), 89),
    **dict.fromkeys(("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"), 100),
}
_SPACES = "{.global,.shared,.local,.const,.param,.shared::cta,.shared::cluster}"


def _conversion(parts: Sequence[str]) -> Work:
    """An integer that becomes wider or narrower is moved, unless it saturates."""
    integers = all(part[:1] in "us" and part in TYPE_BITS for part in parts[-2:])
    return Work.MOVE if integers and "sat" not in parts else Work.CONVERSION


def _address(parts: Sequence[str]) -> Work:
    """Windows lie at an offset; a global address is a generic one already."""
    return Work.INTEGER if {"shared", "shared__cta", "shared__cluster", "local"} & set(parts) else Work.MOVE


ROWS = (
    Row(
        (
            ("cvt{,.sat}" + _ALL_INTEGERS + _ALL_INTEGERS, "D T"),
            ("cvt" + ROUND + _ALL_FLOATS + _ALL_INTEGERS, "D T"),
            ("cvt{.rni,.rzi,.rmi,.rpi}" + _ALL_INTEGERS + _ALL_FLOATS, "D T"),
            ("cvt{.rni,.rzi}.ftz{.u32,.s32,.u64,.s64}.f32", "D T"),
            ("cvt" + ROUND + "{,.ftz}{,.sat}.f32.f64", "D T"),
            ("cvt" + ROUND + "{,.ftz}{,.sat}{.f16}.f32", "D T"),
            ("cvt" + ROUND + "{.f16,.bf16}.f64", "D T"),
            ("cvt{.rn,.rz}{,.relu}{,.satfinite}{.f16,.bf16}.f32", "D T"),
            ("cvt{.rn,.rz}{,.relu}{,.satfinite}{.f16x2,.bf16x2}.f32", "D T T"),
            ("cvt{,.ftz}.f32.f16", "D T"),
            ("cvt{.f32.bf16,.f64.f16,.f64.bf16,.f64.f32}", "D T"),
            ("cvt{.rni,.rzi,.rmi,.rpi}{.f16.f16,.f32.f32,.f64.f64}", "D T"),
            ("cvt.rna{,.satfinite}.tf32.f32", "b32 T"),
            ("cvt{.rn,.rz}{,.relu}.tf32.f32", "b32 T"),
            ("cvt{.rn,.rz}.satfinite{,.relu}.tf32.f32", "b32 T"),
            ("cvt.rs{,.relu}{,.satfinite}{.f16x2,.bf16x2}.f32", "D T T b32"),
            ("cvt.rs{,.relu}.satfinite{.e4m3x4,.e5m2x4,.e2m3x4,.e3m2x4}.f32", "b32 4T b32"),
            ("cvt.rs{,.relu}.satfinite.e2m1x4.f32", "b16 4T b32"),
            ("cvt.rn.satfinite{,.relu}{.e4m3x2,.e5m2x2}.f32", "b16 T T"),
            ("cvt.rn.satfinite{,.relu}{.e4m3x2,.e5m2x2}.f16x2", "b16 b32"),
            ("cvt.rn{,.relu}.f16x2{.e4m3x2,.e5m2x2}", "b32 b16"),
            ("cvt.rn.satfinite{,.relu}{.e2m3x2,.e3m2x2}{.f32}", "b16 T T"),
            ("cvt.rn.satfinite{,.relu}.e2m1x2.f32", "b8 T T"),
            ("cvt.rn.satfinite{,.relu}{.e2m3x2,.e3m2x2}.f16x2", "b16 b32"),
            ("cvt.rn.satfinite{,.relu}.e2m1x2.f16x2", "b8 b32"),
            ("cvt.rn{,.relu}.f16x2{.e2m3x2,.e3m2x2}", "b32 b16"),
            ("cvt.rn{,.relu}.f16x2.e2m1x2", "b32 b8"),
            ("cvt{.rz,.rp}{,.satfinite}.ue8m0x2.f32", "b16 T T"),
            ("cvt{.rz,.rp}{,.satfinite}.ue8m0x2.bf16x2", "b16 b32"),
            ("cvt.rn.bf16x2.ue8m0x2", "b32 b16"),
            ("cvt.pack.sat{.u16,.s16}.s32", "b32 s32 s32"),
            ("cvt.pack.sat{.u8,.s8}.s32.b32", "b32 s32 s32 b32"),
        ),
        convert.convert,
        _conversion,
        since=_SINCE,
        tested=RANDOM,
    ),
    Row(
        (("cvta" + _SPACES + ".u64", "T T"), ("cvta.to" + _SPACES + ".u64", "T T")),
        memory.convert_address,
        _address,
        since={"shared__cluster": 90},
        tested="tests/emulator/test_spaces.py",
    ),
    Row(
        (("isspacep" + _SPACES, "pred u64"),),
        memory.is_space,
        Work.INTEGER,
        since={"shared__cluster": 90},
        tested="tests/emulator/test_spaces.py",
    ),
)
