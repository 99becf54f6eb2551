// A row-parallel linear layer over two GPUs in one launch: C = A0 B0 + A1 B1, bfloat16 with float32 sums, on both.
//
// Rank p has Ap (m x k) and Bp (k x n). Each rank owns half of C's tiles and computes all of them from its own part of
// k: first those that the other owns, which it sends as partial sums, and then its own, to which it adds what the other
// has sent meanwhile; the result goes to both. In that order a partial sum is needed half a launch after it was sent,
// and an owner still has its own sums in registers when it needs them.
//
// A partial sum travels as bfloat16, in the order of the registers that hold it: the same thread of the other rank's
// block adds it to the same registers. The owner's part stays float32, and one rank alone rounds each sum, so that both
// end with the same bits. float32 would take twice the link's time, and a buffer of twice the size beside the stages.
//
// Blocks stay. Warp 0 brings tiles, through all of a block's tiles without a pause; two warpgroups multiply, 64 rows
// of a tile each; and each of them has a warp that sends for it. So the tensor cores go on with the next tile while the
// last one crosses the link. All ranks make the same calls in the same order, one after the other, with the same number
// of blocks, which must all fit on the GPU at once: blocks wait for those of the other rank.
#include "waiting.cuh"

constexpr int TILE_M = 128, TILE_K = 64, CONSUMERS = 2, THREADS = 128 * (CONSUMERS + 1);
constexpr int GROUP = 8;                    // rows of tiles that are walked down together, so that the L2 has them
constexpr u32 A_BYTES = 2 * TILE_M * TILE_K;
constexpr u32 PANEL = 64 * 128;             // 64 rows of 64 numbers: of B, and of a result
constexpr u32 ROOM = 232448 - 2 * 1024;     // bytes of shared memory, less what aligning and barriers take

// N: columns of a tile. A half is 64 rows of it in bfloat16: what one warpgroup sends.
template <int N> constexpr u32 HALF = 2 * 64 * N;
template <int N> constexpr u32 STAGE = A_BYTES + N / 64 * PANEL;
template <int N> constexpr int FITTING = (ROOM - CONSUMERS * HALF<N>) / STAGE<N>;
template <int N> constexpr int STAGES = FITTING<N> < 8 ? FITTING<N> : 8;

struct alignas(64) Map { u64 words[16]; }; // a CUtensorMap

// What a rank knows. Each memory begins with flags of 4 bytes: of partial sums, then of results, `most` tiles with
// CONSUMERS halves each. From byte `slots` on there is room for the partial sums of the tiles that the rank owns.
struct Pair {
    u32 rank, most;
    u64 slots, patience; // bytes; nanoseconds to wait for a message
    State* state;        // one a block
    char* memory[2];     // both ranks' memories, as this one sees them
};

enum Kind { PARTIAL, RESULT };

