"""The third set of kernels that no rule of counting was made from: reductions, selections, sorts, graphs, look-ups."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <climits>
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

// Mean and variance of rows by Welford's updates, which lanes then join pairwise.
KERNEL join_variances(const float* a, float2* out, int rows, int n)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float mean = 0.0f, squares = 0.0f, count = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) {
        float x = a[row * n + i], d = x - mean;
        count += 1.0f;
        mean += d / count;
        squares += d * (x - mean);
    }
    for (int d = 1; d < 32; d *= 2) {
        float other_mean = __shfl_down_sync(ALL, mean, d), other_squares = __shfl_down_sync(ALL, squares, d);
        float other = __shfl_down_sync(ALL, count, d), both = count + other;
        if (both > 0.0f) {
            float apart = other_mean - mean;
            mean += apart * other / both;
            squares += other_squares + apart * apart * count * other / both;
        }
        count = both;
    }
    if (threadIdx.x == 0) out[row] = make_float2(mean, squares / (n - 1));
}

// Where the smallest size is: size and place in one word that is lowered by an atomic.
KERNEL smallest_place(const float* a, unsigned long long* best, int n)
{
    unsigned long long mine = ~0ull;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned long long key = (unsigned long long)__float_as_uint(fabsf(a[i])) << 32 | i;
        mine = min(mine, key);
    }
    for (int d = 16; d; d >>= 1) mine = min(mine, __shfl_xor_sync(ALL, mine, d));
    if ((threadIdx.x & 31) == 0) atomicMin(best, mine);
}

// Eight halves a load; what is left over goes one by one.
KERNEL half_dot(const __half* a, const __half* b, float* out, int n)
{
    __shared__ float sums[3];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n / 8; i += blockDim.x) {
        uint4 x = reinterpret_cast<const uint4*>(a)[i], y = reinterpret_cast<const uint4*>(b)[i];
        const __half2* p = reinterpret_cast<const __half2*>(&x);
        const __half2* q = reinterpret_cast<const __half2*>(&y);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float2 u = __half22float2(p[k]), v = __half22float2(q[k]);
            sum = fmaf(u.x, v.x, sum);
            sum = fmaf(u.y, v.y, sum);
        }
    }
    int left = n / 8 * 8 + threadIdx.x;
    if (left < n) sum += __half2float(a[left]) * __half2float(b[left]);
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(ALL, sum, d);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) *out = sums[0] + sums[1] + sums[2];
}

// The largest number of each segment, a warp a segment; segments may be empty.
KERNEL segment_maxima(const long long* a, const int* starts, long long* out, int segments)
{
    int s = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (s >= segments) return;
    long long most = LLONG_MIN;
    for (int i = starts[s] + lane; i < starts[s + 1]; i += 32) most = max(most, a[i]);
    for (int d = 16; d; d /= 2) most = max(most, __shfl_xor_sync(ALL, most, d));
    if (lane == 0) out[s] = most;
}

template <typename T> __device__ void order(T& x, T& y) { T low = min(x, y); y = max(x, y); x = low; }

// Eight numbers a thread by Batcher's network of nineteen comparisons.
KERNEL sort_eights(const int4* a, int4* out, int groups)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups) return;
    int4 u = a[2 * i], w = a[2 * i + 1];
    int v[8] = {u.x, u.y, u.z, u.w, w.x, w.y, w.z, w.w};
    order(v[0], v[1]); order(v[2], v[3]); order(v[4], v[5]); order(v[6], v[7]);
    order(v[0], v[2]); order(v[1], v[3]); order(v[4], v[6]); order(v[5], v[7]);
    order(v[1], v[2]); order(v[5], v[6]);
    order(v[0], v[4]); order(v[1], v[5]); order(v[2], v[6]); order(v[3], v[7]);
    order(v[2], v[4]); order(v[3], v[5]);
    order(v[1], v[2]); order(v[3], v[4]); order(v[5], v[6]);
    out[2 * i] = make_int4(v[0], v[1], v[2], v[3]);
    out[2 * i + 1] = make_int4(v[4], v[5], v[6], v[7]);
}

struct Item { float key; int value; };

// Batcher's merge sort of a block's items; equal keys are ordered by value.
KERNEL sort_items(const Item* in, Item* out)
{
    __shared__ Item s[256];
    int t = threadIdx.x, base = blockIdx.x * 256;
    s[t] = in[base + t];
    s[t + 128] = in[base + t + 128];
    for (int p = 1; p < 256; p *= 2)
        for (int k = p; k >= 1; k /= 2) {
            __syncthreads();
            int skip = k % p, group = (t / k) * 2 * k, i = skip + group + t % k;
            if (i + k < 256 && i / (2 * p) == (i + k) / (2 * p)) {
                Item x = s[i], y = s[i + k];
                if (x.key > y.key || (x.key == y.key && x.value > y.value)) { s[i] = y; s[i + k] = x; }
            }
        }
    __syncthreads();
    out[base + t] = s[t];
    out[base + t + 128] = s[t + 128];
}

// The k-th smallest of a row without sorting it: eight bits at a time, the top ones first.
KERNEL kth_smallest(const unsigned* a, unsigned* out, int n, int k)
{
    __shared__ int bins[256];
    __shared__ unsigned digit;
    __shared__ int rest;
    int t = threadIdx.x;
    const unsigned* row = a + blockIdx.x * n;
    unsigned prefix = 0, mask = 0;
    if (t == 0) rest = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        bins[t] = 0;
        bins[t + 128] = 0;
        __syncthreads();
        for (int i = t; i < n; i += 128)
            if ((row[i] & mask) == prefix) atomicAdd(&bins[row[i] >> shift & 255], 1);
        __syncthreads();
        if (t == 0) {
            unsigned d = 0;
            while (bins[d] <= rest) rest -= bins[d++];
            digit = d;
        }
        __syncthreads();
        prefix |= digit << shift;
        mask |= 255u << shift;
    }
    if (t == 0) out[blockIdx.x] = prefix;
}

// How often pairs of levels of two images meet; two counters of sixteen bits a word, one table a warp.
KERNEL joint_histogram(const unsigned char* a, const unsigned char* b, unsigned* out, int n)
{
    __shared__ unsigned tables[2][128];
    unsigned* mine = tables[threadIdx.x / 32];
    for (int i = threadIdx.x; i < 256; i += 64) (&tables[0][0])[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) {
        int bin = (a[i] >> 4) * 16 + (b[i] >> 4);
        atomicAdd(&mine[bin >> 1], bin & 1 ? 0x10000u : 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 64) {
        unsigned x = tables[0][i], y = tables[1][i];
        unsigned even = (x & 0xffff) + (y & 0xffff), odd = (x >> 16) + (y >> 16);
        if (even) atomicAdd(&out[2 * i], even);
        if (odd) atomicAdd(&out[2 * i + 1], odd);
    }
}

__device__ bool holds(const int* sorted, int n, int x)
{
    int low = 0, high = n - 1;
    while (low <= high) {
        int mid = (low + high) / 2;
        if (sorted[mid] == x) return true;
        if (sorted[mid] < x) low = mid + 1; else high = mid - 1;
    }
    return false;
}

// What two sorted sets have in common, in order.
KERNEL intersect(const int* a, int n, const int* b, int m, int* out, int* count)
{
    extern __shared__ int set[];
    __shared__ int before[8];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    for (int i = t; i < m; i += blockDim.x) set[i] = b[i];
    __syncthreads();
    bool there = t < n && holds(set, m, a[t]);
    unsigned votes = __ballot_sync(ALL, there);
    if (lane == 0) before[warp] = __popc(votes);
    __syncthreads();
    if (warp == 0) {
        int own = lane < 8 ? before[lane] : 0, sum = own;
        for (int d = 1; d < 8; d *= 2) {
            int y = __shfl_up_sync(ALL, sum, d);
            if (lane >= d) sum += y;
        }
        if (lane < 8) before[lane] = sum - own;
        if (lane == 7) *count = sum;
    }
    __syncthreads();
    if (there) out[before[warp] + __popc(votes & ((1u << lane) - 1))] = a[t];
}

// Pairs that are out of order.
KERNEL inversions(const short* a, unsigned long long* total, int n)
{
    __shared__ short tile[64];
    int i = blockIdx.x * 64 + threadIdx.x, found = 0;
    short x = i < n ? a[i] : SHRT_MIN;
    for (int base = blockIdx.x * 64; base < n; base += 64) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? a[j] : SHRT_MAX;
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 64; ++k) found += base + k > i && tile[k] < x;
        __syncthreads();
    }
    if (found) atomicAdd(total, (unsigned long long)found);
}

// The five nearest of all points to each query in a heap of its thread, then taken from it in order.
KERNEL nearest_five(const int2* points, int n, const int2* queries, int* out, int m)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= m) return;
    int heap[5] = {INT_MAX, INT_MAX, INT_MAX, INT_MAX, INT_MAX};
    int2 c = queries[q];
    for (int i = 0; i < n; ++i) {
        int dx = points[i].x - c.x, dy = points[i].y - c.y, d = dx * dx + dy * dy;
        if (d >= heap[0]) continue;
        int at = 0;
        while (2 * at + 1 < 5) {
            int child = 2 * at + 1;
            if (child + 1 < 5 && heap[child + 1] > heap[child]) ++child;
            if (heap[child] <= d) break;
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = d;
    }
    for (int size = 5; size > 0; --size) {
        out[q * 5 + size - 1] = heap[0];
        int d = heap[size - 1], at = 0;
        while (2 * at + 1 < size - 1) {
            int child = 2 * at + 1;
            if (child + 1 < size - 1 && heap[child + 1] > heap[child]) ++child;
            if (heap[child] <= d) break;
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = d;
    }
}

// Less, equal and greater than a pivot, each in the order they came, block by block.
KERNEL three_ways(const int* a, int* out, int2* splits, int pivot)
{
    __shared__ int3 warps[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, x = a[blockIdx.x * 128 + t];
    unsigned less = __ballot_sync(ALL, x < pivot), equal = __ballot_sync(ALL, x == pivot), more = ~(less | equal);
    if (lane == 0) warps[warp] = make_int3(__popc(less), __popc(equal), __popc(more));
    __syncthreads();
    int3 before = make_int3(0, 0, 0), all = before;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        int3 c = warps[w];
        if (w < warp) { before.x += c.x; before.y += c.y; before.z += c.z; }
        all.x += c.x; all.y += c.y; all.z += c.z;
    }
    unsigned lower = (1u << lane) - 1;
    int place = x < pivot ? before.x + __popc(less & lower)
              : x == pivot ? all.x + before.y + __popc(equal & lower)
              : all.x + all.y + before.z + __popc(more & lower);
    out[blockIdx.x * 128 + place] = x;
    if (t == 0) splits[blockIdx.x] = make_int2(all.x, all.x + all.y);
}

// How far each member of a linked list is from its end, by jumping over as many as are known.
KERNEL list_ranks(const int* next, int* rank, int n)
{
    extern __shared__ int2 links[];
    int t = threadIdx.x;
    if (t < n) links[t] = make_int2(next[t], next[t] >= 0);
    __syncthreads();
    for (int covered = 1; covered < n; covered *= 2) {
        int2 mine = make_int2(-1, 0);
        if (t < n) {
            mine = links[t];
            if (mine.x >= 0) { int2 far = links[mine.x]; mine = make_int2(far.x, mine.y + far.y); }
        }
        __syncthreads();
        if (t < n) links[t] = mine;
        __syncthreads();
    }
    if (t < n) rank[t] = links[t].y;
}

// A round of Bellman and Ford: every edge tries to shorten the way to its end.
KERNEL relax_edges(const int* from, const int* to, const int* weight, const int* now, int* next, int m)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= m) return;
    int d = now[from[e]];
    if (d < INT_MAX) atomicMin(&next[to[e]], d + weight[e]);
}

__device__ unsigned priority(unsigned v) { v *= 2654435761u; return v ^ v >> 15; }

// A round of Jones and Plassmann: who has the highest priority around takes the least free colour.
KERNEL colour_round(const int* starts, const int* targets, const int* now, int* next, int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    int colour = now[v];
    if (colour < 0) {
        unsigned own = priority(v), taken = 0;
        bool first = true;
        for (int k = starts[v]; k < starts[v + 1]; ++k) {
            int u = targets[k], c = now[u];
            if (c >= 0) taken |= 1u << c;
            else if (priority(u) > own) { first = false; break; }
        }
        if (first) colour = __ffs(~taken) - 1;
    }
    next[v] = colour;
}

// Peels nodes of few neighbours off a graph, round by round: who goes, then what that takes from the others.
KERNEL mark_thin(const int* degree, int* state, int n, int k)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n && state[v] == 1) state[v] = degree[v] < k ? 2 : 1;
    else if (v < n && state[v] == 2) state[v] = 0;
}

KERNEL take_off(const int* starts, const int* targets, const int* state, int* degree, int n)
{
    int v = (blockIdx.x * blockDim.x + threadIdx.x) / 8, part = threadIdx.x % 8;
    if (v >= n || state[v] != 2) return;
    for (int k = starts[v] + part; k < starts[v + 1]; k += 8) atomicSub(&degree[targets[k]], 1);
}

// Ranks flow along edges in fixed point, so that the order of sums does not matter.
KERNEL push_ranks(const int2* edges, const int* degree, const unsigned long long* rank, unsigned long long* next, int m)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= m) return;
    int2 ends = edges[e];
    atomicAdd(&next[ends.y], rank[ends.x] / degree[ends.x]);
}

// Chains of equal hashes are made by exchanging their heads; a query follows its whole chain.
KERNEL empty_chains(int* heads) { heads[threadIdx.x] = -1; }

KERNEL chain_keys(const unsigned* keys, int* heads, int* next, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) next[i] = atomicExch(&heads[keys[i] * 2654435769u >> 26], i);
}

KERNEL count_in_chains(const unsigned* keys, const int* heads, const int* next, const unsigned* queries, int* out,
                       int m)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= m) return;
    unsigned x = queries[q];
    int found = 0;
    for (int i = heads[x * 2654435769u >> 26]; i >= 0; i = next[i]) found += keys[i] == x;
    out[q] = found;
}

// Two places at most for a key: of the first hash, or of the second one.
KERNEL cuckoo_find(const uint2* table, const unsigned* queries, unsigned* out, int slots, int m)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= m) return;
    unsigned x = queries[q], value = 0xffffffffu;
    uint2 entry = table[(x ^ 0x9e3779b9u) % slots];
    if (entry.x == x) value = entry.y;
    else {
        entry = table[slots + (x * 31u + 7u) % slots];
        if (entry.x == x) value = entry.y;
    }
    out[q] = value;
}

// How many leaves of a tree of intervals a query meets; the way back is a stack.
KERNEL stab_tree(const float2* spans, const float2* queries, int* out, int leaves, int m)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= m) return;
    float2 asked = queries[q];
    int stack[16], height = 0, found = 0;
    stack[height++] = 1;
    while (height > 0) {
        int node = stack[--height];
        float2 span = spans[node];
        if (span.x > asked.y || span.y < asked.x) continue;
        if (node >= leaves) { ++found; continue; }
        stack[height++] = 2 * node;
        stack[height++] = 2 * node + 1;
    }
    out[q] = found;
}

// A forest of decisions: each tree is walked to a leaf, whose values are added.
KERNEL decide(const float* features, int columns, const int4* nodes, const int* roots, int trees, float* out, int rows)
{
    extern __shared__ float row_values[];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float* mine = row_values + threadIdx.x * (columns + 1);
    if (row >= rows) return;
    for (int c = 0; c < columns; ++c) mine[c] = features[row * columns + c];
    float sum = 0.0f;
    for (int k = 0; k < trees; ++k) {
        int4 node = nodes[roots[k]];
        while (node.x >= 0) node = nodes[mine[node.x] < __int_as_float(node.y) ? node.z : node.w];
        sum += __int_as_float(node.y);
    }
    out[row] = sum;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def join_variances(a, out):
    rows, n = a.shape
    _run("join_variances", ((rows + 3) // 4,), (32, 4), a, out, cupy.int32(rows), cupy.int32(n))


def smallest_place(a, best):
    _run("smallest_place", (2,), (96,), a, best, cupy.int32(a.size))


def half_dot(a, b, out):
    _run("half_dot", (1,), (96,), a, b, out, cupy.int32(a.size))


def segment_maxima(a, starts, out):
    _run("segment_maxima", (4,), (128,), a, starts, out, cupy.int32(out.size))


def sort_eights(a, out):
    _run("sort_eights", (2,), (64,), a, out, cupy.int32(len(a)))


def sort_items(items, out):
    _run("sort_items", (2,), (128,), items, out)


def kth_smallest(a, out):
    _run("kth_smallest", (len(a),), (128,), a, out, cupy.int32(a.shape[1]), cupy.int32(70))


def joint_histogram(a, b, out):
    _run("joint_histogram", (3,), (64,), a, b, out, cupy.int32(a.size))


def intersect(a, b, out, count):
    _run("intersect", (1,), (256,), a, cupy.int32(a.size), b, cupy.int32(b.size), out, count, shared=4 * b.size)


def inversions(a, total):
    _run("inversions", ((a.size + 63) // 64,), (64,), a, total, cupy.int32(a.size))


def nearest_five(points, queries, out):
    _run("nearest_five", (2,), (32,), points, cupy.int32(len(points)), queries, out, cupy.int32(len(queries)))


def three_ways(a, out, splits):
    _run("three_ways", (a.size // 128,), (128,), a, out, splits, cupy.int32(2))


def list_ranks(next, rank):
    _run("list_ranks", (1,), (224,), next, rank, cupy.int32(next.size), shared=8 * next.size)


def shortest_ways(start, end, weight, now, next):
    for _ in range(2):
        _run("relax_edges", (3,), (128,), start, end, weight, now, next, cupy.int32(start.size))
        _run("relax_edges", (3,), (128,), start, end, weight, next, now, cupy.int32(start.size))


def colour_graph(starts, targets, colour, other):
    for _ in range(3):
        _run("colour_round", (3,), (64,), starts, targets, colour, other, cupy.int32(colour.size))
        _run("colour_round", (3,), (64,), starts, targets, other, colour, cupy.int32(colour.size))


def thick_core(starts, targets, degree, state):
    n = cupy.int32(degree.size)
    for _ in range(4):
        _run("mark_thin", (2,), (96,), degree, state, n, cupy.int32(5))
        _run("take_off", (12,), (128,), starts, targets, state, degree, n)


def push_ranks(edges, degree, rank, next):
    _run("push_ranks", (5,), (96,), edges, degree, rank, next, cupy.int32(len(edges)))


def chained_counts(keys, queries, out):
    heads, next = cupy.empty(64, cupy.int32), cupy.empty(keys.size, cupy.int32)
    _run("empty_chains", (1,), (64,), heads)
    _run("chain_keys", (2,), (128,), keys, heads, next, cupy.int32(keys.size))
    _run("count_in_chains", (3,), (64,), keys, heads, next, queries, out, cupy.int32(queries.size))


def cuckoo_find(table, queries, out):
    _run("cuckoo_find", (2,), (128,), table, queries, out, cupy.int32(len(table) // 2), cupy.int32(queries.size))


def stab_tree(spans, queries, out):
    _run("stab_tree", (2,), (64,), spans, queries, out, cupy.int32(len(spans) // 2), cupy.int32(len(queries)))


def decide(features, nodes, roots, out):
    rows, columns = features.shape
    numbers = cupy.int32(roots.size), out, cupy.int32(rows)
    _run("decide", (2,), (64,), features, cupy.int32(columns), nodes, roots, *numbers, shared=64 * 4 * (columns + 1))
