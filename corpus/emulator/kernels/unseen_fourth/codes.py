"""The fourth set of kernels that no rule of counting was made from: compression, text, ciphers, sequences, games."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// The longest earlier match of each place within a window, at most 32 bytes long; the nearest one of several.
KERNEL longest_matches(const byte* text, uchar2* found, int n)
{
    __shared__ byte near[64 + 128 + 32];
    int first = blockIdx.x * 128;
    for (int i = threadIdx.x; i < 224; i += 128) {
        int at = first - 64 + i;
        near[i] = at >= 0 && at < n ? text[at] : 0;
    }
    __syncthreads();
    int here = first + threadIdx.x, length = 0, distance = 0;
    if (here >= n) return;
    const byte* own = near + 64 + threadIdx.x;
    int most = min(32, n - here);
    for (int d = 1; d <= min(64, here); ++d) {
        if (length && own[length - d] != own[length]) continue;
        int k = 0;
        while (k < most && own[k - d] == own[k]) ++k;
        if (k > length) { length = k; distance = d; if (k == most) break; }
    }
    found[here] = make_uchar2(length, distance);
}

// Bytes to prefix codes: places of the codes' first bits are sums of lengths; words of bits are joined by atomics.
KERNEL pack_codes(const byte* text, const ushort2* codes, unsigned* words, int* bits, int n, int most)
{
    __shared__ int sums[4];
    __shared__ unsigned packed[64];
    int t = threadIdx.x, lane = t & 31, warp = t / 32, at = blockIdx.x * 256 + 2 * t;
    if (t < 64) packed[t] = 0;
    ushort2 a = at < n ? codes[text[at]] : make_ushort2(0, 0);
    ushort2 b = at + 1 < n ? codes[text[at + 1]] : make_ushort2(0, 0);
    int length = a.y + b.y, sum = length;
    unsigned code = (unsigned)a.x << b.y | b.x;
    for (int d = 1; d < 32; d *= 2) {
        int before = __shfl_up_sync(ALL, sum, d);
        if (lane >= d) sum += before;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    for (int k = 0; k < warp; ++k) sum += sums[k];
    int begin = sum - length;
    if (length) {
        u64 shifted = (u64)code << (64 - length - (begin & 31));
        atomicOr(&packed[begin >> 5], (unsigned)(shifted >> 32));
        if ((unsigned)shifted) atomicOr(&packed[(begin >> 5) + 1], (unsigned)shifted);
    }
    __syncthreads();
    if (t < most) words[blockIdx.x * most + t] = packed[t];
    if (t == 127) bits[blockIdx.x] = sum;
}

// Separators and line ends outside of quotes; the quotes' parity is kept over words by the warp that reads a record.
KERNEL split_records(const byte* text, const int* starts, int* fields, int* lines, int records)
{
    int record = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (record >= records) return;
    int begin = starts[record], end = starts[record + 1], commas = 0, rows = 0;
    bool inside = false;
    for (int base = begin; base < end; base += 32) {
        byte c = base + lane < end ? text[base + lane] : ' ';
        unsigned quotes = __ballot_sync(ALL, c == '"'), parity = quotes;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) parity ^= parity << d;
        if (inside) parity = ~parity;
        commas += __popc(__ballot_sync(ALL, c == ',') & ~parity);
        rows += __popc(__ballot_sync(ALL, c == '\n') & ~parity);
        inside ^= __popc(quotes) & 1;
    }
    if (lane == 0) { fields[record] = commas + rows + 1; lines[record] = rows; }
}

// How deep brackets are nested, and whether each closing one is of its opening one's kind; a text a thread.
KERNEL check_nesting(const byte* texts, signed char* deepest, int length, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    byte stack[12];
    int depth = 0, most = 0;
    bool string = false, right = true;
    for (int k = 0; k < length && right; ++k) {
        byte c = texts[k * n + i];
        if (string) {
            if (c == '\\') ++k;
            else if (c == '"') string = false;
            continue;
        }
        switch (c) {
        case '"': string = true; break;
        case '[': case '{':
            if (depth == 12) { right = false; break; }
            stack[depth++] = c + 2;
            most = max(most, depth);
            break;
        case ']': case '}':
            right = depth > 0 && stack[--depth] == c;
            break;
        default: break;
        }
    }
    deepest[i] = right && depth == 0 && !string ? most : -1;
}

// Places on Hilbert's curve of a square of 256 x 256, both ways.
KERNEL hilbert(const uchar2* points, unsigned short* along, const unsigned short* places, uchar2* back, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = points[i].x, y = points[i].y, d = 0;
    for (int s = 128; s > 0; s /= 2) {
        int right = (x & s) > 0, up = (y & s) > 0;
        d += s * s * ((3 * right) ^ up);
        if (!up) {
            if (right) { x = 255 - x; y = 255 - y; }
            int z = x; x = y; y = z;
        }
    }
    along[i] = d;
    int t = places[i];
    x = y = 0;
    for (int s = 1; s < 256; s *= 2) {
        int right = 1 & (t / 2), up = 1 & (t ^ right);
        if (!up) {
            if (right) { x = s - 1 - x; y = s - 1 - y; }
            int z = x; x = y; y = z;
        }
        x += s * right;
        y += s * up;
        t /= 4;
    }
    back[i] = make_uchar2(x, y);
}

// Number theoretic transforms of 256 values, products by Montgomery's reduction.
#define PRIME 998244353u
#define INVERSE 998244351u

__device__ unsigned reduced(u64 x)
{
    unsigned m = (unsigned)x * INVERSE;
    unsigned r = (unsigned)((x + (u64)m * PRIME) >> 32);
    return r >= PRIME ? r - PRIME : r;
}

KERNEL whole_transform(const unsigned* in, const unsigned* powers, unsigned* out)
{
    __shared__ unsigned s[256];
    int t = threadIdx.x;
    s[__brev(t) >> 24] = in[blockIdx.x * 256 + t];
    s[__brev(t + 128) >> 24] = in[blockIdx.x * 256 + t + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), low = 2 * t - k;
        unsigned x = s[low], y = reduced((u64)s[low + half] * powers[k * (128 / half)]);
        unsigned sum = x + y, difference = x + PRIME - y;
        s[low] = sum >= PRIME ? sum - PRIME : sum;
        s[low + half] = difference >= PRIME ? difference - PRIME : difference;
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
    out[blockIdx.x * 256 + t + 128] = s[t + 128];
}

// AES: ten rounds with the substitution in shared memory; keys of the rounds are given.
__device__ unsigned doubled(unsigned x) { return (x << 1 & 0xfefefefe) ^ (x >> 7 & 0x01010101) * 0x1b; }

KERNEL encrypt(const uint4* in, const unsigned* keys, const byte* boxes, uint4* out, int n)
{
    __shared__ byte box[256];
    __shared__ unsigned key[44];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) box[i] = boxes[i];
    if (threadIdx.x < 44) key[threadIdx.x] = keys[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 v = in[i];
    unsigned s[4] = {v.x ^ key[0], v.y ^ key[1], v.z ^ key[2], v.w ^ key[3]};
    for (int round = 1; round <= 10; ++round) {
        unsigned next[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            unsigned a = box[s[c] & 255], b = box[s[(c + 1) & 3] >> 8 & 255], d = box[s[(c + 2) & 3] >> 16 & 255];
            unsigned w = a | b << 8 | d << 16 | (unsigned)box[s[(c + 3) & 3] >> 24] << 24;
            if (round < 10) {
                unsigned turned = __funnelshift_r(w, w, 8);
                w = doubled(w ^ turned) ^ turned ^ __byte_perm(w, w, 0x1032) ^ __byte_perm(w, w, 0x2103);
            }
            next[c] = w ^ key[4 * round + c];
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) s[c] = next[c];
    }
    out[i] = make_uint4(s[0], s[1], s[2], s[3]);
}

// How many pairs of letters of a strand can close without crossing: diagonal after diagonal of a table of intervals.
KERNEL fold_strands(const byte* strands, int* pairs, int n)
{
    __shared__ byte letter[40], best[40][41];
    int t = threadIdx.x;
    if (t < n) letter[t] = strands[blockIdx.x * n + t];
    for (int j = 0; j < n; ++j) if (t < n) best[t][j] = 0;
    for (int length = 4; length < n; ++length) {
        __syncthreads();
        int i = t, j = t + length;
        if (j < n) {
            int most = best[i + 1][j];
            for (int k = i + 4; k <= j; ++k)
                if (letter[i] + letter[k] == 3) {
                    int rest = k < j ? best[k + 1][j] : 0;
                    most = max(most, 1 + best[i + 1][k - 1] + rest);
                }
            best[i][j] = most;
        }
    }
    __syncthreads();
    if (t == 0) pairs[blockIdx.x] = best[0][n - 1];
}

// Who wins from a board of nine fields, both sides playing best: all ways are tried with a stack of moves.
__device__ bool wins(int b)
{
    const int lines[8] = {7, 56, 448, 73, 146, 292, 273, 84};
    for (int k = 0; k < 8; ++k) if ((b & lines[k]) == lines[k]) return true;
    return false;
}

KERNEL best_play(const ushort2* boards, signed char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int side[2] = {boards[i].x, boards[i].y}, depth = 0, turn = 0;
    signed char value[10], move[10];
    value[0] = -2;
    move[0] = -1;
    while (true) {
        int used = side[0] | side[1], result = -2;
        if (move[depth] < 0 && wins(side[turn ^ 1])) result = -1;
        else if (used == 511) result = 0;
        else {
            int next = move[depth] + 1;
            while (next < 9 && used >> next & 1) ++next;
            if (next < 9 && value[depth] < 1) {
                move[depth] = next;
                side[turn] |= 1 << next;
                turn ^= 1;
                ++depth;
                value[depth] = -2;
                move[depth] = -1;
                continue;
            }
            result = value[depth];
        }
        if (depth == 0) { out[i] = result; return; }
        --depth;
        turn ^= 1;
        side[turn] ^= 1 << move[depth];
        value[depth] = max((int)value[depth], -result);
    }
}

// A machine with a stack of numbers runs a program for each input.
KERNEL stack_machine(const int2* program, const int* inputs, int* out, int* taken, int n)
{
    __shared__ int2 code[32];
    if (threadIdx.x < 32) code[threadIdx.x] = program[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int stack[8], top = 0, at = 0, steps = 0;
    bool running = true;
    while (running && steps < 500) {
        int2 c = code[at++];
        ++steps;
        switch (c.x) {
        case 0: running = false; break;
        case 1: stack[top++] = c.y; break;
        case 2: stack[top++] = inputs[i]; break;
        case 3: stack[top] = stack[top - 1 - c.y]; ++top; break;
        case 4: --top; stack[top - 1] += stack[top]; break;
        case 5: --top; stack[top - 1] *= stack[top]; break;
        case 6: --top; stack[top - 1] -= stack[top]; break;
        case 7: --top; stack[top - 1] %= stack[top]; break;
        case 8: at = c.y; break;
        case 9: if (stack[--top] == 0) at = c.y; break;
        case 10: { int x = stack[top - 1]; stack[top - 1] = stack[top - 1 - c.y]; stack[top - 1 - c.y] = x; break; }
        case 11: --top; break;
        }
    }
    out[i] = stack[0];
    taken[i] = steps;
}

// Days since 1970 as year, month and day.
KERNEL calendar(const int* days, short* years, uchar2* dates, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int z = days[i] + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    unsigned day = z - era * 146097, year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    unsigned rest = day - (365 * year + year / 4 - year / 100), m = (5 * rest + 2) / 153;
    unsigned month = m < 10 ? m + 3 : m - 9;
    years[i] = year + era * 400 + (month <= 2);
    dates[i] = make_uchar2(month, rest - (153 * m + 2) / 5 + 1);
}
"""
)


