"""Conversions between integers and floats, and among float formats, as vector functions.

Integer sources are 32 or 64 bits wide here and integer targets of 8 and 16 bits come in 32-bit lanes: the decoder adds
the resizing steps. Keys are "cvt.mode.flags.target.source".
"""

from __future__ import annotations

from warplab.emulator.core.alu.lanes import F32, F64, I16, I32, I64, INT, Emitter, Lanes, Table, Vector, op_key
from warplab.emulator.core.alu.rounding import (
    F32_FORMAT,
    F64_FORMAT,
    FORMATS,
    canonical,
    flush,
    load_small,
    narrow,
    saturate,
    splat_like,
    store_small,
    to_odd,
)
from warplab.emulator.core.state.layout import SRC_A, SRC_B, SRC_C

MODES = ("rn", "rz", "rm", "rp")
# Below these a float64 becomes a zero by cvt.ftz.f32.f64: it would be subnormal if float32 had more exponents. By mode,
# away from zero and towards it; ptxas compares with them for every target.
_NORMAL, _TO_NEAREST, _AWAY = 0x3810000000000000, 0x380FFFFFF0000000, 0x380FFFFFE0000001
ROUND = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def _from_integer(width: int, signed: bool, target: str, mode: str) -> Emitter:
    def emit(o: Lanes) -> None:
        value = o.read(SRC_A, INT[width])
        method = "sitofp" if signed else "uitofp"
        if target == "f64" and (mode == "rn" or width == 32):
            o.write(value.cast(method, F64))
        elif target == "f32" and mode == "rn":
            o.write(value.cast(method, F32))
        else:
            if target == "f64":
                o.write(_long_to_double(value, signed, mode))
                return
            wide = _integer_to_odd(value, signed) if width == 64 else value.cast(method, F64)
            result = narrow(wide.bits(I64), F64_FORMAT, FORMATS[target], mode)
            o.write(result.trunc(I32).bits(F32) if target == "f32" else result.trunc(I16))

    return emit


def _long_to_double(value: Vector, signed: bool, mode: str) -> Vector:
    """A 64-bit integer to float64 in a directed mode: its leading 53 bits, and one more where the rest asks for it."""
    zero = splat_like(value, 0)
    negative = value.compare("<", 0, signed=True) if signed else value.compare("!=", value)
    magnitude = negative.where(zero - value, value)
    zeros = magnitude.call("llvm.ctlz", flag=False)
    shifted = magnitude << (zeros & 63)
    away = negative if mode == "rm" else negative ^ 1
    inexact = (shifted & 0x7FF).compare("!=", 0)
    up = zero if mode == "rz" else (inexact & away).where(splat_like(value, 1), 0)
    # The leading one adds itself to the exponent.
    exponent = splat_like(value, 1023 + 63 - 1) - zeros
    bits = (exponent << 52) + shifted.lshr(11) + up
    return value.compare("==", 0).where(zero, bits | negative.where(splat_like(value, 1 << 63), 0)).bits(F64)


def _integer_to_odd(value: Vector, signed: bool) -> Vector:
    """A 64-bit integer as float64 rounded to odd: its two halves convert exactly, their sum's error is exact too."""
    high = (value.ashr(32) if signed else value.lshr(32)).cast("sitofp" if signed else "uitofp", F64) * 2.0**32
    low = (value & 0xFFFFFFFF).cast("uitofp", F64)
    total = high + low
    return to_odd(total, low - (total - high))


def _to_integer(source: str, width: int, signed: bool, mode: str, ftz: bool) -> Emitter:
    """Round, then saturate. NaN gives 0, or the integer's top bit when float64 or a 64-bit integer takes part."""

    def emit(o: Lanes) -> None:
        value = _load(o, source)
        value = flush(value) if ftz else value
        rounded = value.call(ROUND[mode])
        result = rounded.convert("llvm.fptosi.sat" if signed else "llvm.fptoui.sat", INT[width])
        if width < 32:
            result = result.resize(I32, signed)
        if source == "f64" or width == 64:
            top = splat_like(result, 1 << (width - 1))
            if width < 32 and signed:
                top = splat_like(result, -(1 << (width - 1)))
            result = value.compare("uno", value).where(top, result)
        o.write(result)

    return emit


def _load(o: Lanes, source: str) -> Vector:
    if source in ("f16", "bf16"):
        return load_small(o.read(SRC_A, I16), source)
    return o.read(SRC_A, F32 if source == "f32" else F64)


