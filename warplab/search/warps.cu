// c = a b in float16 with sums in float32, by mma.sync: four warps, each with a quarter of a tile of ROWS x COLUMNS.
// A ring of STAGES stages of DEPTH steps of k is filled by cp.async. SPLITS blocks, a cluster, share the steps of a
// tile and add up their sums through shared memory. k and n are multiples of 8.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short half16;

constexpr int THREADS = 128, GROUP = 8;             // rows of tiles that are computed together
constexpr int HIGH = ROWS / 2, WIDE = COLUMNS / 2;  // what a warp computes
constexpr u32 A_BYTES = 2 * ROWS * DEPTH, STAGE_BYTES = A_BYTES + 2 * DEPTH * COLUMNS;
constexpr int PITCH = COLUMNS + 8;                  // floats from row to row of sums in shared memory

// The 16-byte piece q of row r lies at another place in each of eight rows, so that they begin in different banks.
template <int BYTES> __device__ u32 piece(u32 row, u32 q)
{
    return BYTES == 64 ? row * 64 + ((q ^ (row >> 1 & 3)) << 4) : row * BYTES + ((q ^ (row & 7)) << 4);
}
__device__ void copy16(u32 to, const half16* from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ void load4(u32 (&d)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
}
__device__ void load4_down(u32 (&d)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
}
__device__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
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
__device__ void sync_blocks()
{
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void
#if SPLITS > 1
__cluster_dims__(SPLITS, 1, 1)
#endif
__launch_bounds__(THREADS)
NAME(const half16* __restrict__ a, const half16* __restrict__ b, half16* __restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char memory[];
    const u32 base = (u32)__cvta_generic_to_shared(memory), t = threadIdx.x, lane = t % 32;
    const u32 row_of_warp = t / 64 * HIGH, column_of_warp = t / 32 % 2 * WIDE;
    const int rank = blockIdx.x % SPLITS, tile = blockIdx.x / SPLITS;
    const int down = (m + ROWS - 1) / ROWS, across = (n + COLUMNS - 1) / COLUMNS;
    const int first = tile / (GROUP * across) * GROUP, height = min(down - first, GROUP);
    const int row0 = (first + tile % (GROUP * across) % height) * ROWS;
    const int column0 = tile % (GROUP * across) / height * COLUMNS;
    const int all = (k + DEPTH - 1) / DEPTH, start = rank * all / SPLITS, steps = (rank + 1) * all / SPLITS - start;

    auto fetch = [&](int step) {
        const u32 to = base + step % STAGES * STAGE_BYTES;
        const int p0 = (start + step) * DEPTH;
#pragma unroll
        for (int i = 0; i < ROWS * DEPTH / 8 / THREADS; ++i) {
            const int row = (t + i * THREADS) / (DEPTH / 8), q = (t + i * THREADS) % (DEPTH / 8);
            const bool inside = row0 + row < m && p0 + 8 * q < k;
            copy16(to + piece<2 * DEPTH>(row, q), inside ? a + (u64)(row0 + row) * k + p0 + 8 * q : a, inside);
        }
#pragma unroll
        for (int i = 0; i < DEPTH * COLUMNS / 8 / THREADS; ++i) {
            const int row = (t + i * THREADS) / (COLUMNS / 8), q = (t + i * THREADS) % (COLUMNS / 8);
            const bool inside = p0 + row < k && column0 + 8 * q < n;
            copy16(to + A_BYTES + piece<2 * COLUMNS>(row, q),
                   inside ? b + (u64)(p0 + row) * n + column0 + 8 * q : b, inside);
        }
    };
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

    float sums[HIGH / 16][WIDE / 8][4] = {};
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) fetch(step);
        commit();  // an empty group keeps the count of the wait right
    }
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();  // everybody's copies of this stage have come, and everybody is done with the one before
        if (step + STAGES - 1 < steps) fetch(step + STAGES - 1);
        commit();
        const u32 at_a = base + step % STAGES * STAGE_BYTES, at_b = at_a + A_BYTES;
#pragma unroll
        for (int p = 0; p < DEPTH / 16; ++p) {
            u32 part_a[HIGH / 16][4], part_b[WIDE / 16][4];
#pragma unroll
            for (int i = 0; i < HIGH / 16; ++i)
                load4(part_a[i], at_a + piece<2 * DEPTH>(row_of_warp + 16 * i + lane % 16, 2 * p + lane / 16));
#pragma unroll
            for (int j = 0; j < WIDE / 16; ++j)
                load4_down(part_b[j],
                           at_b + piece<2 * COLUMNS>(16 * p + lane % 16, column_of_warp / 8 + 2 * j + lane / 16));
#pragma unroll
            for (int i = 0; i < HIGH / 16; ++i)
#pragma unroll
                for (int j = 0; j < WIDE / 8; ++j)
                    multiply(sums[i][j], part_a[i], part_b[j / 2][j % 2 * 2], part_b[j / 2][j % 2 * 2 + 1]);
        }
    }
#if SPLITS == 1
#pragma unroll
    for (int i = 0; i < HIGH / 16; ++i)
#pragma unroll
        for (int j = 0; j < WIDE / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = row0 + row_of_warp + 16 * i + 8 * h + lane / 4;
                const int column = column0 + column_of_warp + 8 * j + 2 * (lane % 4);
                if (row < m && column < n)
                    *(u32*)(c + (u64)row * n + column) = pack(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
            }
#else
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // the stages are free: the sums take their place
    float* mine = (float*)memory + (row_of_warp + lane / 4) * PITCH + column_of_warp + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < HIGH / 16; ++i)
#pragma unroll
        for (int j = 0; j < WIDE / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                *(float2*)(mine + (16 * i + 8 * h) * PITCH + 8 * j) =
                    make_float2(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
    sync_blocks();
    for (int i = t; i < ROWS / SPLITS * (COLUMNS / 4); i += THREADS) {  // every block adds up some rows of the tile
        const int y = rank * (ROWS / SPLITS) + i / (COLUMNS / 4), x = i % (COLUMNS / 4) * 4;
        float4 sum = read_peer(base + (y * PITCH + x) * 4, 0);
#pragma unroll
        for (int s = 1; s < SPLITS; ++s) {
            const float4 more = read_peer(base + (y * PITCH + x) * 4, s);
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        if (row0 + y < m && column0 + x < n)
            *(uint2*)(c + (u64)(row0 + y) * n + column0 + x) = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
    }
    sync_blocks();  // no block leaves while a peer may still read it
#endif
}
