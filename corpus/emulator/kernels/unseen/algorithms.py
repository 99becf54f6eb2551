"""Small kernels that the rules of counting by machine code were not made from: sorts, scans, strings, tables, bits."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void

KERNEL bitonic_256(const int* a, int* out)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 256 + t];
    for (int k = 2; k <= 256; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            __syncthreads();
            int p = t ^ j;
            if (p > t && ((s[t] > s[p]) == ((t & k) == 0))) {
                int x = s[t];
                s[t] = s[p];
                s[p] = x;
            }
        }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
}

KERNEL odd_even(const unsigned short* a, unsigned short* out)
{
    __shared__ unsigned short s[64];
    int t = threadIdx.x;
    s[2 * t] = a[blockIdx.x * 64 + 2 * t];
    s[2 * t + 1] = a[blockIdx.x * 64 + 2 * t + 1];
    for (int round = 0; round < 64; ++round) {
        __syncwarp();
        int i = 2 * t + round % 2;
        if (i < 63 && s[i] > s[i + 1]) {
            unsigned short x = s[i];
            s[i] = s[i + 1];
            s[i + 1] = x;
        }
    }
    __syncwarp();
    out[blockIdx.x * 64 + 2 * t] = s[2 * t];
    out[blockIdx.x * 64 + 2 * t + 1] = s[2 * t + 1];
}

KERNEL rank_sort(const float* a, float* out, int n)
{
    __shared__ float s[128];
    int t = threadIdx.x, rank = 0;
    s[t] = a[t];
    __syncthreads();
    for (int i = 0; i < n; ++i) rank += s[i] < s[t] || (s[i] == s[t] && i < t);
    out[rank] = s[t];
}

KERNEL merge_paths(const int* a, const int* b, int* out, int m, int n)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= m + n) return;
    int low = max(0, d - n), high = min(d, m);
    while (low < high) {
        int mid = (low + high) / 2;
        if (a[mid] <= b[d - 1 - mid]) low = mid + 1; else high = mid;
    }
    int j = d - low;
    out[d] = j >= n || (low < m && a[low] <= b[j]) ? a[low] : b[j];
}

KERNEL scan_hillis(const int* a, int* out)
{
    __shared__ int s[2][256];
    int t = threadIdx.x, in = 0;
    s[0][t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        s[1 - in][t] = t >= d ? s[in][t] + s[in][t - d] : s[in][t];
        in = 1 - in;
        __syncthreads();
    }
    out[blockIdx.x * 256 + t] = s[in][t];
}

KERNEL scan_blelloch(const float* a, float* out)
{
    __shared__ float s[256];
    int t = threadIdx.x;
    s[2 * t] = a[2 * t];
    s[2 * t + 1] = a[2 * t + 1];
    int offset = 1;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[255] = 0.0f;
    for (int d = 1; d < 256; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int i = offset * (2 * t + 1) - 1, j = offset * (2 * t + 2) - 1;
            float x = s[i];
            s[i] = s[j];
            s[j] += x;
        }
    }
    __syncthreads();
    out[2 * t] = s[2 * t];
    out[2 * t + 1] = s[2 * t + 1];
}

KERNEL scan_warps(const int* a, int* out)
{
    __shared__ int sums[8];
    int t = threadIdx.x, lane = t % 32, x = a[t];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += y;
    }
    if (lane == 31) sums[t / 32] = x;
    __syncthreads();
    for (int w = 0; w < t / 32; ++w) x += sums[w];
    out[t] = x;
}

KERNEL histogram_bytes(const unsigned char* a, unsigned* out, int n)
{
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[a[i]], 1u);
    __syncthreads();
    if (bins[threadIdx.x]) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

KERNEL find_word(const unsigned char* text, int* found, int n)
{
    __shared__ unsigned char s[256 + 4];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? text[i] : 0;
    if (t < 4) s[256 + t] = i + 256 < n ? text[i + 256] : 0;
    __syncthreads();
    if (i < n) found[i] = s[t] == 'a' && s[t + 1] == 'b' && s[t + 2] == 'a' && s[t + 3] == 'c';
}

KERNEL common_subsequence(const int* a, const int* b, int* out)
{
    __shared__ int row[3][65];
    int t = threadIdx.x;
    for (int k = 0; k < 3; ++k) row[k][t] = 0;
    if (t == 0) row[0][64] = row[1][64] = row[2][64] = 0;
    for (int d = 0; d < 127; ++d) {
        __syncthreads();
        int j = d - t, now = d % 3, before = (d + 2) % 3, last = (d + 1) % 3;
        if (j >= 0 && j < 64) {
            int up = row[before][t], left = row[before][t + 1], corner = row[last][t];
            row[now][t + 1] = a[t] == b[j] ? (j ? corner : 0) + 1 : max(up, j ? left : 0);
        }
    }
    __syncthreads();
    if (t == 63) out[0] = row[126 % 3][64];
}

KERNEL knapsack(const int* weights, const int* worths, int* out, int items)
{
    __shared__ int best[2][128];
    int w = threadIdx.x, now = 0;
    best[0][w] = 0;
    for (int i = 0; i < items; ++i) {
        __syncthreads();
        int x = best[now][w];
        if (w >= weights[i]) x = max(x, best[now][w - weights[i]] + worths[i]);
        best[1 - now][w] = x;
        now = 1 - now;
    }
    out[w] = best[now][w];
}

KERNEL floyd_warshall(const int* a, int* out)
{
    __shared__ int d[16][16];
    int i = threadIdx.y, j = threadIdx.x;
    d[i][j] = a[i * 16 + j];
    for (int k = 0; k < 16; ++k) {
        __syncthreads();
        int through = d[i][k] + d[k][j];
        __syncthreads();
        if (through < d[i][j]) d[i][j] = through;
    }
    out[i * 16 + j] = d[i][j];
}

KERNEL compact(const int* a, int* out, int* count, int n)
{
    int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x % 32;
    __shared__ int sums[4], start;
    bool keep = i < n && a[i] % 3 == 0;
    unsigned votes = __ballot_sync(~0u, keep);
    if (lane == 0) sums[threadIdx.x / 32] = __popc(votes);
    __syncthreads();
    if (threadIdx.x == 0) start = atomicAdd(count, sums[0] + sums[1] + sums[2] + sums[3]);
    __syncthreads();
    int place = __popc(votes & ((1u << lane) - 1));
    for (int w = 0; w < threadIdx.x / 32; ++w) place += sums[w];
    if (keep) out[start + place] = a[i];
}

KERNEL gray_codes(const unsigned* a, unsigned* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned g = a[i] ^ (a[i] >> 1), b = g;
    for (int s = 16; s; s /= 2) b ^= b >> s;
    out[i] = b + __popc(g) + __clz(g) + (__brev(g) >> 24);
}

KERNEL bit_transpose(const unsigned* a, unsigned* out)
{
    int lane = threadIdx.x % 32;
    unsigned x = a[blockIdx.x * blockDim.x + threadIdx.x], y = 0;
#pragma unroll
    for (int b = 0; b < 32; ++b) {
        unsigned v = __ballot_sync(~0u, x >> b & 1);
        if (lane == b) y = v;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = y;
}

KERNEL crc_32(const unsigned char* a, unsigned* out, int n)
{
    __shared__ unsigned table[256];
    unsigned x = threadIdx.x;
    for (int k = 0; k < 8; ++k) x = x & 1 ? x >> 1 ^ 0xEDB88320u : x >> 1;
    table[threadIdx.x] = x;
    __syncthreads();
    unsigned c = ~0u;
    for (int k = 0; k < n; ++k) c = table[(c ^ a[threadIdx.x * n + k]) & 255] ^ c >> 8;
    out[threadIdx.x] = ~c;
}

KERNEL prime_sieve(unsigned char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 2;
    if (i >= n) return;
    bool prime = true;
    for (int d = 2; d * d <= i; ++d) if (i % d == 0) { prime = false; break; }
    out[i] = prime;
}

KERNEL collatz(int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, steps = 0;
    for (long long x = i; x != 1; ++steps) x = x & 1 ? 3 * x + 1 : x / 2;
    out[i - 1] = steps;
}

KERNEL xorshift(unsigned* state, unsigned* out, int draws)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = state[i], sum = 0;
    for (int k = 0; k < draws; ++k) {
        x ^= x << 13; x ^= x >> 17; x ^= x << 5;
        sum += x >> 16;
    }
    state[i] = x;
    out[i] = sum;
}

KERNEL philox(const unsigned* a, uint4* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 c = {a[i], 1, 2, 3};
    unsigned k0 = 0x1234567, k1 = 0x89ABCDE;
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    out[i] = c;
}

KERNEL mandelbrot(int* out, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float cx = -2.0f + 0.0625f * (i % width), cy = -1.0f + 0.125f * (i / width), x = 0.0f, y = 0.0f;
    int n = 0;
    while (n < 50 && x * x + y * y < 4.0f) {
        float u = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = u;
        ++n;
    }
    out[i] = n;
}

KERNEL atomic_minimum(const int* a, int* out)
{
    __shared__ int least;
    if (threadIdx.x == 0) least = 0x7FFFFFFF;
    __syncthreads();
    atomicMin(&least, a[blockIdx.x * 128 + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) atomicMin(out, least);
}

KERNEL local_window(const int* a, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, seen[16];
    for (int k = 0; k < 16; ++k) seen[k] = 0;
    for (int k = 0; k < n; ++k) ++seen[a[i * n + k] & 15];
    int best = 0;
    for (int k = 1; k < 16; ++k) if (seen[k] > seen[best]) best = k;
    out[i] = best;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def bitonic_256(a, out):
    _run("bitonic_256", (2,), (256,), a, out)


def odd_even(a, out):
    _run("odd_even", (4,), (32,), a, out)


def rank_sort(a, out):
    _run("rank_sort", (1,), (128,), a, out, cupy.int32(a.size))


def merge_paths(a, b, out):
    _run("merge_paths", (4,), (64,), a, b, out, cupy.int32(a.size), cupy.int32(b.size))


def scan_hillis(a, out):
    _run("scan_hillis", (2,), (256,), a, out)


def scan_blelloch(a, out):
    _run("scan_blelloch", (1,), (128,), a, out)


def scan_warps(a, out):
    _run("scan_warps", (1,), (256,), a, out)


def histogram_bytes(a, out):
    _run("histogram_bytes", (2,), (256,), a, out, cupy.int32(a.size))


def find_word(text, found):
    _run("find_word", (2,), (256,), text, found, cupy.int32(text.size))


def common_subsequence(a, b, out):
    _run("common_subsequence", (1,), (64,), a, b, out)


def knapsack(weights, worths, out):
    _run("knapsack", (1,), (128,), weights, worths, out, cupy.int32(weights.size))


def floyd_warshall(a, out):
    _run("floyd_warshall", (1,), (16, 16), a, out)


def compact(a, out, count):
    _run("compact", (1,), (128,), a, out, count, cupy.int32(a.size))


def gray_codes(a, out):
    _run("gray_codes", (2,), (128,), a, out)


def bit_transpose(a, out):
    _run("bit_transpose", (2,), (64,), a, out)


def crc_32(a, out):
    _run("crc_32", (1,), (256,), a, out, cupy.int32(a.shape[1]))


def prime_sieve(out):
    _run("prime_sieve", (4,), (64,), out, cupy.int32(out.size))


def collatz(out):
    _run("collatz", (2,), (64,), out)


def xorshift(state, out):
    _run("xorshift", (2,), (64,), state, out, cupy.int32(10))


def philox(a, out):
    _run("philox", (2,), (64,), a, out)


def mandelbrot(out):
    _run("mandelbrot", (6,), (128,), out, cupy.int32(48))


def atomic_minimum(a, out):
    _run("atomic_minimum", (3,), (128,), a, out)


def local_window(a, out):
    _run("local_window", (2,), (32,), a, out, cupy.int32(a.shape[1]))
