"""What a lab rules out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.spec.lab import find_lab
from autograder.worker.rules import uses_tensor_cores
from warplab.plan.model import Kernel, Language, Launch, Plan

CUDA_CORES, TENSOR_CORES = find_lab("06_tiled_gemm").task, find_lab("07_tensor_core_hgemm").task


def plan(body: str, name: str = "gemm") -> Plan:
    text = f"// a comment about mma\n.visible .entry {name}(.param .u64 {name}_param_0)\n{{\n\t{body}\n\tret;\n}}"
    kernel = Kernel(name, name, Language.NUMBA, (), {"sm_90a": text}, line=12)
    return Plan("f", {"gemm": kernel}, {}, (Launch("gemm", (1, 1, 1), (32, 1, 1), ()),))


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2};",
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0;",
        "@%p1 mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1}, %r3, 0x0;",
        "$L__BB0_1:mma .sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1}, {%fd2}, {%fd3}, {%fd1};",
    ],
)
def test_tensor_cores_are_refused_where_the_lab_asks_for_cuda_cores(instruction: str) -> None:
    found = uses_tensor_cores(CUDA_CORES, plan(instruction))
    assert found is not None
    words, line = found
    assert words.startswith("Kernel gemm uses tensor cores (") and "CUDA cores" in words
    assert line == 12
    assert uses_tensor_cores(TENSOR_CORES, plan(instruction)) is None


@pytest.mark.parametrize("name", ["gemm", "mma", "gemma", "wmma_like"])
def test_names_are_no_instructions(name: str) -> None:
    assert uses_tensor_cores(CUDA_CORES, plan(f"ld.param.u64 %mma, [{name}_param_0];", name)) is None


def test_a_kernel_that_is_not_launched_counts_too() -> None:
    used = plan("fma.rn.f32 %f1, %f2, %f3, %f1;")
    idle = plan("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1}, {%fd2}, {%fd3}, {%fd1};").kernels["gemm"]
    assert uses_tensor_cores(CUDA_CORES, used) is None
    assert uses_tensor_cores(CUDA_CORES, replace(used, kernels={**used.kernels, "idle": idle})) is not None
