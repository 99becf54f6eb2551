"""What operations on floating-point numbers give, by rational arithmetic and with PTX's rules for zeros and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.emulator.exact import BF16, F16, F32, F64, Format, decode, encode

NAN = {F16: 0x7FFF, BF16: 0x7FFF, F32: 0x7FFFFFFF}
SIGN = {form: 1 << (form.width - 1) for form in (F16, BF16, F32, F64)}


def flushed(bits: int, form: Format) -> int:
    magnitude = bits & (SIGN[form] - 1)
    return bits & SIGN[form] if magnitude < 1 << form.significand else bits


def exact_fma(a, b, c):
    """a * b + c on decoded values; floats stand for zeros, infinities and NaN."""
    product = multiply(a, b)
    return add(product, c)


def multiply(a, b):
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return float_of(a) * float_of(b)


def add(a, b):
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    if isinstance(a, Fraction) and not isinstance(b, Fraction) and b == 0:
        return a
    if isinstance(b, Fraction) and not isinstance(a, Fraction) and a == 0:
        return b
    return float_of(a) + float_of(b)


def float_of(value) -> float:
    """A stand-in with the right sign and kind for special cases."""
    return math.copysign(1.0, value) if isinstance(value, Fraction) else value


def divide(a, b):
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a / b
    a, b = float_of(a), float_of(b)
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def finish(value, form: Format, mode: str, zeros: bool) -> int:
    """An exact result as bits. `zeros`: an exact cancellation to Fraction(0) takes its sign from the mode."""
    if isinstance(value, Fraction) and value != 0:
        return encode(value, form, mode)
    if isinstance(value, Fraction):
        return SIGN[form] if zeros and mode == "rm" else 0
    if math.isnan(value):
        return NAN[form]
    magnitude = form.infinity if math.isinf(value) else 0
    return magnitude | (SIGN[form] if math.copysign(1.0, value) < 0 else 0)


def compare(got: np.ndarray, wanted: list[int], operands: list[np.ndarray], name: str) -> None:
    bad = [i for i in range(len(wanted)) if int(got[i]) != wanted[i]]
    if bad:
        i = bad[0]
        values = [hex(int(o[i])) for o in operands]
        raise AssertionError(f"{name}{values} gave {got[i]:#x}, not {wanted[i]:#x} ({len(bad)} of {len(wanted)} wrong)")


OPERATIONS: dict[str, tuple[int, Callable]] = {
    "add": (2, add),
    "sub": (2, lambda a, b: add(a, -b)),
    "mul": (2, multiply),
    "fma": (3, exact_fma),
    "div": (2, divide),
    "rcp": (1, lambda a: divide(Fraction(1), a)),
}


def exact_singles(name: str, mode: str, ftz: str, operands: list[np.ndarray]) -> list[int]:
    """What an operation on float32 gives, as bits, by rational arithmetic."""
    formula, wanted = OPERATIONS[name][1], []
    for row in zip(*operands, strict=True):
        bits = [flushed(int(v), F32) if ftz else int(v) for v in row]
        result = finish(with_zero_rule(formula, name, [decode(b, F32) for b in bits], mode), F32, mode, True)
        wanted.append(flushed(result, F32) if ftz else result)
    return wanted


def with_zero_rule(formula: Callable, name: str, values: list, mode: str):
    """The exact result; sums of opposite zeros are +0, or -0 when rounding down."""
    result = formula(*values)
    if name in ("add", "sub", "fma") and not isinstance(result, Fraction) and result == 0:
        if name == "fma":
            first, second = multiply(values[0], values[1]), values[2]
        else:
            first, second = values[0], -values[1] if name == "sub" else values[1]
        opposite = math.copysign(1, float_of(first)) != math.copysign(1, float_of(second))
        if opposite:
            return -0.0 if mode == "rm" else 0.0
    return result
