"""The specifications are sound: they pass every right answer, fail wrong ones, and every input matters."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warplab
from autograder.handout import handout
from autograder.spec.inputs import generate
from autograder.spec.lab import Lab, find_lab, kernel_labs
from autograder.spec.task import Case, Family, ScalarSpec, Task, Values
from autograder.worker.compare import worst_ratio
from corpus.judge.truth import truth_of
from tests.sampling import seeds
from warplab.plan.execution import TOTALS, Counters
from warplab.plan.model import Role

LABS = [find_lab(name) for name in kernel_labs()]
BY_NAME = {lab.name: lab for lab in LABS}
AXPY, DIVERGENCE, TRANSPOSE, REDUCTION, SOFTMAX, GEMM = (
    BY_NAME[name].task
    for name in ("01_axpy", "02_divergence", "03_transpose", "04_reduction", "05_softmax", "06_tiled_gemm")
)
HOPPER = BY_NAME["08_hopper_hgemm"].task
SEEDS = range(20)


def other_module() -> ModuleType:
    """NumPy under another identity, as CuPy is to a task: code that asks for `xp is numpy` takes its other way."""
    return SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("_")})  # type: ignore


def case_of(task: Task, family: Family) -> Case:
    """The largest of the task's correctness cases that the emulator runs, with inputs of that family."""
    cases = [case for case in task.correctness if not case.needs_gpu]
    return replace(max(cases, key=lambda case: task.bytes_moved(case.dimensions)), family=family)


def worst(task: Task, values: Values, outputs: dict[str, Any], exact: bool = False) -> float:
    """Largest error over allowed error of the outputs."""
    expected = task.expected(np, values)
    bound = {name: np.zeros(1) for name in expected} if exact else task.bound(np, values)
    return max(worst_ratio(np, outputs[name], expected[name], bound[name]) for name in expected)


def timed(values: Values, outputs: dict[str, Any], task: Task, seed: int = 7) -> float:
    """What the check of a timed output says."""
    assert task.verify is not None
    return task.verify(np, values, outputs, seed)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
