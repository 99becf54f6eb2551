// Attention of one query per sequence over keys and values in pages, for a GPU of compute capability 9.0.
//
// A tile is a page: PAGE keys and values of one head. The tiles of all sequences and heads stand in one row, and every
// block takes an equal share of the row, so a share may end within a sequence. One warp copies tiles ahead of the
// others, through a ring of stages. The other warps compute: each takes KEYS keys of a tile, for all queries of the
// group at once, and keeps its own largest score, total and sums. At the end of a sequence's tiles the block joins them.
// A block that has only some of the tiles stores its part, and the last block to do so joins the parts.
//
// Products have keys or columns of values as their 16 rows, and the group's queries as their 8 columns.

#ifdef BFLOAT16
#include <cuda_bf16.h>
typedef __nv_bfloat16 number;
#define TYPE "bf16"
#define PAIR __floats2bfloat162_rn
#define NARROW __float2bfloat16_rn
#else
#include <cuda_fp16.h>
typedef __half number;
#define TYPE "f16"
#define PAIR __floats2half2_rn
#define NARROW __float2half_rn
#endif

typedef unsigned u32;
typedef unsigned long long u64;
constexpr int PAGE = 64, WARPS = 4, KEYS = PAGE / WARPS, QUERIES = 8, ALL = ~0u;
constexpr int PIECES = WIDTH / 16;             // of 16 columns of values
constexpr int OWN = PIECES / WARPS;            // pieces that a warp joins
constexpr u32 PART_BYTES = PAGE * 128;         // a copy brings 64 rows of 64 elements: the span of the swizzle
constexpr u32 TILE_BYTES = PAGE * WIDTH * 2;   // of keys, or of values
constexpr float NOTHING = -1e30f;

struct alignas(64) Map { u64 words[16]; };

struct Shared {
    u64 full[STAGES], empty[STAGES];
    u32 last;
    float largest[WARPS][QUERIES], total[WARPS][QUERIES];
    float4 sums[WARPS][PIECES - OWN][32];      // of pieces that other warps join
};

// What a block knows of one sequence and head: m, l and o of its keys.
struct Part {
    float largest[QUERIES], total[QUERIES];
    float4 sums[PIECES][32];
};

// ---- One instruction each ------------------------------------------------------------------------------------------

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u64& barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(&barrier)), "r"(count) : "memory");
}
__device__ void arrive(u64& barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(&barrier)) : "memory");
}
__device__ void expect(u64& barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(&barrier)), "r"(bytes) : "memory");
}
__device__ void wait(u64& barrier, u32 parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN; }" :: "r"(shared_address(&barrier)), "r"(parity) : "memory");
}
// A page of a head, in parts of 64 columns, to shared memory; its bytes count at the barrier. Nothing reads it again, so
// it leaves L2 before the tables and the parts that blocks store.
constexpr u64 EVICT_FIRST = 0x12F0000000000000;  // what createpolicy gives
__device__ void load(u32 to, const Map& map, int page, u64& barrier)
{
    for (int part = 0; part < WIDTH / 64; ++part)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" :: "r"(to + part * PART_BYTES), "l"(&map), "r"(64 * part),
                     "r"(0), "r"(page), "r"(shared_address(&barrier)), "l"(EVICT_FIRST) : "memory");
}
__device__ void load_matrices(u32 (&a)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from) : "memory");
}
__device__ void load_transposed(u32 (&a)[4], u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from) : "memory");
}
__device__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ u32 transposed(u32 matrix)
{
    u32 d;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(matrix));
    return d;
}
__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ u32 pack(float low, float high)
{
    auto both = PAIR(low, high);
    return *(u32*)&both;
}
__device__ u32 add(u32* count, u32 more)
{
    u32 before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(more) : "memory");
    return before;
}
__device__ void meet() { asm volatile("bar.sync 1, %0;" :: "n"(32 * WARPS) : "memory"); }  // the warps that compute

// Where 16 bytes of a tile lie: rows of 128 bytes, in which the swizzle exchanges pieces of 16 bytes.
__device__ u32 place(u32 tile, int row, int piece)
{
    return tile + piece / 8 * PART_BYTES + row * 128 + ((piece % 8 ^ row % 8) << 4);
}

// ---- Who computes what ---------------------------------------------------------------------------------------------

