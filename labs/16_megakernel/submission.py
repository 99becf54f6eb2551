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

// Hidden units in.first and so on of a layer: silu(gate n) * (up n), n = gain * x / sqrt(mean(x^2) + 1e-5). The stream
// is x before layer 0 and y after it.
__device__ void gate_up(const Memory& m, const Instruction& in)
{
}

// Elements in.first and so on of the stream, of which a product with all hidden units is added.
__device__ void down(const Memory& m, const Instruction& in)
{
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
    return [[]]


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