class TestEveryLab:
    def test_points_add_up_to_100(self, lab: Lab) -> None:
        points = lab.points
        assert points.correctness + points.safety + points.traffic + points.efficiency == 100
        assert sum(case.points for case in lab.task.correctness) < points.correctness

    def test_without_a_gpu_answers_alone_earn_at_most_two_thirds(self, lab: Lab) -> None:
        earned = lab.points.correctness + lab.points.safety
        assert earned <= 2 / 3 * (earned + lab.points.traffic)

    def test_handout_states_the_grading_as_it_is(self, lab: Lab) -> None:
        found = handout(lab)
        assert found.up_to_date
        assert f"def {lab.task.function}({', '.join(a.name for a in lab.task.arguments)})" in found.text

    def test_feedback_points_to_sections_that_exist(self, lab: Lab) -> None:
        handout = (lab.folder / "README.md").read_text(encoding="utf-8")
        assert set(lab.feedback) == {"correctness", "safety", "traffic", "efficiency"}
        for words in lab.feedback.values():
            section = words.split("section ")[1].strip("'")
            assert f"\n## {section}\n" in handout, section

    def test_outputs_depend_on_every_input(self, lab: Lab) -> None:
        task = lab.task
        case = case_of(task, Family.NORMAL)
        values = generate(np, task, case, 1)
        before = task.expected(np, values)
        fresh = generate(np, task, case, 2)
        names = [spec.name for spec in task.arrays(Role.INPUT, Role.INOUT)]
        names += [a.name for a in task.arguments if isinstance(a, ScalarSpec) and a.name not in case.dimensions]
        for name in names:
            after = task.expected(np, {**values, name: fresh[name]})
            for output in before:
                changed = np.mean(before[output] != after[output])
                least = truth_of(lab.name).share(name, output)
                assert changed > least or changed == least == 0, f"{output} hardly depends on {name}"

    def test_a_constant_along_an_axis_is_wrong(self, lab: Lab) -> None:
        """The criteria of robust-kbench for tasks: outputs leave a small range, and vary along every axis."""
        task = lab.task
        values = generate(np, task, case_of(task, Family.NORMAL), 1)
        expected, bound = task.expected(np, values), task.bound(np, values)
        for name, output in expected.items():
            for axis in range(output.ndim):
                if output.shape[axis] > 1:
                    with np.errstate(invalid="ignore"):  # infinities less infinities
                        apart = abs(output - output.mean(axis=axis, keepdims=True))
                    assert np.mean(apart > bound[name]) > 0.4, f"a constant along axis {axis} of {name} is often right"

    def test_expected_has_the_shape_of_the_outputs(self, lab: Lab) -> None:
        task = lab.task
        for case in task.correctness:
            if case.needs_gpu:
                continue
            values = generate(np, task, case, 3)
            expected, bound = task.expected(np, values), task.bound(np, values)
            assert set(expected) == set(bound) == {spec.name for spec in task.arrays(Role.OUTPUT, Role.INOUT)}
            for spec in task.arrays(Role.OUTPUT, Role.INOUT):
                assert expected[spec.name].shape == task.shape(spec, case.dimensions)
                # infinite only where the output's own type is
                with np.errstate(over="ignore"):
                    held = expected[spec.name].astype(spec.dtype)
                assert np.array_equal(np.isfinite(expected[spec.name]), np.isfinite(held))
                assert np.mean(np.isfinite(held)) > 0.9
                assert np.all(bound[spec.name] >= 0)
                np.broadcast_to(bound[spec.name], expected[spec.name].shape)

    def test_what_is_placed_moves_with_the_seed_and_the_iteration(self, lab: Lab) -> None:
        task = lab.task
        assert task.place is not None
        bare, differ = replace(task, place=None), set()
        family = Family.INTEGERS if task.audit else Family.NORMAL
        case = case_of(task, family)
        for seed, iteration in ((1, 0), (1, 1), (2, 0)):
            drawn, placed = (generate(np, one, case, seed, iteration) for one in (bare, task))
            again = generate(np, task, case, seed, iteration)
            places = []
            for spec in task.arrays(Role.INPUT, Role.INOUT):
                assert placed[spec.name].tobytes() == again[spec.name].tobytes()
                assert placed[spec.name].dtype == spec.dtype
                places.append(np.flatnonzero(drawn[spec.name] != placed[spec.name]).tobytes())
            assert any(places)
            finite = (np.isfinite(array.astype(np.float64)).all() for array in placed.values() if np.ndim(array))
            assert all(finite) == truth_of(lab.name).finite
            differ.add(tuple(places))
        assert len(differ) == 3

    @pytest.mark.gpu
    def test_the_gpu_places_the_same_bits(self, lab: Lab) -> None:
        import cupy

        for family in Family:
            case = case_of(lab.task, family)
            here, there = (generate(xp, lab.task, case, 5, 3) for xp in (np, cupy))
            for spec in lab.task.arrays(Role.INPUT, Role.INOUT):
                assert there[spec.name].get().tobytes() == here[spec.name].tobytes()

    def test_array_modules_agree(self, lab: Lab) -> None:
        task, xp = lab.task, other_module()
        values = generate(np, task, case_of(task, Family.INTEGERS), 4)
        here, there = task.expected(np, values), task.expected(xp, values)
        for name in here:
            np.testing.assert_array_equal(here[name], there[name])
            np.testing.assert_allclose(task.bound(np, values)[name], task.bound(xp, values)[name], rtol=1e-12)

    def test_budgets_name_counters_and_cases_suit_the_emulator(self, lab: Lab) -> None:
        task = lab.task
        for budget in task.budgets:
            assert all(hasattr(Counters(), part) for part in TOTALS.get(budget.counter, (budget.counter,)))
            assert budget.limit(task.profile.dimensions) >= 0
            assert budget.reason.endswith(".")
        for case in (*task.correctness, task.profile):
            assert case.needs_gpu or task.flops(case.dimensions) <= 5e7
        assert any(case.hidden for case in task.correctness)
        assert {case.family for case in task.correctness} == set(Family)

    def test_timing_inputs_exceed_every_level_two_cache(self, lab: Lab) -> None:
        if lab.task.timed:  # small shapes are what that lab is about: its cold L2 is the stopwatch's sweep alone
            return
        moved = lab.task.bytes_moved(lab.task.timing.dimensions)
        assert moved >= 1 << 27  # bytes; twice the 60 MB of an H200


class TestAxpy:
    @pytest.mark.parametrize("family", [Family.NORMAL, Family.WIDE])
    def test_rounding_twice_once_and_from_double_pass(self, family: Family) -> None:
        ratios = []
        for seed in SEEDS:
            values = generate(np, AXPY, case_of(AXPY, family), seed)
            alpha, x, y = np.float32(values["alpha"]), values["x"], values["y"]
            twice = alpha * x + y
            assert twice.dtype == np.float32
            once = (np.float64(alpha) * x.astype(np.float64) + y.astype(np.float64)).astype(np.float32)
            for out in (twice, once):
                ratios += [worst(AXPY, values, {"out": out}), timed(values, {"out": out}, AXPY)]
        assert max(ratios) <= 1
        assert max(ratios) > 0.5  # and the bound is not idle

    def test_half_precision_fails_for_every_seed(self) -> None:
        for seed in SEEDS:
            values = generate(np, AXPY, case_of(AXPY, Family.NORMAL), seed)
            half = np.float16(values["alpha"]) * values["x"].astype(np.float16) + values["y"].astype(np.float16)
            assert worst(AXPY, values, {"out": half.astype(np.float32)}) > 100

    def test_whole_numbers_are_exact(self) -> None:
        values = generate(np, AXPY, case_of(AXPY, Family.INTEGERS), 5)
        out = np.float32(values["alpha"]) * values["x"] + values["y"]
        assert worst(AXPY, values, {"out": out}, exact=True) == 0

    def test_timed_check_sees_one_wrong_element_anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chunk = 1000
        monkeypatch.setattr(sys.modules[AXPY.expected.__module__], "CHUNK", chunk)
        case = replace(AXPY.profile, dimensions={"n": 3 * chunk + 77})
        values = generate(np, AXPY, case, 6)
        right = np.float32(values["alpha"]) * values["x"] + values["y"]
        assert timed(values, {"out": right}, AXPY) <= 1
        for index, wrong in ((0, right[0] + 1e-3), (-1, right[-1] + 1e-3), (chunk - 1, np.nan)):
            out = right.copy()
            out[index] = wrong
            assert not timed(values, {"out": out}, AXPY) <= 1


