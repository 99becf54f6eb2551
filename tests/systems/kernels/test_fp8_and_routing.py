"""FP8 products and the shuffle on the emulator, against float64 and a stable sort of NumPy's."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from systems.kernels import fp8, grouped, routing
from systems.kernels.arrays import Described
from systems.kernels.chips import Chip
from systems.kernels.errors import KernelError
from systems.kernels.recipes import Recipe
from tests.systems.kernels import emulated


def value_of(codes: np.ndarray) -> np.ndarray:
    """e4m3 in float64, by its definition (OCP 8-bit floating point): bias 7, no infinities, NaN is all ones."""
    sign, field, fraction = 1.0 - 2.0 * (codes >> 7), (codes >> 3) & 15, codes & 7
    value = np.where(field == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (field.astype(np.float64) - 7))
    return np.where((codes & 127) == 127, np.nan, sign * value)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Codes of numbers of at most 1.75 in magnitude."""
    random = np.random.default_rng(seed)
    return (random.integers(0, 64, shape) + 128 * random.integers(0, 2, shape)).astype(np.uint8)


def scales(*shape: int, seed: int = 0) -> np.ndarray:
    return (2.0 ** np.random.default_rng(seed).integers(-3, 4, shape)).astype(np.float32)


def true_product(x: np.ndarray, w: np.ndarray, x_scale: np.ndarray, w_scale: np.ndarray) -> np.ndarray:
    (_, k), n = x.shape, w.shape[0]
    by_rows = np.repeat(x_scale.T, 128, 1)[:, :k]
    by_tiles = np.repeat(np.repeat(w_scale, 128, 0)[:n], 128, 1)[:, :k]
    return (value_of(x) * by_rows) @ (value_of(w) * by_tiles).T


