// c = a b in half precision with sums in float32, by wgmma: CONSUMERS warpgroups multiply, and the first lane of one
// more warp loads tiles by tensor copies. A tile has TILE_M = 64 CONSUMERS lines of the left factor and TILE_N of the
// right one: they are a and b or, TURNED, the transposes of b and a, which give c's transpose. Either factor may have
// its lines side by side in memory (LEFT_DOWN, RIGHT_DOWN) or k. A block has the tile of its place in the grid or, where
// blocks stay (STAYS), takes tile after tile. A cluster is CLUSTER blocks with tiles above each other, which share the
// right factor, or SPLITS blocks with parts of k of one tile, which add up their sums through shared memory. TURNS: the
// second consumer waits, so many steps before its end, for the first one, whose results leave meanwhile. LOOSE: rows of
// c begin anywhere, and warps store them instead of tensor copies. APART: the grid's z has parts of k, whose sums go to
// matrices of float32, one behind the other, instead of c.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short half16;
struct alignas(64) Map { char bytes[128]; };  // a CUtensorMap
#define TILE_M (64 * CONSUMERS)
#define TILE_K 64
#define THREADS (128 * CONSUMERS + 32)
#define EARLY (CLUSTER > 1 ? 0 : STAGES < 4 ? STAGES : 4)  // steps whose copies go before the block meets
#define GROUP 8  // rows of tiles, or of pairs of tiles, that are computed together
#define LEFT_BYTES (TILE_M * TILE_K * 2)
#define PART_BYTES (TILE_K * 64 * 2)  // 64 columns of b: rows of 128 bytes, the span of the swizzle
#define PARTS (TILE_N / 64)
#define STAGE_BYTES (LEFT_BYTES + TILE_N * TILE_K * 2)
#define HIGH (TURNED ? TILE_N : TILE_M)  // of the tile, in c
#define WIDE (TURNED ? TILE_M : TILE_N)
#define PITCH (WIDE + (TURNED ? 4 : 8))  // floats from row to row of sums in shared memory: lanes use other banks
#define OUT_BYTES (16 * 128)  // 16 rows of 64 columns, what a warp stores at once
static_assert(!RIGHT_DOWN || TILE_N % 64 == 0, "columns that lie side by side come in parts of 64");
static_assert(!APART || (!TURNED && !STAYS && SPLITS == 1), "parts of k are apart in these forms only");
static_assert(TURNS == 0 || (TURNS < STAGES && CONSUMERS == 2), "consumers in turn need more stages than steps waited");

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
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
__device__ void sync_blocks()  // of a cluster
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
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
// d (64 x TILE_N) = left (64 x 16) right (16 x TILE_N), added to d if `add`. SIDEWAYS: LEFT_DOWN, RIGHT_DOWN.
__device__ void multiply(float (&d)[SUMS], u64 left, u64 right, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " FLAG ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32." TYPE "." TYPE " {" REGISTERS "}, " INPUTS
                 ", p, 1, 1, " SIDEWAYS "; }" : OPERANDS : "l"(left), "l"(right), "r"(add));
}
template <int N> __device__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
__device__ u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
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

// Number i of the two, to row y and column x of c, if there is such a place.
__device__ void put(half16* c, u64 pitch, int y, int x, int m, int n, u32 two, int i)
{
    if (y < m && x < n) c[y * pitch + x] = half16(two >> 16 * i);
}

// By a warp: rows of 64 swizzled elements, from row `first` on, to row y and column x of c, as far as they are in it.
// Words of two where c has them, which in every other row of an odd pitch are of neighbouring words.
__device__ void put_rows(half16* c, u64 pitch, int y, int x, int m, int n, const char* from, int first, int count)
{
    const int lane = threadIdx.x % 32, left = n - x;
    #pragma unroll 4
    for (int r = first; r < first + count; ++r) {
        u32 two = *(const u32*)(from + r * 128 + ((lane / 4 ^ r % 8) << 4) + lane % 4 * 4);
        u32 next = __shfl_down_sync(~0u, two, 1);
        half16* to = c + (y + r - first) * pitch + x;
        int e = 2 * lane;
        if (y + r - first >= m) continue;
        if ((u64)to & 2) {
            if (lane == 0 && left > 0) to[0] = half16(two);
            two = two >> 16 | next << 16, ++e;
        }
        if (e + 1 < left && e < 63) *(u32*)(to + e) = two;
        else if (e < left) to[e] = half16(two);
    }
}

