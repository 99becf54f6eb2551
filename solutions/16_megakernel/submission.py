"""Lab 16_megakernel: the feed-forward halves of three layers, by an interpreter, its schedule and two instructions."""

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
// BEGIN SOLUTION
// The first four of each eight elements lie in the first half of the vector, so that lanes read neighbouring words.
__device__ int place(int i, int length) { return i % 8 / 4 * (length / 2) + i / 8 * 4 + i % 4; }

__device__ uint4 eight(const half* row, int at, int length)
{
    return at < length ? __ldcs((const uint4*)(row + at)) : make_uint4(0, 0, 0, 0);
}

// The product of a row with the vector: eight weights a lane at a time, more of them on their way. `ahead` are the
// first ones, which were asked for before the vector was there.
__device__ float times_vector(const Memory& m, const half* row, int length, const uint4 (&ahead)[2])
{
    int lane = threadIdx.x % 32;
    float sums[4] = {0, 0, 0, 0};
    uint4 now[2] = {ahead[0], ahead[1]};
    for (int at = 8 * lane; at < length; at += 512) {
        uint4 next[2] = {eight(row, at + 512, length), eight(row, at + 768, length)};
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            int from = at + 256 * part;
            if (from < length) {
                const half2* pairs = (const half2*)&now[part];
                float4 low = *(const float4*)(m.vector + from / 2);
                float4 high = *(const float4*)(m.vector + (length + from) / 2);
                float2 a = __half22float2(pairs[0]), b = __half22float2(pairs[1]);
                float2 c = __half22float2(pairs[2]), d = __half22float2(pairs[3]);
                sums[0] += a.x * low.x + c.x * high.x;
                sums[1] += a.y * low.y + c.y * high.y;
                sums[2] += b.x * low.z + d.x * high.z;
                sums[3] += b.y * low.w + d.y * high.w;
            }
            now[part] = next[part];
        }
    }
    return warp_sum(sums[0] + sums[1] + (sums[2] + sums[3]));
}

__device__ void ask(uint4 (&ahead)[2], const half* row, int length, bool there)
{
    int at = 8 * (threadIdx.x % 32);
    ahead[0] = eight(row, at, there ? length : 0);
    ahead[1] = eight(row, at + 256, there ? length : 0);
}
// END SOLUTION

// Hidden units in.first and so on of a layer: silu(gate n) * (up n), n = gain * x / sqrt(mean(x^2) + 1e-5). The stream
// is x before layer 0 and y after it.
__device__ void gate_up(const Memory& m, const Instruction& in)
{
    // BEGIN SOLUTION
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    long long begin = ((long long)in.layer * m.hidden + in.first) * m.width;
    const half *gate = m.gate + begin, *up = m.up + begin;
    uint4 of_gate[2], of_up[2];
    ask(of_gate, gate + (long long)warp * m.width, m.width, warp < in.rows);  // weights depend on nobody
    ask(of_up, up + (long long)warp * m.width, m.width, warp < in.rows);
    wait_for_inputs(m, in);
    const float *stream = in.layer ? m.y : m.x, *gain = m.gain + in.layer * m.width;
    float squares = 0;
    for (int i = threadIdx.x; i < m.width; i += THREADS) {
        float value = __ldcg(stream + i);
        squares += value * value;
        m.vector[place(i, m.width)] = value * gain[i];
    }
    squares = warp_sum(squares);
    if (lane == 0) m.results[warp] = squares;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += m.results[w];
    float scale = rsqrtf(sum / m.width + 1e-5f);
    __syncthreads();  // results are free again
    for (int row = warp; row < in.rows; row += WARPS) {
        float g = scale * times_vector(m, gate + (long long)row * m.width, m.width, of_gate);
        float u = scale * times_vector(m, up + (long long)row * m.width, m.width, of_up);
        ask(of_gate, gate + (long long)(row + WARPS) * m.width, m.width, row + WARPS < in.rows);
        ask(of_up, up + (long long)(row + WARPS) * m.width, m.width, row + WARPS < in.rows);
        if (lane == 0) m.results[row] = g / (1 + __expf(-g)) * u;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < in.rows; i += THREADS) m.units[in.first + i] = m.results[i];
    // END SOLUTION
}

// Elements in.first and so on of the stream, of which a product with all hidden units is added.
__device__ void down(const Memory& m, const Instruction& in)
{
    // BEGIN SOLUTION
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const half* rows = m.down + ((long long)in.layer * m.width + in.first) * m.hidden;
    uint4 ahead[2];
    ask(ahead, rows + (long long)warp * m.hidden, m.hidden, warp < in.rows);
    wait_for_inputs(m, in);
    for (int i = threadIdx.x; i < m.hidden; i += THREADS) m.vector[place(i, m.hidden)] = __ldcg(m.units + i);
    __syncthreads();
    for (int row = warp; row < in.rows; row += WARPS) {
        float sum = times_vector(m, rows + (long long)row * m.hidden, m.hidden, ahead);
        ask(ahead, rows + (long long)(row + WARPS) * m.hidden, m.hidden, row + WARPS < in.rows);
        if (lane == 0) m.results[row] = sum;
    }
    __syncthreads();
    const float* stream = in.layer ? m.y : m.x;
    for (int i = threadIdx.x; i < in.rows; i += THREADS)
        m.y[in.first + i] = __ldcg(stream + in.first + i) + m.results[i];
    // END SOLUTION
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
    # BEGIN SOLUTION
    # STARTER: return [[]]
    blocks = min(BLOCKS, max(1, hidden // 8))
    lists = [[] for _ in range(blocks)]
    loads = [0] * blocks  # weights that a block has read when all that it has is done
    before = 0  # instructions of the operation before, which the next one needs all of
    for number in range(2 * layers):
        layer, op = number // 2, GATE_UP if number % 2 == 0 else DOWN
        rows, cost = (hidden, 2 * width) if op == GATE_UP else (width, hidden)
        shares = [0] * blocks
        for _ in range(rows // 4):  # four rows are a sector of results or, of hidden units, half of one
            block = min(range(blocks), key=loads.__getitem__)
            shares[block] += 4
            loads[block] += 4 * cost
        first = instructions = 0
        for block, share in enumerate(shares):
            for start in range(0, share, RESULTS):
                taken = min(RESULTS, share - start)
                wait = (number - 1, before) if number else (-1, 0)
                lists[block].append((op, layer, first, taken, *wait, number, 0))
                first += taken
                instructions += 1
        before = instructions
    return lists
    # END SOLUTION


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
