// All-reduce by hand: GPUs that add up an array by writing into each other's memory. Four kernels, the shortest first.
//
// Each rank has `memory`, which all ranks can write to, and `state`, which is its own. A rank sends by storing into the
// memory of another and receives by polling its own, so that a message crosses the link once and nobody asks for it.
//
// Nothing waits for the host, and no argument changes from call to call: a CUDA graph may replay any number of calls.
// All ranks have to make the same calls in the same order, one after the other (a stream; no launch that overlaps the
// one before).
#include "waiting.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int MOST_RANKS = 8;
constexpr u32 LINE = 16;     // bytes of a line of LL, of which 8 are data
constexpr u32 ROW_TURNS = 4; // lines of a row that a thread of the fused kernel keeps in registers

// What a rank knows. Its part of the memory holds, for `blocks` blocks each: four sets of LL lines, `lines` from each
// rank; the two-shot's two rooms, `units` of 16 bytes from each rank; and the two-shot's flags.
struct Team {
    u32 rank, blocks, lines, units;
    u64 patience;             // nanoseconds to wait for a message
    State* state;             // 3 x blocks: one-shot and fused, two-shot, LL two-shot
    char* memory[MOST_RANKS]; // the ranks' memories, as this rank sees them
};

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float x, float& to) { to = x; }
__device__ void narrow(float x, __half& to) { to = __float2half_rn(x); }
__device__ void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

// W is what is moved at once: u64 or uint4, with as many numbers as it has room for.
template <class T, class W> constexpr u32 IN = sizeof(W) / sizeof(T);

template <class T, class W> __device__ W load(const T* from, u32 place, u32 count) {
    constexpr u32 N = IN<T, W>;
    if ((place + 1) * N <= count) return ((const W*)from)[place];
    union { W whole; T item[N]; } last = {}; // the end of an array that is no multiple of N long
    #pragma unroll
    for (u32 k = 0; k < N; ++k)
        if (place * N + k < count) last.item[k] = from[place * N + k];
    return last.whole;
}

template <class T, class W> __device__ void store(T* to, u32 place, u32 count, W what) {
    constexpr u32 N = IN<T, W>;
    if ((place + 1) * N <= count) {
        ((W*)to)[place] = what;
        return;
    }
    union { W whole; T item[N]; } last;
    last.whole = what;
    #pragma unroll
    for (u32 k = 0; k < N; ++k)
        if (place * N + k < count) to[place * N + k] = last.item[k];
}

// In the order of the ranks, so that all of them end with the same bits.
template <class T, class W, int RANKS> __device__ void add_up(const W (&data)[RANKS], float (&sum)[IN<T, W>]) {
    #pragma unroll
    for (int p = 0; p < RANKS; ++p) {
        union { W whole; T item[IN<T, W>]; } part;
        part.whole = data[p];
        #pragma unroll
        for (u32 k = 0; k < IN<T, W>; ++k) sum[k] = p ? sum[k] + wide(part.item[k]) : wide(part.item[k]);
    }
}

template <class T, class W> __device__ W packed(const float (&sum)[IN<T, W>]) {
    union { W whole; T item[IN<T, W>]; } result;
    #pragma unroll
    for (u32 k = 0; k < IN<T, W>; ++k) narrow(sum[k], result.item[k]);
    return result.whole;
}

// ---- LL: data and flag in one store ----

// A line is two words of 64 bits: 4 bytes of data below, the flag above, each. A word is stored and loaded at once by
// PTX's memory model, so who finds the flag has the data, and there is no fence to wait for. (Both words go in one
// instruction; it may be torn between them, never within one.)
__device__ void send(char* line, u64 data, u32 flag) {
    u64 above = u64(flag) << 32;
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
                 :: "l"(line), "l"(above | (u32)data), "l"(above | data >> 32) : "memory");
}

__device__ bool arrived(const char* line, u32 flag, u64& data) {
    u64 first, second;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(line) : "memory");
    data = (u32)first | second << 32;
    return first >> 32 == flag && second >> 32 == flag;
}

// EVEN and ODD calls of one-shot and fused; what the LL two-shot sends to be added, and its sums.
enum Set { EVEN, ODD, PARTS, TOTALS, SETS };

// The first of a set's lines that `source` has in some rank's memory for a block.
template <int RANKS> __device__ char* lines_of(const Team& team, char* memory, Set set, int source, u32 block) {
    return memory + (((u64)set * team.blocks + block) * RANKS + source) * team.lines * LINE;
}

