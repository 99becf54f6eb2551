"""Compares what a kernel of the corpus computed with what NumPy says it should."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from corpus.emulator.entry import Approximate, Arrays, Entry

_UNITS = 64  # of the output's precision, where an expectation is wider than the output


def compare(entry: Entry, inputs: Arrays, outputs: Arrays) -> str:
    """Empty if every expected output is met, else which element is not, in one sentence."""
    expected = expectations(entry, inputs)
    rounded = {name for name, wanted in expected.items() if is_rounded(outputs[name], wanted)}
    return difference(expected, outputs, rounded, entry.tolerance)


def expectations(entry: Entry, inputs: Arrays) -> dict[str, np.ndarray]:
    """What NumPy says a kernel computes, by output; empty if its entry does not say."""
    if entry.expected is None:
        return {}
    return {name: np.asarray(wanted) for name, wanted in entry.expected(entry.values(inputs)).items()}


def is_rounded(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether an output may differ from what is expected by rounding: floats of a narrower type."""
    return got.dtype.kind == "f" and got.dtype != wanted.dtype


def difference(expected: Arrays, outputs: Arrays, rounded: Collection[str], tolerance: float) -> str:
    """Empty if every expected output is met, those in `rounded` within a tolerance, else one sentence (`compare`)."""
    for name, wanted in expected.items():
        got = outputs[name]
        if wanted.shape[1:] == got.shape[1:]:
            got = got[: len(wanted)]
        wanted = wanted.reshape(got.shape)
        wrong = _beyond(got, wanted, tolerance) if name in rounded else _unequal(got, wanted)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = f"{int(wrong.sum())} of {wrong.size} elements differ"
            return f"{name}{list(at)} is {got[at]!r} where NumPy says {wanted[at]!r}; {count}"
    return ""


def _unequal(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return bits_of(got) != bits_of(wanted) if got.dtype == wanted.dtype else got != wanted


def _beyond(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(1e-30, float(finite.max(initial=0.0)))
    allowed = (tolerance or _UNITS * float(np.finfo(got.dtype).eps)) * scale
    return ~(np.abs(got.astype(wanted.dtype) - wanted) <= allowed)


def bits_of(array: np.ndarray) -> np.ndarray:
    """The array as unsigned integers, so that NaNs and signed zeros compare too."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def elements_apart(got: np.ndarray, wanted: np.ndarray, approximate: Approximate | None) -> int:
    """How many elements of the emulator's output differ from the GPU's by more than is allowed."""
    differ = bits_of(got) != bits_of(wanted)
    if approximate is not None and got.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            near = np.abs(got.astype(np.float64) - wanted.astype(np.float64)) <= approximate.absolute
        differ &= ~near & (units_apart(got, wanted) > approximate.ulp)
    return int(np.count_nonzero(differ))


def units_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many floats lie between each pair of elements, as float64; 0 for two NaNs."""
    distance = np.abs(_ordered(a).astype(np.float64) - _ordered(b).astype(np.float64))
    return np.where(np.isnan(a) & np.isnan(b), 0.0, distance)


def _ordered(array: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats."""
    width = 8 * array.dtype.itemsize
    bits = bits_of(array).view(f"i{array.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, -(bits & ((1 << (width - 1)) - 1)), bits)
