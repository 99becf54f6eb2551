"""Data-parallel algorithms as textbooks have them: scans over blocks, sorts, graphs, strings, cellular automata."""

import cupy

module = cupy.RawModule(
    code=r"""
// One-pass scan with decoupled look-back: a block publishes its sum, then its prefix, and waits for its predecessors.
struct alignas(8) Status { int state; int value; };  // 0: nothing, 1: the block's sum, 2: its prefix

extern "C" __global__ void look_back(const int* a, int* out, unsigned long long* status, int* tickets)
{
    __shared__ int sums[4], before, ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1);
    __syncthreads();
    int block = ticket, t = threadIdx.x, lane = t % 32, warp = t / 32;
    int value = a[block * 128 + t], running = value;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, running, d);
        if (lane >= d) running += other;
    }
    if (lane == 31) sums[warp] = running;
    __syncthreads();
    for (int w = 0; w < warp; ++w) running += sums[w];
    if (t == 127) {
        int total = running, prefix = 0;
        unsigned long long mine = ((unsigned long long)(unsigned)total << 32) | (block == 0 ? 2 : 1);
        atomicExch(status + block, mine);
        for (int look = block - 1; look >= 0;) {
            unsigned long long seen = atomicAdd(status + look, 0ull);
            if ((seen & 3) == 0) continue;
            prefix += (int)(seen >> 32);
            if ((seen & 3) == 2) break;
            --look;
        }
        if (block) atomicExch(status + block, ((unsigned long long)(unsigned)(prefix + total) << 32) | 2);
        before = prefix;
    }
    __syncthreads();
    out[block * 128 + t] = running + before;
}

// Least significant digit radix sort by one block, four bits a pass, stable.
extern "C" __global__ void radix_sort(const unsigned* a, unsigned* out)
{
    __shared__ unsigned keys[256], moved[256];
    __shared__ int counts[16][8], starts[16];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    keys[t] = a[t];
    __syncthreads();
    for (int shift = 0; shift < 32; shift += 4) {
        unsigned key = keys[t], digit = key >> shift & 15;
        if (t < 128) counts[t / 8][t % 8] = 0;
        __syncthreads();
        unsigned same = __match_any_sync(~0u, digit);
        int rank = __popc(same & ((1u << lane) - 1));
        if (rank == 0) counts[digit][warp] = __popc(same);
        __syncthreads();
        if (t < 16) {
            int total = 0;
            for (int w = 0; w < 8; ++w) {
                int c = counts[t][w];
                counts[t][w] = total;
                total += c;
            }
            int all = total;
            for (int d = 1; d < 16; d *= 2) {
                int other = __shfl_up_sync(0xFFFFu, all, d, 16);
                if (t >= d) all += other;
            }
            starts[t] = all - total;
        }
        __syncthreads();
        moved[starts[digit] + counts[digit][warp] + rank] = key;
        __syncthreads();
        keys[t] = moved[t];
        __syncthreads();
    }
    out[t] = keys[t];
}

// Merges sorted runs of `width`: each thread finds its part of the output by the merge path.
extern "C" __global__ void merge(const int* from, int* to, int n, int width)
{
    const int each = 2;
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    if (first >= n) return;
    int begin = first / (2 * width) * (2 * width);
    int a = begin, a_end = min(begin + width, n), b = a_end, b_end = min(begin + 2 * width, n);
    int diagonal = first - begin;
    int low = max(0, diagonal - (b_end - b)), high = min(diagonal, a_end - a);
    while (low < high) {
        int middle = (low + high) / 2;
        if (from[a + middle] <= from[b + diagonal - 1 - middle]) low = middle + 1; else high = middle;
    }
    a += low;
    b += diagonal - low;
    for (int k = 0; k < each && first + k < n; ++k) {
        bool left = b >= b_end || (a < a_end && from[a] <= from[b]);
        to[first + k] = left ? from[a++] : from[b++];
    }
}

extern "C" __global__ void odd_even_global(int* a, int n, int j, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
    if (other > i && other < n) {
        int x = a[i], y = a[other];
        if ((x > y) == ((i & k) == 0)) { a[i] = y; a[other] = x; }
    }
}

// One level of a breadth-first search: the frontier's neighbours that nobody reached yet join the next frontier.
extern "C" __global__ void expand(const int* starts, const int* targets, int* distance, const int* frontier,
                                  const int* count, int* next, int* next_count, int level)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= *count) return;
    int node = frontier[i];
    for (int e = starts[node]; e < starts[node + 1]; ++e)
        if (atomicCAS(distance + targets[e], -1, level) == -1)
            next[atomicAdd(next_count, 1)] = targets[e];
}

extern "C" __global__ void life(const unsigned char* from, unsigned char* to, int m, int n)
{
    __shared__ unsigned char tile[18][34];
    int x0 = blockIdx.x * 32 - 1, y0 = blockIdx.y * 16 - 1;
    for (int k = threadIdx.y * 32 + threadIdx.x; k < 18 * 34; k += 512) {
        int y = (y0 + k / 34 + m) % m, x = (x0 + k % 34 + n) % n;
        tile[k / 34][k % 34] = from[y * n + x];
    }
    __syncthreads();
    int y = blockIdx.y * 16 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x, alive = 0;
    if (y >= m || x >= n) return;
    for (int dy = 0; dy < 3; ++dy)
        for (int dx = 0; dx < 3; ++dx)
            if (dy != 1 || dx != 1) alive += tile[threadIdx.y + dy][threadIdx.x + dx];
    to[y * n + x] = alive == 3 || (alive == 2 && tile[threadIdx.y + 1][threadIdx.x + 1]);
}

__constant__ char pattern[] = "abca";

extern "C" __global__ void search(const char* text, int n, int* found, int* places)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool hit = i + 4 <= n;
    for (int k = 0; k < 4 && hit; ++k) hit = text[i + k] == pattern[k];
    unsigned hits = __ballot_sync(~0u, hit);
    if (threadIdx.x % 32 == 0 && hits) atomicAdd(found, __popc(hits));
    if (i < n) places[i] = hit;
}

extern "C" __global__ void edit_distance(const char* a, const char* b, int* out, int m, int n)
{
    // Anti-diagonals of the table in three rotating rows; one block, one thread a row.
    __shared__ int rows[3][65];
    int i = threadIdx.x;
    for (int d = 0; d <= m + n; ++d) {
        int j = d - i;
        if (i <= m && j >= 0 && j <= n) {
            int* now = rows[d % 3];
            const int *last = rows[(d + 2) % 3], *older = rows[(d + 1) % 3];
            if (i == 0) now[i] = j;
            else if (j == 0) now[i] = i;
            else now[i] = min(min(last[i - 1], last[i]) + 1, older[i - 1] + (a[i - 1] != b[j - 1]));
            if (i == m && j == n) *out = now[i];
        }
        __syncthreads();
    }
}

extern "C" __global__ void union_find(const int* edges, int* parent, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = edges[2 * i], y = edges[2 * i + 1];
    while (true) {
        while (((volatile int*)parent)[x] != x) x = atomicAdd(parent + x, 0);
        while (((volatile int*)parent)[y] != y) y = atomicAdd(parent + y, 0);
        if (x == y) return;
        if (x < y) { int swap = x; x = y; y = swap; }
        if (atomicCAS(parent + x, x, y) == x) return;
    }
}

extern "C" __global__ void flatten(volatile int* parent, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int root = i;
    while (parent[root] != root) root = parent[root];
    parent[i] = root;
}

extern "C" __global__ void hash_insert(const int* keys, int* table, int slots, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int key = keys[i];
    for (unsigned at = key * 2654435761u % slots;; at = (at + 1) % slots) {
        int old = atomicCAS(table + at, -1, key);
        if (old == -1 || old == key) return;
    }
}

extern "C" __global__ void hash_find(const int* table, const int* keys, int* out, int slots)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, key = keys[i], steps = 0;
    for (unsigned at = key * 2654435761u % slots; table[at] != -1; at = (at + 1) % slots)
        if (table[at] == key) { steps = 1; break; }
    out[i] = steps;
}
""",
    options=("-std=c++17",),
)


