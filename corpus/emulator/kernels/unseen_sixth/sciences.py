"""The sixth set of kernels that no rule of counting was made from: chemistry, money, statistics, integrals, traffic."""

import cupy

module = cupy.RawModule(
    code=r"""
#define KERNEL extern "C" __global__ void
#define ALL 0xffffffffu

typedef unsigned char byte;
typedef unsigned long long u64;
typedef long long i64;

__device__ __forceinline__ unsigned drawn(u64& state)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

// Reactions by chance, A + B -> C, C -> A + B, C -> D, until nothing can react or the steps are used up.
KERNEL react_by_chance(const int4* start, int4* out, int* used, int steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 s = start[i];
    u64 state = i * 77ull + 5;
    int k = 0;
    for (; k < steps; ++k) {
        unsigned join = s.x * s.y, part = 3 * s.z, decay = 2 * s.z, total = join + part + decay;
        if (total == 0) break;
        unsigned r = drawn(state) % total;
        if (r < join) { --s.x; --s.y; ++s.z; }
        else if (r < join + part) { ++s.x; ++s.y; --s.z; }
        else { --s.z; ++s.w; }
    }
    out[i] = s;
    used[i] = k;
}

// Angles of four atoms in a row.
struct Vector { double x, y, z; };
__device__ Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__device__ double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ Vector cross(Vector a, Vector b)
{
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

KERNEL torsions(const Vector* atoms, const int4* quads, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 q = quads[i];
    Vector a = atoms[q.y] - atoms[q.x], b = atoms[q.z] - atoms[q.y], c = atoms[q.w] - atoms[q.z];
    Vector m = cross(a, b), k = cross(b, c);
    out[i] = atan2(sqrt(dot(b, b)) * dot(a, k), dot(m, k));
}

// How acid a mixture of a weak acid and a base is: the balance of charges by halving the range.
KERNEL acidity(const double2* amounts, double* out, int* halvings, double acid, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double2 c = amounts[i];
    double low = 1e-14, high = 1.0;
    int k = 0;
    while (high - low > 1e-9 * low && k < 200) {
        double middle = high > 2 * low ? sqrt(low * high) : 0.5 * (low + high);
        double charge = middle + c.y - 1e-14 / middle - c.x * acid / (acid + middle);
        if (charge > 0) high = middle;
        else low = middle;
        ++k;
    }
    out[i] = low;
    halvings[i] = k;
}

// Loans in cents with interest by the month: how many months, what is paid in all; never, if interest eats the rate.
KERNEL repay(const int3* loans, int* months, i64* paid, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int3 loan = loans[i];
        i64 left = loan.x, sum = 0;
        int month = 0;
        while (left > 0) {
            i64 interest = (left * loan.y + 6000) / 12000;
            if (interest >= loan.z) { month = -1; sum = 0; break; }
            i64 pay = min(left + interest, (i64)loan.z);
            left += interest - pay;
            sum += pay;
            if (++month == 120) break;
        }
        months[i] = month;
        paid[i] = sum;
    }
}

// Gains of sales from lots bought earlier, the first first: a ring of lots, and what could not be sold.
KERNEL lot_gains(const short2* trades, int* gains, int* short_of, int size, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short many[8], price[8];
    int head = 0, tail = 0, gain = 0, lacking = 0;
    for (int k = 0; k < size; ++k) {
        short2 t = trades[k * n + i];
        if (t.x > 0) {
            if (tail - head == 8) continue;
            many[tail & 7] = t.x;
            price[tail++ & 7] = t.y;
            continue;
        }
        int sell = -t.x;
        while (sell > 0 && head < tail) {
            int at = head & 7, part = min(sell, (int)many[at]);
            gain += part * (t.y - price[at]);
            sell -= part;
            if ((many[at] -= part) == 0) ++head;
        }
        lacking += sell;
    }
    gains[i] = gain;
    short_of[i] = lacking;
}

// Cars on a ring of cells: faster, not into the one ahead, slower by chance, then on.
KERNEL ring_road(const signed char* cells, signed char* out, int* moved, int size, int steps)
{
    extern __shared__ signed char road[];
    signed char* next = road + size;
    int t = threadIdx.x;
    for (int k = t; k < size; k += blockDim.x) road[k] = cells[blockIdx.x * size + k];
    int way = 0;
    for (int step = 0; step < steps; ++step) {
        for (int k = t; k < size; k += blockDim.x) next[k] = -1;
        __syncthreads();
        for (int k = t; k < size; k += blockDim.x) {
            int speed = road[k];
            if (speed < 0) continue;
            speed = min(speed + 1, 5);
            int gap = 0;
            while (gap < speed && road[(k + gap + 1) % size] < 0) ++gap;
            speed = gap;
            unsigned r = (blockIdx.x * 1009u + step * 131u + k) * 2654435761u;
            if (speed && (r >> 24) < 64) --speed;
            next[(k + speed) % size] = speed;
            way += speed;
        }
        __syncthreads();
        for (int k = t; k < size; k += blockDim.x) road[k] = next[k];
        __syncthreads();
    }
    for (int d = 16; d; d >>= 1) way += __shfl_down_sync(ALL, way, d);
    if (t % 32 == 0) atomicAdd(&moved[blockIdx.x], way);
    for (int k = t; k < size; k += blockDim.x) out[blockIdx.x * size + k] = road[k];
}

// Where things are by noisy measures: a filter with place, speed and their errors; some measures are missing.
KERNEL track(const double* measured, double2* out, int size, double noise, double change, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = 0, v = 0, xx = 10, xv = 0, vv = 10;
    for (int k = 0; k < size; ++k) {
        x += v;
        xx += 2 * xv + vv + change;
        xv += vv;
        vv += change;
        double z = measured[k * n + i];
        if (z != z) continue;
        double s = xx + noise, a = xx / s, b = xv / s, left = z - x;
        x += a * left;
        v += b * left;
        vv -= b * xv;
        xv -= a * xv;
        xx -= a * xx;
    }
    out[i] = make_double2(x, v);
}

// Integrals by halved steps and extrapolation, until the last two agree.
__device__ double curve(double x, double a) { return 1 / (1 + a * x * x) + x * sqrt(x + 1); }

KERNEL romberg(const double* factors, double* out, int* levels, double to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = factors[i], row[10], step = to;
    row[0] = step * 0.5 * (curve(0, a) + curve(to, a));
    int level = 1;
    for (; level < 10; ++level) {
        double sum = 0;
        for (int k = 0; k < 1 << (level - 1); ++k) sum += curve((k + 0.5) * step, a);
        double before = row[0], best = row[level - 1], scale = 4;
        row[0] = 0.5 * (before + step * sum);
        step *= 0.5;
        for (int k = 1; k <= level; ++k, scale *= 4) {
            double now = row[k - 1] + (row[k - 1] - before) / (scale - 1);
            before = row[k];
            row[k] = now;
        }
        if (fabs(row[level] - best) < 1e-11) break;
    }
    out[i] = row[min(level, 9)];
    levels[i] = level;
}

// Integrals over parts that are halved until they are smooth enough: a stack instead of recursion.
KERNEL adaptive(const float2* ranges, double* out, int* parts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double from[20], to[20], sum = 0;
    int top = 0, count = 0;
    from[0] = ranges[i].x;
    to[top++] = ranges[i].y;
    while (top) {
        double a = from[--top], b = to[top], m = 0.5 * (a + b);
        double fa = fabs(a - 0.3) * a, fm = fabs(m - 0.3) * m, fb = fabs(b - 0.3) * b;
        double l = 0.5 * (a + m), r = 0.5 * (m + b);
        double whole = (b - a) / 6 * (fa + 4 * fm + fb);
        double halves = (b - a) / 12 * (fa + 4 * fabs(l - 0.3) * l + 2 * fm + 4 * fabs(r - 0.3) * r + fb);
        if (fabs(whole - halves) < 1e-7 || top > 17) {
            sum += halves;
            ++count;
            continue;
        }
        from[top] = m; to[top++] = b;
        from[top] = a; to[top++] = m;
    }
    out[i] = sum;
    parts[i] = count;
}

// Bessel's functions by their series, until a term no longer counts; orders by columns.
KERNEL bessel(const double* x, double* out, int orders, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, order = blockIdx.y;
    if (i >= n) return;
    double half = 0.5 * x[i], term = 1;
    for (int k = 1; k <= order; ++k) term *= half / k;
    double sum = term, square = -half * half;
    for (int k = 1; k < 60; ++k) {
        term *= square / (k * (k + order));
        double next = sum + term;
        if (next == sum) break;
        sum = next;
    }
    out[order * n + i] = sum;
}

// Winners of elections by ranked votes: who has the fewest firsts leaves, until one has more than half.
KERNEL ranked_votes(const unsigned* ballots, int* winner, int* rounds, int size)
{
    __shared__ int firsts[8];
    __shared__ unsigned gone;
    __shared__ int chosen;
    int t = threadIdx.x, round = 0;
    if (t == 0) { gone = 0; chosen = -1; }
    __syncthreads();
    while (chosen < 0) {
        ++round;
        if (t < 8) firsts[t] = 0;
        __syncthreads();
        for (int k = t; k < size; k += blockDim.x) {
            unsigned ballot = ballots[blockIdx.x * size + k];
            while (gone >> (ballot & 7) & 1) ballot >>= 4;
            atomicAdd(&firsts[ballot & 7], 1);
        }
        __syncthreads();
        if (t == 0) {
            int best = 0, least = size + 1, last = 0;
            for (int c = 0; c < 8; ++c) {
                if (gone >> c & 1) continue;
                if (firsts[c] * 2 > size) chosen = c;
                if (firsts[c] > firsts[best] || gone >> best & 1) best = c;
                if (firsts[c] < least) { least = firsts[c]; last = c; }
            }
            if (chosen < 0 && __popc(gone) == 6) chosen = best;
            gone |= 1u << last;
        }
        __syncthreads();
    }
    if (t == 0) { winner[blockIdx.x] = chosen; rounds[blockIdx.x] = round; }
}

// How likely strings of signs are under a model of three hidden states, scaled by powers of two on the way.
KERNEL hidden_states(const byte* signs, const double* moves, const double* shows, double* out, int* powers, int size,
                     int n)
{
    __shared__ double move[9], show[12];
    if (threadIdx.x < 9) move[threadIdx.x] = moves[threadIdx.x];
    else if (threadIdx.x < 21) show[threadIdx.x - 9] = shows[threadIdx.x - 9];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = 1, b = 0, c = 0;
    int power = 0;
    for (int k = 0; k < size; ++k) {
        int s = signs[i * size + k];
        if (s > 3) break;
        double x = (a * move[0] + b * move[3] + c * move[6]) * show[s];
        double y = (a * move[1] + b * move[4] + c * move[7]) * show[4 + s];
        double z = (a * move[2] + b * move[5] + c * move[8]) * show[8 + s];
        a = x; b = y; c = z;
        while (a + b + c < 0.5) { a *= 2; b *= 2; c *= 2; --power; }
    }
    out[i] = a + b + c;
    powers[i] = power;
}
"""
)


