"""Binary floating point by whole numbers: every operation on bit patterns, exact until it rounds once.

Independent of the emulator and of the host's floats, so that it can be the truth for either. A finite number is
(sign, m, e) with the value (-1)^sign * m * 2^e. NaN results are the pattern that NVIDIA's float units give, all ones
but the sign (float64 results keep no rule here: callers replace them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt


@dataclass(frozen=True)
class Format:
    """A binary format by the widths of its exponent and fraction."""

    exponent: int
    fraction: int

    @cached_property
    def width(self) -> int:
        return 1 + self.exponent + self.fraction

    @cached_property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @cached_property
    def infinity(self) -> int:
        return (1 << self.exponent) - 1 << self.fraction

    @cached_property
    def sign(self) -> int:
        return 1 << self.width - 1

    @cached_property
    def nan(self) -> int:
        return self.sign - 1


F16, BF16, F32, F64, TF32 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52), Format(8, 10)
ONE = {form: form.bias << form.fraction for form in (F16, BF16, F32, F64)}
Number = tuple[int, int, int]


def is_nan(bits: int, form: Format) -> bool:
    return bits & form.sign - 1 > form.infinity


def is_infinite(bits: int, form: Format) -> bool:
    return bits & form.sign - 1 == form.infinity


def unpack(bits: int, form: Format) -> Number:
    """A finite pattern's number."""
    exponent = bits >> form.fraction & (1 << form.exponent) - 1
    fraction = bits & (1 << form.fraction) - 1
    if exponent:
        fraction |= 1 << form.fraction
    return bits >> form.width - 1, fraction, max(exponent, 1) - form.bias - form.fraction


def pack(sign: int, m: int, e: int, form: Format, mode: str = "rn", sticky: bool = False) -> int:
    """Round m * 2^e, and a little more than that if `sticky`, into a format. Modes: rn, rz, rm, rp, rna."""
    if m == 0 and not sticky:
        return sign * form.sign
    m, e = m << 2 | sticky, e - 2
    least = 1 - form.bias
    unit = max(e + m.bit_length() - 1, least) - form.fraction
    shift = unit - e
    if shift < 1:
        m, shift = m << 1 - shift, 1
    whole, rest, half = m >> shift, m & (1 << shift) - 1, 1 << shift - 1
    if mode == "rn":
        whole += rest > half or rest == half and whole & 1
    elif mode == "rna":
        whole += rest >= half
    elif mode in ("rp", "rm"):
        whole += rest > 0 and sign == (mode == "rm")
    bits = whole + (unit + form.fraction - least << form.fraction)
    if bits >= form.infinity:
        away = mode in ("rn", "rna") or mode == ("rm" if sign else "rp")
        bits = form.infinity if away else form.infinity - 1
    return bits | sign * form.sign


def flush(bits: int, form: Format) -> int:
    """Subnormal numbers to zeros of their sign."""
    return bits & form.sign if bits & form.sign - 1 < 1 << form.fraction else bits


def saturate(bits: int, form: Format) -> int:
    """Into [0, 1]; NaN to +0."""
    if is_nan(bits, form) or bits & form.sign:
        return 0
    return min(bits, ONE[form])


def relu(bits: int, form: Format) -> int:
    """Negative numbers to +0; NaN stays."""
    return bits if is_nan(bits, form) or not bits & form.sign else 0


def fma(a: int, b: int, c: int, form: Format, mode: str = "rn") -> int:
    """a * b + c, rounded once."""
    sign = (a ^ b) >> form.width - 1
    if any(is_nan(x, form) for x in (a, b, c)):
        return form.nan
    if is_infinite(a, form) or is_infinite(b, form):
        if not (a & form.sign - 1 and b & form.sign - 1):
            return form.nan
        if is_infinite(c, form) and c >> form.width - 1 != sign:
            return form.nan
        return form.infinity | sign * form.sign
    if is_infinite(c, form):
        return c
    _, ma, ea = unpack(a, form)
    _, mb, eb = unpack(b, form)
    return _sum((sign, ma * mb, ea + eb), unpack(c, form), form, mode)


