// The chain's products (wide.py): what waits, multiplies and stores. wide_tile.cuh comes first.

// Everything that a consumer needs of its block.
struct Block {
    u32 base, full, empty, out, stage, phase;
    int consumer, warp, lane;
};
__device__ void advance(u32& stage, u32& phase)
{
    if (++stage == STAGES) {
        stage = 0;
        phase ^= 1;
    }
}

#if SWIGLU
// Exponent field of the smallest power of two of which the largest magnitude is at most 448 (lab 09).
__device__ int scale_field(float largest)
{
    return largest > 0 ? max(((__float_as_int(largest) + 0x1FFFFF) >> 23) - 8, 1) : 127;
}
__device__ u32 pair_of_codes(float low, float high)
{
    unsigned short codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}
// Subnormal powers are zeros: one is added to them.
__device__ float swiglu_of(float gate, float value)
{
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(gate * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1 + power));
    return gate * inverse * value;
}

// The tile's 128 columns of SwiGLU's results as codes with a scale for each row, of which four lanes have a quarter
// each: two of every eight columns. They pass pieces on, so that each has 32 columns side by side.
__device__ void finish(float (&sums)[SUMS], const Block& b, const Tile& tile, unsigned char* a8, float* a_scale, int f,
                       int rows)
{
    int c = b.lane % 4;
    #pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
        float a[32], largest = 0;
        #pragma unroll
        for (int q = 0; q < 16; ++q)
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                a[2 * q + i] = swiglu_of(sums[8 * q + 2 * lower + i], sums[8 * q + 4 + 2 * lower + i]);
                largest = fmaxf(largest, fabsf(a[2 * q + i]));
            }
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, 2));
        int field = scale_field(largest), row = tile.row + b.consumer * 64 + b.warp * 16 + lower * 8 + b.lane / 4;
        float inverse = __int_as_float((254 - field) << 23);
        u32 pairs[8];  // of eights 2i and 2i + 1, a pair of codes each
        #pragma unroll
        for (int i = 0; i < 8; ++i)
            pairs[i] = pair_of_codes(a[4 * i] * inverse, a[4 * i + 1] * inverse)
                       | pair_of_codes(a[4 * i + 2] * inverse, a[4 * i + 3] * inverse) << 16;
        // A lane's words 2c and 2c + 1 are what lane c needs of it: lanes whose numbers differ by one, then by two,
        // trade one of two words. In the end words 2c and 2c + 1 are from lane c.
        #pragma unroll
        for (int r = 1; r < 4; r *= 2)
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (i & 2 * r) continue;
                u32 low = pairs[i], high = pairs[i + 2 * r], got = __shfl_xor_sync(ALL, c & r ? low : high, r);
                pairs[i] = c & r ? got : low, pairs[i + 2 * r] = c & r ? high : got;
            }
        if (row >= tile.end) continue;
        u32 words[8];
        #pragma unroll
        for (int eight = 0; eight < 4; ++eight)
            #pragma unroll
            for (int h = 0; h < 2; ++h)
                words[2 * eight + h] = __byte_perm(pairs[4 * h + eight / 2], pairs[4 * h + 2 + eight / 2],
                                                   eight % 2 ? 0x7632 : 0x5410);
        uint4* to = (uint4*)(a8 + (u64)row * f + tile.column / 2 + 32 * c);
        to[0] = make_uint4(words[0], words[1], words[2], words[3]);
        to[1] = make_uint4(words[4], words[5], words[6], words[7]);
        if (c == 0) a_scale[(u64)(tile.column / WIDTH) * rows + row] = __int_as_float(field << 23);
    }
}

