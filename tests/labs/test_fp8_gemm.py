"""Lab 09: its quantiser against every e4m3 number, and its bounds against the bits of Hopper's FP8 sums.

The sums are those of warplab.emulator.core.tensor.numerics, which equal an H200's
(benchmarks/results/tensor_tiles.json).
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family, Values
from autograder.worker.compare import worst_ratio
from tests.emulator import products
from warplab.emulator import execute
from warplab.emulator.core.tensor import numerics
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE

pytestmark = pytest.mark.processes

LAB = find_lab("09_fp8_gemm")
TASK = LAB.task
MODULE: Any = sys.modules[TASK.expected.__module__]
RULE = numerics.rule_number("sm_90a", "wgmma", numerics.Kind.E4M3, numerics.Kind.E4M3, numerics.Kind.F32)
LONG = Case("long", {"m": 9, "n": 24, "k": 2064, "blocks": 17, "panels": 1}, Family.NORMAL)
SEEDS = range(4)


def value(code: int) -> Fraction | None:
    """What an e4m3 code means, by OCP's 8-bit floating point specification: None for NaN, there is no infinity."""
    sign = -1 if code & 0x80 else 1
    exponent, fraction = code >> 3 & 0xF, code & 7
    if exponent == 15 and fraction == 7:
        return None
    if exponent == 0:
        return sign * Fraction(fraction, 8) * Fraction(1, 2**6)
    return sign * (1 + Fraction(fraction, 8)) * Fraction(2) ** (exponent - 7)


MAGNITUDES = [Fraction(value(code)) for code in range(0x7F)]  # type: ignore[arg-type]


def nearest(number: Fraction, negative: bool) -> int:
    """The code of the e4m3 number nearest to `number`, of two equally near ones that with the even code."""
    magnitude = abs(number)
    above = bisect_left(MAGNITUDES, magnitude)  # they grow with their codes
    around = range(max(above - 1, 0), min(above + 1, len(MAGNITUDES)))
    return min(around, key=lambda code: (abs(magnitude - MAGNITUDES[code]), code & 1)) | (0x80 if negative else 0)


