"""Shared memory that is handed over too early: while a bulk copy, or another lane, may still read or write it.

With `mend` each kernel is right: FIX(right, wrong) is all that differs.
"""

import cupy

from warplab.ptx import tensor_map

SOURCE = r"""
#ifdef MENDED
#define FIX(right, wrong) right
#else
#define FIX(right, wrong) wrong
#endif
struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;
#define ADDRESS(p) (unsigned)__cvta_generic_to_shared(p)
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(ADDRESS(b)) : "memory")
#define EXPECT(b, n) \
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(ADDRESS(b)), "r"(n) : "memory")
#define AWAIT(b, parity) \
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }" \
                 :: "r"(ADDRESS(b)), "r"(parity) : "memory")
#define LOAD(to, from, bytes, b) \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
                 :: "r"(ADDRESS(to)), "l"(from), "r"(bytes), "r"(ADDRESS(b)) : "memory")
#define LOAD_TILE(to, map, x, y, b) \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes " \
                 "[%0], [%1, {%2, %3}], [%4];" \
                 :: "r"(ADDRESS(to)), "l"(map), "r"(x), "r"(y), "r"(ADDRESS(b)) : "memory")
#define STORE(to, from, bytes) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \
                 :: "l"(to), "r"(ADDRESS(from)), "r"(bytes) : "memory")
#define STORE_TILE(map, x, y, from) \
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" \
                 :: "l"(map), "r"(x), "r"(y), "r"(ADDRESS(from)) : "memory")
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory")
#define FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define ARGUMENTS const float* a, float* out, const __grid_constant__ Map from, const __grid_constant__ Map to
#define START(arrivals) \
    __shared__ __align__(128) float tile[128]; \
    __shared__ u64 full, empty; \
    int t = threadIdx.x, lane = t % 32; \
    if (t == 0) { INIT(&full, 1); INIT(&empty, arrivals); } \
    tile[t] = a[t]; \
    tile[t + 64] = a[t + 64]; \
    FENCE(); \
    __syncthreads()

extern "C" __global__ void written_by_its_own_thread(ARGUMENTS)
{
    START(1);
    if (t == 0) {
        STORE(out, tile, 512);
        COMMIT();
        FIX(WAIT_READ(0), );
        tile[5] = 1;  // <- finding: race
        FIX(, WAIT_READ(0));
    }
}

extern "C" __global__ void loaded_by_its_own_thread(ARGUMENTS)
{
    START(1);
    if (t == 0) {
        STORE(out, tile, 512);
        COMMIT();
        FIX(WAIT_READ(0), );
        EXPECT(&full, 512);
        LOAD(tile, a, 512, &full);  // <- finding: race
        FIX(, WAIT_READ(0));
    }
    AWAIT(&full, 0);
    out[128 + t] = tile[t];
}

extern "C" __global__ void told_by_an_mbarrier(ARGUMENTS)
{
    START(1);
    if (t == 0) {
        STORE(out, tile, 512);
        COMMIT();
        FIX(WAIT_READ(0), );
        ARRIVE(&empty);
        FIX(, WAIT_READ(0));
    }
    if (t >= 32) {
        AWAIT(&empty, 0);
        tile[t] = 1;  // <- finding: race
    }
}

extern "C" __global__ void told_by_a_barrier(ARGUMENTS)
{
    START(1);
    if (t == 0) {
        STORE(out, tile, 512);
        COMMIT();
        FIX(WAIT_READ(0), );
    }
    __syncthreads();
    if (t == 0) FIX(, WAIT_READ(0));
    if (t >= 32) tile[t] = 1;  // <- finding: race
}

extern "C" __global__ void stage_loaded_again(ARGUMENTS)
{
    START(1);
    for (int round = 0; round < 3; ++round) {
        if (t == 32) {
            if (round) AWAIT(&empty, round - 1 & 1);
            EXPECT(&full, 512);
            LOAD(tile, a + 128 * round, 512, &full);  // <- finding: race
        }
        if (t == 0) {
            AWAIT(&full, round & 1);
            STORE(out + 128 * round, tile, 512);
            COMMIT();
            FIX(WAIT_READ(0), );
            ARRIVE(&empty);
            FIX(, WAIT_READ(0));
        }
    }
}

extern "C" __global__ void tensor_stage_loaded_again(ARGUMENTS)
{
    START(1);
    for (int round = 0; round < 3; ++round) {
        if (t == 32) {
            if (round) AWAIT(&empty, round - 1 & 1);
            EXPECT(&full, 512);
            LOAD_TILE(tile, &from, 0, 8 * round, &full);  // <- finding: race
        }
        if (t == 0) {
            AWAIT(&full, round & 1);
            STORE_TILE(&to, 0, 8 * round, tile);
            COMMIT();
            FIX(WAIT_READ(0), );
            ARRIVE(&empty);
            FIX(, WAIT_READ(0));
        }
    }
}

extern "C" __global__ void one_group_too_few(ARGUMENTS)
{
    START(1);
    for (int round = 0; round < 4; ++round) {
        float* half = tile + 64 * (round & 1);
        if (t == 0) WAIT_READ(FIX(1, 2));
        __syncthreads();
        half[t] = a[64 * round + t];  // <- finding: race
        FENCE();
        __syncthreads();
        if (t == 0) {
            STORE(out + 64 * round, half, 256);
            COMMIT();
        }
    }
    if (t == 0) WAIT_READ(0);
}

extern "C" __global__ void awaited_by_another_thread(ARGUMENTS)
{
    START(1);
    if (t == 0) {
        STORE(out, tile, 512);
        COMMIT();
    }
    __syncwarp();
    if (t == FIX(0, 1)) WAIT_READ(0);
    __syncthreads();
    tile[t] = 1;  // <- finding: race
    __syncthreads();
    if (t == 0) WAIT_READ(0);
}

extern "C" __global__ void lane_hands_back_a_stage(ARGUMENTS)
{
    START(1);
    for (int round = 0; round < 3; ++round) {
        if (t == 32) {
            if (round) AWAIT(&empty, round - 1 & 1);
            EXPECT(&full, 512);
            LOAD(tile, a + 128 * round, 512, &full);  // <- finding: race
        }
        if (t < 32) {
            AWAIT(&full, round & 1);
            out[32 * round + t] = tile[2 * t] + tile[127 - t];
            FIX(__syncwarp(), );
            if (lane == 0) ARRIVE(&empty);
        }
    }
}

extern "C" __global__ void lane_hands_back_a_tensor_stage(ARGUMENTS)
{
    START(1);
    for (int round = 0; round < 3; ++round) {
        if (t == 32) {
            if (round) AWAIT(&empty, round - 1 & 1);
            EXPECT(&full, 512);
            LOAD_TILE(tile, &from, 0, 8 * round, &full);  // <- finding: race
        }
        if (t < 32) {
            AWAIT(&full, round & 1);
            float4 four = reinterpret_cast<float4*>(tile)[t];
            out[32 * round + t] = four.x + four.y + four.z + four.w;
            FIX(__syncwarp(), );
            if (lane == 0) ARRIVE(&empty);
        }
    }
}

extern "C" __global__ void lane_hands_back_to_stores(ARGUMENTS)
{
    START(1);
    if (t < 32) {
        out[t] = tile[127 - t];
        FIX(__syncwarp(), );
        if (lane == 0) ARRIVE(&empty);
    } else {
        AWAIT(&empty, 0);
        tile[64 + t] = 1;  // <- finding: race
    }
}

extern "C" __global__ void lane_tells_of_stores(ARGUMENTS)
{
    START(1);
    if (t < 32) {
        tile[t] = 2 * a[t];
        FIX(__syncwarp(), );
        if (lane == 0) ARRIVE(&full);
    } else {
        AWAIT(&full, 0);
        out[t] = tile[63 - t];  // <- finding: race
    }
}

extern "C" __global__ void half_a_warp_hands_back(ARGUMENTS)
{
    START(16);
    if (t < 32) {
        out[t] = tile[t];
        FIX(__syncwarp(), );
        if (lane < 16) ARRIVE(&empty);
    } else {
        AWAIT(&empty, 0);
        tile[t - 32] = 1;  // <- finding: race
    }
}

extern "C" __global__ void common_word_handed_back(ARGUMENTS)
{
    START(1);
    if (t < 32) {
        out[t] = t * tile[7];
        FIX(__syncwarp(), );
        if (lane == 31) ARRIVE(&empty);
    } else {
        AWAIT(&empty, 0);
        if (t == 32) tile[7] = 1;  // <- finding: race
    }
}
"""

