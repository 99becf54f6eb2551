"""Asynchronous copies come as late as the waits allow; mbarriers count arrivals, bytes and phases."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

# Lines are counted from the kernel's text: KERNEL.format puts `body` on lines of its own.
KERNEL = """
__device__ unsigned shared_address(const void* p) {{ return (unsigned)__cvta_generic_to_shared(p); }}
__device__ void copy4(int* to, const int* from) {{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(to)), "l"(from) : "memory");
}}
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory");
#define WAIT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory");
#define WAIT_ALL asm volatile("cp.async.wait_all;" ::: "memory");
__device__ void init(unsigned long long* b, int n) {{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(n) : "memory");
}}
__device__ void arrive(unsigned long long* b) {{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(shared_address(b)) : "memory");
}}
__device__ void wait(unsigned long long* b, int parity) {{
    asm volatile("{{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }}"
                 :: "r"(shared_address(b)), "r"(parity) : "memory");
}}
extern "C" __global__ void k(const int* a, int* out)
{{
    __shared__ int tile[256];
    __shared__ unsigned long long full[2], empty[2];
    int t = threadIdx.x;
    {body}
}}
"""


def run(body: str, threads: int = 64, size: int = 64) -> Execution:
    a = np.arange(100, 100 + 256, dtype=np.int32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(size, np.int32), Role.OUTPUT)}
    plan = cuda_plan(KERNEL.format(body=body), "k", arrays, ("a", "out"), (1,), (threads,))
    return execute(plan, {"a": a}, instruction_budget=20_000_000)


def kinds(result: Execution) -> set[FindingKind]:
    return {f.kind for f in result.findings}


def test_copy_without_wait_reads_what_was_there_before() -> None:
    body = "tile[t] = -7;\n copy4(tile + t, a + t); COMMIT\n __syncthreads();\n out[t] = tile[63 - t];"
    result = run(body)
    assert np.array_equal(result.outputs["out"], np.full(64, -7))
    assert kinds(result) == {FindingKind.RACE}
    (finding,) = result.findings
    assert "asynchronous copy" in finding.message and finding.array.endswith("tile")
    assert "put cp.async.wait_group and then __syncthreads() before" in finding.message
    assert finding.thread is not None and finding.index == (63 - finding.thread[0],)


def test_copy_after_wait_and_barrier_is_clean() -> None:
    body = "copy4(tile + t, a + t); COMMIT WAIT(0)\n __syncthreads();\n out[t] = tile[63 - t];"
    result = run(body)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], np.arange(163, 99, -1))


COPIED = "out[t] = t; __syncthreads(); copy4(tile + t, out + t); COMMIT {} out[t ^ {}] = 9; {} out[64 + t] = tile[t];"


@pytest.mark.parametrize(("meanwhile", "other"), [("", 0), ("__syncthreads();", 33), ("__syncwarp();", 1)])
def test_a_source_that_changes_while_it_is_copied_is_found(meanwhile: str, other: int) -> None:
    """PTX ISA, cp.async: nothing orders the copy with other accesses of its thread before it waits."""
    result = run(COPIED.format(meanwhile, other, "WAIT(0)"), size=128)
    (finding,) = result.findings
    assert finding.kind is FindingKind.RACE and finding.array == "out"
    assert "the source was written while the copy was in flight" in finding.message
    assert run(COPIED.format("WAIT(0) __syncthreads();", other, "__syncthreads();"), size=128).findings == ()


def test_a_relaxed_arrival_releases_nothing() -> None:
    """PTX ISA, mbarrier.arrive: .relaxed gives no order of memory; a fence before it does."""
    relaxed = 'asm volatile("mbarrier.arrive.relaxed.cta.shared.b64 _, [%0];" :: "r"(shared_address(full)) : "memory");'
    body = "if (!t) init(full, 64); __syncthreads(); tile[t] = t; {} wait(full, 0); out[t] = tile[63 - t];"
    assert kinds(run(body.format(relaxed))) == {FindingKind.RACE}
    assert run(body.format("__threadfence_block(); " + relaxed)).findings == ()
    assert run(body.format("arrive(full);")).findings == ()


def test_waiting_for_another_group_is_not_enough() -> None:
    body = """
    tile[t] = tile[64 + t] = -7;
    copy4(tile + t, a + t); COMMIT
    copy4(tile + 64 + t, a + 64 + t); COMMIT
    WAIT(1)
    __syncthreads();
    out[t] = tile[63 - t]; out[64 + t] = tile[127 - t];
    """
    result = run(body, size=128)
    assert np.array_equal(result.outputs["out"][:64], np.arange(163, 99, -1))
    assert np.array_equal(result.outputs["out"][64:], np.full(64, -7))
    assert kinds(result) == {FindingKind.RACE}
    assert "leave fewer groups in flight (cp.async.wait_group)" in result.findings[0].message


def test_wait_group_does_not_wait_for_what_is_not_committed() -> None:
    body = "tile[t] = -7; copy4(tile + t, a + t); WAIT(0)\n __syncthreads(); out[t] = tile[t];"
    result = run(body)
    assert np.array_equal(result.outputs["out"], np.full(64, -7))
    assert "put cp.async.commit_group behind the copies" in result.findings[0].message
    body = body.replace("WAIT(0)", "WAIT_ALL")
    result = run(body)
    assert np.array_equal(result.outputs["out"], np.arange(100, 164)) and result.findings == ()


def test_wait_without_barrier_is_a_race_between_warps() -> None:
    body = "copy4(tile + t, a + t); WAIT_ALL\n out[t] = tile[63 - t];"
    assert FindingKind.RACE in kinds(run(body))


def test_copy_into_what_others_still_read_is_a_race() -> None:
    body = """
    tile[t] = t; __syncthreads();
    int v = tile[63 - t];
    copy4(tile + t, a + t); WAIT_ALL
    __syncthreads(); out[t] = tile[t] + v;
    """
    assert kinds(run(body)) == {FindingKind.RACE}


def test_ignore_source_and_bad_addresses() -> None:
    body = """
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, 8; cp.async.ca.shared.global [%0], [%1], 4, p; }"
                 :: "r"(shared_address(tile + t)), "l"(a + t), "r"(t) : "memory");
    WAIT_ALL __syncthreads(); out[t] = tile[t];
    """
    result = run(body)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], np.where(np.arange(64) < 8, 0, np.arange(100, 164)))
    result = run("copy4(tile + t, a + 224 + t); WAIT_ALL __syncthreads(); out[t] = tile[t];")
    (finding,) = result.findings
    assert finding.kind is FindingKind.OUT_OF_BOUNDS
    assert (finding.array, finding.index, finding.thread) == ("a", (256,), (32, 0, 0))


RING = """
    if (t == 0) { for (int i = 0; i < 2; ++i) { init(full + i, 32); init(empty + i, 32); } }
    __syncthreads();
    if (t < 32) {
        for (int i = 0; i < 8; ++i) {
            PRODUCER_WAIT
            tile[(i % 2) * 32 + t] = a[i * 32 + t];
            arrive(full + i % 2);
        }
    } else {
        int sum = 0;
        for (int i = 0; i < 8; ++i) {
            CONSUMER_WAIT
            sum += tile[(i % 2) * 32 + 63 - t];
            arrive(empty + i % 2);
        }
        out[t - 32] = sum;
    }