class TestDivergence:
    @staticmethod
    def transmissions(values: Values) -> np.ndarray:
        """What each of the 64 stretches of every ray lets through, by Python's integers."""
        found = np.empty((64, values["opacity"].size))
        for i, opacity in enumerate(values["opacity"].tolist()):
            found[0, i] = 1 - abs(opacity) / 1024
            s = (int(opacity * 65536) + 2654435769 * i) % 2**32
            for stretch in range(1, 64):
                s = (1664525 * s + 1013904223) % 2**32
                found[stretch, i] = 1 - (32768 - s // 131072) / 2**24
        return found

    def marched(self, values: Values, dtype: type, fused: bool) -> np.ndarray:
        """Horner's rule with every operation rounded to `dtype`, or every multiply-add once."""
        transmissions = self.transmissions(values).astype(dtype)
        glow, long = values["glow"].astype(dtype), values["kind"] % 8 == 0
        y = np.zeros(long.shape, dtype)
        for k in range(4096):
            t = transmissions[k // 64]
            step = (y.astype(np.float64) * t + glow[k]).astype(dtype) if fused else y * t + glow[k]
            y = np.where(long | (k < 16), step, y)
        return y

    @pytest.mark.slow
    def test_no_table_of_one_number_a_ray_holds_the_light(self) -> None:
        """Nor one of the first opacity and the mean of all: rays that are close in both are far apart in light."""
        values = generate(np, DIVERGENCE, Case("many", {"n": 20_000}, Family.NORMAL), 1)
        long = np.flatnonzero(values["kind"] % 8 == 0)
        light, allowed = (f(np, values)["out"][long] for f in (DIVERGENCE.expected, DIVERGENCE.bound))
        transmissions = self.transmissions(values)[:, long]
        for number in (transmissions[0], transmissions.mean(axis=0), np.abs(values["opacity"][long])):
            order = np.argsort(number)
            apart = np.abs(np.diff(light[order])) / allowed[order][1:]
            assert np.median(apart) > 100

    @pytest.mark.parametrize("family", list(Family))
    def test_fused_and_twice_rounded_steps_pass_and_half_precision_does_not(self, family: Family) -> None:
        for seed in range(3):
            values = generate(np, DIVERGENCE, Case("small", {"n": 300}, family), seed)
            for fused in (False, True):
                out = self.marched(values, np.float32, fused)
                assert worst(DIVERGENCE, values, {"out": out}) <= 0.5
                assert timed(values, {"out": out}, DIVERGENCE, seed) <= 1
            half = self.marched(values, np.float16, True).astype(np.float32)
            assert worst(DIVERGENCE, values, {"out": half}) > 10

    def test_timed_check_sees_every_short_ray_and_some_long_ones(self) -> None:
        values = generate(np, DIVERGENCE, Case("small", {"n": 1200}, Family.NORMAL), 6)
        right = self.marched(values, np.float32, True)
        long = np.flatnonzero(values["kind"] % 8 == 0)
        short = np.flatnonzero(values["kind"] % 8)
        for index in (short[0], short[-1], long[5], long[5 + 64]):
            for wrong in (right[index] * 1.5, np.nan):
                out = right.copy()
                out[index] = wrong
                assert not timed(values, {"out": out}, DIVERGENCE, 5) <= 1

    def test_stretch_by_stretch_is_horners_rule(self) -> None:
        task = sys.modules[DIVERGENCE.expected.__module__]
        for family in Family:
            values = generate(np, DIVERGENCE, Case("small", {"n": 300}, family), 3)
            glow, rays = values["glow"].astype(np.float64), np.arange(300)
            light, squares = (task.crossed(np, values["opacity"], rays, glow, squared) for squared in (False, True))
            everywhere = {**values, "kind": np.zeros(300, np.uint8)}
            apart = light - self.marched(everywhere, np.float64, False)
            assert (np.abs(apart) <= 1e-12 * np.sqrt(squares)).all()
            left = np.cumprod(np.repeat(self.transmissions(everywhere), 64, axis=0)[:0:-1], axis=0)[::-1]
            terms = glow[:, None] * np.concatenate([left, np.ones((1, 300))])
            assert np.allclose(squares, np.square(terms).sum(axis=0), rtol=1e-12)

    @pytest.mark.processes
    def test_what_a_gpu_would_march_is_the_same_on_the_emulator(self) -> None:
        folder = str(find_lab("02_divergence").folder)

        def on_gpu(t: np.ndarray, before: np.ndarray, glow: np.ndarray) -> list[np.ndarray]:
            from pathlib import Path

            import cupy

            from autograder.spec.lab import load_lab

            march = sys.modules[load_lab(Path(folder)).task.expected.__module__].marched
            t, before, glow = (cupy.asarray(a) for a in (t, before, glow))
            return [cupy.asnumpy(march(cupy, t, glow, light)) for light in (None, before)]

        task, draw = sys.modules[DIVERGENCE.expected.__module__], np.random.default_rng(1)
        t, before, glow = 1 - draw.random(300) / 1024, draw.normal(size=300), draw.normal(size=64)
        for light, got in zip((None, before), warplab.run(on_gpu, t, before, glow).returned, strict=True):
            assert np.allclose(got, task.marched(np, t, glow, None if light is None else light.copy()), rtol=1e-12)

    def test_flops_are_those_of_the_rays_that_are_drawn(self) -> None:
        n = 200_000
        values = generate(np, DIVERGENCE, Case("many", {"n": n}, Family.NORMAL), 3)
        steps = np.where(values["kind"] % 8 == 0, 4096, 16).sum()
        assert 2 * steps == pytest.approx(DIVERGENCE.flops({"n": n}), rel=0.02)


class TestTranspose:
    def test_only_the_transpose_passes(self) -> None:
        values = generate(np, TRANSPOSE, case_of(TRANSPOSE, Family.NORMAL), 1)
        right = values["a"].T.copy()
        assert worst(TRANSPOSE, values, {"out": right}) == timed(values, {"out": right}, TRANSPOSE) == 0
        for wrong in (values["a"].reshape(right.shape), right[::-1].copy(), np.nextafter(right, np.float32(9))):
            assert worst(TRANSPOSE, values, {"out": wrong}) == timed(values, {"out": wrong}, TRANSPOSE) == math.inf


def sums_of_a_vector(x: np.ndarray) -> dict[str, np.float32]:
    """The sum of x in float32, in different orders."""

    def running(values: np.ndarray) -> np.float32:
        return np.cumsum(values, dtype=np.float32)[-1]  # one addition after the other

    strided = [running(x[lane::256]) for lane in range(min(256, x.size))]
    return {
        "forward": running(x),
        "backward": running(x[::-1]),
        "strided": running(np.array(strided)),
        "pairwise": np.add.reduce(x, dtype=np.float32),
        "by magnitude": running(x[np.argsort(np.abs(x))]),
    }


class TestReduction:
    @pytest.mark.parametrize("family", [Family.NORMAL, Family.WIDE])
    @pytest.mark.parametrize("n", [1, 2, 3, 31, 1061, 4097, 100_003])
    def test_every_order_of_float32_additions_passes(self, family: Family, n: int) -> None:
        for seed in SEEDS:
            values = generate(np, REDUCTION, Case("small", {"n": n}, family), seed)
            for name, total in sums_of_a_vector(values["x"]).items():
                assert worst(REDUCTION, values, {"out": np.array([total])}) <= 1, name

    def test_a_missing_warp_and_half_precision_fail(self) -> None:
        n, found = 1 << 16, 0
        for seed in SEEDS:
            values = generate(np, REDUCTION, Case("small", {"n": n}, Family.NORMAL), seed)
            x = values["x"]
            assert worst(REDUCTION, values, {"out": np.array([x[:-32].sum(dtype=np.float64)])}) > 10
            halves = np.cumsum(x.reshape(256, -1).astype(np.float16), axis=1, dtype=np.float16)[:, -1]
            found += worst(REDUCTION, values, {"out": np.array([halves.sum(dtype=np.float64)])}) > 1
        assert found == len(SEEDS)

    def test_whole_numbers_are_exact_in_any_order_and_one_that_is_missing_is_found(self) -> None:
        assert REDUCTION.audit is not None
        values = generate(np, REDUCTION, Case("small", {"n": 1 << 20}, Family.INTEGERS), 5)
        for name, total in sums_of_a_vector(values["x"]).items():
            out = {"out": np.array([total])}
            assert worst(REDUCTION, values, out, exact=True) == 0, name
            assert REDUCTION.audit(np, values, out, 1)
            assert not REDUCTION.audit(np, values, {"out": out["out"] + 1}, 1)

    def test_timed_check_is_made_of_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules[REDUCTION.expected.__module__], "CHUNK", 1000)
        values = generate(np, REDUCTION, Case("small", {"n": 3077}, Family.NORMAL), 6)
        right = np.array([values["x"].sum(dtype=np.float64)], np.float32)
        assert timed(values, {"out": right}, REDUCTION) <= 1
        assert not timed(values, {"out": right + 1e-2}, REDUCTION) <= 1
        assert not timed(values, {"out": right * np.nan}, REDUCTION) <= 1


def softmax_in(values: Values, dtype: type, block: int) -> np.ndarray:
    """Softmax with every operation rounded to `dtype`; largest element and sum kept online, `block` columns a time."""
    scale, x, kept = dtype(values["scale"]), values["x"].astype(dtype), values["mask"] != 0
    nothing = dtype(-3e4) if dtype is np.float16 else dtype(-1e30)
    scores = np.where(kept, np.clip(scale * x, -3e4, 3e4) if dtype is np.float16 else scale * x, nothing).astype(dtype)
    largest = np.full((x.shape[0], 1), nothing, dtype)
    total = np.zeros((x.shape[0], 1), dtype)
    for start in range(0, x.shape[1], block):
        part = scores[:, start : start + block]
        new = np.maximum(largest, part.max(axis=1, keepdims=True))
        total = total * np.exp(largest - new)
        powers = np.where(part > nothing, np.exp(part - new), dtype(0)).astype(dtype)
        total = total + np.add.accumulate(powers, axis=1, dtype=dtype)[:, -1:]
        largest = new
    powers = np.where(scores > nothing, np.exp(scores - largest), dtype(0))
    return (powers / np.where(total > 0, total, dtype(1))).astype(dtype)


class TestSoftmax:
    @pytest.mark.parametrize("family", list(Family))
    @pytest.mark.parametrize("block", [7, 64, 10_000])
    def test_online_and_not_passes_in_float32(self, family: Family, block: int) -> None:
        for seed in range(5):
            for n in (1, 5, 333):
                values = generate(np, SOFTMAX, Case("small", {"m": 20, "n": n}, family), seed)
                with np.errstate(under="ignore"):
                    out = softmax_in(values, np.float32, block)
                assert worst(SOFTMAX, values, {"out": out}) <= 1
                assert timed(values, {"out": out}, SOFTMAX) <= 1

    def test_half_precision_fails_for_every_seed(self) -> None:
        for seed in SEEDS:
            values = generate(np, SOFTMAX, Case("small", {"m": 8, "n": 333}, Family.NORMAL), seed)
            for out in (softmax_in(values, np.float16, 64), softmax_in(values, np.float32, 64).astype(np.float16)):
                assert worst(SOFTMAX, values, {"out": out.astype(np.float32)}) > 2

    def test_rows_add_up_to_one_and_masked_rows_are_zero(self) -> None:
        values = generate(np, SOFTMAX, Case("small", {"m": 2000, "n": 2}, Family.INTEGERS), 1)
        out, kept = SOFTMAX.expected(np, values)["out"], values["mask"] != 0
        some = kept.any(axis=1)
        assert 0 < np.count_nonzero(~some) < 100
        np.testing.assert_allclose(out.sum(axis=1), some.astype(float), rtol=1e-12)
        assert np.all((out > 0) == kept)
        ratios = np.log(out[kept.all(axis=1)]) @ [-1, 1]
        np.testing.assert_allclose(ratios, (values["scale"] * values["x"] @ [-1.0, 1.0])[kept.all(axis=1)], atol=1e-9)

    def test_timed_check_sees_one_wrong_element_anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules[SOFTMAX.expected.__module__], "CHUNK", 1000)
        values = generate(np, SOFTMAX, Case("small", {"m": 9, "n": 333}, Family.NORMAL), 6)
        right = softmax_in(values, np.float32, 64)
        for index in ((0, 0), (8, 332), (4, 100)):
            for wrong in (right[index] + 1e-4, np.nan):
                out = right.copy()
                out[index] = wrong
                assert not timed(values, {"out": out}, SOFTMAX) <= 1


