// The gradients of attention with respect to queries, keys and values, in float16 for compute capability 8.0 and above.
//
// One body makes both kernels. A block owns ROWS rows of two arrays and walks over tiles of two others:
//
//                   owns      walks over    adds up
//   of_queries      q, dout   k, v          dq = dS k
//   of_keys         k, v      q, dout       dk = dS^T q,  dv = P^T dout
//
// with S = scale q k^T, P = 2^(S - L), dP = dout v^T and dS = P (dP - D). L is the logarithm of a query's total, and D its
// sum of dout * out. `of_queries` stores D for `of_keys`. Both make the scores anew, so no sum needs an atomic.

#include <cuda_fp16.h>

typedef unsigned u32;
constexpr int ROWS = 64, COLUMNS = 64, WARPS = 4, THREADS = 32 * WARPS;
constexpr int PIECES = WIDTH / 8;  // of 16 bytes in a row
constexpr u32 TILE_BYTES = ROWS * WIDTH * 2;

struct Stats { float log_total[COLUMNS], mean[COLUMNS]; };  // L and D of a tile's queries

// ---- One instruction each ------------------------------------------------------------------------------------------

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void copy(u32 to, const void* from, bool there)  // zeros where nothing is there
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ void load_matrices(u32 (&a)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from) : "memory");
}
__device__ void load_transposed(u32 (&a)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from) : "memory");
}
__device__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
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
__device__ float sum_of_four(float x)  // of the lanes that share a row
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// ---- Tiles ---------------------------------------------------------------------------------------------------------

// Where 16 bytes of a tile lie: eight rows have their pieces in eight different places.
__device__ u32 place(u32 tile, int row, int piece) { return tile + row * WIDTH * 2 + ((piece ^ row % 8) << 4); }

__device__ void load(u32 to, const half* head, int first, int n)
{
    for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        int row = i / PIECES, piece = i % PIECES;
        bool there = first + row < n;
        copy(place(to, row, piece), head + (there ? (long long)(first + row) * WIDTH + 8 * piece : 0), there);
    }
}

// d (16 x COLUMNS) += own (16 rows of this warp x WIDTH) others^T
__device__ void scores(float (&d)[COLUMNS / 8][4], u32 own, u32 others)
{
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; ++k) {
        u32 a[4];
        load_matrices(a, place(own, row, 2 * k + lane / 16));
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; ++j) {
            u32 b[4];
            load_matrices(b, place(others, 16 * j + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
            multiply(d[2 * j], a, b[0], b[1]);
            multiply(d[2 * j + 1], a, b[2], b[3]);
        }
    }
}

// sums (16 x WIDTH) += w (16 x COLUMNS, in float16) others
__device__ void add(float (&sums)[WIDTH / 8][4], const float (&w)[COLUMNS / 8][4], u32 others)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < COLUMNS / 16; ++k) {
        u32 a[4] = {pack(w[2 * k][0], w[2 * k][1]), pack(w[2 * k][2], w[2 * k][3]),
                    pack(w[2 * k + 1][0], w[2 * k + 1][1]), pack(w[2 * k + 1][2], w[2 * k + 1][3])};
#pragma unroll
        for (int j = 0; j < WIDTH / 16; ++j) {
            u32 b[4];
            load_transposed(b, place(others, 16 * k + lane % 8 + lane / 8 % 2 * 8, 2 * j + lane / 16));
            multiply(sums[2 * j], a, b[0], b[1]);
            multiply(sums[2 * j + 1], a, b[2], b[3]);
        }
    }
}

__device__ void store(half* head, const float (&sums)[WIDTH / 8][4], int row, int n, float scale)
{
    half* to = head + (long long)row * WIDTH + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; ++j) {
        if (row < n) *(u32*)(to + 8 * j) = pack(sums[j][0] * scale, sums[j][1] * scale);
        if (row + 8 < n) *(u32*)(to + 8 * WIDTH + 8 * j) = pack(sums[j][2] * scale, sums[j][3] * scale);
    }
}

// ---- Both kernels --------------------------------------------------------------------------------------------------

struct Arrays { const half *q, *k, *v, *out, *dout; const float* log_total; float* mean; };

