"""The third set of kernels that no rule of counting was made from: codes, hashes, bits, words, cooperative groups."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned long long u64;

// Canonical prefix codes: a stream a thread, a bit at a time, until the code is one of its length.
KERNEL decode_prefix(const unsigned* streams, const unsigned char* counts, const unsigned char* symbols,
                     unsigned char* out, int n, int words, int wanted)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int bit = 0;
    for (int k = 0; k < wanted; ++k) {
        int code = 0, first = 0, index = 0, length = 0;
        while (true) {
            code |= streams[i * words + bit / 32] >> (bit % 32) & 1;
            ++bit;
            int count = counts[length++];
            if (code - first < count) break;
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        out[i * wanted + k] = symbols[index + code - first];
    }
}

// Elias' gamma codes of a block's numbers, side by side: places by sums of lengths, bits by atomics.
KERNEL gamma_codes(const unsigned short* a, unsigned* out, int* bits, int words)
{
    extern __shared__ unsigned packed[];
    __shared__ int sums[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned x = a[blockIdx.x * 128 + t] + 1u;
    int digits = 32 - __clz(x), length = 2 * digits - 1, end = length;
    for (int i = t; i < words; i += 128) packed[i] = 0;
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(ALL, end, d);
        if (lane >= d) end += y;
    }
    if (lane == 31) sums[warp] = end;
    __syncthreads();
    for (int w = 0; w < warp; ++w) end += sums[w];
    int begin = end - digits, word = begin / 32, shift = begin % 32;
    unsigned mirrored = __brev(x) >> (32 - digits);
    atomicOr(&packed[word], mirrored << shift);
    if (shift + digits > 32) atomicOr(&packed[word + 1], mirrored >> (32 - shift));
    __syncthreads();
    for (int i = t; i < words; i += 128) out[blockIdx.x * words + i] = packed[i];
    if (t == 127) bits[blockIdx.x] = end;
}

__device__ u64 turned(u64 x, int k) { return x << k | x >> (64 - k); }

__device__ void sip(u64& a, u64& b, u64& c, u64& d)
{
    a += b; b = turned(b, 13); b ^= a; a = turned(a, 32);
    c += d; d = turned(d, 16); d ^= c;
    a += d; d = turned(d, 21); d ^= a;
    c += b; b = turned(b, 17); b ^= c; c = turned(c, 32);
}

// SipHash with two and four rounds, of messages of whole words.
KERNEL sip_hash(const ulonglong2* messages, u64* out, int n, int pairs, u64 low, u64 high)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 a = low ^ 0x736f6d6570736575ull, b = high ^ 0x646f72616e646f6dull;
    u64 c = low ^ 0x6c7967656e657261ull, d = high ^ 0x7465646279746573ull;
    for (int k = 0; k < pairs; ++k) {
        ulonglong2 m = messages[i * pairs + k];
        d ^= m.x; sip(a, b, c, d); sip(a, b, c, d); a ^= m.x;
        d ^= m.y; sip(a, b, c, d); sip(a, b, c, d); a ^= m.y;
    }
    u64 last = (u64)(pairs * 16) << 56;
    d ^= last; sip(a, b, c, d); sip(a, b, c, d); a ^= last;
    c ^= 0xff;
    for (int k = 0; k < 4; ++k) sip(a, b, c, d);
    out[i] = a ^ b ^ c ^ d;
}

// Where the k-th one of a row of bits is: a search in counts of words, then within the word by halves.
KERNEL select_bits(const unsigned* bits, const int* before, const int* queries, int* out, int words, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int k = queries[i], low = 0, high = words;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (before[mid] <= k) low = mid; else high = mid;
    }
    unsigned word = bits[low];
    int rest = k - before[low], place = 0;
#pragma unroll
    for (int half = 16; half; half >>= 1) {
        int count = __popc(word & ((1u << half) - 1));
        if (rest >= count) { rest -= count; word >>= half; place += half; }
    }
    out[i] = low * 32 + place;
}

// Syndromes of Reed and Solomon's code over bytes: logarithms are made in shared memory first.
KERNEL syndromes(const unsigned char* blocks, unsigned char* out, int length, int count)
{
    __shared__ unsigned char powers[512], logs[256];
    if (threadIdx.x == 0) {
        int x = 1;
        for (int i = 0; i < 255; ++i) {
            powers[i] = powers[i + 255] = x;
            logs[x] = i;
            x <<= 1;
            if (x & 256) x ^= 0x11d;
        }
    }
    __syncthreads();
    const unsigned char* row = blocks + blockIdx.x * length;
    for (int s = threadIdx.x; s < count; s += blockDim.x) {
        int sum = 0;
        for (int i = 0; i < length; ++i) sum = row[i] ^ (sum ? powers[logs[sum] + s] : 0);
        out[blockIdx.x * count + s] = sum;
    }
}

// Numbers of seven bits a byte: who begins one reads on to its end.
KERNEL read_varints(const unsigned char* bytes, unsigned* out, int* count, int n)
{
    __shared__ int sums[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    bool begins = t < n && (t == 0 || bytes[t - 1] < 128);
    unsigned votes = __ballot_sync(ALL, begins);
    if (lane == 0) sums[warp] = __popc(votes);
    __syncthreads();
    int place = __popc(votes & ((1u << lane) - 1)), total = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
        if (w < warp) place += sums[w];
        total += sums[w];
    }
    if (t == 0) *count = total;
    if (!begins) return;
    unsigned x = 0, byte;
    int at = t, shift = 0;
    do {
        byte = bytes[at++];
        x |= (byte & 127) << shift;
        shift += 7;
    } while (byte & 128);
    out[place] = x;
}

__device__ unsigned pcg(u64& state)
{
    u64 old = state;
    state = old * 6364136223846793005ull + 1442695040888963407ull;
    unsigned mixed = (unsigned)((old >> 18 ^ old) >> 27);
    int turn = old >> 59;
    return mixed >> turn | mixed << (-turn & 31);
}

// A hand of cards a thread, shuffled; chances are equal, as some numbers are drawn again.
KERNEL shuffle_cards(unsigned char* out, u64 seed, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned char cards[20];
    for (int k = 0; k < 20; ++k) cards[k] = k;
    u64 state = seed + i * 0x9e3779b97f4a7c15ull;
    for (int k = 19; k > 0; --k) {
        unsigned bound = k + 1, least = -bound % bound, drawn;
        do drawn = pcg(state); while (drawn < least);
        int other = drawn % bound;
        unsigned char card = cards[k];
        cards[k] = cards[other];
        cards[other] = card;
    }
    for (int k = 0; k < 20; ++k) out[k * n + i] = cards[k];
}

// Products of 32 by 32 matrices of bits: a warp a product, a row a lane; the columns come by votes.
KERNEL bit_products(const unsigned* a, const unsigned* b, unsigned* out, int n)
{
    int m = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (m >= n) return;
    unsigned row = a[m * 32 + lane], other = b[m * 32 + lane], result = 0;
#pragma unroll 4
    for (int j = 0; j < 32; ++j) {
        unsigned column = __ballot_sync(ALL, other >> j & 1);
        result |= (__popc(row & column) & 1u) << j;
    }
    out[m * 32 + lane] = result;
}

__device__ unsigned power(unsigned x, unsigned e, unsigned n)
{
    u64 result = 1, square = x % n;
    while (e) {
        if (e & 1) result = result * square % n;
        square = square * square % n;
        e >>= 1;
    }
    return (unsigned)result;
}

// Miller and Rabin's test with three witnesses, which are enough below 4759123141.
KERNEL find_primes(const unsigned* a, unsigned char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i];
    bool prime = x == 2 || x == 7 || x == 61;
    if (!prime && x > 2 && x % 2) {
        int twos = __ffs(x - 1) - 1;
        prime = true;
        const unsigned witnesses[3] = {2, 7, 61};
        for (int w = 0; w < 3 && prime; ++w) {
            unsigned y = power(witnesses[w], x - 1 >> twos, x);
            if (y == 1 || y == x - 1) continue;
            bool found = false;
            for (int k = 1; k < twos && !found; ++k) {
                y = (unsigned)((u64)y * y % x);
                found = y == x - 1;
            }
            prime = found;
        }
    }
    out[i] = prime;
}

// Forty generations of rule 110 on a ring of 1024 cells: a word a lane, neighbours by shuffles.
KERNEL rule_110(const unsigned* in, unsigned* out, int generations)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    unsigned x = in[i];
    for (int g = 0; g < generations; ++g) {
        unsigned lower = __shfl_sync(ALL, x, (lane + 31) % 32), upper = __shfl_sync(ALL, x, (lane + 1) % 32);
        unsigned right = __funnelshift_l(lower, x, 1), left = __funnelshift_r(x, upper, 1);
        x = (x | right) & ~(left & x & right);
    }
    out[i] = x;
}

// Code points of text in UTF-8, one after another, for each line of a block of lines.
KERNEL code_points(const unsigned char* text, const int* starts, unsigned* out, int* counts, int lines)
{
    int line = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, found = 0;
    if (line >= lines) return;
    int begin = starts[line], end = starts[line + 1];
    for (int base = begin; base < end; base += 32) {
        int at = base + lane;
        unsigned byte = at < end ? text[at] : 0x80u;
        bool leads = (byte & 0xc0) != 0x80;
        unsigned votes = __ballot_sync(ALL, leads);
        if (leads) {
            unsigned point;
            if (byte < 0x80) point = byte;
            else if (byte < 0xe0) point = (byte & 31) << 6 | (text[at + 1] & 63);
            else if (byte < 0xf0) point = (byte & 15) << 12 | (text[at + 1] & 63) << 6 | (text[at + 2] & 63);
            else point = (byte & 7) << 18 | (text[at + 1] & 63) << 12 | (text[at + 2] & 63) << 6 | (text[at + 3] & 63);
            out[begin + found + __popc(votes & ((1u << lane) - 1))] = point;
        }
        found += __popc(votes);
    }
    if (lane == 0) counts[line] = found;
}

// How often words of a table of moves end in a line of text: a line a thread, the table in shared memory.
KERNEL run_automaton(const unsigned char* text, const unsigned char* moves, const unsigned char* ends, int* out,
                     int states, int length, int lines)
{
    extern __shared__ unsigned char table[];
    for (int i = threadIdx.x; i < states * 4; i += blockDim.x) table[i] = moves[i];
    __syncthreads();
    int line = blockIdx.x * blockDim.x + threadIdx.x, state = 0, found = 0;
    if (line >= lines) return;
    for (int i = 0; i < length; ++i) {
        state = table[state * 4 + (text[line * length + i] & 3)];
        found += ends[state];
    }
    out[line] = found;
}

// Where windows of eight letters have a wanted hash, by a hash that rolls along; a part of the text a thread.
KERNEL rolling_hashes(const unsigned char* text, unsigned* marks, int n, unsigned wanted, unsigned mask)
{
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * 6;
    if (first + 8 > n) return;
    unsigned hash = 0, top = 1;
    for (int k = 0; k < 7; ++k) top *= 257u;
    for (int k = 0; k < 8; ++k) hash = hash * 257u + text[first + k];
    for (int at = first;;) {
        if ((hash & mask) == wanted) atomicOr(&marks[at / 32], 1u << (at % 32));
        if (++at == first + 6 || at + 8 > n) break;
        hash = (hash - text[at - 1] * top) * 257u + text[at + 7];
    }
}

// Checks of 64 bits with a table that the block makes.
KERNEL crc_64(const unsigned char* messages, const int* lengths, u64* out, int most, int n)
{
    __shared__ u64 table[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        u64 x = i;
        for (int k = 0; k < 8; ++k) x = x & 1 ? x >> 1 ^ 0xc96c5795d7870f42ull : x >> 1;
        table[i] = x;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 check = ~0ull;
    for (int k = 0; k < lengths[i]; ++k) check = check >> 8 ^ table[(check ^ messages[i * most + k]) & 255];
    out[i] = ~check;
}
"""
)

