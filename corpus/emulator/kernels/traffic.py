"""One matrix move, asynchronous copy or atomic per lane, at the places that input arrays give it."""

import cupy
import numpy as np

SLOTS = 1056  # 32 * 33 elements
COPIES = {4: "ca", 8: "ca", 16: "ca", 17: "cg"}  # 17: 16 bytes past L1
ATOMICS = (
    *("add_u32", "min_s32", "exch_u32", "cas_u32", "inc_u32", "exch_u64", "cas_u64", "max_u64", "add_u64"),
    *("add_f32", "add_f64", "add_f16x2"),
)

module = cupy.RawModule(
    code=r"""
#define SLOTS 1056
typedef unsigned u32;
typedef unsigned long long u64;

#define PLACE(pointer) ((u32)__cvta_generic_to_shared(pointer))

#define LDMATRIX(name, form, count, ...) \
    extern "C" __global__ void name(const uint4* a, const int* rows, u32* out) \
    { \
        __shared__ __align__(128) uint4 tile[256]; \
        for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i]; \
        u32 c[count], from = PLACE(tile + rows[threadIdx.x]); \
        __syncwarp(); \
        asm volatile("ldmatrix.sync.aligned.m8n8." form ".shared.b16 " __VA_ARGS__ "r"(from) : "memory"); \
        for (int i = 0; i < count; ++i) out[i * 32 + threadIdx.x] = c[i]; \
    }
#define ONE "{%0}, [%1];" : "=r"(c[0]) :
#define TWO "{%0,%1}, [%2];" : "=r"(c[0]), "=r"(c[1]) :
#define FOUR "{%0,%1,%2,%3}, [%4];" : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]) :
LDMATRIX(ldmatrix_1, "x1", 1, ONE)
LDMATRIX(ldmatrix_2, "x2", 2, TWO)
LDMATRIX(ldmatrix_4, "x4", 4, FOUR)
LDMATRIX(ldmatrix_1_trans, "x1.trans", 1, ONE)
LDMATRIX(ldmatrix_2_trans, "x2.trans", 2, TWO)
LDMATRIX(ldmatrix_4_trans, "x4.trans", 4, FOUR)

#define STMATRIX(name, form, count, ...) \
    extern "C" __global__ void name(const u32* a, const int* rows, uint4* out) \
    { \
        __shared__ __align__(128) uint4 tile[256]; \
        for (int i = threadIdx.x; i < 256; i += 32) tile[i] = make_uint4(0, 0, 0, 0); \
        u32 c[count], to = PLACE(tile + rows[threadIdx.x]); \
        for (int i = 0; i < count; ++i) c[i] = a[i * 32 + threadIdx.x]; \
        __syncwarp(); \
        asm volatile("stmatrix.sync.aligned.m8n8." form ".shared.b16 [%0], " __VA_ARGS__ : "memory"); \
        __syncwarp(); \
        for (int i = threadIdx.x; i < 256; i += 32) out[i] = tile[i]; \
    }
#define FROM_ONE "{%1};" :: "r"(to), "r"(c[0])
#define FROM_TWO "{%1,%2};" :: "r"(to), "r"(c[0]), "r"(c[1])
#define FROM_FOUR "{%1,%2,%3,%4};" :: "r"(to), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
STMATRIX(stmatrix_1, "x1", 1, FROM_ONE)
STMATRIX(stmatrix_2, "x2", 2, FROM_TWO)
STMATRIX(stmatrix_4, "x4", 4, FROM_FOUR)
STMATRIX(stmatrix_4_trans, "x4.trans", 4, FROM_FOUR)

#define COPY(name, form, bytes, type) \
    extern "C" __global__ void name(const type* a, const int* from, const int* to, type* out, u32 lanes, u32 kept) \
    { \
        __shared__ __align__(128) type tile[SLOTS]; \
        for (int i = threadIdx.x; i < SLOTS; i += 32) tile[i] = type(); \
        const type* source = a + from[threadIdx.x]; \
        u32 target = PLACE(tile + to[threadIdx.x]), taken = kept >> threadIdx.x & 1 ? bytes : 0; \
        __syncwarp(); \
        if (lanes >> threadIdx.x & 1) \
            asm volatile("cp.async." form ".shared.global [%0], [%1], " #bytes ", %2;" \
                         :: "r"(target), "l"(source), "r"(taken) : "memory"); \
        asm volatile("cp.async.wait_all;" ::: "memory"); \
        __syncwarp(); \
        for (int i = threadIdx.x; i < SLOTS; i += 32) out[i] = tile[i]; \
    }
COPY(copy_4, "ca", 4, int)
COPY(copy_8, "ca", 8, int2)
COPY(copy_16, "ca", 16, int4)
COPY(copy_17, "cg", 16, int4)

#define ATOM(name, type, reg, form, expression, ...) \
    extern "C" __global__ void atom_shared_##name(const type* a, const int* index, type* out, type* old, u32 lanes) \
    { \
        __shared__ type tile[SLOTS]; \
        for (int i = threadIdx.x; i < SLOTS; i += 32) tile[i] = out[i]; \
        type value = a[threadIdx.x], before = 0; \
        u32 place = PLACE(tile + index[threadIdx.x]); \
        __syncwarp(); \
        if (lanes >> threadIdx.x & 1) \
            asm volatile("atom.shared." form " %0, [%1], " expression ";" \
                         : "=" reg(before) : "r"(place), reg(value) __VA_ARGS__ : "memory"); \
        __syncwarp(); \
        for (int i = threadIdx.x; i < SLOTS; i += 32) out[i] = tile[i]; \
        old[threadIdx.x] = before; \
    } \
    extern "C" __global__ void atom_global_##name(const type* a, const int* index, type* out, type* old, u32 lanes) \
    { \
        type value = a[threadIdx.x], before = 0; \
        type* place = out + index[threadIdx.x]; \
        if (lanes >> threadIdx.x & 1) \
            asm volatile("atom.global." form " %0, [%1], " expression ";" \
                         : "=" reg(before) : "l"(place), reg(value) __VA_ARGS__ : "memory"); \
        old[threadIdx.x] = before; \
    }
#define RED(name, type, reg, form) \
    extern "C" __global__ void red_shared_##name(const type* a, const int* index, type* out, type* old, u32 lanes) \
    { \
        __shared__ type tile[SLOTS]; \
        for (int i = threadIdx.x; i < SLOTS; i += 32) tile[i] = out[i]; \
        type value = a[threadIdx.x]; \
        u32 place = PLACE(tile + index[threadIdx.x]); \
        __syncwarp(); \
        if (lanes >> threadIdx.x & 1) \
            asm volatile("red.shared." form " [%0], %1;" :: "r"(place), reg(value) : "memory"); \
        __syncwarp(); \
        for (int i = threadIdx.x; i < SLOTS; i += 32) out[i] = tile[i]; \
        old[threadIdx.x] = 0; \
    } \
    extern "C" __global__ void red_global_##name(const type* a, const int* index, type* out, type* old, u32 lanes) \
    { \
        type value = a[threadIdx.x]; \
        if (lanes >> threadIdx.x & 1) \
            asm volatile("red.global." form " [%0], %1;" :: "l"(out + index[threadIdx.x]), reg(value) : "memory"); \
        old[threadIdx.x] = 0; \
    }
#define BOTH(name, type, reg, form) ATOM(name, type, reg, form, "%2") RED(name, type, reg, form)
BOTH(add_u32, u32, "r", "add.u32")
BOTH(min_s32, int, "r", "min.s32")
BOTH(inc_u32, u32, "r", "inc.u32")
BOTH(add_u64, u64, "l", "add.u64")
BOTH(max_u64, u64, "l", "max.u64")
BOTH(add_f32, float, "f", "add.f32")
BOTH(add_f64, double, "d", "add.f64")
BOTH(add_f16x2, u32, "r", "add.noftz.f16x2")
ATOM(exch_u32, u32, "r", "exch.b32", "%2")
ATOM(exch_u64, u64, "l", "exch.b64", "%2")
ATOM(cas_u32, u32, "r", "cas.b32", "%2, %3", , "r"(value + 1))
ATOM(cas_u64, u64, "l", "cas.b64", "%2, %3", , "l"(value + 1))
"""
)