// Where a tile is. Blocks that stay go down the columns of GROUP rows of tiles, then back through the next GROUP rows,
// which meets b again in the L2. For others the grid says it: a division would keep the first copy waiting.
__device__ void place(u32 tile, u32 rows, u32 columns, int& row, int& column)
{
#if STAYS
    u32 group = tile / (GROUP * columns), rest = tile - group * GROUP * columns, first = group * GROUP;
    u32 height = rows - first < GROUP ? rows - first : GROUP;
    column = rest / height;
    row = first + rest - column * height;
    if (group % 2) column = columns - 1 - column;
#else
    row = blockIdx.x / (CLUSTER * SPLITS), column = blockIdx.y;
#endif
}

extern "C" __global__ void
#if CLUSTER * SPLITS > 1
__cluster_dims__(CLUSTER * SPLITS, 1, 1)
#endif
__launch_bounds__(THREADS)
product(half16* c, u64 pitch, int m, int n, int k, const __grid_constant__ Map map_left,
        const __grid_constant__ Map map_right, const __grid_constant__ Map map_c)  // pitch: from row to row of c
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) & ~1023u;
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    u32 rank = 0;
    if (CLUSTER * SPLITS > 1) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int rows = ((TURNED ? n : m) + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER);
    int columns = ((TURNED ? m : n) + TILE_N - 1) / TILE_N;
#if STAYS
    int first = blockIdx.x / CLUSTER, next = gridDim.x / CLUSTER, tiles = rows * columns;
#else
    constexpr int first = 0, next = 1, tiles = 1;  // one, which the grid says
