"""Lab 21: its specification, and blocks that take one head's queries after another's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.spec.inputs import generate, host_calls
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family, Values
from autograder.worker.compare import worst_ratio
from warplab import emulator
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE

TASK = find_lab("21_attention").task
KEYS = 64  # of a tile


def case(heads: int, n: int, d: int, causal: int, family: Family = Family.NORMAL) -> Case:
    return Case("tried", {"heads": heads, "n": n, "d": d, "causal": causal}, family)


def online(values: Values, sums: type = np.float32, scores: type = np.float32) -> np.ndarray:
    """Attention tile by tile with weights in float16; sums and scores are kept in the types given."""
    q, k, v = (values[name].astype(np.float32) for name in "qkv")
    heads, n, d = q.shape
    out = np.zeros(q.shape, np.float16)
    for head in range(heads):
        largest, total, o = np.full(n, -1e30, np.float32), np.zeros(n, np.float32), np.zeros((n, d), sums)
        for start in range(0, n, KEYS):
            part = slice(start, start + KEYS)
            s = (q[head] @ k[head, part].T).astype(scores).astype(np.float32) / np.float32(math.sqrt(d))
            if values["causal"]:
                s = np.where(np.arange(n)[part][None] > np.arange(n)[:, None], np.float32(-1e30), s)
            new = np.maximum(largest, s.max(axis=1))
            shrink, p = np.exp(largest - new), np.exp(s - new[:, None])
            largest, total = new, total * shrink + p.sum(axis=1)
            o = (o * shrink[:, None]).astype(sums)
            for first in range(0, p.shape[1], 16):  # a tensor core adds 16 products at a time
                few = slice(first, first + 16)
                o = (o + p[:, few].astype(np.float16).astype(np.float32) @ v[head, part][few]).astype(sums)
        out[head] = o / total[:, None]
    return out


def ratio(values: Values, out: np.ndarray) -> float:
    return worst_ratio(np, out, TASK.expected(np, values)["out"], TASK.bound(np, values)["out"])


@pytest.mark.parametrize("causal", [0, 1])
def test_expected_is_the_definition(causal: int) -> None:
    values = generate(np, TASK, case(2, 9, 64, causal), 1)
    q, k, v = (values[name].astype(np.float64) for name in "qkv")
    expected = TASK.expected(np, values)["out"]
    for head in range(2):
        for i in range(9):
            scores = [math.fsum(q[head, i] * k[head, j]) / 8 for j in range(i + 1 if causal else 9)]
            weights = [math.exp(score - max(scores)) for score in scores]
            for e in range(64):
                mean = math.fsum(w * v[head, j, e] for j, w in enumerate(weights)) / math.fsum(weights)
                assert expected[head, i, e] == pytest.approx(mean, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("family", list(Family))
def test_float32_passes_for_every_seed(family: Family) -> None:
    for seed in range(4):
        for size in ((1, 300, 64, 0), (1, 130, 128, 1), (2, 5, 64, 1)):
            values = generate(np, TASK, case(*size, family), seed)
            assert ratio(values, online(values)) <= 1


@pytest.mark.parametrize("less", [{"sums": np.float16}, {"scores": np.float16}], ids=str)
@pytest.mark.parametrize("causal", [0, 1])
def test_float16_fails_for_every_seed(causal: int, less: dict[str, type]) -> None:
    for seed in range(6):
        values = generate(np, TASK, case(1, 420, 64, causal), seed)
        with np.errstate(over="ignore"):
            assert ratio(values, online(values, **less)) > 1


def test_timed_check_finds_what_is_wrong() -> None:
    assert TASK.verify is not None
    values = generate(np, TASK, replace(TASK.timing, dimensions=case(4, 400, 64, 1).dimensions), 3)
    right = online(values)
    wrong = {name: right.copy() for name in ("a tile", "mean", "nan", "mask")}
    wrong["a tile"][1, :128] = 0
    wrong["mean"][:] = values["v"].mean(axis=1, keepdims=True)
    wrong["nan"][3, 399, 63] = np.nan
    wrong["mask"][:] = online({**values, "causal": 0})
    for seed in range(4):
        assert TASK.verify(np, values, {"out": right}, seed) <= 1
        for name, out in wrong.items():
            assert not TASK.verify(np, values, {"out": out}, seed) <= 1, name


@pytest.mark.processes
@pytest.mark.parametrize("rung", ["rung_5_in_turns", "rung_6_without_gaps"])
@pytest.mark.parametrize("size", [(3, 300, 64, 0), (2, 390, 128, 1), (5, 129, 64, 1)], ids=str)
def test_blocks_that_stay_take_heads_and_queries_one_after_another(
    size: tuple[int, ...], rung: str, tmp_path: Path
) -> None:
    """No case of the lab has more queries than 132 blocks and more than a tile of keys, as a GPU has."""
    text = (solutions_folder() / "21_attention" / f"{rung}.py").read_text(encoding="utf-8")
    for old, new in (("SMS = 132", "SMS = 2"), ("L2_BYTES = 32 << 20", f"L2_BYTES = {8 * size[1] * size[2]}")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "submission.py"
    path.write_text(text, encoding="utf-8")
    tried = case(*size)
    (plan,) = capture(path, host_calls(TASK, [tried], 1), (EMULATED_ARCHITECTURE,), timeout=300.0)
    values = generate(np, TASK, tried, 1)
    result = emulator.execute(plan, {name: values[name] for name in "qkv"}, architecture=EMULATED_ARCHITECTURE)
    assert not result.findings
    assert ratio(values, result.outputs["out"]) <= 1
