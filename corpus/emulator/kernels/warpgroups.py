"""Products of a warpgroup by inline PTX: every type, both sources of A, every swizzle, transposes, groups in flight."""

from typing import NamedTuple

import cupy
import numpy as np


class Form(NamedTuple):
    """One wgmma.mma_async; swizzles as a descriptor has them: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32."""

    name: str
    n: int
    sums: str
    a: str
    b: str
    a_swizzle: int = 0
    b_swizzle: int = 0
    a_across: int = 0
    b_across: int = 0
    registers: bool = False
    scales: str = "1, 1"
    fresh: bool = False  # the first step starts from zero
    modifier: str = ""


FORMS = (
    Form("f16", 64, "f32", "f16", "f16", 1, 1),
    Form("f16_wide", 256, "f32", "f16", "f16", 1, 1),
    Form("f16_narrow", 8, "f32", "f16", "f16"),
    Form("f16_sums", 96, "f16", "f16", "f16", 2, 2),
    Form("bf16", 128, "f32", "bf16", "bf16", 3, 3),
    Form("tf32", 40, "f32", "tf32", "tf32", 1, 2),
    Form("e4m3", 64, "f32", "e4m3", "e4m3", 1, 1),
    Form("e5m2", 24, "f32", "e5m2", "e5m2", 3, 2),
    Form("mixed_fp8_half_sums", 32, "f16", "e5m2", "e4m3", 2, 3),
    Form("s8", 48, "s32", "s8", "s8", 1, 1),
    Form("mixed_integers_saturated", 16, "s32", "u8", "s8", modifier=".satfinite"),
    Form("a_across", 64, "f32", "f16", "f16", 1, 1, 1, 0),
    Form("b_across", 64, "f32", "f16", "f16", 2, 2, 0, 1),
    Form("both_across", 136, "f32", "bf16", "bf16", 3, 3, 1, 1),
    Form("both_across_plain", 24, "f32", "f16", "f16", 0, 0, 1, 1),
    Form("wide_across", 256, "f32", "f16", "f16", 1, 1, 1, 1),
    Form("f16_registers", 64, "f32", "f16", "f16", 0, 1, registers=True),
    Form("f16_registers_across", 72, "f16", "f16", "f16", 0, 3, 0, 1, registers=True),
    Form("tf32_registers", 16, "f32", "tf32", "tf32", 0, 3, registers=True),
    Form("e4m3_registers", 64, "f32", "e4m3", "e5m2", 0, 2, registers=True),
    Form("u8_registers", 32, "s32", "u8", "u8", 0, 0, registers=True),
    Form("minus_a", 64, "f32", "f16", "f16", 1, 1, scales="-1, 1"),
    Form("minus_b", 32, "f32", "bf16", "bf16", 1, 2, scales="1, -1", fresh=True),
    Form("minus_both", 16, "f32", "tf32", "tf32", 2, 1, scales="-1, -1"),
    Form("fresh", 128, "f16", "f16", "f16", 2, 1, fresh=True),
    Form("bits", 48, "s32", "b1", "b1", 1, 1),
    Form("bits_registers", 16, "s32", "b1", "b1", 0, 2, registers=True),
)
A_BYTES, BYTES = 8192, 40960
WIDTH = (1, 8, 4, 2)  # pieces of 16 bytes in a line, by swizzle


def registers(form: Form) -> int:
    """Accumulators of a thread, in 32-bit registers."""
    return form.n // (4 if form.sums == "f16" else 2)


def element_bytes(kind: str) -> int:
    return {"f16": 2, "bf16": 2, "tf32": 4}.get(kind, 1)