def all_halves() -> np.ndarray:
    """Every finite float16."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return halves[np.isfinite(halves)]


def test_every_code_decodes_to_what_it_means() -> None:
    for code in range(256):
        meant = value(code)
        assert np.isnan(MODULE.DECODED[code]) if meant is None else Fraction(float(MODULE.DECODED[code])) == meant
    assert np.signbit(MODULE.DECODED[0x80]) and float(np.nanmax(MODULE.DECODED)) == MODULE.LARGEST


@pytest.mark.parametrize("largest", [448.0, 224.5, 28.0, 28 + 2.0**-6, 3.0, 2.0**-14, 2.0**-24, 65504.0])
def test_codes_are_the_nearest_for_every_half(largest: float) -> None:
    """All float16 numbers up to the largest of their block, which decides the scale, against exact fractions."""
    numbers = all_halves()
    numbers = numbers[np.abs(numbers) <= largest]
    numbers = numbers[:: max(1, numbers.size // 700)]
    x = np.full((-(-numbers.size // 127), 128), largest, np.float16)
    x[:, 1:].flat[: numbers.size] = numbers
    x8, x_scale = MODULE.quantised(np, x)
    scale = Fraction(float(x_scale[0, 0]))
    assert np.all(x_scale == x_scale[0, 0])
    assert 448 * scale >= Fraction(largest) > 448 * scale / 2 and scale.numerator * scale.denominator & 1 == (
        scale == 1
    )
    expected = [nearest(Fraction(float(v)) / scale, bool(np.signbit(v))) for v in x.flat]
    assert x8.flat[:].tolist() == expected


def test_scales_are_powers_of_two_and_those_of_zeros_are_one() -> None:
    magnitudes = np.unique(np.abs(all_halves()))
    _, x_scale = MODULE.quantised(np, magnitudes[:, None])
    fractions, _ = np.frexp(x_scale)
    assert x_scale.shape == (1, magnitudes.size) and np.all(fractions == 0.5)
    assert x_scale[0, 0] == 1
    smallest = 448 * x_scale[0, 1:].astype(np.float64)
    assert np.all(smallest >= magnitudes[1:]) and np.all(smallest / 2 < magnitudes[1:])


def test_rows_and_blocks_have_scales_of_their_own() -> None:
    x = np.zeros((3, 272), np.float16)
    x[1, 127], x[1, 128], x[2, 271] = 448, 1, -0.5
    x[0, 5] = -0.0
    x8, x_scale = MODULE.quantised(np, x)
    assert x_scale.tolist() == [[1, 1, 1], [1, 2.0**-8, 1], [1, 1, 2.0**-9]]
    assert x8[1, 127] == 0x7E and MODULE.DECODED[x8[1, 128]] == 256 and MODULE.DECODED[x8[2, 271]] == -256
    assert x8[0, 5] == 0x80 and x8[0, 6] == 0


@pytest.mark.parametrize("library", ["ml_dtypes", "torch"])
def test_codes_are_those_of_a_library(library: str) -> None:
    """float32 to e4m3 by others; they do not clamp, so nothing beyond 448."""
    module: ModuleType = pytest.importorskip(library)
    x = all_halves()[: all_halves().size // 128 * 128].reshape(-1, 128)
    x8, x_scale = MODULE.quantised(np, x)
    scaled = x.astype(np.float32) / x_scale.T
    if library == "ml_dtypes":
        codes = scaled.astype(module.float8_e4m3fn).view(np.uint8)
    else:
        codes = module.from_numpy(scaled).to(module.float8_e4m3fn).view(module.uint8).numpy()
    np.testing.assert_array_equal(x8, codes)


def on_tensor_cores(values: Values, promoted: bool = True, sums: type = np.float32) -> dict[str, np.ndarray]:
    """All outputs by wgmma's bits: promoted every 128 of k into `sums`, or scaled in between but never promoted."""
    x8, x_scale = MODULE.quantised(np, values["x"])
    a, b = (np.pad(codes, ((0, 0), (0, -codes.shape[1] % 128))) for codes in (x8, values["w8"]))
    total: np.ndarray = np.zeros((len(a), len(b)), sums)
    d = np.zeros(total.shape, np.float32)
    before = np.ones_like(d)
    for block in range(a.shape[1] // 128):
        part = slice(128 * block, 128 * block + 128)
        scale = x_scale[block][:, None] * np.repeat(values["w_scale"][:, block], 128)[: len(b)]
        d = np.zeros_like(d) if promoted else d * (before / scale)
        d = products.in_steps(a[:, part], b[:, part], d.view(np.uint32), RULE, 32).view(np.float32)
        total = (total + d * scale).astype(sums)
        before = scale
    with np.errstate(over="ignore"):
        return {"x8": x8, "x_scale": x_scale, "y": (total if promoted else d * before).astype(np.float16)}


def worst(values: Values, outputs: dict[str, np.ndarray], exact: bool = False) -> float:
    expected = TASK.expected(np, values)
    bound = {name: np.zeros(1) for name in expected} if exact else TASK.bound(np, values)
    return max(worst_ratio(np, outputs[name], expected[name], bound[name]) for name in expected)


def timed(values: Values, outputs: dict[str, np.ndarray], seed: int = 7) -> float:
    assert TASK.verify is not None
    return TASK.verify(np, values, outputs, seed)


@pytest.mark.parametrize("family", [Family.NORMAL, Family.WIDE])
def test_promoted_sums_pass_by_far(family: Family) -> None:
    for seed in SEEDS:
        values = generate(np, TASK, replace(LONG, family=family), seed)
        outputs = on_tensor_cores(values)
        assert worst(values, outputs) < 1
        # but for the row with one number, whose products have float16's rounding alone
        expected, bound = TASK.expected(np, values)["y"], TASK.bound(np, values)["y"]
        several = np.count_nonzero(values["x"], axis=1) > 1
        assert not several.all()
        assert worst_ratio(np, outputs["y"][several], expected[several], bound[several]) < 0.2
        assert family is not Family.NORMAL or timed(values, outputs) < 0.5


def test_sums_that_stay_in_the_tensor_core_fail_for_every_seed() -> None:
    """However well they are scaled: what is cut off the growing sum never cancels."""
    for seed in SEEDS:
        values = generate(np, TASK, LONG, seed)
        outputs = on_tensor_cores(values, promoted=False)
        assert worst(values, outputs) > 1.1 and timed(values, outputs) > 1


def test_the_bound_holds_for_sums_that_lose_as_much_as_they_can() -> None:
    """Products of 15 beside one of 448 squared: multiples of 8 are kept in the first step, of 16 in the others."""
    values: Any = generate(np, TASK, replace(LONG, dimensions={**LONG.dimensions, "k": 128, "blocks": 1}), 1)
    values["x"][...] = np.float16(3.75)
    values["x"][:, 0] = np.float16(448)
    values["w8"][...] = 0x48  # 4
    values["w8"][:, 0] = 0x7E
    values["w_scale"] = values["w_scale"][:, :1].copy()
    ratio = worst(values, on_tensor_cores(values))
    assert 0.4 < ratio <= 1


def test_whole_numbers_are_exact_and_half_precision_loses_them() -> None:
    assert TASK.audit is not None
    for seed in SEEDS:
        values = generate(np, TASK, replace(LONG, family=Family.INTEGERS), seed)
        right, half = on_tensor_cores(values), on_tensor_cores(values, sums=np.float16)
        assert worst(values, right, exact=True) == 0 and TASK.audit(np, values, right, seed)
        assert worst(values, half, exact=True) > 0 and not TASK.audit(np, values, half, seed)
        for name, index in (("y", (3, 5)), ("x8", (3, 200)), ("x_scale", (2, 3))):
            changed = {**right, name: right[name].copy()}
            changed[name][index] += 1
            assert worst(values, changed, exact=True) > 0 and not TASK.audit(np, values, changed, seed)


def test_timed_check_finds_wrong_scales() -> None:
    m, n, k = 96, 256, 1024
    dimensions = {"m": m, "n": n, "k": k, "blocks": 8, "panels": 2}
    values = generate(np, TASK, replace(TASK.timing, dimensions=dimensions), 8)
    right = on_tensor_cores(values)
    x, w = MODULE.dequantised(np, values)
    part, ratio = slice(256, 384), values["w_scale"][0, 0] / values["w_scale"][0, 2]
    one_block = np.where(np.arange(n) < 128, x[:, part] @ w[:, part].T * (ratio - 1), 0)
    wrong = {
        "a scale of w of another block": right["y"] + one_block,
        "one row's scale in one block": right["y"] + (np.arange(m) == 9)[:, None] * (x[:, part] @ w[:, part].T),
        "the last 16 of k left out": right["y"] - x[:, -16:] @ w[:, -16:].T,
        "two rows exchanged": right["y"][[1, 0, *range(2, m)]],
        "zeros": np.zeros_like(right["y"]),
        "one NaN": np.where((np.arange(m)[:, None] == 7) & (np.arange(n) == 9), np.nan, right["y"]),
    }
    for seed in range(3):
        assert timed(values, right, seed) < 0.5
        for name, y in wrong.items():
            assert not timed(values, {**right, "y": y.astype(np.float16)}, seed) <= 1, name
        for name in ("x8", "x_scale"):
            changed = {**right, name: right[name].copy()}
            changed[name][1, 1] += 1
            assert not timed(values, changed, seed) <= 1, name


@pytest.mark.parametrize("name", ["submission", "rung_5_any_shape", "numba_1_two_kernels"])
def test_scales_and_codes_of_w_follow_ieee_754(name: str) -> None:
    """A zero takes its block out of the sum, an infinity and a NaN reach the columns concerned."""
    sizes = {"m": 4, "n": 264, "k": 400, "blocks": 4, "panels": 3}
    call = TASK.host_call(sizes, {})
    (plan,) = capture(solutions_folder() / LAB.name / f"{name}.py", [call], (EMULATED_ARCHITECTURE,))
    values: Any = generate(np, TASK, Case("few", sizes, Family.NORMAL), 3)
    values["x"][...], values["w8"][...], values["w_scale"][...] = np.float16(1), 0x38, 1
    values["w_scale"][0, 1], values["w_scale"][1, 2], values["w_scale"][2, 3] = 0, np.inf, np.nan
    values["w8"][5, 130] = 0x7F
    expected = np.repeat([400.0 - 128, np.inf, np.nan], [128, 128, 8])
    expected[5] = np.nan
    outputs = execute(plan, values, architecture=EMULATED_ARCHITECTURE).outputs
    assert np.array_equal(outputs["y"].astype(float), np.tile(expected, (4, 1)), equal_nan=True)


def test_what_is_not_finite_gives_what_the_handout_says() -> None:
    """By the reference, on the emulator, whose conversions are the hardware's."""
    case = Case("few", {"m": 4, "n": 16, "k": 256, "blocks": 2, "panels": 1}, Family.NORMAL)
    path = solutions_folder() / LAB.name / "submission.py"
    values: Any = generate(np, TASK, case, 3)
    plan = capture_submission(LAB, path, [TASK.profile, case], 3, EMULATED_ARCHITECTURE).plans[case.name]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 256)).astype(np.float16)
    x[0, 7], x[1, 200], x[2, 100], x[3, :128] = np.inf, -np.inf, np.nan, np.nan
    values["x"] = x
    values["w8"][0, 7] = 0
    outputs = execute(plan, values, architecture=EMULATED_ARCHITECTURE).outputs
    x8, x_scale, y = outputs["x8"], outputs["x_scale"], outputs["y"]
    finite, scales = MODULE.quantised(np, np.where(np.isfinite(x), x, np.float16(0)))

    assert x8[0, 7] == 0x7E and x8[1, 200] == 0xFE
    assert x_scale[0, 0] == x_scale[1, 1] == 2.0**120
    assert np.all(np.delete(x8[0, :128] & 0x7F, 7) == 0) and np.all(np.delete(x8[1, 128:] & 0x7F, 72) == 0)
    sign = np.sign(MODULE.DECODED[values["w8"]])
    assert np.isfinite(y[0, 0]) and np.array_equal(y[0, 1:], np.inf * sign[1:, 7])
    assert np.array_equal(y[1], -np.inf * sign[:, 200])

    assert x8[2, 100] == 0x7F and x_scale[0, 2] == scales[0, 2]
    assert np.array_equal(np.delete(x8[2], 100), np.delete(finite[2], 100))
    assert np.all(x8[3, :128] == 0x7F) and x_scale[0, 3] == 2.0**121
    assert np.isnan(y[2:]).all()
    assert np.array_equal(x8[:, 128:][[0, 2, 3]], finite[:, 128:][[0, 2, 3]])  # other blocks are as they would be