// ---- One instruction each ----

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ void invalidate(u32 barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(barrier) : "memory");
}
__device__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ void expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(u32 barrier, u32 parity) { // a new barrier has parity 1 behind it
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(barrier), "r"(parity) : "memory");
}
__device__ void load_box(u32 to, const Map& map, int x, int y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void store_box(const Map& map, int x, int y, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
__device__ void store_bytes(char* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// Where wgmma finds a matrix of 128-byte lines, swizzled: eight of them are 1,024 bytes.
__device__ u64 descriptor(u32 address, u32 leading) {
    return u64(address >> 4) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}

#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
              "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8(i), D8(i + 8), D8(i + 16), D8(i + 24)
#define R10(t) ", %" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9"
#define R32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9" R10("1") R10("2") ", %30, %31"
#define R64 R32 ", %32, %33, %34, %35, %36, %37, %38, %39" R10("4") R10("5") ", %60, %61, %62, %63"
#define R128 R64 ", %64, %65, %66, %67, %68, %69" R10("7") R10("8") R10("9") R10("10") R10("11") \
             ", %120, %121, %122, %123, %124, %125, %126, %127"

// d (64 x N) = a (64 x 16) b (16 x N), added to d if `add`: k runs along a's lines in shared memory, n along b's.
#define MULTIPLY(WIDTH, REGISTERS, A, B, ADD, ...)                                                                     \
    __device__ void multiply(float (&d)[WIDTH / 2], u64 a, u64 b, int add) {                                           \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                                                    \
                     "wgmma.mma_async.sync.aligned.m64n" #WIDTH "k16.f32.bf16.bf16 {" REGISTERS "}, " A ", " B         \
                     ", p, 1, 1, 0, 1; }" : __VA_ARGS__ : "l"(a), "l"(b), "r"(add));                                   \
    }
MULTIPLY(64, R32, "%32", "%33", "%34", D32(0))
MULTIPLY(128, R64, "%64", "%65", "%66", D32(0), D32(32))
MULTIPLY(256, R128, "%128", "%129", "%130", D32(0), D32(32), D32(64), D32(96))

// ---- The order of tiles ----

// Rank 0 owns the first half of the tiles, rank 1 the rest. A rank takes the other's tiles first, in the order in which
// their owner will want them. Block b takes the turns b, b + blocks, ...
template <int N> struct Order {
    int m, down, across, tiles, half, others, rank, first, step;

    __device__ Order(int m, int n, u32 rank, u32 block, u32 blocks) : m(m), rank(rank), first(block), step(blocks) {
        down = (m + TILE_M - 1) / TILE_M, across = (n + N - 1) / N, tiles = down * across, half = tiles / 2;
        others = rank ? half : tiles - half;
    }
    __device__ bool own(int turn) const { return turn >= others; }
    __device__ int tile(int turn) const { return rank ? turn : (turn + half) % tiles; }
    // A tile's number among those of its owner.
    __device__ int among(int turn) const { return tile(turn) < half ? tile(turn) : tile(turn) - half; }
    __device__ void place(int turn, int& row, int& column) const {
        int top = tile(turn) / (GROUP * across) * GROUP, within = tile(turn) % (GROUP * across);
        int height = min(down - top, GROUP);
        row = (top + within % height) * TILE_M, column = within / height * N;
    }
    // Rows of C that a consumer's half has: 64 and less, and none at all below the last row.
    __device__ int rows(int row, int consumer) const { return min(64, m - row - 64 * consumer); }
};

// ---- Messages ----

template <int N> __device__ char* slot_of(const Pair& pair, char* memory, const Order<N>& order, int turn, int half) {
    return memory + pair.slots + (u64)(order.among(turn) * CONSUMERS + half) * HALF<N>;
}

__device__ u32* flag_of(const Pair& pair, char* memory, Kind kind, int tile, int half) {
    return (u32*)memory + (kind * pair.most + tile) * CONSUMERS + half;
}

// All that this thread knows to be written is there for who finds the flag.
__device__ void raise(u32* at, u32 flag) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(at), "r"(flag) : "memory");
}

// Waits for a flag in this rank's memory; not again once this block has waited in vain.
__device__ void hear(const Pair& pair, State* state, const u32* at, u32 flag) {
    Wait waited;
    while (true) {
        u32 seen;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
        if (seen == flag) return;
        if (waited.over(pair.patience) || (waited.polls == 1 && begun(state).fault)) break;
    }
    report(state, 1 - pair.rank);
}

// ---- The three kinds of warps ----

// Shared addresses. A stage is full when its copies have come, and empty when all warps have multiplied it; a buffer is
// filled when its warpgroup has written a half, and free when that has been read.
template <int N> struct Shared {
    u32 stages, buffers, full, empty, filled, free;

    __device__ Shared(u32 data, u32 barriers) : stages(data), buffers(data + STAGES<N> * STAGE<N>), full(barriers) {
        empty = full + 8 * STAGES<N>, filled = empty + 8 * STAGES<N>, free = filled + 8 * CONSUMERS;
    }
};
template <int N> constexpr int BARRIERS = 2 * STAGES<N> + 2 * CONSUMERS;