def _sum(x: Number, y: Number, form: Format, mode: str) -> int:
    (sx, mx, ex), (sy, my, ey) = x, y
    e = min(ex, ey)
    total = (-mx if sx else mx) * 2 ** (ex - e) + (-my if sy else my) * 2 ** (ey - e)
    if total == 0:
        return sx * form.sign if sx == sy else (mode == "rm") * form.sign
    return pack(int(total < 0), abs(total), e, form, mode)


def add(a: int, b: int, form: Format, mode: str = "rn") -> int:
    """a + b."""
    if is_nan(a, form) or is_nan(b, form):
        return form.nan
    if is_infinite(a, form):
        return form.nan if is_infinite(b, form) and a != b else a
    if is_infinite(b, form):
        return b
    return _sum(unpack(a, form), unpack(b, form), form, mode)


def subtract(a: int, b: int, form: Format, mode: str = "rn") -> int:
    """a - b."""
    return add(a, b ^ form.sign, form, mode)


def multiply(a: int, b: int, form: Format, mode: str = "rn") -> int:
    """a * b."""
    sign = (a ^ b) & form.sign
    if is_nan(a, form) or is_nan(b, form):
        return form.nan
    if is_infinite(a, form) or is_infinite(b, form):
        return form.infinity | sign if a & form.sign - 1 and b & form.sign - 1 else form.nan
    _, ma, ea = unpack(a, form)
    _, mb, eb = unpack(b, form)
    return pack(sign >> form.width - 1, ma * mb, ea + eb, form, mode)


def divide(a: int, b: int, form: Format, mode: str = "rn") -> int:
    """a / b."""
    sign = (a ^ b) & form.sign
    if is_nan(a, form) or is_nan(b, form) or is_infinite(a, form) and is_infinite(b, form):
        return form.nan
    _, ma, ea = unpack(a, form)
    _, mb, eb = unpack(b, form)
    if is_infinite(a, form):
        return form.infinity | sign
    if is_infinite(b, form):
        return sign
    if mb == 0:
        return form.nan if ma == 0 else form.infinity | sign
    extra = 2 * form.width + form.fraction
    quotient, rest = divmod(ma << extra, mb)
    return pack(sign >> form.width - 1, quotient, ea - eb - extra, form, mode, rest > 0)