// Rows of `rest`: each of the cluster's 16 warps has eight columns of SwiGLU's results of every row, and tells both
// blocks the largest. `told` is the barrier at which they arrive, `told_phase` the number of times they did. Two lines
// of numbers are enough: who writes the next but one has seen that all have read.
__device__ void finish_rest(const float (&rest_sums)[8], const Block& b, const Tile& tile, u32 rank, u32 told,
                            u32& told_phase, unsigned char* a8, float* a_scale, int f, int rows)
{
    __shared__ alignas(16) float largest_of[2][REST][16];
    u32 parity = told_phase & 1;
    int c = b.lane % 4, of_warp = rank * 8 + b.consumer * 4 + b.warp;
    float a[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        a[i] = swiglu_of(rest_sums[i / 2 * 4 + i % 2], rest_sums[i / 2 * 4 + 2 + i % 2]);
        float largest = fabsf(a[i]);
        #pragma unroll
        for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, step));
        u32 place = shared_address(&largest_of[parity][i / 2 * 8 + c * 2 + i % 2][of_warp]);
        if (b.lane < 8) store_at(place, b.lane / 4, largest);  // four lanes tell the first block, four the second
    }
    __syncwarp();
    if (b.lane < 2) release_at(told, b.lane);
    acquire(told, parity);
    ++told_phase;
    int column = tile.column / 2 + of_warp * 8 + b.lane / 4;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        int number = i / 2 * 8 + c * 2 + i % 2, row = tile.rest + number;
        float largest = 0;
        #pragma unroll
        for (int w = 0; w < 16; w += 4) {
            float4 four = *(const float4*)&largest_of[parity][number][w];
            largest = fmaxf(largest, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
        }
        if (row >= tile.end) continue;
        int field = scale_field(largest);
        a8[(u64)row * f + column] = (unsigned char)pair_of_codes(a[i] * __int_as_float((254 - field) << 23), 0);
        if (of_warp == 0 && b.lane < 4) a_scale[(u64)(tile.column / WIDTH) * rows + row] = __int_as_float(field << 23);
    }
}
#else
// A consumer's 64 rows of y, through shared memory in boxes of 64 columns: a warp stores one of them by a tensor copy,
// or, where the expert ends, those of its 16 rows that are the expert's.
__device__ void finish(float (&sums)[SUMS], const Block& b, const Tile& tile, const Map& map_y, half* y, int n)
{
    constexpr int BOX_BYTES = 64 * 128;
    u32 out = b.out + b.consumer * (WIDTH / 64) * BOX_BYTES, of_warp = out + b.warp * 16 * 128;
    int top = tile.row + b.consumer * 64;
    if (elected()) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // the last tile's are stored
    meet_in_group(b.consumer);
    #pragma unroll
    for (int part = 0; part < WIDTH / 16; ++part) {
        const float* s = sums + 8 * part;
        int row = b.lane % 16, piece = (part % 4 * 2 + b.lane / 16) ^ (row % 8);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(of_warp + part / 4 * BOX_BYTES + row * 128 + piece * 16), "r"(pack(s[0], s[1])),
                        "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
    }
    if (top + 64 <= tile.end) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet_in_group(b.consumer);
        if (elected()) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                         :: "l"(&map_y), "r"(tile.column + 64 * b.warp), "r"(top), "r"(out + b.warp * BOX_BYTES)
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        __syncwarp();
        return;
    }
    __syncwarp();
    for (int i = b.lane / 8; i < 16; i += 4) {
        int row = top + b.warp * 16 + i;
        if (row >= tile.end) break;
        #pragma unroll
        for (int box = 0; box < WIDTH / 64; ++box) {
            int column = tile.column + 64 * box + b.lane % 8 * 8;
            if (column >= n) break;
            uint4 v;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "r"(of_warp + box * BOX_BYTES + i * 128 + ((b.lane % 8) ^ (i % 8)) * 16) : "memory");
            *(uint4*)(y + (u64)row * n + column) = v;
        }
    }
}

// Rows of `rest`: each of the cluster's 16 warps has 16 columns of them.
__device__ void finish_rest(const float (&rest_sums)[8], const Block& b, const Tile& tile, u32 rank, half* y, int n)
{
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int row = tile.rest + i / 4 * 8 + b.lane % 4 * 2 + i % 2;
        int column = tile.column + (rank * 8 + b.consumer * 4 + b.warp) * 16 + i / 2 % 2 * 8 + b.lane / 4;
        if (row < tile.end && column < n) y[(u64)row * n + column] = __float2half(rest_sums[i]);
    }
}
#endif

struct Yes { static constexpr bool value = true; };
struct No { static constexpr bool value = false; };