def descriptor(rows: int, element: int, swizzle: int, across: int) -> int:
    """All fields but the start: canonical layouts without gaps."""
    atom = 128 * WIDTH[swizzle]
    if across:
        atoms = -(-rows * element // (16 * WIDTH[swizzle]))
        leading, stride = (atom, atom * atoms) if swizzle else (16 * rows, 128)
    else:
        leading, stride = (16, atom) if swizzle else (16 * rows, 128)
    return leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62


def listed(first: int, count: int) -> str:
    return "{" + ",".join(f"%{first + i}" for i in range(count)) + "}"


def source(form: Form) -> str:
    """A kernel that runs one product, or a chain of them along lines of more than 32 bytes."""
    count, element = registers(form), element_bytes(form.a)
    b_steps = 1 if form.b_across else max(WIDTH[form.b_swizzle] // 2, 1)
    a_steps = b_steps if form.registers else 1 if form.a_across else max(WIDTH[form.a_swizzle] // 2, 1)
    rest = "" if form.sums == "s32" else f", {form.scales}"
    if form.a in ("f16", "bf16"):
        rest += ("" if form.registers else f", {form.a_across}") + f", {form.b_across}"
    k, operation = (256, ".and.popc") if form.a == "b1" else (32 // element, "")
    inputs = 4 if form.registers else 1
    left = listed(count, 4) if form.registers else f"%{count}"
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, %{count + inputs + 1}, 0; wgmma.mma_async.sync.aligned.m64n{form.n}"
        f"k{k}{form.modifier}.{form.sums}.{form.a}.{form.b}{operation} {listed(0, count)}, {left}, "
        f"%{count + inputs}, p{rest}; }}"
    )
    sums = ", ".join(f'"+r"(c[{i}])' for i in range(count))
    a_inputs = ", ".join(f'"r"(x[{i}])' for i in range(4)) if form.registers else '"l"(a + 2 * step)'
    return f"""
extern "C" __global__ void {form.name}(const uint4* image, const unsigned* xs, const unsigned* cs, unsigned* out)
{{
    __shared__ __align__(1024) uint4 tile[{BYTES // 16}];
    int t = threadIdx.x;
    for (int i = t; i < {BYTES // 16}; i += 128) tile[i] = image[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long start = (unsigned)__cvta_generic_to_shared(tile) >> 4;
    unsigned long long a = {descriptor(64, element, form.a_swizzle, form.a_across)}ull + start;
    unsigned long long b = {descriptor(form.n, element, form.b_swizzle, form.b_across)}ull + start + {A_BYTES // 16};
    unsigned c[{count}], x[4];
    for (int i = 0; i < 4; ++i) x[i] = xs[i * 128 + t];
    for (int i = 0; i < {count}; ++i) c[i] = cs[i * 128 + t];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < {min(a_steps, b_steps)}; ++step)
        asm volatile("{text}" : {sums} : {a_inputs}, "l"(b + 2 * step), "r"({"step" if form.fresh else "1"}));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {count}; ++i) out[i * 128 + t] = c[i];
}}
"""


PRODUCTS = r"""
typedef unsigned long long Descriptor;
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")

// d += a b, 64 x 64 x 16; b lies across (rows of k).
__device__ void multiply(float* d, Descriptor a, Descriptor b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 1;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

__device__ Descriptor described(const void* tile)
{
    // Lines of 128 bytes under the 128-byte swizzle, eight of them 1024 bytes apart.
    return ((unsigned)__cvta_generic_to_shared(tile) >> 4) | 64ull << 16 | 64ull << 32 | 1ull << 62;
}

// One slice of 64 x 64 halves to lines of 128 bytes, whose pieces are exchanged as the swizzle wants it.
__device__ void put(uint4* tile, const uint4* from, int pitch)
{
    for (int i = threadIdx.x; i < 512; i += 128) {
        int line = i / 8, piece = i % 8;
        tile[line * 8 + (piece ^ line % 8)] = from[line * pitch + piece];
    }
}

__device__ void store(const float* d, float* c, int n)
{
    int t = threadIdx.x, row = t / 32 * 16 + t % 32 / 4;
    for (int i = 0; i < 32; ++i) c[(row + i / 2 % 2 * 8) * n + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}

// c = a b: tiles of 64 x 64, slices of 64 along k in two stages; one group is in flight while the next slice is stored.
extern "C" __global__ void product(const uint4* a, const uint4* b, float* c, int n, int k)
{
    __shared__ __align__(1024) uint4 as[2][512], bs[2][512];
    float d[32] = {};
    a += blockIdx.y * 64 * k / 8;
    b += blockIdx.x * 8;
    for (int slice = 0; slice < k / 64; ++slice) {
        put(as[slice % 2], a + slice * 8, k / 8);
        put(bs[slice % 2], b + slice * 64 * n / 8, n / 8);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        Descriptor left = described(as[slice % 2]), right = described(bs[slice % 2]);
        FENCE();
        for (int step = 0; step < 4; ++step) multiply(d, left + 2 * step, right + 128 * step);
        COMMIT();
        WAIT(1);
        __syncthreads();
    }
    WAIT(0);
    store(d, c + blockIdx.y * 64 * n + blockIdx.x * 64, n);
}

// Two products at the same time, into sums of their own: the first one's are stored while the second is in flight.
extern "C" __global__ void two_in_flight(const uint4* a, const uint4* b, float* c)
{
    __shared__ __align__(1024) uint4 as[512], bs[512];
    float first[32] = {}, second[32] = {};
    put(as, a, 8);
    put(bs, b, 8);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    Descriptor left = described(as), right = described(bs);
    FENCE();
    for (int step = 0; step < 2; ++step) multiply(first, left + 2 * step, right + 128 * step);
    COMMIT();
    for (int step = 2; step < 4; ++step) multiply(second, left + 2 * step, right + 128 * step);
    COMMIT();
    WAIT(1);
    store(first, c, 64);
    WAIT(0);
    store(second, c + 4096, 64);
}

// As pipelines do: one warp waits for the product and hands both tiles back; the others overwrite them upon that.
// The last warp comes late to the product.
extern "C" __global__ void handed_back(const uint4* a, const uint4* b, float* c)
{
    __shared__ __align__(1024) uint4 as[512], bs[512];
    __shared__ unsigned long long free;
    int t = threadIdx.x;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&free);
    put(as, a, 8);
    put(bs, b, 8);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t >= 96)
        for (int i = 0; i < 100; ++i) __nanosleep(10000);
    float d[32] = {};
    Descriptor left = described(as), right = described(bs);
    FENCE();
    for (int step = 0; step < 4; ++step) multiply(d, left + 2 * step, right + 128 * step);
    COMMIT();
    if (t < 32) {
        WAIT(0);
        if (t == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(barrier) : "memory");
    } else {
        int done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                : "=r"(done) : "r"(barrier) : "memory");
        for (int i = t - 32; i < 512; i += 96) as[i] = bs[i] = make_uint4(i, i, i, i);
    }
    WAIT(0);
    store(d, c, 64);
}

// Warpgroups of a block work on rows of their own with the same b.
extern "C" __global__ void warpgroups(const uint4* a, const uint4* b, float* c)
{
    __shared__ __align__(1024) uint4 as[2][512], bs[512];
    int group = threadIdx.x / 128, t = threadIdx.x % 128;
    for (int i = threadIdx.x; i < 1536; i += 256) {
        int line = i / 8 % 64, piece = i % 8, which = i / 512;
        uint4* tile = which < 2 ? as[which] : bs;
        tile[line * 8 + (piece ^ line % 8)] = which < 2 ? a[i] : b[i - 1024];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float d[32] = {};
    Descriptor left = described(as[group]), right = described(bs);
    FENCE();
    for (int step = 0; step < 4; ++step) multiply(d, left + 2 * step, right + 128 * step);
    COMMIT();
    WAIT(0);
    int row = group * 64 + t / 32 * 16 + t % 32 / 4;
    for (int i = 0; i < 32; ++i) c[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}
"""

module = cupy.RawModule(code="".join(source(form) for form in FORMS) + PRODUCTS)


def warpgroup(image, x, c, out, which):
    """`which` is a place in FORMS."""
    module.get_function(FORMS[which].name)((1,), (128,), (image, x, c, out))


def product(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    module.get_function("product")((n // 64, m // 64), (128,), (a, b, c, np.int32(n), np.int32(k)))


def two_in_flight(a, b, c):
    module.get_function("two_in_flight")((1,), (128,), (a, b, c))


def handed_back(a, b, c):
    module.get_function("handed_back")((1,), (128,), (a, b, c))


def warpgroups(a, b, c):
    module.get_function("warpgroups")((1,), (256,), (a, b, c))
