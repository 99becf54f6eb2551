"""`few.cu` and `thin.cu` on the emulator: every layout and alignment, special values, rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from systems.kernels.chips import Chip
from systems.kernels.half_matmul import product
from systems.kernels.half_recipes import Choice, Problem
from systems.kernels.lean import Few, Thin
from systems.kernels.model import choose
from tests.systems.kernels import emulated
from tests.systems.kernels.half import FEW, LAYOUTS, Chooser, check, matrix


def forced(form: Few | Thin) -> Chooser:
    """A chooser that always takes one form."""
    return lambda problem, chip: Choice(form)


@pytest.mark.processes
@pytest.mark.parametrize(("a_turned", "b_turned"), LAYOUTS)
@pytest.mark.parametrize(
    ("form", "shape"),
    [
        (Few(1, 1), (37, 5, 70)),
        (Few(4, 1), (11, 150, 600)),
        (Few(2, 4), (90, 27, 500)),
        (Thin(), (70, 131, 41)),
    ],
)
def test_any_layout_and_alignment(
    form: Few | Thin, shape: tuple[int, int, int], a_turned: bool, b_turned: bool
) -> None:
    """Lines at multiples of 16 bytes and at any address; c aligned, at any address, and transposed."""
    m, n, k = shape
    a_across, b_across = m if a_turned else k, k if b_turned else n
    tight = matrix(m, k, a_turned, 8, -a_across % 8), matrix(k, n, b_turned, 16, -b_across % 8, seed=1)
    loose = matrix(m, k, a_turned, 3, 1), matrix(k, n, b_turned, 5, 2, seed=1)
    for (a, b), c in ((tight, matrix(m, n, more=-n % 8)), (loose, matrix(m, n, offset=1, more=2))):
        assert check(a, b, c, FEW, forced(form)) == ["product"]
    assert check(*tight, matrix(m, n, True, offset=1, more=3), FEW, forced(form)) == ["product"]


@pytest.mark.processes
@pytest.mark.parametrize("form", [Few(2, 2), Thin()])
def test_c_of_any_strides_is_written_in_place(form: Few | Thin) -> None:
    """And a factor without contiguous rows or columns is copied first."""
    a, b = matrix(20, 66, seed=1), matrix(66, 36, seed=2)
    assert check(a, b, matrix(20, 72)[:, ::2], FEW, forced(form)) == ["product"]
    *copies, last = check(matrix(20, 132, seed=3)[:, ::2], b, matrix(20, 36), FEW, forced(form))
    assert len(copies) == 1 and last == "product"


@pytest.mark.processes
@pytest.mark.parametrize("form", [Few(2, 1), Few(1, 2), Thin()])
@pytest.mark.parametrize("turned", [False, True])
def test_special_values_stay_in_their_rows_and_columns(form: Few | Thin, turned: bool) -> None:
    """Memory behind lines and beside them is NaN and must not reach c."""
    m, n, k = 21, 9, 67
    arrays = []
    for rows, columns in ((m, k), (k, n)):
        rows, columns = (columns, rows) if turned else (rows, columns)
        whole = np.full((rows + 2, columns + 9), np.nan, np.float16)
        whole[1:-1, 4:-5] = np.random.default_rng(rows).integers(-4, 5, (rows, columns))
        view = whole[1:-1, 4:-5]
        arrays.append(view.T if turned else view)
    a, b = arrays
    a[3, 5], a[7, k - 1], b[2, n - 1], b[k - 1, 0] = np.nan, np.inf, -np.inf, 0
    c = matrix(m, n)
    recipe = product(emulated.described(a), emulated.described(b), emulated.described(c), FEW, forced(form))
    assert recipe is not None
    emulated.run(recipe, {"a": a, "b": b, "c": c}, ("c",))
    with np.errstate(invalid="ignore"):
        true = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(c, true)


@pytest.mark.processes
@pytest.mark.parametrize("form", [Few(2, 1), Thin()])
def test_sums_are_rounded_once(form: Few | Thin) -> None:
    """Sums that float16 does not have exactly, with cancellation, overflow and subnormal results."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((19, 90)).astype(np.float16), rng.standard_normal((90, 6)).astype(np.float16)
    a[0], b[:, 0], a[1], b[:, 1] = 300, 300, 2.0**-12, 2.0**-14
    c = np.zeros((19, 6), np.float16)
    recipe = product(emulated.described(a), emulated.described(b), emulated.described(c), FEW, forced(form))
    assert recipe is not None
    emulated.run(recipe, {"a": a, "b": b, "c": c}, ("c",))
    true = a.astype(np.float64) @ b.astype(np.float64)
    assert c[0, 0] == np.inf and c[1, 1] == np.float16(true[1, 1])
    finite = np.abs(true) < 65000
    bound = 2.0**-11 * np.abs(true) + 90 * 2.0**-24 * (np.abs(a.astype(float)) @ np.abs(b.astype(float))) + 2.0**-25
    assert (np.abs(c.astype(np.float64) - true) <= bound)[finite].all()


def test_extreme_shapes_have_lean_forms() -> None:
    """A few rows or columns take `Few` and a small k takes `Thin`; large products take neither."""
    for m, n in ((8248, 8), (8, 8248)):
        for loose in (False, True):
            problem = Problem(m, n, 4000, b_down=m < n, b_loose=loose, a_loose=loose)
            assert isinstance(choose(problem, Chip()).form, Few)
    assert isinstance(choose(Problem(7001, 5001, 5, a_loose=True, b_loose=True, c_loose=True), Chip()).form, Thin)
    for size, flags in itertools.product((512, 4096), itertools.product((False, True), repeat=2)):
        assert not isinstance(choose(Problem(size, size, size, *flags), Chip()).form, Few | Thin)
