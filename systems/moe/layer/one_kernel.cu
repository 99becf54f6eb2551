// The layer in one kernel (one_kernel.py): what brings data, what multiplies it. one_kernel_work.cuh comes first.

// One thread: all weights of this block, one stage after the other. It waits for room, and for earlier stages when enough
// of them are on their way: a fence waits for all that its SM has asked memory for.
__device__ void bring_weights(Weights ring, const Routing& routing, const Map& up, const Map& down)
{
    Work work(routing);
    Job job;
    Weights come = ring;  // the stage that is waited for
    int on_their_way = 0;
    while (work.find(job)) {
        int blocks = job.end - job.block;
        for (int stage = 0; stage < job.tiles * blocks; ++stage) {
            int block = job.block + stage % blocks, column = job.column + stage / blocks * 64;
            wait(ring.empty_barrier(), ring.phase ^ 1);
            if (on_their_way == W_IN_FLIGHT) {
                wait(come.full_barrier(), come.phase);
                come.advance();
            } else {
                ++on_their_way;
            }
            arrive_expecting(ring.full_barrier(), W_BYTES);
            if (job.down)
                load_down(down, ring.at(), ring.full_barrier(), block * 128, job.expert * D + column);
            else
                load_up(up, ring.at(), ring.full_barrier(), block * 128, column / 8, job.expert);
            ring.advance();
        }
    }
}

// What all blocks share. `arrived` counts blocks that have quantised their tokens, `done` finished jobs of an expert's
// first product, `left` blocks that have ended: the last one leaves all at zero for the next launch.
struct Counters {
    int arrived, left, done[32];
};

// Activations as tensor cores want them: for each 128 of k rows of 128 codes, pieces of 16 bytes exchanged within
// eight rows; scales for each 64 of k.
struct Activations {
    unsigned char* codes;
    float* scales;
    int slots;  // that there is room for

    __device__ unsigned char* piece(int block, int slot, int byte) const
    {
        return codes + ((long long)block * slots + slot) * 128 + ((byte / 16 ^ slot % 8) * 16 + byte % 16);
    }
    __device__ float* scale(int block, int half, int slot) const
    {
        return scales + (long long)(2 * block + half) * slots + slot;
    }
};

// One thread: the rows that each stage of weights is multiplied with, once they are there.
__device__ void bring_rows(Rows ring, const Routing& routing, Activations x, Activations a, const Counters* counters)
{
    Work work(routing);
    Job job;
    int complete = -1;  // the last expert whose first product is known to be there
    if (PART == 0) wait_until(&counters->arrived, gridDim.x);
    show_to_copies();
    while (work.find(job)) {
        if (PART == 0 && job.down && complete != job.expert) {
            complete = job.expert;
            wait_until(&counters->done[job.expert], routing.tall(job.expert) * UP_JOBS);
            show_to_copies();
        }
        Activations from = job.down ? a : x;
        u32 rows = (job.rows + 7) / 8 * 8;
        int blocks = job.end - job.block;
        for (int stage = 0; stage < job.tiles * blocks; ++stage) {
            int block = job.block + stage % blocks;
            wait(ring.empty_barrier(), ring.phase ^ 1);
            arrive_expecting(ring.full_barrier(), rows * (128 + 2 * 4));
            load_line(from.codes + ((long long)block * from.slots + job.slot) * 128, ring.at(), ring.full_barrier(),
                      rows * 128);
            for (int half = 0; half < 2; ++half)
                load_line(from.scale(block, half, job.slot), ring.at() + CODES + half * MOST_N * 4,
                          ring.full_barrier(), rows * 4);
            ring.advance();
        }
    }
}

// ---- Quantising: lab 09's rule -------------------------------------------------------------------------------------

// Exponent field of the smallest power of two of which the largest magnitude is at most 448.
__device__ int scale_field(float largest)
{
    return largest > 0 ? max(((__float_as_int(largest) + 0x1FFFFF) >> 23) - 8, 1) : 127;
}
__device__ float power(int field) { return __int_as_float(field << 23); }
__device__ u32 pair_of_codes(float low, float high)
{
    unsigned short codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}

