"""Is an answer right? Numbers with units, chosen statements, formulas."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

from course.quiz.expression import ExpressionError, evaluate, number
from course.quiz.question import Drawn, Kind

_PREFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_PREFIXED = ("FLOP/s", "FLOPS", "FLOP", "B/s", "B", "Hz", "W", "J", "s")  # longest first: units that take a prefix
_ANSWER = re.compile(r"\s*([-+]?[\d.,_ ]*\d\.?(?:[eE][-+]?\d+)?)\s*(.*?)\s*")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_SAME = {"x": "time", "×": "time", "percent": "%"}  # what people write for a unit, plainly
_FORMULA_TOLERANCE = 1e-9
_ROUNDING = 1e-9  # relative; what is left of a whole number after arithmetic


@dataclass(frozen=True)
class Verdict:
    """`understood` is False for an answer that cannot be read: it counts as no attempt, and `message` says why."""

    right: bool
    message: str
    understood: bool = True


def check(drawn: Drawn, response: str | int) -> Verdict:
    """Judge a response: text for a number or a formula, the index of an option for a choice."""
    if drawn.question.kind is Kind.CHOICE:
        return _choice(drawn, response)
    text = str(response).strip()
    if not text:
        return Verdict(False, "Write an answer first.", understood=False)
    return _number(drawn, text) if drawn.question.kind is Kind.NUMBER else _formula(drawn, text)


def in_unit(text: str, unit: str) -> float:
    """The number that a text such as "4,800 GB/s" names, in `unit`. Without a unit it is taken to be in `unit`.

    Raises ValueError with one sentence for the learner.
    """
    match = _ANSWER.fullmatch(text)
    if match and "," in match.group(1) and not _GROUPED.fullmatch(match.group(1)):
        raise ValueError(f"{text!r} can be read in two ways: write 15.7 with a point, and 1,500 with groups of three.")
    try:
        value = float(re.sub(r"[ ,_]", "", match.group(1))) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not math.isfinite(value):
        raise ValueError(f"{text!r} is no number: write one like 1024, 1.5e9 or 48 {unit}".rstrip() + ".")
    given = match.group(2)
    if not given or _plain(given) == _plain(unit):
        return value
    factor, base = _split(given)
    wanted, wanted_base = _split(unit)
    if base != wanted_base:
        raise ValueError(f"The answer is asked for in {unit or 'no unit'}, and {given!r} is something else.")
    return value * factor / wanted


def _number(drawn: Drawn, text: str) -> Verdict:
    question = drawn.question
    try:
        value = in_unit(text, question.unit)
    except ValueError as problem:
        return Verdict(False, str(problem), understood=False)
    answer = float(drawn.answer)
    if _close(value, answer, question.tolerance):
        exactly = "" if value == answer else f" (exactly: {number(answer)} {question.unit})".replace(" )", ")")
        return Verdict(True, f"Right{exactly}.")
    for wrong, says in drawn.traps:
        if _close(value, wrong, question.tolerance):
            return Verdict(False, says)
    if question.unit == "%" and value <= 1 and _close(100 * value, answer, question.tolerance):
        return Verdict(False, f"That is the share. In percent it is {number(100 * value)}.", understood=False)
    if value > 0 and answer > 0 and not 1 / 900 < value / answer < 900:
        asked = f" The answer is asked for in {question.unit}." if question.unit else ""
        return Verdict(False, f"Not right, by a factor of more than 900.{asked}")
    return Verdict(False, "Not right: too large." if value > answer else "Not right: too small.")


def _choice(drawn: Drawn, response: str | int) -> Verdict:
    if not isinstance(response, int) or not 0 <= response < len(drawn.options):
        return Verdict(False, "Choose one of the statements first.", understood=False)
    chosen = drawn.options[response]
    return Verdict(chosen.right, f"{'Right' if chosen.right else 'Not right'}. {chosen.why}".strip())


def _formula(drawn: Drawn, text: str) -> Verdict:
    variables = drawn.question.variables or {}
    for values in itertools.product(*variables.values()):
        names = dict(zip(variables, values, strict=True))
        try:
            given = evaluate(text, names)
        except ExpressionError as problem:
            return Verdict(False, str(problem), understood=False)
        wanted = evaluate(str(drawn.answer), names)
        assert not isinstance(wanted, str)
        if isinstance(given, str) or not math.isclose(given, wanted, rel_tol=_FORMULA_TOLERANCE, abs_tol=1e-12):
            case = ", ".join(f"{name} = {number(value)}" for name, value in names.items())
            shown = given if isinstance(given, str) else number(given)
            return Verdict(False, f"Not right: for {case} your formula gives {shown}. Try that case by hand.")
    return Verdict(True, "Right.")


def _close(value: float, answer: float, tolerance: float) -> bool:
    return abs(value - answer) <= max(tolerance, _ROUNDING) * abs(answer) + (1e-12 if answer == 0 else 0)


def _plain(unit: str) -> str:
    plain = unit.lower().rstrip("s").replace(" ", "")
    return _SAME.get(plain, plain)


def _split(unit: str) -> tuple[float, str]:
    """A unit as a factor and the unit that it multiplies: "TB/s" is (1e12, "b/s")."""
    spelled = unit.replace("bytes", "B").replace("byte", "B").replace("second", "s").replace("FLOPs", "FLOP")
    for base in _PREFIXED:
        prefix = spelled.removesuffix(base)
        if spelled.endswith(base) and prefix in _PREFIXES:
            return _PREFIXES[prefix], "flop/s" if base == "FLOPS" else base.lower()
    return 1.0, _plain(unit)
