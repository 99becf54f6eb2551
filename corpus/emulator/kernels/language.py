"""What C++ has beyond loops over arrays: virtual functions, function pointers, recursion, lambdas, unions, printf."""

import cupy

module = cupy.RawModule(
    code=r"""
#include <cuda_fp16.h>

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 4; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side;
    __device__ Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};
struct Triangle : Shape {
    float base, height;
    __device__ Triangle(float b, float h) : base(b), height(h) {}
    __device__ float area() const override { return base * height / 2; }
    __device__ int corners() const override { return 3; }
};
inline __device__ void* operator new(size_t, void* place, int) { return place; }

extern "C" __global__ void virtual_functions(const float* a, float* out)
{
    alignas(16) char memory[32];
    int t = threadIdx.x;
    Shape* shape = t % 3 ? (Shape*)new (memory, 0) Square(a[t]) : (Shape*)new (memory, 0) Triangle(a[t], 3.0f);
    out[t] = shape->area() + shape->corners();
    shape->~Shape();
}

typedef int (*Step)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int less(int a, int b) { return a - b; }
__device__ __noinline__ int mixed(int a, int b) { return (a ^ b) * 3; }
__constant__ Step steps[4] = {add, times, less, mixed};
__device__ __noinline__ int fold(Step step, const int* values, int n, int start)
{
    for (int k = 0; k < n; ++k) start = step(start, values[k]);
    return start;
}

extern "C" __global__ void function_pointers(const int* a, int* out)
{
    int t = threadIdx.x, local[5];
    for (int k = 0; k < 5; ++k) local[k] = a[t * 5 + k];
    Step chosen = steps[a[t * 5] & 3];
    out[t] = fold(chosen, local, 5, t);
}

__device__ int hanoi(int n, int from, int to, int via, int* moves)
{
    if (n == 0) return 0;
    int sum = hanoi(n - 1, from, via, to, moves);
    sum += n * (3 * from + to);
    ++*moves;
    return sum + hanoi(n - 1, via, to, from, moves);
}

__device__ void quicksort(int* a, int low, int high)
{
    while (low < high) {
        int pivot = a[(low + high) / 2], i = low, j = high;
        while (i <= j) {
            while (a[i] < pivot) ++i;
            while (a[j] > pivot) --j;
            if (i <= j) { int s = a[i]; a[i++] = a[j]; a[j--] = s; }
        }
        quicksort(a, low, j);
        low = i;
    }
}

extern "C" __global__ void recursion(const int* a, int* out)
{
    int t = threadIdx.x, moves = 0, values[12];
    int sum = hanoi(a[t * 12] & 3, 0, 2, 1, &moves);
    for (int k = 0; k < 12; ++k) values[k] = a[t * 12 + k];
    quicksort(values, 0, 11);
    for (int k = 0; k < 12; ++k) out[t * 14 + k] = values[k];
    out[t * 14 + 12] = sum;
    out[t * 14 + 13] = moves;
}

template <class F, class G> __device__ auto composed(F f, G g) { return [=](auto x) { return g(f(x)); }; }
template <int N> struct Power {
    template <class T> __device__ static T of(T x) { return x * Power<N - 1>::of(x); }
};
template <> struct Power<0> {
    template <class T> __device__ static T of(T) { return T(1); }
};
template <class... T> __device__ float sum_of(T... x) { return (float(x) + ...); }

extern "C" __global__ void templates(const float* a, float* out)
{
    int t = threadIdx.x;
    float x = a[t];
    auto f = composed([x](auto y) { return y + x; }, [](auto y) { return y * 2; });
    if constexpr (sizeof(x) == 4) out[4 * t] = f(1.5f);
    out[4 * t + 1] = Power<5>::of(x);
    out[4 * t + 2] = sum_of(x, 2, 3.0, (short)t);
    out[4 * t + 3] = f(t);
}

struct Options { int first; float scale; double shift; short table[6]; bool negative; };

__device__ __noinline__ Options changed(Options o, int t)
{
    o.table[t % 6] += t;
    o.scale *= 2;
    return o;
}

extern "C" __global__ void structures(const float* a, double* out, int first, float scale, double shift)
{
    int t = threadIdx.x;
    Options o{first, scale, shift, {1, 2, 3, 4, 5, 6}, a[t] < 0};
    o = changed(changed(o, t), t + 1);
    double v = o.first + o.scale * a[t] + o.shift;
    for (short s : o.table) v += s;
    out[t] = o.negative ? -v : v;
}

union Word {
    unsigned bits;
    float number;
    unsigned char bytes[4];
    struct { unsigned low : 7, middle : 13, high : 12; };
};

extern "C" __global__ void unions(const unsigned* a, unsigned* out)
{
    Word w;
    w.bits = a[threadIdx.x];
    unsigned sum = w.bytes[0] + 256 * w.bytes[3] + w.low * 3 + w.middle * 5 + w.high * 7;
    w.middle += 77;
    w.bytes[1] ^= 0x5A;
    out[threadIdx.x] = w.bits ^ sum;
}

enum class State : unsigned char { start, number, fraction, bad };

__device__ State advance(State s, char c)
{
    switch (s) {
        case State::start: if (c == '-') return State::number; [[fallthrough]];
        case State::number: return c == '.' ? State::fraction : c >= '0' && c <= '9' ? State::number : State::bad;
        case State::fraction: return c >= '0' && c <= '9' ? State::fraction : State::bad;
        default: return State::bad;
    }
}

extern "C" __global__ void parse_numbers(const char* text, int* out)  // 8 characters a thread, ended by a space
{
    const char* c = text + 8 * threadIdx.x;
    State s = State::start;
    int value = 0, scale = 1, sign = 1;
    for (int k = 0; k < 8 && c[k] != ' '; ++k) {
        s = advance(s, c[k]);
        if (s == State::bad) break;
        if (c[k] == '-') sign = -1;
        else if (c[k] != '.') { value = value * 10 + (c[k] - '0'); if (s == State::fraction) scale *= 10; }
    }
    out[2 * threadIdx.x] = s == State::bad ? -999999 : sign * value;
    out[2 * threadIdx.x + 1] = scale;
}

extern "C" __global__ void __launch_bounds__(64, 4) asserted(const int* a, int* out)
{
    int t = threadIdx.x;
    assert(a[t] >= 0);
    if (t < 2) printf("thread %d has %d, %5.2f and %s\n", t, a[t], a[t] * 0.5, t ? "more" : "less");
    out[t] = a[t] + 1;
}

extern "C" __global__ void long_division(const unsigned* a, const unsigned* b, unsigned* out)  // 96 by 32 bits
{
    int t = threadIdx.x;
    unsigned long long rest = 0;
    unsigned divisor = b[t] | 1;
    #pragma unroll
    for (int k = 0; k < 3; ++k) {
        rest = rest << 32 | a[3 * t + k];
        out[4 * t + k] = rest / divisor;
        rest %= divisor;
    }
    out[4 * t + 3] = rest;
}

extern "C" __global__ void wide_integers(const long long* a, const long long* b, long long* out)
{
    int t = threadIdx.x;
    __int128 x = (__int128)a[t] * b[t];
    x += (__int128)a[t] << 40;
    out[2 * t] = (long long)x;
    out[2 * t + 1] = (long long)(x >> 64);
}

extern "C" __global__ void half_vectors(const __half2* a, const __half2* b, __half2* out, __half* sums)
{
    int t = threadIdx.x;
    __half2 x = __hfma2(a[t], b[t], __float2half2_rn(0.25f));
    out[t] = __hmax2(__hmin2(x, __float2half2_rn(2.0f)), __float2half2_rn(-2.0f));
    __half s = __low2half(x);
    for (int d = 16; d; d /= 2) s = __hadd(s, __shfl_xor_sync(~0u, s, d));
    if (t % 32 == 0) sums[t / 32] = s;
}
""",
    options=("-std=c++17", "--device-int128"),
)


def virtual_functions(a, out):
    module.get_function("virtual_functions")((1,), (64,), (a, out))


def function_pointers(a, out):
    module.get_function("function_pointers")((1,), (64,), (a, out))


def recursion(a, out):
    module.get_function("recursion")((1,), (32,), (a, out))


def templates(a, out):
    module.get_function("templates")((1,), (64,), (a, out))


def structures(a, out):
    scalars = cupy.int32(7), cupy.float32(1.5), cupy.float64(0.125)
    module.get_function("structures")((1,), (64,), (a, out, *scalars))


def unions(a, out):
    module.get_function("unions")((1,), (64,), (a, out))


def parse_numbers(text, out):
    module.get_function("parse_numbers")((1,), (32,), (text, out))


def asserted(a, out):
    module.get_function("asserted")((1,), (64,), (a, out))


def long_division(a, b, out):
    module.get_function("long_division")((1,), (64,), (a, b, out))


def wide_integers(a, b, out):
    module.get_function("wide_integers")((1,), (64,), (a, b, out))


def half_vectors(a, b, out, sums):
    module.get_function("half_vectors")((1,), (64,), (a, b, out, sums))