struct Ring {
    u32 stage = 0, phase = 0;
    __device__ void advance(u32 stages) {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};

// One thread: what all tiles need, stage by stage. What lies outside of a matrix comes as zeros.
template <int N>
__device__ void bring(const Shared<N>& shared, const Order<N>& order, const Map& a, const Map& b, int k) {
    Ring ring;
    for (int turn = order.first; turn < order.tiles; turn += order.step) {
        int row, column;
        order.place(turn, row, column);
        for (int at = 0; at < k; at += TILE_K, ring.advance(STAGES<N>)) {
            u32 to = shared.stages + ring.stage * STAGE<N>, full = shared.full + 8 * ring.stage;
            wait(shared.empty + 8 * ring.stage, ring.phase ^ 1);
            expect(full, STAGE<N>);
            load_box(to, a, at, row, full);
            for (int p = 0; p < N / 64; ++p) load_box(to + A_BYTES + p * PANEL, b, column + 64 * p, at, full);
        }
    }
}

// A warpgroup: d = 64 rows of a tile, over all of k.
template <int N> __device__ void multiply_tile(const Shared<N>& shared, Ring& ring, float (&d)[N / 2], int half, int k) {
    u32 before = 0; // the stage before is handed back while this one is multiplied
    for (int at = 0; at < k; at += TILE_K, ring.advance(STAGES<N>)) {
        wait(shared.full + 8 * ring.stage, ring.phase);
        u32 stage = shared.stages + ring.stage * STAGE<N>;
        u64 rows = descriptor(stage + half * A_BYTES / CONSUMERS, 16), columns = descriptor(stage + A_BYTES, PANEL);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int i = 0; i < TILE_K / 16; ++i) multiply(d, rows + i * 32 / 16, columns + i * 2048 / 16, at || i);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (at && threadIdx.x % 32 == 0) arrive(before);
        before = shared.empty + 8 * ring.stage;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x % 32 == 0) arrive(before);
}

// A partial sum as it travels: 16 bytes of each lane side by side, a warp after the other.
template <int N> __device__ u32 place_of(int i) {
    return ((threadIdx.x % 128 / 32 * (N / 16) + i) * 32 + threadIdx.x % 32) * 16;
}

template <int N> __device__ void write_partial(u32 buffer, const float (&d)[N / 2]) {
    #pragma unroll
    for (int i = 0; i < N / 16; ++i) {
        const float* s = d + 8 * i;
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                     :: "r"(buffer + place_of<N>(i)), "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])),
                        "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
    }
}

template <int N> __device__ void add_partial(const char* slot, float (&d)[N / 2]) {
    #pragma unroll
    for (int i = 0; i < N / 16; ++i) {
        uint4 four = *(const uint4*)(slot + place_of<N>(i));
        u32 word[4] = {four.x, four.y, four.z, four.w};
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            d[8 * i + 2 * j] += __uint_as_float(word[j] << 16);
            d[8 * i + 2 * j + 1] += __uint_as_float(word[j] & 0xFFFF0000);
        }
    }
}

// A result as tensor copies take it: panels of 64 columns, lines of 128 bytes, swizzled.
template <int N> __device__ void write_result(u32 buffer, const float (&d)[N / 2]) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    #pragma unroll
    for (int i = 0; i < N / 16; ++i) {
        const float* s = d + 8 * i;
        u32 line = buffer + i / 4 * PANEL + row * 128;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(line + ((2 * (i % 4) + lane / 16) ^ row % 8) * 16), "r"(pack(s[0], s[1])),
                        "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7])) : "memory");
    }
}

// A warpgroup: its half of all tiles.
template <int N>
__device__ void compute(
    const Pair& pair, State* state, u32 flag, const Shared<N>& shared, const Order<N>& order, int half, int k
) {
    Ring ring;
    float d[N / 2];
    u32 buffer = shared.buffers + half * HALF<N>, round = 0;
    for (int turn = order.first; turn < order.tiles; turn += order.step) {
        int row, column;
        order.place(turn, row, column);
        multiply_tile<N>(shared, ring, d, half, k);
        int rows = order.rows(row, half);
        if (rows <= 0) continue;
        if (order.own(turn) && threadIdx.x % 128 / 32 * 16 < rows) { // warps without a row are sent nothing
            if (threadIdx.x % 32 == 0)
                hear(pair, state, flag_of(pair, pair.memory[pair.rank], PARTIAL, order.tile(turn), half), flag);
            __syncwarp();
            add_partial<N>(slot_of(pair, pair.memory[pair.rank], order, turn, half), d);
        }
        wait(shared.free + 8 * half, round++ % 2 ^ 1);
        if (order.own(turn))
            write_result<N>(buffer, d);
        else
            write_partial<N>(buffer, d);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(shared.filled + 8 * half);
    }
}