// All consumers of all blocks: every token's row into the slots of its experts, and zeros for results. A warp takes
// 128 of k of a token at a time, and has four of them on their way.
__device__ void quantise(const Routing& routing, Activations x, const __half* tokens_of_x, float* out, int tokens)
{
    int warp = (threadIdx.x - 128) / 32, lane = threadIdx.x % 32, all = gridDim.x * (CONSUMERS / 32);
    int first = warp * gridDim.x + blockIdx.x, tasks = tokens * UP_BLOCKS;
    constexpr int SOME = 4;
    for (int group = first; group < tasks; group += SOME * all) {
        uint2 raw[SOME];
#pragma unroll
        for (int i = 0; i < SOME; ++i) {
            int task = group + i * all, token = task / UP_BLOCKS, block = task % UP_BLOCKS;
            if (task < tasks)
                raw[i] = *(const uint2*)(tokens_of_x + (long long)token * D + block * 128 + lane * 4);
        }
#pragma unroll
        for (int i = 0; i < SOME; ++i) {
            int task = group + i * all, token = task / UP_BLOCKS, block = task % UP_BLOCKS;
            if (task >= tasks) break;
            float2 low = __half22float2(*(__half2*)&raw[i].x), high = __half22float2(*(__half2*)&raw[i].y);
            float largest = fmaxf(fmaxf(fabsf(low.x), fabsf(low.y)), fmaxf(fabsf(high.x), fabsf(high.y)));
            int field = scale_field(__uint_as_float(__reduce_max_sync(ALL, __float_as_uint(largest))));
            float inverse = power(254 - field);
            u32 codes = pair_of_codes(low.x * inverse, low.y * inverse) |
                        pair_of_codes(high.x * inverse, high.y * inverse) << 16;
            for (u32 rest = routing.chosen[token]; rest; rest &= rest - 1) {
                int slot = routing.slot(token, __ffs(rest) - 1);
                *(u32*)x.piece(block, slot, lane * 4) = codes;
                if (lane < 2) *x.scale(block, lane, slot) = power(field);
            }
            ((float4*)(out + (long long)token * D + block * 128))[lane] = make_float4(0, 0, 0, 0);
        }
    }
    for (int task = first; task < E * UP_BLOCKS; task += all) {  // rows of nobody, to the next multiple of eight
        int e = task / UP_BLOCKS, block = task % UP_BLOCKS, count = routing.count[e];
        for (int row = count; row % 8; ++row) {
            *(u32*)x.piece(block, routing.first[e] + row, lane * 4) = 0;
            if (lane < 2) *x.scale(block, lane, routing.first[e] + row) = 1;
        }
    }
}

// ---- Products ------------------------------------------------------------------------------------------------------

// Where wgmma finds a matrix of 128-byte swizzled lines: address, and in the upper half, which all share, 1,024 bytes
// from eight lines to the next eight.
constexpr u64 SWIZZLED = 64ull << 32 | 1ull << 62;
__device__ u32 descriptor(u32 address) { return address >> 4 | 1 << 16; }

// A stage of both rings that has come, and the scales of its weights for a thread's upper and lower row.
struct Stage {
    u32 weights, rows;  // descriptors' lower halves
    u32 weights_empty, rows_empty, scales;
    float upper, lower;
};

// The stages of a job, one after the other. Scales of weights are read a stage early.
struct Stages {
    Weights& weights;
    Rows& rows;
    const float *upper, *lower;  // of the next stage
    int left;                    // stages from it on
    float next_upper, next_lower;