def load_rows(a, rows, out, count, transposed):
    """One launch for each row of `rows`."""
    kernel = module.get_function(f"ldmatrix_{count}" + ("_trans" if transposed else ""))
    for i in range(rows.shape[0]):
        kernel((1,), (32,), (a, rows[i], out[i]))


def store_rows(a, rows, out, count, transposed):
    """One launch for each row of `rows`."""
    kernel = module.get_function(f"stmatrix_{count}" + ("_trans" if transposed else ""))
    for i in range(rows.shape[0]):
        kernel((1,), (32,), (a, rows[i], out[i]))


def copy_elements(a, source, target, out, width, lanes, kept):
    """One launch for each row of `source`; `lanes` copy, those of `kept` more than zeros."""
    kernel = module.get_function(f"copy_{width}")
    for i in range(source.shape[0]):
        kernel((1,), (32,), (a, source[i], target[i], out[i], np.uint32(lanes), np.uint32(kept)))


def combine(a, index, out, old, which, space, returns, lanes):
    """One launch for each row of `index`: an atomic of ATOMICS on shared (1) or global (0) memory."""
    name = f"{'atom' if returns else 'red'}_{'shared' if space else 'global'}_{ATOMICS[which]}"
    kernel = module.get_function(name)
    for i in range(index.shape[0]):
        kernel((1,), (32,), (a, index[i], out[i], old[i], np.uint32(lanes)))
