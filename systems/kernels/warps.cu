// c = a b in half precision with sums in float32, by mma.sync, a block for a tile of ROWS x COLUMNS. A slice is
// DOWN x ACROSS warps, which share the tile; SLICES slices of a block, and SPLITS blocks, a cluster, share the steps of k
// and add up their sums through shared memory. Each slice has a ring of STAGES stages of DEPTH steps of k and waits for
// no other. A factor has k side by side in memory, or its rows (A_DOWN), or its columns (B_DOWN). cp.async fills the
// ring. Where lines begin anywhere (A_LOOSE, B_LOOSE) it brings whole 16 bytes of them, and the slice moves a stage to
// where ldmatrix reads it. LOOSE: rows of c begin anywhere.
constexpr int WARPS = DOWN * ACROSS, MEMBERS = 32 * WARPS, THREADS = MEMBERS * SLICES;  // of a slice; of the block
constexpr int HIGH = ROWS / DOWN, WIDE = COLUMNS / ACROSS;                              // what a warp computes
constexpr int WIDE_A = A_DOWN ? ROWS : DEPTH, WIDE_B = B_DOWN ? COLUMNS : DEPTH;  // elements of a line of a stage
constexpr u32 TILE_A = 2 * ROWS * DEPTH, TILE_B = 2 * DEPTH * COLUMNS;            // bytes
// In a stage, with 16 bytes more to a line that begins anywhere.
constexpr u32 A_BYTES = TILE_A + A_LOOSE * (TILE_A / WIDE_A * 8), B_BYTES = TILE_B + B_LOOSE * (TILE_B / WIDE_B * 8);
constexpr u32 STAGE_BYTES = A_BYTES + B_BYTES, MOVED_BYTES = A_LOOSE * TILE_A + B_LOOSE * TILE_B;
constexpr int PITCH = COLUMNS + 8;  // floats from row to row of sums in shared memory
constexpr bool STAGED = SLICES * SPLITS > 1 || LOOSE;  // sums go through shared memory
constexpr u32 RING_BYTES = STAGES * STAGE_BYTES + MOVED_BYTES, SUMS_BYTES = STAGED ? 4 * ROWS * PITCH : 0;
static_assert(ROWS % SPLITS == 0 && ROWS * DEPTH / 8 % MEMBERS == 0 && DEPTH * COLUMNS / 8 % MEMBERS == 0, "a rest");
constexpr u32 SLICE_BYTES = RING_BYTES > SUMS_BYTES ? RING_BYTES : SUMS_BYTES;  // the sums take the ring's place

