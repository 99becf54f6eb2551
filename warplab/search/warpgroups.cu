// c = a b in float16 with sums in float32, by wgmma: CONSUMERS warpgroups, each with 64 rows of a tile of TILE_M x
// TILE_N, and one warp whose first lane brings the tiles by tensor copies. A block takes tile after tile. A cluster is
// CLUSTER blocks with tiles above each other, which share b, or SPLITS blocks with parts of k of the same tile, which
// add up their sums through shared memory. k and n are multiples of 8. It is rung 14 of lab 08, with more to choose.
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define TILE_M (64 * CONSUMERS)
#define TILE_K 64
#define THREADS (128 * CONSUMERS + 32)
#define GROUP 8  // rows of tiles, or of pairs of tiles, that are computed together
#define A_BYTES (TILE_M * TILE_K * 2)
#define PART_BYTES (TILE_K * 64 * 2)  // 64 columns of b: rows of 128 bytes, the span of the swizzle
#define PARTS (TILE_N / 64)
#define STAGE_BYTES (A_BYTES + PARTS * PART_BYTES)
#define PITCH (TILE_N + 8)  // floats from row to row of sums in shared memory: quads of lanes use other banks
#define OUT_BYTES (16 * 128)  // 16 rows of 64 columns, what a warp stores at once

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
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
__device__ void arrive_at(u32 barrier, u32 rank)  // at the barrier in the same place of another block of the cluster
{
#if CLUSTER == 1
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
#else
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(barrier), "r"(rank) : "memory");
#endif
}
__device__ void sync_blocks()  // of a cluster, or the threads of a block alone
{
#if CLUSTER * SPLITS == 1
    __syncthreads();
#else
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
__device__ void load(const Map& map, u32 to, u32 barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void load_to_all(const Map& map, u32 to, u32 barrier, int x, int y)  // the same place in every block
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((short)((1 << CLUSTER) - 1)) : "memory");
}
__device__ void store(const Map& map, u32 from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Where a matrix lies, for wgmma: address, distance of parts (`leading`), 1024 bytes from eight rows to the next eight,
// rows of 128 bytes swizzled (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", matrix descriptor).
__device__ u64 descriptor(u32 at, u32 leading)
{
    return u64((at & 0x3FFFF) >> 4) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}
// d (64 x TILE_N) = a (64 x 16) b (16 x TILE_N), added to d if `add`; b has its columns side by side ("transposed").
__device__ void multiply(float (&d)[SUMS], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " FLAG ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32.f16.f16 {" REGISTERS "}, " INPUTS
                 ", p, 1, 1, 0, 1; }" : OPERANDS : "l"(a), "l"(b), "r"(add));
}
template <int N> __device__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
__device__ u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
__device__ float4 read_peer(u32 address, u32 rank)  // shared memory of another block of the cluster
{
    float4 r;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w) : "r"(address), "r"(rank) : "memory");
    return r;
}

// Down the columns of GROUP rows of tiles, then back through the next GROUP rows, which meets b again in the L2.
__device__ void place(int tile, int rows, int columns, int& row, int& column)
{
    int first = tile / (GROUP * columns) * GROUP, height = min(rows - first, GROUP);
    row = first + tile % (GROUP * columns) % height;
    column = tile % (GROUP * columns) / height;
    if (first / GROUP % 2) column = columns - 1 - column;
}

