"""Pairs of small floats in one register: packing with rounding, unpacking exactly (PTX ISA, "cvt")."""

from __future__ import annotations

from collections.abc import Callable

from warplab.ptx.inline import F32, U16, U32, Fragment, Register, instruction


def _pack(kind: str) -> Callable:
    return instruction(
        f"pack_{kind}",
        f"cvt.rn.{kind}x2.f32 {{d}}, {{1}}, {{0}};",
        [F32, F32],
        U32,
        pure=True,
        doc=f"pack_{kind}(low, high) -> uint32: two float32 rounded to {kind}, nearest even, `low` in the lower half.",
    )


def _pack8(kind: str) -> Callable:
    return instruction(
        f"pack_{kind}",
        f"cvt.rn.satfinite.{kind}x2.f32 {{d}}, {{1}}, {{0}};",
        [F32, F32],
        U16,
        pure=True,
        doc=f"""pack_{kind}(low, high) -> uint16: two float32 rounded to {kind}, nearest even, `low` in the lower byte.

        Values beyond the largest finite one become it (sm_89).
        """,
    )


def _unpack(kind: str, register: Register, convert: str) -> Callable:
    bits = register.type.bitwidth
    return instruction(
        f"unpack_{kind}",
        "{ .reg .b16 low, high; .reg .b32 pair; " + convert + " }",
        [register],
        Fragment(F32, 2),
        pure=True,
        doc=f"unpack_{kind}(register) -> (low, high): the two {kind} of a uint{bits} as float32, exactly.",
    )


_HALVES = "cvt.f32.f16 $0, low; cvt.f32.f16 $1, high;"
_BYTES = "cvt.rn.f16x2.{}x2 pair, {{0}}; mov.b32 {{low, high}}, pair; " + _HALVES

pack_f16 = _pack("f16")
pack_bf16 = _pack("bf16")
pack_e4m3 = _pack8("e4m3")
pack_e5m2 = _pack8("e5m2")
unpack_f16 = _unpack("f16", U32, "mov.b32 {low, high}, {0}; " + _HALVES)
unpack_bf16 = _unpack(
    "bf16", U32, "shl.b32 pair, {0}, 16; mov.b32 $0, pair; and.b32 pair, {0}, 0xffff0000; mov.b32 $1, pair;"
)
unpack_e4m3 = _unpack("e4m3", U16, _BYTES.format("e4m3"))
unpack_e5m2 = _unpack("e5m2", U16, _BYTES.format("e5m2"))