// The set for a call that is one message.
//
// Two sets of lines are enough. Rank r writes into p's lines of call c + 2 over those of call c. It does so after its
// call c + 1 has ended, for which it needed a line that p sent in call c + 1; and p sent that after its own call c had
// ended, when it had read all lines of call c. So nothing is overwritten that is still to be read, however far ranks
// are apart; with one set, r could overwrite call c in its call c + 1, for which it needs nothing that p does later.
// It holds for each block by itself, as a block sends and gets at least one line in each call that it counts. The fences
// that keep p's reads before what it sends next, and r's stores behind what it has waited for, are the ends of kernels.
__device__ Set set_of(u32 flag) { return flag & 1 ? ODD : EVEN; }

template <int RANKS>
__device__ void send_to(const Team& team, int p, Set set, u32 block, u32 place, u64 data, u32 flag) {
    send(lines_of<RANKS>(team, team.memory[p], set, team.rank, block) + (u64)place * LINE, data, flag);
}

template <int RANKS>
__device__ void send_to_all(const Team& team, Set set, u32 block, u32 place, u64 data, u32 flag) {
    #pragma unroll
    for (int p = 0; p < RANKS; ++p)
        if (p != team.rank) send_to<RANKS>(team, p, set, block, place, data, flag);
}

// Fills in what the others sent; data[team.rank] is there already. All are asked for before one is waited for. False
// if one of them has been waited for in vain, which the state then says.
template <int RANKS>
__device__ bool receive(
    const Team& team, State* state, Set set, u32 block, u32 place, u32 flag, u64 (&data)[RANKS]
) {
    const char* lines = lines_of<RANKS>(team, team.memory[team.rank], set, 0, block) + place * LINE;
    Wait wait;
    int missing;
    do {
        missing = -1;
        #pragma unroll
        for (int p = 0; p < RANKS; ++p)
            if (p != team.rank && !arrived(lines + (u64)p * team.lines * LINE, flag, data[p])) missing = p;
        if (missing >= 0 && wait.over(team.patience)) {
            report(state, missing);
            return false;
        }
    } while (missing >= 0);
    return true;
}

// ---- One-shot: everybody's data to everybody, and everybody adds ----

// out = the sum over ranks of in, `count` numbers, aligned to 8 bytes. Blocks that have nothing to do take no part.
template <class T, int RANKS>
__device__ void one_shot(const Team& team, u32 block, u32 blocks, const T* in, T* out, u32 count) {
    constexpr u32 N = IN<T, u64>;
    u64 total = (count + N - 1) / N;
    u32 first = total * block / blocks, last = total * (block + 1) / blocks;
    if (first == last) return;
    State* state = team.state + block;
    u32 start = first + threadIdx.x;
    u64 head = start < last ? load<T, u64>(in, start, count) : 0; // on its way while the state is
    State before = begun(state);
    if (before.fault) return;
    u32 flag = number(before.calls);
    for (u32 k = start; k < last; k += blockDim.x)
        send_to_all<RANKS>(team, set_of(flag), block, k - first, k == start ? head : load<T, u64>(in, k, count), flag);
    #pragma unroll 1
    for (u32 k = start; k < last; k += blockDim.x) {
        u64 data[RANKS];
        u64 own = k == start ? head : load<T, u64>(in, k, count);
        #pragma unroll
        for (int p = 0; p < RANKS; ++p) data[p] = own;
        receive<RANKS>(team, state, set_of(flag), block, k - first, flag, data);
        float sum[N];
        add_up<T, u64, RANKS>(data, sum);
        store<T, u64>(out, k, count, packed<T, u64>(sum));
    }
    __syncthreads();
    if (threadIdx.x == 0) state->calls = flag;
}

// ---- Residual and RMS norm, behind an all-reduce or within it ----

__device__ float sum_of_block(float x) {
    __shared__ float parts[32];
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    __syncthreads(); // the row before has been read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (u32 w = 0; w < blockDim.x / 32; ++w) x += parts[w];
    return x;
}