def arrays_of(m: int, n: int, k: int) -> dict[str, np.ndarray]:
    blocks = -(-k // 128)
    given = {"x": drawn(m, k), "w": drawn(n, k, seed=1), "x_scale": scales(blocks, m)}
    return given | {"w_scale": scales(-(-n // 128), blocks, seed=2), "out": np.full((m, n), 7, np.float16)}


def described(arrays: dict[str, np.ndarray]) -> dict[str, Described]:
    return {name: emulated.described(array) for name, array in arrays.items()}


@pytest.mark.processes
@pytest.mark.parametrize("shape", [(70, 200, 272), (128, 136, 1040), (3, 24, 16)])
def test_what_is_chosen_in_fp8_is_right(shape: tuple[int, int, int]) -> None:
    arrays = arrays_of(*shape)
    made = fp8.recipe(**described(arrays))
    assert made is not None
    emulated.run(made, arrays, ("out",))
    true = true_product(arrays["x"], arrays["w"], arrays["x_scale"], arrays["w_scale"])
    np.testing.assert_allclose(arrays["out"], true, rtol=2e-3, atol=2e-3 * np.abs(true).max())


@pytest.mark.processes
def test_rows_of_codes_at_a_pitch() -> None:
    arrays = arrays_of(40, 72, 144)
    for name in "xw":
        wide = np.zeros((len(arrays[name]) + 1, 208), np.uint8)
        wide[1:, 32:176] = arrays[name]
        arrays[name] = wide[1:, 32:176]
    made = fp8.recipe(**described(arrays))
    assert made is not None
    emulated.run(made, arrays, ("out",))
    true = true_product(arrays["x"], arrays["w"], arrays["x_scale"], arrays["w_scale"])
    np.testing.assert_allclose(arrays["out"], true, rtol=2e-3, atol=2e-3 * np.abs(true).max())


@pytest.mark.processes
@pytest.mark.parametrize("most", [40, 600])
def test_groups_have_their_own_weights_and_leave_other_rows(most: int) -> None:
    counts, firsts, slots, n, k = [33, 0, 5], [40, 3, 0], 100, 136, 144
    arrays = {"x": drawn(slots, k), "w": drawn(3, n, k, seed=1), "x_scale": scales(2, slots)}
    arrays |= {"w_scale": scales(3, 2, 2, seed=2), "first": np.array(firsts, np.int32)}
    arrays |= {"count": np.array(counts, np.int32), "out": np.full((slots, n), 7, np.float16)}
    made = grouped.recipe(most, **described(arrays))
    assert made is not None
    emulated.run(made, arrays, ("out",))
    untouched = np.ones(slots, bool)
    for e, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        rows = slice(first, first + count)
        untouched[rows] = False
        true = true_product(arrays["x"][rows], arrays["w"][e], arrays["x_scale"][:, rows], arrays["w_scale"][e])
        if count:
            np.testing.assert_allclose(arrays["out"][rows], true, rtol=2e-3, atol=2e-3 * np.abs(true).max())
    assert (arrays["out"][untouched] == 7).all()


@pytest.mark.processes
@pytest.mark.parametrize(("tokens", "experts", "k"), [(0, 16, 2), (1, 8, 8), (37, 128, 4), (65, 100, 1), (20, 512, 2)])
def test_the_shuffle_is_a_stable_sort(tokens: int, experts: int, k: int) -> None:
    scores = np.random.default_rng(5).integers(0, 9, (tokens, experts)).astype(np.float32)
    if tokens:
        scores[0, :3] = np.nan, -np.inf, np.inf
    shapes = {"chosen": (tokens, k), "count": experts, "first": experts, "order": tokens * k, "position": (tokens, k)}
    arrays = {"scores": scores} | {name: np.full(shape, -1, np.int32) for name, shape in shapes.items()}
    made = routing.recipe(k, **described(arrays))
    emulated.run(made, arrays, tuple(shapes))
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, :k]
    order = np.argsort(chosen.ravel(), kind="stable")
    count = np.bincount(chosen.ravel(), minlength=experts)
    np.testing.assert_array_equal(arrays["chosen"], chosen)
    np.testing.assert_array_equal(arrays["count"], count)
    np.testing.assert_array_equal(arrays["first"], np.cumsum(count) - count)
    np.testing.assert_array_equal(arrays["order"], order)
    np.testing.assert_array_equal(arrays["position"].ravel()[order], np.arange(tokens * k))


@pytest.mark.parametrize(
    ("file", "solution"),
    [
        ("fp8.cu", "09_fp8_gemm/rung_5_any_shape.py"),
        ("grouped.cu", "11_grouped_gemm/rung_4_shared_strips.py"),
        ("shuffle.cu", "10_index_shuffle/submission_cuda.py"),
    ],
)
def test_kernels_are_those_of_the_labs(file: str, solution: str) -> None:
    """A solution has to stand alone, so there are two copies, which have to stay equal."""
    text = (CHECKOUT / "solutions" / solution).read_text()
    text = re.sub(r"^// (STARTER:|BEGIN SOLUTION|END SOLUTION).*\n", "", text, flags=re.MULTILINE)
    assert (CHECKOUT / "systems" / "kernels" / file).read_text() in text


@pytest.mark.parametrize("sms", [16, 78, 114, 132])
def test_no_more_blocks_are_launched_than_there_are_sms(sms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid whose blocks wait for each other is refused if it has more, as on an H20 or a PCIe card."""
    clusters = tuple(max(count * sms // 132, 1) for count in Chip().clusters)
    for module in (fp8, grouped, routing):
        monkeypatch.setattr(module, "chip_of", lambda device: Chip(sms=sms, clusters=clusters))
    for tokens, experts, k in itertools.product((1, 300, 3000, 100_000), (8, 128, 512), (1, 8)):
        blocks, warps = routing.blocks_and_warps(tokens, experts, k, sms)
        assert 0 < blocks <= sms and 32 * warps >= min(experts, 1024)
    scores = Described((100_000, 128), (128, 1), "float32", 0, True)
    rows = {
        name: Described((1, 1), (1, 1), "int32", 0, True) for name in ("chosen", "count", "first", "order", "position")
    }
    assert routing.recipe(8, scores=scores, **rows).launches[0].grid[0] == sms
    arrays = described({name: np.broadcast_to(array, array.shape) for name, array in arrays_of(16, 24, 160).items()})
    shapes = {"x": (9000, 1024), "w": (9216, 1024), "x_scale": (8, 9000), "w_scale": (72, 8), "out": (9000, 9216)}
    large = {name: Described(shape, (shape[1], 1), arrays[name].dtype, 0, True) for name, shape in shapes.items()}
    made = fp8.recipe(**large)
    assert made is not None and made.launches[0].grid[0] <= sms
    w = Described((2, 9216, 1024), (9216 * 1024, 1024, 1), "uint8", 0, True)
    made = grouped.by(grouped.choose(9000), 9000, large["x"], w, large["x_scale"])
    assert made.launches[0].grid[0] == sms


def refused(words: str, make: object, *numbers: int, **arrays: Described) -> None:
    with pytest.raises(KernelError, match=words) as raised:
        make(*numbers, **arrays)  # type: ignore[operator]
    assert str(raised.value).endswith(".")


def changed(arrays: dict[str, Described], name: str, **values: object) -> dict[str, Described]:
    fields = {**arrays[name].__dict__, **values}
    return {**arrays, name: Described(**fields)}


def test_errors_of_fp8_say_what_and_where() -> None:
    arrays = described(arrays_of(16, 24, 160))
    refused("x is float16: give float8_e4m3fn or uint8", fp8.recipe, **changed(arrays, "x", dtype="float16"))
    refused("its rows have to be contiguous", fp8.recipe, **changed(arrays, "x", strides=(161, 1)))
    refused("its rows have to be contiguous", fp8.recipe, **changed(arrays, "w", aligned=False))
    refused("x_scale has the shape .*, but it should be", fp8.recipe, **changed(arrays, "x_scale", shape=(16, 2)))
    refused("give it in C order", fp8.recipe, **changed(arrays, "w_scale", strides=(4, 2)))
    refused("out is float32", fp8.recipe, **changed(arrays, "out", dtype="float32"))
    refused("a multiple of 16 and its rows of 8", fp8.recipe, **described(arrays_of(16, 20, 160)))
    refused("scores are of 4 experts", routing.recipe, 8, scores=Described((3, 4), (4, 1), "float32", 0, True))


def test_without_rows_nothing_is_launched() -> None:
    made: Recipe | None = fp8.recipe(**described(arrays_of(0, 24, 160)))
    assert made is None
