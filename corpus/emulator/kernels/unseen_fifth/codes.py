"""The fifth set of kernels that no rule of counting was made from: checksums, hashes, ciphers, text, sketches."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// Adler's checksum of a block of bytes a block: the second sum weighs each byte by how many follow.
KERNEL adler_32(const byte* data, unsigned* out, int size)
{
    __shared__ unsigned plain[4], weighed[4];
    const byte* own = data + blockIdx.x * size;
    unsigned a = 0, b = 0;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        a += own[i];
        b = (b + own[i] * (size - i)) % 65521u;
    }
    for (int d = 16; d; d >>= 1) {
        a += __shfl_down_sync(ALL, a, d);
        b += __shfl_down_sync(ALL, b, d);
    }
    if (threadIdx.x % 32 == 0) { plain[threadIdx.x / 32] = a; weighed[threadIdx.x / 32] = b; }
    __syncthreads();
    if (threadIdx.x) return;
    a = 1;
    b = size;
    for (int k = 0; k < blockDim.x / 32; ++k) { a += plain[k]; b += weighed[k]; }
    out[blockIdx.x] = b % 65521u << 16 | a % 65521u;
}

// xxHash of 32 bits, a record a thread: four lanes while sixteen bytes are left, then words, then bytes.
#define P1 2654435761u
#define P2 2246822519u
#define P3 3266489917u
#define P4 668265263u
#define P5 374761393u

__device__ __forceinline__ unsigned turned(unsigned x, int n) { return __funnelshift_l(x, x, n); }
__device__ unsigned stirred(unsigned lane, unsigned word) { return turned(lane + word * P2, 13) * P1; }

KERNEL xx_hash(const unsigned* words, const int* sizes, unsigned* out, int pitch, int n, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned* p = words + i * pitch;
    int size = sizes[i], left = size;
    unsigned h = seed + P5;
    if (left >= 16) {
        unsigned a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
        for (; left >= 16; left -= 16, p += 4) {
            uint4 w = *reinterpret_cast<const uint4*>(p);
            a = stirred(a, w.x); b = stirred(b, w.y); c = stirred(c, w.z); d = stirred(d, w.w);
        }
        h = turned(a, 1) + turned(b, 7) + turned(c, 12) + turned(d, 18);
    }
    h += size;
    for (; left >= 4; left -= 4) h = turned(h + *p++ * P3, 17) * P4;
    const byte* rest = reinterpret_cast<const byte*>(p);
    while (left-- > 0) h = turned(h + *rest++ * P5, 11) * P1;
    h = (h ^ h >> 15) * P2;
    h = (h ^ h >> 13) * P3;
    out[i] = h ^ h >> 16;
}

// CRC of 16 bits as modems had it, four bits at a time by a table in constant memory.
__constant__ unsigned short nibble_table[16] = {
    0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
    0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};

KERNEL crc_16(const byte* frames, unsigned short* out, int size, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned crc = 0xffff;
        for (int k = 0; k < size; ++k) {
            unsigned c = __ldg(&frames[k * n + i]);
            crc = (crc << 4 ^ nibble_table[(crc >> 12 ^ c >> 4) & 15]) & 0xffff;
            crc = (crc << 4 ^ nibble_table[(crc >> 12 ^ c) & 15]) & 0xffff;
        }
        out[i] = crc;
    }
}

// XTEA of counters, xored on text.
KERNEL xtea_counter(const uint2* text, uint2* out, const uint4* keys, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 key = keys[0];
    unsigned k[4] = {key.x, key.y, key.z, key.w};
    unsigned a = i, b = 0x1234567u, sum = 0;
#pragma unroll 8
    for (int round = 0; round < 32; ++round) {
        a += ((b << 4 ^ b >> 5) + b) ^ (sum + k[sum & 3]);
        sum += 0x9e3779b9u;
        b += ((a << 4 ^ a >> 5) + a) ^ (sum + k[sum >> 11 & 3]);
    }
    uint2 t = text[i];
    out[i] = make_uint2(t.x ^ a, t.y ^ b);
}

// RC4: each thread has a state of its own in shared memory, rows of 257 bytes.
KERNEL rc4(const byte* keys, byte* out, int size, int many, int n)
{
    extern __shared__ byte states[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    byte* s = states + threadIdx.x * 257;
    if (i >= n) return;
    for (int k = 0; k < 256; ++k) s[k] = k;
    byte j = 0;
    for (int k = 0; k < 256; ++k) {
        j += s[k] + keys[i * size + k % size];
        byte t = s[k]; s[k] = s[j]; s[j] = t;
    }
    byte a = 0;
    j = 0;
    for (int k = 0; k < many; ++k) {
        j += s[++a];
        byte t = s[a]; s[a] = s[j]; s[j] = t;
        out[k * n + i] = s[(byte)(s[a] + s[j])];
    }
}

// Bytes in hexadecimal, four bytes to eight letters without a table.
__device__ unsigned hex_letters(unsigned v)
{
    unsigned spread = (v >> 4 & 15) | (v & 15) << 8 | (v >> 12 & 15) << 16 | (v >> 8 & 15) << 24;
    unsigned beyond = (spread + 0x06060606u) >> 4 & 0x01010101u;
    return spread + 0x30303030u + beyond * 39;
}

KERNEL to_hexadecimal(const uchar4* in, uint2* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 c = in[i];
    out[i] = make_uint2(hex_letters(c.x | c.y << 8), hex_letters(c.z | c.w << 8));
}

// Dotted addresses of the Internet to numbers, a state per letter; 0 and a flag for what is none.
KERNEL read_addresses(const char* lines, unsigned* out, byte* fine, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const char* p = lines + i * width;
    unsigned address = 0;
    int part = 0, digits = 0, dots = 0;
    bool good = true;
    for (int k = 0; k < width && good; ++k) {
        char c = p[k];
        if (c == '\0') break;
        if (c == '.') {
            if (digits == 0 || ++dots > 3) { good = false; continue; }
            address = address << 8 | part;
            part = digits = 0;
        } else if (c >= '0' && c <= '9') {
            part = part * 10 + (c - '0');
            good = ++digits <= 3 && part <= 255;
        } else {
            good = false;
        }
    }
    good = good && dots == 3 && digits > 0;
    out[i] = good ? address << 8 | part : 0;
    fine[i] = good;
}

// How many suffixes of a text come before each suffix.
KERNEL suffix_ranks(const byte* texts, byte* rank, int n)
{
    extern __shared__ byte text[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) text[i] = texts[blockIdx.x * n + i];
    __syncthreads();
    for (int own = threadIdx.x; own < n; own += blockDim.x) {
        int before = 0;
        for (int other = 0; other < n; ++other) {
            if (other == own) continue;
            int a = own, b = other;
            while (a < n && b < n && text[a] == text[b]) { ++a; ++b; }
            if (b == n || (a < n && text[b] < text[a])) ++before;
        }
        rank[blockIdx.x * n + own] = before;
    }
}

// Codes of seven bits with one wrong bit at most, put right.
KERNEL mend_hamming(const byte* codes, byte* nibbles, unsigned* mended, int n)
{
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned c = codes[i] & 127;
        int wrong = (__popc(c & 0x55) & 1) | (__popc(c & 0x66) & 1) << 1 | (__popc(c & 0x78) & 1) << 2;
        if (wrong) { c ^= 1 << (wrong - 1); atomicInc(&count, 0xffffffffu); }
        nibbles[i] = (c >> 2 & 1) | (c >> 3 & 14);
    }
    __syncthreads();
    if (threadIdx.x == 0) mended[blockIdx.x] = count;
}

// Parities of shards over the field of 256 elements, products by logarithms in shared memory.
KERNEL parity_shards(const byte* data, const byte* factors, byte* out, int shards, int size)
{
    __shared__ byte logarithm[256], power[510];
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        int x = 1;
        for (int k = 0; k < 255; ++k) {
            power[k] = power[k + 255] = x;
            logarithm[x] = k;
            x <<= 1;
            if (x & 256) x ^= 0x11d;
        }
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = threadIdx.y;
    if (i >= size) return;
    int sum = 0;
    for (int k = 0; k < shards; ++k) {
        int a = data[k * size + i], f = factors[row * shards + k];
        if (a && f) sum ^= power[logarithm[a] + logarithm[f]];
    }
    out[row * size + i] = sum;
}

// MD5 of one padded block of 64 bytes a thread.
__constant__ unsigned sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
__constant__ byte turns[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

KERNEL md_5(const unsigned* blocks, uint4* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned m[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) m[k] = blocks[k * n + i];
    unsigned a = 0x67452301u, b = 0xefcdab89u, c = 0x98badcfeu, d = 0x10325476u;
    for (int k = 0; k < 64; ++k) {
        unsigned f;
        int g;
        switch (k / 16) {
        case 0: f = (b & c) | (~b & d); g = k; break;
        case 1: f = (d & b) | (~d & c); g = (5 * k + 1) & 15; break;
        case 2: f = b ^ c ^ d; g = (3 * k + 5) & 15; break;
        default: f = c ^ (b | ~d); g = (7 * k) & 15;
        }
        f += a + sines[k] + m[g];
        a = d; d = c; c = b;
        b += turned(f, turns[k / 16 * 4 + (k & 3)]);
    }
    out[i] = make_uint4(a + 0x67452301u, b + 0xefcdab89u, c + 0x98badcfeu, d + 0x10325476u);
}

// How many different values there may be: for each bucket of hashes the most leading zeros.
KERNEL count_different(const unsigned* values, int* most, int n)
{
    __shared__ int buckets[64];
    for (int k = threadIdx.x; k < 64; k += blockDim.x) buckets[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned h = values[i] * 0x9e3779b1u;
        h ^= h >> 15;
        h *= 0x85ebca77u;
        atomicMax(&buckets[h >> 26], __clz((h << 6) | 1) + 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 64; k += blockDim.x)
        if (buckets[k]) atomicMax(&most[k], buckets[k]);
}

// Counts of keys in four rows of hashed counters, and what they say of each query.
KERNEL count_sketch(const unsigned* keys, const unsigned* queries, int* out, int n, int asked)
{
    __shared__ int counters[4][61];
    for (int k = threadIdx.x; k < 4 * 61; k += blockDim.x) counters[k / 61][k % 61] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned key = keys[blockIdx.x * n + i];
        for (unsigned row = 0; row < 4; ++row) atomicAdd(&counters[row][(key * (2 * row + 3) + row * 17) % 61], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < asked; i += blockDim.x) {
        unsigned key = queries[i];
        int least = n;
#pragma unroll
        for (unsigned row = 0; row < 4; ++row) least = min(least, counters[row][(key * (2 * row + 3) + row * 17) % 61]);
        out[blockIdx.x * asked + i] = least;
    }
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    block = block if isinstance(block, tuple) else (block,)
    module.get_function(name)((grid,), block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def adler_32(data, out):
    _run("adler_32", len(data), 96, data, out, *_ints(data.shape[1]))


def xx_hash(words, sizes, out):
    _run("xx_hash", 3, 64, words, sizes, out, *_ints(words.shape[1], out.size), cupy.uint32(2026))


def crc_16(frames, out):
    _run("crc_16", 2, 48, frames, out, *_ints(*frames.shape))


def xtea_counter(text, key, out):
    _run("xtea_counter", 3, 128, text, out, key, *_ints(len(text)))


def rc4(keys, out):
    n, size = keys.shape
    _run("rc4", 2, 16, keys, out, *_ints(size, len(out), n), shared=16 * 257)


def to_hexadecimal(data, out):
    _run("to_hexadecimal", 3, 96, data, out, *_ints(len(data)))


def read_addresses(lines, out, fine):
    _run("read_addresses", 3, 64, lines, out, fine, *_ints(lines.shape[1], out.size))


def suffix_ranks(texts, rank):
    n = texts.shape[1]
    _run("suffix_ranks", len(texts), 64, texts, rank, *_ints(n), shared=n)


def mend_hamming(codes, nibbles, mended):
    _run("mend_hamming", mended.size, 64, codes, nibbles, mended, *_ints(codes.size))


def parity_shards(data, factors, out):
    shards, size = data.shape
    _run("parity_shards", 3, (40, len(factors)), data, factors, out, *_ints(shards, size))


def md_5(blocks, out):
    _run("md_5", 3, 32, blocks, out, *_ints(len(out)))


def count_different(values, most):
    _run("count_different", 4, 128, values, most, *_ints(values.size))


def count_sketch(keys, queries, out):
    _run("count_sketch", len(keys), 64, keys, queries, out, *_ints(keys.shape[1], queries.size))