"""
PRODUCER_WAIT = "if (i >= 2) wait(empty + i % 2, (i / 2 + 1) & 1);"
CONSUMER_WAIT = "wait(full + i % 2, (i / 2) & 1);"


def ring(producer: str = PRODUCER_WAIT, consumer: str = CONSUMER_WAIT) -> Execution:
    return run(RING.replace("PRODUCER_WAIT", producer).replace("CONSUMER_WAIT", consumer), size=32)


def test_mbarriers_order_a_ring_of_two_stages() -> None:
    result = ring()
    assert result.findings == ()
    expected = np.arange(100, 356).reshape(8, 32)[:, ::-1].sum(0)
    assert np.array_equal(result.outputs["out"], expected)


@pytest.mark.parametrize("missing", ["producer", "consumer"])
def test_a_ring_without_one_of_its_waits_is_found(missing: str) -> None:
    """Without its wait the producer runs whole phases ahead, so that the consumer may wait for one that has gone by."""
    assert kinds(ring(**{missing: ""})) & {FindingKind.RACE, FindingKind.UNINITIALISED, FindingKind.DEADLOCK}


def test_waiting_for_the_wrong_parity_is_a_deadlock() -> None:
    result = run("if (t == 0) init(full, 64); __syncthreads(); arrive(full); wait(full, 1); wait(full, 1); out[t] = 1;")
    assert kinds(result) == {FindingKind.DEADLOCK}
    assert "mbarrier" in result.findings[0].message and result.findings[0].line > 0
    assert "or wait for the other parity" in result.findings[0].message


def test_a_lane_waits_for_lanes_of_its_own_warp() -> None:
    body = """
    if (t == 0) init(full, 62);
    __syncthreads();
    if (t % 32 == 5) wait(full, 0); else arrive(full);
    out[t] = t;
    """
    for one in (body, body.replace("== 5", "!= 5").replace("62", "2")):
        result = run(one)
        assert result.findings == ()
        assert np.array_equal(result.outputs["out"], np.arange(64))


def test_copies_arrive_at_an_mbarrier() -> None:
    body = """
    if (t == 0) init(full, 64);
    __syncthreads();
    tile[t] = -7; copy4(tile + 64 + t, a + t);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared_address(full)) : "memory");
    wait(full, 0);
    out[t] = tile[127 - t];
    """
    result = run(body)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], np.arange(163, 99, -1))
    result = run(body.replace("wait(full, 0);", "__syncthreads();"))
    assert FindingKind.RACE in kinds(result)


def test_an_mbarrier_expects_bytes_and_keeps_states() -> None:
    body = """
    if (t == 0) {
        unsigned b = shared_address(full); unsigned long long state; unsigned before, after, count;
        init(full, 2);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 %0, [%1], 96;" : "=l"(state) : "r"(b) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
        out[0] = count;
        arrive(full);
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], 64;" :: "r"(b) : "memory");
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(before) : "r"(b), "l"(state) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], 32;" :: "r"(b) : "memory");
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(after) : "r"(b), "l"(state) : "memory");
        out[1] = before; out[2] = after;
    }
    """
    result = run(body)
    assert result.findings == ()
    assert result.outputs["out"][:3].tolist() == [2, 0, 1]


def test_misused_mbarriers_are_findings() -> None:
    result = run("wait(full, 0); out[t] = 1;")
    assert kinds(result) == {FindingKind.UNINITIALISED}
    assert result.findings[0].array.endswith("full")
    result = run("if (t == 0) init(full, 32);\n arrive(full); out[t] = 1;", threads=64)
    assert FindingKind.RACE in kinds(result)