// What a thread holds of a row: `kept` numbers a line, in ROW_TURNS lines.
template <class T> struct Row {
    static constexpr u32 N = IN<T, u64>;
    float kept[ROW_TURNS][N];
    float squares = 0;

    // Takes a line of the sum, adds the residual's and stores what the next layer's residual is.
    __device__ void take(u32 turn, const float (&sum)[N], u64 residual, T* hidden, u32 line) {
        union { u64 whole; T item[N]; } more;
        more.whole = residual;
        #pragma unroll
        for (u32 k = 0; k < N; ++k) {
            kept[turn][k] = sum[k] + wide(more.item[k]);
            squares += kept[turn][k] * kept[turn][k];
        }
        ((u64*)hidden)[line] = packed<T, u64>(kept[turn]);
    }

    // out = kept / sqrt(mean of squares + epsilon) * weight. All threads of the block come here.
    __device__ void norm(const T* weight, T* out, u32 lines, float epsilon) {
        float scale = rsqrtf(sum_of_block(squares) / (lines * N) + epsilon);
        #pragma unroll
        for (u32 turn = 0; turn < ROW_TURNS; ++turn) {
            u32 line = threadIdx.x + turn * blockDim.x;
            if (line >= lines) break;
            union { u64 whole; T item[N]; } w;
            w.whole = ((const u64*)weight)[line];
            float result[N];
            #pragma unroll
            for (u32 k = 0; k < N; ++k) result[k] = kept[turn][k] * scale * wide(w.item[k]);
            ((u64*)out)[line] = packed<T, u64>(result);
        }
    }
};

// hidden = sum over ranks of in + residual; out = its RMS norm by rows times weight. Rows have `width` numbers: a
// multiple of 8 bytes and at most ROW_TURNS lines a thread. Threads come in whole warps.
template <class T, int RANKS>
__device__ void fused(
    const Team& team, u32 block, u32 blocks, const T* in, const T* residual, const T* weight, T* hidden, T* out,
    u32 rows, u32 width, float epsilon
) {
    u32 lines = width / IN<T, u64>;
    if (block >= rows) return;
    State* state = team.state + block;
    State before = begun(state);
    if (before.fault) return;
    u32 flag = number(before.calls), place = 0;
    for (u32 row = block; row < rows; row += blocks, place += lines)
        for (u32 line = threadIdx.x; line < lines; line += blockDim.x)
            send_to_all<RANKS>(team, set_of(flag), block, place + line, ((const u64*)in)[row * lines + line], flag);
    place = 0;
    for (u32 row = block; row < rows; row += blocks, place += lines) {
        Row<T> mine;
        #pragma unroll
        for (u32 turn = 0; turn < ROW_TURNS; ++turn) {
            u32 line = threadIdx.x + turn * blockDim.x;
            if (line >= lines) break;
            u64 more = ((const u64*)residual)[row * lines + line], own = ((const u64*)in)[row * lines + line];
            u64 data[RANKS];
            #pragma unroll
            for (int p = 0; p < RANKS; ++p) data[p] = own;
            receive<RANKS>(team, state, set_of(flag), block, place + line, flag, data);
            float sum[IN<T, u64>];
            add_up<T, u64, RANKS>(data, sum);
            mine.take(turn, sum, more, hidden + (u64)row * width, line);
        }
        mine.norm(weight, out + (u64)row * width, lines, epsilon);
    }
    __syncthreads();
    if (threadIdx.x == 0) state->calls = flag;
}

// ---- Two-shot: each rank adds up its share and tells the others; data without flags, fences between ----

enum Room { SHARES, SUMS };

template <int RANKS> __device__ uint4* room(const Team& team, char* memory, Room which, int source, u32 block) {
    u64 skipped = (u64)SETS * team.blocks * RANKS * team.lines; // LL's lines, as large as a unit
    u64 part = ((u64)which * team.blocks + block) * RANKS + source;
    return (uint4*)memory + skipped + part * team.units;
}

template <int RANKS> __device__ u32* flag_of(const Team& team, char* memory, Room which, int source, u32 block) {
    u32* flags = (u32*)room<RANKS>(team, memory, SHARES, 0, 2 * team.blocks); // where the rooms end
    return flags + ((u32)which * team.blocks + block) * RANKS + source;
}

// Tells the others that this block has filled their rooms, and waits until they have filled ours. A thread a rank.
template <int RANKS> __device__ void exchange(const Team& team, State* state, u32 block, Room which, u32 flag) {
    __syncthreads(); // all stores of the block come before the release
    #pragma unroll
    for (int p = 0; p < RANKS; ++p)
        if (threadIdx.x == p && p != team.rank)
            asm volatile("st.release.sys.global.u32 [%0], %1;"
                         :: "l"(flag_of<RANKS>(team, team.memory[p], which, team.rank, block)), "r"(flag) : "memory");
    u32 p = threadIdx.x;
    if (p < RANKS && p != team.rank) {
        const u32* ours = flag_of<RANKS>(team, team.memory[team.rank], which, p, block);
        Wait wait;
        u32 seen;
        while (true) {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(ours) : "memory");
            if (seen == flag) break;
            if (wait.over(team.patience)) {
                report(state, p);
                break;
            }
        }
    }
    __syncthreads();
}

