"""Conversions between pairs of 8-bit floats (e4m3, e5m2) and f16 or f32, as vector functions.

The ISA has them only in pairs, only to nearest and only saturating: what is too large, infinities too, becomes the
largest finite number; NaN stays NaN (code 0x7f).
"""

from __future__ import annotations

from warplab.emulator.core.alu.lanes import F32, I16, I32, Emitter, Lanes, Table, Vector, op_key
from warplab.emulator.core.alu.rounding import (
    E4M3_FORMAT,
    E5M2_FORMAT,
    F32_FORMAT,
    Format,
    load_small,
    narrow,
    splat_like,
    store_small,
)
from warplab.emulator.core.state.layout import SRC_A, SRC_B

FORMATS = {"e4m3": E4M3_FORMAT, "e5m2": E5M2_FORMAT}


def _encode(value: Vector, form: Format, relu: bool) -> Vector:
    """f32 values as 8-bit codes in I32 lanes."""
    code = narrow(value.bits(I32), F32_FORMAT, form, "rn", saturate=True)
    return _rectified(value, code) if relu else code


def _rectified(value: Vector, code: Vector) -> Vector:
    """.relu: zero where the value has a minus sign, -0 included; a NaN stays."""
    negative = value.bits(I32).compare("<", 0, signed=True) & value.compare("ord", value)
    return negative.where(0, code)


def _decode(code: Vector, form: Format) -> Vector:
    """8-bit codes in I32 lanes as f32 values, exactly."""
    magnitude = code & 0x7F
    # As float32 bits the exponent is too small by the difference of the biases; subnormals come out normalised.
    scaled = ((magnitude << (23 - form.significand)).bits(F32) * 2.0 ** (127 - form.bias)).bits(I32)
    special = magnitude.compare(">=", form.infinity).where(splat_like(code, 0x7FC00000), scaled)
    if not form.finite:
        special = magnitude.compare("==", form.infinity).where(splat_like(code, 0x7F800000), special)
    return (special | ((code & 0x80) << 24)).bits(F32)


def _narrow_pair(form: Format, source: str, relu: bool) -> Emitter:
    """Of f32 sources SRC_A goes to the upper byte; an f16x2 source keeps its order."""

    def emit(o: Lanes) -> None:
        if source == "f32":
            high, low = o.read(SRC_A, F32), o.read(SRC_B, F32)
        else:
            pair = o.read(SRC_A, I32)
            high, low = load_small(pair.lshr(16).trunc(I16), "f16"), load_small(pair.trunc(I16), "f16")
        o.write(((_encode(high, form, relu) << 8) | _encode(low, form, relu)).trunc(I16))

    return emit


def _widen_pair(form: Format, relu: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        pair = o.read(SRC_A, I16).zext(I32)
        halves = []
        for code in (pair & 0xFF, pair.lshr(8)):
            value = _decode(code, form)
            bits = store_small(value, "f16")
            halves.append((_rectified(value, bits) if relu else bits).zext(I32))
        o.write(halves[0] | (halves[1] << 16))

    return emit


def build() -> Table:
    """Every conversion from or to 8-bit floats."""
    table: Table = {}
    for name, form in FORMATS.items():
        for relu in ("", "relu"):
            for source in ("f32", "f16x2"):
                key = op_key("cvt.rn.satfinite", relu, f"{name}x2", source)
                table[key] = _narrow_pair(form, source, bool(relu))
            table[op_key("cvt.rn", relu, "f16x2", f"{name}x2")] = _widen_pair(form, bool(relu))
    return table
