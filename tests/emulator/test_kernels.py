"""Whole kernels from Numba and NVRTC on the emulator, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator import kernels
from tests.emulator.plans import cuda_plan, numba_plan
from warplab.emulator import execute
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

RNG = np.random.default_rng(7)


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 31, 1000])
def test_axpy(n: int) -> None:
    x, y = random(n), random(n)
    plan = numba_plan(kernels.axpy, {"a": np.float32(2.5), "x": x, "y": y}, {"y": Role.INOUT}, (-(-n // 128),), (128,))
    result = execute(plan, {"x": x, "y": y})
    exact = np.float32(2.5) * x.astype(np.float64) + y
    assert np.array_equal(result.outputs["y"], exact.astype(np.float32))  # one fused rounding
    assert not result.findings


@pytest.mark.parametrize("kernel", [kernels.transpose_padded, kernels.transpose_unpadded])
def test_transpose(kernel) -> None:
    shape = (100, 70) if kernel is kernels.transpose_padded else (64, 96)
    a, out = random(*shape), np.zeros(shape[::-1], np.float32)
    grid = (-(-shape[1] // 32), -(-shape[0] // 32))
    result = execute(numba_plan(kernel, {"a": a, "out": out}, {"out": Role.OUTPUT}, grid, (32, 8)), {"a": a})
    assert np.array_equal(result.outputs["out"], a.T)
    assert not result.findings


@pytest.mark.parametrize("shape", [(16, 16, 16), (33, 17, 50), (1, 1, 1)])
def test_tiled_gemm(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, c = random(m, k), random(k, n), np.zeros((m, n), np.float32)
    grid = (-(-n // 16), -(-m // 16))
    plan = numba_plan(kernels.tiled_gemm, {"a": a, "b": b, "c": c}, {"c": Role.OUTPUT}, grid, (16, 16))
    result = execute(plan, {"a": a, "b": b})
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = k * np.finfo(np.float32).eps * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert np.all(np.abs(result.outputs["c"] - exact) <= bound + 1e-30)
    assert not result.findings


def test_divergent_loops() -> None:
    n, out = 5000, np.zeros(200, np.int64)
    plan = numba_plan(kernels.collatz, {"n": np.int64(n), "out": out}, {"out": Role.OUTPUT}, (4,), (64,))
    result = execute(plan, {})
    for i, got in enumerate(result.outputs["out"]):
        value, steps = i + 1, 0
        while value != 1:
            if value % 2 == 0:
                value //= 2
            else:
                value = 3 * value + 1
                steps += 1000 if value > n else 0
            steps += 1
        assert got == steps
    assert result.total.divergent_branches > 100


def test_shuffles_and_global_atomics() -> None:
    x, out = random(1024), np.zeros(1, np.float32)
    plan = numba_plan(kernels.warp_sum, {"x": x, "out": out}, {"out": Role.INOUT}, (8,), (128,))
    result = execute(plan, {"x": x, "out": out})
    assert result.outputs["out"][0] == pytest.approx(x.astype(np.float64).sum(), rel=1e-4)
    assert result.total.global_reduction_requests == 32


def test_shared_atomics() -> None:
    x, out = RNG.integers(0, 16, 1024), np.zeros(16, np.float32)
    plan = numba_plan(kernels.histogram, {"x": x, "out": out}, {"out": Role.INOUT}, (8,), (128,))
    result = execute(plan, {"x": x, "out": out})
    assert np.array_equal(result.outputs["out"], np.bincount(x, minlength=16))
    assert not result.findings


def test_local_arrays() -> None:
    x, out = random(100), np.zeros(64, np.float32)
    plan = numba_plan(kernels.polynomial_in_local_array, {"x": x, "out": out}, {"out": Role.OUTPUT}, (2,), (32,))
    result = execute(plan, {"x": x})
    for i, got in enumerate(result.outputs["out"]):
        total = np.float32(0)
        for k in range(8):
            total = np.float32(np.float64(total) * 0.5 + np.float64(x[(i + (k + i) % 8) % 100]))
        assert got == total
    assert result.total.local_load_requests > 0


def test_print() -> None:
    x = np.array([1.5, -2.0, 0.25], np.float64)
    plan = numba_plan(kernels.prints, {"x": x}, {}, (1,), (32,))
    assert execute(plan, {"x": x}).stdout == "0 1.500000\n1 -2.000000\n2 0.250000\n"


def test_threads_that_left_do_not_hold_up_a_barrier() -> None:
    out = np.zeros(128, np.float32)
    plan = numba_plan(
        kernels.early_exit_then_barrier, {"n": np.int64(70), "out": out}, {"out": Role.INOUT}, (1,), (128,)
    )
    result = execute(plan, {"out": out})
    assert np.array_equal(result.outputs["out"][:70], np.arange(70)[::-1])
    assert not result.findings


SOURCE = r"""
#include <cuda_fp16.h>
template <typename T> __device__ __noinline__ T twice_plus(T a, T b) { return a * T(2) + b; }
struct Point { float x, y, z; };
__device__ __noinline__ Point rotate(Point p, float s) { return Point{p.y * s, p.z * s, p.x * s}; }
__constant__ float table[4] = {1.f, 10.f, 100.f, 1000.f};
__device__ int counter = 5;

