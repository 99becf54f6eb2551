"""Bulk and tensor copies by one thread, with the whole shared memory that they touch shown or given."""

import cupy
import numpy as np

from warplab.ptx import tensor_map

module = cupy.RawModule(
    code=r"""
struct alignas(64) Map { unsigned long long words[16]; };
typedef unsigned long long u64;

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void start(u64* barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(u64* barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ int ended(u64* barrier)
{
    int result;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                 : "=r"(result) : "r"(shared_address(barrier)) : "memory");
    return result;
}
__device__ void wait(u64* barrier) { while (!ended(barrier)) { } }
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#define COMMIT asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#define WAIT asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");

extern __shared__ __align__(1024) unsigned tile[];

#define C1 "{%2}"
#define C2 "{%2, %3}"
#define C3 "{%2, %3, %4}"
#define C4 "{%2, %3, %4, %5}"
#define C5 "{%2, %3, %4, %5, %6}"

// Words of `tile` are 0xA5A5A5A5 where the copy writes nothing. It goes to byte `shift` of it.
#define LOAD(rank) \
    extern "C" __global__ void load_##rank( \
        const __grid_constant__ Map map, unsigned* out, int words, int shift, int bytes, \
        int c0, int c1, int c2, int c3, int c4) \
    { \
        __shared__ u64 barrier; \
        for (int i = threadIdx.x; i < words; i += blockDim.x) tile[i] = 0xA5A5A5A5; \
        if (threadIdx.x == 0) start(&barrier, 1); \
        fence(); \
        __syncthreads(); \
        if (threadIdx.x == 0) { \
            expect(&barrier, bytes); \
            asm volatile("cp.async.bulk.tensor." #rank "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes " \
                         "[%0], [%1, " C##rank "], [%7];" \
                         :: "r"(shared_address(tile) + shift), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), \
                            "r"(shared_address(&barrier)) : "memory"); \
        } \
        for (int i = 0; i < 20000 && !ended(&barrier); ++i) { } \
        for (int i = threadIdx.x; i < words; i += blockDim.x) out[i] = tile[i]; \
        if (threadIdx.x == 0) out[words] = ended(&barrier); \
    }
LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5)

#define STORE_FORM(name, form, rank) \
    extern "C" __global__ void name( \
        const __grid_constant__ Map map, const unsigned* image, int words, int shift, \
        int c0, int c1, int c2, int c3, int c4) \
    { \
        for (int i = threadIdx.x; i < words; i += blockDim.x) tile[i] = image[i]; \
        fence(); \
        __syncthreads(); \
        if (threadIdx.x == 0) { \
            asm volatile(form " [%1, " C##rank "], [%0];" \
                         :: "r"(shared_address(tile) + shift), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) \
                         : "memory"); \
            COMMIT WAIT \
        } \
    }
#define STORE(rank) \
    STORE_FORM(store_##rank, "cp.async.bulk.tensor." #rank "d.global.shared::cta.tile.bulk_group", rank)
STORE(1) STORE(2) STORE(3) STORE(4) STORE(5)
#define TENSOR_REDUCE(op) \
    STORE_FORM(tensor_##op, "cp.reduce.async.bulk.tensor.2d.global.shared::cta." #op ".tile.bulk_group", 2)
TENSOR_REDUCE(add) TENSOR_REDUCE(min) TENSOR_REDUCE(max) TENSOR_REDUCE(inc) TENSOR_REDUCE(dec)
TENSOR_REDUCE(and) TENSOR_REDUCE(or) TENSOR_REDUCE(xor)

extern "C" __global__ void bulk_load(const unsigned* x, unsigned* out, int words)
{
    __shared__ u64 barrier;
    if (threadIdx.x == 0) start(&barrier, 1);
    fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&barrier, 4 * words);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(shared_address(tile)), "l"(x), "r"(4 * words), "r"(shared_address(&barrier)) : "memory");
    }
    wait(&barrier);
    for (int i = threadIdx.x; i < words; i += blockDim.x) out[i] = tile[words - 1 - i];
}

#define BULK_STORE(name, form) \
    extern "C" __global__ void name(const unsigned* x, unsigned* out, int words) \
    { \
        for (int i = threadIdx.x; i < words; i += blockDim.x) tile[i] = x[i]; \
        fence(); \
        __syncthreads(); \
        if (threadIdx.x == 0) { \
            asm volatile(form " [%0], [%1], %2;" \
                         :: "l"(out), "r"(shared_address(tile)), "r"(4 * words) : "memory"); \
            COMMIT WAIT \
        } \
    }
BULK_STORE(bulk_store, "cp.async.bulk.global.shared::cta.bulk_group")
#define REDUCE(op, type) \
    BULK_STORE(reduce_##op##_##type, "cp.reduce.async.bulk.global.shared::cta.bulk_group." #op "." #type)
REDUCE(add, u32) REDUCE(add, s32) REDUCE(add, u64) REDUCE(add, f32) REDUCE(add, f64)
BULK_STORE(reduce_add_f16, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16")
BULK_STORE(reduce_add_bf16, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16")
REDUCE(min, f16) REDUCE(max, f16) REDUCE(min, bf16) REDUCE(max, bf16)
REDUCE(min, u32) REDUCE(max, u32) REDUCE(min, s32) REDUCE(max, s32)
REDUCE(min, u64) REDUCE(max, u64) REDUCE(min, s64) REDUCE(max, s64)
REDUCE(inc, u32) REDUCE(dec, u32)
REDUCE(and, b32) REDUCE(or, b32) REDUCE(xor, b32) REDUCE(and, b64) REDUCE(or, b64) REDUCE(xor, b64)

// Each block of a pair sends the first half of its shared memory into the second half of the other's.
__device__ void meet() { asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ unsigned beside(const void* p)
{
    unsigned result;
    asm volatile("{ .reg .b32 r; mov.u32 r, %%cluster_ctarank; xor.b32 r, r, 1; mapa.shared::cluster.u32 %0, %1, r; }"
                 : "=r"(result) : "r"(shared_address(p)));
    return result;
}
#define WITHIN(name, form) \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) name(const unsigned* x, unsigned* out, int words) \
    { \
        __shared__ u64 barrier; \
        for (int i = threadIdx.x; i < 2 * words; i += blockDim.x) tile[i] = x[2 * words * blockIdx.x + i]; \
        if (threadIdx.x == 0) start(&barrier, 1); \
        fence(); \
        meet(); \
        if (threadIdx.x == 0) { \
            expect(&barrier, 4 * words); \
            asm volatile(form " [%0], [%1], %2, [%3];" \
                         :: "r"(beside(tile + words)), "r"(shared_address(tile)), "r"(4 * words), \
                            "r"(beside(&barrier)) : "memory"); \
        } \
        wait(&barrier); \
        for (int i = threadIdx.x; i < words; i += blockDim.x) out[words * blockIdx.x + i] = tile[words + i]; \
        meet(); \
    }
WITHIN(within_copy, "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes")
WITHIN(within_add, "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32")
WITHIN(within_min, "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.min.s32")
WITHIN(within_xor, "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.xor.b32")

// Tiles of 32 x 32 floats go round a ring of STAGES; a consumer warp each doubles one and a second copy takes it back.
#define STAGES 3
extern "C" __global__ void pipeline(const __grid_constant__ Map from, const __grid_constant__ Map to, int tiles)
{
    __shared__ __align__(1024) float stage[STAGES][32][32];
    __shared__ u64 full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) { start(full + i, 1); start(empty + i, 32); }
    }
    fence();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int k = 0; k < tiles; ++k) {
        int s = k % STAGES, round = k / STAGES;
        if (warp == 0 && lane == 0) {
            if (round) {
                int ready = 0;
                while (!ready)
                    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                                 "selp.s32 %0, 1, 0, p; }"
                                 : "=r"(ready) : "r"(shared_address(empty + s)), "r"((round - 1) & 1) : "memory");
            }
            expect(full + s, sizeof stage[s]);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%2, %3}], [%4];"
                         :: "r"(shared_address(stage[s])), "l"(&from), "r"(32 * k), "r"(32 * (int)blockIdx.x),
                            "r"(shared_address(full + s)) : "memory");
        }
        if (warp == 1) {
            int ready = 0;
            while (!ready)
                asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                             "selp.s32 %0, 1, 0, p; }"
                             : "=r"(ready) : "r"(shared_address(full + s)), "r"(round & 1) : "memory");
            for (int row = 0; row < 32; ++row) stage[s][row][lane] *= 2;
            fence();
            __syncwarp();
            if (lane == 0) {
                asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];"
                             :: "r"(shared_address(stage[s])), "l"(&to), "r"(32 * k), "r"(32 * (int)blockIdx.x)
                             : "memory");
                COMMIT
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            }
            __syncwarp();
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(empty + s)) : "memory");
        }
    }
    WAIT
}
""",
    options=("--std=c++17",),
)

