"""Conversions between pairs of floats of 4, 6 and 8 bits, powers of two, and wider floats, as vector functions.

The ISA has the floats only in pairs, to nearest or by random bits, and only saturating: what is too large, infinities
too, becomes the largest finite number. NaN stays NaN (code 0x7f), or becomes the largest number of a format without
NaN. Two of four bits share a byte. ue8m0 is the exponent of a float32, without its sign: 255 is NaN. (PTX ISA, "cvt";
cuda_fp8.hpp.)
"""

from __future__ import annotations

from warplab.emulator.core.alu.lanes import F32, I16, I32, Emitter, Lanes, Table, Vector, op_key
from warplab.emulator.core.alu.rounding import (
    E2M1_FORMAT,
    E2M3_FORMAT,
    E3M2_FORMAT,
    E4M3_FORMAT,
    E5M2_FORMAT,
    F32_FORMAT,
    Format,
    load_small,
    narrow,
    splat_like,
    store_small,
)
from warplab.emulator.core.state.layout import SRC_A, SRC_B, SRC_C

FORMATS = {"e4m3": E4M3_FORMAT, "e5m2": E5M2_FORMAT, "e2m1": E2M1_FORMAT, "e2m3": E2M3_FORMAT, "e3m2": E3M2_FORMAT}
_TINY = 0x00400000  # 2**-127 as float32: what ue8m0 has as its smallest number
_LARGEST_POWER, _NO_POWER = 254, 255
_RANDOM_BITS = 16


def _place(form: Format) -> int:
    """How many bits the second number of a pair lies above the first."""
    return 4 if form is E2M1_FORMAT else 8


def _encode(value: Vector, form: Format, relu: bool, chance: tuple[Vector, int] | None = None) -> Vector:
    """f32 values as codes in I32 lanes, to nearest, or as so many random bits decide."""
    code = narrow(value.bits(I32), F32_FORMAT, form, "rs" if chance else "rn", saturate=True, chance=chance)
    return _rectified(value, code) if relu else code


def _rectified(value: Vector, code: Vector) -> Vector:
    """.relu: zero where the value has a minus sign, -0 included; a NaN stays."""
    negative = value.bits(I32).compare("<", 0, signed=True) & value.compare("ord", value)
    return negative.where(0, code)


def _decode(code: Vector, form: Format) -> Vector:
    """Codes in I32 lanes as f32 values, exactly."""
    magnitude = code & (form.sign - 1)
    # As float32 bits the exponent is too small by the difference of the biases; subnormals come out normalised.
    scaled = ((magnitude << (23 - form.significand)).bits(F32) * 2.0 ** (127 - form.bias)).bits(I32)
    special = magnitude.compare(">=", form.infinity).where(splat_like(code, 0x7FC00000), scaled)
    if not form.finite:
        special = magnitude.compare("==", form.infinity).where(splat_like(code, 0x7F800000), special)
    return (special | ((code & form.sign) << (31 - form.exponent - form.significand))).bits(F32)


def _pair(o: Lanes, source: str) -> tuple[Vector, Vector]:
    """The values for the upper and the lower part: SRC_A and SRC_B, or the halves of an f16x2 or bf16x2."""
    if source == "f32":
        return o.read(SRC_A, F32), o.read(SRC_B, F32)
    pair = o.read(SRC_A, I32)
    if source == "bf16x2":
        return (pair & 0xFFFF0000).bits(F32), (pair << 16).bits(F32)
    return load_small(pair.lshr(16).trunc(I16), "f16"), load_small(pair.trunc(I16), "f16")


def _narrow_pair(form: Format, source: str, relu: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        high, low = _pair(o, source)
        o.write(((_encode(high, form, relu) << _place(form)) | _encode(low, form, relu)).trunc(I16))

    return emit


def _narrow_pair_by_chance(form: Format, relu: bool) -> Emitter:
    """Both numbers are rounded by the same 16 bits of SRC_C."""

    def emit(o: Lanes) -> None:
        (high, low), random = _pair(o, "f32"), o.read(SRC_C, I32) & 0xFFFF
        codes = [_encode(value, form, relu, (random, _RANDOM_BITS)) for value in (high, low)]
        o.write(((codes[0] << _place(form)) | codes[1]).trunc(I16))

    return emit


def _widen_pair(form: Format, relu: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        pair, place = o.read(SRC_A, I16).zext(I32), _place(form)
        halves = []
        for code in (pair & ((1 << place) - 1), pair.lshr(place)):
            value = _decode(code, form)
            bits = store_small(value, "f16")
            halves.append((_rectified(value, bits) if relu else bits).zext(I32))
        o.write(halves[0] | (halves[1] << 16))

    return emit


def _power(value: Vector, mode: str, saturate: bool) -> Vector:
    """The ue8m0 code of the largest power of two that is not above |value| (rz), or of the smallest not below it."""
    magnitude = value.bits(I32) & 0x7FFFFFFF
    code = magnitude.lshr(23)
    if mode == "rp":
        above = (magnitude & 0x7FFFFF).compare("!=", 0) & magnitude.compare(">", _TINY)
        code = (above & magnitude.compare("<", 0x7F800000)).where(code + 1, code)
    if saturate:
        number = magnitude.compare("<=", 0x7F800000)
        code = (number & code.compare("==", _NO_POWER)).where(splat_like(code, _LARGEST_POWER), code)
    return code


def _to_powers(source: str, mode: str, saturate: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        high, low = (_power(value, mode, saturate) for value in _pair(o, source))
        o.write(((high << 8) | low).trunc(I16))

    return emit


def _from_powers(o: Lanes) -> None:
    """Pairs of ue8m0 as bf16x2: the least is subnormal there."""
    pair = o.read(SRC_A, I16).zext(I32)
    halves = []
    for code in (pair & 0xFF, pair.lshr(8)):
        bits = code.compare("==", 0).where(splat_like(code, _TINY >> 16), code << 7)
        halves.append(code.compare("==", _NO_POWER).where(splat_like(code, 0x7FFF), bits))
    o.write(halves[0] | (halves[1] << 16))


def build() -> Table:
    """Every conversion from or to floats of 8 bits and less."""
    table: Table = {"cvt.rn.bf16x2.ue8m0x2": _from_powers}
    for name, form in FORMATS.items():
        for relu in ("", "relu"):
            for source in ("f32", "f16x2"):
                key = op_key("cvt.rn.satfinite", relu, f"{name}x2", source)
                table[key] = _narrow_pair(form, source, bool(relu))
            table[op_key("cvt.rs.satfinite", relu, f"{name}x2", "f32")] = _narrow_pair_by_chance(form, bool(relu))
            table[op_key("cvt.rn", relu, "f16x2", f"{name}x2")] = _widen_pair(form, bool(relu))
    for source in ("f32", "bf16x2"):
        for mode in ("rz", "rp"):
            for satfinite in ("", "satfinite"):
                key = op_key(f"cvt.{mode}", satfinite, "ue8m0x2", source)
                table[key] = _to_powers(source, mode, bool(satfinite))
    return table