// The 16-byte piece q of row r lies at another place in each of eight rows, so that they begin in different banks.
template <int BYTES> __device__ u32 piece(u32 row, u32 q)
{
    const u32 turn = BYTES == 32 ? row >> 2 & 1 : BYTES == 64 ? row >> 1 & 3 : row & 7;
    return row * BYTES + ((q ^ turn) << 4);
}
__device__ void copy16(u32 to, const half16* from, int elements)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(2 * elements) : "memory");
}
// A stage of a factor: TALL lines of LONG elements from element x of line y on, of `lines` lines of `across` elements.
template <int TALL, int LONG> struct Part {
    static constexpr int TALL_ = TALL, LONG_ = LONG;
    const Lines& of;
    int y, x, lines, across;

    __device__ const half16* line(int i) const { return of.from + (y + i) * of.pitch + x; }
    // The whole 16 bytes that have something of each line, one line behind the other.
    __device__ void fetch(unsigned char* to, int t) const
    {
        constexpr int CHUNKS = LONG / 8 + 1;
        for (int i = t; i < TALL * CHUNKS; i += MEMBERS) {
            const int l = i / CHUNKS, q = i % CHUNKS, some = y + l < lines ? min(LONG, across - x) : 0;
            const half16 *from = some > 0 ? line(l) : of.from, *low = (const half16*)(((u64)from & ~15ull) + 16 * q);
            const bool there = some > 0 && low < from + some;
            if (there && low < of.from) {
                for (int e = 0; e < 8; ++e)
                    ((half16*)(to + 16 * i))[e] = low + e >= of.from && low + e < of.end ? low[e] : half16(0);
            } else {
                copy16((u32)__cvta_generic_to_shared(to + 16 * i), there ? low : of.from,
                       there ? (int)min(8ll, (long long)(of.end - low)) : 0);
            }
        }
    }
    // From there to where ldmatrix reads it, with zeros for what is outside.
    __device__ void move(const unsigned char* from, unsigned char* to, int t) const
    {
#pragma unroll
        for (int i = 0; i < TALL * LONG / 8 / MEMBERS; ++i) {
            const int l = (t + i * MEMBERS) / (LONG / 8), q = (t + i * MEMBERS) % (LONG / 8);
            const int some = y + l < lines ? max(0, min(8, across - x - 8 * q)) : 0;
            const uint4* low = (const uint4*)from + l * (LONG / 8 + 1) + q;
            *(uint4*)(to + piece<2 * LONG>(l, q)) = shifted(low[0], low[1], (u32)(u64)line(l) & 15, some);
        }
    }
};
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
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
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
product(half16* __restrict__ c, u64 pitch, int m, int n, int k, const half16* a_from, u64 a_extent, u64 a_pitch,
        const half16* b_from, u64 b_extent, u64 b_pitch)  // extent: elements from the first one to behind the last one
{
    const Lines a = {a_from, a_from + a_extent, a_pitch}, b = {b_from, b_from + b_extent, b_pitch};
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

    auto part_of_a = [&](int step) {
        const int p = (start + step) * DEPTH;
        return Part<(A_DOWN ? DEPTH : ROWS), WIDE_A>{a, A_DOWN ? p : row0, A_DOWN ? row0 : p, A_DOWN ? k : m,
                                                     A_DOWN ? m : k};
    };
    auto part_of_b = [&](int step) {
        const int p = (start + step) * DEPTH;
        return Part<(B_DOWN ? DEPTH : COLUMNS), WIDE_B>{b, B_DOWN ? p : column0, B_DOWN ? column0 : p, B_DOWN ? k : n,
                                                        B_DOWN ? n : k};
    };
    auto copy = [&](auto part, u32 to) {  // of lines that begin at multiples of 16 bytes
        using Of = decltype(part);
#pragma unroll
        for (int i = 0; i < Of::TALL_ * Of::LONG_ / 8 / MEMBERS; ++i) {
            const int l = (t + i * MEMBERS) / (Of::LONG_ / 8), q = (t + i * MEMBERS) % (Of::LONG_ / 8);
            const int some = part.y + l < part.lines ? max(0, min(8, part.across - part.x - 8 * q)) : 0;
            copy16(to + piece<2 * Of::LONG_>(l, q), some ? part.line(l) + 8 * q : part.of.from, some);
        }
    };
    auto fetch = [&](int step) {
        const u32 stage = step % STAGES * STAGE_BYTES;
        if (A_LOOSE) part_of_a(step).fetch(ring + stage, t);
        else copy(part_of_a(step), base + stage);
        if (B_LOOSE) part_of_b(step).fetch(ring + stage + A_BYTES, t);
        else copy(part_of_b(step), base + stage + A_BYTES);
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
        const u32 stage = step % STAGES * STAGE_BYTES, moved = STAGES * STAGE_BYTES;
        if (A_LOOSE) part_of_a(step).move(ring + stage, ring + moved, t);
        if (B_LOOSE) part_of_b(step).move(ring + stage + A_BYTES, ring + moved + A_LOOSE * TILE_A, t);
        if (A_LOOSE || B_LOOSE) sync_slice(slice);
        const u32 at_a = base + (A_LOOSE ? moved : stage);
        const u32 at_b = base + (B_LOOSE ? moved + A_LOOSE * TILE_A : stage + A_BYTES);
#pragma unroll
        for (int p = 0; p < DEPTH / 16; ++p) {
            u32 part_a[HIGH / 16][4], part_b[WIDE / 16][4];
#pragma unroll
            for (int i = 0; i < HIGH / 16; ++i)
                if (A_DOWN)
                    load4_down(part_a[i], at_a + piece<2 * ROWS>(16 * p + lane / 16 * 8 + lane % 8,
                                                                 row_of_warp / 8 + 2 * i + lane / 8 % 2));
                else
                    load4(part_a[i], at_a + piece<2 * DEPTH>(row_of_warp + 16 * i + lane % 16, 2 * p + lane / 16));
#pragma unroll
            for (int j = 0; j < WIDE / 16; ++j)
                if (B_DOWN)
                    load4_down(part_b[j],
                               at_b + piece<2 * COLUMNS>(16 * p + lane % 16, column_of_warp / 8 + 2 * j + lane / 16));
                else
                    load4(part_b[j], at_b + piece<2 * DEPTH>(column_of_warp + 16 * j + lane / 16 * 8 + lane % 8,
                                                             2 * p + lane / 8 % 2));
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
    auto put_each = [&](int y, int x, u32 two) {  // those of two neighbours that are in c
        if (y < m && x < n) c[y * pitch + x] = half16(two);
        if (y < m && x + 1 < n) c[y * pitch + x + 1] = half16(two >> 16);
    };
#if SLICES * SPLITS == 1 && !LOOSE
#pragma unroll
    for (int i = 0; i < HIGH / 16; ++i)
#pragma unroll
        for (int j = 0; j < WIDE / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = row0 + row_of_warp + 16 * i + 8 * h + lane / 4;
                const int column = column0 + column_of_warp + 8 * j + 2 * (lane % 4);
                const u32 two = pack(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
                if (row < m && column + 2 <= n) *(u32*)(c + row * pitch + column) = two;
                else put_each(row, column, two);
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
        const uint2 four = make_uint2(pack(v.x, v.y), pack(v.z, v.w));
        if (!LOOSE && row0 + y < m && column0 + x + 4 <= n)
            *(uint2*)(c + (row0 + y) * pitch + column0 + x) = four;
        else
            put_each(row0 + y, column0 + x, four.x), put_each(row0 + y, column0 + x + 2, four.y);
    };
    auto add = [](float4& sum, const float4& v) { sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w; };
#if SPLITS > 1
    constexpr int OWN = ROWS / SPLITS;  // rows that a block has the sums of all blocks of
    unsigned char* const inbox = memory + SLICES * SLICE_BYTES;
    wait_blocks();
#endif
#if SPLITS == 1 && LOOSE
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {  // neighbours by neighbouring lanes
        const int y = i / COLUMNS, x = i % COLUMNS;
        float sum = *(const float*)(memory + (y * PITCH + x) * 4);
#pragma unroll
        for (int s = 1; s < SLICES; ++s) sum += *(const float*)(memory + s * SLICE_BYTES + (y * PITCH + x) * 4);
        if (row0 + y < m && column0 + x < n) c[(row0 + y) * pitch + column0 + x] = half16(pack(sum, 0));
    }
#else
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
#endif
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
