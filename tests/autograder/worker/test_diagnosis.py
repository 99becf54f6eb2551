from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autograder.worker.diagnosis import diagnose

RNG = np.random.default_rng(11)
RIGHT = RNG.normal(size=(48, 60)).astype(np.float32)
POISON = np.frombuffer(b"\xff" * 4, dtype=np.float32)[0]


def said(out: np.ndarray, right: np.ndarray = RIGHT) -> str:
    return diagnose(out, right.astype(np.float64), ~(out == right))


def changed(change: Callable[[np.ndarray], None], right: np.ndarray = RIGHT) -> np.ndarray:
    out = right.copy()
    change(out)
    return out


def setting(where, value: float) -> np.ndarray:
    return changed(lambda out: out.__setitem__(where, value))


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.full_like(RIGHT, POISON), "never written"),
        (setting(np.s_[-1:], POISON), "60 elements were never written, in the last row"),
        (setting(np.s_[:, 1::2], POISON), "never written, in every 2nd column"),
        (setting(np.s_[:30], np.float32(np.nan)), "NaN"),
        (np.zeros_like(RIGHT), "Every element is 0"),
        (2 * RIGHT, "2 times"),
        (-RIGHT, "-1 times"),
        (np.roll(RIGHT.ravel(), -1).reshape(RIGHT.shape), "the next one"),
        (np.roll(RIGHT.ravel(), 1).reshape(RIGHT.shape), "the previous one"),
        (RIGHT.astype(np.float16).astype(np.float32), "lower precision"),
        (setting(np.s_[-5:], 9), "in the last 5 rows"),
        (setting(np.s_[:, -1:], 9), "in the last column"),
        (setting(np.s_[:2], 9), "in the first 2 rows"),
        (changed(lambda o: (o.__setitem__(np.s_[-3:], 9), o.__setitem__(np.s_[:, -4:], 9))), "3 rows or in the last 4"),
        (setting(np.s_[:, 3::4], 9), "every 4th column (starting at 3)"),
        (setting(np.s_[5::11], 9), "every 11th row (starting at 5)"),
        (setting(np.s_[16:32, 32:48], 9), "one tile, rows 16 to 31 and columns 32 to 47"),
        (setting(np.s_[:, 16:24], 9), "in columns 16 to 23 are wrong: the share of one block"),
        (setting(np.s_[8:16], 9), "in rows 8 to 15 are wrong"),
        (setting(np.s_[10:], POISON), "never written, in the last 38 rows"),
        (
            changed(lambda o: [o.__setitem__(np.s_[:, k + 2 : k + 4], 9) for k in range(0, 60, 4)] and None),
            "in columns 2 to 3 of every 4 are wrong: always the same lanes",
        ),
        (RNG.normal(size=RIGHT.shape).astype(np.float32), "Nearly every element"),
    ],
)
def test_patterns_are_named(out: np.ndarray, words: str) -> None:
    assert words in said(out)


def test_scattered_elements_have_no_pattern() -> None:
    where = RNG.choice(RIGHT.size, 90, replace=False)
    assert "scattered without a pattern" in said(changed(lambda out: out.reshape(-1).__setitem__(where, 9)))


def test_a_transposed_matrix_is_recognised() -> None:
    square = RIGHT[:, :48].copy()
    assert "transpose" in said(square.T.copy(), square)


def test_a_vector_has_elements_not_columns() -> None:
    vector = RIGHT.ravel().copy()
    assert "in the last 7 elements" in said(changed(lambda out: out.__setitem__(np.s_[-7:], 9), vector), vector)


def test_a_warps_share_and_some_lanes_of_each_warp_are_named() -> None:
    vector = RNG.normal(size=1000).astype(np.float32)
    assert "in one warp's share, elements 64 to 95," in said(
        changed(lambda out: out.__setitem__(np.s_[64:96], 9), vector), vector
    )
    half = changed(lambda out: out[: 31 * 32].reshape(31, 32).__setitem__(np.s_[:, 16:], 9), vector)
    assert "in elements 16 to 31 of every 32 are wrong: always the same lanes" in said(half, vector)


def test_integers_and_single_elements_are_taken() -> None:
    right = np.array([3], dtype=np.int32)
    assert diagnose(np.array([4], dtype=np.int32), right, np.array([True])) == ""
    assert "never written" in diagnose(np.array([-1], dtype=np.int32), right, np.array([True]))


def test_half_precision_is_named_beside_numbers_that_it_cannot_hold() -> None:
    right = changed(lambda out: out.ravel().__setitem__(np.s_[:3], (65600.0, 3e38, 2.0**-140)))
    with np.errstate(over="ignore"):
        half = right.astype(np.float16).astype(np.float32)
    assert "lower precision" in said(half, right) and "2 of them became infinite" in said(half, right)
    # A large element may hide no wrong formula
    assert "lower precision" not in said((right * np.float32(1.1)).clip(-1e38, 1e38) + np.float32(0.1), right)