    __device__ Stages(Weights& weights, Rows& rows, const Job& job, const float* upper, const float* lower)
        : weights(weights), rows(rows), upper(upper + job.block), lower(lower + job.block), left(job.end - job.block)
    {
        next_upper = __ldg(this->upper), next_lower = __ldg(this->lower);
    }
    __device__ Stage take()
    {
        Stage stage;
        stage.upper = next_upper, stage.lower = next_lower;
        if (--left) next_upper = __ldg(++upper), next_lower = __ldg(++lower);
        wait(weights.full_barrier(), weights.phase);
        wait(rows.full_barrier(), rows.phase);
        stage.weights = descriptor(weights.at() + (threadIdx.x / 128 - 1) * 64 * 128), stage.rows = descriptor(rows.at());
        stage.weights_empty = weights.empty_barrier(), stage.rows_empty = rows.empty_barrier();
        stage.scales = rows.at() + CODES + threadIdx.x % 4 * 8;
        weights.advance(), rows.advance();
        return stage;
    }
};
__device__ float2 read_shared(u32 at)
{
    float2 r;
    asm("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(at) : "memory");
    return r;
}
__device__ void hand_back(u32 barrier)  // a warp knows of its own products only, so each does for itself
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(barrier);
}

// Queue d = weights x rows for 32 of k times `products`, from number `first` on; 32 of k are 2 in a descriptor.
template <int SUMS> __device__ void queue(float (&d)[SUMS], const Stage& stage, int first = 0, int products = 4)
{
    products_begin();
#pragma unroll
    for (int i = first; i < first + products; ++i)
        multiply(d, SWIZZLED | (stage.weights + 2 * i), SWIZZLED | (stage.rows + 2 * i), i > first);
    products_commit();
}

// sums += d times the scales of half a stage's k. d[4 j] and d[4 j + 1] are of row lane / 4 of a warp's 16 rows of
// weights, the next two of the row eight below; of activations they are of rows 8 j + lane % 4 * 2 and the next one.
template <int SUMS>
__device__ void promote(float (&sums)[SUMS], const float (&d)[SUMS], const Stage& stage, int half = 0)
{
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
        float2 scale = read_shared(stage.scales + 4 * (half * MOST_N + 8 * j));
        sums[4 * j] += d[4 * j] * (scale.x * stage.upper);
        sums[4 * j + 1] += d[4 * j + 1] * (scale.y * stage.upper);
        sums[4 * j + 2] += d[4 * j + 2] * (scale.x * stage.lower);
        sums[4 * j + 3] += d[4 * j + 3] * (scale.y * stage.lower);
    }
}

// A thread's sums of a tile whose rows have one scale for a stage. While one stage's products are promoted, the tensor
// cores have the next one's. No products are on their way where a loop begins again: the assembler would not let them be.
template <int SUMS> __device__ void sum_up(float (&sums)[SUMS], Stages stages)
{
    float d[SUMS], e[SUMS];
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    Stage even = stages.take(), odd;
    queue(d, even);
    products_wait();
    hand_back(even.weights_empty);
    while (stages.left >= 2) {
        odd = stages.take();
        queue(e, odd);
        promote(sums, d, even);
        hand_back(even.rows_empty);
        products_wait();
        hand_back(odd.weights_empty);
        even = stages.take();
        queue(d, even);
        promote(sums, e, odd);
        hand_back(odd.rows_empty);
        products_wait();
        hand_back(even.weights_empty);
    }
    if (stages.left) {
        odd = stages.take();
        queue(e, odd);
        promote(sums, d, even);
        hand_back(even.rows_empty);
        products_wait();
        hand_back(odd.weights_empty);
        promote(sums, e, odd);
        hand_back(odd.rows_empty);
    } else {
        promote(sums, d, even);
        hand_back(even.rows_empty);
    }
}

// The same with rows that have two scales for a stage.
template <int SUMS> __device__ void sum_up_halves(float (&sums)[SUMS], Stages stages)
{
    float d[SUMS], e[SUMS];
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    Stage now = stages.take();
    queue(d, now, 0, 2);
    products_wait();
    for (;;) {
        queue(e, now, 2, 2);
        promote(sums, d, now, 0);
        products_wait();
        hand_back(now.weights_empty);
        if (stages.left == 0) break;
        Stage next = stages.take();
        queue(d, next, 0, 2);
        promote(sums, e, now, 1);
        hand_back(now.rows_empty);
        products_wait();
        now = next;
    }
    promote(sums, e, now, 1);
    hand_back(now.rows_empty);
}

