"""Entries of kernels/integers.py, floats.py and approximations.py: arithmetic compared bit for bit with the GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Approximate, Entry, read, scalar, write

INTEGERS = "kernels/integers.py"
FLOATS = "kernels/floats.py"
APPROXIMATIONS = "kernels/approximations.py"
N = 256
DIVISORS = (-126, -125, -124, -100, -40, -3, -2, -1, 0, 1, 2, 3, 40, 100, 123, 124, 125, 126, 127)  # powers of 2

_GUIDE = "CUDA programming guide, accuracy of mathematical functions: "
_PTX = "PTX ISA, description of the instruction: "
_BOTH = " on the GPU's side, and one more unit on the emulator's, which rounds the exact value"

# name, inputs, largest difference, why; the order is NAMES of kernels/approximations.py
_APPROXIMATE = (
    ("fast_divide", draws.magnitudes(-20, 20), Approximate(3, _GUIDE + "__fdividef 2 ulp" + _BOTH)),
    (
        "fast_exp",
        draws.uniform(-8, 8),
        Approximate(13, _GUIDE + "__expf 2 + floor(|1.173 x|) ulp, |x| at most 8" + _BOTH),
    ),
    (
        "fast_log",
        draws.magnitudes(-9, 9),
        Approximate(4, _GUIDE + "__logf 3 ulp, 2^-21.41 in [0.5, 2]" + _BOTH, 2.0**-21),
    ),
    (
        "fast_log2",
        draws.magnitudes(-9, 9),
        Approximate(3, _GUIDE + "__log2f 2 ulp, 2^-22 in [0.5, 2]" + _BOTH, 2.0**-21),
    ),
    ("fast_sin", draws.uniform(-3, 3), Approximate(0, _GUIDE + "__sinf 2^-21.41 in [-pi, pi]", 2.0**-21)),
    ("fast_cos", draws.uniform(-3, 3), Approximate(0, _GUIDE + "__cosf 2^-21.19 in [-pi, pi]", 2.0**-20.9)),
    ("fast_tan", draws.uniform(-1, 1), Approximate(8, _GUIDE + "__tanf is __sinf / __cosf; |x| at most 1", 2.0**-18.5)),
    (
        "fast_pow",
        draws.magnitudes(-4, 4),
        Approximate(16, _GUIDE + "__powf is exp2f(y __log2f(x)); |y log2 x| at most 6"),
    ),
    ("accurate_exp", draws.uniform(-80, 80), Approximate(3, _GUIDE + "expf 2 ulp" + _BOTH)),
    ("accurate_log", draws.magnitudes(-90, 90), Approximate(2, _GUIDE + "logf 1 ulp" + _BOTH)),
    ("accurate_sin", draws.uniform(-100, 100), Approximate(3, _GUIDE + "sinf 2 ulp" + _BOTH)),
    ("accurate_cos", draws.uniform(-100, 100), Approximate(3, _GUIDE + "cosf 2 ulp" + _BOTH)),
    ("accurate_tanh", draws.uniform(-8, 8), Approximate(3, _GUIDE + "tanhf 2 ulp" + _BOTH)),
    ("accurate_pow", draws.magnitudes(-9, 9), Approximate(5, _GUIDE + "powf 4 ulp" + _BOTH)),
    ("accurate_erf", draws.uniform(-4, 4), Approximate(3, _GUIDE + "erff 2 ulp" + _BOTH)),
    ("reciprocal_root", draws.magnitudes(-60, 60), Approximate(3, _GUIDE + "rsqrtf 2 ulp" + _BOTH)),
    ("approximate_reciprocal", draws.magnitudes(-60, 60), Approximate(2, _PTX + "rcp.approx 1 ulp" + _BOTH)),
    ("approximate_root", draws.magnitudes(-60, 60), Approximate(3, _PTX + "sqrt.approx relative 2^-23" + _BOTH)),
    ("bare_exp2", draws.uniform(-100, 100), Approximate(3, _PTX + "ex2.approx relative 2^-22" + _BOTH)),
    ("bare_tanh", draws.uniform(-5, 5), Approximate(1 << 13, _PTX + "tanh.approx relative 2^-11")),
    ("half_exp2", draws.uniform(-8, 8), Approximate(1 << 15, _PTX + "ex2.approx.f16 relative 2^-9.9, seen as float32")),
    ("half_tanh", draws.uniform(-4, 4), Approximate(1 << 13, _PTX + "tanh.approx.f16 absolute 2^-10.987", 2.0**-10)),
)


def _approximate_expected(name: str) -> Callable[[dict], dict[str, np.ndarray]] | None:
    functions: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "fast_divide": lambda x: 1.25 / x,
        "fast_exp": np.exp,
        "fast_log": lambda x: np.log(abs(x)),
        "fast_log2": lambda x: np.log2(abs(x)),
        "fast_sin": np.sin,
        "fast_cos": np.cos,
        "fast_tan": np.tan,
        "fast_pow": lambda x: abs(x) ** 1.5,
        "accurate_exp": np.exp,
        "accurate_log": lambda x: np.log(abs(x)),
        "accurate_sin": np.sin,
        "accurate_cos": np.cos,
        "accurate_tanh": np.tanh,
        "accurate_pow": lambda x: abs(x) ** 1.5,
        "reciprocal_root": lambda x: 1 / np.sqrt(abs(x)),
        "approximate_reciprocal": lambda x: 1 / x,
        "bare_exp2": np.exp2,
        "bare_tanh": np.tanh,
    }
    if name not in functions:
        return None
    return lambda v: {"out": functions[name](v["a"].astype(np.float64))}


def _approximate(which: int) -> Entry:
    name, source, bound = _APPROXIMATE[which]
    arguments = (read("a", "float32", N), write("out", "float32", N), scalar("which", which))
    expected = _approximate_expected(name)
    tolerance = 1e-3 if name in ("bare_tanh", "half_exp2", "half_tanh") else 1e-5
    return Entry(
        f"approximate/{name}", APPROXIMATIONS, "approximate", arguments, {"a": source}, expected, tolerance, bound
    )


def _arithmetic(
    file: str,
    name: str,
    dtype: str,
    out: str,
    rows: int,
    n: int,
    operands: str = "ab",
    source: draws.Draw | None = None,
    gap: str = "",
) -> Entry:
    arguments = (*(read(operand, dtype, n) for operand in operands), write("out", out, rows, n))
    inputs = {operand: source for operand in operands} if source else {}
    label = f"{'integers' if file == INTEGERS else 'floats'}/{name}" + ("_special" if source else "")
    return Entry(label, file, name, arguments, inputs, gap=gap)


def _long_words(v: dict) -> dict:
    """The rows that NumPy's 64-bit arithmetic gives at once; Python's integers give the high products."""
    rows = []
    for x, y in zip(v["a"].tolist(), v["b"].tolist(), strict=True):
        z = y >> (x & 63) | 1
        p, q, s = _signed(x, 64), _signed(z, 64), _signed(y, 64)
        quotient = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
        rows.append(
            [
                *(x + y, x * y, x * y >> 64, p * s >> 64, x // z, x % z, quotient, p - quotient * q, x // 1000),
                *(x.bit_count(), 64 - x.bit_length(), int(f"{x:064b}"[::-1], 2), (x & -x).bit_length()),
                *(x << (y & 63), p >> (y & 63), min(p, q), max(x, y), (x & ~y) | (y ^ 0x123456789ABCDEF)),
                *(x if p < q else y, (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF) + x, _signed(x, 32) * _signed(y, 32), abs(p)),
            ]
        )
    return {"out": _columns(rows, 64)}


def _words(v: dict) -> dict:
    """Those of the kernel's rows that Python's integers give in a line."""
    rows = []
    for x, y in zip(v["a"].tolist(), v["b"].tolist(), strict=True):
        p, q, s, m = _signed(x, 32), _signed(y, 32), y % 40, 0xFFFFFFFF
        d, e = y | 1, _signed(y | 1, 32)
        quotient = abs(p) // abs(e) * (1 if (p < 0) == (e < 0) else -1)
        xy = [*x.to_bytes(4, "little"), *y.to_bytes(4, "little")]
        pick = sum(xy[(y >> 16 >> 4 * k) & 7] << 8 * k for k in range(4))
        pb, qb = [_signed(b, 8) for b in x.to_bytes(4, "little")], [_signed(b, 8) for b in y.to_bytes(4, "little")]
        xb, yb = x.to_bytes(4, "little"), y.to_bytes(4, "little")
        yx = (y << 32) | x  # __funnelshift takes the low word first
        halves = [_signed(x & 0xFFFF, 16), _signed(x >> 16, 16)]
        rows.append(
            [
                *(x.bit_count(), 32 - x.bit_length(), int(f"{x:032b}"[::-1], 2), (x & -x).bit_length(), pick),
                *(yx << (s & 31) >> 32, yx >> (s & 31), yx << min(s, 32) >> 32, yx >> min(s, 32)),
                *(_signed(x, 24) * _signed(y, 24), (x & 0xFFFFFF) * (y & 0xFFFFFF), p * q >> 32, x * y >> 32),
                *((p + q) >> 1, (x + y) >> 1, (p + q + 1) >> 1, abs(p - q) + x, abs(x - y) + x),
                *(
                    sum(i * j for i, j in zip(pb, qb, strict=True)) + 5,
                    sum(i * j for i, j in zip(xb, yb, strict=True)) + 5,
                ),
                halves[0] * qb[0] + halves[1] * qb[1] - 9,
                (x & 0xFFFF) * yb[2] + (x >> 16) * yb[3] + 9,
                *(x // d, x % d, quotient, p - quotient * e, x // 7, abs(p) % 10 * (-1 if p < 0 else 1)),
                *(min(p, q), max(x, y), abs(p), (x & y) ^ ~(x | (y << 3)), p >> (s % 32)),
                x >> (s % 32) | x << (31 - s % 32),
                (x << 11 & m) >> 23,
                _signed(x << 11 & m, 32) >> 23,
            ]
        )
    return {"out": _columns(rows, 32)}


def _lanes(a: np.ndarray, dtype: str) -> np.ndarray:
    """Packed words as their parts, in int64."""
    return a.view(dtype).astype(np.int64)


def _joined(parts: np.ndarray, dtype: str) -> np.ndarray:
    return parts.astype(dtype).view(np.uint32)


def _packed(v: dict) -> dict:
    a, b = v["a"], v["b"]
    added = _lanes(a, "u1") + _lanes(b, "u1") & 255
    highest = np.maximum(_lanes(a, "i2"), _lanes(b, "i2"))
    greater = np.where(_lanes(a, "u1") > _lanes(b, "u1"), 255, 0)
    return {"out": np.array([_joined(added, "u1"), _joined(highest, "i2"), _joined(greater, "u1")])}


def _packed_differences(v: dict) -> dict:
    apart = abs(_lanes(v["a"], "u1") - _lanes(v["b"], "u1"))
    return {"out": np.array([_joined(apart, "u1"), apart.reshape(-1, 4).sum(1)], np.uint32)}


def _towards(exact: np.ndarray, mode: str) -> np.ndarray:
    """float32 of an extended-precision result, rounded to nearest (n), to zero (z), up (u) or down (d)."""
    near = exact.astype(np.float32)
    above, below = near < exact, near > exact
    up, down = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    if mode == "u" or mode == "z":
        near = np.where(above & ((mode == "u") | (exact < 0)), up, near)
    if mode == "d" or mode == "z":
        near = np.where(below & ((mode == "d") | (exact > 0)), down, near)
    return near


def _singles(v: dict) -> dict:
    """The first 26 rows, whose results extended precision holds exactly or nearly so; the others stay as they are."""
    x, y, z = (v[name].astype(np.longdouble) for name in "abc")
    modes = "nzud"
    rows = [_towards(x + y, m) for m in modes] + [_towards(x - y, m) for m in "nz"]
    rows += [_towards(exact, m) for exact in (x * y, x * y + z, x / y, 1 / x) for m in modes]
    with np.errstate(invalid="ignore"):
        rows += [_towards(np.sqrt(x), m) for m in modes]
    out = np.array(rows)
    out.view(np.uint32)[np.isnan(out)] = 0x7FFFFFFF  # the NaN that the hardware makes
    return {"out": out}


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _columns(rows: list[list[int]], bits: int) -> np.ndarray:
    mask = (1 << bits) - 1
    return np.array([[value & mask for value in row] for row in rows], f"u{bits // 8}").T


def _subnormals(v: dict) -> dict:
    a, b = v["a"], v["b"]
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b + a  # exact in float64 up to one rounding: the inputs are tiny
        rows = [a + b, a - b, a * b, np.where(b != 0, a / b, a), np.sqrt(abs(a)), product.astype(np.float32)]
    return {"out": np.array([*rows, np.minimum(a, b), np.floor(a), np.minimum(a, b), abs(a)], np.float32)}


def _double_functions(v: dict) -> dict:
    from math import erf

    a = v["a"].astype(np.longdouble)
    rows = [np.exp(a), np.log(abs(a)), np.sin(a), np.cos(a), np.tanh(a), np.arctan(a), abs(a) ** np.longdouble(1.7)]
    return {"out": np.array([*rows, [erf(x) for x in v["a"]]], np.longdouble)}


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "integers/words",
        INTEGERS,
        "words",
        (read("a", "uint32", N), read("b", "uint32", N), write("out", "uint32", 36, N)),
        {},
        _words,
    ),
    Entry(
        "integers/packed",
        INTEGERS,
        "packed",
        (read("a", "uint32", N), read("b", "uint32", N), write("out", "uint32", 3, N)),
        {},
        _packed,
    ),
    Entry(
        "integers/packed_differences",
        INTEGERS,
        "packed_differences",
        (read("a", "uint32", N), read("b", "uint32", N), write("out", "uint32", 2, N)),
        {},
        _packed_differences,
    ),
    _arithmetic(INTEGERS, "inline_forms", "uint32", "uint32", 36, N),
    Entry(
        "integers/long_words",
        INTEGERS,
        "long_words",
        (read("a", "uint64", N), read("b", "uint64", N), write("out", "uint64", 22, N)),
        {},
        _long_words,
    ),
    Entry(
        "integers/narrow",
        INTEGERS,
        "narrow",
        (read("a", "int8", N), read("b", "uint16", N), write("out", "int32", 8, N)),
    ),
    _arithmetic(INTEGERS, "numba", "int32", "int32", 12, N),
    Entry(
        "floats/singles",
        FLOATS,
        "singles",
        (*(read(operand, "float32", N) for operand in "abc"), write("out", "float32", 47, N)),
        {},
        _singles,
    ),
    _arithmetic(FLOATS, "singles", "float32", "float32", 47, 512, "abc", draws.special),
    _arithmetic(FLOATS, "doubles", "float64", "float64", 20, N, "abc"),
    _arithmetic(FLOATS, "doubles", "float64", "float64", 20, 512, "abc", draws.special),
    _arithmetic(FLOATS, "doubles_directed", "float64", "float64", 14, 512, "abc", draws.special),
    _arithmetic(FLOATS, "halves", "float16", "float16", 31, N, "abc"),
    _arithmetic(FLOATS, "halves", "float16", "float16", 31, 512, "abc", draws.special),
    _arithmetic(FLOATS, "half_pairs", "float16", "float16", 17, 512, "abc"),
    _arithmetic(FLOATS, "half_pairs", "float16", "float16", 17, 1024, "abc", draws.special),
    _arithmetic(FLOATS, "bfloats", "uint16", "uint16", 18, 512, "abc", draws.special_bfloats),
    _arithmetic(FLOATS, "bfloat_pairs", "uint16", "uint16", 8, 512, "abc", draws.special_bfloats),
    Entry(
        "floats/to_integers",
        FLOATS,
        "to_integers",
        (read("a", "float32", 512), read("b", "float64", 512), write("out", "int64", 21, 512)),
        {"a": draws.special, "b": draws.special},
    ),
    Entry(
        "floats/from_integers",
        FLOATS,
        "from_integers",
        (
            *(read("a", "int32", N), read("b", "int64", N)),
            *(write("out", "float32", 11, N), write("wide", "float64", 5, N)),
        ),
    ),
    Entry(
        "floats/subnormals",
        FLOATS,
        "subnormals",
        (read("a", "float32", N), read("b", "float32", N), write("out", "float32", 10, N)),
        {"a": draws.magnitudes(-149, -120), "b": draws.magnitudes(-149, -120)},
        _subnormals,
    ),
    _arithmetic(FLOATS, "numba_half", "float16", "float16", 8, N),
    # For which operands ptxas's division calls its subroutine is not published: each launch has the numerators of all
    # exponents and one divisor, and its fused operations tell how many of them did.
    Entry(
        "floats/division_limits",
        FLOATS,
        "division_limits",
        (read("a", "float32", 254), read("b", "float32", len(DIVISORS)), write("out", "float32", len(DIVISORS), 254)),
        {"a": draws.fixed(1.25 * 2.0 ** np.arange(-126, 128)), "b": draws.fixed(1.75 * 2.0 ** np.array(DIVISORS))},
    ),
    Entry(
        "floats/double_functions",
        FLOATS,
        "double_functions",
        (read("a", "float64", N), write("out", "float64", 8, N)),
        {"a": draws.uniform(-9, 9)},
        _double_functions,
        tolerance=1e-13,
    ),
    *(_approximate(which) for which in range(len(_APPROXIMATE))),
    Entry(
        "approximate/fastmath_numba",
        APPROXIMATIONS,
        "fastmath",
        (read("a", "float32", N), read("b", "float32", N), write("out", "float32", N)),
        {"a": draws.magnitudes(-9, 9), "b": draws.magnitudes(-9, 9)},
        lambda v: {"out": v["a"].astype(np.float64) / v["b"]},
        approximate=Approximate(3, _PTX + "div.approx or div.full 2 ulp" + _BOTH),
    ),
    Entry(
        "approximate/exp_numba",
        APPROXIMATIONS,
        "numba_exp",
        (read("a", "float32", N), write("out", "float32", N)),
        {"a": draws.uniform(-80, 80)},
        lambda v: {"out": np.exp(v["a"].astype(np.float64))},
        tolerance=1e-5,
        approximate=Approximate(3, _GUIDE + "expf 2 ulp" + _BOTH),
    ),
)
