"""Kernels of our own that the measurements need: a load on each ceiling, an L2 sweep, and a spin to hide launches.

They are CUDA C++ compiled by NVRTC for the GPU at hand when first used, which takes some two seconds, and kept.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from cuda.bindings import nvrtc
from cuda.core import Device, Kernel, LaunchConfig, ObjectCode, Program, ProgramOptions, Stream, launch

from warplab.folders import TRUSTED
from warplab.plan import cache as kept

SOURCE = r"""
typedef unsigned int u32; typedef unsigned long long u64;

// One 16-byte element a thread, as many small blocks as there is work: faster than loops and wider steps on an H200.
extern "C" __global__ void __launch_bounds__(256) copy(const uint4* __restrict__ in, uint4* __restrict__ out, u64 n) {
    u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = in[i];
}

// Sixteen independent chains a thread keep all four schedulers of an SM issuing FMAs; two warps a scheduler suffice.
extern "C" __global__ void __launch_bounds__(512) fma_fp32(float* out, float a, float b, int steps) {
    float x[16];
    for (int i = 0; i < 16; ++i) x[i] = a * (threadIdx.x + i);
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            #pragma unroll
            for (int i = 0; i < 16; ++i) x[i] = fmaf(x[i], a, b);
        }
    }
    float sum = 0;
    for (int i = 0; i < 16; ++i) sum += x[i];
    if (sum == 12345.678f) out[threadIdx.x] = sum;
}

// Reads n elements so that the L2 holds only their clean lines.
extern "C" __global__ void sweep(const uint4* in, u32* out, u64 n) {
    u32 sum = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        uint4 v = in[i];
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u) out[0] = sum;
}

// The global timer moves in the steps in which events count, so what follows would always begin at the same point of a
// step; some cycles more, another number each time, let it begin anywhere.
extern "C" __global__ void spin(u64 nanoseconds, u64 cycles) {
    u64 begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - begin < nanoseconds);
    u64 start = clock64();
    while (clock64() - start < cycles) {}
}

// Watches the clock for a while. A step that takes longer than `jump` means that the SMs were given to someone else.
extern "C" __global__ void watch(u64 nanoseconds, u64 jump, u64* seen) {
    u64 begin, last, now, lost = 0, jumps = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    last = begin;
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now - last > jump) { lost += now - last; jumps += 1; }
        last = now;
    } while (now - begin < nanoseconds);
    seen[0] += now - begin;
    seen[1] += lost;
    seen[2] += jumps;
}

__device__ u32 half_bits(u32 x) {  // a half near [-2, 2] from a hash: tensor cores draw less power on zeros
    x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; x ^= x >> 16;
    return (x & 0x83ff83ffu) | 0x3c003c00u;
}

__device__ u32 code_bits(u32 x) {  // four e4m3 in [-2, 2] from a hash
    return (half_bits(x) * 0x9e3779b1u & 0x87878787u) | 0x38383838u;
}

