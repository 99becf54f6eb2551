"""The second set of kernels that no rule of counting was made from: reductions, histograms, sorts, scans, graphs."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <climits>

#define KERNEL extern "C" __global__ void

template <typename T>
__device__ T block_sum(T x, T* warps)
{
    for (int d = 16; d; d /= 2) x += __shfl_down_sync(~0u, x, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : T(0);
    if (threadIdx.x < 32)
        for (int d = 16; d; d /= 2) x += __shfl_down_sync(~0u, x, d);
    return x;
}

// A sum over the grid: four floats a load, a partial sum a block, and a last launch that adds these.
KERNEL sum_quads(const float4* a, float* partial, int quads, const float* rest, int left)
{
    __shared__ float warps[32];
    float x = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        float4 v = a[i];
        x += (v.x + v.y) + (v.z + v.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < left) x += rest[threadIdx.x];
    x = block_sum(x, warps);
    if (threadIdx.x == 0) partial[blockIdx.x] = x;
}

KERNEL sum_partial(const float* partial, float* out, int n)
{
    __shared__ float warps[32];
    float x = block_sum(threadIdx.x < n ? partial[threadIdx.x] : 0.0f, warps);
    if (threadIdx.x == 0) *out = x;
}

KERNEL column_sums(const float* a, double* out, int m, int n)
{
    __shared__ double s[8][33];
    int column = blockIdx.x * 32 + threadIdx.x;
    double sum = 0.0;
    if (column < n)
        for (int row = threadIdx.y; row < m; row += 8) sum += a[row * n + column];
    s[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < n) {
        for (int k = 1; k < 8; ++k) sum += s[k][threadIdx.x];
        out[column] = sum;
    }
}

KERNEL row_argmax(const float* a, int* where, float* most, int n)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    float best = __int_as_float(0xff800000);
    int at = -1;
    for (int i = threadIdx.x; i < n; i += 32) {
        float x = a[row * n + i];
        if (x > best) { best = x; at = i; }
    }
    for (int d = 16; d; d /= 2) {
        float x = __shfl_xor_sync(~0u, best, d);
        int i = __shfl_xor_sync(~0u, at, d);
        if (x > best || (x == best && i < at)) { best = x; at = i; }
    }
    if (threadIdx.x == 0) { where[row] = at; most[row] = best; }
}

// The four largest of a row, in order: each lane keeps a sorted list of four, lists are merged by popping the largest.
KERNEL row_top_4(const int* a, int* out, int n)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    int best[4] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN};
    for (int i = lane; i < n; i += 32) {
        int x = a[row * n + i];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (x > best[k]) { int y = best[k]; best[k] = x; x = y; }
    }
    for (int k = 0; k < 4; ++k) {
        int most = __reduce_max_sync(~0u, best[0]);
        unsigned owners = __ballot_sync(~0u, best[0] == most);
        if (lane == __ffs(owners) - 1) { best[0] = best[1]; best[1] = best[2]; best[2] = best[3]; best[3] = INT_MIN; }
        if (lane == 0) out[row * 4 + k] = most;
    }
}

// One histogram a warp, four bytes a load.
KERNEL private_histograms(const unsigned* a, unsigned* out, int words)
{
    __shared__ unsigned bins[4][64];
    unsigned* mine = bins[threadIdx.x / 32];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[0][i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        unsigned v = a[i];
        atomicAdd(&mine[v >> 2 & 63], 1u);
        atomicAdd(&mine[v >> 10 & 63], 1u);
        atomicAdd(&mine[v >> 18 & 63], 1u);
        atomicAdd(&mine[v >> 26], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        unsigned sum = 0;
#pragma unroll
        for (int w = 0; w < 4; ++w) sum += bins[w][threadIdx.x];
        if (sum) atomicAdd(&out[threadIdx.x], sum);
    }
}

// Lanes with the same key elect one that adds for all.
KERNEL matched_histogram(const int* keys, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned there = __ballot_sync(~0u, i < n);
    if (i >= n) return;
    int key = keys[i];
    unsigned same = __match_any_sync(there, key);
    if (threadIdx.x % 32 == __ffs(same) - 1) atomicAdd(&out[key], __popc(same));
}

// Grey levels are spread by their cumulative histogram, an image a block.
KERNEL equalise(const unsigned char* image, unsigned char* out, int pixels)
{
    __shared__ int bins[256], sums[8];
    int t = threadIdx.x, lane = t % 32;
    image += blockIdx.x * pixels; out += blockIdx.x * pixels;
    bins[t] = 0;
    __syncthreads();
    for (int i = t; i < pixels; i += 256) atomicAdd(&bins[image[i]], 1);
    __syncthreads();
    int x = bins[t];
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += y;
    }
    if (lane == 31) sums[t / 32] = x;
    __syncthreads();
    for (int w = 0; w < t / 32; ++w) x += sums[w];
    bins[t] = (x * 255 + pixels / 2) / pixels;
    __syncthreads();
    for (int i = t; i < pixels; i += 256) out[i] = (unsigned char)bins[image[i]];
}

// A pass of a radix sort over four bits in three launches: counts a block, places of the counts, a stable scatter.
KERNEL digit_counts(const unsigned* a, int* counts, int shift)
{
    __shared__ int bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[a[blockIdx.x * 128 + threadIdx.x] >> shift & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

KERNEL digit_places(int* counts)
{
    __shared__ int s[64];
    int t = threadIdx.x, own = counts[t];
    s[t] = own;
    for (int d = 1; d < 64; d *= 2) {
        __syncthreads();
        int y = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += y;
    }
    counts[t] = s[t] - own;
}

KERNEL digit_scatter(const unsigned* a, const int* places, unsigned* out, int shift)
{
    __shared__ int warps[4][16];
    int t = threadIdx.x, lane = t % 32, w = t / 32;
    unsigned x = a[blockIdx.x * 128 + t], digit = x >> shift & 15;
    unsigned same = __match_any_sync(~0u, digit);
    int before = __popc(same & ((1u << lane) - 1));
    if (lane < 16) warps[w][lane] = 0;
    __syncwarp();
    if (before == 0) warps[w][digit] = __popc(same);
    __syncthreads();
    for (int k = 0; k < w; ++k) before += warps[k][digit];
    out[places[digit * gridDim.x + blockIdx.x] + before] = x;
}

// Keys with their values, 64 bits a lane, by exchanges between lanes.
KERNEL lanes_sort(const unsigned* keys, const unsigned* values, unsigned long long* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    unsigned long long x = (unsigned long long)keys[i] << 32 | values[i];
#pragma unroll
    for (int k = 2; k <= 32; k *= 2)
#pragma unroll
        for (int j = k / 2; j; j /= 2) {
            unsigned long long y = __shfl_xor_sync(~0u, x, j);
            bool up = (lane & k) == 0, low = (lane & j) == 0;
            x = (up == low) == (x < y) ? x : y;
        }
    out[i] = x;
}

// Two sorted runs of a tile become one: each element looks for its rank in the other run.
KERNEL merge_runs(const int* a, int* out, int run)
{
    extern __shared__ int s[];
    int t = threadIdx.x, base = blockIdx.x * 2 * run;
    s[t] = a[base + t];
    s[t + run] = a[base + run + t];
    __syncthreads();
    for (int side = 0; side < 2; ++side) {
        int x = s[side * run + t], low = 0, high = run;
        const int* other = s + (1 - side) * run;
        while (low < high) {
            int mid = (low + high) >> 1;
            bool before = side ? other[mid] <= x : other[mid] < x;
            if (before) low = mid + 1; else high = mid;
        }
        out[base + t + low] = x;
    }
}

KERNEL find_ranges(const double* edges, int n, const double* queries, int* out, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    double x = queries[i];
    int low = 0, length = n;
    while (length > 0) {
        int half = length / 2;
        if (edges[low + half] <= x) { low += half + 1; length -= half + 1; } else length = half;
    }
    out[i] = low;
}

#define PADDED(i) ((i) + ((i) >> 5))

// Exclusive sums of blocks of 256 with padding against bank conflicts, then sums of blocks, then both together.
KERNEL scan_tiles(const int* a, int* out, int* totals)
{
    __shared__ int s[PADDED(256)];
    int t = threadIdx.x, base = blockIdx.x * 256, stride = 1;
    s[PADDED(t)] = a[base + t];
    s[PADDED(t + 128)] = a[base + t + 128];
    for (int d = 128; d; d >>= 1, stride <<= 1) {
        __syncthreads();
        if (t < d) {
            int i = stride * (2 * t + 1) - 1, j = i + stride;
            s[PADDED(j)] += s[PADDED(i)];
        }
    }
    __syncthreads();
    if (t == 0) { totals[blockIdx.x] = s[PADDED(255)]; s[PADDED(255)] = 0; }
    for (int d = 1; d <= 128; d <<= 1) {
        stride >>= 1;
        __syncthreads();
        if (t < d) {
            int i = stride * (2 * t + 1) - 1, j = i + stride, x = s[PADDED(i)];
            s[PADDED(i)] = s[PADDED(j)];
            s[PADDED(j)] += x;
        }
    }
    __syncthreads();
    out[base + t] = s[PADDED(t)];
    out[base + t + 128] = s[PADDED(t + 128)];
}

KERNEL add_totals(int* out, const int* totals)
{
    int before = 0;
    for (int b = 0; b < blockIdx.x; ++b) before += totals[b];
    out[blockIdx.x * 256 + threadIdx.x] += before;
    out[blockIdx.x * 256 + threadIdx.x + 128] += before;
}

// Running sums that start anew at flags, a warp at a time.
KERNEL segmented_scan(const float* a, const unsigned char* heads, float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float x = a[i];
    unsigned flags = __ballot_sync(~0u, heads[i]);
    unsigned upto = flags & (0xffffffffu >> (31 - lane));
    int start = upto ? 31 - __clz(upto) : 0;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        float y = __shfl_up_sync(~0u, x, d);
        if (lane - d >= start) x += y;
    }
    out[i] = x;
}

KERNEL run_lengths(const unsigned char* a, unsigned char* values, int* lengths, int* count, int n)
{
    __shared__ int sums[8], starts[257];
    int t = threadIdx.x, lane = t % 32;
    bool head = t < n && (t == 0 || a[t] != a[t - 1]);
    unsigned votes = __ballot_sync(~0u, head);
    if (lane == 0) sums[t / 32] = __popc(votes);
    __syncthreads();
    int place = __popc(votes & ((1u << lane) - 1)), total = 0;
    for (int w = 0; w < 8; ++w) {
        if (w < t / 32) place += sums[w];
        total += sums[w];
    }
    if (head) { starts[place] = t; values[place] = a[t]; }
    if (t == 0) { starts[total] = n; *count = total; }
    __syncthreads();
    if (t < total) lengths[t] = starts[t + 1] - starts[t];
}

// A level of breadth-first search: who is not reached yet looks for a neighbour in the last frontier.
KERNEL pull_level(const int* starts, const int* sources, const unsigned* frontier, unsigned* next, int* level, int n,
                  int now)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    if (v < n && level[v] < 0)
        for (int k = starts[v]; k < starts[v + 1] && !found; ++k)
            found = frontier[sources[k] >> 5] >> (sources[k] & 31) & 1;
    if (found) level[v] = now;
    unsigned votes = __ballot_sync(~0u, found);
    if (threadIdx.x % 32 == 0) next[v >> 5] = votes;
}

KERNEL page_rank(const int* starts, const int* sources, const int* degrees, const float* rank, float* next, int n,
                 float damping)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    float sum = 0.0f;
    for (int k = starts[v]; k < starts[v + 1]; ++k) {
        int u = sources[k];
        if (degrees[u]) sum += __fdividef(rank[u], (float)degrees[u]);
    }
    next[v] = (1.0f - damping) / n + damping * sum;
}

// Labels sink to the least of their neighbours, then jump along themselves.
KERNEL lower_labels(const int2* edges, const int* label, int* next, int m)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= m) return;
    int x = label[edges[e].x], y = label[edges[e].y];
    if (x < y) atomicMin(&next[edges[e].y], x);
    if (y < x) atomicMin(&next[edges[e].x], y);
}

KERNEL jump_labels(const int* next, int* label, int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) label[v] = next[next[v]];
}

// Common neighbours of the ends of each edge; neighbours are in order.
KERNEL triangles(const int* starts, const int* targets, const int2* edges, int m, int* total)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x, found = 0;
    if (e < m) {
        int2 ends = edges[e];
        int i = starts[ends.x], i_end = starts[ends.x + 1], j = starts[ends.y], j_end = starts[ends.y + 1];
        while (i < i_end && j < j_end) {
            int x = targets[i], y = targets[j];
            found += x == y;
            i += x <= y;
            j += y <= x;
        }
    }
    found = __reduce_add_sync(~0u, found);
    if (threadIdx.x % 32 == 0 && found) atomicAdd(total, found);
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def sum_quads(a, out):
    quads, partial = a.size // 4, cupy.empty(3, cupy.float32)
    _run("sum_quads", (3,), (128,), a, partial, cupy.int32(quads), a[4 * quads :], cupy.int32(a.size % 4))
    _run("sum_partial", (1,), (32,), partial, out, cupy.int32(3))


def column_sums(a, out):
    m, n = a.shape
    _run("column_sums", ((n + 31) // 32,), (32, 8), a, out, cupy.int32(m), cupy.int32(n))


def row_argmax(a, where, most):
    _run("row_argmax", (3,), (32, 4), a, where, most, cupy.int32(a.shape[1]))


def row_top_4(a, out):
    _run("row_top_4", (2,), (128,), a, out, cupy.int32(a.shape[1]))


def private_histograms(a, out):
    _run("private_histograms", (2,), (128,), a, out, cupy.int32(a.size))


def matched_histogram(keys, out):
    _run("matched_histogram", (3,), (128,), keys, out, cupy.int32(keys.size))


def equalise(image, out):
    _run("equalise", (2,), (256,), image, out, cupy.int32(image.shape[1]))


def radix_pass(a, out):
    blocks = a.size // 128
    counts = cupy.empty(16 * blocks, cupy.int32)
    _run("digit_counts", (blocks,), (128,), a, counts, cupy.int32(8))
    _run("digit_places", (1,), (64,), counts)
    _run("digit_scatter", (blocks,), (128,), a, counts, out, cupy.int32(8))


def lanes_sort(keys, values, out):
    _run("lanes_sort", (2,), (64,), keys, values, out)


def merge_runs(a, out):
    run = a.shape[1] // 2
    _run("merge_runs", (len(a),), (run,), a, out, cupy.int32(run), shared=8 * run)


def find_ranges(edges, queries, out):
    _run("find_ranges", (2,), (128,), edges, cupy.int32(edges.size), queries, out, cupy.int32(queries.size))


def scan_tiles(a, out):
    blocks = a.size // 256
    totals = cupy.empty(blocks, cupy.int32)
    _run("scan_tiles", (blocks,), (128,), a, out, totals)
    _run("add_totals", (blocks,), (128,), out, totals)


def segmented_scan(a, heads, out):
    _run("segmented_scan", (2,), (128,), a, heads, out)


def run_lengths(a, values, lengths, count):
    _run("run_lengths", (1,), (256,), a, values, lengths, count, cupy.int32(a.size))


def pull_levels(starts, sources, frontier, next_, level):
    n = cupy.int32(level.size)
    for now in range(1, 5):
        _run("pull_level", (2,), (64,), starts, sources, frontier, next_, level, n, cupy.int32(now))
        frontier, next_ = next_, frontier


def page_rank(starts, sources, degrees, rank, out):
    n, between = cupy.int32(rank.size), cupy.empty(rank.size, cupy.float32)
    _run("page_rank", (4,), (32,), starts, sources, degrees, rank, between, n, cupy.float32(0.85))
    _run("page_rank", (4,), (32,), starts, sources, degrees, between, out, n, cupy.float32(0.85))


def label_components(edges, label, next_):
    n = label.size
    for _ in range(6):
        _run("lower_labels", (2,), (64,), edges, label, next_, cupy.int32(len(edges)))
        _run("jump_labels", (2,), (64,), next_, label, cupy.int32(n))


def triangles(starts, targets, edges, total):
    _run("triangles", (2,), (64,), starts, targets, edges, cupy.int32(len(edges)), total)