extern "C" __global__ void calls(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Point p = rotate(Point{x[i], x[i] + 1, x[i] + 2}, 0.5f);
    float v = twice_plus<float>(p.x, p.y) + p.z;
    switch (i % 5) {
        case 0: v += 1; break;
        case 1: v *= 2; break;
        case 2: v = -v; break;
        case 3: v = v * v; break;
        default: v = 0;
    }
    out[i] = v + table[i & 3];
    atomicAdd(&counter, 1);
}

extern "C" __global__ void dynamic_shared(const __half* a, float* out, int n) {
    extern __shared__ __half tile[];
    int i = threadIdx.x;
    tile[i] = a[i];
    __syncthreads();
    float total = 0;
    for (int k = 0; k < n; ++k) total += __half2float(tile[k]) * __half2float(tile[(k + i) % n]);
    out[i] = total;
}

extern "C" __global__ void vectors(const float4* a, float4* out, double* d, signed char* bytes) {
    int i = threadIdx.x;
    float4 v = a[i];
    out[i] = make_float4(v.w, v.z, v.y, v.x);
    d[i] = sqrt((double)v.x * v.x + 1.0) / 3.0;
    bytes[i] = (signed char)(bytes[i] * 3);
}

extern "C" __global__ void warps(const int* x, int* out) {
    int i = threadIdx.x, v = x[i];
    unsigned ballot = __ballot_sync(~0u, v > 0);
    int up = __shfl_up_sync(~0u, v, 3, 16), down = __shfl_down_sync(~0u, v, 5), other = __shfl_xor_sync(~0u, v, 9);
    int from = __shfl_sync(~0u, v, i * 7);
    int least = __reduce_min_sync(~0u, v), sum = __reduce_add_sync(~0u, v);
    unsigned same = __match_any_sync(~0u, v & 3);
    int all = __all_sync(~0u, v > -1000), any = __any_sync(~0u, v > 1000);
    int count = __syncthreads_count(v > 0);
    int* row = out + i * 11;
    row[0] = ballot; row[1] = up; row[2] = down; row[3] = other; row[4] = from; row[5] = least; row[6] = sum;
    row[7] = same; row[8] = all; row[9] = any; row[10] = count;
}