// Tiles before tile `first` of all sequences, heads and pages, in this order, and a walk through a block's share.
struct Share {
    const int* lengths;
    int sequences, heads;
    int all, begin, end;                  // tiles; this block has those from `begin` to `end`
    int sequence, head, tiles, start;     // where the walk is: the sequence's tiles for each head, the first one's number

    __device__ int tiles_of(int s) const { return (lengths[s] + PAGE - 1) / PAGE; }

    __device__ Share(const int* lengths, int sequences, int heads) : lengths(lengths), sequences(sequences), heads(heads)
    {
        int lane = threadIdx.x % 32;
        all = 0;
        for (int s = lane; s < sequences; s += 32) all += tiles_of(s) * heads;
        for (int step = 16; step; step /= 2) all += __shfl_xor_sync(ALL, all, step);
        begin = (u32)all * blockIdx.x / gridDim.x;
        end = (u32)all * (blockIdx.x + 1) / gridDim.x;
        int before = 0, upto = 0;
        for (sequence = 0; begin < end; sequence += 32) {
            int count = sequence + lane < sequences ? tiles_of(sequence + lane) * heads : 0;
            upto = count;
            for (int step = 1; step < 32; step *= 2) {
                int lower = __shfl_up_sync(ALL, upto, step);
                if (lane >= step) upto += lower;
            }
            int found = __ffs(__ballot_sync(ALL, begin < before + upto)) - 1;
            if (found >= 0) {
                sequence += found;
                before += __shfl_sync(ALL, upto - count, found);
                break;
            }
            before += __shfl_sync(ALL, upto, 31);
        }
        if (begin == end) return;
        tiles = tiles_of(sequence);
        head = (begin - before) / tiles;
        start = before + head * tiles;
    }
    // The block's tiles of this sequence and head.
    __device__ int first() const { return max(begin, start) - start; }
    __device__ int behind() const { return min(end, start + tiles) - start; }
    __device__ bool more() const { return start < end; }
    __device__ void advance()
    {
        start += tiles;
        if (++head < heads) return;
        head = 0;
        do ++sequence; while (sequence < sequences && !(tiles = tiles_of(sequence)));
    }
    __device__ int block_of(int tile) const { return ((u32)(tile + 1) * gridDim.x - 1) / all; }
    // A block has two parts at most that are not whole: that of its first tile, and that of its last.
    __device__ int slot(int block) const { return 2 * block + ((u32)all * block / gridDim.x < start); }
};

// ---- The warp that copies ------------------------------------------------------------------------------------------

