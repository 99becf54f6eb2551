"""Floating-point arithmetic and comparisons as vector functions.

Keys are "operation.rounding.flags.type", for example "fma.rn.ftz.f32". Results of add, sub, mul, fma, div, sqrt and
rcp are correctly rounded in every rounding mode. float32 results that are NaN are 0x7fffffff, as on the hardware;
float64 NaNs keep the payload that the host gives them. The approximate functions are computed in float64 and rounded
once: at most 0.5 ulp (plus the host libm's error) from the exact value, where the hardware's own bounds are 1 ulp
(rcp, sqrt), 2 ulp (rsqrt, ex2, div), an absolute 2**-22 (lg2), 2**-20.5 (sin, cos) and a relative 2**-11 (tanh).
"""

from __future__ import annotations

import platform
from collections.abc import Callable

from llvmlite import ir

from warplab.emulator.core.alu.lanes import F32, F64, I1, I32, I64, INT, LANES, Emitter, Lanes, Table, Vector, op_key
from warplab.emulator.core.alu.rounding import (
    F32_FORMAT,
    F64_FORMAT,
    add_odd,
    canonical,
    flush,
    narrow,
    saturate,
    splat_like,
    to_odd,
)
from warplab.emulator.core.state.layout import DST, IMM, SRC_A, SRC_B, SRC_C

DIRECTED = ("rz", "rm", "rp")


Formula = Callable[..., Vector]


def _sources(o: Lanes, count: int, element: ir.Type, ftz: bool) -> list[Vector]:
    values = [o.read(slot, element) for slot in (SRC_A, SRC_B, SRC_C)[:count]]
    return [flush(v) for v in values] if ftz else values


def _nearest(formula: Formula, count: int, ftz: bool, sat: bool) -> Emitter:
    """A float32 operation, rounded to nearest by the host."""

    def emit(o: Lanes) -> None:
        result = formula(*_sources(o, count, F32, ftz))
        result = flush(result) if ftz else result
        o.write(saturate(result) if sat else canonical(result))

    return emit


def _directed(formula: Formula, count: int, mode: str, ftz: bool, sat: bool) -> Emitter:
    """A float32 operation in another rounding mode: float64 rounded to odd, then to float32."""

    def emit(o: Lanes) -> None:
        wide = [v.cast("fpext", F64) for v in _sources(o, count, F32, ftz)]
        result = narrow(formula(*wide).bits(I64), F64_FORMAT, F32_FORMAT, mode).trunc(I32).bits(F32)
        zero = _directed_zero(wide, mode, formula)
        if zero is not None:
            result = zero.where(splat_like(result, -0.0 if mode == "rm" else 0.0), result)
        result = flush(result) if ftz else result
        o.write(saturate(result) if sat else canonical(result))

    return emit


def _directed_zero(wide: list[Vector], mode: str, formula: Formula) -> Vector | None:
    """Lanes where x - x gives an exact zero: it is negative when rounding down, positive otherwise."""
    if formula is _odd_add:
        a, b = wide
    elif formula is _odd_subtract:
        a, b = wide[0], wide[1] * -1.0
    elif formula is _odd_fma:
        a, b = wide[0] * wide[1], wide[2]
    else:
        return None
    opposite = (a.bits(I64) ^ b.bits(I64)).compare("<", 0, signed=True)
    return (a + b).compare("oeq", 0.0) & opposite


def _odd_add(a: Vector, b: Vector) -> Vector:
    return add_odd(a, b)


def _odd_subtract(a: Vector, b: Vector) -> Vector:
    return add_odd(a, b * -1.0)


def _odd_multiply(a: Vector, b: Vector) -> Vector:
    return a * b  # exact: 24 and 24 bits give 48


def _odd_fma(a: Vector, b: Vector, c: Vector) -> Vector:
    return add_odd(a * b, c)


def _odd_divide(a: Vector, b: Vector) -> Vector:
    quotient = a / b
    rest = (quotient * -1.0).call("llvm.fma", b, a)
    # The exact quotient lies above when the remainder has the divisor's sign.
    sign = b.compare("olt", 0.0).where(rest * -1.0, rest)
    return to_odd(quotient, sign)


