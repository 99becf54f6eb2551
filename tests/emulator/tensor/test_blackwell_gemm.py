"""A whole product by tcgen05 in CUDA C++: its result against float64, its counters, and what its faulty twins tell."""

from __future__ import annotations

import numpy as np
import pytest

from corpus.emulator.blackwell_gemm import SOURCE, TWINS, gemm_plan, operands
from tests.emulator.plans import compile_cuda
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.execution import Execution

pytestmark = pytest.mark.stored


def run(source: str, m: int = 128, n: int = 128, k: int = 64, **options) -> tuple[Execution, np.ndarray]:
    """The execution, and the product in float64."""
    inputs = operands(m, n, k)
    plan = gemm_plan(compile_cuda(source, "compute_100a"), source, m, n, k)
    result = execute(plan, inputs, architecture="sm_100a", **options)
    return result, inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"sanitize": False}, {"seed": 1}, {"seed": 2}], ids=str)
@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 128, 192)], ids=str)
def test_the_product(shape: tuple[int, int, int], options: dict) -> None:
    result, exact = run(SOURCE, *shape, **options)
    assert result.findings == ()
    np.testing.assert_allclose(result.outputs["c"], exact, rtol=0, atol=2e-6 * shape[2])
    m, n, k = shape
    assert result.total.tensor_multiply_adds == m * n * k
    assert result.total.tensor_instructions == m // 128 * n // 128 * k // 16


def line_of(text: str) -> int:
    """The line of the source that holds a text first."""
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@pytest.mark.parametrize("name", TWINS)
def test_a_faulty_twin_is_found(name: str) -> None:
    old, new, kind, words, place = TWINS[name]
    assert old in SOURCE
    result, exact = run(SOURCE.replace(old, new))
    found = [f for f in result.findings if f.kind is kind and words in f.message]
    assert found, result.findings
    assert not place or found[0].line == line_of(place)


@pytest.mark.parametrize(
    ("old", "new"),
    [("2ull << 61", "4ull << 61"), ("if (threadIdx.x == 0) {", "if (warp == 0) {"), ("i * K_STEP", "i * K_TILE")],
    ids=["another swizzle", "32 threads multiply", "another step"],
)
def test_what_no_rule_forbids_gives_a_wrong_result(old: str, new: str) -> None:
    assert old in SOURCE
    result, exact = run(SOURCE.replace(old, new))
    assert not np.allclose(result.outputs["c"], exact, atol=1)


@pytest.mark.processes
def test_ptxas_assembles_it() -> None:
    for name, (old, new, *_) in {"": ("", ""), **TWINS}.items():
        done = assembler.run(compile_cuda(SOURCE.replace(old, new), "compute_100a"), "sm_100a", 60)
        assert bool(done.image) is (name != "a size of its own"), done.log
