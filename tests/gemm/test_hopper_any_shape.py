"""The last rung of hopper_hgemm: every kind of tile and split, any size, float16 and bfloat16, on the emulator."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from benchmarks.gemm.ladder import plan_of
from tests.sampling import part_of
from warplab.emulator import execute
from warplab.plan.model import Plan

pytestmark = pytest.mark.processes

PATH = CHECKOUT / "solutions" / "08_hopper_hgemm" / "rung_14_any_shape.py"
CHOICE = re.compile(r"^    return min\(choices.*$", re.MULTILINE)


def forced(folder: Path, choice: tuple[int, int, int]) -> Path:
    """The last rung with another choice of tiles than its own, for a card of two SMs."""
    text, changed = CHOICE.subn(f"    return {choice}", PATH.read_text())
    text, fewer = re.subn(r"^CLUSTERS = {1: 132, 2: 66,", "CLUSTERS = {1: 2, 2: 1,", text, flags=re.MULTILINE)
    assert changed == fewer == 1
    path = folder / "rung_14_any_shape.py"
    path.write_text(text)
    return path


def bfloat16(x: np.ndarray) -> np.ndarray:
    """The bits of `x` rounded to bfloat16, half to even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def check(plan: Plan, m: int, n: int, k: int, dtype: str = "float16") -> None:
    encode = bfloat16 if dtype == "uint16" else (lambda x: x.astype(np.float16))
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, shape) for shape in ((m, k), (k, n)))
    run = execute(plan, {"a": encode(a), "b": encode(b)}, seed=n)
    assert [finding.message for finding in run.findings] == []
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(run.outputs["c"], encode(exact))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((256, 256, 192), "float16"),
        ((129, 257, 71), "float16"),
        ((1, 1, 1), "float16"),
        ((5, 67, 9), "uint16"),
        ((200, 264, 104), "uint16"),
    ],
)
def test_any_size(shape: tuple[int, int, int], dtype: str) -> None:
    check(plan_of(PATH, *shape, "sm_90a", dtype=dtype, result=dtype), *shape, dtype)


CHOICES = [(256, 2, 1), (256, 1, 1), (128, 2, 1), (128, 1, 1), (64, 1, 1), (256, 1, 2), (128, 1, 3), (64, 1, 5)]


@pytest.mark.parametrize("choice", part_of(CHOICES, 2, len))
def test_every_kind_of_tile_and_split(choice: tuple[int, int, int], tmp_path: Path) -> None:
    shape = (392, 264, 584)
    plan = plan_of(forced(tmp_path, choice), *shape, "sm_90a")
    (launch,) = plan.launches
    tile_n, _, splits = choice
    assert launch.grid[0] == (4 * -(-264 // tile_n) * splits if splits > 1 else 2)
    check(plan, *shape)


@pytest.mark.parametrize("choice", [(256, 1, 1), (256, 2, 1)])
def test_consumers_that_finish_in_turn(choice: tuple[int, int, int], tmp_path: Path) -> None:
    """One tile a block and 17 steps of k: the second consumer waits for the first one."""
    path = tmp_path / "submission.py"
    path.write_text(CHOICE.sub(f"    return {choice}", PATH.read_text()))
    shape = (200, 328, 1088)
    check(plan_of(path, *shape, "sm_90a"), *shape)