def _run(name, grid, block, *arguments):
    module.get_function(name)((grid,), block, arguments)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def longest_matches(text, found):
    _run("longest_matches", 4, (128,), text, found, *_ints(text.size))


def pack_codes(text, codes, words, bits):
    _run("pack_codes", len(words), (128,), text, codes, words, bits, *_ints(text.size, words.shape[1]))


def split_records(text, starts, fields, lines):
    _run("split_records", 4, (32, 3), text, starts, fields, lines, *_ints(fields.size))


def check_nesting(texts, deepest):
    _run("check_nesting", 3, (32,), texts, deepest, *_ints(*texts.shape))


def hilbert(points, along, places, back):
    _run("hilbert", 4, (64,), points, along, places, back, *_ints(along.size))


def whole_transform(a, powers, out):
    _run("whole_transform", len(a), (128,), a, powers, out)


def encrypt(text, keys, boxes, out):
    _run("encrypt", 2, (64,), text, keys, boxes, out, *_ints(len(text)))


def fold_strands(strands, pairs):
    _run("fold_strands", len(strands), (64,), strands, pairs, *_ints(strands.shape[1]))


def best_play(boards, out):
    _run("best_play", 2, (32,), boards, out, *_ints(out.size))


def stack_machine(program, inputs, out, taken):
    _run("stack_machine", 2, (64,), program, inputs, out, taken, *_ints(out.size))


def calendar(days, years, dates):
    _run("calendar", 3, (64,), days, years, dates, *_ints(days.size))