def _odd_sqrt(a: Vector) -> Vector:
    root = a.call("llvm.sqrt")
    return to_odd(root, (root * -1.0).call("llvm.fma", root, a))


def _odd_reciprocal(a: Vector) -> Vector:
    return _odd_divide(splat_like(a, 1.0), a)


OPERATIONS: dict[str, tuple[int, Formula, Formula]] = {
    "add": (2, lambda a, b: a + b, _odd_add),
    "sub": (2, lambda a, b: a - b, _odd_subtract),
    "mul": (2, lambda a, b: a * b, _odd_multiply),
    "fma": (3, lambda a, b, c: a.call("llvm.fma", b, c), _odd_fma),
    "div": (2, lambda a, b: a / b, _odd_divide),
    "rcp": (1, lambda a: splat_like(a, 1.0) / a, _odd_reciprocal),
    "sqrt": (1, lambda a: a.call("llvm.sqrt"), _odd_sqrt),
}


def minimum(a: Vector, b: Vector, element: ir.Type) -> Vector:
    """The smaller; a NaN gives way to the other value; -0 is below +0."""
    integer = INT[32 if element is F32 else 64]
    zeros = (a.bits(integer) | b.bits(integer)).bits(element)
    smaller = a.compare("olt", b).where(a, a.compare("oeq", b).where(zeros, b))
    return a.compare("uno", a).where(b, b.compare("uno", b).where(a, smaller))


def maximum(a: Vector, b: Vector, element: ir.Type) -> Vector:
    """The larger; a NaN gives way to the other value; +0 is above -0."""
    integer = INT[32 if element is F32 else 64]
    zeros = (a.bits(integer) & b.bits(integer)).bits(element)
    larger = a.compare("ogt", b).where(a, a.compare("oeq", b).where(zeros, b))
    return a.compare("uno", a).where(b, b.compare("uno", b).where(a, larger))


def _choose(formula: Formula, element: ir.Type, ftz: bool, nan: bool, xorsign: bool) -> Emitter:
    """min and max with .ftz, .NaN (a NaN wins) and .xorsign.abs."""

    def emit(o: Lanes) -> None:
        a, b = _sources(o, 2, element, ftz)
        if xorsign:
            sign = (a.bits(I32) ^ b.bits(I32)) & 0x80000000
            a, b = ((v.bits(I32) & 0x7FFFFFFF).bits(F32) for v in (a, b))
        result = formula(a, b, element)
        if nan:
            result = a.compare("uno", b).where(splat_like(result, float("nan")), result)
        if element is F32:
            if xorsign:
                result = (result.bits(I32) | sign).bits(F32)
            result = canonical(result)
        o.write(result)

    return emit


def _sign(width: int, change: Callable[[Vector, int], Vector], ftz: bool = False) -> Emitter:
    """neg and abs: additions on the hardware, where a float32 NaN becomes the one pattern and a float64 NaN stays."""

    def emit(o: Lanes) -> None:
        value = flush(o.read(SRC_A, F32)).bits(I32) if ftz else o.read(SRC_A, INT[width])
        result = change(value, 1 << (width - 1))
        infinity = 0x7F800000 if width == 32 else 0x7FF << 52
        nan = (value & ((1 << (width - 1)) - 1)).compare(">", infinity)
        result = nan.where(0x7FFFFFFF if width == 32 else value, result)
        o.write(result)

    return emit


def _copy_sign(width: int) -> Emitter:
    def emit(o: Lanes) -> None:
        sign = 1 << (width - 1)
        o.write((o.read(SRC_A, INT[width]) & sign) | (o.read(SRC_B, INT[width]) & (sign - 1)))

    return emit


def _double(formula: Formula, count: int) -> Emitter:
    def emit(o: Lanes) -> None:
        o.write(formula(*_sources(o, count, F64, False)))

    return emit