def _between(source: str, target: str, mode: str, ftz: bool, flag: str) -> Emitter:
    """A float to another format. Widening is exact; narrowing rounds once."""

    def emit(o: Lanes) -> None:
        if (target, source, flag) == ("f32", "bf16", ""):
            moved = o.read(SRC_A, I16).zext(I32) << 16  # a move on the hardware: NaNs keep their bits
            o.write(flush(moved.bits(F32)).bits(I32) if ftz else moved)
            return
        if (target, source, flag, ftz) == ("f32", "f32", "", False):
            o.write(o.read(SRC_A, I32))  # the same
            return
        value = _load(o, source)
        if target in ("f16", "bf16"):
            # .ftz changes nothing here: the hardware rounds a subnormal away from zero where the mode says so.
            bits = store_small(value, target, mode)
            if source == "f64":
                wide = value.bits(I64)
                payload = (wide.lshr(42) & 0x1FF) | 0x7E00 if target == "f16" else (wide.lshr(45) & 0x3F) | 0x7FC0
                kept = (wide.lshr(48) & 0x8000) | payload
                bits = value.compare("uno", value).where(kept.trunc(I16), bits)
            o.write(_small_flag(bits, target, flag))
            return
        if ftz and source == "f32":
            value = flush(value)
        if target == "f64":
            value = canonical(value) if source == "f32" else value
            result = value if source == "f64" else value.cast("fpext", F64)
        elif source == "f64":
            if mode == "rn":
                result = value.cast("fptrunc", F32)
            else:
                result = narrow(value.bits(I64), F64_FORMAT, F32_FORMAT, mode).trunc(I32).bits(F32)
        else:
            result = value
        if target == "f32":
            if ftz:
                result = _flush_double(value, result, mode) if source == "f64" else flush(result)
            result = canonical(result) if source != "f64" else _kept_nan(value, result)
        if target == "f64" and source != "f64" and not ftz and not flag:
            result = _widened_nan(o, source, result)
        o.write(saturate(result) if flag == "sat" else result)

    return emit


def _widened_nan(o: Lanes, source: str, result: Vector) -> Vector:
    """A NaN as float64: quiet, with its sign and payload."""
    small = o.read(SRC_A, I32 if source == "f32" else I16)
    width, significand = {"f32": (32, 23), "f16": (16, 10), "bf16": (16, 7)}[source]
    infinity = (1 << (width - 1)) - (1 << significand)
    nan = (small & ((1 << (width - 1)) - 1)).compare(">", infinity)
    bits = small.zext(I64)
    sign = (bits & (1 << (width - 1))) << (64 - width)
    kept = sign | ((bits & ((1 << significand) - 1)) << (52 - significand)) | 0x7FF8000000000000
    return nan.where(kept, result.bits(I64)).bits(F64)


def _flush_double(value: Vector, result: Vector, mode: str) -> Vector:
    """A float64 as float32, with a zero of its sign in place of a subnormal number."""
    wide = value.bits(I64)
    least = splat_like(wide, _TO_NEAREST if mode == "rn" else _NORMAL)
    if mode in ("rm", "rp"):
        negative = wide.compare("<", 0, signed=True)
        away = negative if mode == "rm" else negative ^ 1
        least = away.where(splat_like(wide, _AWAY), least)
    small = (wide & 0x7FFFFFFFFFFFFFFF).compare("<", least)
    return small.where(result.bits(I32) & 0x80000000, result.bits(I32)).bits(F32)


def _kept_nan(value: Vector, result: Vector) -> Vector:
    """A float64 NaN as float32: quiet, with its sign and the upper bits of its payload."""
    wide = value.bits(I64)
    kept = (wide.lshr(32) & 0x80000000) | (wide.lshr(29) & 0x3FFFFF) | 0x7FC00000
    return value.compare("uno", value).where(kept.trunc(I32).bits(F32), result)


def _small_flag(bits: Vector, target: str, flag: str) -> Vector:
    infinity, one = (0x7C00, 0x3C00) if target == "f16" else (0x7F80, 0x3F80)
    nan = (bits & 0x7FFF).compare(">", infinity)
    if flag == "sat":
        bits = (nan | bits.compare("<", 0, signed=True)).where(0, bits)
        return bits.compare(">", one, signed=True).where(one, bits)
    if "relu" in flag:
        bits = (~nan & bits.compare("<", 0, signed=True)).where(0, bits)
    if "satfinite" in flag:
        bits = (bits & 0x7FFF).compare("==", infinity).where(bits - 1, bits)
    return bits


def _pack_two(target: str, mode: str, flag: str) -> Emitter:
    """cvt.x2: SRC_A goes to the upper half, SRC_B to the lower one."""

    def emit(o: Lanes) -> None:
        high, low = (
            _small_flag(store_small(o.read(slot, F32), target, mode), target, flag).zext(I32) for slot in (SRC_A, SRC_B)
        )
        o.write((high << 16) | low)

    return emit


_RANDOM_BITS = {"f16": 13, "bf16": 16}  # of each half of the third source


def _pack_two_by_chance(target: str, flag: str) -> Emitter:
    """cvt.rs.x2: the halves of SRC_C decide how those of the result are rounded."""

    def emit(o: Lanes) -> None:
        random, width = o.read(SRC_C, I32), _RANDOM_BITS[target]
        halves = []
        for slot, own in ((SRC_A, random.lshr(16)), (SRC_B, random)):
            bits = store_small(o.read(slot, F32), target, "rs", (own & ((1 << width) - 1), width))
            halves.append(_small_flag(bits, target, flag).zext(I32))
        o.write((halves[0] << 16) | halves[1])

    return emit


