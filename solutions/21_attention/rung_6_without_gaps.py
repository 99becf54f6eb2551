"""attention, rung 6: no pause between the queries of a block, and blocks take work as they get free.

Rung 5 leaves the tensor cores idle between the last values of some queries and the first scores of the next. Here a
warpgroup issues both together, and stores results while those scores are made: through shared memory, by tensor copies,
from where the queries lay. Queries have two buffers. With a causal mask some blocks of rung 5 have more to do than
others. Here each takes its next queries from a counter.
"""

import math

import cupy
import numpy as np

from warplab.ptx import tensor_map

QUERIES, KEYS, KEY_STAGES, VALUE_STAGES = 128, 128, 2, 2  # as in the source below
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
    """Two tiles of queries, a ring of keys, a ring of values, and what it takes to begin at a multiple of 1,024."""
    return 2 * width * (2 * QUERIES + (KEY_STAGES + VALUE_STAGES) * KEYS) + 1024


SOURCE = r"""
#include <cuda_fp16.h>

typedef unsigned u32;
typedef unsigned long long u64;
constexpr int QUERIES = 128, KEYS = 128, KEY_STAGES = 2, VALUE_STAGES = 2, CONSUMERS = 2;
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
// The other way: 16 rows of a head, which a warp has put into shared memory.
__device__ void store(const Map& map, u32 from, int row, int head)
{
    for (int part = 0; part < WIDTH / 64; ++part)
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                     :: "l"(&map), "r"(64 * part), "r"(row), "r"(head), "r"(from + part * PART_BYTES) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ void wait_stores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
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

// Make weights of the thread's scores of both rows: s[4 j] and s[4 j + 1] are of the upper one, the next two of the
// lower one. Gives what earlier sums shrink by. Sums in two parts keep more instructions in flight.
__device__ void weigh(float (&s)[64], Row (&rows)[2], float (&shrink)[2], float scale)
{
    float largest[2][2] = {{rows[0].largest, -1e30f}, {rows[1].largest, -1e30f}}, total[2][2] = {}, offset[2];
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
        float& part = largest[i / 2 % 2][i / 4 % 2];
        part = fmaxf(part, fmaxf(s[i], s[i + 1]));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float both = largest_of_four(fmaxf(largest[r][0], largest[r][1]));
        shrink[r] = power_of_two((rows[r].largest - both) * scale);
        rows[r].largest = both;
        offset[r] = both * scale;
    }
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
        int r = i / 2 % 2;
        s[i] = power_of_two(s[i] * scale - offset[r]);
        s[i + 1] = power_of_two(s[i + 1] * scale - offset[r]);
        total[r][i / 4 % 2] += s[i] + s[i + 1];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) rows[r].total = rows[r].total * shrink[r] + (total[r][0] + total[r][1]);
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
template <int STAGES> struct Ring {
    u32 data, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage = 0;
    u32 phase = 0;

    __device__ void init_all() const
    {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS);
        }
    }
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

// A warp's results, with the queries' buffer in between: `to` is the line of this lane, `from` the warp's first one.
__device__ void store_results(float (&o)[SUMS], Row (&rows)[2], const Map& map, u32 to, u32 from, int row, int head)
{
    int lane = threadIdx.x % 32;
    float upper = 1 / sum_of_four(rows[0].total), lower = 1 / sum_of_four(rows[1].total);
#pragma unroll
    for (int j = 0; j < WIDTH / 16; ++j) {  // 16 columns
        const float* s = o + 8 * j;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(to + j / 4 * PART_BYTES + ((2 * (j % 4) + lane / 16 ^ lane % 8) << 4)),
                        "r"(pack(s[0] * upper, s[1] * upper)), "r"(pack(s[2] * lower, s[3] * lower)),
                        "r"(pack(s[4] * upper, s[5] * upper)), "r"(pack(s[6] * lower, s[7] * lower)) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) store(map, from, row, head);
}

extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ Map map_q, const __grid_constant__ Map map_k, const __grid_constant__ Map map_v,
          const __grid_constant__ Map map_out, u32* taken, int n, int heads, int causal, int group, float scale)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[4 + 2 * KEY_STAGES + 2 * VALUE_STAGES];
    __shared__ int numbers[2];
    u32 queries = (shared_address(memory) + 1023) & ~1023u, keys = queries + 2 * TILE_BYTES;
    u32 full_q = shared_address(barriers), empty_q = full_q + 16, first = full_q + 32;
    u32 values = keys + KEY_STAGES * TILE_BYTES, second = first + 16 * KEY_STAGES;
    Ring<KEY_STAGES> ring_k = {keys, first, first + 8 * KEY_STAGES};
    Ring<VALUE_STAGES> ring_v = {values, second, second + 8 * VALUE_STAGES};
    int warpgroup = threadIdx.x / 128, all = (n + QUERIES - 1) / QUERIES * heads;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            init(full_q + 8 * s, 1);
            init(empty_q + 8 * s, 4 * CONSUMERS);
        }
        ring_k.init_all();
        ring_v.init_all();
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Tiles come from the last to the first: only the last one has keys to hide.
    u32 phase = 0;  // of the queries
    int buffer = 0;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            for (int number = blockIdx.x;;) {
                wait(empty_q + 8 * buffer, phase ^ 1);
                numbers[buffer] = number;
                if (number >= all) {
                    arrive(full_q + 8 * buffer);
                    break;
                }
                Work work(number, n, heads, causal, group);
                load(queries + buffer * TILE_BYTES, map_q, work.row0, work.head, full_q + 8 * buffer);
                number = gridDim.x + atomicInc(taken, all - 1);  // all blocks together take `all`: it ends at 0
                for (int tile = work.tiles - 1; tile >= 0; --tile) {
                    ring_k.bring(map_k, tile * KEYS, work.head);
                    ring_v.bring(map_v, tile * KEYS, work.head);
                }
                phase ^= buffer;
                buffer ^= 1;
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int lane = threadIdx.x % 32, mine = warpgroup - 1, warp_row = 64 * mine + threadIdx.x % 128 / 32 * 16;
    int pair = lane % 4 * 2;
    u64 q = descriptor(queries + mine * 64 * 128);
    u32 results = queries + warp_row * 128;
    float s[64], o[SUMS], shrink[2];
    u32 weights[32];
    if (mine == 1) pass_turn(mine);
    wait(full_q, 0);
    ring_k.wait_full();
    begin_products();
    scores(s, q, descriptor(ring_k.tile()));
    wait_products<0>();
    ring_k.hand_back();
    for (int number = blockIdx.x, begun = 0;; begun = 1) {
        Work work(number, n, heads, causal, group);
        int row = work.row0 + warp_row + lane / 4, key = (work.tiles - 1) * KEYS;  // and row + 8
        Row rows[2];
        if (key + KEYS > (causal ? min(n, work.row0 + warp_row + 1) : n)) {
            hide<0>(s, key + pair, causal ? min(n, row + 1) : n);
            hide<2>(s, key + pair, causal ? min(n, row + 9) : n);
        }
        weigh(s, rows, shrink, scale);
        pack_all(weights, s);
#pragma unroll
        for (int j = 0; j < SUMS; ++j) o[j] = 0;
        if (begun && lane == 0) {  // the results before these have left the other buffer
            wait_stores();
            arrive(empty_q + 8 * (buffer ^ 1));
        }
        __syncwarp();
        for (int tile = work.tiles - 2; tile >= 0; --tile) {
            ring_k.wait_full();
            wait_for_turn(mine);
            begin_products();
            scores(s, q + buffer * (TILE_BYTES / 16), descriptor(ring_k.tile()));
            ring_v.wait_full();
            add_values(o, weights, descriptor(ring_v.tile()));
            pass_turn(mine);
            wait_products<1>();  // the scores are there; the values' product is in flight
            ring_k.hand_back();
            weigh(s, rows, shrink, scale);
            wait_products<0>();
            ring_v.hand_back();
#pragma unroll
            for (int j = 0; j < SUMS; ++j) o[j] *= shrink[j / 2 % 2];
            pack_all(weights, s);
        }
        int next = buffer ^ 1;
        wait(full_q + 8 * next, phase ^ buffer);
        number = numbers[next];
        u32 from = results + buffer * TILE_BYTES, to = from + lane % 16 * 128;
        ring_v.wait_full();
        wait_for_turn(mine);
        if (number >= all) {
            begin_products();
            add_values(o, weights, descriptor(ring_v.tile()));
            pass_turn(mine);
            wait_products<0>();
            store_results(o, rows, map_out, to, from, work.row0 + warp_row, work.head);
            break;
        }
        ring_k.wait_full();
        begin_products();
        add_values(o, weights, descriptor(ring_v.tile()));
        scores(s, q + next * (TILE_BYTES / 16), descriptor(ring_k.tile()));
        pass_turn(mine);
        wait_products<1>();  // the results are there; the next queries' first scores are in flight
        ring_v.hand_back();
        store_results(o, rows, map_out, to, from, work.row0 + warp_row, work.head);
        wait_products<0>();
        ring_k.hand_back();
        phase ^= buffer;
        buffer = next;
    }
    if (lane == 0) wait_stores();
    if (mine == 0) wait_for_turn(mine);  // for the last turn that the other passed
}
"""

SMS = 132  # of an H100 or H200; a block stays on each
L2_BYTES = 32 << 20  # of keys and values that may be in use at a time
KERNELS = {64: module(64), 128: module(128)}
TAKEN = cupy.zeros(1, np.uint32)  # how many queries blocks have taken; 0 again after each launch


def attention(q, k, v, causal, out):
    """out = softmax(q k^T / sqrt(d)) v for each head; with causal != 0 query i sees keys 0 to i."""
    heads, n, d = q.shape
    maps = [tensor_map(array, (1, 128, 64), swizzle=128) for array in (q, k, v)]
    maps.append(tensor_map(out, (1, 16, 64), swizzle=128))
    scale = np.float32(math.log2(math.e) / math.sqrt(d))  # powers of two take the place of exponentials
    group = min(heads, max(1, L2_BYTES // (4 * n * d)))
    blocks = min(SMS, (n + QUERIES - 1) // QUERIES * heads)
    sizes = (np.int32(n), np.int32(heads), np.int32(causal), np.int32(group), scale)
    KERNELS[d]((blocks,), (THREADS,), (*maps, TAKEN, *sizes), shared_mem=shared_bytes(d))
