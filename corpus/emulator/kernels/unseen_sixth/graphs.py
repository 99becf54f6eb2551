"""The sixth set of kernels that no rule of counting was made from: graphs, games, schedules, tables of best choices."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// Shortest ways from one place of each small map, by a heap of distances and places.
struct Heap {
    unsigned items[64];
    int size;
    __device__ void push(unsigned item)
    {
        int at = size++;
        while (at && items[(at - 1) / 2] > item) {
            items[at] = items[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        items[at] = item;
    }
    __device__ unsigned pop()
    {
        unsigned first = items[0], last = items[--size];
        int at = 0;
        for (;;) {
            int child = 2 * at + 1;
            if (child >= size) break;
            if (child + 1 < size && items[child + 1] < items[child]) ++child;
            if (items[child] >= last) break;
            items[at] = items[child];
            at = child;
        }
        items[at] = last;
        return first;
    }
};

KERNEL dijkstra(const int* starts, const byte* to, const byte* lengths, const int* from, int* out, int places, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Heap heap;
    heap.size = 0;
    int way[16];
    for (int k = 0; k < places; ++k) way[k] = 1 << 20;
    way[from[i]] = 0;
    heap.push(from[i]);
    while (heap.size) {
        unsigned item = heap.pop();
        int here = item & 255, far = item >> 8;
        if (far > way[here]) continue;
        for (int e = starts[here]; e < starts[here + 1]; ++e) {
            int next = to[e], there = far + (lengths[e] ^ (i & 3));
            if (there >= way[next]) continue;
            way[next] = there;
            heap.push(there << 8 | next);
        }
    }
    for (int k = 0; k < places; ++k) out[k * n + i] = way[k];
}

// The most pairs of workers and tasks: ways to a free task are looked for by a stack.
KERNEL most_pairs(const unsigned short* able, int* out, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    signed char worker[12], stack[13], came[12];
    for (int k = 0; k < size; ++k) worker[k] = -1;
    int pairs = 0;
    for (int first = 0; first < size; ++first) {
        unsigned seen = 0;
        int top = 0, end = -1;
        stack[top++] = first;
        while (top && end < 0) {
            int w = stack[--top];
            unsigned open = able[i * size + w] & ~seen;
            seen |= open;
            for (; open; open &= open - 1) {
                int task = __ffs(open) - 1;
                came[task] = w;
                if (worker[task] < 0) { end = task; break; }
                stack[top++] = worker[task];
            }
        }
        if (end < 0) continue;
        ++pairs;
        for (;;) {
            int w = came[end], before = -1;
            for (int k = 0; k < size; ++k)
                if (worker[k] == w) { before = k; break; }
            worker[end] = w;
            if (before < 0) break;
            end = before;
        }
    }
    out[i] = pairs;
}

// Strongly connected parts of small graphs of bits: numbers on the way down, a stack for the recursion.
KERNEL strong_parts(const unsigned short* next, byte* part, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned short* edges = next + i * size;
    byte number[12], low[12], calls[12], waiting[12];
    unsigned short left[12];
    unsigned on = 0;
    int count = 0, depth = 0, open = 0;
    for (int k = 0; k < size; ++k) number[k] = 0;
    for (int root = 0; root < size; ++root) {
        if (number[root]) continue;
        calls[depth++] = root;
        while (depth) {
            int v = calls[depth - 1];
            if (!number[v]) {
                number[v] = low[v] = ++count;
                left[v] = edges[v];
                waiting[open++] = v;
                on |= 1u << v;
            }
            if (left[v]) {
                int w = __ffs(left[v]) - 1;
                if (!number[w]) { calls[depth++] = w; continue; }
                left[v] &= left[v] - 1;
                if (on >> w & 1) low[v] = min(low[v], low[w]);
                continue;
            }
            --depth;
            if (low[v] != number[v]) continue;
            int smallest = 255, from = open, w;
            do { w = waiting[--from]; smallest = min(smallest, w); } while (w != v);
            while (open > from) {
                w = waiting[--open];
                on &= ~(1u << w);
                part[i * size + w] = smallest;
            }
        }
    }
}

// Networks of few computers joined one wire after the other: how many groups are left, by paths that are halved.
KERNEL join_groups(const uchar2* wires, int* groups, int* needed, int many, int size, int n)
{
    __shared__ byte parents[32][33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    byte* parent = parents[threadIdx.x];
    for (int k = 0; k < size; ++k) parent[k] = k;
    int left = size, used = 0;
    for (int e = 0; e < many && left > 1; ++e) {
        uchar2 wire = wires[e * n + i];
        int a = wire.x, b = wire.y;
        while (parent[a] != a) a = parent[a] = parent[parent[a]];
        while (parent[b] != b) b = parent[b] = parent[parent[b]];
        if (a == b) continue;
        parent[max(a, b)] = min(a, b);
        --left;
        used = e + 1;
    }
    groups[i] = left;
    needed[i] = used;
}

// How deep each vertex lies in the core of a graph: those with few neighbours left are peeled off.
KERNEL cores(const int* starts, const int* to, int* out, int n)
{
    extern __shared__ int degree[];
    int* core = degree + n;
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
        degree[k] = starts[k + 1] - starts[k];
        core[k] = -1;
    }
    __syncthreads();
    int level = 0, left = n;
    while (left > 0) {
        int peeled = 0;
        for (int base = 0; base < n; base += blockDim.x) {
            int k = base + threadIdx.x;
            bool now = k < n && core[k] < 0 && degree[k] <= level;
            if (now) core[k] = level;
            peeled += __syncthreads_count(now);
        }
        if (peeled == 0) { ++level; continue; }
        left -= peeled;
        for (int k = threadIdx.x; k < n; k += blockDim.x) {
            if (core[k] >= 0) continue;
            int have = 0;
            for (int e = starts[k]; e < starts[k + 1]; ++e) have += core[to[e]] < 0;
            degree[k] = have;
        }
        __syncthreads();
    }
    for (int k = threadIdx.x; k < n; k += blockDim.x) out[k] = core[k];
}

// Jobs for workers at the least cost: the best for each set of jobs, sets of as many jobs at once.
KERNEL assign_jobs(const int* costs, int* out)
{
    __shared__ int best[256];
    __shared__ int own[64];
    int t = threadIdx.x;
    if (t < 64) own[t] = costs[blockIdx.x * 64 + t];
    if (t == 0) best[0] = 0;
    __syncthreads();
    for (int many = 1; many <= 8; ++many) {
        for (int set = t; set < 256; set += blockDim.x) {
            if (__popc(set) != many) continue;
            int least = 1 << 30;
            for (int rest = set; rest; rest &= rest - 1) {
                int job = __ffs(rest) - 1;
                least = min(least, best[set ^ 1 << job] + own[(many - 1) * 8 + job]);
            }
            best[set] = least;
        }
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = best[255];
}

// The shortest round through all places: the best way to each place by each set of places before.
KERNEL round_trips(const short* far, short* out, int size)
{
    extern __shared__ short best[];
    const short* d = far + blockIdx.x * size * size;
    int sets = 1 << (size - 1), last = threadIdx.x;
    for (int set = 1; set < sets; ++set) {
        if (last < size - 1 && set >> last & 1) {
            int before = set ^ 1 << last;
            short least = before ? 32767 : d[last + 1];
            for (int k = 0; k < size - 1; ++k)
                if (before >> k & 1) least = min(least, (short)(best[before * 8 + k] + d[(k + 1) * size + last + 1]));
            best[set * 8 + last] = least;
        }
        __syncwarp();
    }
    int whole = last < size - 1 ? best[(sets - 1) * 8 + last] + d[(last + 1) * size] : 32767;
    whole = __reduce_min_sync(ALL, whole);
    if (last == 0) out[blockIdx.x] = whole;
}

// Moves that are open on a board of 8 x 8 where stones between others turn, by shifts in eight directions.
__device__ __forceinline__ u64 shifted(u64 b, int way)
{
    switch (way) {
    case 0: return b << 1 & 0xfefefefefefefefeull;
    case 1: return b >> 1 & 0x7f7f7f7f7f7f7f7full;
    case 2: return b << 8;
    case 3: return b >> 8;
    case 4: return b << 9 & 0xfefefefefefefefeull;
    case 5: return b >> 9 & 0x7f7f7f7f7f7f7f7full;
    case 6: return b << 7 & 0x7f7f7f7f7f7f7f7full;
    default: return b >> 7 & 0xfefefefefefefefeull;
    }
}

KERNEL open_moves(const ulonglong2* boards, u64* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, way = i & 7, board = i >> 3;
    u64 moves = 0;
    if (board < n) {
        ulonglong2 b = boards[board];
        u64 own = b.x, other = b.y & ~own, empty = ~(own | other);
        u64 run = shifted(own, way) & other;
        while (run) {
            run = shifted(run, way);
            moves |= run & empty;
            run &= other;
        }
    }
    for (int d = 1; d < 8; d <<= 1) moves |= __shfl_xor_sync(ALL, moves, d);
    if (board < n && way == 0) out[board] = moves;
}

// Squares of four by four numbers filled in by trying: how many ways, at most nine, and the tries.
KERNEL little_sudoku(const byte* givens, int* ways, int* tries, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    byte cells[16], tried[17];
    unsigned given = 0, rows = 0, columns = 0, boxes = 0;
    for (int k = 0; k < 16; ++k) {
        int c = givens[i * 16 + k];
        cells[k] = c;
        if (!c) continue;
        given |= 1u << k;
        rows |= 1u << (k / 4 * 4 + c - 1);
        columns |= 1u << (k % 4 * 4 + c - 1);
        boxes |= 1u << ((k / 8 * 2 + k % 4 / 2) * 4 + c - 1);
    }
    int at = 0, found = 0, count = 0;
    bool back = false;
    tried[0] = 0;
    while (at >= 0) {
        if (at == 16) {
            if (++found == 9) break;
            back = true;
            --at;
            continue;
        }
        if (given >> at & 1) {
            if (back) --at;
            else tried[++at] = 0;
            continue;
        }
        int row = at / 4 * 4, column = at % 4 * 4, box = (at / 8 * 2 + at % 4 / 2) * 4;
        if (back) {
            int c = cells[at] - 1;
            rows ^= 1u << (row + c);
            columns ^= 1u << (column + c);
            boxes ^= 1u << (box + c);
        }
        unsigned open = ~(rows >> row | columns >> column | boxes >> box) & 15 & ~tried[at];
        if (!open) { back = true; --at; continue; }
        int c = __ffs(open) - 1;
        ++count;
        tried[at] |= 1 << c;
        cells[at] = c + 1;
        rows |= 1u << (row + c);
        columns |= 1u << (column + c);
        boxes |= 1u << (box + c);
        back = false;
        tried[++at] = 0;
    }
    ways[i] = found;
    tries[i] = count;
}

// What five cards are worth, from 0 for nothing to 8 for a straight flush.
KERNEL hands(const byte* cards, byte* out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned ranks = 0;
        u64 counts = 0;
        int suits = 0;
#pragma unroll
        for (int k = 0; k < 5; ++k) {
            int c = cards[i * 5 + k];
            ranks |= 1u << (c >> 2);
            counts += 1ull << 4 * (c >> 2);
            suits |= 1 << (c & 3);
        }
        int worth = 0;
        switch (__popc(ranks)) {
        case 2: worth = counts & 0x4444444444444ull ? 7 : 6; break;
        case 3: worth = (counts & counts >> 1 & 0x1111111111111ull) ? 3 : 2; break;
        case 4: worth = 1; break;
        default:
            bool straight = ranks / (ranks & -ranks) == 31 || ranks == 0x100f, flush = __popc(suits) == 1;
            worth = straight ? (flush ? 8 : 4) : flush ? 5 : 0;
        }
        out[i] = worth;
    }
}

// Jobs that overlap, sorted by end: the most that can be earned, the last job before by bisection.
KERNEL best_jobs(const int* begin, const int* end, const int* worth, int* out, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int best[25];
    best[0] = 0;
    for (int k = 0; k < size; ++k) {
        int low = 0, high = k, from = begin[k * n + i];
        while (low < high) {
            int middle = (low + high) / 2;
            if (end[middle * n + i] <= from) low = middle + 1;
            else high = middle;
        }
        best[k + 1] = max(best[k], best[low] + worth[k * n + i]);
    }
    out[i] = best[size];
}

// Whether numbers can be parted into two of the same sum: sums so far as bits of four words.
KERNEL equal_parts(const byte* numbers, int* nearest, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 sums[4] = {1, 0, 0, 0};
    int total = 0;
    for (int k = 0; k < size; ++k) {
        int a = numbers[i * size + k], words = a >> 6, bits = a & 63;
        total += a;
        if (a == 0) continue;
#pragma unroll
        for (int w = 3; w >= 0; --w) {
            u64 moved = 0;
            if (w >= words) moved = sums[w - words] << bits;
            if (bits && w > words) moved |= sums[w - words - 1] >> (64 - bits);
            sums[w] |= moved;
        }
    }
    int half = min(total / 2, 255);
    while (!(sums[half >> 6] >> (half & 63) & 1)) --half;
    nearest[i] = total - 2 * half;
}

// Ways down a grid with walls, modulo a prime, one diagonal after the other in shared memory.
KERNEL grid_ways(const byte* walls, unsigned* out, int size)
{
    __shared__ unsigned ways[2][41];
    int t = threadIdx.x;
    const byte* own = walls + blockIdx.x * size * size;
    for (int k = t; k < 82; k += blockDim.x) ways[0][k] = 0;
    __syncthreads();
    for (int d = 0; d < 2 * size - 1; ++d) {
        int x = d - t;
        if (t < size && x >= 0 && x < size) {
            unsigned sum = 0;
            if (!own[t * size + x]) {
                sum = d ? ways[d & 1][t] + ways[d & 1][t + 1] : 1;
                if (sum >= 65521) sum -= 65521;
            }
            ways[~d & 1][t + 1] = sum;
        } else if (t < size) {
            ways[~d & 1][t + 1] = 0;
        }
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = ways[(2 * size - 1) & 1][size];
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    module.get_function(name)((grid,), (block,), arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def dijkstra(starts, to, lengths, begin, out):
    _run("dijkstra", 3, 32, starts, to, lengths, begin, out, *_ints(*out.shape))


def most_pairs(able, out):
    n, size = able.shape
    _run("most_pairs", 3, 32, able, out, *_ints(size, n))


def strong_parts(next, part):
    n, size = next.shape
    _run("strong_parts", 3, 32, next, part, *_ints(size, n))


def join_groups(wires, groups, needed):
    many, n, _ = wires.shape
    _run("join_groups", 3, 32, wires, groups, needed, *_ints(many, 24, n))


def cores(starts, to, out):
    n = out.size
    _run("cores", 1, 64, starts, to, out, *_ints(n), shared=8 * n)


def assign_jobs(costs, out):
    _run("assign_jobs", out.size, 64, costs, out)


def round_trips(far, out):
    size = far.shape[1]
    _run("round_trips", out.size, 32, far, out, *_ints(size), shared=2 * 8 << (size - 1))


def open_moves(boards, out):
    _run("open_moves", 8, 128, boards, out, *_ints(out.size))


def little_sudoku(givens, ways, tries):
    _run("little_sudoku", 3, 32, givens, ways, tries, *_ints(len(givens)))


def hands(cards, out):
    _run("hands", 2, 96, cards, out, *_ints(out.size))


def best_jobs(begin, end, worth, out):
    _run("best_jobs", 3, 48, begin, end, worth, out, *_ints(*begin.shape))


def equal_parts(numbers, nearest):
    n, size = numbers.shape
    _run("equal_parts", 3, 64, numbers, nearest, *_ints(size, n))


def grid_ways(walls, out):
    _run("grid_ways", len(walls), 64, walls, out, *_ints(walls.shape[1]))
