// A layer of experts over several GPUs in one launch: out = the weighted sum of down (silu(gate x) * (up x)) over each
// token's experts, which lie on the ranks in their order. bfloat16 with float32 sums.
//
// A rank's blocks go through the same list of work, each taking every `blocks`th item of a kind, and wait by flags:
//
//   send      a token's row goes to each rank that has an expert of it, once, whatever the number of its experts there
//   list      which rows an own expert has, of all ranks' tokens, the own ones first, which nobody has to send
//   middle    16 rows of an expert times a slice of gate and up, as soon as these rows are there
//   down      the result times a slice of down, as soon as all slices of the middle are there
//   return    the weighted sum of a token's own experts goes back to its rank, one row
//   add       the sums of all ranks, in the order of ranks: the same bits in every run
//
// An item waits only for items that come before it in that order, on this rank or another, and all blocks are on the GPU
// at once: so some block can always go on. Shapes are static and nothing is read back by the host, so a call can be
// captured in a CUDA graph. A call ends on a rank when all sums have come back, and so nobody still reads what it sent:
// one set of rows and flags does for all calls. Flags are the number of the call, and never reset.
#include "waiting.cuh"

typedef unsigned short u16;

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int ROWS = 16;             // of a tile: those of one mma
constexpr int MIDDLE = 8 * WARPS;    // columns of gate, and of up, that an item makes: 8 per warp
constexpr int DOWN = 16 * WARPS;     // columns of the result: two times 8 per warp
constexpr int TOKENS = WARPS;        // that one flag stands for: a warp each
constexpr int MOST_EXPERTS = 512, MOST_RANKS = 8;

enum Kind { SEND, LIST, MIDDLE_ITEM, DOWN_ITEM, RETURN, ADD };

// When thread 0 of a block began each of its items, had what it waited for, and ended it.
struct Clock {
    u64* to; // four numbers for each item, as long as there is room; null: nothing is kept
    u32 room;
    u64 begun, ready;

    static __device__ u64 now() {
        u64 time;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
        return time;
    }
    __device__ void begin() {
        if (to) begun = ready = now();
    }
    __device__ void has_waited() {
        if (to) ready = now();
    }
    __device__ void end(Kind kind, u32 what) { // the group of tokens, expert or tile that it was
        if (!to || !room || threadIdx.x) return;
        to[0] = kind | (u64)what << 8, to[1] = begun, to[2] = ready, to[3] = now();
        to += 4, --room;
    }
};

struct Sizes {
    u32 ranks, tokens, choices, experts, width, hidden; // experts are all ranks' together
};

// What a rank knows. Rows, parts and flags are written by other ranks, all else is its own.
struct Rank {
    Sizes of;
    u32 rank, blocks, own, first; // own experts: their number, and the first one's
    u64 patience;                 // nanoseconds to wait
    State* state;                 // one per block
    const u16* x;                 // tokens x width
    const int* chosen;            // ranks x tokens x choices: the routes of all ranks; a token's choices differ
    const float* weight;          // the same
    const u16* gate_up;           // own experts x 2 hidden x width, the rows of gate first
    const u16* down;              // own experts x width x hidden
    u16* out;                     // tokens x width
    u32 *list, *place, *count;    // rows of each own expert; where a choice's row is among them; how many there are
    u16* middle;                  // tiles x ROWS x hidden
    float* made;                  // tiles x ROWS x width
    u32 *listed, *halfway, *done; // flags of own experts, of tiles' slices of the middle, and of their slices of down
    char* memory[MOST_RANKS];     // of each rank: rows, parts, flags

    __device__ u32 groups() const { return (of.tokens + TOKENS - 1) / TOKENS; }
    __device__ u32 slices_of_middle() const { return (of.hidden + MIDDLE - 1) / MIDDLE; }
    __device__ u32 slices_of_down() const { return (of.width + DOWN - 1) / DOWN; }
    __device__ u64 part() const { return 2ull * of.ranks * of.tokens * of.width; } // bytes of all rows, or all parts
    __device__ u16* row(u32 at, u32 from, u32 token) const {                       // a token of `from`, sent to `at`
        return (u16*)memory[at] + ((u64)from * of.tokens + token) * of.width;
    }
    __device__ u16* sum(u32 at, u32 from, u32 token) const { // a sum that `from` made of a token of `at`
        return (u16*)(memory[at] + part()) + ((u64)from * of.tokens + token) * of.width;
    }
    __device__ u32* sent(u32 at, u32 from, u32 group) const {
        return (u32*)(memory[at] + 2 * part()) + from * groups() + group;
    }
    __device__ u32* returned(u32 at, u32 from, u32 group) const { return sent(at, of.ranks + from, group); }
    __device__ bool has(u32 expert) const { return expert - first < own; }
    __device__ u64 route(u32 from, u32 token) const { return ((u64)from * of.tokens + token) * of.choices; }
};