// With SWIGLU the codes and scales (a8, a_scale) of silu(gate) value, where x w^T has gates, then values; else
// y = x w^T. Of every expert, whose rows of x and of the result are count[e], from first[e] on. Blocks of 128 numbers
// along k share a scale in x, blocks of 128 x 128 in w. A row of x_scale or a_scale has `rows` numbers, a multiple of
// four; n are columns of the result.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ Map map_x, const __grid_constant__ Map map_w, const __grid_constant__ Map map_y,
     const __grid_constant__ Map map_rest, const float* x_scale, const float* w_scale, const int* first,
     const int* count, void* result, float* a_scale, int rows, int experts, int n, int k)
{
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * STAGES + 1];
    Block b;
    b.base = (shared_address(memory) + 1023) & ~1023u;
    b.out = b.base + STAGES * STAGE_BYTES;
    b.full = shared_address(barriers), b.empty = b.full + 8 * STAGES;
    b.stage = 0, b.phase = 0;
    u32 told = b.full + 16 * STAGES;
    int warp = uniform(threadIdx.x / 32), group = warp / 4;
    b.consumer = group - 1, b.warp = warp % 4, b.lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(b.full + 8 * s, 1);
            init(b.empty + 8 * s, 16);
        }
        init(told, 16);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (threadIdx.x < REST_SCALES) {  // of rows behind the last one there is nothing to bring
        for (int s = 0; s < STAGES; ++s)
            asm volatile("st.shared.u32 [%0], 0;"
                         :: "r"(b.base + s * STAGE_BYTES + REST_SCALES_AT + 4 * threadIdx.x) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    rank = uniform(rank);
    meet_blocks();  // nobody signals a peer whose barriers are not there yet

    int columns = SWIGLU ? 2 * n : n, across = (columns + WIDTH - 1) / WIDTH, panels = (columns + 127) / 128;
    int steps = k / 128, room = room_for_rest(count, experts, across);
    Tile tile = {};
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (b.warp == 0) {  // all of it: what one lane works out alone is moved to a uniform register for every copy
            for (int number = blockIdx.x / 2; uniform(find(first, count, experts, across, room, number, rank, tile));
                 number += gridDim.x / 2) {
                int row = uniform(tile.row), end = uniform(tile.end), column = uniform(tile.column);
                int expert = uniform(tile.expert), shared = uniform(tile.shared), rest = uniform(tile.rest);
                int halves = min(max((end - row + 63) / 64, 0), 2);  // of x's strip that have rows of the expert
                int aligned = row & ~3, rest_aligned = rest & ~3, mine = rank * HALF;
                u32 scale_bytes = halves ? 4 * min(SCALES, rows - aligned) : 0;
                u32 rest_scale_bytes = rest >= 0 ? 4 * min(REST_SCALES, rows - rest_aligned) : 0;
                u32 bytes = W_BYTES + halves * 64 * 128 + scale_bytes + (rest >= 0 ? REST_BYTES + rest_scale_bytes : 0);
                for (int step = 0; step < steps; ++step) {
                    wait(b.empty + 8 * b.stage, b.phase ^ 1);  // passes at once the first time round
                    u32 signal = b.full + 8 * b.stage, x = b.base + b.stage * STAGE_BYTES, w = x + X_BYTES;
                    if (elected()) {
                        expect(signal, bytes);
                        if (shared) {  // each block brings a half, to both
                            load_weights_to_both(map_w, w + mine * 128, signal, step * 128, column + mine, expert);
                        } else {
                            load_weights(map_w, w, signal, step * 128, column, expert);
                            load_weights(map_w, w + HALF * 128, signal, step * 128, column + HALF, expert);
                        }
                        if (rest >= 0) {
                            load_rows(map_rest, x + REST_AT, signal, step * 128, rest);
                            load_line(x_scale + (u64)step * rows + rest_aligned, x + REST_SCALES_AT, signal,
                                      rest_scale_bytes);
                        }
                        if (halves == 2) load_rows(map_x, x + 64 * 128, signal, step * 128, row + 64);
                        if (halves > 0) {
                            load_rows(map_x, x, signal, step * 128, row);
                            load_line(x_scale + (u64)step * rows + aligned, x + SCALES_AT, signal, scale_bytes);
                        }
                    }
                    __syncwarp();
                    advance(b.stage, b.phase);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        u32 first_x = uniform(descriptor(b.base + b.consumer * 64 * 128));
        u32 first_w = uniform(descriptor(b.base + X_BYTES));
        u32 rest_w = uniform(descriptor(b.base + X_BYTES + (rank * 128 + b.consumer * 64) * 128));
        u32 rest_x = uniform(descriptor(b.base + REST_AT));
        // w's scales of two panels: those of this lane's block of 32, and those of the 32 after them, which may be the
        // next tile's.
        float one[2] = {}, other[2] = {};
#if SWIGLU
        u32 told_phase = 0;
#endif
        auto ask = [&](const Tile& of, bool there, int step, int into) {
            there = there && step + b.lane < steps;
            int panel = min(SWIGLU ? of.column / WIDTH : of.column / 128, panels - 1);
            int second = min(SWIGLU ? panel + n / 128 : panel + 1, panels - 1);
            u32 line = (of.expert * panels + panel) * steps + step + b.lane;  // there are a 16,384th of w's codes
            one[into] = there ? w_scale[line] : 0;
            other[into] = there ? w_scale[line + (second - panel) * steps] : 0;
        };
        auto next_scales = [&]() { one[0] = one[1], other[0] = other[1]; };
        int number = blockIdx.x / 2;
        bool found = find(first, count, experts, across, room, number, rank, tile);
        ask(tile, found, 0, 0);
        while (found) {
            Tile now = tile;
            bool some = now.row + b.consumer * 64 < now.end;  // of this consumer's rows are the expert's
            number += gridDim.x / 2;
            float sums[SUMS], d[PIECE];
            if (some) {
                int row = now.row + b.consumer * 64 + b.warp * 16 + b.lane / 4;
                u32 upper_at = SCALES_AT + 4 * (min(row, now.end - 1) - (now.row & ~3));
                u32 lower_at = SCALES_AT + 4 * (min(row + 8, now.end - 1) - (now.row & ~3));
                u32 rest_at = REST_SCALES_AT + 4 * ((now.rest & 3) + b.lane % 4 * 2);
                #pragma unroll
                for (int i = 0; i < SUMS; ++i) sums[i] = 0;
                float next_one = __shfl_sync(ALL, one[0], 0), next_other = __shfl_sync(ALL, other[0], 0);
                auto multiply_tile = [&](auto with) {  // with the rest's rows or without them
                    constexpr bool WITH_REST = decltype(with)::value;
                    float rest_sums[8] = {};
                    #pragma unroll (WITH_REST ? 1 : 4)  // unrolled, the rest's would not fit into registers
                    for (int step = 0; step < steps; ++step) {
                        // Scales are read before their block's products are issued, or handed from lane to lane a block
                        // ahead: while products run, shared memory answers late.
                        float by_one = next_one, by_other = next_other;
                        wait(b.full + 8 * b.stage, b.phase);
                        u32 stage = b.base + b.stage * STAGE_BYTES, at = b.stage * (STAGE_BYTES / 16);
                        float upper = read_shared(stage + upper_at), lower = read_shared(stage + lower_at);
                        if (step % 32 == 31) next_scales();
                        // threadIdx.y is 0, which the compiler cannot know: what looks the same in all lanes would at
                        // once be waited for, to have it in a uniform register.
                        int from = (step + 1) % 32 + threadIdx.y;
                        next_one = __shfl_sync(ALL, one[0], from), next_other = __shfl_sync(ALL, other[0], from);
                        float by[4], e[8];  // the rest's scales and products
                        if (WITH_REST) {
                            #pragma unroll
                            for (int i = 0; i < 4; ++i)
                                by[i] = read_shared(stage + rest_at + 32 * (i / 2) + 4 * (i % 2));
                            multiply_rest(e, SWIZZLED | (rest_w + at), SWIZZLED | (rest_x + at));
                        }
                        multiply_block(d, SWIZZLED | (first_x + at), SWIZZLED | (first_w + at));
                        if (step == 0)  // meanwhile
                            found = find(first, count, experts, across, room, number, rank, tile);
                        if (step % 32 == 0) {
                            if (step + 32 < steps) ask(now, true, step + 32, 1);
                            else ask(tile, found, 0, 1);
                        }
                        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                        if (WITH_REST) {
                            float by_gate = SWIGLU || rank == 0 ? by_one : by_other;
                            float by_value = SWIGLU || rank == 1 ? by_other : by_one;
                            #pragma unroll
                            for (int i = 0; i < 8; ++i)
                                rest_sums[i] += e[i] * (by[i / 4 * 2 + i % 2] * (i % 4 < 2 ? by_gate : by_value));
                        }
                        float by_odd = SWIGLU ? by_other : by_one;
                        promote(sums, d, {{upper * by_one, upper * by_odd}, {lower * by_one, lower * by_odd}});
                        multiply_block(d, SWIZZLED | (first_x + at), SWIZZLED | (first_w + at + 128 * 128 / 16));
                        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                        __syncwarp();
                        if (b.lane < 2) arrive_at(b.empty + 8 * b.stage, b.lane);
                        float by_even = SWIGLU ? by_one : by_other;
                        promote(sums + PIECE, d,
                                {{upper * by_even, upper * by_other}, {lower * by_even, lower * by_other}});
                        advance(b.stage, b.phase);
                    }
                    if (!WITH_REST) return;
#if SWIGLU
                    finish_rest(rest_sums, b, now, rank, told, told_phase, (unsigned char*)result, a_scale, n, rows);
#else
                    finish_rest(rest_sums, b, now, rank, (half*)result, n);
#endif
                };
                if (uniform(now.rest >= 0)) multiply_tile(Yes{});
                else multiply_tile(No{});
                next_scales();  // the next tile's
            } else {
                found = find(first, count, experts, across, room, number, rank, tile);
                ask(tile, found, 0, 0);
                for (int step = 0; step < steps; ++step) {
                    wait(b.full + 8 * b.stage, b.phase);
                    if (b.lane < 2) arrive_at(b.empty + 8 * b.stage, b.lane);
                    advance(b.stage, b.phase);
                }
            }
            if (!some) continue;
#if SWIGLU
            finish(sums, b, now, (unsigned char*)result, a_scale, n, rows);
#else
            finish(sums, b, now, map_y, (half*)result, n);
#endif
        }
        if (elected()) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncwarp();
    }
    meet_blocks();  // no block leaves while its peer may still signal it
}
