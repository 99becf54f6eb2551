"""The exact check of a product never refuses a right one, and finds any single wrong element."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.spec.freivalds import exact_product


def whole(shape: tuple[int, int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32)


@pytest.mark.parametrize("seed", range(200))
def test_right_products_are_never_refused(seed: int) -> None:
    m, k, n = (int(size) for size in np.random.default_rng(seed).integers(1, 60, 3))
    a, b = whole((m, k), seed), whole((k, n), seed + 1)
    assert exact_product(np, a, b, product(a, b), seed)


def test_one_wrong_element_is_found_wherever_it_is_and_however_small() -> None:
    m, k, n = 37, 300, 53
    a, b = whole((m, k), 1), whole((k, n), 2)
    right = product(a, b)
    draw = np.random.default_rng(3)
    for seed in range(500):
        i, j = int(draw.integers(m)), int(draw.integers(n))
        value = right[i, j]
        for wrong in (value + 1, value - 1, value + 1024, value + 0.5, np.nextafter(value, np.inf), np.nan, np.inf):
            c = right.copy()
            c[i, j] = wrong
            assert not exact_product(np, a, b, c, seed), (i, j, wrong)


def test_errors_that_cancel_in_sums_are_found() -> None:
    a, b = whole((16, 64), 1), whole((64, 16), 2)
    right = product(a, b)
    swapped = right[:, [1, 0, *range(2, 16)]]
    shifted = right + np.where(np.arange(16) % 2, 1, -1)  # every row's sum stays
    moved = np.roll(right, 1, axis=0)
    for seed in range(100):
        for wrong in (swapped, shifted, moved, np.zeros_like(right), 2 * right):
            assert not exact_product(np, a, b, wrong.astype(np.float32), seed)


def test_multiples_of_large_powers_of_two_are_refused() -> None:
    """What the modulus could swallow is not in the range of a product."""
    a, b = whole((4, 8), 1), whole((8, 4), 2)
    c = product(a, b).astype(np.float64)
    c[1, 2] += 2.0**63
    assert not exact_product(np, a, b, c, 0)
