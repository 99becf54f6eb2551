// Tiles of the chain's products (wide.py): what brings and multiplies them, and which a block takes. wide.cu goes on.
#include <cuda_fp16.h>
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
constexpr u32 ALL = 0xffffffff;
constexpr int HEIGHT = 128, WIDTH = 256, HALF = WIDTH / 2;  // a tile: rows of x, of one expert, and rows of w
constexpr int REST = 16;  // rows that two tiles above each other take besides, at most
constexpr int X_BYTES = HEIGHT * 128, W_BYTES = WIDTH * 128, REST_BYTES = REST * 128;
constexpr int SCALES = HEIGHT + 4, REST_SCALES = REST + 4;  // of x in a stage, from a multiple of four rows on
constexpr int REST_AT = X_BYTES + W_BYTES, SCALES_AT = REST_AT + REST_BYTES, REST_SCALES_AT = SCALES_AT + 4 * SCALES;
constexpr int STAGE_BYTES = SCALES_AT + 1024;  // 1,024: what is swizzled begins there
constexpr int SUMS = WIDTH / 2, PIECE = SUMS / 2;  // of a thread, and of half a tile's columns

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void arrive_at(u32 barrier, u32 rank)  // at the barrier in the same place of a block of the cluster
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(barrier), "r"(rank) : "memory");
}
__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
// Arriving and waiting where numbers change hands: what a warp stored in either block before, who waits sees.
__device__ void release_at(u32 barrier, u32 rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(barrier), "r"(rank) : "memory");
}
__device__ void acquire(u32 barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
__device__ void store_at(u32 address, u32 rank, float value)  // in the same place of a block of the cluster
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.f32 [there], %2; }" :: "r"(address), "r"(rank), "f"(value) : "memory");
}
__device__ void meet_in_group(int consumer)  // its 128 threads
{
    asm volatile("bar.sync %0, 128;" :: "r"(consumer + 1) : "memory");
}
__device__ void meet_blocks()  // of the cluster
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
// One lane of a warp whose lanes are together: behind `if (lane == 0)` the compiler cannot know that one lane is left.
__device__ bool elected()
{
    u32 yes;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
    return yes;
}
__device__ int uniform(int value) { return __shfl_sync(ALL, value, 0); }  // equal in all lanes, and the compiler knows
__device__ void load_rows(const Map& map, u32 to, u32 barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// HALF rows of an expert's w, from number `row` on; with SWIGLU eight gates, their eight values, the next gates, ...
#if SWIGLU
#define AXES "5d"
#define AT "{%2, %3, %3, %4, %5}"
#define PLACE "r"(x), "r"(0), "r"(row / 16), "r"(expert)
#define BARRIER "[%6]"
#define BOTH ", %7"
#else
#define AXES "3d"
#define AT "{%2, %3, %4}"
#define PLACE "r"(x), "r"(row), "r"(expert)
#define BARRIER "[%5]"
#define BOTH ", %6"
#endif
__device__ void load_weights(const Map& map, u32 to, u32 barrier, int x, int row, int expert)
{
    asm volatile("cp.async.bulk.tensor." AXES ".shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, " AT "], " BARRIER ";" :: "r"(to), "l"(&map), PLACE, "r"(barrier) : "memory");
}
__device__ void load_weights_to_both(const Map& map, u32 to, u32 barrier, int x, int row, int expert)
{
    asm volatile("cp.async.bulk.tensor." AXES
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, " AT "], " BARRIER BOTH ";"
                 :: "r"(to), "l"(&map), PLACE, "r"(barrier), "h"((short)3) : "memory");
}
__device__ void load_line(const void* from, u32 to, u32 barrier, u32 bytes)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// Where a matrix of 128-byte swizzled rows lies: address, and in the upper half, which all share, 1,024 bytes from
// eight rows to the next eight.
constexpr u64 SWIZZLED = 64ull << 32 | 1ull << 62;
__device__ u64 descriptor(u32 at) { return u64((at & 0x3FFFF) >> 4) | 1ull << 16 | SWIZZLED; }