def _tensor_float(mode: str, flag: str) -> Emitter:
    """tf32: float32 with 10 bits of significand; the low 13 bits are zero."""

    def emit(o: Lanes) -> None:
        bits = o.read(SRC_A, I32)
        magnitude = bits & 0x7FFFFFFF
        if mode == "rna":
            rounded = bits + 0x1000
        elif mode == "rn":
            rounded = bits + 0x0FFF + (bits.lshr(13) & 1)
        else:
            rounded = bits
        rounded = rounded & 0xFFFFE000
        special = magnitude.compare(">=", F32_FORMAT.infinity)
        nan = magnitude.compare(">", F32_FORMAT.infinity)
        rounded = special.where(bits, rounded)
        if "relu" in flag:
            rounded = rounded.compare("<", 0, signed=True).where(0, rounded)
        kept = bits & 0xFFFFE000 if mode == "rna" else splat_like(bits, 0x7FFFE000)
        result = nan.where(kept, rounded)
        if "satfinite" in flag:
            # As ptxas makes it for sm_90: one step down from infinity, and from a NaN.
            result = (result & 0x7FFFFFFF).compare(">=", F32_FORMAT.infinity).where(result - 0x2000, result)
        o.write(result)

    return emit


def _round_in_place(name: str, mode: str, ftz: bool, flag: str) -> Emitter:
    """cvt.rni.f32.f32 and its kin: to an integral value of the same format."""

    def emit(o: Lanes) -> None:
        value = _load(o, name)
        value = flush(value) if ftz else value
        result = value.call(ROUND[mode])
        if flag == "sat":
            result = saturate(result)
        if name in ("f16", "bf16"):
            o.write(store_small(result, name))
        else:
            o.write(canonical(result) if name == "f32" else result)

    return emit


def _integers(table: Table) -> None:
    for letter in "su":
        for width in (32, 64):
            for target in ("f16", "bf16", "f32", "f64"):
                for mode in MODES:
                    table[op_key("cvt", mode, target, f"{letter}{width}")] = _from_integer(
                        width, letter == "s", target, mode
                    )
        for width in (8, 16, 32, 64):
            for source in ("f16", "bf16", "f32", "f64"):
                for mode in ROUND:
                    for ftz in ("", "ftz") if source == "f32" else ("",):
                        table[op_key("cvt", mode, ftz, f"{letter}{width}", source)] = _to_integer(
                            source, width, letter == "s", mode, bool(ftz)
                        )


def _floats(table: Table) -> None:
    widenings = [("f32", "f16"), ("f64", "f16"), ("f32", "bf16"), ("f64", "bf16"), ("f64", "f32")]
    same = [(name, name) for name in ("f16", "bf16", "f32", "f64")]
    for target, source in widenings + same:
        for ftz in ("", "ftz"):
            for flag in ("", "sat"):
                table[op_key("cvt", ftz, flag, target, source)] = _between(source, target, "rn", bool(ftz), flag)
    narrowings = [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("bf16", "f16"),
                  ("f16", "bf16")]  # fmt: skip
    for target, source in narrowings:
        for mode in MODES:
            flags = ("", "sat", "relu", "satfinite", "relu.satfinite") if target != "f32" else ("", "sat")
            for flag in flags:
                for ftz in ("", "ftz") if "f32" in (target, source) and target != "bf16" else ("",):
                    table[op_key("cvt", mode, ftz, flag, target, source)] = _between(
                        source, target, mode, bool(ftz), flag
                    )
    for name in ("f16", "bf16", "f32", "f64"):
        for mode in ROUND:
            for flag in ("", "sat"):
                for ftz in ("", "ftz") if name == "f32" else ("",):
                    table[op_key("cvt", mode, ftz, flag, name, name)] = _round_in_place(name, mode, bool(ftz), flag)


_TENSOR_FLAGS = ("", "relu", "satfinite", "relu.satfinite")


def build() -> Table:
    """Every conversion that involves a float."""
    table: Table = {}
    _integers(table)
    _floats(table)
    for target in ("f16", "bf16"):
        for mode in ("rn", "rz"):
            for flag in ("", "relu", "satfinite", "relu.satfinite"):
                table[op_key("cvt", mode, flag, f"{target}x2", "f32")] = _pack_two(target, mode, flag)
        for flag in ("", "relu", "satfinite", "relu.satfinite"):
            table[op_key("cvt.rs", flag, f"{target}x2", "f32")] = _pack_two_by_chance(target, flag)
    for mode, flags in (("rna", ("", "satfinite")), ("rn", _TENSOR_FLAGS), ("rz", _TENSOR_FLAGS)):
        for flag in flags:
            table[op_key("cvt", mode, flag, "tf32", "f32")] = _tensor_float(mode, flag)
    return table
