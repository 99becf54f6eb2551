"""Reads the pattern of wrong elements and names its likely cause in one sentence.

Each detector looks for one pattern and returns a sentence or None; `diagnose` asks them in order, the most telling
first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_WARP = 32
_PERIODS = (4, 8, 16, 32, 64, 128, 256)
_TOLERANCE = 1e-3  # relative; a pattern is still recognised after rounding to half precision
_HALF_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Pattern:
    """An output as float64 with what it should be, which elements are wrong, and which were never written."""

    got: np.ndarray
    expected: np.ndarray
    wrong: np.ndarray
    unwritten: np.ndarray

    @property
    def everything(self) -> bool:
        """Whether (nearly) all elements are wrong: a few may be right by chance."""
        return bool(np.count_nonzero(self.wrong) >= 0.9 * self.wrong.size)


def diagnose(got: np.ndarray, expected: np.ndarray, wrong: np.ndarray) -> str:
    """The likely cause of the wrong elements (a mask of the output's shape, at least one set)."""
    unwritten = never_written(got) & wrong
    evidence = Pattern(got.astype(np.float64), expected.astype(np.float64), wrong, unwritten)
    if wrong.size < 2 and not unwritten.any():
        return ""  # one element has no pattern
    with np.errstate(all="ignore"):
        for detector in _DETECTORS:
            sentence = detector(evidence)
            if sentence:
                return sentence
    return "The wrong elements are scattered without a pattern."


def never_written(got: np.ndarray) -> np.ndarray:
    """Mask of the elements that still hold the poison of before the run."""
    bits = np.ascontiguousarray(got).view(np.uint8).reshape(*got.shape, got.dtype.itemsize)
    return (bits == 0xFF).all(axis=-1)


def _never_written(e: Pattern) -> str | None:
    count = int(np.count_nonzero(e.unwritten))
    if count == 0:
        return None
    if count == e.wrong.size:
        return "The output was never written: the kernel stores nothing, or stores somewhere else."
    if count < 0.5 * np.count_nonzero(e.wrong):
        return None
    if words := _part_unwritten(e.unwritten):
        return words
    where = _place(e.unwritten, most=0.95) or "scattered over the output"
    words = "1 element was" if count == 1 else f"{count} elements were"
    return f"{words} never written, {where}: the threads do not cover the whole output."


def _part_unwritten(unwritten: np.ndarray) -> str | None:
    """Words for the same part of each tile that was never written, as by a block that is smaller than the tile."""
    matrix = unwritten.reshape(-1, unwritten.shape[-1]) if unwritten.ndim else unwritten.reshape(1, 1)
    for hit, noun in (
        (matrix.mean(axis=0) > 0.5, "column" if len(matrix) > 1 else "element"),
        (matrix.mean(axis=1) > 0.5, "row"),
    ):
        if found := _run_of_each(hit):
            first, last, period = found
            count = last - first + 1
            return (
                f"{count} of every {period} {noun}s were never written, numbers {first} to {last} of each: the threads "
                "do not cover the whole output."
            )
    return None


def _not_a_number(e: Pattern) -> str | None:
    count = int(np.count_nonzero(np.isnan(e.got) & ~np.isnan(e.expected) & e.wrong))
    if count < 0.5 * np.count_nonzero(e.wrong):
        return None
    words = "1 of the elements is" if count == 1 else f"{count} of the elements are"
    return f"{words} NaN: look for 0 / 0, or infinity minus infinity, or for what nothing had written."


def _constant(e: Pattern) -> str | None:
    first = e.got.flat[0]
    if e.got.size < 2 or not np.all(e.got == first) or np.all(e.expected == e.expected.flat[0]):
        return None
    return f"Every element is {first:g}: the output does not depend on the inputs."


def _factor(e: Pattern) -> str | None:
    usable = (e.expected != 0) & np.isfinite(e.got) & e.wrong
    if not e.everything or np.count_nonzero(usable) < 3:
        return None
    ratios = e.got[usable] / e.expected[usable]
    factor = float(np.median(ratios))
    if factor == 0 or abs(factor - 1) < 0.01 or np.max(np.abs(ratios - factor)) > _TOLERANCE * abs(factor):
        return None
    return f"Every element is {factor:.4g} times what it should be: a constant factor is wrong or missing."


def _transposed(e: Pattern) -> str | None:
    if e.got.ndim != 2 or min(e.got.shape) < 2:
        return None
    shape = e.expected.shape
    if shape[0] == shape[1] and np.allclose(e.got, e.expected.T, rtol=_TOLERANCE, atol=0):
        return "The output is the transpose of what was asked for: row and column are swapped."
    if shape[0] != shape[1] and np.allclose(e.got, e.expected.T.reshape(shape), rtol=_TOLERANCE, atol=0):
        return "The output is stored with rows and columns swapped: the index multiplies by the wrong width."
    return None


def _shifted(e: Pattern) -> str | None:
    got, expected = e.got.ravel(), e.expected.ravel()
    if not e.everything or got.size < 8:
        return None
    for step in (1, -1):
        a, b = (got[:-1], expected[1:]) if step == 1 else (got[1:], expected[:-1])
        if np.mean(np.isclose(a, b, rtol=_TOLERANCE, atol=0)) > 0.9:
            side = "next" if step == 1 else "previous"
            return f"Each element holds the value of the {side} one: an index is off by one."
    return None


def _imprecise(e: Pattern) -> str | None:
    magnitude = np.abs(e.expected)
    overflowed = e.wrong & np.isinf(e.got) & (magnitude > _HALF_LARGEST)
    finite = e.wrong & ~overflowed
    if not finite.any() or not np.all(np.isfinite(e.got[finite])):
        return None
    # The few largest elements say nothing of what is usual: inputs have numbers of either end of the range.
    scale = float(np.sqrt(np.mean(np.minimum(magnitude, np.quantile(magnitude, 0.95)) ** 2))) or 1.0
    worst = float(np.max(np.abs(e.got - e.expected)[finite] / np.maximum(magnitude, scale)[finite]))
    if worst > 0.02:
        return None
    lost = int(np.count_nonzero(overflowed))
    return (
        f"The values are close (within {worst:.1e} of their typical size) but not close enough: "
        "some step works in a lower precision than the lab asks for, for example a sum kept in half precision."
    ) + (f" {lost} of them became infinite, being larger than float16 can hold (65504)." if lost else "")


def _located(e: Pattern) -> str | None:
    if e.everything:
        return None
    where = _place(e.wrong)
    if where is None:
        return None
    if where.startswith(("in the last", "in the first")):
        return f"Only elements {where} are wrong: the ragged edge, where a tile or a block is only partly filled."
    if where.startswith("in one tile"):
        return f"Only elements {where} are wrong: one block or one warp went astray."
    if where.startswith("in one warp"):
        return f"Only elements {where} are wrong: one warp's worth, so one warp went astray."
    if " of every " in where:
        return f"Only elements {where} are wrong: always the same lanes, or the same part of each tile."
    if where.startswith(("in columns", "in rows", "in elements")):
        return f"Only elements {where} are wrong: the share of one block, or of one column or row of tiles."
    return f"Only elements {where} are wrong: look at how threads map to elements, and at missing barriers."


def _everywhere(e: Pattern) -> str | None:
    if not e.everything:
        return None
    return "Nearly every element is wrong: the formula or the indices are wrong, not just an edge."


_DETECTORS: tuple[Callable[[Pattern], str | None], ...] = (
    _never_written,
    _not_a_number,
    _constant,
    _factor,
    _transposed,
    _shifted,
    _imprecise,
    _located,
    _everywhere,
)


def _place(mask: np.ndarray, most: float = 0.5) -> str | None:
    """Where the set elements lie, as words that continue "elements ...", or None if they follow no simple pattern.

    At an end of an axis they may span `most` of it.
    """
    flat = mask.ndim == 1
    matrix = mask.reshape(1, -1) if flat else mask.reshape(-1, mask.shape[-1])
    noun = "element" if flat else "column"
    rows: np.ndarray = np.any(matrix, axis=1)
    columns: np.ndarray = np.any(matrix, axis=0)
    edge = _edge(columns, noun, most) or (None if mask.ndim != 2 else _edge(rows, "row", most))
    if edge:
        return edge
    if mask.ndim == 2:
        rows_full, columns_full = matrix.mean(axis=1) > 0.5, matrix.mean(axis=0) > 0.5
        both = _edge(rows_full, "row", most), _edge(columns_full, "column", most)
        if all(both) and _covers(matrix, rows_full, columns_full):
            return " or ".join(words for words in both if words)
    box = _bounding_box(matrix)
    if box is not None and not flat and not (rows.all() or columns.all()):
        (top, bottom), (left, right) = box
        return f"in one tile, rows {top} to {bottom} and columns {left} to {right},"
    axes = [(columns, noun), *([] if flat else [(rows, "row")])]
    for pattern in (_band, _every_kth, _part_of_each):
        for hit, name in axes:
            if words := pattern(hit, name):
                return words
    return None


def _edge(hit: np.ndarray, noun: str, most: float) -> str | None:
    """Words for a (nearly) dense run of hits at the end or the start of an axis that spans at most `most` of it."""
    where = np.flatnonzero(hit)
    if where.size == 0 or where.size > int(most * hit.size) or 4 * (where[-1] - where[0] + 1) > 5 * where.size:
        return None
    words = noun if where.size == 1 else f"{where.size} {noun}s"
    if where[-1] == hit.size - 1:
        return f"in the last {words}"
    return f"in the first {words}" if where[0] == 0 else None


def _covers(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> bool:
    """Whether every set element lies in one of the marked rows or columns."""
    return not (matrix & ~rows[:, None] & ~columns[None, :]).any()


def _bounding_box(matrix: np.ndarray) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The box of the set elements, if they fill at least half of it and it is at most a quarter of the matrix."""
    rows, columns = np.flatnonzero(matrix.any(axis=1)), np.flatnonzero(matrix.any(axis=0))
    if rows.size == 0:
        return None
    top, bottom, left, right = int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])
    area = (bottom - top + 1) * (right - left + 1)
    if area < 4 or area > matrix.size // 4 or np.count_nonzero(matrix) < area // 2:
        return None
    return (top, bottom), (left, right)


def _every_kth(hit: np.ndarray, noun: str) -> str | None:
    where = np.flatnonzero(hit)
    if where.size < 3:
        return None
    step = int(np.gcd.reduce(np.diff(where)))
    if step < 2 or where.size < 0.5 * (hit.size // step):
        return None
    return f"in every {_ordinal(step)} {noun} (starting at {int(where[0])})"


def _band(hit: np.ndarray, noun: str) -> str | None:
    """Words for one dense run of hits inside an axis that spans at most half of it."""
    where = np.flatnonzero(hit)
    if where.size < 2 or where.size > hit.size // 2:
        return None
    first, last = int(where[0]), int(where[-1])
    if 4 * (last - first + 1) > 5 * where.size:
        return None
    if noun == "element" and first % _WARP == 0 and last == first + _WARP - 1:
        return f"in one warp's share, elements {first} to {last},"
    return f"in {noun}s {first} to {last}"


def _part_of_each(hit: np.ndarray, noun: str) -> str | None:
    """Words for the same run of hits in every 4, 8, 16 ... of an axis, as of some lanes of each warp."""
    found = _run_of_each(hit)
    return f"in {noun}s {found[0]} to {found[1]} of every {found[2]}" if found else None


def _run_of_each(hit: np.ndarray) -> tuple[int, int, int] | None:
    """The first and the last of a run of hits that is the same in every 4, 8, 16 ... of an axis, and that period."""
    for period in _PERIODS:
        if hit.size < 2 * period:
            return None
        whole = hit[: hit.size // period * period].reshape(-1, period)
        share = whole.mean(axis=0)
        run = np.flatnonzero(share > 0.9)
        if 2 <= run.size < period and run[-1] - run[0] + 1 == run.size and not (share[share <= 0.9] > 0.1).any():
            return int(run[0]), int(run[-1]), period
    return None


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{suffix}"