// d (64 x 128) = a (64 x 32) b (32 x 128) in e4m3, added to d if `add`.
__device__ void multiply(float (&d)[PIECE], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" REGISTERS "}, %64, %65, p, 1, 1; }"
                 : OPERANDS : "l"(a), "l"(b), "r"(add));
}
__device__ void multiply_block(float (&d)[PIECE], u64 a, u64 b)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 4; ++i) multiply(d, a + 2 * i, b + 2 * i, i > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// d (64 x 16) = w (64 x 128) x^T (16 x 128): the other way round than a tile's products, since 64 is the least that a
// product can have of its left side.
__device__ void multiply_rest(float (&d)[8], u64 w, u64 x)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1; }"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                     : "l"(w + 2 * i), "l"(x + 2 * i), "r"((int)(i > 0)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ float read_shared(u32 at)
{
    float r;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(r) : "r"(at) : "memory");
    return r;
}
// What a block of k is scaled by: the thread's upper and lower row of x, times w's panel of even and of odd eights of
// columns, which are gates and values, or the same panel.
struct Scales { float upper[2], lower[2]; };

__device__ void promote(float* sums, const float (&d)[PIECE], const Scales& s)
{
    #pragma unroll
    for (int i = 0; i < PIECE; ++i) sums[i] += d[i] * (i % 4 < 2 ? s.upper[i / 4 % 2] : s.lower[i / 4 % 2]);
}
__device__ u32 pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *(u32*)&pair;
}

// What one tile is: rows of x from `row` on and before `end`, columns of the product from `column` on; `shared` if the
// other block of the cluster has the same columns. Both blocks then take REST rows from `rest` on besides, half of the
// columns each, or none if it is negative.
struct Tile { int expert, row, end, column, before, rest; bool shared; };

// What find takes as `room`: REST, or 0 where a row of tiles of their own for such rows costs at most a sixteenth more
// rounds of all clusters. Turns that take them besides are longer, and some clusters have more of these than others.
__device__ int room_for_rest(const int* count, int experts, int across)
{
    int with_pairs = 0, of_their_own = 0;  // rows of tiles
    for (int e = threadIdx.x % 32; e < experts; e += 32) {
        int rows = count[e], whole = rows / (2 * HEIGHT), rest = rows - whole * 2 * HEIGHT;
        int tall = (rows + HEIGHT - 1) / HEIGHT;
        with_pairs += rest <= REST * whole ? 2 * whole : tall;
        of_their_own += tall;
    }
    int clusters = gridDim.x / 2, turns = (across + 1) / 2;  // for a row of tiles
    with_pairs = __reduce_add_sync(ALL, with_pairs) * turns;
    of_their_own = __reduce_add_sync(ALL, of_their_own) * turns;
    int rounds_of_their_own = (of_their_own + clusters - 1) / clusters;
    return 16 * rounds_of_their_own > 17 * ((with_pairs + clusters - 1) / clusters) ? REST : 0;
}

// The tile of this block, block `rank` of its cluster, in turn `number` of all clusters' turns; false behind the last
// one. Numbers only grow: the search goes on at the expert of the tile before. A cluster takes two tiles above each
// other, which share w, or, of the last row of tiles if their number is odd, two side by side: for two columns of tiles
// as many turns as an expert has rows of tiles. Tiles that share w come one after another. The few rows that are left
// behind whole pairs of tiles need no tile of their own, which would bring all of w for them: pairs take `room` of them
// each, if it is not 0, others in the next two columns of tiles, so that no cluster has them always.
__device__ bool find(const int* first, const int* count, int experts, int across, int room, int number, int rank,
                     Tile& tile)
{
    for (; tile.expert < experts; ++tile.expert) {
        int rows = count[tile.expert], whole = rows / (2 * HEIGHT), rest = rows - whole * 2 * HEIGHT;
        bool spread = rest <= room * whole;
        int tall = spread ? 2 * whole : (rows + HEIGHT - 1) / HEIGHT, turns = tall * ((across + 1) / 2);
        if (number < tile.before + turns) {
            int at = (number - tile.before) % tall, column = (number - tile.before) / tall * 2, pairs = tall / 2;
            tile.shared = at < 2 * pairs;
            int row = tile.shared ? at % pairs * 2 + rank : tall - 1;
            column += tile.shared ? at / pairs : rank;
            tile.column = column * WIDTH, tile.row = first[tile.expert] + row * HEIGHT;
            tile.end = first[tile.expert] + (column < across ? rows : 0);
            int behind = first[tile.expert] + whole * 2 * HEIGHT + (at + column / 2) % max(pairs, 1) * room;
            tile.rest = spread && behind < tile.end ? behind : -1;
            return true;
        }
        tile.before += turns;
    }
    return false;
}
