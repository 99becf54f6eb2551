"""A kernel with one bulk copy, whatever a test has it be."""

from __future__ import annotations

import numpy as np

from tests.emulator.plans import buffer, compile_cuda, plan_of
from warplab.emulator import execute
from warplab.hardware.records import Chip
from warplab.plan.execution import Execution
from warplab.plan.model import Pointer, Role, TensorMap

# `body` is one line of the kernel each, from line FIRST on.
KERNEL = """
struct alignas(64) Map {{ unsigned long long words[16]; }};
typedef unsigned long long u64;
__device__ unsigned at(const void* p) {{ return (unsigned)__cvta_generic_to_shared(p); }}
__device__ void init(u64* b, int n) {{ asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n)); }}
__device__ void expect(u64* b, int n) {{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(b)), "r"(n) : "memory");
}}
__device__ void wait(u64* b, int parity) {{
    asm volatile("{{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }}"
                 :: "r"(at(b)), "r"(parity) : "memory");
}}
__device__ unsigned peer(const void* p, int rank) {{
    unsigned result;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(at(p)), "r"(rank));
    return result;
}}
#define BYTES "mbarrier::complete_tx::bytes"
#define LOAD(to, from, n, b) asm volatile("cp.async.bulk.shared::cluster.global." BYTES " [%0], [%1], %2, [%3];" \\
    :: "r"(at(to)), "l"(from), "r"(n), "r"(at(b)) : "memory");
#define SEND(to, from, n, b) asm volatile("cp.async.bulk.shared::cluster.shared::cta." BYTES " [%0], [%1], %2, [%3];" \\
    :: "r"(to), "r"(at(from)), "r"(n), "r"(b) : "memory");
#define MULTI(to, from, n, b, m) \\
    asm volatile("cp.async.bulk.shared::cluster.global." BYTES ".multicast::cluster [%0], [%1], %2, [%3], %4;" \\
    :: "r"(at(to)), "l"(from), "r"(n), "r"(at(b)), "h"((unsigned short)(m)) : "memory");
#define STORE(to, from, n) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \\
    :: "l"(to), "r"(at(from)), "r"(n) : "memory");
#define ADD(to, from, n) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" \\
    :: "l"(to), "r"(at(from)), "r"(n) : "memory");
#define TILE(to, map, x, y, b) asm volatile( \\
    "cp.async.bulk.tensor.2d.shared::cluster.global." BYTES " [%0], [%1, {{%2, %3}}], [%4];" \\
    :: "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(b)) : "memory");
#define TILES(to, map, x, y, b, m) asm volatile( \\
    "cp.async.bulk.tensor.2d.shared::cluster.global." BYTES ".multicast::cluster [%0], [%1, {{%2, %3}}], [%4], %5;" \\
    :: "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(b)), "h"((unsigned short)(m)) : "memory");
#define COMMIT asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#define WAIT(n) asm volatile("cp.async.bulk.wait_group " #n ";" ::: "memory");
#define READ(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory");
#define FENCE asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#define CLUSTER asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
extern "C" __global__ void {cluster} k(const __grid_constant__ Map map, const void* copy, int* a, int* out)
{{
    __shared__ __align__(1024) int tile[1024];
    __shared__ u64 full, other;
    int t = threadIdx.x;
    if (t == 0) {{ init(&full, 1); init(&other, 1); }}
    __syncthreads();
{body}
}}
"""
FIRST = 1 + KERNEL.split("{body}")[0].count("\n")
WAITING = KERNEL[: KERNEL.index("(parity)")].count("\n") + 1 - FIRST
A = np.arange(1000, 1000 + 2048, dtype=np.int32).reshape(32, 64)


def run(
    body: str,
    threads: int = 64,
    blocks: int = 1,
    cluster: int = 0,
    seed: int | None = None,
    out: int = 1024,
    caches: Chip | None = None,
    **changes,
) -> Execution:
    """`a` is A, `out` starts as -1; the map is of `a` with boxes of 8 x 32."""
    dims = f"__cluster_dims__({cluster}, 1, 1)" if cluster else ""
    source = KERNEL.format(body=body.strip("\n"), cluster=dims)
    result = np.full(out, -1, np.int32)
    buffers = {"a": buffer("a", A, Role.INPUT), "out": buffer("out", result, Role.INOUT)}
    fields = {"shape": (64, 32), "strides": (256,), "box": (32, 8), "element_strides": (1, 1), "swizzle": 128} | changes
    described = TensorMap("a", 0, "int32", **fields)
    arguments = (described, described, Pointer("a", 0, "a"), Pointer("out", 0, "out"))
    plan = plan_of(compile_cuda(source), "k", buffers, arguments, (blocks,), (threads,), source=source)
    return execute(plan, {"a": A, "out": result}, instruction_budget=20_000_000, seed=seed, caches=caches)