extern "C" __global__ void divergent_exchange(int* out) {
    int i = threadIdx.x, v;
    if (i < 16) v = __shfl_xor_sync(0x0000ffffu, i, 1);
    else v = __shfl_xor_sync(0xffff0000u, i * 10, 2);
    __syncwarp();
    out[i] = v;
}
"""


def run_cuda(entry: str, arrays, arguments, grid, block, shared: int = 0):
    plan = cuda_plan(SOURCE, entry, arrays, arguments, grid, block, shared)
    result = execute(plan, {n: a for n, (a, role) in arrays.items() if role is not Role.OUTPUT})
    assert not result.findings, result.findings
    return result.outputs


def test_device_functions_structs_and_switches() -> None:
    x, out = random(100), np.zeros(100, np.float32)
    arrays = {"x": (x, Role.INPUT), "out": (out, Role.OUTPUT)}
    got = run_cuda("calls", arrays, ("x", "out", np.int32(100)), (2,), (64,))["out"]
    p = np.stack([x + np.float32(1), x + np.float32(2), x]) * np.float32(0.5)
    v = p[0] * np.float32(2) + p[1] + p[2]
    i = np.arange(100)
    v = np.select([i % 5 == k for k in range(4)], [v + 1, v * 2, -v, v * v], np.float32(0))
    assert np.allclose(got, v + np.float32([1, 10, 100, 1000])[i & 3], rtol=1e-6)


def test_dynamic_shared_memory_of_halves() -> None:
    a, out = random(64, dtype="float16"), np.zeros(64, np.float32)
    arrays = {"a": (a, Role.INPUT), "out": (out, Role.OUTPUT)}
    got = run_cuda("dynamic_shared", arrays, ("a", "out", np.int32(64)), (1,), (64,), 128)["out"]
    exact = [(a.astype(np.float64) * np.roll(a, -i).astype(np.float64)).sum() for i in range(64)]
    assert np.allclose(got, exact, rtol=1e-5, atol=1e-5)


def test_vector_accesses_doubles_and_bytes() -> None:
    a, d = random(32, 4), np.zeros(32)
    data = RNG.integers(-128, 128, 32).astype(np.int8)
    arrays = {"a": (a, Role.INPUT), "out": (a, Role.OUTPUT), "d": (d, Role.OUTPUT), "bytes": (data, Role.INOUT)}
    got = run_cuda("vectors", arrays, ("a", "out", "d", "bytes"), (1,), (32,))
    assert np.array_equal(got["out"], a[:, ::-1])
    x = a[:, 0].astype(np.float64)
    assert np.array_equal(got["d"], np.sqrt(x * x + 1) / 3)
    assert np.array_equal(got["bytes"], (data * 3).astype(np.int8))


def test_warp_instructions() -> None:
    x, out = RNG.integers(-50, 50, 64).astype(np.int32), np.zeros((64, 11), np.int32)
    got = run_cuda("warps", {"x": (x, Role.INPUT), "out": (out, Role.OUTPUT)}, ("x", "out"), (1,), (64,))["out"]
    for start in (0, 32):
        v, lane = x[start : start + 32], np.arange(32)
        rows = got[start : start + 32]
        assert np.all(rows[:, 0].view(np.uint32) == sum(1 << int(k) for k in lane[v > 0]))
        assert np.array_equal(rows[:, 1], np.where(lane % 16 >= 3, np.roll(v, 3), v))
        assert np.array_equal(rows[:, 2], np.where(lane + 5 < 32, np.roll(v, -5), v))
        assert np.array_equal(rows[:, 3], v[lane ^ 9])
        assert np.array_equal(rows[:, 4], v[(lane + start) * 7 % 32])
        assert np.all(rows[:, 5] == v.min())
        assert np.all(rows[:, 6] == v.sum())
        for k in lane:
            assert rows[k, 7].view(np.uint32) == sum(1 << int(j) for j in lane[v & 3 == v[k] & 3])
    assert np.all(got[:, 8:10] == [1, 0])
    assert np.all(got[:, 10] == (x > 0).sum())


def test_both_sides_of_a_branch_can_exchange() -> None:
    out = np.zeros(32, np.int32)
    got = run_cuda("divergent_exchange", {"out": (out, Role.OUTPUT)}, ("out",), (1,), (32,))["out"]
    lane = np.arange(32)
    assert np.array_equal(got, np.where(lane < 16, lane ^ 1, (lane ^ 2) * 10))


def test_workers_agree() -> None:
    a, b, c = random(64, 48), random(48, 80), np.zeros((64, 80), np.float32)
    plan = numba_plan(kernels.tiled_gemm, {"a": a, "b": b, "c": c}, {"c": Role.OUTPUT}, (5, 4), (16, 16))
    one, three = (execute(plan, {"a": a, "b": b}, workers=n) for n in (1, 3))
    assert np.array_equal(one.outputs["c"], three.outputs["c"])
    assert one.launches == three.launches