def look_back(a, out):
    status = cupy.zeros(6, dtype=cupy.uint64)
    tickets = cupy.zeros(1, dtype=cupy.int32)
    module.get_function("look_back")((6,), (128,), (a, out, status, tickets))


def radix_sort(a, out):
    module.get_function("radix_sort")((1,), (256,), (a, out))


def merge_sort(a, out):
    n = a.size
    buffers = (cupy.empty(n, dtype=cupy.int32), out)
    source, width, step = a, 1, 0
    while width < n:
        target = buffers[step % 2]
        module.get_function("merge")((4,), (32,), (source, target, cupy.int32(n), cupy.int32(width)))
        source, width, step = target, 2 * width, step + 1


def bitonic_global(a):
    k = 2
    while k <= a.size:
        j = k // 2
        while j:
            module.get_function("odd_even_global")((4,), (64,), (a, cupy.int32(a.size), cupy.int32(j), cupy.int32(k)))
            j //= 2
        k *= 2


def breadth_first(starts, targets, distance, frontier, count):
    for level in range(1, 6):
        following = cupy.empty(60, dtype=cupy.int32)
        number = cupy.zeros(1, dtype=cupy.int32)
        arguments = (starts, targets, distance, frontier, count, following, number, cupy.int32(level))
        module.get_function("expand")((2,), (32,), arguments)
        frontier, count = following, number


def life(a, out):
    m, n = a.shape
    between = cupy.empty((m, n), dtype=cupy.uint8)
    for source, target in ((a, between), (between, out)):
        grid = ((n + 31) // 32, (m + 15) // 16)
        module.get_function("life")(grid, (32, 16), (source, target, cupy.int32(m), cupy.int32(n)))


def search(text, found, places):
    n = text.size
    module.get_function("search")(((n + 63) // 64,), (64,), (text, cupy.int32(n), found, places))


def edit_distance(a, b, out):
    module.get_function("edit_distance")((1,), (64,), (a, b, out, cupy.int32(a.size), cupy.int32(b.size)))


def components(edges, parent):
    n = len(edges)
    module.get_function("union_find")((2,), (32,), (edges, parent, cupy.int32(n)))
    module.get_function("flatten")((2,), (64,), (parent, cupy.int32(parent.size)))


def hash_table(keys, queries, out):
    table = cupy.empty(128, dtype=cupy.int32)
    clear(table)
    module.get_function("hash_insert")((2,), (32,), (keys, table, cupy.int32(128), cupy.int32(keys.size)))
    module.get_function("hash_find")((2,), (32,), (table, queries, out, cupy.int32(128)))


clear_kernel = cupy.RawKernel('extern "C" __global__ void clear(int* table) { table[threadIdx.x] = -1; }', "clear")


def clear(table):
    clear_kernel((1,), (128,), (table,))
