"""The second set of kernels that no rule of counting was made from: ciphers, codes, strings, whole numbers, bytes."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
typedef unsigned char byte;
typedef unsigned long long u64;

#define TURN(x, n) __funnelshift_l(x, x, n)
#define QUARTER(a, b, c, d) \
    a += b; d = TURN(d ^ a, 16); c += d; b = TURN(b ^ c, 12); a += b; d = TURN(d ^ a, 8); c += d; b = TURN(b ^ c, 7);

// A block of 64 bytes of ChaCha20 a thread, added to a text.
KERNEL chacha(const unsigned* key, const uint4* text, uint4* out, unsigned counter)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];
#pragma unroll
    for (int k = 0; k < 8; ++k) s[4 + k] = key[k];
    s[12] = counter + i; s[13] = key[8]; s[14] = key[9]; s[15] = key[10];
#pragma unroll
    for (int k = 0; k < 16; ++k) x[k] = s[k];
    for (int round = 0; round < 10; ++round) {
        QUARTER(x[0], x[4], x[8], x[12]) QUARTER(x[1], x[5], x[9], x[13])
        QUARTER(x[2], x[6], x[10], x[14]) QUARTER(x[3], x[7], x[11], x[15])
        QUARTER(x[0], x[5], x[10], x[15]) QUARTER(x[1], x[6], x[11], x[12])
        QUARTER(x[2], x[7], x[8], x[13]) QUARTER(x[3], x[4], x[9], x[14])
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        uint4 v = text[i * 4 + k];
        v.x ^= x[4 * k] + s[4 * k]; v.y ^= x[4 * k + 1] + s[4 * k + 1];
        v.z ^= x[4 * k + 2] + s[4 * k + 2]; v.w ^= x[4 * k + 3] + s[4 * k + 3];
        out[i * 4 + k] = v;
    }
}

__constant__ unsigned round_keys[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

// SHA-256 of messages of 55 bytes at most, whose lengths differ from thread to thread.
KERNEL sha_256(const byte* text, const int* lengths, unsigned* out, int pitch)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, n = lengths[t];
    const unsigned h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned w[16];
    for (int k = 0; k < 16; ++k) w[k] = 0;
    for (int k = 0; k < n; ++k) w[k / 4] |= (unsigned)text[t * pitch + k] << (24 - k % 4 * 8);
    w[n / 4] |= 0x80u << (24 - n % 4 * 8);
    w[15] = n * 8;
    unsigned a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], z = h[7];
#pragma unroll 16
    for (int k = 0; k < 64; ++k) {
        if (k >= 16) {
            unsigned x = w[(k + 1) & 15], y = w[(k + 14) & 15];
            w[k & 15] += w[(k + 9) & 15] + (TURN(x, 25) ^ TURN(x, 14) ^ x >> 3) + (TURN(y, 15) ^ TURN(y, 13) ^ y >> 10);
        }
        unsigned p = z + (TURN(e, 26) ^ TURN(e, 21) ^ TURN(e, 7)) + ((e & f) ^ (~e & g)) + round_keys[k] + w[k & 15];
        unsigned q = (TURN(a, 30) ^ TURN(a, 19) ^ TURN(a, 10)) + ((a & b) ^ (a & c) ^ (b & c));
        z = g; g = f; f = e; e = d + p; d = c; c = b; b = a; a = p + q;
    }
    unsigned* r = out + t * 8;
    r[0] = h[0] + a; r[1] = h[1] + b; r[2] = h[2] + c; r[3] = h[3] + d;
    r[4] = h[4] + e; r[5] = h[5] + f; r[6] = h[6] + g; r[7] = h[7] + z;
}

// The hash of FNV in 64 bits, words of a text between spaces, a word a thread.
KERNEL word_hashes(const byte* text, const int* starts, u64* out, int words)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= words) return;
    u64 h = 14695981039346656037ull;
    for (int k = starts[i]; text[k] != ' '; ++k) h = (h ^ (text[k] | 0x20)) * 1099511628211ull;
    out[i] = h;
}

// Twelve-bit numbers: eight of them in three words, and back.
KERNEL pack_12(const unsigned short* a, unsigned* packed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint4 v = reinterpret_cast<const uint4*>(a)[i];
    unsigned p = (v.x & 4095) | (v.x >> 16) << 12, q = (v.y & 4095) | (v.y >> 16) << 12;
    unsigned r = (v.z & 4095) | (v.z >> 16) << 12, s = (v.w & 4095) | (v.w >> 16) << 12;
    packed[3 * i] = p | q << 24;
    packed[3 * i + 1] = q >> 8 | r << 16;
    packed[3 * i + 2] = r >> 16 | s << 8;
}

KERNEL unpack_12(const unsigned* packed, unsigned short* out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bit = i * 12, word = bit >> 5, shift = bit & 31;
        unsigned high = shift > 20 ? packed[word + 1] : 0;
        out[i] = __funnelshift_r(packed[word], high, shift) & 4095;
    }
}

// Three bytes become four letters by a table in constant memory.
__constant__ char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

KERNEL to_base_64(const byte* in, char4* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (3 * i >= n) return;
    int left = n - 3 * i;
    unsigned v = in[3 * i] << 16 | (left > 1 ? in[3 * i + 1] << 8 : 0) | (left > 2 ? in[3 * i + 2] : 0);
    out[i] = make_char4(letters[v >> 18], letters[v >> 12 & 63], left > 1 ? letters[v >> 6 & 63] : '=',
                        left > 2 ? letters[v & 63] : '=');
}

__device__ unsigned spread(unsigned x)
{
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    return (x | x << 2) & 0x09249249;
}

KERNEL morton_codes(const float* points, unsigned* out, float low, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned code = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        float x = (points[3 * i + k] - low) * scale;
        code |= spread((unsigned)fminf(fmaxf(x, 0.0f), 1023.0f)) << (2 - k);
    }
    out[i] = code;
}

// How many bits differ, all pairs of codes of 128 bits.
KERNEL hamming(const uint4* a, const uint4* b, byte* out, int m, int n)
{
    __shared__ uint4 s[16];
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (threadIdx.y == 0 && j < n) s[threadIdx.x] = b[j];
    __syncthreads();
    if (i >= m || j >= n) return;
    uint4 p = a[i], q = s[threadIdx.x];
    out[i * n + j] = __popc(p.x ^ q.x) + __popc(p.y ^ q.y) + __popc(p.z ^ q.z) + __popc(p.w ^ q.w);
}

// Edit distances of a word of up to 64 letters to many, a column of the table in two words of bits.
KERNEL edit_by_bits(const byte* word, int m, const byte* others, const int* lengths, int* out, int pitch)
{
    __shared__ u64 where[26];
    if (threadIdx.x < 26) {
        u64 bits = 0;
        for (int k = 0; k < m; ++k) bits |= (u64)(word[k] == 'a' + threadIdx.x) << k;
        where[threadIdx.x] = bits;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x, score = m;
    u64 up = ~0ull, down = 0, last = 1ull << (m - 1);
    for (int k = 0; k < lengths[i]; ++k) {
        u64 eq = where[others[i * pitch + k] - 'a'], x = eq | down, h = (((eq & up) + up) ^ up) | eq;
        u64 right = down | ~(h | up), left = up & h;
        score += (right & last) != 0;
        score -= (left & last) != 0;
        right = right << 1 | 1;
        left <<= 1;
        up = left | ~(x | right);
        down = right & x;
    }
    out[i] = score;
}

// Local alignment of two strings by anti-diagonals, a pair a block.
KERNEL align_locally(const byte* a, const byte* b, int* out, int m, int n)
{
    __shared__ int row[3][64], best[2];
    int t = threadIdx.x, most = 0;
    a += blockIdx.x * m; b += blockIdx.x * n;
    row[0][t] = row[1][t] = 0;
    __syncthreads();
    for (int d = 0; d < m + n - 1; ++d) {
        int j = d - t, score = 0;
        const int *last = row[(d + 2) % 3], *older = row[(d + 1) % 3];
        if (t < m && j >= 0 && j < n) {
            int corner = t && j ? older[t - 1] : 0, above = t ? last[t - 1] : 0, left = j ? last[t] : 0;
            score = max(max(corner + (a[t] == b[j] ? 3 : -2), max(above, left) - 4), 0);
            most = max(most, score);
        }
        row[d % 3][t] = score;
        __syncthreads();
    }
    most = __reduce_max_sync(~0u, most);
    if (t % 32 == 0) best[t / 32] = most;
    __syncthreads();
    if (t == 0) out[blockIdx.x] = max(best[0], best[1]);
}

// Numbers of a text, one a line, with signs.
KERNEL parse_numbers(const char* text, const int* starts, int* out, int lines)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lines) return;
    const char* p = text + starts[i];
    while (*p == ' ') ++p;
    bool negative = *p == '-';
    if (negative || *p == '+') ++p;
    int x = 0;
    while (*p >= '0' && *p <= '9') x = x * 10 + (*p++ - '0');
    out[i] = negative ? -x : x;
}

KERNEL print_numbers(const unsigned* a, char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    char digits[10];
    int length = 0;
    unsigned x = a[i];
    do { digits[length++] = '0' + x % 10; x /= 10; } while (x);
    for (int k = 0; k < 10 - length; ++k) out[i * 10 + k] = ' ';
    for (int k = 0; k < length; ++k) out[i * 10 + 9 - k] = digits[k];
}

// Powers modulo odd numbers of 63 bits, by doubling and adding, and the greatest common divisor by halving.
KERNEL modular(const u64* a, const unsigned* exponents, const u64* modulus, u64* out, unsigned* divisors)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u64 m = modulus[i], x = a[i] % m, y = 1 % m;
    unsigned e = exponents[i];
    auto times = [m](u64 p, u64 q) {
        u64 r = 0;
        for (; q; q >>= 1) {
            if (q & 1) { r += p; if (r >= m) r -= m; }
            p += p;
            if (p >= m) p -= m;
        }
        return r;
    };
    for (; e; e >>= 1) {
        if (e & 1) y = times(y, x);
        x = times(x, x);
    }
    out[i] = y;
    unsigned p = (unsigned)a[i] | 1, q = (unsigned)m | 1;
    while (p != q) {
        if (p > q) { p -= q; p >>= __ffs(p) - 1; } else { q -= p; q >>= __ffs(q) - 1; }
    }
    divisors[i] = p;
}

KERNEL divisions(const int* a, const int* b, const long long* c, const unsigned short* d, long long* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int q = a[i] / b[i], r = a[i] % b[i];
    unsigned s = (unsigned)a[i] / d[i], t = (unsigned)a[i] % d[i];
    long long u = c[i] / b[i], v = c[i] % 1000003;
    out[5 * i] = q; out[5 * i + 1] = r; out[5 * i + 2] = (long long)s << 16 | t; out[5 * i + 3] = u; out[5 * i + 4] = v;
}

// 256 by 256 bits, in words of 32 with carries.
KERNEL long_products(const unsigned* a, const unsigned* b, unsigned* out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    unsigned r[16] = {}, x[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] = a[k * n + t];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        unsigned y = b[j * n + t], carry = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            u64 p = (u64)x[k] * y + r[j + k] + carry;
            r[j + k] = (unsigned)p;
            carry = p >> 32;
        }
        r[j + 8] = carry;
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) out[k * n + t] = r[k];
}

KERNEL long_sums(const uint4* a, const uint4* b, uint4* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 x = a[i], y = b[i];
    asm("add.cc.u32 %0, %0, %4; addc.cc.u32 %1, %1, %5; addc.cc.u32 %2, %2, %6; addc.u32 %3, %3, %7;"
        : "+r"(x.x), "+r"(x.y), "+r"(x.z), "+r"(x.w) : "r"(y.x), "r"(y.y), "r"(y.z), "r"(y.w));
    out[i] = x;
}

// Bytes and halves of words: the nearest of sixteen shifts of a pattern by sums of differences, a mean and a clamp.
KERNEL match_blocks(const unsigned* pattern, const unsigned* field, int* where, unsigned* blended, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned p = pattern[i], low = field[i], high = field[i + 1], best = ~0u, at = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        unsigned shifted = __byte_perm(low, high, 0x3210 + 0x1111 * k), apart = __vsadu4(p, shifted);
        if (apart < best) { best = apart; at = k; }
    }
    where[i] = at << 16 | best;
    unsigned mean = __vavgu4(p, low), far = __vabsdiffu4(p, high);
    blended[i] = __vmaxu4(mean, __vminu4(far, 0x40404040)) + (__vcmpgtu2(p, low) & 0x00010001);
}

KERNEL clamp_samples(const short2* a, unsigned* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = (unsigned short)a[i].x | (unsigned)(unsigned short)a[i].y << 16;
    unsigned doubled = __vaddss2(x, x), low = __vmaxs2(doubled, 0xe000e000), clamped = __vmins2(low, 0x20002000);
    out[i] = __vabsss2(clamped) ^ __vsubus2(0x30003000, doubled & 0x7fff7fff);
}

// How queens can stand on a board of eight, the first two columns fixed by the thread.
KERNEL queens(int* total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, first = i / 8, second = i % 8, found = 0;
    unsigned columns[8], lefts[8], rights[8], choices[8];
    if (abs(first - second) > 1) {
        int depth = 2;
        columns[2] = 1u << first | 1u << second;
        lefts[2] = 1u << first << 2 | 1u << second << 1;
        rights[2] = 1u << first >> 2 | 1u << second >> 1;
        choices[2] = ~(columns[2] | lefts[2] | rights[2]) & 255;
        while (depth >= 2) {
            unsigned c = choices[depth];
            if (!c) { --depth; continue; }
            unsigned bit = c & -c;
            choices[depth] = c ^ bit;
            if (depth == 7) { ++found; continue; }
            columns[depth + 1] = columns[depth] | bit;
            lefts[depth + 1] = (lefts[depth] | bit) << 1;
            rights[depth + 1] = (rights[depth] | bit) >> 1;
            ++depth;
            choices[depth] = ~(columns[depth] | lefts[depth] | rights[depth]) & 255;
        }
    }
    atomicAdd(total, found);
}

// A filter of Bloom: three bits a key, then who may be there.
KERNEL bloom_insert(const unsigned* keys, unsigned* filter, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (unsigned k = 1; k <= 3; ++k) {
        unsigned h = keys[i] * (0x9E3779B1u * (2 * k + 1)) >> 20;
        atomicOr(&filter[h >> 5], 1u << (h & 31));
    }
}

KERNEL bloom_query(const unsigned* keys, const unsigned* filter, byte* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool there = true;
    for (unsigned k = 1; k <= 3 && there; ++k) {
        unsigned h = keys[i] * (0x9E3779B1u * (2 * k + 1)) >> 20;
        there = filter[h >> 5] >> (h & 31) & 1;
    }
    out[i] = there;
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)(grid, block, arguments)


def chacha(key, text, out):
    _run("chacha", (2,), (64,), key, text, out, cupy.uint32(1))


def sha_256(text, lengths, out):
    _run("sha_256", (2,), (64,), text, lengths, out, cupy.int32(text.shape[1]))


def word_hashes(text, starts, out):
    _run("word_hashes", (2,), (64,), text, starts, out, cupy.int32(starts.size))


def twelve_bits(a, packed, out):
    _run("pack_12", (2,), (32,), a, packed)
    _run("unpack_12", (2,), (64,), packed, out, cupy.int32(a.size))


def to_base_64(a, out):
    _run("to_base_64", (2,), (64,), a, out, cupy.int32(a.size))


def morton_codes(points, out):
    _run("morton_codes", (2,), (64,), points, out, cupy.float32(-2), cupy.float32(256), cupy.int32(len(points)))


def hamming(a, b, out):
    m, n = out.shape
    _run("hamming", ((n + 15) // 16, (m + 15) // 16), (16, 16), a, b, out, cupy.int32(m), cupy.int32(n))


def edit_by_bits(word, others, lengths, out):
    _run("edit_by_bits", (2,), (64,), word, cupy.int32(word.size), others, lengths, out, cupy.int32(others.shape[1]))


def align_locally(a, b, out):
    _run("align_locally", (len(a),), (64,), a, b, out, cupy.int32(a.shape[1]), cupy.int32(b.shape[1]))


def parse_numbers(text, starts, out):
    _run("parse_numbers", (2,), (64,), text, starts, out, cupy.int32(starts.size))


def print_numbers(a, out):
    _run("print_numbers", (2,), (64,), a, out, cupy.int32(a.size))


def modular(a, exponents, modulus, out, divisors):
    _run("modular", (2,), (32,), a, exponents, modulus, out, divisors)


def divisions(a, b, c, d, out):
    _run("divisions", (2,), (64,), a, b, c, d, out, cupy.int32(a.size))


def long_products(a, b, out):
    _run("long_products", (2,), (64,), a, b, out, cupy.int32(a.shape[1]))


def long_sums(a, b, out):
    _run("long_sums", (2,), (64,), a, b, out)


def match_blocks(pattern, field, where, blended):
    _run("match_blocks", (2,), (64,), pattern, field, where, blended, cupy.int32(pattern.size))


def clamp_samples(a, out):
    _run("clamp_samples", (2,), (64,), a, out, cupy.int32(len(a)))


def queens(total):
    _run("queens", (2,), (32,), total)


def bloom(keys, queries, filter_, out):
    _run("bloom_insert", (2,), (64,), keys, filter_, cupy.int32(keys.size))
    _run("bloom_query", (4,), (64,), queries, filter_, out, cupy.int32(queries.size))