// What one block has of a rank's share of `total` units.
struct Part {
    u32 first, size;
};

template <int RANKS> __device__ Part part_of(u64 total, int rank, u32 block, u32 blocks) {
    u64 first = total * rank / RANKS, size = total * (rank + 1) / RANKS - first;
    u32 begin = size * block / blocks;
    return {(u32)first + begin, (u32)(size * (block + 1) / blocks) - begin};
}

// out = the sum over ranks of in, `count` numbers, aligned to 16 bytes; a block has a thread a rank at least.
//
// One set of rooms is enough here, for there are two waits. A rank fills the others' SHARES in call c + 1 when its call
// c has ended, for which it needed everybody's sums; and a rank tells its sum after it has read its shares. It fills
// the others' SUMS in call c + 1 when it has all shares of that call, which a rank sends after its call c has ended.
template <class T, int RANKS>
__device__ void two_shot(const Team& team, u32 block, u32 blocks, const T* in, T* out, u32 count) {
    constexpr u32 N = IN<T, uint4>;
    State* state = team.state + team.blocks + block;
    State before = begun(state);
    if (before.fault) return;
    u32 flag = number(before.calls);
    u64 total = (count + N - 1) / N;
    Part mine = part_of<RANKS>(total, team.rank, block, blocks);
    #pragma unroll
    for (int p = 0; p < RANKS; ++p)
        if (p != team.rank) {
            Part part = part_of<RANKS>(total, p, block, blocks);
            uint4* theirs = room<RANKS>(team, team.memory[p], SHARES, team.rank, block);
            #pragma unroll 2
            for (u32 k = threadIdx.x; k < part.size; k += blockDim.x)
                theirs[k] = load<T, uint4>(in, part.first + k, count);
        }
    exchange<RANKS>(team, state, block, SHARES, flag);
    #pragma unroll 1
    for (u32 k = threadIdx.x; k < mine.size; k += blockDim.x) {
        uint4 data[RANKS], own = load<T, uint4>(in, mine.first + k, count);
        #pragma unroll
        for (int p = 0; p < RANKS; ++p)
            data[p] = p == team.rank ? own : room<RANKS>(team, team.memory[team.rank], SHARES, p, block)[k];
        float sum[N];
        add_up<T, uint4, RANKS>(data, sum);
        uint4 result = packed<T, uint4>(sum);
        #pragma unroll
        for (int p = 0; p < RANKS; ++p)
            if (p != team.rank) room<RANKS>(team, team.memory[p], SUMS, team.rank, block)[k] = result;
        store<T, uint4>(out, mine.first + k, count, result);
    }
    exchange<RANKS>(team, state, block, SUMS, flag);
    #pragma unroll 1
    for (int p = 0; p < RANKS; ++p) {
        if (p == team.rank) continue;
        Part part = part_of<RANKS>(total, p, block, blocks);
        const uint4* sums = room<RANKS>(team, team.memory[team.rank], SUMS, p, block);
        for (u32 k = threadIdx.x; k < part.size; k += blockDim.x) store<T, uint4>(out, part.first + k, count, sums[k]);
    }
    __syncthreads();
    if (threadIdx.x == 0) state->calls = flag;
}

// ---- LL two-shot: the same two messages, each data with flags as the one-shot's ----

