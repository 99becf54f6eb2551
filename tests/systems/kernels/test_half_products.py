"""Half-precision products on the emulator: every layout, odd sizes, offsets, NaN and infinities, memory around c."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from systems.kernels.arrays import Described
from systems.kernels.chips import Chip
from systems.kernels.errors import KernelError
from systems.kernels.half_matmul import product
from systems.kernels.half_recipes import Choice, Problem, takes
from systems.kernels.model import choose, seconds
from systems.search.half_product import CHOICES, named
from tests.systems.kernels import emulated
from tests.systems.kernels.half import FEW, LAYOUTS, Chooser, check, matrix


def forced(form: str, copies: bool = False, parts: int = 1) -> Chooser:
    """A chooser that always takes one form."""
    return lambda problem, chip: Choice(named(form), copies, parts)


@pytest.mark.processes
@pytest.mark.parametrize(("a_turned", "b_turned"), LAYOUTS)
@pytest.mark.parametrize(
    ("form", "shape"),
    [
        ("warpgroups_128_64_64_4_1_1", (136, 200, 328)),
        ("warpgroups_64_128_64_4_1_1_turned", (136, 200, 328)),
        ("warpgroups_128_64_64_4_1_2_stays", (260, 140, 200)),
        ("warpgroups_64_64_64_4_3_1", (72, 140, 1000)),
        ("warps_32_64_64_3_1_1", (136, 200, 328)),
        ("warps_16_32_32_4_2_1_4", (40, 130, 300)),
    ],
)
def test_any_layout(form: str, shape: tuple[int, int, int], a_turned: bool, b_turned: bool) -> None:
    """Lines from multiples of 16 bytes on, whatever runs along them: no copies."""
    m, n, k = shape
    a, b = (
        matrix(m, k, a_turned, 8, -(m if a_turned else k) % 8),
        matrix(k, n, b_turned, 16, -(k if b_turned else n) % 8),
    )
    assert check(a, b, matrix(m, n, more=-n % 8), FEW, forced(form)) == ["product"]


@pytest.mark.processes
@pytest.mark.parametrize(("a_turned", "b_turned"), LAYOUTS)
def test_lines_that_begin_anywhere(a_turned: bool, b_turned: bool) -> None:
    """Odd sizes, offsets and pitches: by registers, and by copies; into an out like that, or a transpose."""
    m, n, k = 70, 77, 149
    a, b = matrix(m, k, a_turned, 3, 1), matrix(k, n, b_turned, 5, 2)
    assert check(a, b, matrix(m, n, offset=1, more=2), FEW, forced("warps_32_32_32_3_1_1_4")) == ["product"]
    chooser = forced("warpgroups_64_128_64_4_2_1_turned", copies=True)
    launches = check(a, b, matrix(m, n, True, offset=1, more=3), FEW, chooser)
    assert launches == ["align_lines", "product"]


@pytest.mark.processes
def test_strides_without_lines_are_copied_first() -> None:
    a, b, c = matrix(20, 66, seed=1)[:, ::2], matrix(33, 36, seed=2)[::-1, ::3], matrix(20, 24)[:, ::2]
    assert check(a, b, c, Chip()) == ["copy", "copy", "product", "copy"]


@pytest.mark.processes
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 300, 65), (17, 1, 9), (3, 5, 0), (65, 130, 520), (9, 1000, 24)])
def test_what_is_chosen_is_right(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    check(matrix(m, k), matrix(k, n, seed=1), matrix(m, n), Chip())


@pytest.mark.processes
def test_consumers_that_finish_in_turn() -> None:
    """One tile a block, and 18 steps of k: the second consumer waits for the first one."""
    chooser = forced("warpgroups_128_256_64_4_1_1_stays")
    check(matrix(140, 1096), matrix(1096, 264, seed=1), matrix(140, 264), Chip(), chooser)


@pytest.mark.processes
@pytest.mark.parametrize("form", ["warpgroups_128_64_64_4_1_1", "warpgroups_64_128_64_4_1_2"])
def test_parts_of_k_are_added(form: str) -> None:
    """Into a c with rows, with columns, with neither; of factors that are copied first."""
    for c in (matrix(140, 136), matrix(140, 139, turned=True, offset=1), matrix(140, 280)[:, ::2]):
        a, b = matrix(140, 330), matrix(330, c.shape[1], seed=1)
        launches = check(a, b, c, FEW, forced(form, True, 3))
        assert launches[-2:] == ["product", "add_parts"]


@pytest.mark.processes
def test_bfloat16() -> None:
    """Whole numbers that bfloat16 has exactly, in both kernels."""
    for form in ("warps_32_32_64_3_1_1", "warpgroups_64_64_64_4_1_1"):
        values = [
            np.random.default_rng(i).integers(-4, 5, size).astype(np.float32)
            for i, size in enumerate([(24, 40), (40, 16)])
        ]
        a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in values)
        c = np.zeros((24, 16), np.uint16)
        of_a, of_b, of_c = (emulated.described(x, "bfloat16") for x in (a, b, c))
        recipe = product(of_a, of_b, of_c, FEW, forced(form))
        assert recipe is not None
        emulated.run(recipe, {"a": a, "b": b, "c": c}, ("c",))
        true = (values[0] @ values[1]).view(np.uint32)
        rounded = (true + 0x7FFF + (true >> 16 & 1)) >> 16
        np.testing.assert_array_equal(c, rounded.astype(np.uint16))


@pytest.mark.processes
@pytest.mark.parametrize(("n", "k"), [(40, 72), (37, 71)])
def test_nan_and_infinities_stay_in_their_rows_and_columns(n: int, k: int) -> None:
    a, b = matrix(24, k), matrix(k, n, seed=1)
    a[3, 5], a[7, k - 1], b[2, n - 1] = np.nan, np.inf, -np.inf
    b[k - 1, 0], c = 0, matrix(24, n)
    recipe = product(emulated.described(a), emulated.described(b), emulated.described(c), Chip())
    assert recipe is not None
    emulated.run(recipe, {"a": a, "b": b, "c": c}, ("c",))
    with np.errstate(invalid="ignore"):
        true = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(c, true)


def test_nothing_to_do_for_a_result_without_elements() -> None:
    assert product(emulated.described(matrix(0, 5)), emulated.described(matrix(5, 3)), None, Chip()) is None


F16 = Described((4, 8), (8, 1), "float16", 0, True)
B16 = Described((8, 4), (4, 1), "float16", 0, True)


@pytest.mark.parametrize(
    ("a", "b", "out", "words"),
    [
        (Described((8,), (1,), "float16", 0, True), F16, None, "a has 1 dimensions"),
        (Described((4, 8), (8, 1), "float32", 0, True), F16, None, "a is float32: give float16 or bfloat16"),
        (F16, Described((8, 4), (4, 1), "bfloat16", 0, True), None, "a is float16 and b is bfloat16"),
        (F16, F16, None, "a has 8 columns and b 4 rows"),
        (F16, Described((8, 4), (4, 1), "float16", 1, True), None, "a is on GPU 0 and b on GPU 1"),
        (F16, B16, F16, "out is 4 x 8, but the product is 4 x 4"),
        (F16, B16, Described((4, 4), (1, 1), "float16", 0, True), "share memory"),
        (Described((1 << 31, 8), (8, 1), "float16", 0, True), B16, None, "are the most"),
    ],
)
def test_errors_say_what_and_where(a: Described, b: Described, out: Described | None, words: str) -> None:
    with pytest.raises(KernelError, match=words) as raised:
        product(a, b, out, Chip())
    assert str(raised.value).startswith("matmul: ") and str(raised.value).endswith(".")


def test_some_form_takes_every_problem() -> None:
    for size, flags in itertools.product((1, 9, 5_000_000), itertools.product((False, True), repeat=5)):
        for shape in ((size, 1, 3), (1, size, 3), (3, 1, size)):
            problem = Problem(*shape, *flags)
            choice = choose(problem, Chip())
            assert takes(choice.form, problem.tight if choice.copies else problem)


def test_the_model_chooses_well_among_recorded_times() -> None:
    """On an H200, for drawn shapes with all forms timed: on average at most 7% more than the best form."""
    records = json.loads((CHECKOUT / "benchmarks" / "results" / "search.json").read_text())["records"]
    times = {tuple(r["shape"]): r["tried"] for r in records if r["metric"] == "search"}
    worse = []
    for shape, tried in times.items():
        problem, forms = Problem(*shape), [form for form in CHOICES if form.name in tried]
        taken = min((form for form in forms if takes(form, problem)), key=lambda form: seconds(form, problem, Chip()))
        worse.append(tried[taken.name] / min(tried.values()))
    assert len(worse) > 60 and np.exp(np.mean(np.log(worse))) < 1.07


@pytest.mark.processes
@pytest.mark.parametrize("n", [77, 78])
@pytest.mark.parametrize(
    "form", ["warpgroups_64_64_64_4_1_1", "warpgroups_128_64_64_4_1_1_stays", "warpgroups_40_64_64_4_1_1_turned_stays"]
)
def test_rows_of_c_that_begin_anywhere(form: str, n: int) -> None:
    """Odd and even pitches, whole tiles and edges, several tiles a block."""
    a, b = matrix(203, 72), matrix(72, n, seed=1, more=-n % 8)
    for offset in (0, 1):
        assert check(a, b, matrix(203, n, offset=offset), FEW, forced(form)) == ["product"]