__device__ void copy(Shared& shared, u32 ring, const Map& map_k, const Map& map_v, Share share, const int* table,
                     int columns)
{
    int lane = threadIdx.x % 32, stage = 0;
    u32 phase = 1;  // the first time round nobody has to empty a stage
    for (; share.more(); share.advance()) {
        const int* pages = table + (long long)share.sequence * columns;
        int page = 0, behind = share.behind();
        // A lane loads the number of one page in 32, ahead of its copy.
        int next = share.first() + lane < behind ? pages[share.first() + lane] : 0;
        for (int i = 0, tile = share.first(); tile < behind; ++i, ++tile) {
            if (i % 32 == 0) {
                page = next;
                next = tile + 32 + lane < behind ? pages[tile + 32 + lane] : 0;
            }
            int at = __shfl_sync(ALL, page, i % 32) * share.heads + share.head;
            if (lane == 0) {
                wait(shared.empty[stage], phase);
                expect(shared.full[stage], 2 * TILE_BYTES);
                load(ring + stage * 2 * TILE_BYTES, map_k, at, shared.full[stage]);
                load(ring + stage * 2 * TILE_BYTES + TILE_BYTES, map_v, at, shared.full[stage]);
            }
            __syncwarp();
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

// ---- The warps that compute ----------------------------------------------------------------------------------------

// Largest score, total and sums of the queries 2 q and 2 q + 1, which the lanes with q = lane % 4 share.
struct State {
    float largest[2], total[2], sums[PIECES][4];

    __device__ State()
    {
        largest[0] = largest[1] = NOTHING;
        total[0] = total[1] = 0;
#pragma unroll
        for (int p = 0; p < PIECES; ++p) sums[p][0] = sums[p][1] = sums[p][2] = sums[p][3] = 0;
    }
    __device__ void shrink(float by0, float by1)
    {
        total[0] *= by0, total[1] *= by1;
#pragma unroll
        for (int p = 0; p < PIECES; ++p) sums[p][0] *= by0, sums[p][1] *= by1, sums[p][2] *= by0, sums[p][3] *= by1;
    }
};

// One tile's keys from `key` on. `known`: how many keys of the tile the sequence has.
__device__ void attend(State& state, const u32 (&q)[PIECES][2], u32 keys, u32 values, int key, int known, float scale)
{
    int lane = threadIdx.x % 32;
    float s[2][4] = {};  // two sums, so that a product need not wait for the one before it
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        u32 k[4];
        load_matrices(k, place(keys, key + lane % 16, 2 * p + lane / 16));
        multiply(s[p % 2], k, q[p][0], q[p][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        s[0][i] += s[1][i];
        if (key + lane / 4 + i / 2 * 8 >= known) s[0][i] = NOTHING;
    }
    float by[2], offset[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float largest = fmaxf(s[0][i], s[0][i + 2]);
        for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, step));
        largest = fmaxf(largest, state.largest[i]);
        by[i] = power_of_two((state.largest[i] - largest) * scale);
        state.largest[i] = largest;
        offset[i] = largest * scale;
    }
    if (__any_sync(ALL, by[0] != 1 || by[1] != 1)) state.shrink(by[0], by[1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        bool there = key + lane / 4 + i / 2 * 8 < known;  // without a key in sight the largest score is no score
        s[0][i] = there ? power_of_two(s[0][i] * scale - offset[i % 2]) : 0;
        state.total[i % 2] += s[0][i];
    }
    u32 w0 = transposed(pack(s[0][0], s[0][1])), w1 = transposed(pack(s[0][2], s[0][3]));
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        u32 v[4];
        load_transposed(v, place(values, key + lane % 8 + lane / 16 * 8, 2 * p + lane / 8 % 2));
        multiply(state.sums[p], v, w0, w1);
    }
}

// A page's values behind the sequence's end may be anything, also NaN, which a weight of 0 does not hide.
__device__ void clear(u32 values, int key, int known)
{
    for (int i = threadIdx.x % 32; i < KEYS * WIDTH / 8; i += 32) {
        int row = key + i / (WIDTH / 8);
        if (row >= known)
            asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};"
                         :: "r"(place(values, row, i % (WIDTH / 8))), "r"(0) : "memory");
    }
    __syncwarp();
}

// Joins the states of the block's warps: afterwards `state` has the pieces of this warp.
__device__ void join(Shared& shared, State& state)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 2; ++i)
        for (int step = 4; step < 32; step *= 2) state.total[i] += __shfl_xor_sync(ALL, state.total[i], step);
    meet();  // what a join before this one left has been read
    if (lane < 4)
        for (int i = 0; i < 2; ++i) shared.largest[warp][2 * lane + i] = state.largest[i];
    meet();
    float by[2];
    for (int i = 0; i < 2; ++i) {
        float largest = NOTHING;
        for (int w = 0; w < WARPS; ++w) largest = fmaxf(largest, shared.largest[w][lane % 4 * 2 + i]);
        by[i] = power_of_two(state.largest[i] - largest);
        state.largest[i] = largest;
    }
    state.shrink(by[0], by[1]);
    if (lane < 4)
        for (int i = 0; i < 2; ++i) shared.total[warp][2 * lane + i] = state.total[i];
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        int owner = p / OWN;
        float* s = state.sums[p];
        if (owner != warp)
            shared.sums[warp][(owner - (owner > warp)) * OWN + p % OWN][lane] = make_float4(s[0], s[1], s[2], s[3]);
    }
    meet();
    for (int i = 0; i < 2; ++i) {
        state.total[i] = 0;
        for (int w = 0; w < WARPS; ++w) state.total[i] += shared.total[w][lane % 4 * 2 + i];
    }
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        if (p / OWN != warp) continue;
        for (int w = 0; w < WARPS; ++w) {
            if (w == warp) continue;
            float4 other = shared.sums[w][(warp - (warp > w)) * OWN + p % OWN][lane];
            state.sums[p][0] += other.x, state.sums[p][1] += other.y;
            state.sums[p][2] += other.z, state.sums[p][3] += other.w;
        }
    }
}

