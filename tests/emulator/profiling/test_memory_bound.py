"""The emulator's own memory: at most three bytes for each byte of a plan's buffers and 200 MB."""

import numpy as np
import pytest

from benchmarks import peak_memory
from benchmarks.bench_emulator import axpy, turned
from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.archive import save
from warplab.plan.model import Role

pytestmark = pytest.mark.processes

AXPY = """
extern "C" __global__ void axpy(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 2 * x[i];
}
"""


def test_large_buffers(tmp_path):
    save(axpy(24 << 20), tmp_path / "axpy.plan")
    used = peak_memory.measure(tmp_path / "axpy.plan")
    assert used["buffers"] == 8 * (24 << 20)
    assert used["needed"] <= peak_memory.bound(used["buffers"])


@pytest.mark.parametrize("workers", (2, 16))
def test_many_blocks_with_shared_memory(tmp_path, workers):
    save(turned(500 << 12), tmp_path / "turned.plan")
    used = peak_memory.measure(tmp_path / "turned.plan", workers)
    assert used["needed"] <= peak_memory.bound(used["buffers"])


@pytest.mark.parametrize("where", (0, 123_456, 262_143))
def test_a_changed_input_is_found_wherever_it_is(where):
    n = 1 << 18
    source = AXPY.replace("y[i] += 2 * x[i]", f"if (i == {where}) ((float*)x)[i] = y[i]")
    arrays = {"x": (np.zeros(n, "f4"), Role.INPUT), "y": (np.ones(n, "f4"), Role.INOUT)}
    arguments = ("x", "y", np.int32(n))
    plan = cuda_plan(source, "axpy", arrays, arguments, (n // 256,), (256,))
    findings = execute(plan, {name: array for name, (array, _) in arrays.items()}).findings
    assert [f.kind.value for f in findings] == ["input modified"]