def float32_sums(a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """a @ b in float32, added up in different orders."""
    k = a.shape[1]
    a, b = a.astype(np.float32), b.astype(np.float32)

    def running(order: Any) -> np.ndarray:
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for p in order:
            total += a[:, p, None] * b[None, p, :]
        return total

    def pairwise(low: int, high: int) -> np.ndarray:
        if high - low == 1:
            return a[:, low, None] * b[None, low, :]
        middle = (low + high) // 2
        return pairwise(low, middle) + pairwise(middle, high)

    products = np.sort(a[:, :, None] * b[None, :, :], axis=1)  # every partial sum as large as it can be
    sorted_sum = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for p in range(k):
        sorted_sum += products[:, p, :]
    return {
        "forward": running(range(k)),
        "backward": running(reversed(range(k))),
        "two halves": running(range(k // 2)) + running(range(k // 2, k)),
        "pairwise": pairwise(0, k),
        "sorted": sorted_sum,
        "library": a @ b,
    }


def half_sum(a: np.ndarray, b: np.ndarray, block: int) -> np.ndarray:
    """a @ b with every `block` products added up in float16 and the blocks in float32."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, a.shape[1], block):
        part = np.zeros(total.shape, np.float16)
        with np.errstate(over="ignore", invalid="ignore"):
            for p in range(start, min(start + block, a.shape[1])):
                part += a[:, p, None] * b[None, p, :]
            total += part.astype(np.float32)
    return total


NORMAL_CASES = [c for c in GEMM.correctness if c.family is Family.NORMAL and not c.needs_gpu]


class TestGemm:
    @pytest.mark.parametrize("case", NORMAL_CASES, ids=lambda c: c.name)
    def test_every_order_of_float32_additions_passes(self, case: Case) -> None:
        small = replace(case, dimensions={**case.dimensions, "m": min(case.dimensions["m"], 32)})
        for seed in range(3):
            for family in (Family.NORMAL, Family.WIDE):
                values = generate(np, GEMM, replace(small, family=family), seed)
                for name, c in float32_sums(values["a"], values["b"]).items():
                    assert worst(GEMM, values, {"c": c}) <= 1, name
                    # A check of what is drawn at random bears with orders that do not depend on it
                    assert name == "sorted" or timed(values, {"c": c}, GEMM) < 0.5, name

    @pytest.mark.parametrize("case", NORMAL_CASES, ids=lambda c: c.name)
    @pytest.mark.parametrize("block", [1 << 20, 16, 4])
    def test_half_precision_sums_fail_for_every_seed(self, case: Case, block: int) -> None:
        for seed in SEEDS:
            values = generate(np, GEMM, replace(case, dimensions={**case.dimensions, "m": 16, "n": 32}), seed)
            assert worst(GEMM, values, {"c": half_sum(values["a"], values["b"], block)}) > 1.5

    def test_whole_numbers_are_exact(self) -> None:
        values = generate(np, GEMM, case_of(GEMM, Family.INTEGERS), 5)
        for name, c in float32_sums(values["a"][:40], values["b"]).items():
            assert worst(GEMM, {**values, "a": values["a"][:40]}, {"c": c}, exact=True) == 0, name

    @pytest.mark.slow
    def test_timed_check_finds_what_is_wrong(self) -> None:
        m, n, k = 192, 256, 1024
        values = generate(np, GEMM, replace(GEMM.timing, dimensions={"m": m, "n": n, "k": k}), 8)
        a, b = values["a"], values["b"]
        sums = np.zeros((8, m, n), np.float32)  # in an order of its own: BLAS has one for each kind of processor
        for p in range(k):
            sums[p % 8] += a[:, p, None].astype(np.float32) * b[p].astype(np.float32)
        right = sums.sum(axis=0)
        wrong = {
            "half-precision sums": half_sum(a, b, 1 << 20),
            "half-precision sums of 16": half_sum(a, b, 16),
            "the last element of k left out": right - a[:, -1:].astype(np.float32) * b[-1:].astype(np.float32),
            "one tile of zeros": np.where((np.arange(m)[:, None] < 64) & (np.arange(n) < 64), 0, right),
            "two rows exchanged": right[[1, 0, *range(2, m)]],
            "two columns exchanged": right[:, [1, 0, *range(2, n)]],
            "one element": right + 64 * ((np.arange(m)[:, None] == 77) & (np.arange(n) == 99)),
            "one NaN": np.where((np.arange(m)[:, None] == 77) & (np.arange(n) == 99), np.nan, right),
            "zeros": np.zeros_like(right),
        }
        for seed in range(3):
            assert timed(values, {"c": right}, GEMM, seed) < 0.1
            for name, c in wrong.items():
                assert not timed(values, {"c": c.astype(np.float32)}, GEMM, seed) <= 1, name

    @pytest.mark.slow
    def test_audit_finds_any_wrong_element(self) -> None:
        assert GEMM.audit is not None
        values = generate(np, GEMM, replace(GEMM.timing, family=Family.INTEGERS, dimensions=dict(m=40, n=60, k=500)), 8)
        right = values["a"].astype(np.float32) @ values["b"].astype(np.float32)
        assert GEMM.audit(np, values, {"c": right}, 1)
        long = np.count_nonzero(values["a"], axis=1) > 1  # a lone term is all but exact in projections, too
        off = np.outer(long, np.arange(60) == 7) * np.float32(1e-3)
        assert timed(values, {"c": right + off}, GEMM) <= 1  # projections miss it
        at = np.flatnonzero(long)[7], 9
        for seed in range(50):
            for wrong in (right[at] + 1, np.nextafter(right[at], np.float32(1e9)), np.nan):
                c = right.copy()
                c[at] = wrong
                assert not GEMM.audit(np, values, {"c": c}, seed)

    @pytest.mark.parametrize("block", [1 << 20, 16, 4, 1])
    def test_half_sums_of_the_timing_case_are_found(self, block: int) -> None:
        """At k = 4096 the allowance is at its widest; rows enough of 4096 to see it. Blocks of 1 are products."""
        for seed in seeds(5, 1):
            values = generate(np, GEMM, replace(GEMM.timing, dimensions={"m": 16, "n": 64, "k": 4096}), seed)
            assert timed(values, {"c": half_sum(values["a"], values["b"], block)}, GEMM) > 4
            assert timed(values, {"c": values["a"].astype(np.float32) @ values["b"].astype(np.float32)}, GEMM) < 0.2

    @pytest.mark.parametrize("block", [1 << 20, 64, 16, 8, 4, 1])
    @pytest.mark.parametrize("k", [1, 2, 5, 32, 37, 500, 4096])
    def test_half_precision_does_not_carry_the_whole_numbers(self, block: int, k: int) -> None:
        assert GEMM.audit is not None
        for seed in seeds(200, 25) if k < 100 else seeds(5, 1):
            case = replace(GEMM.timing, family=Family.INTEGERS, dimensions={"m": 8, "n": 8, "k": k})
            values = generate(np, GEMM, case, seed)
            a, b = values["a"].astype(np.float32), values["b"].astype(np.float32)
            assert (np.abs(a) @ np.abs(b)).max() < 1 << 24  # exact in any order
            assert GEMM.audit(np, values, {"c": a @ b}, seed)
            assert not GEMM.audit(np, values, {"c": half_sum(a, b, block)}, seed)

    def test_bfloat16_does_not_hold_the_whole_numbers(self) -> None:
        for seed in range(50):
            values = generate(np, GEMM, Case("small", {"m": 8, "n": 8, "k": 37}, Family.INTEGERS), seed)
            for rounded, whole in (("a", "b"), ("b", "a")):
                bits = values[rounded].astype(np.float32).view(np.uint32)
                coarse = ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
                both = {rounded: coarse, whole: values[whole].astype(np.float32)}
                assert worst(GEMM, values, {"c": both["a"] @ both["b"]}, exact=True) > 0


def tensor_core_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b as a tensor core adds: 16 products at a time, every sum cut toward zero to 24 bits."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], 16):
        part = slice(start, start + 16)
        total += a[:, part].astype(np.float64) @ b[part].astype(np.float64)
        nearest = total.astype(np.float32)
        beyond = np.abs(nearest.astype(np.float64)) > np.abs(total)
        total = np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest).astype(np.float64)
    return total


class TestHopperGemm:
    @pytest.mark.parametrize("block", [1 << 20, 16, 4])
    @pytest.mark.parametrize("k", [4, 5, 16, 37, 200, 1032])
    def test_half_precision_does_not_carry_the_whole_numbers(self, block: int, k: int) -> None:
        assert HOPPER.audit is not None
        for seed in seeds(200, 25) if k < 100 else seeds(5, 1):
            case = replace(HOPPER.profile, family=Family.INTEGERS, dimensions={"m": 8, "n": 8, "k": k})
            values = generate(np, HOPPER, case, seed)
            right = values["a"].astype(np.float32) @ values["b"].astype(np.float32)
            assert worst(HOPPER, values, {"c": right.astype(np.float16)}, exact=True) == 0
            assert HOPPER.audit(np, values, {"c": right.astype(np.float16)}, seed)
            wrong = half_sum(values["a"], values["b"], block).astype(np.float16)
            assert worst(HOPPER, values, {"c": wrong}, exact=True) > 0
            assert not HOPPER.audit(np, values, {"c": wrong}, seed)

    @pytest.mark.parametrize("family", [Family.NORMAL, Family.WIDE])
    def test_float32_and_tensor_core_sums_pass(self, family: Family) -> None:
        for seed in range(3):
            for k in (8, 200, 1032):
                case = replace(HOPPER.profile, family=family, dimensions={"m": 24, "n": 40, "k": k})
                values = generate(np, HOPPER, case, seed)
                a, b = values["a"], values["b"]
                with np.errstate(over="ignore"):
                    for sums in (*float32_sums(a, b).values(), tensor_core_sums(a, b)):
                        c = sums.astype(np.float16)
                        assert worst(HOPPER, values, {"c": c}) <= 1
                        if family is Family.NORMAL:
                            assert timed(values, {"c": c}, HOPPER) <= 1

    def test_timed_check_finds_what_is_wrong(self) -> None:
        m, n, k = 192, 256, 1024
        values = generate(np, HOPPER, replace(HOPPER.timing, dimensions={"m": m, "n": n, "k": k}), 8)
        a, b = values["a"], values["b"]
        right = a.astype(np.float32) @ b.astype(np.float32)
        wrong = {
            "the last element of k left out": right - a[:, -1:].astype(np.float32) * b[-1:].astype(np.float32),
            "one tile of zeros": np.where((np.arange(m)[:, None] < 64) & (np.arange(n) < 64), 0, right),
            "two columns exchanged": right[:, [1, 0, *range(2, n)]],
            "one NaN": np.where((np.arange(m)[:, None] == 77) & (np.arange(n) == 99), np.nan, right),
        }
        for seed in range(3):
            assert timed(values, {"c": right.astype(np.float16)}, HOPPER, seed) < 0.8
            for name, c in wrong.items():
                assert not timed(values, {"c": c.astype(np.float16)}, HOPPER, seed) <= 1, name

    def test_half_sums_of_the_timing_case_are_found(self) -> None:
        values = generate(np, HOPPER, replace(HOPPER.timing, dimensions={"m": 64, "n": 128, "k": 4096}), 9)
        total = np.zeros((64, 128), np.float16)
        for start in range(0, 4096, 16):
            part = slice(start, start + 16)
            step = values["a"][:, part].astype(np.float32) @ values["b"][part].astype(np.float32)
            total = (total + step).astype(np.float16)  # what wgmma with float16 sums does
        assert timed(values, {"c": total}, HOPPER) > 1

    @pytest.mark.parametrize("k", [500, 6000])
    def test_audit_finds_any_wrong_element(self, k: int) -> None:
        assert HOPPER.audit is not None
        dimensions = {"m": 600, "n": 900, "k": k}
        values = generate(np, HOPPER, replace(HOPPER.timing, family=Family.INTEGERS, dimensions=dimensions), 8)
        right = (values["a"].astype(np.float32) @ values["b"].astype(np.float32)).astype(np.float16)
        beyond = (np.abs(right) > 2048).any(axis=1)
        assert beyond.any() == (k == 6000)  # so both ways of comparing a row are taken
        assert HOPPER.audit(np, values, {"c": right}, 1)
        for seed in range(3 if k == 500 else 1):
            for row in {0, int(np.argmax(beyond))}:
                for wrong in (right[row, 9] + 1, np.nextafter(right[row, 9], np.float16(1e4)), 3000, np.inf, np.nan):
                    c = right.copy()
                    c[row, 9] = wrong
                    assert not HOPPER.audit(np, values, {"c": c}, seed)
        ones = {"a": np.ones((3, 2049), np.float16), "b": np.ones((2049, 8), np.float16)}
        tie = np.full((3, 8), 2048, np.float16)  # 2,049 lies halfway between 2,048 and 2,050
        assert HOPPER.audit(np, ones, {"c": tie}, 1)
        large = np.where(np.arange(900) == 3, np.float16(2050), right)  # in every row
        assert not HOPPER.audit(np, values, {"c": large.astype(np.float16)}, 1)


def factors(task: Task, case: Case, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The matrices of a case's products; in lab 11_k each expert with tokens has one."""
    values = generate(np, task, case, seed)
    if "a" in values:
        yield values["a"], values["b"]
        return
    for first, count in zip(values["first"], values["count"], strict=True):
        if count:
            yield values["dy"][first : first + count].T, values["x"][first : first + count]


def guessed_wrongly(a: np.ndarray, b: np.ndarray, terms: tuple[int, ...]) -> bool:
    """Whether a @ b has a row that is not zero though `terms` of the row of `a` are."""
    there = sorted({term % a.shape[1] for term in terms if -a.shape[1] <= term < a.shape[1]})
    rows = a[(a[:, there] == 0).all(axis=1)]
    return bool((rows.astype(np.int64) @ b.astype(np.int64)).any())


class TestGuessedProducts:
    """Who takes sums for zero because a few of their terms are is wrong somewhere in each grade."""

    @pytest.mark.parametrize("terms", [(0, -1), (0, 1, -2, -1), (0, 1, 2, 3), (0, 3, 4, -1)], ids=str)
    @pytest.mark.parametrize(
        "name",
        ["06_tiled_gemm", "07_tensor_core_hgemm", "08_hopper_hgemm", "11_k_grouped_gemm", "17_beat_the_library"],
    )
    def test_a_few_terms_tell_no_zero_for_any_seed(self, name: str, terms: tuple[int, ...]) -> None:
        for seed in seeds(100, 25):
            task = BY_NAME[name].task.drawn(seed)
            cases = [case for case in task.correctness if case.family is Family.INTEGERS and not case.needs_gpu]
            rows = columns = False
            for case in sorted(cases, key=lambda case: task.bytes_moved(case.dimensions)):  # a small one will do
                for a, b in factors(task, case, seed):
                    rows |= guessed_wrongly(a, b, terms)
                    columns |= guessed_wrongly(b.T, a.T, terms)
                if rows and columns:
                    break
            assert rows and columns, seed

    @pytest.mark.parametrize(("m", "n", "k"), [(3, 3, 8), (1, 3, 9), (3, 1, 8), (8, 2, 37), (64, 9, 200)])
    @pytest.mark.parametrize("task", [GEMM, HOPPER], ids=["06", "08"])
    def test_lone_terms_leave_large_products_and_give_no_zeros(self, task: Task, m: int, n: int, k: int) -> None:
        for seed in range(100):
            values = generate(np, task, Case("small", {"m": m, "n": n, "k": k}, Family.INTEGERS), seed)
            a, b = values["a"].astype(np.int64), values["b"].astype(np.int64)
            c = a @ b
            for matrix, result in ((a, c), (b.T, c.T)):
                lone = np.count_nonzero(matrix, axis=1) == 1
                assert np.count_nonzero(lone) >= min(len(matrix) // 3, 4)
                assert len(set(matrix[lone].nonzero()[1])) >= min(len(matrix) // 3, 4)
                assert result[lone].any(axis=1).all()
                assert np.abs(matrix[lone]).max(initial=0) <= 4
            assert (np.abs(a).max(axis=0) * np.abs(b).max(axis=1)).max() >= 1027 * 3