__device__ void raise(u32* flag, u32 call) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(flag), "r"(call) : "memory");
}
__device__ void raise_here(u32* flag, u32 call) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(call) : "memory");
}
__device__ void hear(const Rank& r, State* state, const u32* flag, u32 call, u32 peer) {
    Wait wait;
    for (u32 now = call + 1; now != call;) {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(flag) : "memory");
        if (now != call && wait.over(r.patience)) return report(state, peer);
    }
}
__device__ void hear_here(const Rank& r, State* state, const u32* flag, u32 call) {
    Wait wait;
    for (u32 now = call + 1; now != call;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(flag) : "memory");
        if (now != call && wait.over(r.patience)) return report(state, r.rank);
    }
}
__device__ float wide(u16 bits) { return __uint_as_float((u32)bits << 16); }
__device__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// c (16 x 8) += a (16 x depth) b (8 x depth), rows of both along k. A lane has a's rows lane / 4 and 8 further; null: 0.
__device__ void multiply(float (&c)[4], const u16* low, const u16* high, const u16* b, u32 depth) {
    int quarter = 2 * (threadIdx.x % 4);
    const u16* column = b + (u64)(threadIdx.x % 32 / 4) * depth + quarter;
    for (u32 k = 0; k < depth; k += 16) {
        u32 a0 = low ? *(const u32*)(low + k + quarter) : 0, a1 = high ? *(const u32*)(high + k + quarter) : 0;
        u32 a2 = low ? *(const u32*)(low + k + quarter + 8) : 0, a3 = high ? *(const u32*)(high + k + quarter + 8) : 0;
        u32 b0 = *(const u32*)(column + k), b1 = *(const u32*)(column + k + 8);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

// ---- Items ----

__device__ void send(const Rank& r, u32 group, u32 call) {
    u32 token = group * TOKENS + threadIdx.x / 32;
    for (u32 peer = 0; peer < r.of.ranks; ++peer) {
        if (peer == r.rank) continue;
        bool goes = false;
        u32 own = r.of.experts / r.of.ranks;
        for (u32 j = 0; token < r.of.tokens && j < r.of.choices; ++j)
            goes |= (u32)r.chosen[r.route(r.rank, token) + j] / own == peer;
        if (goes) {
            const uint4* from = (const uint4*)(r.x + (u64)token * r.of.width);
            uint4* to = (uint4*)r.row(peer, r.rank, token);
            for (u32 i = threadIdx.x % 32; i < r.of.width / 8; i += 32) to[i] = from[i];
        }
    }
    __syncthreads();
    if (threadIdx.x < r.of.ranks && threadIdx.x != r.rank) raise(r.sent(threadIdx.x, r.rank, group), call);
}

// The rows of one expert, in the order of ranks beginning with this one, then of tokens.
__device__ void list(const Rank& r, u32 expert, u32 call) {
    __shared__ u32 of_warp[WARPS];
    u32 found = 0, all = r.of.tokens * r.of.choices, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32* rows = r.list + (u64)expert * r.of.ranks * r.of.tokens;
    for (u32 turn = 0; turn < r.of.ranks; ++turn) {
        u32 from = (r.rank + turn) % r.of.ranks;
        for (u32 start = 0; start < all; start += THREADS) {
            u32 at = start + threadIdx.x;
            bool mine = at < all && (u32)r.chosen[(u64)from * all + at] == r.first + expert;
            u32 votes = __ballot_sync(~0u, mine);
            if (lane == 0) of_warp[warp] = __popc(votes);
            __syncthreads();
            u32 place = found + __popc(votes & ((1u << lane) - 1));
            for (u32 w = 0; w < WARPS; ++w) {
                if (w < warp) place += of_warp[w];
                found += of_warp[w];
            }
            if (mine) {
                rows[place] = from * r.of.tokens + at / r.of.choices;
                r.place[(u64)from * all + at] = place;
            }
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) r.count[expert] = found;
    __syncthreads();
    if (threadIdx.x == 0) raise_here(r.listed + expert, call);
}

// The row of an expert's list that a lane multiplies, null behind the last.
__device__ const u16* row_of(const Rank& r, const u32* rows, u32 row, u32 count) {
    if (row >= count) return nullptr;
    u32 from = rows[row] / r.of.tokens, token = rows[row] % r.of.tokens;
    return from == r.rank ? r.x + (u64)token * r.of.width : r.row(r.rank, from, token);
}

__device__ void middle(const Rank& r, State* state, Clock& clock, u32 expert, u32 step, u32 count, u32 tile, u32 slice,
                       u32 call) {
    const u32* rows = r.list + (u64)expert * r.of.ranks * r.of.tokens;
    if (threadIdx.x < ROWS && step * ROWS + threadIdx.x < count) {
        u32 row = rows[step * ROWS + threadIdx.x], from = row / r.of.tokens;
        if (from != r.rank) hear(r, state, r.sent(r.rank, from, row % r.of.tokens / TOKENS), call, from);
    }
    __syncthreads();
    clock.has_waited();
    u32 lane = threadIdx.x % 32, column = slice * MIDDLE + 8 * (threadIdx.x / 32);
    if (column < r.of.hidden) {
        const u16* low = row_of(r, rows, step * ROWS + lane / 4, count);
        const u16* high = row_of(r, rows, step * ROWS + lane / 4 + 8, count);
        const u16* gates = r.gate_up + ((u64)expert * 2 * r.of.hidden + column) * r.of.width;
        float gate[4] = {}, up[4] = {}, unit[4];
        multiply(gate, low, high, gates, r.of.width);
        multiply(up, low, high, gates + (u64)r.of.hidden * r.of.width, r.of.width);
        for (int i = 0; i < 4; ++i) unit[i] = gate[i] / (1 + __expf(-gate[i])) * up[i];
        u16* to = r.middle + ((u64)tile * ROWS + lane / 4) * r.of.hidden + column + 2 * (lane % 4);
        *(u32*)to = pack(unit[0], unit[1]);
        *(u32*)(to + 8 * (u64)r.of.hidden) = pack(unit[2], unit[3]);
    }
    __syncthreads();
    if (threadIdx.x == 0) raise_here(r.halfway + tile * r.slices_of_middle() + slice, call);
}

__device__ void down(const Rank& r, State* state, Clock& clock, u32 expert, u32 tile, u32 slice, u32 call) {
    u32 lane = threadIdx.x % 32, slices = r.slices_of_middle();
    for (u32 i = threadIdx.x; i < slices; i += THREADS) hear_here(r, state, r.halfway + tile * slices + i, call);
    __syncthreads();
    clock.has_waited();
    const u16* low = r.middle + ((u64)tile * ROWS + lane / 4) * r.of.hidden;
    for (u32 part = 0; part < 2; ++part) {
        u32 column = slice * DOWN + 16 * (threadIdx.x / 32) + 8 * part;
        if (column >= r.of.width) break;
        float c[4] = {};
        multiply(c, low, low + 8 * (u64)r.of.hidden, r.down + ((u64)expert * r.of.width + column) * r.of.hidden,
                 r.of.hidden);
        float* to = r.made + ((u64)tile * ROWS + lane / 4) * r.of.width + column + 2 * (lane % 4);
        *(float2*)to = make_float2(c[0], c[1]);
        *(float2*)(to + 8 * (u64)r.of.width) = make_float2(c[2], c[3]);
    }
    __syncthreads();
    if (threadIdx.x == 0) raise_here(r.done + tile * r.slices_of_down() + slice, call);
}

// Wait until all rows that own experts made of a token are there. Whether there are any.
__device__ bool made_of(const Rank& r, State* state, const u32* tiles, u32 from, u32 token, u32 call) {
    bool any = false;
    for (u32 j = 0; j < r.of.choices; ++j) {
        u64 at = r.route(from, token) + j;
        u32 expert = r.chosen[at] - r.first, slices = r.slices_of_down();
        if (expert >= r.own) continue;
        any = true;
        u32 tile = tiles[expert] + r.place[at] / ROWS;
        for (u32 i = threadIdx.x % 32; i < slices; i += 32) hear_here(r, state, r.done + tile * slices + i, call);
    }
    __syncwarp();
    return any;
}

// The weighted sum of what own experts made of two neighbouring elements of a token, in the order of its choices.
__device__ float2 weighted(const Rank& r, const u32* tiles, u32 from, u32 token, u32 column) {
    float2 sum = make_float2(0, 0);
    for (u32 j = 0; j < r.of.choices; ++j) {
        u64 at = r.route(from, token) + j;
        u32 expert = r.chosen[at] - r.first;
        if (expert >= r.own) continue;
        float2 made = *(const float2*)(r.made + ((u64)tiles[expert] * ROWS + r.place[at]) * r.of.width + column);
        sum.x += r.weight[at] * made.x, sum.y += r.weight[at] * made.y;
    }
    return sum;
}

__device__ void give_back(const Rank& r, State* state, Clock& clock, const u32* tiles, u32 to, u32 group, u32 call) {
    u32 token = group * TOKENS + threadIdx.x / 32;
    if (token < r.of.tokens && made_of(r, state, tiles, to, token, call)) {
        clock.has_waited();
        u16* row = r.sum(to, r.rank, token);
        for (u32 i = 2 * (threadIdx.x % 32); i < r.of.width; i += 64) {
            float2 sum = weighted(r, tiles, to, token, i);
            *(u32*)(row + i) = pack(sum.x, sum.y);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) raise(r.returned(to, r.rank, group), call);
}

__device__ void add(const Rank& r, State* state, Clock& clock, const u32* tiles, u32 group, u32 call) {
    u32 token = group * TOKENS + threadIdx.x / 32, own = r.of.experts / r.of.ranks, there = 0;
    if (threadIdx.x < r.of.ranks && threadIdx.x != r.rank)
        hear(r, state, r.returned(r.rank, threadIdx.x, group), call, threadIdx.x);
    __syncthreads();
    if (token >= r.of.tokens) return;
    made_of(r, state, tiles, r.rank, token, call);
    clock.has_waited();
    for (u32 j = 0; j < r.of.choices; ++j) there |= 1u << r.chosen[r.route(r.rank, token) + j] / own;
    for (u32 i = 2 * (threadIdx.x % 32); i < r.of.width; i += 64) {
        float2 sum = make_float2(0, 0);
        for (u32 peer = 0; peer < r.of.ranks; ++peer) {
            if (!(there >> peer & 1)) continue;
            float2 part;
            if (peer == r.rank) {
                part = weighted(r, tiles, r.rank, token, i);
            } else {
                const u16* row = r.sum(r.rank, peer, token) + i;
                part = make_float2(wide(row[0]), wide(row[1]));
            }
            sum.x += part.x, sum.y += part.y;
        }
        *(u32*)(r.out + (u64)token * r.of.width + i) = pack(sum.x, sum.y);
    }
}

// ---- One call of one rank ----

__device__ void layer(const Rank& r, Clock clock, u32 block) {
    __shared__ u32 tiles[MOST_EXPERTS], counts[MOST_EXPERTS], longest; // each expert's first tile, rows; tiles of one
    State* state = r.state + block;
    u32 call = number(begun(state).calls), groups = r.groups();
    auto item = [&](Kind kind, u32 what, auto work) {
        clock.begin();
        work();
        clock.end(kind, what);
    };
    for (u32 group = block; group < groups; group += r.blocks) item(SEND, group, [&] { send(r, group, call); });
    for (u32 expert = block; expert < r.own; expert += r.blocks) item(LIST, expert, [&] { list(r, expert, call); });
    for (u32 expert = threadIdx.x; expert < r.own; expert += THREADS) {
        hear_here(r, state, r.listed + expert, call);
        counts[expert] = r.count[expert];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 before = 0;
        longest = 0;
        for (u32 expert = 0; expert < r.own; ++expert) {
            u32 its = (counts[expert] + ROWS - 1) / ROWS;
            tiles[expert] = before, before += its, longest = max(longest, its);
        }
    }
    __syncthreads();
    // All experts' first tiles come first: they have the own tokens. Down follows so much later that others have made
    // their slices of the middle by then. Both are dealt out by themselves: they take different times.
    u32 of_middle = r.slices_of_middle(), of_down = r.slices_of_down(), middles = 0, downs = 0;
    u32 lag = r.blocks / (of_middle + of_down) + 1, waiting = 0, step = 0, expert = 0, old = 0, behind = 0;
    auto next = [&](u32& step, u32& expert) { // the first tile at or after a place: step by step, over all experts
        for (; step < longest; ++step, expert = 0)
            for (; expert < r.own; ++expert)
                if (step * ROWS < counts[expert]) return true;
        return false;
    };
    while (true) {
        bool more = next(step, expert);
        if (more) {
            for (u32 slice = 0; slice < of_middle; ++slice)
                if (middles++ % r.blocks == block)
                    item(MIDDLE_ITEM, tiles[expert] + step, [&] {
                        middle(r, state, clock, expert, step, counts[expert], tiles[expert] + step, slice, call);
                    });
            ++expert, ++waiting;
        }
        if (!more && !waiting) break;
        if (more && waiting <= lag) continue;
        next(old, behind);
        for (u32 slice = 0; slice < of_down; ++slice)
            if (downs++ % r.blocks == block)
                item(DOWN_ITEM, tiles[behind] + old, [&] { down(r, state, clock, behind, tiles[behind] + old, slice, call); });
        ++behind, --waiting;
    }
    for (u32 turn = 1; turn < r.of.ranks; ++turn) {
        u32 to = (r.rank + turn) % r.of.ranks;
        for (u32 group = block; group < groups; group += r.blocks)
            item(RETURN, to * groups + group, [&] { give_back(r, state, clock, tiles, to, group, call); });
    }
    for (u32 group = block; group < groups; group += r.blocks)
        item(ADD, group, [&] { add(r, state, clock, tiles, group, call); });
    __syncthreads();
    if (threadIdx.x == 0) state->calls = call;
}

// One call of `here` ranks from `rank` on, whose arrays follow each other: one rank on each GPU, or several as groups of
// blocks on one. `times` has room for `room` items of each block (Clock); null: nothing is kept. `addresses` are those of
// all ranks' memories; null: they follow each other from `memory` on.
extern "C" __global__ void __launch_bounds__(THREADS, 1) experts_kernel(
    Sizes of, u32 rank, u32 here, u32 most, u64 patience, State* state, const u16* x, const int* chosen,
    const float* weight, const u16* gate_up, const u16* down, u16* out, u32* list, u32* place, u32* count,
    u16* middle, float* made, u32* flags, char* memory, const u64* addresses, u64* times, u32 room
) {
    u32 blocks = gridDim.x / here, at = blockIdx.x / blocks, own = of.experts / of.ranks;
    u64 rows = (u64)of.ranks * of.tokens, elements = (u64)of.tokens * of.width;
    Rank r;
    r.of = of, r.rank = rank + at, r.blocks = blocks, r.own = own, r.first = r.rank * own, r.patience = patience;
    r.state = state + at * blocks, r.chosen = chosen + at * rows * of.choices, r.weight = weight + at * rows * of.choices;
    r.x = x + at * elements, r.out = out + at * elements;
    r.gate_up = gate_up + (u64)at * own * 2 * of.hidden * of.width;
    r.down = down + (u64)at * own * of.width * of.hidden;
    r.list = list + at * own * rows, r.place = place + at * rows * of.choices, r.count = count + at * own;
    r.middle = middle + (u64)at * most * ROWS * of.hidden, r.made = made + (u64)at * most * ROWS * of.width;
    r.listed = flags + at * (own + most * (r.slices_of_middle() + r.slices_of_down()));
    r.halfway = r.listed + own, r.done = r.halfway + most * r.slices_of_middle();
    u64 stride = (2 * r.part() + 8ull * of.ranks * r.groups() + 31) / 32 * 32; // as Sizes.memory
    for (u32 peer = 0; peer < MOST_RANKS; ++peer)
        r.memory[peer] = peer >= of.ranks ? nullptr : addresses ? (char*)addresses[peer] : memory + peer * stride;
    layer(r, {times ? times + 4ull * room * blockIdx.x : nullptr, room, 0, 0}, blockIdx.x % blocks);
}