__device__ void store(number* out, const State& state)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
        if (p / OWN != warp) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int query = lane % 4 * 2 + i % 2;
            if (query < GROUP)
                out[query * WIDTH + 16 * p + lane / 4 + i / 2 * 8] = NARROW(state.sums[p][i] / state.total[i % 2]);
        }
    }
}

__device__ void store(Part& part, const State& state)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0 && lane < 4)
        for (int i = 0; i < 2; ++i) {
            part.largest[2 * lane + i] = state.largest[i];
            part.total[2 * lane + i] = state.total[i];
        }
#pragma unroll
    for (int p = 0; p < PIECES; ++p)
        if (p / OWN == warp)
            part.sums[p][lane] = make_float4(state.sums[p][0], state.sums[p][1], state.sums[p][2], state.sums[p][3]);
}

// Joins the parts of this sequence and head, which all blocks have stored.
__device__ void join_parts(State& state, const Part* parts, const Share& share)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, two = lane % 4 * 2;
    int first = share.block_of(share.start), last = share.block_of(share.start + share.tiles - 1);
    state = State();
#pragma unroll 4
    for (int b = first; b <= last; ++b) {
        const Part& part = parts[share.slot(b)];
        float by[2], shrink[2];
        for (int i = 0; i < 2; ++i) {
            float largest = fmaxf(state.largest[i], part.largest[two + i]);
            shrink[i] = power_of_two(state.largest[i] - largest);
            by[i] = power_of_two(part.largest[two + i] - largest);
            state.largest[i] = largest;
            state.total[i] = shrink[i] * state.total[i] + by[i] * part.total[two + i];
        }
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            if (p / OWN != warp) continue;
            float4 sums = part.sums[p][lane];
            state.sums[p][0] = shrink[0] * state.sums[p][0] + by[0] * sums.x;
            state.sums[p][1] = shrink[1] * state.sums[p][1] + by[1] * sums.y;
            state.sums[p][2] = shrink[0] * state.sums[p][2] + by[0] * sums.z;
            state.sums[p][3] = shrink[1] * state.sums[p][3] + by[1] * sums.w;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * (WARPS + 1), 1)
decode(const __grid_constant__ Map map_k, const __grid_constant__ Map map_v, const number* queries, const int* table,
       const int* lengths, number* out, Part* parts, u32* counts, int sequences, int heads, int columns, float scale)
{
    extern __shared__ __align__(1024) char memory[];
    u32 ring = (shared_address(memory) + 1023) & ~1023u;
    __shared__ Shared shared;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(shared.full[s], 1);
            init(shared.empty[s], WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    Share share(lengths, sequences, heads);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stage = 0;
    if (warp == WARPS) {
        copy(shared, ring, map_k, map_v, share, table, columns);
        return;
    }
    u32 phase = 0;
    for (; share.more(); share.advance()) {
        long long pair = (long long)share.sequence * heads + share.head;
        u32 q[PIECES][2];
        const number* mine = queries + (pair * GROUP + lane / 4) * WIDTH + lane % 4 * 2;
#pragma unroll
        for (int p = 0; p < PIECES; ++p)
            for (int i = 0; i < 2; ++i) q[p][i] = lane / 4 < GROUP ? *(const u32*)(mine + 16 * p + 8 * i) : 0;
        State state;
        int first = share.first(), behind = share.behind(), length = lengths[share.sequence];
        for (int tile = first; tile < behind; ++tile) {
            u32 keys = ring + stage * 2 * TILE_BYTES, values = keys + TILE_BYTES;
            int known = min(PAGE, length - tile * PAGE);
            wait(shared.full[stage], phase);
            if (known < (warp + 1) * KEYS) clear(values, warp * KEYS, known);
            attend(state, q, keys, values, warp * KEYS, known, scale);
            if (known < (warp + 1) * KEYS) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (lane == 0) arrive(shared.empty[stage]);
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
        // From here on a largest score is an exponent.
        state.largest[0] *= scale, state.largest[1] *= scale;
        join(shared, state);
        if (behind - first < share.tiles) {
            store(parts[share.slot(blockIdx.x)], state);
            meet();
            if (threadIdx.x == 0) {
                u32 done = add(counts + pair, behind - first) + behind - first;
                shared.last = done == share.tiles;
                if (shared.last) counts[pair] = 0;  // for the next launch
            }
            meet();
            if (!shared.last) continue;
            join_parts(state, parts, share);
        }
        store(out + pair * GROUP * WIDTH, state);
    }
}
