"""C = A B^T by tcgen05 in CUDA C++, tiles of 128 x 128 x 64, one product after the other; and faulty twins of it."""

from __future__ import annotations

import numpy as np

from warplab.plan.execution import FindingKind
from warplab.plan.model import Argument, Buffer, Kernel, Language, Launch, Parameter, Plan, Pointer, Role, Value

SOURCE = r"""
#include <cuda_fp16.h>

typedef unsigned uint32_t;
typedef unsigned long long uint64_t;

static constexpr int TILE = 128, K_TILE = 64, K_STEP = 16;

__device__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// 128-byte swizzle: rows of 64 halves, eight of them 1024 bytes, pieces of 16 bytes exchanged by the row's number.
__device__ uint64_t descriptor(uint32_t address)
{
    return (uint64_t)(address >> 4) | 1ull << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}

__device__ void load_tile(half* tile, const half* matrix, int row, int k, int width)
{
    for (int piece = threadIdx.x; piece < TILE * K_TILE / 8; piece += blockDim.x) {
        int r = piece / 8, c = piece % 8;
        const uint4* from = (const uint4*)(matrix + (size_t)(row + r) * width + k) + c;
        *((uint4*)tile + r * 8 + (c ^ r % 8)) = *from;
    }
}

extern "C" __global__ void gemm(const half* a, const half* b, float* c, int n, int k)
{
    extern __shared__ __align__(1024) half tiles[];
    __shared__ uint64_t done;
    __shared__ uint32_t memory;
    half *a_tile = tiles, *b_tile = tiles + TILE * K_TILE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" :: "r"(shared(&memory)));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(shared(&done)));
    __syncthreads();
    uint32_t sums = memory;
    uint32_t kinds = 1 << 4 | TILE / 8 << 17 | TILE / 16 << 24;  // f32 sums of f16 products, 128 x 128

    for (int step = 0; step < k / K_TILE; ++step) {
        load_tile(a_tile, a, blockIdx.y * TILE, step * K_TILE, k);
        load_tile(b_tile, b, blockIdx.x * TILE, step * K_TILE, k);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 0; i < K_TILE / K_STEP; ++i)
                asm volatile(
                    "{ .reg .pred p; setp.ne.u32 p, %4, 0;"
                    "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                    :: "r"(sums), "l"(descriptor(shared(a_tile + i * K_STEP))),
                       "l"(descriptor(shared(b_tile + i * K_STEP))), "r"(kinds), "r"(step + i) : "memory");
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                         :: "r"(shared(&done)) : "memory");
        }
        asm volatile(
            "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
            :: "r"(shared(&done)), "r"(step & 1) : "memory");
    }

    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    float* out = c + (size_t)(blockIdx.y * TILE + threadIdx.x) * n + blockIdx.x * TILE;
    for (int column = 0; column < TILE; column += 8) {
        uint32_t r[8], from = sums + column + (warp * 32 << 16);
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                     : "r"(from));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int i = 0; i < 8; ++i)
            out[column + i] = __uint_as_float(r[i]);
    }
    __syncthreads();
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" :: "r"(sums));
}
"""
TILE, TILE_BYTES, THREADS = 128, 2 * 128 * 64 * 2, 128
ARCHITECTURE = "sm_100a"

FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
AFTER = 'asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");'
WAIT_LOAD = 'asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");'
AGAIN = "@!p bra AGAIN; }"
DEALLOC = 'asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" :: "r"(sums));'
# NVRTC names the last line of an asm statement.
LOAD = ': "r"(from));'
PRODUCT = '"r"(step + i)'
BARRIER = '    __syncthreads();\n    if (warp == 0)\n        asm volatile("tcgen05.dealloc'
RACE, OUT, TRAP, ADVISORY = (
    FindingKind.RACE, FindingKind.OUT_OF_BOUNDS, FindingKind.TRAP, FindingKind.ADVISORY,
)  # fmt: skip
TWINS = {  # what is changed, the kind of the finding, words of it, the line that it names
    "no wait": (AGAIN, "}", RACE, "put tcgen05.commit behind that line and wait for its mbarrier", LOAD),
    "no wait for the loads": (WAIT_LOAD, "", ADVISORY, "put tcgen05.wait::ld before this line", ""),
    "no fence behind the wait": (AFTER, "", ADVISORY, "put tcgen05.fence::after_thread_sync", LOAD),
    "no fence for the async proxy": (FENCE, "", RACE, "no fence.proxy.async in between", PRODUCT),
    "nothing deallocated": (DEALLOC, ";", TRAP, "allocates 128 columns of tensor memory that the block", ""),
    "deallocated too early": (BARRIER, BARRIER.removeprefix("    __syncthreads();"), OUT, "been deallocated", LOAD),
    "lanes of the first warp": (" + (warp * 32 << 16)", "", OUT, "from lane 0 on, but this warp", LOAD),
    "too few columns": ("[%0], 128;", "[%0], 64;", OUT, "which are not all allocated", PRODUCT),
    "sums of nothing": ('"r"(step + i)', '"r"(1)', FindingKind.UNINITIALISED, "column 0 of tensor memory", PRODUCT),
    "a size of its own": ("[%0], 128;", "[%0], 100;", TRAP, "power of two from 32 to 512", ""),
    "a shape that is none": ("TILE / 16 << 24", "TILE / 32 * 3 / 2 << 24", TRAP, "m = 96 and n = 128", PRODUCT),
}


def gemm_plan(ptx: str, source: str, m: int, n: int, k: int) -> Plan:
    """A plan of C [m, n] = A [m, k] B [n, k]^T; all multiples of the tile. `ptx` is what NVRTC makes of `source`."""
    arrays = operands(m, n, k) | {"c": np.zeros((m, n), np.float32)}
    buffers = {
        name: Buffer(name, Role.OUTPUT if name == "c" else Role.INPUT, x.dtype.name, x.shape, x.strides)
        for name, x in arrays.items()
    }
    arguments: tuple[Argument, ...] = (
        *(Pointer(name, 0, name) for name in arrays),
        Value("int32", n),
        Value("int32", k),
    )
    sizes = (8, 8, 8, 4, 4)
    kernel = Kernel("gemm", "gemm", Language.CUDA_CPP, tuple(Parameter("", z, z) for z in sizes), {ARCHITECTURE: ptx})
    launch = Launch("gemm", (n // TILE, m // TILE, 1), (THREADS, 1, 1), arguments, TILE_BYTES)
    return Plan("host", {"gemm": kernel}, buffers, (launch,), source, "submission.py")


def operands(m: int, n: int, k: int) -> dict[str, np.ndarray]:
    """Normally distributed halves."""
    rng = np.random.default_rng(7)
    return {"a": rng.normal(size=(m, k)).astype(np.float16), "b": rng.normal(size=(n, k)).astype(np.float16)}