extern "C" __global__ void
#if CLUSTER * SPLITS > 1
__cluster_dims__(CLUSTER * SPLITS, 1, 1)
#endif
__launch_bounds__(THREADS)
NAME(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_c,
     uint2* c, int m, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    u32 rank = 0;
    if (CLUSTER * SPLITS > 1) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    sync_blocks();  // nobody signals a peer whose barriers are not there yet

    int rows = (m + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER), columns = (n + TILE_N - 1) / TILE_N;
    int first = blockIdx.x / (CLUSTER * SPLITS), next = gridDim.x / (CLUSTER * SPLITS), tiles = rows * columns;
    u32 above = rank % CLUSTER, part_of_k = rank / CLUSTER;
    int all_steps = (k + TILE_K - 1) / TILE_K, start = part_of_k * all_steps / SPLITS;
    int steps = (part_of_k + 1) * all_steps / SPLITS - start;
    u32 stage = 0, phase = 0;
    if (warp == 4 * CONSUMERS) {
        if (lane == 0) {
            for (int tile = first; tile < tiles; tile += next) {
                int row, column;
                place(tile, rows, columns, row, column);
                row = (row * CLUSTER + above) * TILE_M, column *= TILE_N;
                for (int step = start; step < start + steps; ++step) {
                    wait(empty + 8 * stage, phase ^ 1);  // passes at once the first time round
                    u32 signal = full + 8 * stage, to = base + stage * STAGE_BYTES;
                    expect(signal, STAGE_BYTES);
                    load(map_a, to, signal, step * TILE_K, row);
                    for (int part = above; part < PARTS; part += CLUSTER) {  // a share of b, to all
                        u32 place = to + A_BYTES + part * PART_BYTES;
                        if (CLUSTER > 1) load_to_all(map_b, place, signal, column + 64 * part, step * TILE_K);
                        else load(map_b, place, signal, column + 64 * part, step * TILE_K);
                    }
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
        __syncwarp();
    } else {
        u32 mine = warp / 4 * (A_BYTES / CONSUMERS);
        u32 out = base + STAGES * STAGE_BYTES + warp * 2 * OUT_BYTES;  // two pieces of 16 x 64 a warp
        u32 out_row = out + lane % 16 * 128, half = lane / 16, turn = lane % 8;
        u32 piece = 0;  // where the next one goes: they alternate, from tile to tile too
        float d[SUMS];
        for (int tile = first; tile < tiles; tile += next) {
            int row, column;
            place(tile, rows, columns, row, column);
            row = (row * CLUSTER + above) * TILE_M + 16 * warp, column *= TILE_N;
            u32 before = stage;
            for (int step = 0; step < steps; ++step) {
                wait(full + 8 * stage, phase);
                u32 at = base + stage * STAGE_BYTES;
                u64 a = descriptor(at + mine, 16), b = descriptor(at + A_BYTES, PART_BYTES);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                #pragma unroll
                for (int i = 0; i < TILE_K / 16; ++i)  // 16 steps of k: 32 bytes of a's rows, 16 rows of b
                    multiply(d, a + 2 * i, b + 128 * i, step > 0 || i > 0);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                if (step > 0) {
                    wait_products<1>();  // those of the step before: this step's stay in flight
                    if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
                }
                before = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
            wait_products<0>();
            if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
#if SPLITS == 1
            #pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");  // what it held last
                __syncwarp();
                #pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const float* s = d + 32 * part + 8 * q;
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :: "r"(out_row + piece + (((2 * q + half) ^ turn) << 4)), "r"(pack(s[0], s[1])),
                                    "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
                if (lane == 0) store(map_c, out + piece, column + 64 * part, row);
                piece ^= OUT_BYTES;
            }
#else
            asm volatile("bar.sync 2, %0;" :: "n"(128 * CONSUMERS) : "memory");  // all have read the last stage
            float* sums = (float*)(memory + (base - shared_address(memory)));
            float* to = sums + (16 * warp + lane / 4) * PITCH + lane % 4 * 2;
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j) {
                *(float2*)(to + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
                *(float2*)(to + 8 * PITCH + 8 * j) = make_float2(d[4 * j + 2], d[4 * j + 3]);
            }
#endif
        }
        if (SPLITS == 1 && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
    if (SPLITS > 1) {  // every block adds up some rows of the tile, always in the same order
        sync_blocks();
        int row, column, quads = TILE_N / 4, top = rank * TILE_M / SPLITS;
        place(first, rows, columns, row, column);
        for (int i = threadIdx.x; i < TILE_M / SPLITS * quads; i += THREADS) {
            u32 at = base + ((top + i / quads) * PITCH + i % quads * 4) * 4;
            float4 sum = read_peer(at, 0);
            #pragma unroll
            for (int s = 1; s < SPLITS; ++s) {
                float4 more = read_peer(at, s);
                sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
            }
            int y = row * TILE_M + top + i / quads, x = column * TILE_N + i % quads * 4;
            if (y < m && x < n) c[((u64)y * n + x) / 4] = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
        }
    }
    sync_blocks();  // no block leaves while a peer may still signal or read it
}