def root(a: int, form: Format, mode: str = "rn") -> int:
    """The square root."""
    if is_nan(a, form) or a & form.sign and a != form.sign:
        return form.nan
    if is_infinite(a, form) or a & form.sign - 1 == 0:
        return a
    _, m, e = unpack(a, form)
    extra = 2 * form.width + (e & 1)
    whole = isqrt(m << extra)
    return pack(0, whole, (e - extra) // 2, form, mode, whole * whole != m << extra)


def order(bits: int, form: Format) -> int:
    """An integer that orders the numbers; both zeros are 0."""
    magnitude = bits & form.sign - 1
    return -magnitude if bits & form.sign else magnitude


def choose(a: int, b: int, form: Format, largest: bool, nan: bool = False) -> int:
    """min or max: a NaN gives way unless `nan`; -0 is below +0."""
    if is_nan(a, form) or is_nan(b, form):
        both = is_nan(a, form) and is_nan(b, form)
        return form.nan if nan or both else b if is_nan(a, form) else a
    below = (order(a, form), not a & form.sign) < (order(b, form), not b & form.sign)
    return b if below == largest else a


def compare(name: str, a: int, b: int, form: Format) -> bool:
    """setp's float conditions: eq, ne, lt, le, gt, ge, with u for "or unordered", num and nan."""
    unordered = is_nan(a, form) or is_nan(b, form)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return name.endswith("u")
    return RELATIONS[name[:2]](order(a, form), order(b, form))


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def convert(bits: int, source: Format, target: Format, mode: str = "rn") -> int:
    """A float of one format as another's. A float64 NaN keeps its sign and the upper bits of its payload."""
    sign = bits >> source.width - 1
    if is_nan(bits, source):
        if source is not F64 or target is BF16:
            return target.nan
        payload = bits >> F64.fraction - target.fraction & (1 << target.fraction) - 1
        return sign * target.sign | target.infinity | 1 << target.fraction - 1 | payload
    if is_infinite(bits, source):
        return target.infinity | sign * target.sign
    return pack(*unpack(bits, source), target, mode)


def from_integer(value: int, form: Format, mode: str = "rn") -> int:
    """A whole number as a float."""
    return pack(int(value < 0), abs(value), 0, form, mode)


def rounded(bits: int, form: Format, mode: str) -> int:
    """A finite float as a whole number: rni, rzi, rmi, rpi."""
    sign, m, e = unpack(bits, form)
    if e >= 0:
        whole, rest, half = m << e, 0, 1
    else:
        whole, rest, half = m >> -e, m & (1 << -e) - 1, 1 << -e - 1
    if mode == "rni":
        whole += rest > half or rest == half and whole & 1 and rest > 0
    elif mode in ("rpi", "rmi"):
        whole += rest > 0 and sign == (mode == "rmi")
    return -whole if sign else whole


def to_integer(bits: int, form: Format, mode: str, width: int, signed: bool) -> int:
    """A float as an integer of a width, clamped. NaN is 0, or the top bit where float64 or 64 bits take part."""
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    if is_nan(bits, form):
        return (1 << width - 1 if form is F64 or width == 64 else 0) & (1 << width) - 1
    if is_infinite(bits, form):
        value = low if bits & form.sign else high
    else:
        value = min(max(rounded(bits, form, mode), low), high)
    return value & (1 << width) - 1


def to_whole_float(bits: int, form: Format, mode: str) -> int:
    """A float rounded to a whole number in its own format; zeros keep the sign."""
    if is_nan(bits, form):
        return form.nan
    if is_infinite(bits, form):
        return bits
    value = rounded(bits, form, mode)
    return from_integer(value, form) if value else bits & form.sign


# e4m3 and e5m2: exponent bits, fraction bits, largest magnitude
EIGHT = {"e4m3": (4, 3, 0x7E), "e5m2": (5, 2, 0x7B)}


def to_eight(bits: int, source: Format, name: str, rectified: bool) -> int:
    """Round to nearest even into an 8-bit float; what is too large, infinities too, becomes the largest number."""
    exponent, fraction, largest = EIGHT[name]
    sign = 0x80 if bits & source.sign else 0
    if is_nan(bits, source):
        return 0x7F
    if rectified and sign:
        return 0
    if is_infinite(bits, source):
        return sign | largest
    # A format of the same steps but a wider exponent would not round subnormals alike: round in the format itself.
    _, m, e = unpack(bits, source)
    form = Format(exponent, fraction)
    magnitude = _clamped(m, e, form, largest)
    return sign | magnitude


def _clamped(m: int, e: int, form: Format, largest: int) -> int:
    wide = Format(form.exponent + 3, form.fraction)  # holds what overflows the narrow one
    least = 1 - form.bias - form.fraction
    if m == 0:
        return 0
    if e + m.bit_length() <= 1 - form.bias:  # subnormal in the narrow format: steps of 2^least
        shift = least - e
        if shift <= 0:
            return m << -shift
        whole, rest, half = m >> shift, m & (1 << shift) - 1, 1 << shift - 1
        return whole + (rest > half or rest == half and whole & 1)
    bits = pack(0, m, e, wide)
    return min(bits - (wide.bias - form.bias << form.fraction), largest)


def from_eight(code: int, name: str) -> int:
    """An 8-bit float as float16."""
    exponent, fraction, _ = EIGHT[name]
    form, sign, magnitude = Format(exponent, fraction), code >> 7, code & 0x7F
    if name == "e4m3":
        if magnitude == 0x7F:
            return F16.nan
    elif magnitude > form.infinity:
        return F16.nan
    elif magnitude == form.infinity:
        return F16.infinity | sign << 15
    return pack(*unpack(code, form), F16)