def _run(name, grid, block, *arguments, shared=0):
    grid = grid if isinstance(grid, tuple) else (grid,)
    module.get_function(name)(grid, (block,), arguments, shared_mem=shared)


def _ints(*numbers):
    return [cupy.int32(n) for n in numbers]


def react_by_chance(start, out, used):
    _run("react_by_chance", 3, 32, start, out, used, *_ints(60, len(start)))


def torsions(atoms, quads, out):
    _run("torsions", 2, 96, atoms, quads, out, *_ints(len(quads)))


def acidity(amounts, out, halvings):
    _run("acidity", 3, 32, amounts, out, halvings, cupy.float64(1.8e-5), *_ints(len(amounts)))


def repay(loans, months, paid):
    _run("repay", 2, 48, loans, months, paid, *_ints(len(loans)))


def lot_gains(trades, gains, short_of):
    size, n, _ = trades.shape
    _run("lot_gains", 4, 32, trades, gains, short_of, *_ints(size, n))


def ring_road(cells, out, moved):
    size = cells.shape[1]
    _run("ring_road", len(cells), 64, cells, out, moved, *_ints(size, 10), shared=2 * size)


def track(measured, out):
    size, n = measured.shape
    _run("track", 3, 48, measured, out, cupy.int32(size), cupy.float64(0.7), cupy.float64(0.01), cupy.int32(n))


def romberg(factors, out, levels):
    _run("romberg", 3, 32, factors, out, levels, cupy.float64(2), *_ints(factors.size))


def adaptive(ranges, out, parts):
    _run("adaptive", 2, 48, ranges, out, parts, *_ints(len(ranges)))


def bessel(x, out):
    orders, n = out.shape
    _run("bessel", (2, orders), 64, x, out, *_ints(orders, n))


def ranked_votes(ballots, winner, rounds):
    _run("ranked_votes", winner.size, 64, ballots, winner, rounds, *_ints(ballots.shape[1]))


def hidden_states(signs, moves, shows, out, powers):
    n, size = signs.shape
    _run("hidden_states", 3, 48, signs, moves, shows, out, powers, *_ints(size, n))
