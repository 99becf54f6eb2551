"""Arithmetic and comparisons of f16 and bf16, single and packed in pairs, as vector functions; correctly rounded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from warplab.emulator.core.alu.floats import APPROXIMATE, COMPARISONS, Formula, absolute, maximum, minimum, negate
from warplab.emulator.core.alu.lanes import F32, F64, I16, I32, LANES, Emitter, Lanes, Table, Vector, op_key
from warplab.emulator.core.alu.rounding import add_odd, load_small, splat_like, store_small
from warplab.emulator.core.state.layout import SRC_A, SRC_B, SRC_C, X0


def _compare_small(condition: str, name: str, count: int) -> Emitter:
    """f16 and bf16 comparisons; of a packed pair the low half goes to DST, the high half to X0."""

    def emit(o: Lanes) -> None:
        if count == LANES:
            a, b = (load_small(o.read(slot, I16), name) for slot in (SRC_A, SRC_B))
            o.write_predicate(a.compare(condition, b))
            return
        pairs = [o.read(slot, I32) for slot in (SRC_A, SRC_B)]
        low, high = ([load_small(v.lshr(shift).trunc(I16), name) for v in pairs] for shift in (0, 16))
        o.write_predicate(low[0].compare(condition, low[1]))
        o.write_predicate(high[0].compare(condition, high[1]), X0)

    return emit


def _small_flush(bits: Vector, name: str) -> Vector:
    limit = 0x0400 if name == "f16" else 0x0080
    return (bits & 0x7FFF).compare("<", limit).where(bits & 0x8000, bits)


def _small(name: str, operation: str, count: int, flags: str) -> Emitter:
    """f16 and bf16 arithmetic on one value (32 lanes of i16) or a packed pair (64 lanes).

    f16 add, sub and mul in float32 and bf16 add and sub are innocent of double rounding (24 >= 2 * 11 + 2); the others
    go through float64 rounded to odd.
    """
    arguments = 3 if operation == "fma" else 2

    def emit(o: Lanes) -> None:
        bits = [o.read(slot, I16, count=count) for slot in (SRC_A, SRC_B, SRC_C)[:arguments]]
        if "ftz" in flags:
            bits = [_small_flush(v, name) for v in bits]
        values = [load_small(v, name) for v in bits]
        if operation == "fma" or name == "bf16" and operation == "mul":
            wide = [v.cast("fpext", F64) for v in values]
            result = wide[0] * wide[1] if operation == "mul" else add_odd(wide[0] * wide[1], wide[2])
        elif operation == "add":
            result = values[0] + values[1]
        elif operation == "sub":
            result = values[0] - values[1]
        else:
            result = values[0] * values[1]
        stored = store_small(result, name)
        if "ftz" in flags:
            stored = _small_flush(stored, name)
        if "sat" in flags:
            one = 0x3C00 if name == "f16" else 0x3F80
            nan = (stored & 0x7FFF).compare(">", 0x7C00 if name == "f16" else 0x7F80)
            stored = (nan | stored.compare("<", 0, signed=True)).where(0, stored)
            stored = stored.compare(">", one, signed=True).where(one, stored)
        if "relu" in flags:
            nan = (stored & 0x7FFF).compare(">", 0x7C00 if name == "f16" else 0x7F80)
            stored = (~nan & stored.compare("<", 0, signed=True)).where(0, stored)
        o.write(stored)

    return emit


def _small_choose(name: str, formula: Formula, count: int, nan: bool, ftz: bool, xorsign: bool) -> Emitter:
    """min and max with .ftz, .NaN (a NaN wins) and .xorsign.abs, whose sign a NaN does not get."""

    def emit(o: Lanes) -> None:
        bits = [o.read(slot, I16, count=count) for slot in (SRC_A, SRC_B)]
        if ftz:
            bits = [_small_flush(v, name) for v in bits]
        if xorsign:
            sign = (bits[0] ^ bits[1]) & 0x8000
            bits = [v & 0x7FFF for v in bits]
        a, b = (load_small(v, name) for v in bits)
        result = formula(a, b, F32)
        if nan:
            result = a.compare("uno", b).where(splat_like(result, float("nan")), result)
        stored = store_small(result, name)
        if xorsign:
            stored = result.compare("uno", result).where(stored, stored | sign)
        o.write(stored)

    return emit


def _small_sign(name: str, count: int, change: Callable[[Vector, int], Vector], flush: bool) -> Emitter:
    """neg and abs: additions on the hardware, which give every NaN the one pattern."""

    def emit(o: Lanes) -> None:
        bits = o.read(SRC_A, I16, count=count)
        nan = (bits & 0x7FFF).compare(">", 0x7C00 if name == "f16" else 0x7F80)
        o.write(nan.where(0x7FFF, change(_small_flush(bits, name) if flush else bits, 0x8000)))

    return emit


def _small_function(name: str, formula: Formula, count: int) -> Emitter:
    def emit(o: Lanes) -> None:
        value = load_small(o.read(SRC_A, I16, count=count), name)
        o.write(store_small(formula(value.cast("fpext", F64)), name))

    return emit


def build() -> Table:
    """Every f16 and bf16 operation but the conversions."""
    table: Table = {}
    for name in ("f16", "bf16"):
        for suffix, count in (("", LANES), ("x2", 2 * LANES)):
            kind = name + suffix
            for flags in ("", "ftz", "sat", "ftz.sat"):
                if name == "bf16" and flags:
                    continue
                for operation in ("add", "sub", "mul", "fma"):
                    table[op_key(operation, "rn", flags, kind)] = _small(name, operation, count, flags)
            for ftz in ("", "ftz") if name == "f16" else ("",):
                table[op_key("fma.rn", ftz, "relu", kind)] = _small(name, "fma", count, op_key(ftz, "relu"))
                for nan, xorsign in product(("", "NaN"), ("", "xorsign")):
                    asked = bool(nan), bool(ftz), bool(xorsign)
                    table[op_key("min", ftz, nan, xorsign, kind)] = _small_choose(name, minimum, count, *asked)
                    table[op_key("max", ftz, nan, xorsign, kind)] = _small_choose(name, maximum, count, *asked)
                table[op_key("neg", ftz, kind)] = _small_sign(name, count, negate, bool(ftz))
                table[op_key("abs", ftz, kind)] = _small_sign(name, count, absolute, bool(ftz))
            for function in ("ex2", "tanh"):
                table[op_key(function, "approx", kind)] = _small_function(name, APPROXIMATE[function], count)
            for condition, code in COMPARISONS.items():
                table[op_key("setp", condition, kind)] = _compare_small(code, name, count)
    return table
