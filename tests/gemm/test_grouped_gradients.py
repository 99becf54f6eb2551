"""Products over the tokens of an expert and the layer's backward pass on the emulator, against float64."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.moe.backward import measured, plans, rivals
from benchmarks.moe.backward.data import Kept, relative
from benchmarks.moe.layer.plans import Layer
from course import results
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.assemble import assemble
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, Plan, Role

pytestmark = pytest.mark.processes

SLOTS, EXPERTS, M, N = 150, 4, 136, 264  # two tiles by two of every expert's gradient, the second ones short
COUNTS = ((70, 0, 17, 63), (0, 150, 0, 0), (1, 16, 64, 65), (0, 0, 0, 0))
NAN = 0x7FC0


def bits(x: np.ndarray) -> np.ndarray:
    """bf16, rounded to nearest even, as uint16."""
    raw = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((raw + 0x7FFF + (raw >> 16 & 1)) >> 16).astype(np.uint16)


def numbers(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def drawn(draw: np.random.Generator, *shape: int) -> np.ndarray:
    return bits(draw.integers(-2, 3, shape).astype(np.float32))


@cache
def product(name: str) -> Plan:
    inputs = {"k_grouped": ("dy", (SLOTS, M), "x", (SLOTS, N)), "rows_grouped": ("x", (SLOTS, M), "w", (EXPERTS, M, N))}
    a, a_shape, b, b_shape = inputs[name]
    result = ("dw", (EXPERTS, M, N)) if name == "k_grouped" else ("y", (SLOTS, N))
    arrays = (
        ArrayArgument(a, "uint16", a_shape, Role.INPUT),
        ArrayArgument(b, "uint16", b_shape, Role.INPUT),
        ArrayArgument("first", "int32", (EXPERTS,), Role.INPUT),
        ArrayArgument("count", "int32", (EXPERTS,), Role.INPUT),
        ArrayArgument(result[0], "uint16", result[1], Role.OUTPUT),
    )
    return plans.captured(name, arrays, EMULATED_ARCHITECTURE, sms=3)


def run(plan: Plan, values: dict[str, Any]) -> dict[str, np.ndarray]:
    done = execute(plan, values, architecture=EMULATED_ARCHITECTURE, seed=1)
    assert [finding.message for finding in done.findings] == []
    return done.outputs


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_one_launch_sums_over_the_tokens_of_each_expert(counts: tuple[int, ...]) -> None:
    """One plan for all counts; an expert without tokens has zeros, and rows of nobody, NaN here, do not matter."""
    draw = np.random.default_rng(sum(counts))
    first = np.cumsum(counts) - counts
    dy, x = drawn(draw, SLOTS, M), drawn(draw, SLOTS, N)
    dy[sum(counts) :], x[sum(counts) :] = NAN, NAN
    found = run(product("k_grouped"), {"dy": dy, "x": x, "first": first.astype(np.int32), "count": np.int32(counts)})
    for e, (f, c) in enumerate(zip(first, counts, strict=True)):  # sums of such whole numbers are exact but for bf16
        right = numbers(dy[f : f + c]).T @ numbers(x[f : f + c])
        np.testing.assert_array_equal(found["dw"][e], bits(right), str(e))


def test_tokens_between_groups_do_not_matter() -> None:
    """Groups in another order with gaps of NaN: the tail of each is cut off in both operands."""
    draw = np.random.default_rng(3)
    first, count = np.int32([100, 50, 3, 0]), np.int32([45, 33, 40, 0])
    mine = np.zeros(SLOTS, bool)
    for f, c in zip(first, count, strict=True):
        mine[f : f + c] = True
    dy, x = drawn(draw, SLOTS, M), drawn(draw, SLOTS, N)
    dy[~mine], x[~mine] = NAN, NAN
    found = run(product("k_grouped"), {"dy": dy, "x": x, "first": first, "count": count})
    right = [numbers(dy[f : f + c]).T @ numbers(x[f : f + c]) for f, c in zip(first, count, strict=True)]
    np.testing.assert_array_equal(found["dw"], bits(np.array(right)))


def test_rows_times_weights_as_they_lie() -> None:
    """The depth is no multiple of 64, and the next expert's first weights are NaN: they must not be in any sum."""
    draw = np.random.default_rng(4)
    count = np.int32([70, 0, 17, 63])
    first = (np.cumsum(count) - count).astype(np.int32)
    x, w = drawn(draw, SLOTS, M), drawn(draw, EXPERTS, M, N)
    w[1] = NAN
    found = run(product("rows_grouped"), {"x": x, "w": w, "first": first, "count": count})
    for e, (f, c) in enumerate(zip(first, count, strict=True)):
        right = numbers(x[f : f + c]) @ numbers(w[e]) if c else np.zeros((0, N))
        np.testing.assert_array_equal(found["y"][f : f + c], bits(right), str(e))