// SwiGLU of a tile of the first product, and into `largest` the greatest magnitude of each row in each warp: of both
// tiles if it is the second of a pair.
template <int SUMS>
__device__ void activate(const float (&sums)[SUMS], float (&values)[SUMS / 2], bool second, float (*largest)[MOST_N])
{
    int warp = (threadIdx.x - 128) / 32, lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float gate = sums[4 * j + i], value = __fdividef(gate, 1 + __expf(-gate)) * sums[4 * j + 2 + i];
            float most = fabsf(value), *place = &largest[warp][8 * j + pair + i];
            values[2 * j + i] = value;
#pragma unroll
            for (int step = 4; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, step));
            if (row == 0) *place = second ? fmaxf(*place, most) : most;
        }
    }
}

// Codes of e4m3 of those values, with a scale for each row's columns of the job; of a pair's first tile they were kept.
template <int VALUES>
__device__ void store_activations(const float (&values)[VALUES], const float (*kept)[CONSUMERS], const Job& job,
                                  Activations a, float (*largest)[MOST_N])
{
    int warp = (threadIdx.x - 128) / 32, lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
    int block = job.column / 128, first = job.column / 64 % 2, rows = (job.rows + 7) / 8 * 8;
#pragma unroll
    for (int j = 0; j < VALUES / 2; ++j) {
        if (8 * j >= rows) break;
        int fields[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float most = 0;
#pragma unroll
            for (int w = 0; w < CONSUMERS / 32; ++w) most = fmaxf(most, largest[w][8 * j + pair + i]);
            fields[i] = scale_field(most);
        }
#pragma unroll
        for (int tile = 0; tile < IN_PAIR; ++tile) {
            u32 words[2];
            int half = first + tile;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float value = tile + 1 < IN_PAIR ? kept[2 * j + i][threadIdx.x - 128] : values[2 * j + i];
                u32 word = pair_of_codes(value * power(254 - fields[i]), 0) << row % 4 * 8;
                word |= __shfl_xor_sync(ALL, word, 4);
                words[i] = word | __shfl_xor_sync(ALL, word, 8);
                if (warp == 0 && row == 0) *a.scale(block, half, job.slot + 8 * j + pair + i) = power(fields[i]);
            }
            if (row % 4 < 2) {  // four columns are in a word: one lane stores it for one row, one for the other
                int slot = job.slot + 8 * j + pair + row % 4;
                *(u32*)a.piece(block, slot, half * 64 + warp * 8 + row / 4 * 4) = row % 4 ? words[1] : words[0];
            }
        }
    }
}

// Results of the second product, added to their tokens.
template <int SUMS>
__device__ void combine(const float (&sums)[SUMS], const Job& job, const Routing& routing, float* out)
{
    int lane = threadIdx.x % 32, column = job.column + (threadIdx.x - 128) / 32 * 16 + lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = 8 * j + pair + i;
            if (row < job.rows) {
                int choice = routing.choice[job.slot + row];
                float share = routing.share[choice], *to = out + (long long)(choice / K) * D + column;
                add(to, share * sums[4 * j + i]);
                add(to + 8, share * sums[4 * j + 2 + i]);
            }
        }
    }
}

struct Consumer {
    Weights weights;
    Rows rows;
    const Routing& routing;
    const float *up_scale, *down_scale;
    Activations a;
    float* out;
    Counters* counters;
    float (*largest)[MOST_N];
    float (*kept)[CONSUMERS];

