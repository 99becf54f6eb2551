"""The fifth set of kernels that no rule of counting was made from: sequences, searches, joins, trees and graphs."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned long long u64;

// Batcher's merges of odd and even places: pairs of keys and what they bring, a row a block, as 64-bit words.
KERNEL odd_even_merges(const unsigned* keys, const unsigned* brought, unsigned* out, unsigned* carried, int n)
{
    __shared__ u64 s[128];
    int t = threadIdx.x, row = blockIdx.x;
    for (int i = t; i < 128; i += 64) s[i] = i < n ? (u64)keys[row * n + i] << 32 | brought[row * n + i] : ~0ull;
    for (int p = 1; p < 128; p *= 2)
        for (int k = p; k > 0; k /= 2) {
            __syncthreads();
            int j = k % p + t / k * 2 * k, low = j + t % k, high = low + k;
            if (high < 128 && low / (2 * p) == high / (2 * p)) {
                u64 a = s[low], b = s[high];
                if (b < a) { s[low] = b; s[high] = a; }
            }
        }
    __syncthreads();
    for (int i = t; i < n; i += 64) { out[row * n + i] = s[i] >> 32; carried[row * n + i] = (unsigned)s[i]; }
}

// Votes of Boyer and Moore, joined over a tile of eight threads, then counted; -1 if no value has more than half.
KERNEL majorities(const int* votes, int* out, int n, int rows)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int row = blockIdx.x * (blockDim.x / 8) + tile.meta_group_rank();
    if (row >= rows) return;
    int candidate = -1, lead = 0;
    for (int i = tile.thread_rank(); i < n; i += 8) {
        int v = votes[row * n + i];
        if (lead == 0) { candidate = v; lead = 1; }
        else lead += v == candidate ? 1 : -1;
    }
    for (int d = 4; d; d /= 2) {
        int other = tile.shfl_xor(candidate, d), strength = tile.shfl_xor(lead, d);
        if (other == candidate) lead += strength;
        else if (strength > lead || (strength == lead && other > candidate)) {
            candidate = other;
            lead = strength - lead;
        } else lead -= strength;
    }
    candidate = tile.shfl(candidate, 0);
    int count = 0;
    for (int i = tile.thread_rank(); i < n; i += 8) count += votes[row * n + i] == candidate;
    for (int d = 4; d; d /= 2) count += tile.shfl_down(count, d);
    if (tile.thread_rank() == 0) out[row] = 2 * count > n ? candidate : -1;
}

// The greatest value of each window, kept by a queue of falling values in a thread's own memory.
KERNEL window_maxima(const short* series, short* out, int size, int window, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short value[16], place[16];
    int head = 0, tail = 0;
    for (int k = 0; k < size; ++k) {
        short v = series[k * n + i];
        while (tail > head && value[(tail - 1) & 15] <= v) --tail;
        value[tail & 15] = v;
        place[tail & 15] = k;
        ++tail;
        if (place[head & 15] <= k - window) ++head;
        if (k >= window - 1) out[(k - window + 1) * n + i] = value[head & 15];
    }
}

// The piece of a row with the greatest sum: joined over a block from what each thread knows of its part.
struct Piece { int sum, head, tail, best; };

__device__ Piece joined(const Piece& a, const Piece& b)
{
    return {a.sum + b.sum, max(a.head, a.sum + b.head), max(b.tail, b.sum + a.tail),
            max(max(a.best, b.best), a.tail + b.head)};
}

KERNEL best_pieces(const int* a, int4* out, int n)
{
    __shared__ Piece parts[64];
    int t = threadIdx.x, own = (n + 63) / 64, begin = t * own, end = min(begin + own, n);
    Piece p = {0, -100000, -100000, -100000};
    for (int i = begin; i < end; ++i) {
        int v = a[blockIdx.x * n + i];
        p = i == begin ? Piece{v, v, v, v} : joined(p, Piece{v, v, v, v});
    }
    parts[t] = p;
    for (int d = 1; d < 64; d *= 2) {
        __syncthreads();
        if (t % (2 * d) == 0) parts[t] = joined(parts[t], parts[t + d]);
    }
    if (t == 0) out[blockIdx.x] = make_int4(parts[0].sum, parts[0].head, parts[0].tail, parts[0].best);
}

// How long each day waits for a warmer one; a station a thread, a stack of days that wait.
KERNEL days_to_warmer(const signed char* warmth, unsigned char* wait, int days, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned char stack[48];
    int top = 0;
    for (int d = 0; d < days; ++d) {
        int now = warmth[d * n + i];
        while (top && warmth[stack[top - 1] * n + i] < now) {
            --top;
            wait[stack[top] * n + i] = d - stack[top];
        }
        stack[top++] = d;
    }
    while (top) wait[stack[--top] * n + i] = 0;
}

// Odd numbers to the front and even ones to the back, both in their order.
KERNEL stable_partition(const int* in, int* out, int* odd_ones, int n)
{
    __shared__ int counts[8];
    int i = threadIdx.x, lane = i & 31, warp = i >> 5, row = blockIdx.x;
    bool odd = i < n && in[row * n + i] & 1;
    unsigned mask = __ballot_sync(ALL, odd);
    if (lane == 0) counts[warp] = __popc(mask);
    int whole = __syncthreads_count(odd), before = 0;
    for (int k = 0; k < warp; ++k) before += counts[k];
    before += __popc(mask & ~(ALL << lane));
    if (i < n) out[row * n + (odd ? before : whole + i - before)] = in[row * n + i];
    if (i == 0) odd_ones[row] = whole;
}

// Each value as often as its count says: threads look up in sums of counts which value theirs is.
KERNEL repeat_values(const float* values, const int* ends, float* out, int* source, int n)
{
    int total = ends[n - 1];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int low = 0, high = n;
        while (low < high) {
            int middle = (low + high) >> 1;
            if (ends[middle] <= i) low = middle + 1;
            else high = middle;
        }
        out[i] = values[low];
        source[i] = i - (low ? ends[low - 1] : 0);
    }
}

// The least member of the cycle of a permutation that each place is on, and the cycle's length.
KERNEL cycles(const unsigned char* next, unsigned char* least, unsigned char* length, int n)
{
    __shared__ unsigned char way[128];
    int t = threadIdx.x;
    if (t < n) way[t] = next[blockIdx.x * n + t];
    __syncthreads();
    if (t >= n) return;
    int low = t, count = 1;
    for (int at = way[t]; at != t; at = way[at]) { low = min(low, at); ++count; }
    least[blockIdx.x * n + t] = low;
    length[blockIdx.x * n + t] = count;
}

// Pairs of equal keys of two sorted columns: for each left row how many right rows fit and the first of them.
template <typename Before> __device__ int partition_point(int n, Before before)
{
    int low = 0;
    for (int step = 128; step; step >>= 1)
        if (low + step <= n && before(low + step - 1)) low += step;
    return low;
}

KERNEL join_sorted(const int* left, const int* right, int2* matches, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int key = left[i];
    int first = partition_point(m, [=](int k) { return right[k] < key; });
    int last = partition_point(m, [=](int k) { return right[k] <= key; });
    matches[i] = make_int2(first, last - first);
}

// Sums of prefixes by Fenwick's tree, built in shared memory, then asked and changed by one warp in turns.
KERNEL fenwick(const int* values, const int2* queries, int* out, int n, int asked)
{
    __shared__ int tree[129];
    int t = threadIdx.x;
    for (int i = t + 1; i <= n; i += 32) {
        int low = i - (i & -i), sum = 0;
        for (int k = low; k < i; ++k) sum += values[blockIdx.x * n + k];
        tree[i] = sum;
    }
    __syncwarp();
    for (int q = 0; q < asked; q += 32) {
        int sum = 0;
        int2 ask = q + t < asked ? queries[q + t] : make_int2(0, 0);
        for (int i = ask.x; i > 0; i &= i - 1) sum += tree[i];
        if (q + t < asked) out[blockIdx.x * asked + q + t] = sum;
        __syncwarp();
        if (q + t < asked)
            for (int i = ask.x + 1; i <= n; i += i & -i) atomicAdd(&tree[i], ask.y);
        __syncwarp();
    }
}

// Shortest ways from one node of a small graph with some negative edges: all edges at a time until nothing changes.
KERNEL bellman_ford(const int* from, const int* to, const int* cost, int* out, int nodes, int edges)
{
    __shared__ int way[64];
    int t = threadIdx.x;
    if (t < nodes) way[t] = t == (int)blockIdx.x ? 0 : 1 << 20;
    bool changed = true;
    for (int round = 0; changed && round < nodes; ++round) {
        changed = false;
        for (int first = 0; first < edges; first += blockDim.x) {
            int e = first + t, known = 1 << 20, before = 0;
            __syncthreads();
            if (e < edges) { known = way[from[e]]; before = way[to[e]]; }
            __syncthreads();
            if (known < 1 << 20 && known + cost[e] < before) {
                atomicMin(&way[to[e]], known + cost[e]);
                changed = true;
            }
        }
        changed = __syncthreads_or(changed);
    }
    if (t < nodes) out[blockIdx.x * nodes + t] = way[t];
}

// Luby's independent set: nodes whose number is the least around them join, and neighbours leave.
KERNEL independent_set(const u64* beside, const unsigned short* order, unsigned char* chosen, int n)
{
    __shared__ unsigned char state[64];
    int t = threadIdx.x;
    u64 around = t < n ? beside[blockIdx.x * n + t] : 0;
    unsigned own = t < n ? order[blockIdx.x * n + t] : 0;
    state[t] = t < n ? 0 : 2;
    while (__syncthreads_or(state[t] == 0)) {
        bool least = state[t] == 0;
        for (u64 rest = around; rest && least; rest &= rest - 1) {
            int k = __ffsll(rest) - 1;
            if (state[k] == 0 && order[blockIdx.x * n + k] < own) least = false;
        }
        __syncthreads();
        if (least) state[t] = 1;
        __syncthreads();
        bool leaves = false;
        if (state[t] == 0)
            for (u64 rest = around; rest; rest &= rest - 1)
                if (state[__ffsll(rest) - 1] == 1) { leaves = true; break; }
        __syncthreads();
        if (leaves) state[t] = 2;
    }
    if (t < n) chosen[blockIdx.x * n + t] = state[t] == 1;
}

// Which nodes reach which: Warshall's rounds over rows of bits in shared memory.
KERNEL closure(const uint2* rows, uint2* out, int n)
{
    __shared__ uint2 reach[64];
    int t = threadIdx.x;
    uint2 own = make_uint2(0, 0);
    if (t < n) own = rows[blockIdx.x * n + t];
    for (int k = 0; k < n; ++k) {
        if (t == k) reach[k] = own;
        __syncthreads();
        if ((k < 32 ? own.x >> k : own.y >> (k - 32)) & 1) {
            uint2 more = reach[k];
            own.x |= more.x;
            own.y |= more.y;
        }
    }
    if (t < n) out[blockIdx.x * n + t] = own;
}

// Counts by key: lanes with equal keys send one of them to add for all.
KERNEL count_keys(const int* keys, int* counts, int* groups, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    unsigned here = __ballot_sync(ALL, i < n);
    if (i >= n) return;
    unsigned same = __match_any_sync(here, keys[i]);
    bool leader = __ffs(same) - 1 == lane;
    if (leader) atomicAdd(&counts[keys[i]], __popc(same));
    unsigned leaders = __ballot_sync(here, leader);
    if (lane == 0) groups[i / 32] = __popc(leaders);
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)((grid,), (block,), arguments)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def odd_even_merges(keys, brought, out, carried):
    _run("odd_even_merges", len(keys), 64, keys, brought, out, carried, *_ints(keys.shape[1]))


def majorities(votes, out):
    _run("majorities", 4, 96, votes, out, *_ints(votes.shape[1], out.size))


def window_maxima(series, out):
    size, n = series.shape
    _run("window_maxima", 3, 32, series, out, *_ints(size, size - len(out) + 1, n))


def best_pieces(a, out):
    _run("best_pieces", len(a), 64, a, out, *_ints(a.shape[1]))


def days_to_warmer(warmth, wait):
    _run("days_to_warmer", 2, 64, warmth, wait, *_ints(*warmth.shape))


def stable_partition(a, out, odd_ones):
    _run("stable_partition", len(a), 256, a, out, odd_ones, *_ints(a.shape[1]))


def repeat_values(values, ends, out, source):
    _run("repeat_values", 3, 96, values, ends, out, source, *_ints(values.size))


def cycles(following, least, length):
    _run("cycles", len(following), 128, following, least, length, *_ints(following.shape[1]))


def join_sorted(left, right, matches):
    _run("join_sorted", 3, 64, left, right, matches, *_ints(left.size, right.size))


def fenwick(values, queries, out):
    _run("fenwick", len(values), 32, values, queries, out, *_ints(values.shape[1], len(queries)))


def bellman_ford(sources, targets, costs, out):
    _run("bellman_ford", len(out), 96, sources, targets, costs, out, *_ints(out.shape[1], costs.size))


def independent_set(beside, ranks, chosen):
    _run("independent_set", len(beside), 64, beside, ranks, chosen, *_ints(beside.shape[1]))


def closure(rows, out):
    _run("closure", len(rows), 64, rows, out, *_ints(rows.shape[1]))


def count_keys(keys, counts, groups):
    _run("count_keys", 4, 128, keys, counts, groups, *_ints(keys.size))