// out = the sum over ranks of in, `count` numbers, aligned to 8 bytes. The array is cut into pieces of `each` lines, a
// block's RANKS pieces side by side, of which rank p adds up the p-th. Lines behind the end are sent as well: so every
// block gets as many lines from each rank, and nobody has to know where others end.
//
// Thread t of a rank has to do with the lines t, t + blockDim.x, ... of each piece, in all steps. It sends the sum of the
// line that it has received, so that no step waits for another thread; and `out` may be `in`.
//
// One set of lines for each message is enough, for the reason that holds for the rooms above, line by line. Rank r writes
// into p's PARTS in call c + 1 when its own call c has ended, for which it needed p's sum of that very line; and p made
// that of what it had read there. r writes into p's TOTALS in call c + 1 when it has received p's part of the same line
// in that call; and p sent that after its call c had ended, when it had read all TOTALS.
//
// Who misses a part sends no sum of it: a sum that lacks something must not look like one that is right.
template <class T, int RANKS>
__device__ void two_shot_ll(const Team& team, u32 block, u32 blocks, const T* in, T* out, u32 count) {
    constexpr u32 N = IN<T, u64>;
    u32 total = (count + N - 1) / N, each = (total + RANKS * blocks - 1) / (RANKS * blocks);
    u32 first = block * RANKS * each, own = first + team.rank * each;
    State* state = team.state + 2 * team.blocks + block;
    u64 head[RANKS]; // on its way while the state is
    #pragma unroll
    for (int p = 0; p < RANKS; ++p)
        head[p] = threadIdx.x < each ? load<T, u64>(in, first + p * each + threadIdx.x, count) : 0;
    State before = begun(state);
    if (before.fault) return;
    u32 flag = number(before.calls);
    #pragma unroll 1
    for (u32 k = threadIdx.x; k < each; k += blockDim.x) {
        u64 data[RANKS]; // all of it is asked for before any of it is sent
        #pragma unroll
        for (int p = 0; p < RANKS; ++p)
            data[p] = k == threadIdx.x ? head[p] : load<T, u64>(in, first + p * each + k, count);
        #pragma unroll
        for (int p = 0; p < RANKS; ++p)
            if (p != team.rank) send_to<RANKS>(team, p, PARTS, block, k, data[p], flag);
    }
    bool whole = true;
    #pragma unroll 1
    for (u32 k = threadIdx.x; k < each; k += blockDim.x) {
        u64 data[RANKS], mine = load<T, u64>(in, own + k, count);
        #pragma unroll
        for (int p = 0; p < RANKS; ++p) data[p] = mine;
        if (!receive<RANKS>(team, state, PARTS, block, k, flag, data)) {
            whole = false;
            break;
        }
        float sum[N];
        add_up<T, u64, RANKS>(data, sum);
        u64 result = packed<T, u64>(sum);
        send_to_all<RANKS>(team, TOTALS, block, k, result, flag);
        store<T, u64>(out, own + k, count, result);
    }
    #pragma unroll 1
    for (u32 k = threadIdx.x; whole && k < each; k += blockDim.x) {
        u64 data[RANKS];
        if (!receive<RANKS>(team, state, TOTALS, block, k, flag, data)) break;
        #pragma unroll
        for (int p = 0; p < RANKS; ++p)
            if (p != team.rank) store<T, u64>(out, first + p * each + k, count, data[p]);
    }
    __syncthreads();
    if (threadIdx.x == 0) state->calls = flag;
}

// ---- Kernels ----

template <class T, int RANKS>
__global__ void one_shot_kernel(const __grid_constant__ Team team, const T* in, T* out, u32 count) {
    one_shot<T, RANKS>(team, blockIdx.x, gridDim.x, in, out, count);
}

template <class T, int RANKS>
__global__ void two_shot_kernel(const __grid_constant__ Team team, const T* in, T* out, u32 count) {
    two_shot<T, RANKS>(team, blockIdx.x, gridDim.x, in, out, count);
}

template <class T, int RANKS>
__global__ void two_shot_ll_kernel(const __grid_constant__ Team team, const T* in, T* out, u32 count) {
    two_shot_ll<T, RANKS>(team, blockIdx.x, gridDim.x, in, out, count);
}

template <class T, int RANKS>
__global__ void fused_kernel(
    const __grid_constant__ Team team, const T* in, const T* residual, const T* weight, T* hidden, T* out, u32 rows,
    u32 width, float epsilon
) {
    fused<T, RANKS>(team, blockIdx.x, gridDim.x, in, residual, weight, hidden, out, rows, width, epsilon);
}

// What follows an all-reduce that is not fused with it: the same rows, a block each.
template <class T>
__global__ void add_norm_kernel(
    const T* in, const T* residual, const T* weight, T* hidden, T* out, u32 width, float epsilon
) {
    u32 lines = width / IN<T, u64>;
    u64 row = (u64)blockIdx.x * lines;
    Row<T> mine;
    #pragma unroll
    for (u32 turn = 0; turn < ROW_TURNS; ++turn) {
        u32 line = threadIdx.x + turn * blockDim.x;
        if (line >= lines) break;
        u64 data[1] = {((const u64*)in)[row + line]};
        float sum[IN<T, u64>];
        add_up<T, u64, 1>(data, sum);
        mine.take(turn, sum, ((const u64*)residual)[row + line], hidden + row * IN<T, u64>, line);
    }
    mine.norm(weight, out + row * IN<T, u64>, lines, epsilon);
}
