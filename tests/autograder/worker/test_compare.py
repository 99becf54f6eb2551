"""The comparer's own mutation tests: every way in which an output can be wrong must be seen, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.worker.compare import compare, error_ratios, worst_ratio

RNG = np.random.default_rng(3)
EXPECTED = RNG.normal(size=(6, 7))


def exact(mutate=lambda out: None, dtype=np.float32):
    out = EXPECTED.astype(dtype)
    expected = out.astype(np.float64)
    mutate(out)
    return compare("out", out, expected, 0.0)


def test_equal_passes() -> None:
    assert exact().passed
    assert exact().worst_ratio == 0


@pytest.mark.parametrize("position", [(0, 0), (5, 6), (3, 2)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, 1e30])
def test_one_wrong_element_anywhere_fails(position: tuple[int, int], value: float) -> None:
    result = exact(lambda out: out.__setitem__(position, value))
    assert (result.wrong, result.total) == (1, 42)
    assert result.first is not None
    assert result.first.index == position
    assert result.worst_ratio == np.inf


def test_the_last_bit_counts_when_equality_is_asked_for() -> None:
    assert exact(lambda out: out.__setitem__((2, 2), np.nextafter(out[2, 2], np.float32(9)))).wrong == 1


def test_every_element_is_looked_at() -> None:
    for index in np.ndindex(EXPECTED.shape):
        assert exact(lambda out, index=index: out.__setitem__(index, 77)).first.index == index  # type: ignore[union-attr]


def test_a_bound_admits_up_to_itself_and_not_more() -> None:
    expected, bound = np.full(3, 10.0), np.array([0.5, 0.5, 0.25])
    assert compare("out", np.array([10.5, 9.5, 10.25]), expected, bound).passed
    result = compare("out", np.array([10.5, 9.5, 10.26]), expected, bound)
    assert result.wrong == 1
    assert result.first is not None and result.first.index == (2,) and result.first.allowed == 0.25
    assert result.worst_ratio == pytest.approx(1.04)


@pytest.mark.parametrize("bound", [np.nan, np.inf, -1.0])
def test_a_bound_that_is_no_bound_allows_nothing(bound: float) -> None:
    assert not compare("out", np.array([1.5]), np.array([1.0]), bound).passed
    assert not compare("out", np.array([np.nan]), np.array([1.0]), bound).passed


def test_nan_is_never_right() -> None:
    assert not compare("out", np.array([np.nan]), np.array([np.nan]), 1.0).passed
    assert not compare("out", np.array([1.0]), np.array([np.nan]), 1.0).passed


def test_infinities_are_equal_to_themselves_only() -> None:
    assert compare("out", np.array([np.inf]), np.array([np.inf]), 0.0).passed
    assert not compare("out", np.array([-np.inf]), np.array([np.inf]), 1.0).passed
    assert not compare("out", np.array([1.0]), np.array([np.inf]), 1.0).passed


def test_large_integers_are_compared_exactly() -> None:
    right = np.array([2**62 + 1], dtype=np.int64)
    assert compare("out", right, right.copy(), 0.0).passed
    assert not compare("out", right - 1, right, 0.0).passed  # equal as float64


def test_unsigned_integers_do_not_wrap_around() -> None:
    got, right = np.array([0], dtype=np.uint32), np.array([5], dtype=np.uint32)
    assert error_ratios(np, got, right, np.array(5.0)).tolist() == [1.0]
    assert not compare("out", got, right, 4.0).passed


def test_half_precision_is_not_compared_in_half_precision() -> None:
    got = np.array([2048.0], dtype=np.float16)
    assert not compare("out", got, np.array([2049.0]), 0.0).passed


def test_a_wrong_shape_is_the_tasks_mistake() -> None:
    with pytest.raises(ValueError, match="shape"):
        compare("out", np.zeros(3), np.zeros((3, 1)), 0.0)


def test_worst_ratio_sees_nan_and_takes_empty_outputs() -> None:
    assert worst_ratio(np, np.array([1.0, np.nan]), np.array([1.0, 1.0]), np.array(1.0)) == np.inf
    assert worst_ratio(np, np.zeros(0), np.zeros(0), np.array(1.0)) == 0.0
