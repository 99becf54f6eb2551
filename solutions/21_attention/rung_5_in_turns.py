"""attention, rung 5: softmax of one tile beside the products of others, in blocks that stay.

Three things are new. A warpgroup issues the scores of a tile before the values' product of the previous tile, and makes
weights while that product is in flight. The two warpgroups issue in turns, by named barriers, so that one computes
powers while the tensor cores work for the other. And a block stays on each SM: its copies of the next queries and keys
are in flight while results are stored.
"""

import math

import cupy
import numpy as np

from warplab.ptx import tensor_map

QUERIES, KEYS, STAGES = 128, 128, 2  # as in the source below
THREADS = 3 * 128


def registers(kind, first, count):
    """The operands of an inline assembly: `%first` to `%(first + count - 1)`, and how C names them."""
    return ", ".join(f"%{first + i}" for i in range(count)), ", ".join(f'"+f"({kind}[{i}])' for i in range(count))


def module(width):
    """The kernel for heads of `width`."""
    sums = width // 2  # of a thread
    names_s, operands_s = registers("s", 0, 64)
    names_o, operands_o = registers("o", 0, sums)
    of_products = rf"""
// s (64 x 128) = a (64 x 16) b (16 x 128), added to s if `add`: the lines of both run along the head.
__device__ void multiply_keys(float (&s)[64], u64 a, u64 b, int add)
{{
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{names_s}}}, %64, %65, p, 1, 1, 0, 0; }}"
                 : {operands_s} : "l"(a), "l"(b), "r"(add));
}}
// o (64 x WIDTH) += a (64 x 16) b (16 x WIDTH): `a` in registers, laid out like sums; the lines of b run across.
__device__ void multiply_values(float (&o)[SUMS], const u32* a, u64 b)
{{
    asm volatile("wgmma.mma_async.sync.aligned.m64n{width}k16.f32.f16.f16 {{{names_o}}}, "
                 "{{%{sums}, %{sums + 1}, %{sums + 2}, %{sums + 3}}}, %{sums + 4}, 1, 1, 1, 1;"
                 : {operands_o} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}}
"""
    options = "-std=c++17", "-arch=sm_90a", f"-DWIDTH={width}"
    kernel = cupy.RawModule(code=SOURCE.replace("// PRODUCTS", of_products), options=options).get_function("attention")
    kernel.max_dynamic_shared_size_bytes = shared_bytes(width)
    return kernel


def shared_bytes(width):
    """A tile of queries, a ring of keys, a ring of values, and what it takes to begin at a multiple of 1,024."""
    return 2 * width * (QUERIES + 2 * STAGES * KEYS) + 1024


