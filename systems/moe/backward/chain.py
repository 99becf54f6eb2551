"""The backward pass of a mixture-of-experts layer in bf16, as seven launches that no count of rows changes.

Two products of groups do the work. `rows_grouped` is that of the forward pass with weights as they lie in memory,
summed over their rows: dy w. `k_grouped` sums over the tokens of an expert: its gradient of weights is dy^T x, whose
depth is as many rows as the expert has, known to the device only. Both are one persistent launch of lab 11's form: a
warpgroup that brings boxes with the tensor memory accelerator and takes results away by it, and two that multiply with
wgmma, so that a result leaves while the next tile is multiplied. Tokens lie along neither operand's lines in
`k_grouped`, so both are read across (wgmma has transpose bits for 16-bit formats).
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 3  # as in the source below
BOX = 64  # elements of a 128-byte line, and lines of a box
THREADS = 3 * 128
SMS = 132  # of an H100 or H200; a block stays on each
RESULT_BYTES = 2 * TILE_M * TILE_N
SHARED_BYTES = STAGES * 2 * TILE_K * (TILE_M + TILE_N) + RESULT_BYTES + 1024  # to begin at a multiple of 1,024

PRODUCTS = r"""
#include <cuda_bf16.h>

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, STAGES = 3, BOX = 64, CONSUMERS = 2;
constexpr unsigned BOX_BYTES = BOX * 128;                        // 64 lines of 64 bf16
constexpr unsigned A_BYTES = TILE_M / BOX * BOX_BYTES, B_BYTES = TILE_N / BOX * BOX_BYTES;
constexpr unsigned STAGE_BYTES = A_BYTES + B_BYTES;
constexpr unsigned HALF_BYTES = TILE_N / BOX * BOX_BYTES;        // of a tile's result: the 64 rows of a consumer
constexpr int SUMS = TILE_N / 2;                                 // that a thread keeps of 64 x TILE_N

struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ void arrive_expecting(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
// One lane of a warp. Behind `if (lane == 0)` the compiler would put a loop over lanes around every copy.
__device__ bool elected()
{
    unsigned yes;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
    return yes;
}
// A box from element x of line y, and of matrix z of several: what is outside of the array comes as zeros.
__device__ void load_box(unsigned to, const Map& map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void load_box(unsigned to, const Map& map, int x, int y, int z, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}
// A box of shared memory to where it lies in the result: what is outside of that is left out.
__device__ void store_box(const Map& map, int x, int y, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
__device__ void store_box(const Map& map, int x, int y, int z, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(z), "r"(from) : "memory");
}
__device__ unsigned pack(float low, float high)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
// d (64 x 256) += a (64 x 16) b (16 x 256) in bf16. b's lines run across k; a's do if ACROSS, else along it.
#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
              "+f"(d[i + 6]), "+f"(d[i + 7])
template <bool ACROSS> __device__ void multiply(float (&d)[SUMS], u64 a, u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, 1, 1, 1, %130, 1;"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56),
                   D8(64), D8(72), D8(80), D8(88), D8(96), D8(104), D8(112), D8(120)
                 : "l"(a), "l"(b), "n"((int)ACROSS));
}
// Where wgmma finds 128-byte swizzled lines: the address, from eight lines to the next eight, and, for lines across k,
// from one box of 64 columns to the next.
__device__ u64 descriptor(unsigned address)
{
    return (u64)(address >> 4) | (u64)(BOX_BYTES >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// One tile: of which expert, its first row and column of the result, where rows end; the sum's depth, and the row of a
// (and, over tokens, of b) with which it begins. `before` is the number of the expert's first tile.
struct Tile {
    int expert, row, column, end, depth, from, before;
};
struct Groups {
    const int *first, *count;
    int experts, m, n, k;  // m: rows of every expert's result over tokens; k: depth of every expert's over rows
};

// Number `number` of a result's tiles, `tall` of them high: eight rows of tiles down, then to the next column.
__device__ void place(int number, int tall, int n, int& row, int& column)
{
    constexpr int GROUP = 8;
    int across = (n + TILE_N - 1) / TILE_N;
    int first = number / (GROUP * across) * GROUP, height = min(tall - first, GROUP);
    int within = number % (GROUP * across);
    row = (first + within % height) * TILE_M;
    column = within / height * TILE_N;
}

// Tile `number` of all experts; false behind the last one. Over rows an expert has as many as its rows need, over
// tokens all have the same: one without tokens has a gradient too, of zeros.
template <bool ACROSS> __device__ bool find(const Groups& groups, int number, Tile& tile)
{
    int across = (groups.n + TILE_N - 1) / TILE_N;
    for (; tile.expert < groups.experts; ++tile.expert) {
        int count = groups.count[tile.expert], first = groups.first[tile.expert];
        int tall = ((ACROSS ? groups.m : count) + TILE_M - 1) / TILE_M;
        if (number < tile.before + tall * across) {
            place(number - tile.before, tall, groups.n, tile.row, tile.column);
            tile.from = first;
            tile.end = ACROSS ? groups.m : count;
            tile.depth = ACROSS ? count : groups.k;
            return true;
        }
        tile.before += tall * across;
    }
    return false;
}

struct Ring {
    unsigned stages, full, empty;
    int stage;
    unsigned phase;

    __device__ unsigned data() const { return stages + stage * STAGE_BYTES; }
    __device__ unsigned full_barrier() const { return full + 8 * stage; }
    __device__ unsigned empty_barrier() const { return empty + 8 * stage; }
    __device__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

// The first warp: the boxes of a tile, 64 of the depth at a time. All lanes count and one issues, as what a lane works
// out alone is moved to a uniform register for each operand of a copy.
template <bool ACROSS> __device__ void produce(Ring& ring, const Map& map_a, const Map& map_b, const Tile& tile)
{
    for (int k = 0; k < tile.depth; k += TILE_K) {
        wait(ring.empty_barrier(), ring.phase ^ 1);
        unsigned full = ring.full_barrier(), to = ring.data();
        if (elected()) {
            arrive_expecting(full, STAGE_BYTES);
            for (int i = 0; i < TILE_M / BOX; ++i, to += BOX_BYTES) {
                if (ACROSS) load_box(to, map_a, tile.row + i * BOX, tile.from + k, full);
                else load_box(to, map_a, k, tile.from + tile.row + i * BOX, full);
            }
            for (int i = 0; i < TILE_N / BOX; ++i, to += BOX_BYTES) {
                if (ACROSS) load_box(to, map_b, tile.column + i * BOX, tile.from + k, full);
                else load_box(to, map_b, tile.column + i * BOX, k, tile.expert, full);
            }
        }
        __syncwarp();
        ring.advance();
    }
}

// Of a consumer's result: where it lies, and the barriers that say that it is there and that it has been read.
struct Half {
    unsigned result, filled, free;

    __device__ Half(const Ring& ring, int number)
        : result(ring.stages + STAGES * STAGE_BYTES + number * HALF_BYTES),
          filled(ring.empty + 8 * STAGES + 8 * number), free(filled + 8 * CONSUMERS)
    {
    }
};

// Whether a half leaves in boxes: over rows, what is behind an expert's last one is another's.
template <bool ACROSS> __device__ bool boxed(const Tile& tile, int number)
{
    return ACROSS || tile.row + BOX * (number + 1) <= tile.end;
}

// One thread: sends a half away, while its consumer multiplies the next tile.
template <bool ACROSS> __device__ void send(const Half& half, unsigned parity, const Map& map_y, const Tile& tile,
                                            int number, int n)
{
    wait(half.filled, parity);
    int row = tile.row + BOX * number;
    for (int i = 0; i < TILE_N / BOX && tile.column + i * BOX < n; ++i) {
        unsigned from = half.result + i * BOX_BYTES;
        if (ACROSS) store_box(map_y, tile.column + i * BOX, row, tile.expert, from);
        else store_box(map_y, tile.column + i * BOX, tile.from + row, from);
    }
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
    arrive(half.free);
}

// Both consumers: tokens from `left` on are the next expert's, or nobody's and anything. A step takes 16 of them, so
// lines up to the next multiple become zeros, in both operands, as NaN times zero would stay.
__device__ void clear_tail(unsigned stage, int left)
{
    int pieces = ((left + 15) / 16 * 16 - left) * 8, boxes = (TILE_M + TILE_N) / BOX;
    for (int i = threadIdx.x - 128; i < pieces * boxes; i += 256) {
        unsigned at = stage + i / pieces * BOX_BYTES + left * 128 + i % pieces * 16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(0) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads by another proxy than threads write
    asm volatile("bar.sync 1, 256;" ::: "memory");
}

// Both consumers: sums of 64 x 256. While a product is in flight the next stage is awaited, at the first `beside` done.
template <bool ACROSS, typename Beside>
__device__ void consume(Ring& ring, float (&sums)[SUMS], unsigned mine, const Tile& tile, Beside beside)
{
    bool leader = threadIdx.x % 32 == 0;
    unsigned before = 0;  // the barrier of the stage that the product in flight reads
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    if (tile.depth == 0) beside();
    for (int k = 0; k < tile.depth; k += TILE_K) {
        wait(ring.full_barrier(), ring.phase);
        int left = min(tile.depth - k, TILE_K);
        if (ACROSS && left % 16) clear_tail(ring.data(), left);
        u64 a = descriptor(ring.data() + mine), b = descriptor(ring.data() + A_BYTES);
        products_begin();
#pragma unroll
        // 16 of k: 32 bytes along the lines, or 16 lines. Over rows all that is behind the depth came as zeros
        for (int step = 0; step < TILE_K / 16; ++step)
            if (!ACROSS || 16 * step < left) multiply<ACROSS>(sums, a + step * (ACROSS ? 128 : 2), b + step * 128);
        products_commit();
        if (k == 0) beside();
        products_wait<1>();
        if (leader && before) arrive(before);
        before = ring.empty_barrier();
        ring.advance();
    }
    products_wait<0>();
    if (leader && before) arrive(before);
}

// A consumer: its half as boxes have it, in swizzled lines of 64 columns.
__device__ void write(const Half& half, unsigned parity, const float (&sums)[SUMS])
{
    wait(half.free, parity);
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < TILE_N / 16; ++i) {
        const float* s = sums + 8 * i;
        unsigned at = half.result + i / 4 * BOX_BYTES + row * 128 + ((2 * (i % 4) + lane / 16) ^ row % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(at), "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])),
                        "r"(pack(s[6], s[7])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies read by another proxy than threads write
    __syncwarp();
    if (lane == 0) arrive(half.filled);
}

// A thread's sums to memory: the last rows of an expert.
__device__ void store(__nv_bfloat16* y, const float (&sums)[SUMS], int row, int end, int column, int n)
{
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
        if (column + 8 * j >= n) break;
        __nv_bfloat16* at = y + (long long)row * n + column + 8 * j;
        if (row < end) *(unsigned*)at = pack(sums[4 * j], sums[4 * j + 1]);
        if (row + 8 < end) *(unsigned*)(at + 8ll * n) = pack(sums[4 * j + 2], sums[4 * j + 3]);
    }
}

template <bool ACROSS>
__device__ void products(const Map& map_a, const Map& map_b, const Map& map_y, const Groups& groups, __nv_bfloat16* y)
{
    extern __shared__ char raw[];
    __shared__ u64 barriers[2 * STAGES + 2 * CONSUMERS];
    unsigned first_barrier = shared_address(barriers);
    Ring ring = {(shared_address(raw) + 1023) & ~1023u, first_barrier, first_barrier + 8 * STAGES, 0, 0};
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(ring.full + 8 * s, 1);
            init(ring.empty + 8 * s, 4 * CONSUMERS);
        }
        for (int c = 0; c < CONSUMERS; ++c) {
            init(Half(ring, c).filled, 4);
            init(Half(ring, c).free, 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Lane 0's, which is every lane's: so the compiler knows that no branch on it parts a warp.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), warpgroup = warp / 4;
    Tile tile = {0, 0, 0, 0, 0, 0, 0};
    unsigned round = 0;  // of the halves that leave in boxes
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp == 0) {
            int number = blockIdx.x;
            for (bool more = find<ACROSS>(groups, number, tile); more;) {
                Tile following = tile;  // asked for before the copies of this one, which wait for consumers
                more = find<ACROSS>(groups, number += gridDim.x, following);
                produce<ACROSS>(ring, map_a, map_b, tile);
                tile = following;
            }
        } else if (threadIdx.x % 32 == 0 && warp <= CONSUMERS) {
            Half half(ring, warp - 1);
            for (int number = blockIdx.x; find<ACROSS>(groups, number, tile); number += gridDim.x)
                if (boxed<ACROSS>(tile, warp - 1))
                    send<ACROSS>(half, round++ % 2, map_y, tile, warp - 1, groups.n);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int mine = warpgroup - 1, thread = threadIdx.x % 128, below = mine * BOX + thread / 32 * 16 + thread % 32 / 4;
        Half half(ring, mine);
        float sums[SUMS];
        int number = blockIdx.x;
        for (bool more = find<ACROSS>(groups, number, tile); more;) {
            Tile following = tile;
            consume<ACROSS>(ring, sums, mine * BOX_BYTES, tile,
                            [&]() { more = find<ACROSS>(groups, number += gridDim.x, following); });
            if (boxed<ACROSS>(tile, mine)) write(half, round++ % 2 ^ 1, sums);
            else store(y + (long long)tile.from * groups.n, sums, tile.row + below, tile.end,
                       tile.column + thread % 4 * 2, groups.n);
            tile = following;
        }
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
rows_grouped(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_y,
             const int* first, const int* count, __nv_bfloat16* y, int experts, int n, int k)
{
    products<false>(map_a, map_b, map_y, {first, count, experts, 0, n, k}, y);
}

extern "C" __global__ void __launch_bounds__(384, 1)
k_grouped(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_y,
          const int* first, const int* count, int experts, int m, int n)
{
    products<true>(map_a, map_b, map_y, {first, count, experts, m, n, 0}, nullptr);
}
"""

# What lies between the products. Every thread takes two neighbouring columns; sums are in float32.
BETWEEN = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat162 Pair;
__device__ float2 pair(const __nv_bfloat16* from) { return __bfloat1622float2(*(const Pair*)from); }
__device__ void put(__nv_bfloat16* to, float x, float y) { *(Pair*)to = __floats2bfloat162_rn(x, y); }

// A block for a token: dy = share dout for each of its k rows, and the shares' gradients, dout . y.
extern "C" __global__ void spread(const float* dout, const __nv_bfloat16* y, const int* position, const float* share,
                                  __nv_bfloat16* dy, float* dshare, int k, int d)
{
    __shared__ float sums[8];
    long long token = blockIdx.x;
    for (int i = 0; i < k; ++i) {
        long long row = (long long)position[token * k + i] * d;
        float mine = share[token * k + i], sum = 0;
        for (int j = 2 * threadIdx.x; j < d; j += 512) {
            float2 g = *(const float2*)(dout + token * d + j), v = pair(y + row + j);
            put(dy + row + j, mine * g.x, mine * g.y);
            sum += g.x * v.x + g.y * v.y;
        }
        for (int lane = 16; lane; lane /= 2) sum += __shfl_down_sync(~0u, sum, lane);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int warp = 1; warp < 8; ++warp) sum += sums[warp];
            dshare[token * k + i] = sum;
        }
        __syncthreads();
    }
}

// a = silu(gate) value is made again, and da becomes the gradients of gates and values. f is even.
extern "C" __global__ void swiglu_backward(const __nv_bfloat16* h, const __nv_bfloat16* da, __nv_bfloat16* a,
                                           __nv_bfloat16* dh, int rows, int f)
{
    long long at = 2 * ((long long)blockIdx.x * 256 + threadIdx.x);
    if (at >= (long long)rows * f) return;
    long long gate = at / f * 2 * f + at % f;
    float2 g = pair(h + gate), v = pair(h + gate + f), d = pair(da + at);
    float sx = 1 / (1 + __expf(-g.x)), sy = 1 / (1 + __expf(-g.y));
    put(a + at, g.x * sx * v.x, g.y * sy * v.y);
    put(dh + gate, d.x * v.x * sx * (1 + g.x * (1 - sx)), d.y * v.y * sy * (1 + g.y * (1 - sy)));
    put(dh + gate + f, d.x * g.x * sx, d.y * g.y * sy);
}

// The gradient of a token: the sum of those of its rows, in the order of its choices. d is even.
extern "C" __global__ void unshuffle(const __nv_bfloat16* drows, const int* position, float* dx, int tokens, int k,
                                     int d)
{
    long long at = 2 * ((long long)blockIdx.x * 256 + threadIdx.x), token = at / d;
    if (token >= tokens) return;
    float2 sum = {0, 0};
    for (int i = 0; i < k; ++i) {
        float2 v = pair(drows + (long long)position[token * k + i] * d + at % d);
        sum.x += v.x, sum.y += v.y;
    }
    *(float2*)(dx + at) = sum;
}
"""

OPTIONS = ("-std=c++17", "-arch=sm_90a")
products = cupy.RawModule(code=PRODUCTS, options=OPTIONS)
between = cupy.RawModule(code=BETWEEN, options=OPTIONS)


def by_boxes(array):
    """A map of boxes of 64 lines of 64 bf16 of a matrix, or of one of several."""
    return tensor_map(array, (1,) * (array.ndim - 2) + (BOX, BOX), dtype="bfloat16")


def launch(name, tiles, arrays, arguments):
    """One of the two products on blocks that stay: `arrays` are its operands and its result."""
    kernel = products.get_function(name)
    kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    maps = map(by_boxes, arrays)
    kernel((min(tiles, SMS),), (THREADS,), (*maps, *arguments), shared_mem=SHARED_BYTES)


def rows_grouped(x, w, first, count, y):
    """y[rows of e] = x[rows of e] @ w[e]: bf16 as uint16, x is slots x k, w experts x k x n and y slots x n.

    Rows of e are count[e] from first[e] on (int32, on the device alone); rows of nobody keep what they hold. k and n
    are multiples of 8.
    """
    (slots, k), (experts, _, n) = x.shape, w.shape
    tiles = (slots // TILE_M + experts) * -(-n // TILE_N)  # whatever the counts are
    launch("rows_grouped", tiles, (x, w, y), (first, count, y, np.int32(experts), np.int32(n), np.int32(k)))


def k_grouped(dy, x, first, count, dw):
    """dw[e] = dy[rows of e].T @ x[rows of e]: bf16 as uint16, dy is slots x m, x slots x n and dw experts x m x n.

    Rows of e are count[e] from first[e] on (int32, on the device alone), any number of them: none give zeros. Rows of
    nobody may hold anything, NaN included. m and n are multiples of 8.
    """
    experts, m, n = dw.shape
    tiles = experts * -(-m // TILE_M) * -(-n // TILE_N)
    launch("k_grouped", tiles, (dy, x, dw), (first, count, np.int32(experts), np.int32(m), np.int32(n)))


def backward(dout, x, h, y, up, down, share, position, first, count, dx, dup, ddown, dshare):
    """Gradients of a layer out[t] = sum over i of share[t, i] y[position[t, i]], y = (silu(gate) value) down[e].T.

    bf16 as uint16: x (rows x d) in the experts' order, h = x up[e].T (rows x 2f, gates first), y (rows x d), up
    (experts x 2f x d), down (experts x d x f) and the gradients dup and ddown. float32: dout and dx (tokens x d), share
    and dshare (tokens x k). int32: position (tokens x k), first, count (experts). d and f are multiples of 8.
    """
    (rows, d), f, (tokens, k) = x.shape, down.shape[2], share.shape
    spread, swiglu, unshuffle = (between.get_function(n) for n in ("spread", "swiglu_backward", "unshuffle"))
    dy, drows = (cupy.empty((rows, d), np.uint16) for _ in range(2))
    da, a, dh = (cupy.empty((rows, width), np.uint16) for width in (f, f, 2 * f))
    spread((tokens,), (256,), (dout, y, position, share, dy, dshare, np.int32(k), np.int32(d)))
    rows_grouped(dy, down, first, count, da)
    swiglu((-(-rows * f // 512),), (256,), (h, da, a, dh, np.int32(rows), np.int32(f)))
    k_grouped(dy, a, first, count, ddown)
    rows_grouped(dh, up, first, count, drows)
    k_grouped(dh, x, first, count, dup)
    unshuffle((-(-tokens * d // 512),), (256,), (drows, position, dx, np.int32(tokens), np.int32(k), np.int32(d)))
