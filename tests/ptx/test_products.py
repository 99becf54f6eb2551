"""The matrix products of benchmarks/gemm, written with warplab.ptx: exact on the emulator for whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gemm.ladder import implementations, plan_of
from tests.simt.plans import ARCHITECTURE
from warplab.simt import execute

M, N, K = 256, 512, 256


@pytest.mark.parametrize("path", implementations(), ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", [None, 3])
def test_products_are_exact(path, seed) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    execution = execute(plan_of(path, M, N, K, ARCHITECTURE), {"a": a, "b": b}, architecture=ARCHITECTURE, seed=seed)
    assert [f.message for f in execution.findings] == []
    np.testing.assert_array_equal(
        execution.outputs["c"], (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    )
    assert execution.launches[0].total.tensor_multiply_adds == M * N * K
