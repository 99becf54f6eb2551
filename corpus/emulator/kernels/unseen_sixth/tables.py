"""The sixth set of kernels that no rule of counting was made from: tables, joins, intervals, caches, queues, hashes."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// Joins two tables by keys: each thread fills a bucket of its own, then all look their keys up.
KERNEL join_by_hash(const int* keys, const float* prices, const int* asked, float* out, int* missing, int n, int m)
{
    __shared__ int bucket_keys[64][12], have[64];
    __shared__ float bucket_values[64][12];
    __shared__ int lost;
    if (threadIdx.x == 0) lost = 0;
    if (threadIdx.x < 64) {
        unsigned own = threadIdx.x, count = 0;
        for (int k = 0; k < n; ++k) {
            int key = keys[k];
            if (key * 2654435761u >> 26 != own || count == 12) continue;
            bucket_keys[own][count] = key;
            bucket_values[own][count++] = prices[k];
        }
        have[own] = count;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < m; k += blockDim.x) {
        int key = asked[blockIdx.x * m + k], at = 0;
        unsigned bucket = key * 2654435761u >> 26;
        while (at < have[bucket] && bucket_keys[bucket][at] != key) ++at;
        bool found = at < have[bucket];
        out[blockIdx.x * m + k] = found ? bucket_values[bucket][at] : 0.0f;
        if (!found) atomicAdd(&lost, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) missing[blockIdx.x] = lost;
}

// Intervals in order of their beginnings, those that touch made one; a row a thread, columns of rows.
KERNEL merge_intervals(const int* from, const int* to, int* begins, int* ends, int* counts, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int made = 0, k = 0;
    while (k < size) {
        int a = from[k * n + i], b = to[k * n + i];
        for (++k; k < size && from[k * n + i] <= b; ++k) b = max(b, to[k * n + i]);
        begins[made * n + i] = a;
        ends[made++ * n + i] = b;
    }
    counts[i] = made;
    for (; made < size; ++made) begins[made * n + i] = ends[made * n + i] = -1;
}

// How many calls run at once at most: starts and ends counted in shared memory, then sums of them by warps.
KERNEL busiest(const short2* calls, int2* out, int size)
{
    __shared__ int change[256], sums[8];
    int t = threadIdx.x, lane = t & 31;
    change[t] = 0;
    __syncthreads();
    for (int k = t; k < size; k += 256) {
        short2 c = calls[blockIdx.x * size + k];
        atomicAdd(&change[c.x], 1);
        atomicSub(&change[c.y], 1);
    }
    __syncthreads();
    int sum = change[t];
    for (int d = 1; d < 32; d <<= 1) {
        int below = __shfl_up_sync(ALL, sum, d);
        if (lane >= d) sum += below;
    }
    if (lane == 31) sums[t >> 5] = sum;
    __syncthreads();
    for (int k = 0; k < t >> 5; ++k) sum += sums[k];
    int most = __reduce_max_sync(ALL, sum * 256 + 255 - t);
    __syncthreads();
    if (lane == 0) sums[t >> 5] = most;
    __syncthreads();
    if (t >= 8) return;
    most = sums[t];
    for (int d = 4; d; d >>= 1) most = max(most, __shfl_down_sync(0xff, most, d));
    if (t == 0) out[blockIdx.x] = make_int2(most >> 8, 255 - (most & 255));
}

// Indexes of bits: rows of a class and an age, counted and kept as bits, then asked with and, or, not.
KERNEL bit_index(const byte* kinds, const byte* ages, unsigned* bitmaps, int* counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, word = i / 32;
    byte kind = i < n ? kinds[i] : 255, age = i < n ? ages[i] : 255;
    unsigned maps[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) maps[k] = __ballot_sync(ALL, kind == k);
    unsigned young = __ballot_sync(ALL, age < 30), old = __ballot_sync(ALL, age >= 65 && age != 255);
    if (i % 32) return;
    if (word * 32 >= n) return;
    unsigned found = ((maps[0] | maps[2]) & young) | (maps[1] & ~young & ~old) | (maps[3] & old);
    bitmaps[word] = found;
    atomicAdd(&counts[0], __popc(found));
    atomicMax(&counts[1], __popc(found));
    if (found == 0) atomicAdd(&counts[2], 1);
}

// Sums by town and month of sales in cents straight to memory; their numbers first in shared memory.
KERNEL pivot(const int4* sales, u64* sums, int* counts, int n)
{
    __shared__ int many[7 * 13];
    for (int k = threadIdx.x; k < 91; k += blockDim.x) many[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int4 s = sales[i];
        int at = s.x * 13 + s.y;
        atomicAdd(&sums[at], (u64)s.z * s.w);
        atomicAdd(&many[at], 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 91; k += blockDim.x) {
        if (!many[k]) continue;
        atomicAdd(&counts[k], many[k]);
    }
}

// The last price before each trade, if it is not too old.
KERNEL last_quotes(const int* starts, const int* times, const double* quotes, const int2* trades, double* out, int old,
                   int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int2 trade = trades[i];
    int low = starts[trade.x], first = low, high = starts[trade.x + 1];
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (times[middle] <= trade.y) low = middle + 1;
        else high = middle;
    }
    out[i] = low == first || trade.y - times[low - 1] > old ? -1.0 : quotes[low - 1];
}

// Keys looked up in a list with express lanes: right while the next key is not too large, else down.
KERNEL skip_list(const int* keys, const short* next, const int* asked, int* found, int* steps, int levels, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int key = asked[i], node = 0, count = 0;
    for (int level = levels - 1; level >= 0; --level) {
        for (;;) {
            int to = next[node * levels + level];
            if (to < 0 || keys[to] > key) break;
            node = to;
            ++count;
        }
        if (node && keys[node] == key) break;
    }
    found[i] = node && keys[node] == key ? node : -1;
    steps[i] = count;
}

// Keys looked up in nodes of seven, each by two loads of four.
KERNEL wide_nodes(const int4* nodes, const int* asked, int* place, int depth, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int key = asked[i], node = 0, rank = 0;
    for (int level = 0; level < depth; ++level) {
        int4 a = nodes[2 * node], b = nodes[2 * node + 1];
        int child = (a.x < key) + (a.y < key) + (a.z < key) + (a.w < key) + (b.x < key) + (b.y < key) + (b.z < key);
        rank = rank * 8 + child;
        node = node * 8 + 1 + child;
    }
    place[i] = rank;
}

// Caches of eight sets of four lines, the line least lately used goes: hits of a trace of addresses.
KERNEL cache_hits(const unsigned* traces, int* hits, int* written_back, int size, int n)
{
    __shared__ unsigned lines[32][33];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    for (int k = 0; k < 32; ++k) lines[k][t] = 0;
    if (i >= n) return;
    int count = 0, back = 0;
    for (int k = 0; k < size; ++k) {
        unsigned access = traces[k * n + i], line = (access >> 7) + 1, store = access & 1;
        unsigned set = line & 7;
        unsigned carried = line << 1 | store;
        int way = 0;
        for (; way < 4; ++way) {
            unsigned was = lines[set * 4 + way][t];
            lines[set * 4 + way][t] = carried;
            if (was >> 1 == line) {
                ++count;
                lines[set * 4][t] |= was & 1;
                break;
            }
            carried = was;
        }
        if (way == 4) back += carried & 1;
    }
    hits[i] = count;
    written_back[i] = back;
}

// Visits with pauses of no more than half an hour are one session: numbers of sessions along each user's row.
KERNEL sessions(const int* times, const byte* users, int* number, int n)
{
    __shared__ int base;
    int t = threadIdx.x, lane = t & 31;
    if (t == 0) base = 0;
    __shared__ int firsts[4];
    for (int at = 0; at < n; at += blockDim.x) {
        int i = at + t;
        bool first = i < n && (i == 0 || users[i] != users[i - 1] || times[i] - times[i - 1] > 1800);
        unsigned votes = __ballot_sync(ALL, first);
        if (lane == 0) firsts[t >> 5] = __popc(votes);
        __syncthreads();
        int rank = base + __popc(votes & (2u << lane) - 1);
        for (int k = 0; k < t >> 5; ++k) rank += firsts[k];
        if (i < n) number[i] = rank - 1;
        __syncthreads();
        if (t == blockDim.x - 1) base = rank;
        __syncthreads();
    }
}

// Keys put in a small table where those far from home displace those near; how far the farthest is.
KERNEL robin_hood(const unsigned short* keys, unsigned short* table, int* farthest, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned short own[32];
    byte far[32];
    for (int k = 0; k < 32; ++k) { own[k] = 0; far[k] = 0; }
    int most = 0;
    for (int k = 0; k < size; ++k) {
        unsigned short key = keys[k * n + i];
        int at = key * 40503u >> 11 & 31, away = 0;
        bool known = false;
        while (own[at]) {
            if (own[at] == key) { known = true; break; }
            if (far[at] < away) {
                unsigned short other = own[at];
                int before = far[at];
                own[at] = key;
                far[at] = away;
                most = max(most, away);
                key = other;
                away = before;
            }
            at = (at + 1) & 31;
            ++away;
        }
        if (known) continue;
        own[at] = key;
        far[at] = away;
        most = max(most, away);
    }
    for (int k = 0; k < 32; ++k) table[k * n + i] = own[k];
    farthest[i] = most;
}

// Two sorted rows made one without doubles.
KERNEL unite(const short* a, const short* b, short* out, int* sizes, int many, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = 0, y = 0, made = 0, last = -32768;
    while (x < many || y < size) {
        int v;
        if (y == size || (x < many && a[x * n + i] <= b[y * n + i])) v = a[x++ * n + i];
        else v = b[y++ * n + i];
        if (v == last) continue;
        last = v;
        out[made++ * n + i] = v;
    }
    sizes[i] = made;
    for (; made < many + size; ++made) out[made * n + i] = -1;
}

// Customers that come to a few desks: each goes to the one that is free first.
KERNEL queues(const short2* customers, int* waited, int* closed, int size, int desks, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int open[6], now = 0, total = 0;
    int have = 2 + i % (desks - 1);
    for (int k = 0; k < have; ++k) open[k] = 0;
    for (int k = 0; k < size; ++k) {
        short2 c = customers[k * n + i];
        now += c.x;
        int desk = 0;
        for (int d = 1; d < have; ++d) {
            if (open[d] < open[desk]) desk = d;
            if (open[desk] <= now) break;
        }
        int wait = max(open[desk] - now, 0);
        if (wait > 60) continue;
        total += wait;
        open[desk] = now + wait + c.y;
    }
    int last = 0;
    for (int k = 0; k < have; ++k) last = max(last, open[k]);
    waited[i] = total;
    closed[i] = last;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)((grid,), (block,), arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def join_by_hash(keys, prices, asked, out, missing):
    blocks, m = asked.shape
    _run("join_by_hash", blocks, 96, keys, prices, asked, out, missing, *_ints(keys.size, m))


def merge_intervals(first, last, begins, ends, counts):
    size, n = first.shape
    _run("merge_intervals", 4, 32, first, last, begins, ends, counts, *_ints(size, n))


def busiest(calls, out):
    _run("busiest", len(calls), 256, calls, out, *_ints(calls.shape[1]))


def bit_index(kinds, ages, bitmaps, counts):
    _run("bit_index", 5, 128, kinds, ages, bitmaps, counts, *_ints(kinds.size))


def pivot(sales, sums, counts):
    _run("pivot", 3, 96, sales, sums, counts, *_ints(len(sales)))


def last_quotes(starts, times, quotes, trades, out):
    _run("last_quotes", 3, 96, starts, times, quotes, trades, out, *_ints(40, out.size))


def skip_list(keys, next, asked, found, steps):
    _run("skip_list", 3, 64, keys, next, asked, found, steps, *_ints(next.shape[1], asked.size))


def wide_nodes(nodes, asked, place):
    _run("wide_nodes", 3, 128, nodes, asked, place, *_ints(3, asked.size))


def cache_hits(traces, hits, written_back):
    _run("cache_hits", 3, 32, traces, hits, written_back, *_ints(*traces.shape))


def sessions(times, users, number):
    _run("sessions", 1, 128, times, users, number, *_ints(times.size))


def robin_hood(keys, table, farthest):
    _run("robin_hood", 3, 32, keys, table, farthest, *_ints(*keys.shape))


def unite(a, b, out, sizes):
    _run("unite", 2, 48, a, b, out, sizes, *_ints(len(a), *b.shape))


def queues(customers, waited, closed):
    size, n, _ = customers.shape
    _run("queues", 3, 48, customers, waited, closed, *_ints(size, 5, n))
