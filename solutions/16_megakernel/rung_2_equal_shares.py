"""feed_forward, rung 2: every block has an equal share of the rows of each product.

All SMs read weights at once, 16 bytes a lane. A lane takes its eight elements of the vector from where they lie, 32
bytes from its neighbour's, so that two lanes meet in each bank.
"""

import cupy
import numpy as np

SOURCE = r"""
#include <cuda_fp16.h>

constexpr int WARPS = THREADS / 32;
enum { STOP, GATE_UP, DOWN };

struct alignas(16) Instruction {
    int op, layer;
    int first, rows;   // of hidden units for GATE_UP, of y for DOWN
    int wait, target;  // which counter must have reached what; none below 0
    int bump, unused;  // which counter says that this is done
};

struct Memory {
    const float *x, *gain;            // [width], [layer][width]
    const half *gate, *up, *down;     // [layer][hidden][width] twice, [layer][width][hidden]
    float *y, *units;                 // [width], [hidden]
    unsigned* counters;
    int width, hidden;
    float *vector, *results;          // in shared memory: [max(width, hidden)], [RESULTS]
};

// All threads of a block wait here until a counter is at its target. Whatever was written before it got there is there.
__device__ void wait_for_inputs(const Memory& m, const Instruction& in)
{
    if (threadIdx.x == 0 && in.wait >= 0) {
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(m.counters + in.wait) : "memory");
        } while (seen < in.target);
    }
    __syncthreads();
}

// All threads of a block have written what others wait for.
__device__ void tell(const Memory& m, const Instruction& in)
{
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(m.counters + in.bump) : "memory");
}

__device__ float warp_sum(float value)
{
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// What other blocks may have written in this launch is read past the L1 cache, which is not kept coherent: __ldcg.
// The product of a row with the vector: eight weights a lane at a time.
__device__ float times_vector(const Memory& m, const half* row, int length)
{
    float sum = 0;
    for (int at = 8 * (threadIdx.x % 32); at < length; at += 256) {
        uint4 eight = __ldcs((const uint4*)(row + at));
        const half2* pairs = (const half2*)&eight;
        float4 low = *(const float4*)(m.vector + at), high = *(const float4*)(m.vector + at + 4);
        float2 a = __half22float2(pairs[0]), b = __half22float2(pairs[1]);
        float2 c = __half22float2(pairs[2]), d = __half22float2(pairs[3]);
        sum += a.x * low.x + a.y * low.y + b.x * low.z + b.y * low.w;
        sum += c.x * high.x + c.y * high.y + d.x * high.z + d.y * high.w;
    }
    return warp_sum(sum);
}

// Hidden units in.first and so on of a layer: silu(gate n) * (up n), n = gain * x / sqrt(mean(x^2) + 1e-5). The stream
// is x before layer 0 and y after it.
__device__ void gate_up(const Memory& m, const Instruction& in)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs(m, in);
    const float *stream = in.layer ? m.y : m.x, *gain = m.gain + in.layer * m.width;
    float squares = 0;
    for (int i = threadIdx.x; i < m.width; i += THREADS) {
        float value = __ldcg(stream + i);
        squares += value * value;
        m.vector[i] = value * gain[i];
    }
    squares = warp_sum(squares);
    if (lane == 0) m.results[warp] = squares;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += m.results[w];
    float scale = rsqrtf(sum / m.width + 1e-5f);
    __syncthreads();  // results are free again
    long long begin = ((long long)in.layer * m.hidden + in.first) * m.width;
    for (int row = warp; row < in.rows; row += WARPS) {
        float g = scale * times_vector(m, m.gate + begin + (long long)row * m.width, m.width);
        float u = scale * times_vector(m, m.up + begin + (long long)row * m.width, m.width);
        if (lane == 0) m.results[row] = g / (1 + __expf(-g)) * u;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < in.rows; i += THREADS) m.units[in.first + i] = m.results[i];
}

// Elements in.first and so on of the stream, of which a product with all hidden units is added.
__device__ void down(const Memory& m, const Instruction& in)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_inputs(m, in);
    for (int i = threadIdx.x; i < m.hidden; i += THREADS) m.vector[i] = __ldcg(m.units + i);
    __syncthreads();
    const half* rows = m.down + ((long long)in.layer * m.width + in.first) * m.hidden;
    for (int row = warp; row < in.rows; row += WARPS) {
        float sum = times_vector(m, rows + (long long)row * m.hidden, m.hidden);
        if (lane == 0) m.results[row] = sum;
    }
    __syncthreads();
    const float* stream = in.layer ? m.y : m.x;
    for (int i = threadIdx.x; i < in.rows; i += THREADS)
        m.y[in.first + i] = __ldcg(stream + in.first + i) + m.results[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
interpreter(const Instruction* lists, int length, const float* x, const float* gain, const half* gate, const half* up,
            const half* down_weights, float* y, float* units, unsigned* counters, int width, int hidden)
{
    extern __shared__ float4 shared[];
    float *vector = (float*)shared, *results = vector + max(width, hidden);
    Memory m = {x, gain, gate, up, down_weights, y, units, counters, width, hidden, vector, results};
    __shared__ alignas(16) int words[8];
    for (int n = 0; n < length; ++n) {
        if (threadIdx.x < 8) words[threadIdx.x] = ((const int*)(lists + blockIdx.x * length + n))[threadIdx.x];
        __syncthreads();
        Instruction in = *(const Instruction*)words;
        if (in.op == STOP) return;
        if (in.op == GATE_UP) gate_up(m, in);
        else down(m, in);
        tell(m, in);
    }
}
"""
THREADS = 512
RESULTS = 128  # rows of an instruction, at most
BLOCKS = 132  # an H100 SXM or H200 has so many SMs, a place for each
STOP, GATE_UP, DOWN = range(3)


