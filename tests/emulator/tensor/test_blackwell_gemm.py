"""A whole product by tcgen05 in CUDA C++: its result against float64, its counters, and what its faulty twins tell."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import compile_cuda
from tests.emulator.tensor.blackwell_gemm import SOURCE, run
from warplab.plan import assembler
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.stored


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


FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
AFTER = 'asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");'
AGAIN = "@!p bra AGAIN; }"
DEALLOC = 'asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" :: "r"(sums));'
# NVRTC names the last line of an asm statement.
LOAD = ': "r"(from));'
PRODUCT = '"r"(step + i)'
BARRIER = '    __syncthreads();\n    if (warp == 0)\n        asm volatile("tcgen05.dealloc'
RACE, OUT, TRAP = FindingKind.RACE, FindingKind.OUT_OF_BOUNDS, FindingKind.TRAP
TWINS = {  # what is changed, the kind of the finding, words of it, the line that it names
    "no wait": (AGAIN, "}", RACE, "put tcgen05.commit behind that line and wait for its mbarrier", LOAD),
    "no fence behind the wait": (AFTER, "", FindingKind.ADVISORY, "put tcgen05.fence::after_thread_sync", LOAD),
    "no fence for the async proxy": (FENCE, "", RACE, "no fence.proxy.async in between", PRODUCT),
    "nothing deallocated": (DEALLOC, ";", TRAP, "allocates 128 columns of tensor memory that the block", ""),
    "deallocated too early": (BARRIER, BARRIER.removeprefix("    __syncthreads();"), OUT, "been deallocated", LOAD),
    "lanes of the first warp": (" + (warp * 32 << 16)", "", OUT, "from lane 0 on, but this warp", LOAD),
    "too few columns": ("[%0], 128;", "[%0], 64;", OUT, "which are not all allocated", PRODUCT),
    "sums of nothing": ('"r"(step + i)', '"r"(1)', FindingKind.UNINITIALISED, "column 0 of tensor memory", PRODUCT),
    "a size of its own": ("[%0], 128;", "[%0], 100;", TRAP, "power of two from 32 to 512", ""),
    "a shape that is none": ("TILE / 16 << 24", "TILE / 32 * 3 / 2 << 24", TRAP, "m = 96 and n = 128", PRODUCT),
}


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
