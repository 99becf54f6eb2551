"""The fourth set of kernels that no rule of counting was made from: sorting, searching, trees and graphs."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned long long u64;

// Stable into sixteen buckets whose edges are a tree: counts of each thread's own run, their sums, then the places.
KERNEL fill_buckets(const unsigned* in, const unsigned* tree, unsigned* out, int* ends, int n)
{
    __shared__ unsigned short counts[16][64];
    __shared__ int firsts[16];
    int t = threadIdx.x, run = (n + 63) / 64, begin = min(t * run, n), end = min(begin + run, n);
    in += blockIdx.x * n; out += blockIdx.x * n;
    for (int b = 0; b < 16; ++b) counts[b][t] = 0;
    for (int i = begin; i < end; ++i) {
        int node = 1;
        unsigned x = in[i];
        for (int d = 0; d < 4; ++d) node = 2 * node + (x >= tree[node]);
        ++counts[node - 16][t];
    }
    __syncthreads();
    if (t < 16) {
        int sum = 0;
        for (int k = 0; k < 64; ++k) { int c = counts[t][k]; counts[t][k] = sum; sum += c; }
        int before = sum;
        for (int d = 1; d < 16; d *= 2) {
            int other = __shfl_up_sync(0xffff, before, d, 16);
            if (t >= d) before += other;
        }
        firsts[t] = before - sum;
        ends[blockIdx.x * 16 + t] = before;
    }
    __syncthreads();
    for (int i = begin; i < end; ++i) {
        int node = 1;
        unsigned x = in[i];
        for (int d = 0; d < 4; ++d) node = 2 * node + (x >= tree[node]);
        out[firsts[node - 16] + counts[node - 16][t]++] = x;
    }
}

// Sorts ten bits, one at a time: zeros before ones, by ballots and counts of warps.
KERNEL split_sort(const unsigned short* in, unsigned short* out)
{
    __shared__ unsigned short keys[160];
    __shared__ int zeros[5];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    unsigned key = in[blockIdx.x * 160 + t];
    for (int bit = 0; bit < 10; ++bit) {
        bool one = key >> bit & 1;
        unsigned votes = __ballot_sync(ALL, !one);
        if (lane == 0) zeros[warp] = __popc(votes);
        __syncthreads();
        int before = __popc(votes & ((1u << lane) - 1)), all = 0;
        for (int k = 0; k < 5; ++k) {
            if (k < warp) before += zeros[k];
            all += zeros[k];
        }
        keys[one ? all + t - before : before] = key;
        __syncthreads();
        key = keys[t];
        __syncthreads();
    }
    out[blockIdx.x * 160 + t] = key;
}

// A task's level is one more than the highest of what it waits for: a round takes all that wait for nothing any more.
KERNEL release(const int* starts, const int* targets, int* waits, int* level, int now, int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || level[v] != now) return;
    for (int k = starts[v]; k < starts[v + 1]; ++k) atomicSub(&waits[targets[k]], 1);
}

KERNEL take_free(const int* waits, int* level, int now, int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n && level[v] < 0 && waits[v] == 0) level[v] = now;
}

// Boruvka's rounds in one block: each tree finds its lightest edge, hooks to the other end's tree, and is flattened.
KERNEL spanning_tree(const int* from, const int* to, const int* weight, unsigned* chosen, int edges, int n)
{
    __shared__ u64 best[96];
    __shared__ int root[96], hook[96];
    int t = threadIdx.x;
    if (t < n) root[t] = t;
    int base = blockIdx.x * edges;
    while (true) {
        if (t < n) best[t] = ~0ull;
        __syncthreads();
        for (int e = t; e < edges; e += blockDim.x) {
            int a = root[from[base + e]], b = root[to[base + e]];
            if (a == b) continue;
            u64 key = (u64)weight[base + e] << 32 | e;
            atomicMin(&best[a], key);
            atomicMin(&best[b], key);
        }
        __syncthreads();
        bool hooks = t < n && best[t] != ~0ull;
        if (t < n) hook[t] = t;
        if (!__syncthreads_or(hooks)) break;
        if (hooks) {
            int e = (int)best[t], a = root[from[base + e]], b = root[to[base + e]], other = a == t ? b : a;
            chosen[base + e] = 1;
            if (best[other] != best[t] || t > other) hook[t] = other;
        }
        __syncthreads();
        int at = 0;
        if (t < n) { at = root[t]; while (hook[at] != at) at = hook[at]; }
        __syncthreads();
        if (t < n) root[t] = at;
    }
}

// Six sorted runs become one by a heap of their heads; the runs of each thread lie side by side.
KERNEL merge_six(const int* in, int* out, int length, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int heap[6], at[6], heads[6], size = 6;
    for (int r = 0; r < 6; ++r) {
        heads[r] = in[r * length * n + i];
        at[r] = 0;
        int child = r;
        while (child > 0 && heads[heap[(child - 1) / 2]] > heads[r]) {
            heap[child] = heap[(child - 1) / 2];
            child = (child - 1) / 2;
        }
        heap[child] = r;
    }
    for (int k = 0; size; ++k) {
        int r = heap[0];
        out[k * n + i] = heads[r];
        if (++at[r] < length) heads[r] = in[(r * length + at[r]) * n + i];
        else r = heap[--size];
        int hole = 0;
        while (2 * hole + 1 < size) {
            int child = 2 * hole + 1;
            if (child + 1 < size && heads[heap[child + 1]] < heads[heap[child]]) ++child;
            if (heads[heap[child]] >= heads[r]) break;
            heap[hole] = heap[child];
            hole = child;
        }
        heap[hole] = r;
    }
}

// Lower bounds in a sorted array that is laid out as a tree, level by level; the last step goes back up.
KERNEL tree_bounds(const long long* __restrict__ tree, const long long* queries, int* out, int size, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        long long q = queries[i];
        int node = 1;
        while (node <= size) node = 2 * node + (tree[node] < q);
        out[i] = node >> __ffs(~node);
    }
}

// Smallest values of ranges from a table of ranges whose lengths are powers of two, made in shared memory.
KERNEL range_minima(const int* a, const int2* ranges, int* out, int queries)
{
    __shared__ int table[8][128];
    int t = threadIdx.x;
    table[0][t] = a[blockIdx.x * 128 + t];
    for (int k = 1; k < 8; ++k) {
        __syncthreads();
        int half = 1 << (k - 1);
        table[k][t] = min(table[k - 1][t], table[k - 1][min(t + half, 127)]);
    }
    __syncthreads();
    for (int q = t; q < queries; q += 128) {
        int2 r = ranges[blockIdx.x * queries + q];
        int k = 31 - __clz(r.y - r.x);
        out[blockIdx.x * queries + q] = min(table[k][r.x], table[k][r.y - (1 << k)]);
    }
}

// The nearest of points in a tree that is split in turn by each axis, with a stack for the far sides.
KERNEL nearest_in_tree(const int2* nodes, const int2* queries, int* best_of, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int2 q = queries[i];
    int stack[16], off[16], top = 0, best = 0x7fffffff;
    stack[top] = 0; off[top++] = 0;
    while (top) {
        int node = stack[--top];
        if (off[top] >= best) continue;
        while (node < size) {
            int2 p = nodes[node];
            int dx = q.x - p.x, dy = q.y - p.y;
            best = min(best, dx * dx + dy * dy);
            int depth = 31 - __clz(node + 1), side = depth & 1 ? dy : dx;
            stack[top] = 2 * node + (side < 0 ? 2 : 1);
            off[top++] = side * side;
            node = 2 * node + (side < 0 ? 1 : 2);
        }
    }
    best_of[i] = best;
}

// The lowest common ancestor of pairs, by jumps of powers of two.
KERNEL common_ancestors(const unsigned char* jumps, const unsigned char* depth, const uchar2* pairs, unsigned char* out,
                        int nodes, int n)
{
    __shared__ unsigned char up[6][250];
    for (int i = threadIdx.x; i < 6 * nodes; i += blockDim.x) up[i / nodes][i % nodes] = jumps[i];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = pairs[i].x, b = pairs[i].y;
    if (depth[a] < depth[b]) { int x = a; a = b; b = x; }
    int lift = depth[a] - depth[b];
    for (int k = 0; lift; ++k, lift >>= 1) if (lift & 1) a = up[k][a];
    if (a != b) {
        for (int k = 5; k >= 0; --k)
            if (up[k][a] != up[k][b]) { a = up[k][a]; b = up[k][b]; }
        a = up[0][a];
    }
    out[i] = a;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)((grid,), (block,), arguments)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def fill_buckets(a, tree, out, ends):
    _run("fill_buckets", len(a), 64, a, tree, out, ends, *_ints(a.shape[1]))


def split_sort(a, out):
    _run("split_sort", len(a), 160, a, out)


def task_levels(starts, targets, waits, level):
    n = level.size
    for now in range(6):
        _run("take_free", 2, 64, waits, level, *_ints(now, n))
        _run("release", 2, 64, starts, targets, waits, level, *_ints(now, n))


def spanning_tree(sources, targets, weights, chosen):
    _run("spanning_tree", len(weights), 96, sources, targets, weights, chosen, *_ints(weights.shape[1], 90))


def merge_six(runs, out):
    _, length, n = runs.shape
    _run("merge_six", 2, 64, runs, out, *_ints(length, n))


def tree_bounds(tree, queries, out):
    _run("tree_bounds", 3, 64, tree, queries, out, *_ints(tree.size - 1, queries.size))


def range_minima(a, ranges, out):
    _run("range_minima", len(a), 128, a, ranges, out, *_ints(out.shape[1]))


def nearest_in_tree(nodes, queries, out):
    _run("nearest_in_tree", 3, 64, nodes, queries, out, *_ints(len(nodes), len(queries)))


def common_ancestors(jumps, depth, pairs, out):
    _run("common_ancestors", 3, 96, jumps, depth, pairs, out, *_ints(depth.size, out.size))