#endif
    u32 above = rank % CLUSTER, part_of_k = APART ? blockIdx.z : rank / CLUSTER;
    const int all_steps = (k + TILE_K - 1) / TILE_K, parts = APART ? gridDim.z : SPLITS;
    int start = part_of_k * all_steps / parts, steps = (part_of_k + 1) * all_steps / parts - start;
    u32 stage = 0, phase = 0;
    bool again = false;  // whether the stage has been used before
    auto advance = [&] {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
            again = true;
        }
    };
    auto bring = [&](int row, int column, int step) {  // what a step of k of a tile needs
        if (again) wait(empty + 8 * stage, phase ^ 1);
        u32 signal = full + 8 * stage, to = base + stage * STAGE_BYTES;
        expect(signal, STAGE_BYTES);
        int l = (row * CLUSTER + above) * TILE_M, r = column * TILE_N, z = (start + step) * TILE_K;
        if (LEFT_DOWN) {
            #pragma unroll
            for (int part = 0; part < CONSUMERS; ++part)
                load(map_left, to + part * PART_BYTES, signal, l + 64 * part, z);
        } else {
            load(map_left, to, signal, z, l);
        }
        if (RIGHT_DOWN) {
            for (int part = above; part < PARTS; part += CLUSTER) {  // a share of the right factor, to all
                u32 at = to + LEFT_BYTES + part * PART_BYTES;
                if (CLUSTER > 1) load_to_all(map_right, at, signal, r + 64 * part, z);
                else load(map_right, at, signal, r + 64 * part, z);
            }
        } else {
            constexpr int SHARE = TILE_N / CLUSTER;
            u32 at = to + LEFT_BYTES + above * SHARE * 128;
            if (CLUSTER > 1) load_to_all(map_right, at, signal, z, r + above * SHARE);
            else load(map_right, at, signal, z, r);
        }
        advance();
    };
    int row, column, in_flight = 0;
    if (threadIdx.x == 128 * CONSUMERS) {  // only what the first copies need goes before them
        #pragma unroll
        for (int s = 0; s < EARLY; ++s) init(full + 8 * s, 1);
        fence_barriers();
        place(first, rows, columns, row, column);
        #pragma unroll 1
        while (in_flight < min(steps, EARLY)) bring(row, column, in_flight++);
        if (SPLITS == 1 && !LOOSE && !APART) asm volatile("prefetch.tensormap [%0];" :: "l"(&map_c) : "memory");
    } else if (threadIdx.x == 0) {
        #pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            if (s >= EARLY) init(full + 8 * s, 1);
            init(empty + 8 * s, 4 * CONSUMERS * CLUSTER);
        }
        fence_barriers();
    }
    __syncwarp();
    if (CLUSTER == 1) __syncthreads();
    else sync_blocks();  // nobody signals a peer whose barriers are not there yet

    if (warp == 4 * CONSUMERS) {
        if (lane == 0) {
            for (int tile = first; tile < tiles; tile += next, in_flight = 0) {
                place(tile, rows, columns, row, column);
                for (int step = in_flight; step < steps; ++step) bring(row, column, step);
            }
        }
        __syncwarp();
    } else {
        u32 mine = warp / 4 * (LEFT_BYTES / CONSUMERS);
#if TURNED
        u32 out = base + STAGES * STAGE_BYTES + warp / 4 * TILE_N * 128;  // TILE_N rows of 64 columns a warpgroup
#else
        u32 out = base + STAGES * STAGE_BYTES + warp * 2 * OUT_BYTES;  // two pieces of 16 x 64 a warp
        u32 out_row = out + lane % 16 * 128, half = lane / 16, turn = lane % 8;
        u32 piece = 0;  // where the next one goes: they alternate, from tile to tile too
#endif
        float d[SUMS];
        for (int tile = first; tile < tiles; tile += next) {
            place(tile, rows, columns, row, column);
            row = (row * CLUSTER + above) * TILE_M, column *= TILE_N;
            u32 before = stage;
            for (int step = 0; step < steps; ++step) {
                if (TURNS && warp >= 4 && step == max(steps - TURNS, 0)) asm volatile("bar.sync 1, 256;" ::: "memory");
                wait(full + 8 * stage, phase);
                u32 at = base + stage * STAGE_BYTES;
                u64 left = descriptor(at + mine, 16), right = descriptor(at + LEFT_BYTES, PART_BYTES);
                // Of 16 steps of k: 32 bytes of rows along k, or 16 rows of lines side by side
                constexpr int NEXT_LEFT = LEFT_DOWN ? 128 : 2, NEXT_RIGHT = RIGHT_DOWN ? 128 : 2;
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                #pragma unroll
                for (int i = 0; i < TILE_K / 16; ++i)
                    multiply(d, left + NEXT_LEFT * i, right + NEXT_RIGHT * i, step > 0 || i > 0);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                if (step > 0) {
                    wait_products<1>();  // those of the step before: this step's stay in flight
                    if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
                }
                before = stage;
                advance();
            }
            if (TURNS && warp < 4) asm volatile("bar.arrive 1, 256;" ::: "memory");
            wait_products<0>();
            if (lane < CLUSTER) arrive_at(empty + 8 * before, lane);
#if APART
            float* to = (float*)c + blockIdx.z * (m * pitch);
            #pragma unroll
            for (int j = 0; j < SUMS / 2; ++j) {
                int y = row + 16 * warp + lane / 4 + j % 2 * 8, x = column + j / 2 * 8 + lane % 4 * 2;
                if (y < m && x < n) *(float2*)(to + y * pitch + x) = make_float2(d[2 * j], d[2 * j + 1]);
            }
#elif SPLITS == 1 && TURNED
            bool first_lane = threadIdx.x % 128 == 0;
            if (first_lane) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // the tile before
            asm volatile("bar.sync %0, 128;" :: "r"(3 + warp / 4) : "memory");
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; j += 2) {
                int y = 8 * j + lane / 16 * 8 + lane % 8, q = warp % 4 * 2 + lane / 8 % 2;
                u32 at = out + y * 128 + ((q ^ y % 8) << 4);
                const float* s = d + 4 * j;
                if (j + 1 < TILE_N / 8)
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :: "r"(at), "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])),
                                    "r"(pack(s[6], s[7])) : "memory");
                else
                    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                                 :: "r"(at), "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])) : "memory");
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            asm volatile("bar.sync %0, 128;" :: "r"(3 + warp / 4) : "memory");
            if (LOOSE)
                put_rows(c, pitch, column + warp % 4 * (TILE_N / 4), row + warp / 4 * 64, m, n,
                         memory + (out - shared_address(memory)), warp % 4 * (TILE_N / 4), TILE_N / 4);
            else if (first_lane) store(map_c, out, row + warp / 4 * 64, column);
#elif SPLITS == 1
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
                if (LOOSE)
                    put_rows(c, pitch, row + 16 * warp, column + 64 * part, m, n,
                             memory + (out + piece - shared_address(memory)), 0, 16);
                else if (lane == 0) store(map_c, out + piece, column + 64 * part, row + 16 * warp);
                piece ^= OUT_BYTES;
            }
