"""Compares an output with the expected values, element by element, against a bound that the task derives.

NaN equals nothing, not even NaN: an output is poisoned with NaN before the run, so what was never written fails.
An infinite float16 is what 65,536 would be if there were one: where a sum lies next to the end of the range, an error
that is allowed decides between the last number and infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from autograder.records.outcome import FirstWrong
from autograder.spec.task import Array

_BEHIND_HALF = 65536.0  # what would follow float16's largest number
_PIECE = 1 << 16  # elements compared at a time: what that takes stays in a processor's cache


@dataclass(frozen=True)
class Comparison:
    """Outcome of comparing one output. `worst_ratio` is the largest error over the allowed error: at most 1 passes."""

    output: str
    total: int
    wrong: int
    worst_ratio: float
    first: FirstWrong | None = None

    @property
    def passed(self) -> bool:
        """Whether every element is within its bound."""
        return self.wrong == 0


def error_ratios(xp: ModuleType, got: Array, expected: Array, bound: Array) -> Array:
    """|got - expected| / bound per element as float64: 0 where equal, infinite where NaN or where the bound is 0.

    `bound` broadcasts against the output. Computed in float64, or in exact integers when both sides are integers.
    """
    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        error = _integer_distance(xp, got, expected)
    else:
        half = got.dtype == np.float16
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        if half:
            got, expected = (xp.where(xp.isinf(x), xp.copysign(_BEHIND_HALF, x), x) for x in (got, expected))
        with np.errstate(all="ignore"):
            error = xp.where(got == expected, 0.0, xp.abs(got - expected))  # equal infinities have no difference
    allowed = xp.broadcast_to(xp.asarray(bound, dtype=np.float64), error.shape)
    with np.errstate(all="ignore"):
        ratios = xp.where(error == 0, 0.0, error / allowed)
    sound = (allowed >= 0) & xp.isfinite(allowed)  # a bound that is not a number allows nothing
    ratios = xp.where(xp.isnan(ratios) | ~sound & (error != 0), np.inf, ratios)
    return ratios


def _integer_distance(xp: ModuleType, got: Array, expected: Array) -> Array:
    larger, smaller = xp.maximum(got, expected), xp.minimum(got, expected)
    return xp.where(got == expected, 0.0, xp.maximum(1.0, larger.astype(np.float64) - smaller.astype(np.float64)))


def worst_ratio(xp: ModuleType, got: Array, expected: Array, bound: Array) -> float:
    """The largest of `error_ratios`; 0 for an empty output."""
    return float(error_ratios(xp, got, expected, bound).max()) if got.size else 0.0


def compare(output: str, got: np.ndarray, expected: np.ndarray, bound: np.ndarray | float) -> Comparison:
    """Compare `got` with `expected` (same shape). Raises ValueError if the shapes differ: the task is wrong then."""
    if got.shape != expected.shape:
        raise ValueError(f"expected values of {output} have shape {expected.shape}, the output has {got.shape}")
    allowed = np.broadcast_to(np.asarray(bound, dtype=np.float64), got.shape)
    flat_got, flat_expected = got.reshape(-1), expected.reshape(-1)
    count, worst, place = 0, 0.0, 0
    for start in range(0, got.size, _PIECE):
        piece = slice(start, start + _PIECE)
        ratios = error_ratios(np, flat_got[piece], flat_expected[piece], allowed.flat[piece])
        worst = max(worst, float(ratios.max()))
        wrong = wrong_elements(ratios)
        if not count and wrong.any():
            place = start + int(np.argmax(wrong))
        count += int(np.count_nonzero(wrong))
    if count == 0:
        return Comparison(output, got.size, 0, worst)
    index = tuple(int(i) for i in np.unravel_index(place, got.shape))
    first = FirstWrong(output, index, float(got[index]), float(expected[index]), float(allowed[index]))
    return Comparison(output, got.size, count, worst, first)


def wrong_elements(ratios: Array) -> Array:
    """Mask of the elements whose error exceeds what is allowed."""
    return ~(ratios <= 1.0)
