"""Submissions for the GPU tests, as text."""

AXPY = """
import cupy
import numpy as np
from numba import cuda

KERNEL = cupy.RawKernel(r'''
extern "C" __global__ void axpy(float alpha, const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}''', "axpy")

@cuda.jit
def axpy_numba(alpha, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = alpha * x[i] + y[i]

def cpp(alpha, x, y, out):
    KERNEL((x.size // 256 + 1,), (256,), (np.float32(alpha), x, y, out, np.int32(x.size)))

def numba(alpha, x, y, out):
    axpy_numba[x.size // 256 + 1, 256](np.float32(alpha), x, y, out)

def beyond(alpha, x, y, out):
    KERNEL((x.size // 256 + 1,), (256,), (np.float32(alpha), x, y, out, np.int32(x.size + 1)))

OWN_DATA = cupy.RawKernel(r'''
#include <cooperative_groups.h>
struct S { int n; double d; };
extern "C" __global__ void own(float* out, float* table, const double* ones, S s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[i % 4] + ones[i] + s.n + s.d;
    cooperative_groups::this_grid().sync();
    if (i < 4) table[i] = -1.f;
}''', "own", enable_cooperative_groups=True)

def own_data(alpha, x, y, out):
    s = np.array((100, 0.5), np.dtype([("n", np.int32), ("d", np.float64)], align=True))
    table = cupy.asarray(np.arange(4, dtype=np.float32))
    OWN_DATA((4,), (256,), (out, table, cupy.full(out.size, 2.0), s, out.size), stream=cupy.cuda.Stream())

WILD = cupy.RawKernel(r'''
extern "C" __global__ void wild(float* out) { out[1ll << 40] = 1.f; }''', "wild")

def illegal(alpha, x, y, out):
    WILD((1,), (1,), (out,))

SPIN = cupy.RawKernel(r'''
extern "C" __global__ void spin(volatile float* out) { while (out[0] != 1.f) { } }''', "spin")

def endless(alpha, x, y, out):
    SPIN((1,), (1,), (out,))

EVIL = cupy.RawKernel(r'''
extern "C" __global__ void evil(float* x) { x[0] += 1.f; }''', "evil")

def modifies(alpha, x, y, out):
    numba(alpha, x, y, out)
    EVIL((1,), (1,), (x,))

BIG = cupy.RawKernel(r'''
extern "C" __global__ void big(const float* x, float* out, int n) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[n - 1 - i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[i];
}''', "big")
BIG.max_dynamic_shared_size_bytes = 65536

def reverse(alpha, x, y, out):
    BIG((1,), (256,), (x, out, np.int32(x.size)), shared_mem=4 * x.size)

def scratch(alpha, x, y, out):
    t = cupy.empty(x.shape, np.float32)
    KERNEL((x.size // 256 + 1,), (256,), (np.float32(alpha), x, y, t, np.int32(x.size)))
    KERNEL((x.size // 256 + 1,), (256,), (np.float32(alpha), t, y, out, np.int32(x.size)))

PAIR = cupy.RawModule(code=r'''
__device__ float kept;
extern "C" __global__ void keep(const float* x) { kept = x[0]; }
extern "C" __global__ void give(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = kept; }
''')

def variable(alpha, x, y, out):
    PAIR.get_function("keep")((1,), (1,), (x,))
    PAIR.get_function("give")((1,), (1024,), (out, np.int32(x.size)))
"""
