"""Gradients of all experts' weights in FP8 with scales for blocks, as one launch that no count of tokens changes.

dw[e] = dy[e].T x[e], summed over the tokens of expert e. It is lab 11's product over tokens with lab 09's promotion,
which has one difference here: *both* operands have a scale for 128 tokens of every line (1 x 128, as DeepGEMM has for
gradients of weights), so a block of 128 tokens is scaled by a number for each row and one for each column of its
result. A warpgroup brings boxes of codes and the scales beside them and takes results away, two multiply with wgmma and
promote: a result leaves while the next tile is multiplied. wgmma reads e4m3 along the sum alone, so tokens lie along
the lines of both operands: quantise.py makes them.
"""

import cupy
import numpy as np

from warplab.ptx import tensor_map

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 128, 4  # as in the source below
ROWS, LINE = 64, 32  # of a box of results: a line of 128 bytes has 32 float32
THREADS = 3 * 128
SMS = 132  # of an H100 or H200; a block stays on each
STAGE_BYTES = TILE_K * (TILE_M + TILE_N) + 4 * (TILE_M + TILE_N)
SHARED_BYTES = STAGES * STAGE_BYTES + 4 * TILE_M * TILE_N + 1024  # and what it takes to begin at a multiple of 1,024

kernel = cupy.RawKernel(
    r"""
constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 128, STAGES = 4;
constexpr int CONSUMERS = 2;                                 // warpgroups of four warps, each with 64 rows of a tile
constexpr int STEP = 32;                                     // tokens that one product takes
constexpr unsigned A_BYTES = TILE_M * TILE_K, B_BYTES = TILE_N * TILE_K;   // 128 lines of 128 tokens each
constexpr unsigned CODE_BYTES = A_BYTES + B_BYTES, SCALE_BYTES = 4 * (TILE_M + TILE_N);
constexpr int ROWS = TILE_M / CONSUMERS, LINE = 32;          // of a box of results: lines of 32 float32
constexpr unsigned BOX_BYTES = ROWS * 4 * LINE, HALF_BYTES = TILE_N / LINE * BOX_BYTES;
constexpr int SUMS = TILE_N / 2;                             // that a thread keeps of 64 x TILE_N
constexpr int PAIRS = TILE_N / 8;                            // pairs of neighbouring columns that are a thread's

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
// A box from element x of line y: what is outside of the array comes as zeros.
__device__ void load_box(unsigned to, const Map& map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// A box of shared memory to element x of line y of matrix z: what is outside of the result is left out.
__device__ void store_box(const Map& map, int x, int y, int z, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(z), "r"(from) : "memory");
}
// One lane of a warp whose lanes are together. Behind `if (lane == 0)` the compiler cannot know that one lane is left,
// and puts a loop over lanes around every copy.
__device__ bool elected()
{
    unsigned yes;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
    return yes;
}
__device__ float read(unsigned address)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
    return x;
}
__device__ float2 read_pair(unsigned address)
{
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address) : "memory");
    return x;
}
__device__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// d (64 x 128) += a (64 x 32) b (32 x 128) in e4m3, or d = a b: tokens run along the lines of both in shared memory.
#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
              "+f"(d[i + 6]), "+f"(d[i + 7])
__device__ void multiply(float (&d)[SUMS], u64 a, u64 b, bool add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, p, 1, 1; }"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
                 : "l"(a), "l"(b), "r"((int)add));
}
// Where wgmma finds a matrix of 128-byte swizzled lines: address, and from eight lines to the next eight.
__device__ u64 descriptor(unsigned address)
{
    return (u64)(address >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// One tile: of which expert, its first row and column of dw[expert], how many tokens are summed over and the first one.
struct Tile {
    int expert, row, column, depth, from;
};
struct Groups {
    const int *first, *count;
    int experts, m, n;
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

// Tile `number` of all experts, those of expert 0 first; false behind the last one. All experts have as many: one
// without tokens has a gradient too, of zeros.
__device__ bool find(const Groups& groups, int number, Tile& tile)
{
    int tall = (groups.m + TILE_M - 1) / TILE_M, tiles = tall * ((groups.n + TILE_N - 1) / TILE_N);
    tile.expert = number / tiles;
    if (tile.expert >= groups.experts) return false;
    place(number % tiles, tall, groups.n, tile.row, tile.column);
    tile.from = groups.first[tile.expert];
    tile.depth = groups.count[tile.expert];
    return true;
}

// A stage is full when its copies have come, and empty when all warps of both consumers are done with it. Results lie
// behind the codes of all stages, as both have to begin at multiples of 1,024, and scales behind those.
struct Ring {
    unsigned stages, full, empty;  // shared addresses: of stage 0, and of the first barrier of each kind
    int stage;
    unsigned phase;                // which parity of `full` the stage at hand completes

    __device__ unsigned codes() const { return stages + stage * CODE_BYTES; }
    __device__ unsigned results() const { return stages + STAGES * CODE_BYTES; }
    __device__ unsigned scales() const { return results() + CONSUMERS * HALF_BYTES + stage * SCALE_BYTES; }
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

// Of a consumer's result: where it lies, and the barriers that say that it is there and that it has been read.
struct Half {
    unsigned result, filled, free;

    __device__ Half(const Ring& ring, int number)
        : result(ring.results() + number * HALF_BYTES), filled(ring.empty + 8 * STAGES + 8 * number),
          free(filled + 8 * CONSUMERS)
    {
    }
};

struct Maps {
    const Map &dy, &x, &dy_scale, &x_scale;
};

// The first warp: what a tile needs, 128 tokens at a time. A block of them has a line of scales of its own. All lanes
// count and one issues, as what a lane works out alone is moved to a uniform register for each operand of a copy.
__device__ void produce(Ring& ring, const Maps& maps, const Tile& tile)
{
    for (int k = 0; k < tile.depth; k += TILE_K) {
        wait(ring.empty_barrier(), ring.phase ^ 1);
        unsigned full = ring.full_barrier();
        int token = tile.from + k, block = token / TILE_K;
        if (elected()) {
            arrive_expecting(full, CODE_BYTES + SCALE_BYTES);
            load_box(ring.codes(), maps.dy, token, tile.row, full);
            load_box(ring.codes() + A_BYTES, maps.x, token, tile.column, full);
            load_box(ring.scales(), maps.dy_scale, tile.row, block, full);
            load_box(ring.scales() + 4 * TILE_M, maps.x_scale, tile.column, block, full);
        }
        __syncwarp();
        ring.advance();
    }
}

// sums += d, each element times the scale of its row and that of its column. d[4 j] and d[4 j + 1] are of this
// thread's upper row and of pair j of its columns, the next two of its lower row, eight below, and the same columns.
__device__ void promote(float (&sums)[SUMS], const float (&d)[SUMS], float upper, float lower,
                        const float2 (&columns)[PAIRS])
{
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) {
        sums[4 * j] += d[4 * j] * (upper * columns[j].x);
        sums[4 * j + 1] += d[4 * j + 1] * (upper * columns[j].y);
        sums[4 * j + 2] += d[4 * j + 2] * (lower * columns[j].x);
        sums[4 * j + 3] += d[4 * j + 3] * (lower * columns[j].y);
    }
}

// A consumer: where its lines of dy lie in a stage, and its thread's first row and column within a tile.
struct Own {
    unsigned lines;
    int row, column;
};

// All threads of warpgroup 1 or 2: adds a block of 128 tokens, or the last of a tile, of which `tokens` are left: what
// is behind their last step of 32 is nobody's. While one warpgroup promotes, the other one's products keep the tensor
// cores busy. While products run, shared memory answers late: scales are asked for before, and `beside` is done then.
template <bool WHOLE, typename Beside>
__device__ void add_block(Ring& ring, float (&sums)[SUMS], const Own& of, int tokens, Beside beside)
{
    float d[SUMS];
    float2 columns[PAIRS];
    wait(ring.full_barrier(), ring.phase);
    float upper = read(ring.scales() + 4 * of.row), lower = read(ring.scales() + 4 * (of.row + 8));
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) columns[j] = read_pair(ring.scales() + 4 * (TILE_M + of.column + 8 * j));
    u64 a = descriptor(ring.codes() + of.lines), b = descriptor(ring.codes() + A_BYTES);
    products_begin();
#pragma unroll
    for (int step = 0; step < TILE_K / STEP; ++step)
        if (WHOLE || STEP * step < tokens) multiply(d, a + step * STEP / 16, b + step * STEP / 16, step > 0);
    products_commit();
    beside();
    products_wait();
    __syncwarp();  // all lanes have read their scales when the first hands the stage back
    if (threadIdx.x % 32 == 0) arrive(ring.empty_barrier());
    promote(sums, d, upper, lower, columns);
    ring.advance();
}

// A consumer: its half as boxes have it. A thread's sums are of row `row` of the half and the one eight below, and of
// two columns in every eight from `column` on; a line's pieces of 16 bytes change places by its row.
__device__ void write(const Half& half, unsigned parity, const float (&sums)[SUMS], int row, int column)
{
    wait(half.free, parity);
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) {
        int at = column + 8 * j;
        unsigned to = half.result + at / LINE * BOX_BYTES + row * 128 + (at % LINE / 4 ^ row % 8) * 16 + at % 4 * 4;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};\nst.shared.v2.f32 [%0 + 1024], {%3, %4};"
                     :: "r"(to), "f"(sums[4 * j]), "f"(sums[4 * j + 1]), "f"(sums[4 * j + 2]), "f"(sums[4 * j + 3])
                     : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies read by another proxy than threads write
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(half.filled);
}

// One thread: sends a half away, while its consumer multiplies the next tile.
__device__ void send(const Half& half, unsigned parity, const Map& map_dw, const Tile& tile, int number, int n)
{
    wait(half.filled, parity);
    for (int i = 0; i < TILE_N / LINE && tile.column + i * LINE < n; ++i)
        store_box(map_dw, tile.column + i * LINE, tile.row + number * ROWS, tile.expert, half.result + i * BOX_BYTES);
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
    arrive(half.free);
}

extern "C" __global__ void __launch_bounds__(384, 1)
k_grouped_fp8(const __grid_constant__ Map map_dy, const __grid_constant__ Map map_x,
              const __grid_constant__ Map map_dy_scale, const __grid_constant__ Map map_x_scale,
              const __grid_constant__ Map map_dw, const int* first, const int* count, int experts, int m, int n)
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
    Groups groups = {first, count, experts, m, n};
    Tile tile;
    unsigned round = 0;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        Maps maps = {map_dy, map_x, map_dy_scale, map_x_scale};
        if (warp == 0) {
            int number = blockIdx.x;
            for (bool more = find(groups, number, tile); more;) {
                Tile following;  // asked for before the copies of this one, which wait for consumers
                more = find(groups, number += gridDim.x, following);
                produce(ring, maps, tile);
                tile = following;
            }
        } else if (threadIdx.x % 32 == 0 && warp <= CONSUMERS)
            for (int number = blockIdx.x; find(groups, number, tile); number += gridDim.x)
                send(Half(ring, warp - 1), round++ % 2, map_dw, tile, warp - 1, n);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int thread = threadIdx.x % 128, half = warpgroup - 1;
        int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
        Own own = {half * A_BYTES / CONSUMERS, half * ROWS + row, column};
        int number = blockIdx.x;
        float sums[SUMS];
        for (bool more = find(groups, number, tile); more;) {
            Tile following;
            auto find_next = [&]() { more = find(groups, number += gridDim.x, following); };
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[i] = 0;
            if (tile.depth == 0) find_next();
            int k = 0;
            for (; k + TILE_K <= tile.depth; k += TILE_K)
                add_block<true>(ring, sums, own, TILE_K, [&]() { if (k == 0) find_next(); });
            if (k < tile.depth)
                add_block<false>(ring, sums, own, tile.depth - k, [&]() { if (k == 0) find_next(); });
            write(Half(ring, half), round++ % 2 ^ 1, sums, row, column);
            tile = following;
        }
    }
}
""",
    "k_grouped_fp8",
    options=("-std=c++17", "-arch=sm_90a"),
)
kernel.max_dynamic_shared_size_bytes = SHARED_BYTES