SOURCE = r"""
#include <cuda_fp16.h>

typedef unsigned u32;
typedef unsigned long long u64;
constexpr int QUERIES = 128, KEYS = 128, STAGES = 2, CONSUMERS = 2;
constexpr int SUMS = WIDTH / 2;               // of a thread, of 64 x WIDTH
constexpr u32 PART_BYTES = KEYS * 128;        // a copy brings 128 rows of 64 elements: the span of the swizzle
constexpr u32 TILE_BYTES = KEYS * WIDTH * 2;  // of keys, of values, or of queries

struct alignas(64) Map { u64 words[16]; };

// ---- One instruction each ------------------------------------------------------------------------------------------

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ void expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
// A tile of 128 rows of a head, in parts of 64 columns, to shared memory; its bytes count at the barrier.
__device__ void load(u32 to, const Map& map, int row, int head, u32 barrier)
{
    expect(barrier, TILE_BYTES);
    for (int part = 0; part < WIDTH / 64; ++part)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4}], [%5];" :: "r"(to + part * PART_BYTES), "l"(&map), "r"(64 * part),
                     "r"(row), "r"(head), "r"(barrier) : "memory");
}
// Where wgmma finds lines of 128 bytes: eight of them are 1,024 bytes, the next 64 columns PART_BYTES further.
__device__ u64 descriptor(u32 address)
{
    return u64((address & 0x3FFFF) >> 4) | u64(PART_BYTES >> 4) << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
// PRODUCTS
__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ u32 pack(float low, float high)
{
    half2 both = __floats2half2_rn(low, high);
    return *(u32*)&both;
}
__device__ float largest_of_four(float x)  // of the lanes that share a row
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float sum_of_four(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// Warpgroups 0 and 1 take turns: each waits for its own barrier, and arrives at the other's.
__device__ void wait_for_turn(int group) { asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory"); }
__device__ void pass_turn(int group) { asm volatile("bar.arrive %0, 256;" :: "r"(2 - group) : "memory"); }

// ---- Scores to weights ---------------------------------------------------------------------------------------------

// What a thread knows of one of its two rows.
struct Row {
    float largest = -1e30f, total = 0;  // of the scores so far; of the weights, of this thread's columns
};

// Make weights of the thread's scores of a row (s[4 j + first] and the next). Returns what earlier sums shrink by.
template <int FIRST> __device__ float weigh(float (&s)[64], Row& row, float scale)
{
    float largest = row.largest;
#pragma unroll
    for (int i = FIRST; i < 64; i += 4) largest = fmaxf(largest, fmaxf(s[i], s[i + 1]));
    largest = largest_of_four(largest);
    float shrink = power_of_two((row.largest - largest) * scale), offset = largest * scale, total = 0;
#pragma unroll
    for (int i = FIRST; i < 64; i += 4) {
        s[i] = power_of_two(s[i] * scale - offset);
        s[i + 1] = power_of_two(s[i + 1] * scale - offset);
        total += s[i] + s[i + 1];
    }
    row.largest = largest;
    row.total = row.total * shrink + total;
    return shrink;
}

// Hide keys from `end` on from the scores of a row; `key` is that of s[first].
template <int FIRST> __device__ void hide(float (&s)[64], int key, int end)
{
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        if (key + 8 * i >= end) s[4 * i + FIRST] = -1e30f;
        if (key + 8 * i + 1 >= end) s[4 * i + FIRST + 1] = -1e30f;
    }
}

__device__ void pack_all(u32 (&weights)[32], const float (&s)[64])
{
#pragma unroll
    for (int j = 0; j < 32; ++j) weights[j] = pack(s[2 * j], s[2 * j + 1]);
}

// ---- A warpgroup that copies, and two that compute -----------------------------------------------------------------

// Stages that are filled and emptied in the same order by everybody.
struct Ring {
    u32 data, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage = 0;
    u32 phase = 0;

    __device__ u32 tile() const { return data + stage * TILE_BYTES; }
    __device__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
    __device__ void bring(const Map& map, int row, int head)
    {
        wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
        load(tile(), map, row, head, full + 8 * stage);
        advance();
    }
    __device__ void wait_full() const { wait(full + 8 * stage, phase); }
    __device__ void hand_back()
    {
        if (threadIdx.x % 32 == 0) arrive(empty + 8 * stage);
        advance();
    }
};

// The queries and the head that number `number` of all stands for, and how many tiles of keys they see. Heads come in
// groups whose keys and values fit into L2; in a group the queries with the most tiles come first.
struct Work {
    int row0, head, tiles;

    __device__ Work(int number, int n, int heads, int causal, int group)
    {
        int blocks = (n + QUERIES - 1) / QUERIES, first = number / (group * blocks) * group;
        int size = min(group, heads - first), within = number - first * blocks;
        row0 = (blocks - 1 - within / size) * QUERIES;
        head = first + within % size;
        tiles = ((causal ? min(n, row0 + QUERIES) : n) + KEYS - 1) / KEYS;
    }
};

__device__ void scores(float (&s)[64], u64 q, u64 k)
{
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step) {
        int at = step / 4 * (PART_BYTES / 16) + step % 4 * 2;
        multiply_keys(s, q + at, k + at, step > 0);
    }
    commit_products();
}

__device__ void add_values(float (&o)[SUMS], const u32 (&weights)[32], u64 v)
{
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step) multiply_values(o, weights + 4 * step, v + 128 * step);
    commit_products();
}

extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ Map map_q, const __grid_constant__ Map map_k, const __grid_constant__ Map map_v,
          half* out, int n, int heads, int causal, int group, float scale)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 + 4 * STAGES];
    u32 queries = (shared_address(memory) + 1023) & ~1023u, keys = queries + TILE_BYTES;
    u32 full_q = shared_address(barriers), empty_q = full_q + 8, first = full_q + 16;
    Ring ring_k = {keys, first, first + 8 * STAGES};
    Ring ring_v = {keys + STAGES * TILE_BYTES, first + 16 * STAGES, first + 24 * STAGES};
    int warpgroup = threadIdx.x / 128, number = blockIdx.x, all = (n + QUERIES - 1) / QUERIES * heads;
    if (threadIdx.x == 0) {
        init(full_q, 1);
        init(empty_q, 4 * CONSUMERS);
        for (int s = 0; s < STAGES; ++s) {
            init(ring_k.full + 8 * s, 1);
            init(ring_v.full + 8 * s, 1);
            init(ring_k.empty + 8 * s, 4 * CONSUMERS);
            init(ring_v.empty + 8 * s, 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Tiles come from the last to the first: only the last one has keys to hide.
    u32 phase = 0;  // of the queries
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            for (; number < all; number += gridDim.x, phase ^= 1) {
                Work work(number, n, heads, causal, group);
                wait(empty_q, phase ^ 1);
                load(queries, map_q, work.row0, work.head, full_q);
                for (int tile = work.tiles - 1; tile >= 0; --tile) {
                    ring_k.bring(map_k, tile * KEYS, work.head);
                    ring_v.bring(map_v, tile * KEYS, work.head);
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int lane = threadIdx.x % 32, mine = warpgroup - 1;
    int below = 64 * mine + threadIdx.x % 128 / 32 * 16 + lane / 4, pair = lane % 4 * 2;
    u64 q = descriptor(queries + mine * 64 * 128);
    float s[64], o[SUMS];
    u32 weights[32];
    if (mine == 1) pass_turn(mine);
    for (; number < all; number += gridDim.x, phase ^= 1) {
        Work work(number, n, heads, causal, group);
        int row = work.row0 + below;  // and row + 8
        Row upper, lower;
#pragma unroll
        for (int j = 0; j < SUMS; ++j) o[j] = 0;

        wait(full_q, phase);
        ring_k.wait_full();
        begin_products();
        scores(s, q, descriptor(ring_k.tile()));
        wait_products<0>();
        ring_k.hand_back();
        int key = (work.tiles - 1) * KEYS + pair;
        hide<0>(s, key, causal ? min(n, row + 1) : n);
        hide<2>(s, key, causal ? min(n, row + 9) : n);
        weigh<0>(s, upper, scale);
        weigh<2>(s, lower, scale);
        pack_all(weights, s);
        for (int tile = work.tiles - 2; tile >= 0; --tile) {
            ring_k.wait_full();
            wait_for_turn(mine);
            begin_products();
            scores(s, q, descriptor(ring_k.tile()));
            ring_v.wait_full();
            add_values(o, weights, descriptor(ring_v.tile()));
            pass_turn(mine);
            wait_products<1>();  // the scores are there; the values' product is in flight
            ring_k.hand_back();
            float shrink = weigh<0>(s, upper, scale), shrink_below = weigh<2>(s, lower, scale);
            wait_products<0>();
            ring_v.hand_back();
#pragma unroll
            for (int j = 0; j < SUMS; ++j) o[j] *= j % 4 < 2 ? shrink : shrink_below;
            pack_all(weights, s);
        }
        if (lane == 0) arrive(empty_q);
        ring_v.wait_full();
        begin_products();
        add_values(o, weights, descriptor(ring_v.tile()));
        float part = 1 / sum_of_four(upper.total), part_below = 1 / sum_of_four(lower.total);
        wait_products<0>();
        ring_v.hand_back();
        half* to = out + ((long long)work.head * n + row) * WIDTH + pair;
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j) {
            if (row < n) *(u32*)(to + 8 * j) = pack(o[4 * j] * part, o[4 * j + 1] * part);
            u32 next = pack(o[4 * j + 2] * part_below, o[4 * j + 3] * part_below);
            if (row + 8 < n) *(u32*)(to + 8 * WIDTH + 8 * j) = next;
        }
    }
    if (mine == 0) wait_for_turn(mine);  // for the last turn that the other passed
}
"""

SMS = 132  # of an H100 or H200; a block stays on each
L2_BYTES = 32 << 20  # of keys and values that may be in use at a time
KERNELS = {64: module(64), 128: module(128)}


def attention(q, k, v, causal, out):
    """out = softmax(q k^T / sqrt(d)) v for each head; with causal != 0 query i sees keys 0 to i."""
    heads, n, d = q.shape
    maps = [tensor_map(array, (1, 128, 64), swizzle=128) for array in (q, k, v)]
    scale = np.float32(math.log2(math.e) / math.sqrt(d))  # powers of two take the place of exponentials
    group = min(heads, max(1, L2_BYTES // (4 * n * d)))
    blocks = min(SMS, (n + QUERIES - 1) // QUERIES * heads)
    sizes = (np.int32(n), np.int32(heads), np.int32(causal), np.int32(group), scale)
    KERNELS[d]((blocks,), (THREADS,), (*maps, out, *sizes), shared_mem=shared_bytes(d))
