"""The arithmetic of the quizzes: what the bank computes answers with, and what a learner types as a formula.

A small part of Python's expressions, walked as a tree: numbers, names, arithmetic, comparisons, a few functions, and
the published figures of a chip as `H200.bandwidth` or `H200.fp16_tensor`. Nothing else can be said in it.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

from warplab.errors import WarplabError
from warplab.hardware.chips import CHIPS
from warplab.hardware.records import Chip, Math

Value = int | float | str
FUNCTIONS: Mapping[str, Callable] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "abs": abs,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "gcd": math.gcd,
    "round": round,
}
_CHIPS = {chip.name.split()[0]: chip for chip in CHIPS}
_BINARY: Mapping[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type, Callable] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LENGTH = 300  # characters
_POWER = 128  # largest exponent
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
# Named pieces of text end at a colon, where the format begins; an expression has no colon of its own.
_PLURAL = re.compile(r"\b([\d.,]+)((?: [a-z]+)+)\(s\)")
_PLACE = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")


class ExpressionError(WarplabError):
    """An expression that is not arithmetic, names what is not there, or has no value."""


def evaluate(text: str, names: Mapping[str, Value]) -> Value:
    """The value of an expression, with `^` for powers as well as `**`. Raises ExpressionError."""
    if len(text) > _LENGTH:
        raise ExpressionError(f"The formula is longer than {_LENGTH} characters: simplify it.")
    try:
        tree = ast.parse(text.translate(_SPELLINGS).replace("^", "**").strip(), mode="eval")
        value = _value(tree.body, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ValueError) and "math domain" in str(error):
            raise ExpressionError(f"{text!r} has no value here: a root or logarithm of a negative number.") from None
        raise ExpressionError(f"{text!r} is not a formula: write it with + - * / ^ ( ), as in 2*m*n/(m + n).") from None
    except ZeroDivisionError:
        raise ExpressionError(f"{text!r} divides by zero.") from None
    except (OverflowError, TypeError):
        raise ExpressionError(f"{text!r} has no value here: a number is too large, or is none.") from None
    if isinstance(value, complex):
        raise ExpressionError(f"{text!r} is not a real number.")
    return value


def fill(template: str, names: Mapping[str, Value]) -> str:
    """Text with each `{expression}` or `{expression:format}` replaced. Whole numbers are written with commas.

    A word with "(s)" after a number gets its plural or not: "{n} warp(s)".
    """

    def replace(match: re.Match) -> str:
        value = evaluate(match.group(1), names)
        if match.group(2):
            return format(value, match.group(2))
        return value if isinstance(value, str) else number(value)

    return _PLURAL.sub(lambda m: f"{m[1]}{m[2]}{'' if m[1] == '1' else 's'}", _PLACE.sub(replace, template))


def number(value: float) -> str:
    """A number for readers: whole ones with commas, others with four significant digits."""
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def chip_figure(name: str, figure: str) -> float:
    """A published figure of a chip: "H200", and "bandwidth" or "fp16_tensor". Raises ExpressionError."""
    chip = _CHIPS.get(name)
    if chip is None:
        raise ExpressionError(f"{name!r} is no chip: the chips are {', '.join(_CHIPS)}.")
    value = chip.peak(Math[figure.upper()]) if figure.upper() in Math.__members__ else getattr(chip, figure, None)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ExpressionError(f"{name} has no published figure called {figure!r}.")
    return value


def chip_source(name: str, figure: str) -> str:
    """Where that figure was read: the document and the place in it. Raises ExpressionError."""
    chip_figure(name, figure)
    chip: Chip = _CHIPS[name]
    source = chip.source(Math[figure.upper()] if figure.upper() in Math.__members__ else figure)
    if source is None:
        raise ExpressionError(f"nobody has written down where {name}.{figure} comes from: do so in hardware/data.")
    return f"{source.document} ({source.place})"


def _value(node: ast.expr, names: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=bool()):
            raise ValueError
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.Name(id=name):
            if name in names:
                return names[name]
            if name in _CHIPS:
                return name
            raise ExpressionError(f"{name!r} is not known here: the names are {', '.join(map(str, names)) or 'none'}.")
        case ast.Attribute(value=inner, attr=figure):
            return chip_figure(str(_value(inner, names)), figure)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(inner, names)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            exponent = _number(right, names)
            if abs(exponent) > _POWER:
                raise OverflowError
            return _number(left, names) ** exponent
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_number(left, names), _number(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return int(_COMPARE[type(op)](_value(left, names), _value(right, names)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_number(argument, names) for argument in arguments))
    raise ValueError


def _number(node: ast.expr, names: Mapping[str, Value]) -> int | float:
    value = _value(node, names)
    if isinstance(value, str):
        raise TypeError
    return value