def k_grouped_fp8(dy8, dy_scale, x8, x_scale, first, count, dw):
    """dw[e] = (dy8 dy_scale)[:, tokens of e] @ (x8 x_scale)[:, tokens of e].T for each expert e, summed in float32.

    dy8 (m x slots) and x8 (n x slots) hold e4m3 in uint8; dy_scale (slots / 128 x m) and x_scale (slots / 128 x n),
    float32, have a scale for each 128 slots of every line; dw is experts x m x n in float32. Tokens of e are count[e]
    from first[e] on, a multiple of 128 (both int32, on the device alone). Codes behind them, up to the next multiple of
    32, must be zeros; other slots that are nobody's may hold anything, and so may their blocks' scales. An expert
    without tokens has a gradient of zeros. m and n are multiples of 4 and slots of 128.
    """
    experts, m, n = dw.shape
    maps = (
        tensor_map(dy8, (TILE_M, TILE_K)),
        tensor_map(x8, (TILE_N, TILE_K)),
        tensor_map(dy_scale, (1, TILE_M), swizzle=0),
        tensor_map(x_scale, (1, TILE_N), swizzle=0),
        tensor_map(dw, (1, ROWS, LINE)),
    )
    tiles = experts * -(-m // TILE_M) * -(-n // TILE_N)
    sizes = np.int32(experts), np.int32(m), np.int32(n)
    kernel((min(tiles, SMS),), (THREADS,), (*maps, first, count, *sizes), shared_mem=SHARED_BYTES)