#else
            asm volatile("bar.sync 2, %0;" :: "n"(128 * CONSUMERS) : "memory");  // all have read the last stage
            float* sums = (float*)(memory + (base - shared_address(memory)));
#if TURNED
            float* to = sums + lane % 4 * 2 * PITCH + 16 * warp + lane / 4;
            #pragma unroll
            for (int i = 0; i < SUMS; ++i) to[(i / 4 * 8 + i % 2) * PITCH + i % 4 / 2 * 8] = d[i];
#else
            float* to = sums + (16 * warp + lane / 4) * PITCH + lane % 4 * 2;
            #pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j) {
                *(float2*)(to + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
                *(float2*)(to + 8 * PITCH + 8 * j) = make_float2(d[4 * j + 2], d[4 * j + 3]);
            }
#endif
#endif
        }
        if (SPLITS == 1 && !LOOSE && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
#if SPLITS > 1
    // Every block adds up some rows of the tile, always in the same order
    sync_blocks();
    constexpr int OWN = (HIGH + SPLITS - 1) / SPLITS, QUADS = WIDE / 4;
    int top = rank * OWN, own = max(0, min(OWN, HIGH - top));
    place(first, rows, columns, row, column);
    int y0 = (TURNED ? column : row) * HIGH, x0 = (TURNED ? row : column) * WIDE;
    for (int i = threadIdx.x; i < own * QUADS; i += THREADS) {
        u32 at = base + ((top + i / QUADS) * PITCH + i % QUADS * 4) * 4;
        float4 parts[SPLITS];
        #pragma unroll
        for (int s = 0; s < SPLITS; ++s) parts[s] = read_peer(at, s);
        float4 sum = parts[0];
        #pragma unroll
        for (int s = 1; s < SPLITS; ++s)
            sum.x += parts[s].x, sum.y += parts[s].y, sum.z += parts[s].z, sum.w += parts[s].w;
        int y = y0 + top + i / QUADS, x = x0 + i % QUADS * 4;
        u32 two[2] = {pack(sum.x, sum.y), pack(sum.z, sum.w)};
#if LOOSE
        #pragma unroll
        for (int e = 0; e < 4; ++e) put(c, pitch, y, x + e, m, n, two[e / 2], e % 2);
#else
        if (y < m && x + 4 <= n) *(uint2*)(c + y * pitch + x) = make_uint2(two[0], two[1]);
        else for (int e = 0; e < 4; ++e) put(c, pitch, y, x + e, m, n, two[e / 2], e % 2);
#endif
    }
#endif
#if CLUSTER * SPLITS > 1
    __syncwarp();
    sync_blocks();  // no block leaves while a peer may still signal or read it
#endif
}