template <bool OF_KEYS>
__device__ void gradients(const Arrays& arrays, half* first_out, half* second_out, int n, int causal, float scale)
{
    constexpr float LOG2_E = 1.4426950408889634f;
    extern __shared__ __align__(128) char memory[];
    __shared__ Stats stats[2];
    long long head = (long long)blockIdx.y * n;
    const half *q = arrays.q + head * WIDTH, *k = arrays.k + head * WIDTH, *v = arrays.v + head * WIDTH;
    const half *dout = arrays.dout + head * WIDTH, *others0 = OF_KEYS ? q : k, *others1 = OF_KEYS ? dout : v;
    const float* log_total = arrays.log_total + head;
    float* mean = arrays.mean + head;
    u32 own0 = shared_address(memory), own1 = own0 + TILE_BYTES, ring = own1 + TILE_BYTES;
    int lane = threadIdx.x % 32, two = lane % 4 * 2;
    // With a causal mask the last queries see the most keys, and the first keys are seen by the most queries: these begin.
    int first = (OF_KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * ROWS;
    int row = first + threadIdx.x / 32 * 16 + lane / 4;  // and row + 8
    int begin = OF_KEYS && causal ? first : 0, end = !OF_KEYS && causal ? min(n, first + ROWS) : n;

    auto bring = [&](int from, int stage) {
        load(ring + stage * 2 * TILE_BYTES, others0, from, n);
        load(ring + stage * 2 * TILE_BYTES + TILE_BYTES, others1, from, n);
        if (OF_KEYS && threadIdx.x < COLUMNS) {
            int query = from + threadIdx.x;
            stats[stage].log_total[threadIdx.x] = query < n ? log_total[query] * LOG2_E : 0;
            stats[stage].mean[threadIdx.x] = query < n ? mean[query] : 0;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    load(own0, OF_KEYS ? k : q, first, n);
    load(own1, OF_KEYS ? v : dout, first, n);
    bring(begin, 0);

    float mine_log[2] = {}, mine_mean[2] = {};
    if (!OF_KEYS) {  // D of this block's queries
        const half* out = arrays.out + head * WIDTH;
        for (int i = 0; i < 2; ++i) {
            int query = row + 8 * i;
            float sum = 0;
            if (query < n) {
                mine_log[i] = log_total[query] * LOG2_E;
                for (int e = two; e < WIDTH; e += 8) {
                    long long at = (long long)query * WIDTH + e;
                    float2 a = __half22float2(*(const half2*)(out + at)), b = __half22float2(*(const half2*)(dout + at));
                    sum += a.x * b.x + a.y * b.y;
                }
            }
            mine_mean[i] = sum_of_four(sum);
            if (query < n && lane % 4 == 0) mean[query] = mine_mean[i];
        }
    }
    float sums0[WIDTH / 8][4] = {}, sums1[WIDTH / 8][4] = {};  // the second ones of keys only
    for (int from = begin, stage = 0; from < end; from += COLUMNS, stage ^= 1) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();  // this tile is there, and the one before it has been read
        if (from + COLUMNS < end) bring(from + COLUMNS, stage ^ 1);
        u32 tile0 = ring + stage * 2 * TILE_BYTES, tile1 = tile0 + TILE_BYTES;
        float p[COLUMNS / 8][4] = {}, ds[COLUMNS / 8][4] = {};
        scores(p, own0, tile0);
        bool whole = max(first, from) + ROWS <= n && (!causal || (OF_KEYS ? from - first : first - from) >= ROWS);
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int other = from + 8 * j + two + i % 2, own = row + i / 2 * 8;
                int query = OF_KEYS ? other : own, key = OF_KEYS ? own : other;
                float log = OF_KEYS ? stats[stage].log_total[8 * j + two + i % 2] : mine_log[i / 2];
                p[j][i] = power_of_two(p[j][i] * (scale * LOG2_E) - log);
                if (!whole && (query >= n || key >= n || (causal && key > query))) p[j][i] = 0;
            }
        scores(ds, own1, tile1);
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                ds[j][i] = p[j][i] * (ds[j][i] - (OF_KEYS ? stats[stage].mean[8 * j + two + i % 2] : mine_mean[i / 2]));
        if (OF_KEYS) add(sums1, p, tile1);
        add(sums0, ds, tile0);
    }
    store(first_out + head * WIDTH, sums0, row, n, scale);
    if (OF_KEYS) store(second_out + head * WIDTH, sums1, row, n, 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
of_queries(const half* q, const half* k, const half* v, const half* out, const half* dout, const float* log_total,
           float* mean, half* dq, int n, int causal, float scale)
{
    gradients<false>({q, k, v, out, dout, log_total, mean}, dq, nullptr, n, causal, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
of_keys(const half* q, const half* k, const half* v, const half* dout, const float* log_total, float* mean, half* dk,
        half* dv, int n, int causal, float scale)
{
    gradients<true>({q, k, v, nullptr, dout, log_total, mean}, dk, dv, n, causal, scale);
}