groups = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

// Softmax of short rows, half a warp a row.
KERNEL tile_softmax(const float* a, float* out, int rows, int n)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (row >= rows) return;
    float most = -3e38f, sum = 0.0f;
    for (int i = tile.thread_rank(); i < n; i += tile.size()) most = fmaxf(most, a[row * n + i]);
    most = cg::reduce(tile, most, cg::greater<float>());
    for (int i = tile.thread_rank(); i < n; i += tile.size()) sum += __expf(a[row * n + i] - most);
    sum = cg::reduce(tile, sum, cg::plus<float>());
    for (int i = tile.thread_rank(); i < n; i += tile.size()) out[row * n + i] = __expf(a[row * n + i] - most) / sum;
}

// Places and sums among the threads of a warp that took the same branch.
KERNEL branch_ranks(const int* a, int2* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i];
    int2 found;
    if (x % 3 == 0) {
        cg::coalesced_group g = cg::coalesced_threads();
        found = make_int2(g.thread_rank(), g.shfl(x, 0));
    } else {
        cg::coalesced_group g = cg::coalesced_threads();
        found = make_int2(g.size(), cg::reduce(g, x, cg::plus<int>()));
    }
    out[i] = found;
}

// Running sums within tiles of eight, of what stands before each.
KERNEL tile_sums(const int* a, int* before, int* most, int n)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int x = i < n ? a[i] : 0;
    int sum = cg::exclusive_scan(tile, x, cg::plus<int>());
    int top = cg::inclusive_scan(tile, x, cg::greater<int>());
    if (i < n) { before[i] = sum; most[i] = top; }
}
""",
    options=("-std=c++17",),
)

whole_grids = cupy.RawModule(
    code=r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each cell becomes the mean of its neighbours, round after round; all blocks wait for one another in between.
extern "C" __global__ void relax_line(float* now, float* next, int n, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < rounds; ++r) {
        for (int i = (int)grid.thread_rank() + 1; i < n - 1; i += (int)grid.size())
            next[i] = 0.5f * (now[i - 1] + now[i + 1]);
        float* swap = now; now = next; next = swap;
        grid.sync();
    }
}
""",
    options=("-std=c++17",),
    enable_cooperative_groups=True,
)