def schedule(layers, width, hidden):
    """Part 1: for each block the list of its lines, (op, layer, first, rows, wait, target, bump, 0), in order."""
    blocks = min(BLOCKS, max(1, hidden // 8))
    lists = [[] for _ in range(blocks)]
    before = 0  # lines of the operation before, which the next one needs all of
    for number in range(2 * layers):
        op, rows = (GATE_UP, hidden) if number % 2 == 0 else (DOWN, width)
        share = max(8, -(-rows // blocks) + 3 & ~3)  # a sector of results or more
        wait = (number - 1, before) if number else (-1, 0)
        before = 0
        for block, start in enumerate(range(0, rows, share)):
            for first in range(start, min(start + share, rows), RESULTS):
                taken = min(RESULTS, start + share - first, rows - first)
                lists[block].append((op, number // 2, first, taken, *wait, number, 0))
                before += 1
    return lists


def feed_forward(x, gain, gate, up, down, y):
    """y is x after all layers (README.md). Widths are multiples of 8."""
    layers, hidden, width = gate.shape
    lists = schedule(layers, width, hidden)
    length = max(map(len, lists)) + 1
    words = np.zeros((len(lists), length, 8), np.int32)  # what is not written is STOP
    for block, instructions in enumerate(lists):
        for line, instruction in enumerate(instructions):
            words[block, line] = instruction
    options = ("-std=c++17", f"-DTHREADS={THREADS}")
    module = cupy.RawModule(code=SOURCE, options=options, enable_cooperative_groups=True)
    interpreter = module.get_function("interpreter")
    shared = 4 * (max(width, hidden) + RESULTS)
    interpreter.max_dynamic_shared_size_bytes = shared
    units = cupy.empty(hidden, np.float32)
    counters = cupy.zeros(2 * layers, np.uint32)
    arguments = (cupy.asarray(words), np.int32(length), x, gain, gate, up, down, y, units, counters)
    interpreter((len(lists),), (THREADS,), (*arguments, np.int32(width), np.int32(hidden)), shared_mem=shared)
