"""Lab 11: what its inputs promise, scales that are no ordinary numbers, and what its benchmark records."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family, Values
from benchmarks.moe import grouped
from course import results
from warplab.emulator import execute
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan

pytestmark = pytest.mark.processes

LAB = find_lab("11_grouped_gemm")
TASK = LAB.task
MODULE: Any = sys.modules[TASK.expected.__module__]
FILES = ("submission", "rung_4_shared_strips", "numba_1_blocks_stay")
SMALL = Case("small", MODULE._whole(40, 40, 3, 136, 272), Family.NORMAL)
ONE, ZERO, NAN = 0x38, 0x00, 0x7F  # codes


def plan_of(file: str, case: Case) -> Plan:
    call = TASK.host_call(case.dimensions, {"most": case.dimensions["most"]})
    return capture(solutions_folder() / LAB.name / f"{file}.py", [call], (EMULATED_ARCHITECTURE,))[0]


def run(plan: Plan, values: Values) -> np.ndarray:
    arrays = {name: value for name, value in values.items() if name != "most"}
    done = execute(plan, arrays, architecture=EMULATED_ARCHITECTURE)
    assert not done.findings
    return done.outputs["y"]


@pytest.mark.parametrize("family", list(Family))
def test_counts_are_what_the_work_is_computed_from(family: Family) -> None:
    """Groups lie within the buffer and do not overlap; their rows are those that flops and budgets are made of."""
    cases = [case for case in TASK.correctness if not case.needs_gpu] + [TASK.profile]
    for case in cases:
        for seed in range(6):
            values = generate(np, TASK, replace(case, family=family), seed)
            count, first, d = values["count"], values["first"], case.dimensions
            assert (count >= 0).all() and (count <= d["most"]).all()
            rows = [row for f, c in zip(first, count, strict=True) for row in range(f, f + c)]
            assert len(set(rows)) == len(rows) and all(0 <= row < d["slots"] for row in rows)
            if family is not Family.WIDE:
                assert len(rows) == MODULE.routed(d) and (count > 0).sum() == MODULE.busy(d["experts"], len(rows))
            nobody = np.setdiff1d(np.arange(d["slots"]), rows)
            assert (values["x8"][nobody] == NAN).all() and np.isnan(values["x_scale"][:, nobody]).all()
            assert np.isfinite(values["y"][nobody].astype(np.float64)).all()


def test_sums_of_whole_numbers_fit_what_adds_them() -> None:
    for case in TASK.correctness:
        if case.family is Family.INTEGERS and not case.needs_gpu:
            values = generate(np, TASK, case, 1)
            y = TASK.expected(np, values)["y"]
            assert np.array_equal(y.astype(np.float16).astype(np.float64), y, equal_nan=True)


def ones() -> dict[str, Any]:
    """Codes and scales of one, 40 rows of three experts, the second of which has none."""
    values: Any = generate(np, TASK, SMALL, 1)
    values["x8"][...], values["w8"][...] = ONE, ONE
    values["x_scale"][...], values["w_scale"][...] = 1, 1
    values["count"][...], values["first"][...] = (25, 0, 15), (0, 25, 25)
    return values


@pytest.mark.parametrize("file", FILES)
def test_scales_and_codes_that_are_no_ordinary_numbers(file: str) -> None:
    """As the handout says: the scales' product first, then the block's sum, and nothing of it in other rows."""
    plan, values = plan_of(file, SMALL), ones()
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    scale, weights = values["x_scale"], values["w_scale"]
    scale[0, 3] = 0
    scale[1, 4] = inf
    scale[2, 5] = nan
    scale[0, 6], scale[1, 6] = inf, -inf
    scale[0, 8] = inf
    values["x8"][8, :128] = ZERO  # a sum of zero beside an infinite scale
    values["x8"][9, 270] = NAN
    scale[1, 30] = inf
    weights[2, 0, 1] = 0  # of the third expert, for its first 128 columns
    weights[0, 1, 2] = nan  # of the first, for the others
    blocks = np.array([128, 128, 16], np.float32)
    values["w8"][2, 7, 200] = NAN
    y = run(plan, values).astype(np.float64)

    def row(scales: tuple[float, float, float], of_w: tuple[float, float, float], sums: np.ndarray = blocks) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.sum(sums * (np.float32(scales) * np.float32(of_w))))

    plain = (1.0, 1.0, 1.0)
    expected = np.full((40, 136), row(plain, plain))
    expected[3] = row((0, 1, 1), plain)
    expected[4] = np.inf
    expected[[5, 6, 8, 9]] = np.nan
    expected[:25, 128:] = np.nan
    expected[25:, :128] = row(plain, (1, 0, 1))
    expected[30, :128], expected[30, 128:] = np.nan, np.inf
    expected[25:, 7] = np.nan
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("choice", [(128, 256, 1, "half"), (128, 192, 2, "one"), (64, 128, 1, "two")])
def test_experts_may_end_anywhere_in_a_strip_of_rows(choice: tuple[int, int, int, str], tmp_path: Path) -> None:
    """Whole strips of 64 rows, whole 16 rows and fewer leave in ways of their own; rows of nobody stay as they were."""
    path = tmp_path / "chosen.py"
    text = (solutions_folder() / LAB.name / "rung_4_shared_strips.py").read_text("utf-8")
    path.write_text(f"{text}\n\nSMS = 2\n\n\ndef chosen(*all):\n    multiply_by({choice!r}, *all)\n", "utf-8")
    case = Case("strips", MODULE._whole(301, 301, 5, 264, 272), Family.INTEGERS)
    call = TASK.host_call(case.dimensions, {"most": case.dimensions["most"]})
    plan = capture(path, [replace(call, function="chosen")], (EMULATED_ARCHITECTURE,))[0]
    values: Any = generate(np, TASK, case, 3)
    counts = np.array([130, 0, 81, 64, 15])
    values["count"][...], values["first"][...] = counts, np.cumsum(counts) - counts
    values["y"][290:] = 5
    np.testing.assert_array_equal(run(plan, values).astype(np.float64), TASK.expected(np, values)["y"])


def test_whatever_the_counts_the_launches_are_the_same() -> None:
    """A plan has no data, so a graph of it replays for other counts; no shape of it knows how many rows there are."""
    plan = plan_of("submission", SMALL)
    for counts in ((40, 0, 0), (0, 1, 0), (13, 14, 13)):
        values: Any = generate(np, TASK, replace(SMALL, family=Family.INTEGERS), 2)
        values["count"][...], values["first"][...] = counts, np.cumsum(counts) - counts
        values["y"][sum(counts) :] = 5
        expected = TASK.expected(np, values)["y"]
        assert np.isfinite(expected).all()
        np.testing.assert_array_equal(run(plan, values).astype(np.float64), expected)


def test_the_check_of_timed_products_finds_rows_of_others() -> None:
    assert TASK.verify is not None and TASK.audit is not None
    case = Case("timed", MODULE._whole(160, 160, 3, 64, 512), Family.NORMAL)
    for family, check in ((Family.NORMAL, TASK.verify), (Family.INTEGERS, TASK.audit)):
        values = generate(np, TASK, replace(case, family=family), 5)
        right = TASK.expected(np, values)["y"].astype(np.float16)
        good = check(np, values, {"y": right}, 1)
        swapped = right.copy()
        swapped[[3, 90]] = right[[90, 3]]
        bad = check(np, values, {"y": swapped}, 1)
        if family is Family.NORMAL:
            assert good < 0.5 and bad > 1
        else:
            assert good and not bad
    masked = Case("room", MODULE._whole(32, 96, 3, 64, 512), Family.NORMAL)
    values = generate(np, TASK, masked, 5)
    right = TASK.expected(np, values)["y"].astype(np.float16)
    assert TASK.verify(np, values, {"y": right}, 1) < 0.5
    nobody = int(values["count"][0])  # the first row behind the first expert's
    right[nobody] = 0
    assert TASK.verify(np, values, {"y": right}, 1) == np.inf


def test_the_benchmark_has_the_published_shapes() -> None:
    shapes = {(s.name, len(s.counts), s.n, s.k) for s in grouped.SETTINGS}
    assert {("contiguous", 4, 4096, 7168), ("contiguous", 8, 7168, 2048)} <= shapes
    for setting in grouped.SETTINGS:
        layout = setting.layout
        ends = [f + c for f, c in zip(layout["firsts"], layout["counts"], strict=True)]
        assert all(end <= first for end, first in zip(ends, layout["firsts"][1:], strict=False))
        assert ends[-1] <= setting.slots and max(setting.counts) <= setting.most
        assert not setting.masked or (len(setting.counts) == 32 and 19 < sum(setting.counts) / 32 < 21)


def test_records_have_what_was_measured_and_keys_of_their_own(tmp_path: Path) -> None:
    times = {"best": 1.6, "plain": 2.0, "dense": 0.4, "dense, all rows": 1.5, "grouped fast": 1.8}
    answer = {
        "ms": {name: {"value": ms, "low": 0.99 * ms, "high": 1.01 * ms} for name, ms in times.items()},
        "choice": {"best": "a", "dense": "b"},
        "error": {"best": 1e-4, "dense": 1e-4, "plain": 1e-4},
        "raced": {"a": 1.6, "dense b": 0.4, "all rows c": 1.5},
        "turns": 40,
    }
    first, decode = grouped.SETTINGS[0], grouped.SETTINGS[2]
    alone = {**answer, "ms": {"best": answer["ms"]["best"]}}  # type: ignore[index]
    made = [*grouped.records(first, answer), *grouped.records(decode, alone)]
    results.write(tmp_path / "experts.json", results.make_header("nothing"), made)  # refuses two of one key
    ours = [r for r in made if r.name.endswith(grouped.BEST)]
    (whole,) = [r for r in ours if r.variant.endswith("dense, all rows")]
    assert whole.ratio == pytest.approx(1.5 / 1.6)
    assert [r.variant for r in ours if r.metric == "time"] == ["contiguous, choice a", "masked, choice a"]
    (dense,) = [r for r in ours if r.variant.endswith("beside dense")]
    assert dense.value == pytest.approx(2 * 4 * 8192 * 4096 * 7168 / 1.6e-3)
    assert dense.ratio == pytest.approx(4 * 0.4 / 1.6)
    (read,) = [r for r in made if r.metric == "weights read"]
    assert read.unit == "B/s" and read.value == pytest.approx(32 * 4096 * 7168 / 1.6e-3)