DTYPES = (None, "bfloat16")


def _bytes(x, box, steps):
    count = 1
    for n, step in zip(box, steps, strict=True):
        count *= -(-n // step)
    return count * x.dtype.itemsize


def _numbers(x, numbers):
    """Box and element strides, outermost first, and the coordinates, innermost first and five of them."""
    rank = len(x.shape)
    box, steps, at = numbers[:rank], numbers[rank : 2 * rank], numbers[2 * rank :]
    return box, steps, [np.int32(n) for n in (*at, 0, 0, 0, 0)[:5]]


def load(x, out, swizzle, nan, dtype, shift, *numbers):
    box, steps, at = _numbers(x, numbers)
    fill = "nan" if nan else "zero"
    described = tensor_map(x, box, swizzle=swizzle, fill=fill, element_strides=steps, dtype=DTYPES[dtype])
    words = out.shape[0] - 1
    kernel = module.get_function(f"load_{len(x.shape)}")
    kernel.max_dynamic_shared_size_bytes = 4 * words
    arguments = (described, out, np.int32(words), np.int32(shift), np.int32(_bytes(x, box, steps)), *at)
    kernel((1,), (128,), arguments, shared_mem=4 * words)


def store(image, out, swizzle, shift, *numbers):
    box, steps, at = _numbers(out, numbers)
    described = tensor_map(out, box, swizzle=swizzle, element_strides=steps)
    words = image.shape[0]
    kernel = module.get_function(f"store_{len(out.shape)}")
    kernel.max_dynamic_shared_size_bytes = 4 * words
    kernel((1,), (128,), (described, image, np.int32(words), np.int32(shift), *at), shared_mem=4 * words)


OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def reduce_tensor(image, out, swizzle, operation, dtype, *numbers):
    box, steps, at = _numbers(out, numbers)
    described = tensor_map(out, box, swizzle=swizzle, element_strides=steps, dtype=DTYPES[dtype])
    words = image.shape[0]
    kernel = module.get_function(f"tensor_{OPERATIONS[operation]}")
    kernel((1,), (128,), (described, image, np.int32(words), np.int32(0), *at), shared_mem=4 * words)


BULK = (
    *("bulk_load", "bulk_store", "within_copy", "within_add", "within_min", "within_xor"),
    *(f"reduce_add_{t}" for t in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")),
    *(f"reduce_{op}_{t}" for op in ("min", "max") for t in ("f16", "bf16", "u32", "s32", "u64", "s64")),
    *("reduce_inc_u32", "reduce_dec_u32"),
    *(f"reduce_{op}_{t}" for op in ("and", "or", "xor") for t in ("b32", "b64")),
)


def bulk(x, out, which):
    """Either array is taken as words of 32 bits."""
    words = out.shape[0] * out.dtype.itemsize // 4
    blocks = 2 if BULK[which].startswith("within") else 1
    words //= blocks
    module.get_function(BULK[which])((blocks,), (128,), (x, out, np.int32(words)), shared_mem=4 * words * blocks)


def pipeline(x, out):
    tiles = x.shape[1] // 32
    module.get_function("pipeline")(
        (x.shape[0] // 32,), (64,), (tensor_map(x, (32, 32)), tensor_map(out, (32, 32), swizzle=128), np.int32(tiles))
    )