def _rounding_codes() -> dict[str, int]:
    """The C library's codes for the rounding modes, which are the processor's."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return {"rp": 0x400000, "rm": 0x800000, "rz": 0xC00000}
    return {"rm": 0x400, "rp": 0x800, "rz": 0xC00}


ROUNDING_CODES = _rounding_codes()


def _directed_double(name: str, count: int) -> Emitter:
    """A float64 operation in the processor's rounding mode IMM.

    No wider format is at hand here, so the mode is changed. Loads and stores are atomic because LLVM moves no
    arithmetic out from between such accesses and the calls around them.
    """

    def emit(o: Lanes) -> None:
        builder, double = o.builder, F64.as_pointer()
        change = o.declare("fesetround", I32, [I32])
        sources = [builder.bitcast(o.operand(slot), double) for slot in (SRC_A, SRC_B, SRC_C)[:count]]
        target = builder.bitcast(builder.gep(o.frame, [builder.sext(o.field(DST), I64)]), double)
        builder.call(change, [o.field(IMM)])
        for lane in range(LANES):
            index = [ir.Constant(I64, lane)]
            values = [builder.load_atomic(builder.gep(s, index), "acquire", 8) for s in sources]
            place = builder.gep(target, index)
            active = builder.trunc(builder.lshr(o.mask, ir.Constant(I32, lane)), I1)
            kept = builder.select(active, _one_double(o, name, values), builder.load_atomic(place, "acquire", 8))
            builder.store_atomic(kept, place, "release", 8)
        builder.call(change, [ir.Constant(I32, 0)])

    return emit


def _one_double(o: Lanes, name: str, values: list[ir.Value]) -> ir.Value:
    builder = o.builder
    if name in ("fma", "sqrt"):
        function = o.declare(f"llvm.{name}.f64", F64, [F64] * len(values))
        return builder.call(function, values)
    if name == "rcp":
        return builder.fdiv(ir.Constant(F64, 1.0), values[0])
    return getattr(builder, "f" + name)(*values)


def _truncated_reciprocal(formula: Formula) -> Emitter:
    """rcp and rsqrt.approx.ftz.f64: a result whose low 32 bits are zero."""

    def emit(o: Lanes) -> None:
        value = o.read(SRC_A, F64)
        bits = value.bits(I64)
        small = (bits & 0x7FFFFFFFFFFFFFFF).compare("<", 1 << 52)
        value = small.where(bits & (1 << 63), bits).bits(F64)
        result = formula(value)
        bits = result.bits(I64)
        high = bits & 0xFFFFFFFF00000000
        tiny = (bits & 0x7FFFFFFFFFFFFFFF).compare("<", 1 << 52)
        high = tiny.where(bits & (1 << 63), high)
        nan = result.compare("uno", result)
        o.write(nan.where(splat_like(bits, 0x7FFFFFFF00000000), high).bits(F64))

    return emit


def _approximate(formula: Formula, ftz: bool) -> Emitter:
    """A float32 function computed in float64 and rounded once."""

    def emit(o: Lanes) -> None:
        (value,) = _sources(o, 1, F32, ftz)
        result = formula(value.cast("fpext", F64)).cast("fptrunc", F32)
        o.write(canonical(flush(result) if ftz else result))

    return emit


def _scalar_function(name: str) -> Formula:
    """A libm function, lane by lane."""

    def formula(value: Vector) -> Vector:
        lanes = value.lanes
        function = lanes.declare(name, F64, [F64])
        result = ir.Constant(ir.VectorType(F64, value.count), ir.Undefined)
        for lane in range(value.count):
            index = ir.Constant(I32, lane)
            one = lanes.builder.call(function, [lanes.builder.extract_element(value.value, index)])
            result = lanes.builder.insert_element(result, one, index)
        return Vector(lanes, result)

    return formula


APPROXIMATE: dict[str, Formula] = {
    "ex2": _scalar_function("exp2"),
    "lg2": _scalar_function("log2"),
    "sin": _scalar_function("sin"),
    "cos": _scalar_function("cos"),
    "tanh": _scalar_function("tanh"),
    "rcp": lambda a: splat_like(a, 1.0) / a,
    "sqrt": lambda a: a.call("llvm.sqrt"),
    "rsqrt": lambda a: splat_like(a, 1.0) / a.call("llvm.sqrt"),
}


# PTX comparison to LLVM's ordered and unordered conditions.
COMPARISONS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip


def _compare(condition: str, element: ir.Type, ftz: bool) -> Emitter:
    def emit(o: Lanes) -> None:
        a, b = _sources(o, 2, element, ftz)
        o.write_predicate(a.compare(condition, b))

    return emit


def _test(name: str, width: int) -> Emitter:
    """testp: classify by the bits."""
    infinity = 0x7F800000 if width == 32 else 0x7FF << 52
    normal = 0x00800000 if width == 32 else 1 << 52

    def emit(o: Lanes) -> None:
        magnitude = o.read(SRC_A, INT[width]) & ((1 << (width - 1)) - 1)
        tests = {
            "finite": lambda: magnitude.compare("<", infinity),
            "infinite": lambda: magnitude.compare("==", infinity),
            "number": lambda: magnitude.compare("<=", infinity),
            "notanumber": lambda: magnitude.compare(">", infinity),
            # PTX ISA, testp: zeros count as normal.
            "normal": lambda: (
                magnitude.compare("<", infinity) & (magnitude.compare(">=", normal) | magnitude.compare("==", 0))
            ),
            "subnormal": lambda: magnitude.compare("<", normal) & magnitude.compare("!=", 0),
        }
        o.write_predicate(tests[name]())

    return emit


def negate(v: Vector, sign: int) -> Vector:
    return v ^ sign


def absolute(v: Vector, sign: int) -> Vector:
    return v & (sign - 1)


def _single() -> Table:
    table: Table = {}
    for name, (count, nearest, odd) in OPERATIONS.items():
        for ftz in ("", "ftz"):
            for sat in ("", "sat") if name in ("add", "sub", "mul", "fma") else ("",):
                table[op_key(name, "rn", ftz, sat, "f32")] = _nearest(nearest, count, bool(ftz), bool(sat))
                for mode in DIRECTED:
                    table[op_key(name, mode, ftz, sat, "f32")] = _directed(odd, count, mode, bool(ftz), bool(sat))
    for name, formula in (("min", minimum), ("max", maximum)):
        for ftz in ("", "ftz"):
            for nan in ("", "NaN"):
                for xorsign in ("", "xorsign"):
                    key = op_key(name, ftz, nan, xorsign, "f32")
                    table[key] = _choose(formula, F32, bool(ftz), bool(nan), bool(xorsign))
        table[op_key(name, "f64")] = _choose(formula, F64, False, False, False)
    for name, formula in APPROXIMATE.items():
        for ftz in ("", "ftz"):
            table[op_key(name, "approx", ftz, "f32")] = _approximate(formula, bool(ftz))
    for ftz in ("", "ftz"):
        table[op_key("neg", ftz, "f32")] = _sign(32, negate, bool(ftz))
        table[op_key("abs", ftz, "f32")] = _sign(32, absolute, bool(ftz))
        for name, condition in COMPARISONS.items():
            table[op_key("setp", name, ftz, "f32")] = _compare(condition, F32, bool(ftz))
    return table


def _doubles() -> Table:
    table: Table = {}
    for name, (count, nearest, _) in OPERATIONS.items():
        table[op_key(name, "rn", "f64")] = _double(nearest, count)
        table[op_key(name, "directed", "f64")] = _directed_double(name, count)
    table |= {"neg.f64": _sign(64, negate), "abs.f64": _sign(64, absolute)}
    for name, condition in COMPARISONS.items():
        table[op_key("setp", name, "f64")] = _compare(condition, F64, False)
    table["rcp.approx.ftz.f64"] = _truncated_reciprocal(APPROXIMATE["rcp"])
    table["rsqrt.approx.ftz.f64"] = _truncated_reciprocal(APPROXIMATE["rsqrt"])
    table["rsqrt.approx.f64"] = _double(APPROXIMATE["rsqrt"], 1)
    return table


def build() -> Table:
    """Every float32 and float64 operation but the conversions."""
    table = _single() | _doubles()
    for width in (32, 64):
        table[f"copysign.f{width}"] = _copy_sign(width)
        for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            table[f"testp.{name}.f{width}"] = _test(name, width)
    return table
