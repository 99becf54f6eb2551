"""Clusters of blocks: where a block is, distributed shared memory, barrier.cluster, and what is found about them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Plan, Role

pytestmark = pytest.mark.stored

HEAD = """
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned map(const void* p, int rank) {
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared_address(p)), "r"(rank));
    return r;
}
__device__ int load(unsigned a) {
    int v; asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v;
}
__device__ void store(unsigned a, int v) {
    asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(a), "r"(v) : "memory");
}
__device__ int rank() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ int blocks() { unsigned r; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
#define ARRIVE asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#define ARRIVE_RELAXED asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#define WAIT asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#define SYNC ARRIVE WAIT
__device__ void init(unsigned long long* b, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(n) : "memory");
}
__device__ void wait(unsigned long long* b, int parity) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
                 :: "r"(shared_address(b)), "r"(parity) : "memory");
}
"""


def plan_of(body: str, cluster: tuple[int, ...] = (2, 1, 1), grid: tuple[int, ...] = (4,), threads: int = 64) -> Plan:
    dimensions = ", ".join(map(str, cluster))
    source = HEAD + (
        f'extern "C" __global__ void __cluster_dims__({dimensions}) k(int* out)\n'
        f"{{\n    int t = threadIdx.x, block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
        f"    {body}\n}}"
    )
    arrays = {"out": (np.zeros(4096, np.int32), Role.OUTPUT)}
    return cuda_plan(source, "k", arrays, ("out",), grid, (threads,))


def run(body: str, *args, seed: int | None = None, workers: int = 1, **options) -> Execution:
    plan = plan_of(body, *args, **options)
    return execute(plan, {}, seed=seed, workers=workers, instruction_budget=20_000_000)


def kinds(result: Execution) -> set[FindingKind]:
    return {f.kind for f in result.findings}


PLACE = """
    unsigned v[11];
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(v[0])); asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(v[1]));
    asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(v[2])); asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(v[3]));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(v[4])); asm("mov.u32 %0, %%clusterid.y;" : "=r"(v[5]));
    asm("mov.u32 %0, %%clusterid.z;" : "=r"(v[6])); asm("mov.u32 %0, %%nclusterid.x;" : "=r"(v[7]));
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v[8])); asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v[9]));
    asm("{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(v[10]));
    if (t == 0) for (int i = 0; i < 11; i++) out[11 * block + i] = v[i];
"""


def test_every_block_knows_its_place() -> None:
    cluster, grid = np.array([2, 3, 1]), np.array([4, 6, 2])
    result = run(PLACE, tuple(cluster), tuple(grid), threads=32)
    assert not result.findings
    rows = result.outputs["out"][: 11 * 48].reshape(48, 11)
    for block, row in enumerate(rows):
        place = np.array([block % 4, block // 4 % 6, block // 24])
        inside, outer = place % cluster, place // cluster
        expected = [*inside, 3, *outer, 2, inside[0] + 2 * inside[1] + 6 * inside[2], 6, 1]
        assert row.tolist() == expected, block


RING = """
    __shared__ int tile[64];
    tile[t] = 1000 * block + t;
    SYNC
    int next = (rank() + 1) % blocks();
    int got = load(map(tile + 63 - t, next));
    SYNC
    out[64 * block + t] = got;
"""


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("size", [2, 8])
def test_blocks_read_each_others_shared_memory(size: int, seed: int | None) -> None:
    result = run(RING, (size,), (16,), seed=seed, workers=3)
    assert not result.findings
    got = result.outputs["out"][: 16 * 64].reshape(16, 64)
    for block in range(16):
        other = block // size * size + (block + 1) % size
        assert np.array_equal(got[block], 1000 * other + 63 - np.arange(64)), block


def test_generic_addresses_atomics_and_wide_accesses_reach_a_peer() -> None:
    body = """
    __shared__ int sum, few;
    __shared__ __align__(16) int4 wide[64];
    if (t == 0) { sum = 0; few = 0; }
    SYNC
    unsigned long long there;
    asm volatile("mapa.u64 %0, %1, 0;" : "=l"(there) : "l"(&sum));
    atomicAdd((int*)there, t);
    asm volatile("red.shared::cluster.add.s32 [%0], 1;" :: "r"(map(&few, 1)) : "memory");
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(wide + t), "r"(1 - rank()));
    *(int4*)there = make_int4(rank(), t, 2 * t, 3 * t);
    unsigned owner; asm volatile("getctarank.u64 %0, %1;" : "=r"(owner) : "l"(there));
    int own, cluster;
    asm volatile("{.reg .pred p; isspacep.shared::cta p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(own) : "l"(there));
    asm volatile("{.reg .pred p; isspacep.shared::cluster p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(cluster) : "l"(there));
    SYNC
    int4 w = wide[63 - t];
    out[512 * block + t] = rank() == 0 ? sum : few;
    out[512 * block + 64 + t] = w.x + w.y + w.z + w.w;
    out[512 * block + 128 + t] = owner; out[512 * block + 192 + t] = own; out[512 * block + 256 + t] = cluster;
"""
    result = run(body, (2,), (2,))
    assert not result.findings
    got = result.outputs["out"].reshape(8, 8, 64)
    assert (got[0, 0] == 2 * 63 * 32).all() and (got[1, 0] == 128).all()
    for block in range(2):
        assert np.array_equal(got[block, 1], 1 - block + 6 * (63 - np.arange(64)))
        assert (got[block, 2] == 1 - block).all() and (got[block, 3] == 0).all() and (got[block, 4] == 1).all()


def test_remote_arrivals_at_an_mbarrier() -> None:
    body = """
    __shared__ unsigned long long full;
    __shared__ int box[64];
    if (t == 0) { init(&full, 64); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    ARRIVE_RELAXED WAIT
    store(map(box + t, 1 - rank()), 100 * rank() + t);
    unsigned there = map(&full, 1 - rank());
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
    wait(&full, 0);
    out[64 * block + t] = box[63 - t];
"""
    for seed in (None, 4, 5):
        result = run(body, (2,), (4,), seed=seed)
        assert not result.findings
        for block in range(4):
            expected = 100 * (1 - block % 2) + 63 - np.arange(64)
            assert np.array_equal(result.outputs["out"][64 * block : 64 * block + 64], expected)


ASYNC = """
    __shared__ unsigned long long full;
    __shared__ __align__(16) int box[64];
    if (t == 0) { init(&full, 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], BYTES;" :: "r"(shared_address(&full)) : "memory"); }
    box[t] = 7;
    SYNC
    SEND
    RECEIVE
    out[64 * block + t] = box[t];
"""
STORES = """asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];"
        :: "r"(map(box + t, 1 - rank())), "r"(t + 500 * rank()), "r"(map(&full, 1 - rank())) : "memory");"""
VECTORS = """if (t < 16)
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, [%5];"
        :: "r"(map(box + 4 * t, 1 - rank())), "r"(4 * t + 500 * rank()), "r"(4 * t + 1 + 500 * rank()),
        "r"(4 * t + 2 + 500 * rank()), "r"(4 * t + 3 + 500 * rank()), "r"(map(&full, 1 - rank())) : "memory");"""
SUMS = """asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
        :: "r"(map(box + t / 8, 1 - rank())), "r"(t), "r"(map(&full, 1 - rank())) : "memory");"""


@pytest.mark.parametrize("seed", [None, 6, 7])
@pytest.mark.parametrize("send", [STORES, VECTORS, SUMS])
def test_asynchronous_stores_and_reductions(send: str, seed: int | None) -> None:
    body = ASYNC.replace("SEND", send).replace("RECEIVE", "wait(&full, 0);").replace("BYTES", "256")
    result = run(body, (2,), (4,), seed=seed)
    assert not result.findings
    for block in range(4):
        expected = np.arange(64) + 500 * (1 - block % 2)
        if send is SUMS:
            expected = np.full(64, 7)
            expected[:8] += np.arange(64).reshape(8, 8).sum(axis=1)
        assert np.array_equal(result.outputs["out"][64 * block : 64 * block + 64], expected), block


def test_asynchronous_stores_come_late_and_are_found_when_nobody_waits() -> None:
    body = ASYNC.replace("SEND", STORES).replace("RECEIVE", "SYNC").replace("BYTES", "256")
    result = run(body, (2,), (2,))
    assert (result.outputs["out"][:128] == 7).all(), "barrier.cluster does not wait for them"
    assert FindingKind.RACE in kinds(result)
    assert any("asynchronous" in f.message and "mbarrier" in f.message for f in result.findings)
    missing = ASYNC.replace("SEND", STORES).replace("RECEIVE", "wait(&full, 0);").replace("BYTES", "260")
    assert kinds(run(missing, (2,), (2,))) == {FindingKind.DEADLOCK}


def finding_of(body: str, *args, **options):
    result = run(body, *args, **options)
    assert len(result.findings) >= 1
    return result.findings[0]


def test_missing_barriers_between_blocks_are_races() -> None:
    late = RING.replace(
        "tile[t] = 1000 * block + t;\n    SYNC", "SYNC\n    tile[t] = 1000 * block + t;\n    __syncthreads();"
    )
    for seed in (None, 1, 2, 3):
        result = run(late, (2,), (2,), seed=seed)
        races = [f for f in result.findings if f.kind is FindingKind.RACE]
        assert races and "another block of the cluster" in races[0].message, seed
        assert races[0].array.endswith("tile") and "of the cluster" in races[0].message
    relaxed = RING.replace("SYNC\n    int next", "ARRIVE_RELAXED WAIT\n    int next")
    assert FindingKind.RACE in kinds(run(relaxed, (2,), (2,)))


def test_shared_memory_of_a_block_that_may_have_ended_or_not_started() -> None:
    early_end = RING.replace("SYNC\n    out", "out")
    finding = finding_of(early_end, (2,), (2,))
    assert finding.kind is FindingKind.RACE and "ending" in finding.message
    inner = int(re.search(r"\(through line (\d+)\)", finding.message)[1])  # type: ignore[index]
    assert "ld.shared::cluster" in HEAD.split("\n")[inner - 1], "inside the inlined function"
    assert finding.line > HEAD.count("\n"), "in the kernel, which calls it"
    no_start = "__shared__ int box[64];\n store(map(box + t, 1 - rank()), t);\n SYNC\n out[t] = box[t];"
    finding = finding_of(no_start, (2,), (2,))
    assert finding.kind is FindingKind.RACE and "started" in finding.message


def test_outside_a_peers_shared_memory() -> None:
    start = "__shared__ int tile[64];\n tile[t] = t;\n SYNC\n"
    body = start + "int got = load(map(tile, 1) + 256 + 4 * t);\n SYNC\n out[t] = got;"
    finding = finding_of(body, (2,), (2,))
    assert finding.kind is FindingKind.OUT_OF_BOUNDS
    assert (
        finding.array.endswith("tile")
        and finding.index == (64 + finding.thread[0],)
        and "of block 1 of the cluster" in finding.message
    )
    rank = finding_of("__shared__ int tile[64];\n tile[t] = t;\n SYNC\n out[t] = load(map(tile, 2));", (2,), (2,))
    assert rank.kind is FindingKind.TRAP and "cluster of 2 blocks" in rank.message
    unwritten = finding_of(
        "__shared__ int tile[64];\n SYNC\n int got = load(map(tile + t, 1));\n SYNC\n out[t] = got;", (2,), (2,)
    )
    assert unwritten.kind is FindingKind.UNINITIALISED


def test_faults_at_the_barrier_of_the_cluster() -> None:
    twice = finding_of("ARRIVE\n ARRIVE\n WAIT\n out[t] = 1;", (2,), (2,))
    assert twice.kind is FindingKind.DIVERGENT_BARRIER and "second time" in twice.message
    never = finding_of("WAIT\n out[t] = 1;", (2,), (2,))
    assert never.kind is FindingKind.DIVERGENT_BARRIER and "without having arrived" in never.message
    stuck = run("__shared__ unsigned long long b;\n if (t == 0) init(&b, 1);\n __syncthreads();\n"
                " if (rank() == 1) wait(&b, 0);\n SYNC\n out[t] = 1;", (2,), (2,))  # fmt: skip
    assert kinds(stuck) == {FindingKind.DEADLOCK}
    assert len(stuck.findings) == 2 and len({f.line for f in stuck.findings}) == 2
    assert any("cluster's barrier" in f.message for f in stuck.findings)


def test_threads_that_exit_do_not_hold_up_the_cluster() -> None:
    body = "out[64 * block + t] = 3;\n if (rank() == 1) return;\n SYNC\n out[64 * block + t] = 4;"
    for seed in (None, 1, 2):
        result = run(body, (2,), (2,), seed=seed)
        assert not result.findings
        assert (result.outputs["out"][:64] == 4).all() and (result.outputs["out"][64:128] == 3).all()


def test_launches_that_the_driver_refuses() -> None:
    plan = plan_of("out[t] = 1;", (2,), (4,))
    (launch,) = plan.launches

    def message(**changes) -> str:
        result = execute(replace(plan, launches=(replace(launch, **changes),)), {})
        (finding,) = result.findings
        assert finding.kind is FindingKind.LAUNCH_FAILURE
        return finding.message

    assert "not a multiple" in message(grid=(3, 1, 1))
    assert "compiled for clusters (2, 1, 1)" in message(cluster=(4, 1, 1))
    (finding,) = execute(plan_of("out[t] = 1;", (16,), (16,)), {}).findings
    assert "8 are the limit" in finding.message
    (finding,) = execute(plan, {}, architecture="sm_80").findings
    assert "sm_90" in finding.message
