"""CUDA C++ submissions through CuPy."""

from __future__ import annotations

import pytest

from tests.plan.conftest import Grab, Refuse
from warplab.plan.assemble import assemble
from warplab.plan.capture.failure import CaptureStatus
from warplab.plan.model import Language, Pointer, Role, Value

pytestmark = pytest.mark.processes

AXPY = '''
import cupy as cp
import numpy as np

SOURCE = r"""
#include <cuda_fp16.h>
template <typename T, int N>
__global__ void axpy(const int n, T a, const T* __restrict__ x, T* y /* out */) {
    __shared__ T tile[N];
    tile[threadIdx.x % N] = a;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += tile[0] * x[i];
}
extern "C" __global__ void __launch_bounds__(128) scale(
    float* y, long long n, unsigned char b, double d, __half h, bool flag) {
    extern __shared__ float dynamic[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dynamic[threadIdx.x] = b;
    if (i < n && flag) y[i] *= d + __half2float(h) + dynamic[0];
}
"""
module = cp.RawModule(code=SOURCE, options=("-arch=sm_52",), name_expressions=("axpy<float, 64>",))

def f(x, y):
    n = y.size
    tmp = cp.zeros(n, dtype=cp.float32)
    other = cp.empty_like(tmp)
    module.get_function("axpy<float, 64>")((n // 256 + 1,), (256,), (n, np.float32(2), x, tmp))
    scale = module.get_function("scale")
    scale.max_dynamic_shared_size_bytes = 100_000
    scale((8, 2), (128,), (y[10:], n - 10, 255, 0.5, np.float16(1.5), True), shared_mem=90_000)
    scale((8, 2), (64,), [other, np.uint64(3), np.int8(-1), np.float64(2), np.float16(2), np.bool_(False)])
    cp.cuda.Device().synchronize()
    cp.cuda.runtime.deviceSynchronize()
    cp.cuda.Stream.null.synchronize()
'''


@pytest.mark.smoke
def test_modules_templates_scratch_and_arguments(grab: Grab) -> None:
    plan = grab(AXPY)
    assert list(plan.kernels) == ["axpy_float_64", "scale"]
    axpy, scale = plan.kernels.values()
    assert (axpy.name, axpy.line, axpy.max_dynamic_shared) == ("axpy<float, 64>", 8, None)
    assert (scale.name, scale.line, scale.max_dynamic_shared) == ("scale", 15, 100_000)
    assert axpy.language is scale.language is Language.CUDA_CPP
    assert [p.name for p in axpy.parameters] == ["n", "a", "x", "y"]
    assert [(p.name, p.size) for p in scale.parameters] == [
        *(("y", 8), ("n", 8), ("b", 1), ("d", 8), ("h", 2), ("flag", 1))
    ]
    first, second, third = plan.launches
    assert first.arguments == (
        Value("int32", 1000, "n"),
        Value("float32", 2.0, "a"),
        Pointer("x", 0, "x"),
        Pointer("scratch0", 0, "y"),
    )
    assert second.arguments == (
        Pointer("y", 40, "y"),
        Value("int64", 990, "n"),
        Value("uint8", 255, "b"),
        Value("float64", 0.5, "d"),
        Value("float16", 1.5, "h"),
        Value("bool", 1, "flag"),
    )
    assert [a.dtype for a in third.arguments[1:]] == [  # type: ignore[union-attr]
        *("uint64", "int8", "float64", "float16", "bool")
    ]
    assert (second.grid, second.block, second.shared_bytes) == ((8, 2, 1), (128, 1, 1), 90_000)
    assert [launch.line for launch in plan.launches] == [29, 32, 33]
    assert plan.buffers["scratch0"].zeroed and not plan.buffers["scratch1"].zeroed
    assert plan.buffers["scratch1"].role is Role.SCRATCH


def test_lines_of_the_code_are_lines_of_the_submission(grab: Grab) -> None:
    ptx = grab(AXPY).kernels["axpy_float_64"].ptx["sm_90a"]
    files = dict(line.split()[1:3] for line in ptx.splitlines() if line.strip().startswith(".file"))
    number = next(n for n, name in files.items() if name == '"submission.py"')
    body = ptx[ptx.index(".weak .entry") if ".weak .entry" in ptx else 0 :]
    lines = {int(line.split()[2]) for line in body.splitlines() if line.strip().startswith(f".loc\t{number} ")}
    assert {8, 10, 11, 12, 13} <= lines
    assert not any("/" in name for name in files.values())