@pytest.mark.parametrize("name", ("k_grouped", "rows_grouped"))
def test_nothing_spills_and_no_product_waits_for_the_one_before(name: str) -> None:
    for kernel in assemble(product(name), EMULATED_ARCHITECTURE).kernels.values():
        code = kernel.cubins[EMULATED_ARCHITECTURE]
        assert code.spill_stores == code.spill_loads == code.stack == 0
        log = assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log
        assert "registers" in log and "serialized" not in log, log


def test_the_chain_gives_the_gradients_that_autograd_gives() -> None:
    """A layer of 23 tokens, two of five experts each, against float64; one expert of more has no token at all."""
    torch = pytest.importorskip("torch")
    layer, tokens = Layer("toy", 6, 2, 72, 40), 23
    kept = Kept(asdict(layer), tokens, "cpu")
    kept_bits = {name: x.numpy() for name, x in kept.arrays().items()}
    values = {name: x.view(np.uint16) if x.dtype == np.int16 else x for name, x in kept_bits.items()}
    plan = plans.captured("backward", plans.arguments(layer, tokens), EMULATED_ARCHITECTURE, sms=3)
    assert len(plan.launches) == len(plans.LAUNCHES)
    found = run(plan, values)
    right = kept.expected(torch.float64)
    for name in right:
        given = numbers(found[name]) if found[name].dtype == np.uint16 else found[name]
        assert relative(torch.from_numpy(given), right[name]) < 0.01, name
    for rival in (rivals.loop, rivals.grouped):  # what it is timed beside computes the same
        for name, gradient in rival(kept)().items():
            assert relative(gradient, right[name]) < 0.02, (rival, name)


def test_records_of_the_backward_pass(tmp_path: Path) -> None:
    layer = Layer("toy", 6, 2, 72, 40)
    time = {"value": 10.0, "low": 9.0, "high": 11.0}
    parts = {name: time for name in plans.LAUNCHES}
    parts["torch, " + plans.LAUNCHES[3]] = {**time, "value": 15.0}
    us = {"chain": time, rivals.LOOP: {**time, "value": 40.0}}
    answer = {"us": us, "parts": parts, "active": 5, "fullest": 9, "turns": 3, "error": {"chain": {"dx": 1e-3}}}
    made = measured.records(layer, 23, answer, (1e12, 1e9))
    results.write(tmp_path / "experts.json", results.make_header("nothing"), made)  # refuses two of one key
    (whole,) = [r for r in made if r.metric == "time"]
    assert whole.ratio == pytest.approx(4)
    (weights,) = [r for r in made if r.variant == plans.LAUNCHES[3]]
    assert weights.ratio == pytest.approx(1.5)
    moved = 2.0 * (46 * 72 + 46 * 40 + 6 * 72 * 40)
    assert weights.extra["roofline"] == pytest.approx(max(2 * 46 * 72 * 40 / 1e12, moved / 1e9) / 10e-6)
    assert sum(operations for operations, _ in plans.work(layer, 23, 5).values()) == 2 * 6 * 46 * 72 * 40