// One thread: sends what a warpgroup has computed, and at the end waits for the results that the other rank owes.
template <int N>
__device__ void send(
    const Pair& pair, State* state, u32 flag, const Shared<N>& shared, const Order<N>& order, int half, const Map& here,
    const Map& there, int n
) {
    char* peer = pair.memory[1 - pair.rank];
    u32 buffer = shared.buffers + half * HALF<N>, round = 0;
    for (int turn = order.first; turn < order.tiles; turn += order.step) {
        int row, column, rows;
        order.place(turn, row, column);
        if ((rows = order.rows(row, half)) <= 0) continue;
        wait(shared.filled + 8 * half, round++ % 2);
        if (order.own(turn))
            for (int p = 0; p < N / 64 && column + 64 * p < n; ++p) {
                store_box(there, column + 64 * p, row + 64 * half, buffer + p * PANEL);
                store_box(here, column + 64 * p, row + 64 * half, buffer + p * PANEL);
            }
        else
            store_bytes(slot_of(pair, peer, order, turn, half), buffer, (rows + 15) / 16 * (HALF<N> / 4));
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
        arrive(shared.free + 8 * half);
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); // it is there, not only on its way
        raise(flag_of(pair, peer, order.own(turn) ? RESULT : PARTIAL, order.tile(turn), half), flag);
    }
    for (int turn = order.first; turn < order.others; turn += order.step) {
        int row, column;
        order.place(turn, row, column);
        if (order.rows(row, half) > 0)
            hear(pair, state, flag_of(pair, pair.memory[pair.rank], RESULT, order.tile(turn), half), flag);
    }
}

// Calls may follow each other at once, with other sizes and tiles too. A rank sends a partial sum of call c + 1 when
// its call c has ended, for which it needed all results of the other's tiles, and the other sends a result after it
// has read the partial sum: no slot and no flag is overwritten that is still to be read. And what a rank still does
// with C, the other's call c + 1 does not disturb: it sends a result only for a partial sum of this rank's call c + 1.
template <int N>
__device__ void row_parallel(
    const Pair& pair, u32 block, u32 blocks, const Map& a, const Map& b, const Map& here, const Map& there, int m, int n,
    int k
) {
    extern __shared__ char raw[];
    __shared__ u64 barriers[BARRIERS<N>];
    State* state = pair.state + block;
    State before = begun(state);
    if (before.fault) return;
    u32 flag = number(before.calls), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Shared<N> shared((shared_address(raw) + 1023) & ~1023u, shared_address(barriers));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES<N>; ++s) init(shared.full + 8 * s, 1), init(shared.empty + 8 * s, 4 * CONSUMERS);
        for (int c = 0; c < CONSUMERS; ++c) init(shared.filled + 8 * c, 4), init(shared.free + 8 * c, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    Order<N> order(m, n, pair.rank, block, blocks);
    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (lane == 0 && warp == 0) bring<N>(shared, order, a, b, k);
        if (lane == 0 && warp > 0 && warp <= CONSUMERS)
            send<N>(pair, state, flag, shared, order, warp - 1, here, there, n);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        compute<N>(pair, state, flag, shared, order, warp / 4 - 1, k);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < BARRIERS<N>; ++i) invalidate(shared.full + 8 * i);
        state->calls = flag;
    }
}

template <int N>
__global__ void __launch_bounds__(THREADS, 1) row_parallel_kernel(
    const __grid_constant__ Pair pair, const __grid_constant__ Map a, const __grid_constant__ Map b,
    const __grid_constant__ Map here, const __grid_constant__ Map there, int m, int n, int k
) {
    row_parallel<N>(pair, blockIdx.x, gridDim.x, a, b, here, there, m, n, k);
}
