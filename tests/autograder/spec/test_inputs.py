from __future__ import annotations

import hashlib

import numpy as np
import pytest

import warplab
from autograder.spec import inputs
from autograder.spec.inputs import generate, scalars
from autograder.spec.lab import find_lab
from autograder.spec.seeds import secret_seed, seeded
from autograder.spec.task import ArraySpec, Case, Ceiling, Family, ScalarSpec, Task
from warplab.plan.model import Role

COUNT = 200_000


def task(dtype: str = "float32", scalar: str = "float32") -> Task:
    case = Case("timing", {"n": COUNT}, Family.NORMAL)
    return Task(
        function="f",
        arguments=(
            ScalarSpec("alpha", scalar),
            ScalarSpec("n", "int64"),
            ArraySpec("x", dtype, ("n",), Role.INPUT),
            ArraySpec("y", dtype, ("n",), Role.INOUT),
            ArraySpec("out", dtype, ("n",), Role.OUTPUT),
        ),
        correctness=(),
        profile=case,
        timing=case,
        expected=lambda xp, values: {},
        bound=lambda xp, values: {},
        flops=lambda d: 0.0,
        bytes_moved=lambda d: 0.0,
        compute_ceiling=Ceiling.COPY,
    )


def draw(family: Family, dtype: str = "float32", seed: int = 1, name: str = "case", iteration: int = 0):
    return generate(np, task(dtype), Case(name, {"n": COUNT}, family), seed, iteration)


def test_hash_equals_splitmix64_written_independently() -> None:
    word = (1 << 64) - 1
    key = int.from_bytes(hashlib.sha256(b"5/f/case/x/0").digest()[:8], "little")
    first = []
    for index in range(1, 9):
        z = (key + index * 0x9E3779B97F4A7C15) & word
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        z ^= z >> 31
        first.append((((z >> 40) * 9) >> 24) - 4)
    assert draw(Family.INTEGERS, seed=5)["x"][:8].tolist() == first


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32"])
def test_integers_are_whole_uniform_and_small(dtype: str) -> None:
    x = draw(Family.INTEGERS, dtype)["x"]
    assert x.dtype == dtype
    values, counts = np.unique(x.astype(np.float64), return_counts=True)
    assert values.tolist() == list(range(-4, 5))
    assert np.all(np.abs(counts - COUNT / 9) < 5 * np.sqrt(COUNT / 9))


def test_normal_has_the_moments_of_a_normal_distribution() -> None:
    x = draw(Family.NORMAL)["x"].astype(np.float64)
    error = 5 / np.sqrt(COUNT)
    assert abs(x.mean()) < error
    assert abs(x.var() - 1) < 2 * error
    assert abs((x**3).mean()) < 5 * error
    assert abs((x**4).mean() - 3) < 0.25  # Irwin-Hall of 8 has an excess kurtosis of -0.15
    assert np.abs(x).max() < 4.9
    assert len(np.unique(x)) > 0.4 * COUNT


def test_normal_in_half_precision_is_the_float32_value_rounded_once() -> None:
    half, single = draw(Family.NORMAL, "float16")["x"], draw(Family.NORMAL)["x"]
    assert np.array_equal(half, single.astype(np.float16))


def test_wide_covers_its_magnitudes_and_both_signs() -> None:
    x = draw(Family.WIDE)["x"].astype(np.float64)
    exponents, counts = np.unique(np.floor(np.log2(np.abs(x))), return_counts=True)
    assert exponents.tolist() == list(range(-8, 8))
    assert np.all(np.abs(counts - COUNT / 16) < 5 * np.sqrt(COUNT / 16))
    assert abs((x > 0).mean() - 0.5) < 0.01


@pytest.mark.parametrize("family", list(Family))
def test_arrays_seeds_cases_and_iterations_are_independent(family: Family) -> None:
    base = draw(family)
    others = [
        base["y"],
        draw(family, seed=2)["x"],
        draw(family, name="other")["x"],
        draw(family, iteration=1)["x"],
        np.roll(base["x"], 1),
    ]
    x = base["x"].astype(np.float64)
    for other in others:
        assert abs(np.corrcoef(x, other.astype(np.float64))[0, 1]) < 6 / np.sqrt(COUNT)
    assert np.array_equal(base["x"], draw(family)["x"])


def test_outputs_are_not_drawn_and_dimensions_are_scalars() -> None:
    values = draw(Family.NORMAL)
    assert set(values) == {"alpha", "n", "x", "y"}
    assert values["n"] == COUNT


def test_a_shape_may_be_a_product_of_dimensions() -> None:
    task = find_lab("10_index_shuffle").task
    shapes = {spec.name: task.shape(spec, {"tokens": 5, "k": 3, "experts": 7}) for spec in task.arrays()}
    assert shapes["scores"] == (5, 7) and shapes["order"] == (15,) and shapes["position"] == (5, 3)


def test_scalars_stay_while_iterations_change_the_arrays() -> None:
    assert draw(Family.NORMAL)["alpha"] == draw(Family.NORMAL, iteration=3)["alpha"]


@pytest.mark.parametrize("seed", range(20))
def test_a_scalar_factor_is_never_one_that_hides_a_mistake(seed: int) -> None:
    case = Case("case", {"n": 4}, Family.INTEGERS)
    alpha = scalars(task(), case, seed)["alpha"]
    assert isinstance(alpha, float)
    assert 2 <= abs(alpha) <= 4
    assert isinstance(scalars(task(scalar="int32"), case, seed)["alpha"], int)
    normal = scalars(task(), Case("case", {"n": 4}, Family.NORMAL), seed)["alpha"]
    assert np.float32(normal) == normal  # the host function and the expected values see the same number


def test_secret_seeds_differ() -> None:
    assert len({secret_seed() for _ in range(100)}) == 100


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_pieces_are_drawn_as_the_whole(family: Family, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draw(family, dtype)["x"]
    monkeypatch.setattr(inputs, "_PIECE", 1000)  # COUNT is no multiple
    assert draw(family, dtype)["x"].tobytes() == whole.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint32"])
def test_the_gpu_draws_the_same_bits(family: Family, dtype: str) -> None:
    import cupy

    case = Case("case", {"n": COUNT}, family)
    on_gpu = generate(cupy, task(dtype), case, 7, 2)["x"].get()
    assert on_gpu.tobytes() == generate(np, task(dtype), case, 7, 2)["x"].tobytes()


@pytest.mark.processes
def test_what_the_gpu_would_draw_is_the_same_on_the_emulator() -> None:
    chosen = [*((family, "float16") for family in Family), (Family.NORMAL, "int32"), (Family.INTEGERS, "uint8")]

    def drawn(arrays: list[np.ndarray], keys: list[int]) -> list[np.ndarray]:
        import cupy

        from autograder.spec import drawn_on_gpu

        filled = []
        for (family, _), array, key in zip(chosen, arrays, keys, strict=True):
            filled.append(cupy.asarray(array))
            drawn_on_gpu.fill(filled[-1], family, key)
        return [cupy.asnumpy(array) for array in filled]

    keys = [seeded(7, "f", family.value, "x", 0) for family, _ in chosen]
    here = warplab.run(drawn, [np.zeros(3000, dtype) for _, dtype in chosen], keys).returned
    for (family, dtype), key, array in zip(chosen, keys, here, strict=True):
        wanted = generate(np, task(dtype), Case(family.value, {"n": 3000}, family), 7)["x"]
        assert array.tobytes() == wanted.tobytes(), (family, dtype, key)