def _run(name, grid, block, *arguments, shared=0, code=module):
    code.get_function(name)(grid, block, arguments, shared_mem=shared)


def _sizes(*numbers):
    return tuple(cupy.int32(n) for n in numbers)


def decode_prefix(streams, counts, symbols, out):
    n, words = streams.shape
    _run("decode_prefix", ((n + 31) // 32,), (32,), streams, counts, symbols, out, *_sizes(n, words, out.shape[1]))


def gamma_codes(a, out, bits):
    blocks, words = out.shape
    _run("gamma_codes", (blocks,), (128,), a, out, bits, *_sizes(words), shared=4 * words)


def sip_hash(messages, out):
    n, words = messages.shape
    key = cupy.uint64(0x0706050403020100), cupy.uint64(0x0F0E0D0C0B0A0908)
    _run("sip_hash", (2,), (64,), messages, out, *_sizes(n, words // 2), *key)


def select_bits(bits, before, queries, out):
    _run("select_bits", (2,), (64,), bits, before, queries, out, *_sizes(bits.size, queries.size))


def syndromes(blocks, out):
    n, length = blocks.shape
    _run("syndromes", (n,), (32,), blocks, out, *_sizes(length, out.shape[1]))


def read_varints(data, out, count):
    _run("read_varints", (1,), (256,), data, out, count, *_sizes(data.size))


def shuffle_cards(out):
    n = out.shape[1]
    _run("shuffle_cards", ((n + 31) // 32,), (32,), out, cupy.uint64(4321), *_sizes(n))


def bit_products(a, b, out):
    _run("bit_products", ((len(a) + 1) // 2,), (64,), a, b, out, *_sizes(len(a)))


def find_primes(a, out):
    _run("find_primes", (2,), (64,), a, out, *_sizes(a.size))


def rule_110(a, out):
    _run("rule_110", (1,), (32 * len(a),), a, out, *_sizes(40))


def code_points(text, starts, out, counts):
    _run("code_points", (2,), (64,), text, starts, out, counts, *_sizes(counts.size))


def run_automaton(text, moves, ends, out):
    lines, length = text.shape
    _run("run_automaton", (2,), (32,), text, moves, ends, out, *_sizes(ends.size, length, lines), shared=4 * ends.size)


def rolling_hashes(text, marks):
    threads = (text.size + 5) // 6
    numbers = *_sizes(text.size), cupy.uint32(5), cupy.uint32(15)
    _run("rolling_hashes", ((threads + 63) // 64,), (64,), text, marks, *numbers)


def crc_64(messages, lengths, out):
    n, most = messages.shape
    _run("crc_64", (2,), (64,), messages, lengths, out, *_sizes(most, n))


def tile_softmax(a, out):
    rows, n = a.shape
    _run("tile_softmax", ((rows + 3) // 4,), (64,), a, out, *_sizes(rows, n), code=groups)


def branch_ranks(a, out):
    _run("branch_ranks", (2,), (96,), a, out, *_sizes(a.size), code=groups)


def tile_sums(a, before, most):
    _run("tile_sums", (2,), (64,), a, before, most, *_sizes(a.size), code=groups)


def relax_line(a, b):
    _run("relax_line", (3,), (64,), a, b, *_sizes(a.size, 5), code=whole_grids)