    template <int N> __device__ void carry_out(const Job& job)
    {
        float sums[N / 2], values[N / 4];
        const float* scales = job.down ? down_scale + (job.expert * PANELS + job.column / 128) * DOWN_BLOCKS
                                       : up_scale + (job.expert * 2 * DOWN_BLOCKS + job.column / 128) * UP_BLOCKS;
        int to_lower = job.down ? 0 : DOWN_BLOCKS * UP_BLOCKS;  // from a gate's scales to its value's
#pragma unroll 1
        for (int tile = 0; tile < job.tiles; ++tile) {
            Stages stages(weights, rows, job, scales, scales + to_lower);
            if (IN_PAIR == 1 && job.down) sum_up_halves(sums, stages);
            else sum_up(sums, stages);
            if (job.down) break;
            activate(sums, values, tile > 0, largest);
            if (tile + 1 == IN_PAIR) break;
#pragma unroll
            for (int i = 0; i < N / 4; ++i) kept[i][threadIdx.x - 128] = values[i];
        }
        if (job.down) {
            combine(sums, job, routing, out);
            return;
        }
        meet();
        store_activations(values, kept, job, a, largest);
        show_to_copies();
        meet();
        if (PART == 0 && threadIdx.x == 128) tell(&counters->done[job.expert]);
    }
    __device__ void work()
    {
        Work work(routing);
        Job job;
        while (work.find(job)) {
            if (job.rows <= 8) carry_out<8>(job);
            else if (MOST_N == 16 || job.rows <= 16) carry_out<16>(job);
            else if (MOST_N == 32 || job.rows <= 32) carry_out<MOST_N < 32 ? MOST_N : 32>(job);
            else if (MOST_N == 64 || job.rows <= 64) carry_out<MOST_N < 64 ? MOST_N : 64>(job);
            else carry_out<MOST_N>(job);
        }
    }
};

extern "C" __global__ void __launch_bounds__(384, 1)
moe_layer(const __grid_constant__ Map up, const __grid_constant__ Map down, const __half* x, const float* scores,
          const float* up_scale, const float* down_scale, unsigned char* x8, float* x_scale, unsigned char* a8,
          float* a_scale, float* out, Counters* counters, int tokens, int slots)
{
    extern __shared__ char raw[];
    __shared__ Routing routing;
    __shared__ float largest[CONSUMERS / 32][MOST_N];
    __shared__ float kept[IN_PAIR == 1 ? 1 : MOST_N / 4][CONSUMERS];  // of a pair's first tile: in registers they spill
    __shared__ u64 of_weights[2 * W_STAGES], of_rows[2 * X_STAGES];
    u32 begin = (shared_address(raw) + 1023) & ~1023u;
    Weights weights(begin, of_weights);
    Rows rows(begin + W_STAGES * W_BYTES, of_rows);
    // X_BYTES is a multiple of 1,024, so that every stage begins at one. What no copy fills must not be undefined.
    for (u32 i = threadIdx.x; i < X_STAGES * X_BYTES / 16; i += THREADS)
        ((uint4*)__cvta_shared_to_generic(rows.data))[i] = make_uint4(0, 0, 0, 0);
    show_to_copies();
    if (threadIdx.x == 0) {
        fetch_map(up);
        fetch_map(down);
        weights.init_barriers();
        rows.init_barriers();
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    route(routing, scores, tokens);

    Activations of_x = {x8, x_scale, slots}, of_a = {a8, a_scale, slots};
    if (PART == 1) {
        if (threadIdx.x >= 128) quantise(routing, of_x, x, out, tokens);
        return;
    }
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        if (threadIdx.x == 0) bring_weights(weights, routing, up, down);
        if (threadIdx.x == 32) bring_rows(rows, routing, of_x, of_a, counters);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    if (PART == 0) {
        quantise(routing, of_x, x, out, tokens);
        show_to_copies();
        meet();
        if (threadIdx.x == 128) tell(&counters->arrived);
    }
    Consumer consumer = {weights, rows, routing, up_scale, down_scale, of_a, out, counters, largest, kept};
    consumer.work();
    if (PART != 0) return;
    meet();
    if (threadIdx.x == 128) {
        __threadfence();
        if (atomicAdd(&counters->left, 1) == gridDim.x - 1) {  // nobody waits any more
            __threadfence();
            counters->arrived = counters->left = 0;
            for (int e = 0; e < 32; ++e) counters->done[e] = 0;
        }
    }
}
