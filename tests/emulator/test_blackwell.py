"""What sm_100 adds to PTX and the emulator has: pairs of float32, accesses of 256 bits. Values follow the PTX ISA."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.emulator.alu import floats, run
from tests.emulator.exact_operations import compare, exact_singles
from tests.emulator.plans import buffer, plan_of
from tests.emulator.recorded import needs_nvdisasm
from warplab.emulator import execute
from warplab.plan.assemble import assemble
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role

COUNT = 96


@pytest.mark.parametrize("mode", ["", "rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_each_half_of_a_pair_of_floats(name: str, mode: str) -> None:
    if name == "fma" and not mode:
        return
    count = 3 if name == "fma" else 2
    operands = [floats(32, 2 * COUNT, seed) for seed in range(count)]
    operands[-1][:20] = operands[0][:20] ^ np.uint32(0x80000000)
    for ftz in ("", ".ftz"):
        opcode = f"{name}.{mode}{ftz}.f32x2".replace("..", ".")
        sources = ", ".join(f"%a{i}" for i in range(count))
        got = run(f"{opcode} %d, {sources};", 64, [o.view(np.uint64) for o in operands], target="sm_100")
        compare(got.view(np.uint32), exact_singles(name, mode or "rn", ftz, operands), operands, opcode)


def test_a_product_and_a_sum_of_pairs_are_fused_where_neither_names_a_rounding() -> None:
    a, b, c = ((np.linspace(1, 2, 2 * COUNT) ** power).astype(np.float32) for power in (0.5, 3, 2))
    pairs: list[np.ndarray] = [x.view(np.uint64) for x in (a, b, -c)]
    fused = (a.astype(np.float64) * b - c).astype(np.float32)
    apart = a * b - c
    assert np.any(fused != apart)
    for opcodes, wanted in ((("mul", "add"), fused), (("mul.rn", "add.rn"), apart)):
        body = f"{opcodes[0]}.f32x2 %d, %a0, %a1; {opcodes[1]}.f32x2 %d, %d, %a2;"
        assert np.array_equal(run(body, 64, pairs, target="sm_100").view(np.float32), wanted)
    body = "mul.f32x2 %d, %a0, %a1; sub.f32x2 %d, %a2, %d;"
    negative = (-c.astype(np.float64) - a.astype(np.float64) * b).astype(np.float32)
    assert np.array_equal(run(body, 64, pairs, target="sm_100").view(np.float32), negative)


WIDE = {"f16": lambda x: x.view(np.float16).astype(np.float32), "bf16": lambda x: x.astype(np.uint32) << np.uint32(16)}


@pytest.mark.parametrize("mode", ["", "rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("name", ["add", "sub", "fma"])
def test_sums_of_float32_and_of_halves(name: str, kind: str, mode: str) -> None:
    """The sources of 16 bits are widened exactly; the last one has 32 bits."""
    if name == "fma" and not mode:
        return
    halves = [floats(16, 2 * COUNT, seed) for seed in range(2 if name == "fma" else 1)]
    last = floats(32, 2 * COUNT, 9)
    opcode = f"{name}.{mode}.f32.{kind}".replace("..", ".")
    sources = ", ".join(f"%a{i}" for i in range(len(halves) + 1))
    got = run(f"{opcode} %d, {sources};", 32, [*halves, last], target="sm_100")
    wide = [np.ascontiguousarray(WIDE[kind](h)).view(np.uint32) for h in halves]
    compare(got, exact_singles(name, mode or "rn", "", [*wide, last]), [*halves, last], opcode)
    clamped = run(f"{name}.{mode or 'rn'}.sat.f32.{kind} %d, {sources};", 32, [*halves, last], target="sm_100")
    exact = got.view(np.float32)
    assert np.array_equal(clamped.view(np.float32), np.where(np.isnan(exact), 0, np.clip(exact, 0, 1)))


def kernel(
    body: str, target: str = "sm_100", stride: int = 32, threads: int = 32, assembled: bool = False
) -> Execution:
    """Threads with %in and %out at their own `stride` bytes of two arrays of 2048 words."""
    text = f""".version 9.0
    .target {target}
    .address_size 64
    .visible .entry test(.param .u64 a, .param .u64 b)
    {{
    .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .b64 %in; .reg .b64 %out; .reg .pred %p<4>; .reg .f32 %f<16>;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %in, [a]; ld.param.u64 %out, [b];
    mad.wide.u32 %in, %r0, {stride}, %in; mad.wide.u32 %out, %r0, {stride}, %out;
    {body}
    ret;
    }}"""
    words, out = np.arange(2048, dtype=np.uint32), np.zeros(2048, np.uint32)
    buffers = {"a": buffer("a", words, Role.INPUT), "b": buffer("b", out, Role.INOUT)}
    plan = plan_of(text, "test", buffers, (Pointer("a"), Pointer("b")), (1,), (threads,))
    if assembled:
        plan = assemble(replace(plan, kernels={"kernel": replace(plan.kernels["kernel"], ptx={target: text})}), target)
    return execute(plan, {"a": words, "b": out}, architecture=target if assembled else "sm_90a")


EIGHT = "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}"
FOUR = "{%rd1, %rd2, %rd3, %rd4}"


@pytest.mark.parametrize(
    ("load", "store"),
    [
        (f"ld.global.v8.b32 {EIGHT}, [%in];", f"st.global.v8.b32 [%out], {EIGHT};"),
        (f"ld.global.nc.L2::evict_last.v8.u32 {EIGHT}, [%in];", f"st.v8.u32 [%out], {EIGHT};"),
        (f"ld.global.v4.b64 {FOUR}, [%in];", f"st.global.v4.b64 [%out], {FOUR};"),
        (f"ld.v4.u64 {FOUR}, [%in];", f"st.volatile.global.v4.u64 [%out], {FOUR};"),
    ],
)
def test_accesses_of_256_bits(load: str, store: str) -> None:
    """A warp that reads 1024 bytes side by side takes 32 sectors in one request; so do pieces of 32 with gaps."""
    for stride in (32, 64):
        result = kernel(f"{load} {store}", stride=stride)
        assert not result.findings
        out = result.outputs["b"].reshape(-1, stride // 4)
        wanted = np.arange(2048, dtype=np.uint32).reshape(-1, stride // 4)
        assert np.array_equal(out[:32, :8], wanted[:32, :8])
        assert not out[:32, 8:].any() and not out[32:].any()
        total = result.total
        assert (total.global_load_requests, total.global_load_sectors, total.global_load_ideal_sectors) == (1, 32, 32)
        assert (total.global_store_requests, total.global_store_sectors) == (1, 32)
        assert total.memory_instructions == 2


def test_elements_that_nobody_wants_and_an_address_that_is_overwritten() -> None:
    body = """ld.global.v8.b32 {_, %r2, %r3, _, %r5, %r6, %r7, %r8}, [%in];
    ld.global.v4.b64 {%in, %rd2, %rd3, %rd4}, [%in];
    setp.lt.u32 %p1, %r0, 4;
    @%p1 st.global.v8.b32 [%out], {%r8, 1, %r3, 2, %r5, 3, %r7, 4};
    st.global.b64 [%out+1024], %in;"""
    result = kernel(body)
    assert not result.findings
    out, words = result.outputs["b"].reshape(-1, 8), np.arange(256, dtype=np.uint32).reshape(-1, 8)
    assert np.array_equal(out[:4, 0::2], words[:4][:, [7, 2, 4, 6]]) and np.array_equal(
        out[:4, 1::2], [[1, 2, 3, 4]] * 4
    )
    assert not out[4:32].any()
    assert np.array_equal(out[32:64, :2], words[:, :2])


def test_an_access_of_256_bits_is_aligned_and_in_bounds() -> None:
    (finding,) = kernel(f"ld.global.v8.b32 {EIGHT}, [%in+16];").findings
    assert (finding.kind, finding.count) == (FindingKind.MISALIGNED, 32)
    (finding,) = kernel(f"st.global.v4.b64 [%out+8160], {FOUR};").findings
    assert (finding.kind, finding.count) == (FindingKind.OUT_OF_BOUNDS, 31)


@pytest.mark.parametrize("body", [f"ld.shared.v8.b32 {EIGHT}, [%r0];", f"ld.global.v8.b64 {EIGHT}, [%in];"])
def test_other_wide_accesses_are_refused(body: str) -> None:
    (finding,) = kernel(body).findings
    assert finding.kind is FindingKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("body", "target", "words"),
    [
        ("add.f32x2 %rd1, %rd1, %rd1;", "sm_90a", "needs sm_100, which has add.f32x2: compile"),
        ("@%p1 fma.rn.f32x2 %rd1, %rd1, %rd1, %rd1;", "sm_90", "needs sm_100, which has fma.rn.f32x2: compile"),
        (f"st.global.v4.b64 [%out], {FOUR};", "sm_90a", "needs sm_100, which has st.global.v4.b64: compile"),
        ("red.global.add.v2.f32 [%out], {%f1, %f2};", "sm_80", "needs sm_90, which has red.global.add.v2.f32: compile"),
        ("redux.sync.add.u32 %r1, %r2, -1;", "sm_75", "needs sm_80, which has redux.sync.add.u32: compile"),
    ],
)
def test_an_older_target_does_not_have_them(body: str, target: str, words: str) -> None:
    (finding,) = kernel(f"setp.eq.u32 %p1, %r0, %r0; {body}", target).findings
    assert finding.kind is FindingKind.UNSUPPORTED and words in finding.message


def test_operations_in_pairs_count_twice() -> None:
    total = kernel("fma.rn.f32x2 %rd1, %rd1, %rd1, %rd1; add.f32x2 %rd2, %rd1, %rd1;").total
    assert (total.thread_ffma, total.thread_fadd, total.fp32_instructions) == (64, 64, 2)


@pytest.mark.processes
@needs_nvdisasm
def test_machine_code_counts_the_same() -> None:
    """ptxas makes one FFMA2, one FMUL2 and one access of 256 bits each; half of the threads multiply."""
    body = f"""ld.global.v4.b64 {FOUR}, [%in];
    fma.rn.f32x2 %rd1, %rd1, %rd2, %rd3;
    setp.lt.u32 %p1, %r0, 16;
    @%p1 mul.rz.f32x2 %rd1, %rd1, %rd4;
    st.global.v4.b64 [%out], {FOUR};"""
    for assembled in (False, True):
        total = kernel(body, assembled=assembled).total
        assert (total.thread_ffma, total.thread_fmul, total.thread_fadd) == (64, 32, 0)
        assert (total.global_load_requests, total.global_load_sectors, total.global_store_sectors) == (1, 32, 32)


@pytest.mark.parametrize("flags", ["", ".abs", ".NaN", ".ftz"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_the_extreme_of_three(operation: str, flags: str) -> None:
    a, b, c = (floats(32, 300, seed) for seed in (4, 5, 6))
    got = run(f"{operation}{flags}.f32 %d, %a0, %a1, %a2;", 32, [a, b, c], target="sm_100")
    flag = flags.replace(".abs", "")
    inner = f"{operation}{flag}.f32"
    if flags == ".abs":
        a, b, c = (x & np.uint32(0x7FFFFFFF) for x in (a, b, c))
    apart = run(f"{inner} %d, %a0, %a1; {inner} %d, %d, %a2;", 32, [a, b, c], target="sm_100")
    assert np.array_equal(got, apart)
