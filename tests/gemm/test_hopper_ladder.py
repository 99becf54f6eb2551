"""The rungs of the CUDA C++ ladder for Hopper but the last, on the emulator: exact for whole numbers, no findings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from benchmarks.gemm.ladder import plan_of
from tests.sampling import part_of
from warplab.emulator import execute
from warplab.plan.assemble import assemble

pytestmark = pytest.mark.stored

FOLDER = CHECKOUT / "solutions" / "08_hopper_hgemm"
RUNGS = sorted(path.stem for path in FOLDER.glob("rung_*.py"))[:13]


@pytest.mark.parametrize("rung", part_of(RUNGS, 3, type))
def test_ragged_tiles_and_a_full_ring(rung: str, tmp_path: Path) -> None:
    """Edges in all three directions, more steps of k than stages, and with two blocks that stay, several tiles each."""
    text, changed = re.subn(r"^BLOCKS = 132", "BLOCKS = 2", (FOLDER / f"{rung}.py").read_text(), flags=re.MULTILINE)
    assert changed == (rung >= "rung_07")
    path = tmp_path / f"{rung}.py"
    path.write_text(text)
    m, n, k = 328, 520, 456
    plan = plan_of(path, m, n, k, "sm_90a")
    (code,) = (kernel.cubins["sm_90a"] for kernel in assemble(plan, "sm_90a").kernels.values())
    spilled = code.spill_stores + code.spill_loads
    assert spilled > 1000 if rung == "rung_04_one_consumer" else spilled == 0

    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    run = execute(plan, {"a": a, "b": b}, seed=m)
    assert [finding.message for finding in run.findings] == []
    exact = a.astype(np.float64) @ b.astype(np.float64)  # at most 16 k: every sum is exact in float32
    np.testing.assert_array_equal(run.outputs["c"], exact.astype(np.float16))
    assert sum(launch.total.tensor_multiply_adds for launch in run.launches) >= m * n * k
