"""Rarer instruction forms: video arithmetic, packs of bytes, vector atomics, clusters of one block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.alu import integers, run
from tests.emulator.plans import buffer, cuda_plan, plan_of
from warplab.emulator import execute
from warplab.plan.execution import FindingKind
from warplab.plan.model import Pointer, Role

pytestmark = pytest.mark.stored

A, B, C = (integers(32, 256, seed) for seed in range(3))


def parts(words: np.ndarray, count: int, signed: bool) -> np.ndarray:
    """Elements of 32-bit words as int64 [count, words]."""
    kind = np.dtype(f"{'i' if signed else 'u'}{4 // count}")
    return words.view(kind).reshape(-1, count).T.astype(np.int64)


OPERATIONS = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": lambda x, y: (x + y + 1) >> 1,
}


@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.parametrize("count", [1, 2, 4])
def test_video_arithmetic(name: str, count: int) -> None:
    if count == 1 and name == "vavrg":
        return
    bits, suffix = 32 // count, "" if count == 1 else str(count)
    for kinds in (("u32", "u32", "u32"), ("s32", "s32", "u32"), ("s32", "s32", "s32")):
        exact = OPERATIONS[name](*(parts(w, count, k == "s32") for w, k in zip((A, B), kinds[1:], strict=True)))
        opcode = f"{name}{suffix}.{'.'.join(kinds)}"
        last = "" if count == 1 else ", 0"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kinds[0] == "s32" else (0, (1 << bits) - 1)
        for modifier, values in (("", exact), (".sat", np.clip(exact, low, high))):
            got = run(f"{opcode}{modifier} %d, %a0, %a1{last};", 32, [A, B])
            wanted = sum((v & (1 << bits) - 1) << bits * i for i, v in enumerate(values))
            assert np.array_equal(got, wanted.astype(np.uint64).astype(np.uint32)), opcode + modifier
        total = (exact.sum(axis=0) + C).astype(np.uint64).astype(np.uint32)
        assert np.array_equal(run(f"{opcode}.add %d, %a0, %a1, %a2;", 32, [A, B, C]), total), opcode


def test_packed_saturation() -> None:
    a = A.view(np.int32) >> np.repeat([0, 16, 23, 25], 64).astype(np.int32)
    got = run("cvt.pack.sat.u8.s32.b32 %d, %a0, %a1, %a2;", 32, [a.view(np.uint32), B, C])
    wanted = (C << np.uint32(16)) | (np.clip(a, 0, 255) << 8 | np.clip(B.view(np.int32), 0, 255)).astype(np.uint32)
    assert np.array_equal(got, wanted)
    got = run("cvt.pack.sat.s16.s32 %d, %a0, %a1;", 32, [a.view(np.uint32), B])
    high, low = (np.clip(v, -32768, 32767).astype(np.uint32) for v in (a.astype(np.int64), B.view(np.int32)))
    assert np.array_equal(got, (high << np.uint32(16)) | (low & np.uint32(0xFFFF)))


def test_bytes_are_packed_and_unpacked() -> None:
    registers = ".reg .b8 %b<4>;"
    reversed_bytes = run("mov.b32 {%b0, %b1, %b2, %b3}, %a0; mov.b32 %d, {%b3, %b2, %b1, %b0};", 32, [A], registers)
    assert np.array_equal(reversed_bytes, A.byteswap())
    assert np.array_equal(run("mov.b32 {_, %b1, _, %b3}, %a0; mov.b32 %d, {%b1, %b1, %b3, %b3};", 32, [A], registers),
                          (A >> 8 & 0xFF) * 0x101 + (A >> 24) * 0x1010000)  # fmt: skip
    a = integers(16, 64, 1)
    swapped = run("mov.b16 {%b0, %b1}, %a0; mov.b16 %d, {%b1, %b0};", 16, [a], registers)
    assert np.array_equal(swapped, a.byteswap())


def test_lop3_with_a_predicate() -> None:
    got = run("lop3.or.b32 %r2|%p1, %a0, %a1, %a1, 0xC0, %p0; selp.u32 %d, %r2, 1234567, %p1;", 32, [A, B])
    both = A & B
    assert np.array_equal(got, np.where(both != 0, both, 1234567))


VECTORS = r"""
#include <cuda_fp16.h>
extern "C" __global__ void add4(float* out, const int* place)
{
    float4 v = {1.0f * threadIdx.x, 1, 2, 0.5f};
    float* p = out + 4 * place[threadIdx.x];
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
}
extern "C" __global__ void old2(float* out, float* was)
{
    float a, b;
    asm volatile("atom.global.add.v2.f32 {%0, %1}, [%2], {%3, %4};"
                 : "=f"(a), "=f"(b) : "l"(out + 2 * (threadIdx.x / 2)), "f"(1.0f), "f"(10.0f));
    was[2 * threadIdx.x] = a; was[2 * threadIdx.x + 1] = b;
}
"""


def test_vector_reductions() -> None:
    place = (np.arange(64) % 5).astype(np.int32)
    out = np.zeros(20, np.float32)
    arrays = {"out": (out, Role.INOUT), "place": (place, Role.INPUT)}
    plan = cuda_plan(VECTORS, "add4", arrays, ("out", "place"), (1,), (64,))
    result = execute(plan, {"out": out, "place": place})
    assert not result.findings
    wanted = np.zeros((5, 4))
    for thread, p in enumerate(place):
        wanted[p] += (thread, 1, 2, 0.5)
    assert np.array_equal(result.outputs["out"].reshape(5, 4), wanted)
    # Six full rounds of three sectors a warp, and one of a single sector.
    assert (result.total.global_reduction_requests, result.total.global_reduction_sectors) == (2, 38)
    place[7] = 5
    (finding,) = execute(plan, {"out": out, "place": place}).findings
    assert (finding.kind, finding.thread, finding.index) == (FindingKind.OUT_OF_BOUNDS, (7, 0, 0), (20,))


def test_vector_atomics_return_the_old_values() -> None:
    out = np.zeros(64, np.float32)
    arrays = {"out": (out, Role.INOUT), "was": (np.zeros(128, np.float32), Role.OUTPUT)}
    result = execute(cuda_plan(VECTORS, "old2", arrays, ("out", "was"), (1,), (64,)), {"out": out})
    assert not result.findings
    assert np.array_equal(result.outputs["out"], np.tile(np.float32([2, 20]), 32))
    assert np.array_equal(result.outputs["was"].reshape(-1, 4), np.tile(np.float32([0, 0, 1, 10]), (32, 1)))


def test_a_cluster_of_one_block() -> None:
    text = """.version 9.0
    .target sm_90a
    .address_size 64
    .visible .entry test(.param .u64 out)
    {
    .shared .align 4 .b32 word[64];
    .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, word;
    mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.u32 [%r2], %r0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r3, %cluster_ctarank;
    mapa.shared::cluster.u32 %r4, %r1, %r3;
    xor.b32 %r5, %r0, 63;
    mad.lo.u32 %r4, %r5, 4, %r4;
    ld.shared::cluster.u32 %r6, [%r4];
    griddepcontrol.wait;
    ld.param.u64 %rd0, [out];
    mad.wide.u32 %rd0, %r0, 4, %rd0;
    st.global.u32 [%rd0], %r6;
    ret;
    }"""
    out = np.zeros(64, np.int32)
    plan = plan_of(text, "test", {"out": buffer("out", out, Role.OUTPUT)}, (Pointer("out"),), (1,), (64,))
    result = execute(plan, {})
    assert not result.findings
    assert result.outputs["out"].tolist() == list(range(63, -1, -1))
    assert "one after the other" in result.notes["griddepcontrol"]


CONDITIONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("condition", list(CONDITIONS))
@pytest.mark.parametrize("count", [1, 2, 4])
def test_video_comparison(condition: str, count: int) -> None:
    suffix, last = ("", "") if count == 1 else (str(count), ", 0")
    b = np.where(np.arange(B.size) % 3 == 0, A, B)
    holds = CONDITIONS[condition](parts(A, count, True), parts(b, count, True))
    wanted = sum(v.astype(np.uint32) << np.uint32(32 // count * i) for i, v in enumerate(holds))
    assert np.array_equal(run(f"vset{suffix}.s32.s32.{condition} %d, %a0, %a1{last};", 32, [A, b]), wanted)


def test_one_lane_is_elected_among_the_active_ones() -> None:
    lane = np.arange(64, dtype=np.uint32)
    body = """and.b32 %r2, %a0, 24; setp.eq.u32 %p1, %r2, 24;
    @%p1 bra LAST;
    elect.sync %r3|%p2, 0x00FFFFFF; selp.b32 %d, 1, 0, %p2; bra DONE;
    LAST: activemask.b32 %d;
    DONE:"""
    wanted = np.where(lane % 32 >= 24, 0xFF000000, np.where(lane % 32 == 0, 1, 0))
    assert np.array_equal(run(body, 32, [lane]), wanted)


def test_threads_whose_predicate_is_false_are_not_active() -> None:
    """Seen on an H200: 5 threads of 32 that the instruction's own guard lets through."""
    lane = np.arange(32, dtype=np.uint32)
    body = "setp.lt.u32 %p1, %a0, 5; mov.u32 %d, 7; @%p1 activemask.b32 %d;"
    assert np.array_equal(run(body, 32, [lane]), np.where(lane < 5, 0x1F, 7))


def test_a_load_of_what_does_not_change() -> None:
    assert np.array_equal(run("ldu.global.u32 %d, [%rd0];", 32, [A]), A)
