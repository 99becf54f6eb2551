// c = a b in float16 with sums in float32, by mma.sync, a block for a tile of ROWS x COLUMNS. A slice is DOWN x ACROSS
// warps, which share the tile; SLICES slices of a block, and SPLITS blocks, a cluster, share the steps of k and add up
// their sums through shared memory. Each slice has a ring of STAGES stages of DEPTH steps of k, filled by cp.async, and
// waits for no other: all that the rings hold is under way at once. k and n are multiples of 8.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short half16;

constexpr int WARPS = DOWN * ACROSS, MEMBERS = 32 * WARPS, THREADS = MEMBERS * SLICES;  // of a slice; of the block
constexpr int HIGH = ROWS / DOWN, WIDE = COLUMNS / ACROSS;                              // what a warp computes
constexpr u32 A_BYTES = 2 * ROWS * DEPTH, STAGE_BYTES = A_BYTES + 2 * DEPTH * COLUMNS;
constexpr int PITCH = COLUMNS + 8;  // floats from row to row of sums in shared memory
constexpr u32 RING_BYTES = STAGES * STAGE_BYTES, SUMS_BYTES = SLICES * SPLITS == 1 ? 0 : 4 * ROWS * PITCH;
static_assert(ROWS % SPLITS == 0 && ROWS * DEPTH / 8 % MEMBERS == 0 && DEPTH * COLUMNS / 8 % MEMBERS == 0, "a rest");
constexpr u32 SLICE_BYTES = RING_BYTES > SUMS_BYTES ? RING_BYTES : SUMS_BYTES;  // the sums take the ring's place

// The 16-byte piece q of row r lies at another place in each of eight rows, so that they begin in different banks.
template <int BYTES> __device__ u32 piece(u32 row, u32 q)
{
    const u32 turn = BYTES == 32 ? row >> 2 & 1 : BYTES == 64 ? row >> 1 & 3 : row & 7;
    return row * BYTES + ((q ^ turn) << 4);
}
__device__ void copy16(u32 to, const half16* from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
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
__device__ void give_peer(u32 address, u32 rank, float4 v)  // into shared memory of another block of the cluster
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5}; }"
                 :: "r"(address), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
__device__ void arrive_blocks() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void wait_blocks() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void sync_slice(int slice)
{
    if (WARPS == 1)
        __syncwarp();
    else
        asm volatile("bar.sync %0, %1;" :: "r"(slice + 1), "n"(MEMBERS) : "memory");
}

extern "C" __global__ void
#if SPLITS > 1
__cluster_dims__(SPLITS, 1, 1)
#endif
__launch_bounds__(THREADS)
NAME(const half16* __restrict__ a, const half16* __restrict__ b, half16* __restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char memory[];
    const int slice = threadIdx.x / MEMBERS, t = threadIdx.x % MEMBERS, lane = t % 32;
    unsigned char* const ring = memory + slice * SLICE_BYTES;
    const u32 base = (u32)__cvta_generic_to_shared(ring);
    const u32 row_of_warp = t / 32 / ACROSS * HIGH, column_of_warp = t / 32 % ACROSS * WIDE;
    const u32 rank = blockIdx.x % SPLITS;
    const int row0 = blockIdx.x / SPLITS * ROWS, column0 = blockIdx.y * COLUMNS;
    const int all = (k + DEPTH - 1) / DEPTH, part = rank * SLICES + slice;
    const int start = part * all / (SPLITS * SLICES), steps = (part + 1) * all / (SPLITS * SLICES) - start;
#if SPLITS > 1
    arrive_blocks();  // a peer gives its sums to a block that runs
#endif

    auto fetch = [&](int step) {
        const u32 to = base + step % STAGES * STAGE_BYTES;
        const int p0 = (start + step) * DEPTH;
#pragma unroll
        for (int i = 0; i < ROWS * DEPTH / 8 / MEMBERS; ++i) {
            const int row = (t + i * MEMBERS) / (DEPTH / 8), q = (t + i * MEMBERS) % (DEPTH / 8);
            const bool inside = row0 + row < m && p0 + 8 * q < k;
            copy16(to + piece<2 * DEPTH>(row, q), inside ? a + (u64)(row0 + row) * k + p0 + 8 * q : a, inside);
        }
#pragma unroll
        for (int i = 0; i < DEPTH * COLUMNS / 8 / MEMBERS; ++i) {
            const int row = (t + i * MEMBERS) / (COLUMNS / 8), q = (t + i * MEMBERS) % (COLUMNS / 8);
            const bool inside = p0 + row < k && column0 + 8 * q < n;
            copy16(to + A_BYTES + piece<2 * COLUMNS>(row, q),
                   inside ? b + (u64)(p0 + row) * n + column0 + 8 * q : b, inside);
        }
    };
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

    float sums[HIGH / 16][WIDE / 8][4] = {};
#pragma unroll 1  // code that is not in the instruction cache yet takes longer than a jump
    for (int step = 0; step < STAGES; ++step) {
        if (step < steps) fetch(step);
        commit();  // an empty group keeps the count of the wait right
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
        sync_slice(slice);  // everybody's copies of this stage have come
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
        if (step + STAGES < steps) {
            sync_slice(slice);  // everybody is done with this stage
            fetch(step + STAGES);
        }
        commit();
    }
#if SLICES * SPLITS == 1
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
    sync_slice(slice);  // the ring is free
    float* mine = (float*)ring + (row_of_warp + lane / 4) * PITCH + column_of_warp + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < HIGH / 16; ++i)
#pragma unroll
        for (int j = 0; j < WIDE / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                *(float2*)(mine + (16 * i + 8 * h) * PITCH + 8 * j) =
                    make_float2(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
    __syncthreads();
    auto put = [&](int y, int x, float4 v) {
        if (row0 + y < m && column0 + x < n)
            *(uint2*)(c + (u64)(row0 + y) * n + column0 + x) = make_uint2(pack(v.x, v.y), pack(v.z, v.w));
    };
    auto add = [](float4& sum, const float4& v) { sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w; };
#if SPLITS > 1
    constexpr int OWN = ROWS / SPLITS;  // rows that a block has the sums of all blocks of
    unsigned char* const inbox = memory + SLICES * SLICE_BYTES;
    wait_blocks();
#endif
    for (int i = threadIdx.x; i < ROWS * COLUMNS / 4; i += THREADS) {
        const int y = i / (COLUMNS / 4), x = i % (COLUMNS / 4) * 4;
        float4 sum = *(const float4*)(memory + (y * PITCH + x) * 4);
#pragma unroll
        for (int s = 1; s < SLICES; ++s) add(sum, *(const float4*)(memory + s * SLICE_BYTES + (y * PITCH + x) * 4));
#if SPLITS == 1
        put(y, x, sum);
#else
        give_peer((u32)__cvta_generic_to_shared(inbox) + ((rank * OWN + y % OWN) * COLUMNS + x) * 4, y / OWN, sum);
#endif
    }
#if SPLITS > 1
    arrive_blocks(), wait_blocks();
    for (int i = threadIdx.x; i < OWN * COLUMNS / 4; i += THREADS) {
        const int y = i / (COLUMNS / 4), x = i % (COLUMNS / 4) * 4;
        float4 sum = *(const float4*)(inbox + (y * COLUMNS + x) * 4);
#pragma unroll
        for (int s = 1; s < SPLITS; ++s) add(sum, *(const float4*)(inbox + ((s * OWN + y) * COLUMNS + x) * 4));
        put(rank * OWN + y, x, sum);
    }
#endif
#endif
}