#if __CUDA_ARCH__ == 900
// One warpgroup a 64 x 256 tile, operands in shared memory, nothing loaded in the loop: the peak of wgmma. A step is
// four products of 32 bytes along k, which are 16 halves or 32 e4m3.
template <int FP8> __device__ void tensor_peak(float* out, int steps) {
    __shared__ alignas(1024) u32 tile[(64 + 256) * 128 / 4];
    for (u32 i = threadIdx.x; i < sizeof(tile) / 4; i += blockDim.x) {
        u32 number = i + blockIdx.x * 65537u;
        tile[i] = FP8 ? code_bits(number) : half_bits(number);
    }
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    u32 address = (u32)__cvta_generic_to_shared(tile);
    // 128-byte swizzle, 1024 bytes between groups of eight rows (PTX ISA, wgmma matrix descriptor)
    u64 a = (u64)((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
    u64 b = (u64)(((address + 64 * 128) & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
    float d[128];
    #pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0.f;
    for (int s = 0; s < steps; ++s) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (FP8) { WGMMA_E4M3(d, a + 2 * k, b + 2 * k); }
            else { WGMMA_F16(d, a + 2 * k, b + 2 * k); }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < 128; ++i) sum += d[i];
    if (sum == 12345.678f) out[threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(384) tensor_fp16(float* out, int steps) { tensor_peak<0>(out, steps); }
extern "C" __global__ void __launch_bounds__(384) tensor_fp8(float* out, int steps) { tensor_peak<1>(out, steps); }
#elif __CUDA_ARCH__ >= 750
// Eight independent m16n8k16 products a warp and step, of m16n8k8 on Turing.
extern "C" __global__ void __launch_bounds__(384) tensor_fp16(float* out, int steps) {
    u32 a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = half_bits(threadIdx.x * 7 + i);
    for (int i = 0; i < 2; ++i) b[i] = half_bits(threadIdx.x * 11 + i);
    float d[8][4] = {};
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int t = 0; t < 8; ++t)
#if __CUDA_ARCH__ < 800
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                "{%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#else
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
    }
    float sum = 0;
    for (int t = 0; t < 8; ++t) for (int i = 0; i < 4; ++i) sum += d[t][i];
    if (sum == 12345.678f) out[threadIdx.x] = sum;
}
#if __CUDA_ARCH__ >= 890
// The same with m16n8k32 of e4m3.
extern "C" __global__ void __launch_bounds__(384) tensor_fp8(float* out, int steps) {
    u32 a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = code_bits(threadIdx.x * 7 + i);
    for (int i = 0; i < 2; ++i) b[i] = code_bits(threadIdx.x * 11 + i);
    float d[8][4] = {};
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int t = 0; t < 8; ++t)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    float sum = 0;
    for (int t = 0; t < 8; ++t) for (int i = 0; i < 4; ++i) sum += d[t][i];
    if (sum == 12345.678f) out[threadIdx.x] = sum;
}
#endif
#endif
"""

FMA_FLOPS_PER_STEP = 8 * 16 * 2  # a thread
TENSOR_THREADS = 384


def _wgmma_macros() -> str:
    """WGMMA_F16 and WGMMA_E4M3: 64 x 256 outputs, both operands in shared memory, accumulating into 128 floats."""
    registers = ",".join(f"%{i}" for i in range(128))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(128))
    macros = ""
    # FP8 operands always have k along their lines; halves could have it across, and say that they do not
    for name, k, transposed in (("f16", 16, ", 0, 0"), ("e4m3", 32, "")):
        macros += (
            f"#define WGMMA_{name.upper()}(d, a, b) asm volatile("
            f'"wgmma.mma_async.sync.aligned.m64n256k{k}.f32.{name}.{name} {{{registers}}}, %128, %129, 1, 1, 1'
            f'{transposed};" : {outputs} : "l"(a), "l"(b))\n'
        )
    return macros


def source() -> str:
    """All of them, for NVRTC to compile for any architecture."""
    return _wgmma_macros() + SOURCE


@cache
def kernel(name: str) -> Kernel:
    """One of the kernels above, loaded on the current device."""
    return module().get_kernel(name)


@cache
def module() -> ObjectCode:
    """All of them for the current device, compiled if this is their first use on this machine."""
    major, minor = Device().compute_capability
    architecture = f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")
    text, compiler = source(), ".".join(str(part) for part in nvrtc.nvrtcVersion()[1:])
    key = kept.key_of(text, architecture, compiler)
    image = kept.read(TRUSTED, key)
    if image is None:
        image = Program(text, "c++", ProgramOptions(std="c++17", arch=architecture)).compile("cubin").code
        kept.write(TRUSTED, key, image)
    return ObjectCode.from_cubin(image, name="trusted")


def tensor_flops_per_step(name: str, compute_capability: tuple[int, int]) -> int:
    """Floating-point operations of one block's step of `tensor_fp16` or `tensor_fp8`."""
    k = 32 if name == "tensor_fp8" else 16 if compute_capability >= (8, 0) else 8
    if compute_capability == (9, 0):
        return TENSOR_THREADS // 128 * 4 * 2 * 64 * 256 * k
    return TENSOR_THREADS // 32 * 8 * 2 * 16 * 8 * k


def run(stream: Stream, name: str, grid: int, block: int, *arguments: object) -> None:
    """Queue a trusted kernel. Integers are passed as 64-bit unless given as NumPy scalars."""
    launch(stream, LaunchConfig(grid=grid, block=block), kernel(name), *arguments)


def spin(stream: Stream, microseconds: float, cycles: int = 0) -> None:
    """Keep the GPU busy so that what is queued behind it starts without waiting for the host; then `cycles` more."""
    run(stream, "spin", 1, 1, np.uint64(microseconds * 1000), np.uint64(cycles))