modules = [cupy.RawModule(code=SOURCE, options=("-std=c++17", *defined)) for defined in ((), ("-DMENDED",))]


def _run(name, a, out, mend):
    maps = (tensor_map(x.reshape(32, 16), (8, 16), swizzle=0) for x in (a, out))
    modules[mend].get_function(name)((1,), (64,), (a, out, *maps))


def written_by_its_own_thread(a, out, mend):
    _run("written_by_its_own_thread", a, out, mend)


def loaded_by_its_own_thread(a, out, mend):
    _run("loaded_by_its_own_thread", a, out, mend)


def told_by_an_mbarrier(a, out, mend):
    _run("told_by_an_mbarrier", a, out, mend)


def told_by_a_barrier(a, out, mend):
    _run("told_by_a_barrier", a, out, mend)


def stage_loaded_again(a, out, mend):
    _run("stage_loaded_again", a, out, mend)


def tensor_stage_loaded_again(a, out, mend):
    _run("tensor_stage_loaded_again", a, out, mend)


def one_group_too_few(a, out, mend):
    _run("one_group_too_few", a, out, mend)


def awaited_by_another_thread(a, out, mend):
    _run("awaited_by_another_thread", a, out, mend)


def lane_hands_back_a_stage(a, out, mend):
    _run("lane_hands_back_a_stage", a, out, mend)


def lane_hands_back_a_tensor_stage(a, out, mend):
    _run("lane_hands_back_a_tensor_stage", a, out, mend)


def lane_hands_back_to_stores(a, out, mend):
    _run("lane_hands_back_to_stores", a, out, mend)


def lane_tells_of_stores(a, out, mend):
    _run("lane_tells_of_stores", a, out, mend)


def half_a_warp_hands_back(a, out, mend):
    _run("half_a_warp_hands_back", a, out, mend)


def common_word_handed_back(a, out, mend):
    _run("common_word_handed_back", a, out, mend)
