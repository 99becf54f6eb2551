"""Products over the tokens of an expert and the layer's backward pass on the emulator, against float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.moe.backward import plans
from warplab.plan import assembler
from warplab.plan.assemble import assemble
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, Plan, Role
from warplab.simt import execute

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