def test_cupys_own_options_are_the_defaults(grab: Grab) -> None:
    text = """
import cupy
CODE = 'extern "C" __global__ void k(float* y) { y[0] = y[1] / y[2]; }'
k = cupy.RawKernel(CODE, "k", options=OPTIONS)
def f(x, y):
    k((1,), (1,), (y,))
"""
    plain = grab(text.replace("OPTIONS", "()")).kernels["k"].ptx["sm_90a"]
    fast = grab(text.replace("OPTIONS", "('--use_fast_math', '--maxrregcount', '40', '-lineinfo', '-G')"))
    assert "div.rn.ftz.f32" in plain and ".maxnreg" not in plain
    assert "div.approx.ftz.f32" in fast.kernels["k"].ptx["sm_90a"] and ".maxnreg 40" in fast.kernels["k"].ptx["sm_90a"]


def test_clusters_come_from_the_code(grab: Grab, refuse: Refuse) -> None:
    text = """
import cupy
k = cupy.RawKernel('extern "C" __global__ void __cluster_dims__(4, 1, 1) k(float* y) { y[0] = 1; }', "k")
def f(x, y):
    k((GRID,), (32,), (y,))
"""
    assert grab(text.replace("GRID", "8")).launches[0].cluster == (4, 1, 1)
    failure = refuse(text.replace("GRID", "6"))
    assert failure.status is CaptureStatus.LAUNCH_ERROR and "cluster" in failure.message


@pytest.mark.parametrize(
    "code",
    ["f'''\\n%s\\n'''", "'''\\n%s\\n'''.replace('TILE', str(TILE))", "('''\\n%s\\n''' * 1)"],
    ids=["f", "r", "*"],
)
def test_lines_survive_how_the_text_is_made(code: str, refuse: Refuse) -> None:
    body = '// one\\n// two\\nextern "C" __global__ void k(float* y)\\n{ y[0] = oops; }\\n// end\\n// end'
    if code.startswith("f"):
        body = body.replace("{ ", "{{ ").replace(" }", " }}")
    text = f"import cupy\nTILE = 32\nCODE = {code % body}\nk = cupy.RawKernel(CODE, 'k')\ndef f(x, y):\n".replace(
        "\\n", "\n"
    )
    failure = refuse(text + "    k((1,), (1,), (y,))\n")
    assert failure.status is CaptureStatus.COMPILE_ERROR and "oops" in failure.message
    assert failure.line == 7


def test_code_from_nowhere_is_compiled_without_lines(grab: Grab) -> None:
    text = """
import cupy
CODE = "\\n".join(['extern "C" __global__ void k(float* y)', '{', 'y[0] = 1;', '}'])
k = cupy.RawKernel(CODE, "k")
def f(x, y):
    k((1,), (1,), (y,))
"""
    kernel = grab(text).kernels["k"]
    assert kernel.line == 0 and '"submission.py"' not in kernel.ptx["sm_90a"]


def test_numba_and_cupy_in_one_plan(grab: Grab) -> None:
    plan = grab(
        """
        import cupy
        from numba import cuda
        k = cupy.RawKernel('extern "C" __global__ void k(float* y) { y[0] = 1; }', "k")

        @cuda.jit
        def n(x, y):
            y[0] = x[0]

        def f(x, y):
            tmp = cupy.empty(10, cupy.float32)
            k((1,), (1,), (tmp,))
            n[1, 1](tmp, y)
        """
    )
    assert [k.language for k in plan.kernels.values()] == [Language.CUDA_CPP, Language.NUMBA]
    assert set(plan.versions) == {"nvrtc", "nvvm", "numba-cuda"}
    assert all(v.count(".") == 2 for v in plan.versions.values())


INLINED = '''
import cupy as cp

SOURCE = r"""
__device__ float halves(float v)
{
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
    return v;
}
extern "C" __global__ void sums(const float* x, float* y) { y[threadIdx.x] = halves(x[threadIdx.x]); }
"""

def f(x, y):
    cp.RawKernel(SOURCE, "sums", OPTIONS)((1,), (32,), (x, y))
'''


@pytest.mark.parametrize("options", ["()", "('-G',)"])
def test_a_kernel_with_an_inlined_function_assembles(grab: Grab, options: str) -> None:
    """Its lines name the function by a label of the section .debug_str."""
    plan = assemble(grab(INLINED.replace("OPTIONS", options)), "sm_90a")
    (kernel,) = plan.kernels.values()
    assert kernel.cubins["sm_90a"].image
