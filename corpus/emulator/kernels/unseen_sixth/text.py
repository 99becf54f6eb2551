"""The sixth set of kernels that no rule of counting was made from: parsing, matching and packing of text."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;

// Unpacks sequences of literals and copies of what was written before, a stream a thread.
KERNEL unpack_copies(const byte* packed, const int* starts, byte* out, int* sizes, int most, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const byte *p = packed + starts[i], *end = packed + starts[i + 1];
    byte* own = out + i * most;
    int at = 0;
    while (p < end) {
        int token = *p++, literals = token >> 4, copied = token & 15;
        for (int k = 0; k < literals; ++k) own[at++] = *p++;
        if (copied == 0) continue;
        int back = *p++;
        for (int k = 0; k < copied + 2; ++k, ++at) own[at] = own[at - back];
    }
    sizes[i] = at;
    while (at < most) own[at++] = 0;
}

// Each letter becomes its place in a list from which it then moves to the front.
KERNEL move_to_front(const byte* text, byte* out, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    byte list[32];
    for (int k = 0; k < 32; ++k) list[k] = 'a' + k;
    for (int k = 0; k < size; ++k) {
        byte c = text[i * size + k], before = list[0];
        int at = 0;
        while (before != c) {
            byte next = list[++at];
            list[at] = before;
            before = next;
        }
        list[0] = c;
        out[i * size + k] = at;
    }
}

// Fields of a line of comma-separated values: their number, the length of the longest, and whether quotes are closed.
enum Place { START, PLAIN, QUOTED, AFTER };

KERNEL count_fields(const char* lines, int* fields, int* longest, byte* closed, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Place place = START;
    int count = 1, length = 0, most = 0;
    for (int k = 0; k < width; ++k) {
        char c = lines[i * width + k];
        if (c == '\0') break;
        switch (place) {
        case START:
            if (c == '"') { place = QUOTED; break; }
            place = PLAIN;
        case PLAIN:
            if (c == ',') { most = max(most, length); length = 0; ++count; place = START; }
            else ++length;
            break;
        case QUOTED:
            if (c == '"') place = AFTER;
            else ++length;
            break;
        case AFTER:
            if (c == ',') { most = max(most, length); length = 0; ++count; place = START; }
            else { ++length; place = c == '"' ? QUOTED : PLAIN; }
        }
    }
    fields[i] = count;
    longest[i] = max(most, length);
    closed[i] = place != QUOTED;
}

// Decimal numbers with a point and a power of ten.
__constant__ double tens[23] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

KERNEL read_decimals(const char* words, double* out, int width, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const char *p = words + i * width, *end = p + width;
        bool minus = *p == '-';
        p += minus;
        long long digits = 0;
        int power = 0;
        bool fraction = false;
        for (; p < end && *p && *p != 'e'; ++p) {
            if (*p == '.') { fraction = true; continue; }
            digits = 10 * digits + (*p - '0');
            power -= fraction;
        }
        if (p < end && *p == 'e') {
            ++p;
            int sign = 1, e = 0;
            if (*p == '-') { sign = -1; ++p; }
            else if (*p == '+') ++p;
            while (p < end && *p) e = 10 * e + (*p++ - '0');
            power += sign * e;
        }
        double value = digits;
        value = power < 0 ? value / tens[-power] : value * tens[power];
        out[i] = minus ? -value : value;
    }
}

// Formulas of digits, + - * and parentheses, by two stacks.
__device__ int binding(char c) { return c == '*' ? 2 : c == '(' ? 0 : 1; }
__device__ int applied(char c, int a, int b) { return c == '+' ? a + b : c == '-' ? a - b : a * b; }

KERNEL formulas(const char* lines, int* out, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int values[16], have = 0, waiting = 0;
    char signs[16];
    for (int k = 0; k < width; ++k) {
        char c = lines[k * n + i];
        if (c == 0) break;
        if (c >= '0' && c <= '9') {
            values[have++] = c - '0';
        } else if (c == '(') {
            signs[waiting++] = c;
        } else if (c == ')') {
            while (signs[waiting - 1] != '(') {
                --have;
                values[have - 1] = applied(signs[--waiting], values[have - 1], values[have]);
            }
            --waiting;
        } else {
            while (waiting && binding(signs[waiting - 1]) >= binding(c)) {
                --have;
                values[have - 1] = applied(signs[--waiting], values[have - 1], values[have]);
            }
            signs[waiting++] = c;
        }
    }
    while (waiting) {
        --have;
        values[have - 1] = applied(signs[--waiting], values[have - 1], values[have]);
    }
    out[i] = values[0];
}

// Whether names match patterns with ? and *, going back to the last star; a pattern a block in shared memory.
KERNEL match_globs(const char* patterns, const char* names, byte* out, int longest, int width, int n)
{
    __shared__ char pattern[16];
    int t = threadIdx.x;
    if (t < 16) pattern[t] = t < longest ? patterns[blockIdx.x * longest + t] : 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const char* name = names + i * width;
        int p = 0, k = 0, star = -1, from = 0;
        bool good = true;
        while (k < width && name[k]) {
            if (pattern[p] == '*') { star = p++; from = k; }
            else if (pattern[p] == '?' || pattern[p] == name[k]) { ++p; ++k; }
            else if (star >= 0) { p = star + 1; k = ++from; }
            else { good = false; break; }
        }
        while (good && pattern[p] == '*') ++p;
        out[blockIdx.x * n + i] = good && pattern[p] == 0;
    }
}

// How names sound: a letter and three digits.
__device__ int sound(char c)
{
    switch (c) {
    case 'b': case 'f': case 'p': case 'v': return 1;
    case 'c': case 'g': case 'j': case 'k': case 'q': case 's': case 'x': case 'z': return 2;
    case 'd': case 't': return 3;
    case 'l': return 4;
    case 'm': case 'n': return 5;
    case 'r': return 6;
    case 'h': case 'w': return -1;
    default: return 0;
    }
}

KERNEL soundex(const char* names, uchar4* out, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const char* p = names + i * width;
    byte code[4] = {(byte)(p[0] - 32), '0', '0', '0'};
    int last = sound(p[0]), have = 1;
    for (int k = 1; k < width && p[k] && have < 4; ++k) {
        int s = sound(p[k]);
        if (s < 0) continue;
        if (s > 0 && s != last) code[have++] = '0' + s;
        last = s;
    }
    out[i] = make_uchar4(code[0], code[1], code[2], code[3]);
}

// Roman numerals of numbers.
__constant__ short worths[13] = {1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1};
__constant__ char letters[13][2] = {{'M', 0}, {'C', 'M'}, {'D', 0}, {'C', 'D'}, {'C', 0}, {'X', 'C'}, {'L', 0},
                                    {'X', 'L'}, {'X', 0}, {'I', 'X'}, {'V', 0}, {'I', 'V'}, {'I', 0}};

KERNEL to_roman(const unsigned short* numbers, char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int left = numbers[i], at = 0;
    char* own = out + 16 * i;
    for (int k = 0; k < 13; ++k)
        while (left >= worths[k]) {
            left -= worths[k];
            own[at++] = letters[k][0];
            if (letters[k][1]) own[at++] = letters[k][1];
        }
    for (; at < 16; ++at) own[at] = 0;
}

// Checks card numbers, eight lanes a number: every second digit is doubled.
KERNEL card_digits(const byte* digits, unsigned* good, int n)
{
    int lane = threadIdx.x & 7, i = (blockIdx.x * blockDim.x + threadIdx.x) >> 3;
    int sum = 0;
    if (i < n) {
        uchar2 pair = reinterpret_cast<const uchar2*>(digits)[i * 8 + lane];
        int twice = 2 * pair.x;
        sum = pair.y + (twice > 9 ? twice - 9 : twice);
    }
#pragma unroll
    for (int d = 4; d; d >>= 1) sum += __shfl_xor_sync(ALL, sum, d, 8);
    unsigned votes = __ballot_sync(ALL, i < n && lane == 0 && sum % 10 == 0);
    if ((threadIdx.x & 31) == 0 && i < n) good[i / 4] = votes;
}

// Words looked up in a tree of letters; what is found is the number of the longest word that begins the text.
KERNEL longest_prefix(const short* child, const short* word, const char* texts, int* out, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int node = 0, best = -1;
    for (int k = 0; k < width; ++k) {
        node = child[node * 4 + (texts[i * width + k] - 'a')];
        if (node < 0) break;
        if (word[node] >= 0) best = word[node];
    }
    out[i] = best;
}

// Four bytes as five letters of base 85, or one z if all are zero; sizes say how long each block's text is.
KERNEL to_base_85(const uchar4* in, char* out, int* sizes, int many)
{
    __shared__ int place[33];
    int t = threadIdx.x, i = blockIdx.x * many + t;
    uchar4 c = t < many ? in[i] : make_uchar4(1, 0, 0, 0);
    unsigned value = (unsigned)c.x << 24 | c.y << 16 | c.z << 8 | c.w;
    int length = t >= many ? 0 : value ? 5 : 1, sum = length;
    for (int d = 1; d < 32; d <<= 1) {
        int other = __shfl_up_sync(ALL, sum, d);
        if (t >= d) sum += other;
    }
    place[t + 1] = sum;
    if (t == 0) place[0] = 0;
    __syncwarp();
    char* own = out + blockIdx.x * 160 + place[t];
    if (length == 1) own[0] = 'z';
    else if (length)
        for (int k = 4; k >= 0; --k, value /= 85) own[k] = '!' + value % 85;
    for (int k = place[32] + t; k < 160; k += 32) out[blockIdx.x * 160 + k] = 0;
    if (t == 31) sizes[blockIdx.x] = sum;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    block = block if isinstance(block, tuple) else (block,)
    grid = grid if isinstance(grid, tuple) else (grid,)
    module.get_function(name)(grid, block, arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def unpack_copies(packed, starts, out, sizes):
    n, most = out.shape
    _run("unpack_copies", 2, 32, packed, starts, out, sizes, *_ints(most, n))


def move_to_front(text, out):
    n, size = text.shape
    _run("move_to_front", 3, 32, text, out, *_ints(size, n))


def count_fields(lines, fields, longest, closed):
    n, width = lines.shape
    _run("count_fields", 4, 48, lines, fields, longest, closed, *_ints(width, n))


def read_decimals(words, out):
    n, width = words.shape
    _run("read_decimals", 2, 64, words, out, *_ints(width, n))


def formulas(lines, out):
    _run("formulas", 4, 32, lines, out, *_ints(*lines.shape))


def match_globs(patterns, names, out):
    m, longest = patterns.shape
    n, width = names.shape
    _run("match_globs", m, 64, patterns, names, out, *_ints(longest, width, n))


def soundex(names, out):
    n, width = names.shape
    _run("soundex", 3, 64, names, out, *_ints(width, n))


def to_roman(numbers, out):
    _run("to_roman", 4, 64, numbers, out, *_ints(numbers.size))


def card_digits(digits, good):
    _run("card_digits", 5, 128, digits, good, *_ints(len(digits)))


def longest_prefix(child, word, texts, out):
    n, width = texts.shape
    _run("longest_prefix", 3, 96, child, word, texts, out, *_ints(width, n))


def to_base_85(data, out, sizes):
    blocks, many, _ = data.shape
    _run("to_base_85", blocks, 32, data, out, sizes, *_ints(many))
