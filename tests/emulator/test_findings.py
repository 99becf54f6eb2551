"""Faulty kernels: each fault is found, on the right line, with the right thread and element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.emulator import kernels
from tests.emulator.marks import line_of
from tests.emulator.plans import buffer, cuda_plan, numba_plan, plan_of
from warplab.emulator import execute
from warplab.emulator.report.shared_arrays import shared_arrays
from warplab.isa.demangle import demangled
from warplab.plan.execution import Finding, FindingKind
from warplab.plan.model import Kernel, Language, Pointer, Role, Value

pytestmark = pytest.mark.stored


def single(findings: tuple[Finding, ...], kind: FindingKind) -> Finding:
    (found,) = (f for f in findings if f.kind is kind)
    return found


def test_out_of_bounds_names_line_thread_array_and_index() -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    plan = numba_plan(kernels.axpy_one_too_far, {"a": np.float32(2), "x": x, "y": y}, {"y": Role.OUTPUT}, (4,), (32,))
    result = execute(plan, {"x": x})
    assert [f.kind for f in result.findings] == [FindingKind.OUT_OF_BOUNDS] * 2
    read, write = result.findings
    for finding, array in ((read, "x"), (write, "y")):
        assert finding.line == line_of("one too far")
        assert (finding.array, finding.index) == (array, (100,))
        assert (finding.block, finding.thread, finding.count) == ((3, 0, 0), (4, 0, 0), 1)
    assert read.message.startswith(f"Line {read.line} reads x[100], but x has shape (100,)")
    assert np.array_equal(result.outputs["y"], np.full(100, 3, np.float32))


def test_missing_second_barrier_is_a_race_that_names_both_lines() -> None:
    a = np.ones((32, 32), np.float32)
    plan = numba_plan(
        kernels.tiled_gemm_without_second_barrier, {"a": a, "b": a, "c": a}, {"c": Role.OUTPUT}, (2, 2), (16, 16)
    )
    result = execute(plan, {"a": a, "b": a})
    races = [f for f in result.findings if f.kind is FindingKind.RACE]
    assert races
    assert {f.line for f in races} <= {line_of("race writes a"), line_of("race writes b"), line_of("race reads")}
    assert any(f"line {line_of('race reads')} reads" in f.message for f in races)
    written = {f.line: f for f in races if f.line != line_of("race reads")}
    for line, array in ((line_of("race writes a"), "sa"), (line_of("race writes b"), "sb")):
        if line in written:
            row, column = written[line].index
            assert written[line].array == f"shared array {array}" and written[line].thread == (column, row, 0)
    assert not execute(plan, {"a": a, "b": a}, sanitize=False).findings


def test_uninitialised_shared_memory() -> None:
    out = np.zeros(64, np.float32)
    result = execute(numba_plan(kernels.reads_unwritten_shared, {"out": out}, {"out": Role.OUTPUT}, (1,), (64,)), {})
    finding = single(result.findings, FindingKind.UNINITIALISED)
    assert finding.line == line_of("uninitialised")
    assert finding.thread == (32, 0, 0)
    assert finding.index == (32,)


def test_uninitialised_scratch_and_output() -> None:
    source = """
    extern "C" __global__ void k(float* scratch, float* zeroed, float* out) {
        int i = threadIdx.x;
        if (i < 16) scratch[i] = i;
        __syncthreads();
        out[i] = scratch[i] + zeroed[i];
        out[i] += 1;
    }"""
    out = np.zeros(32, np.float32)
    plan = cuda_plan(source, "k", {"out": (out, Role.OUTPUT)}, ("scratch", "zeroed", "out"), (1,), (32,))
    buffers = {**plan.buffers, "scratch": buffer("scratch", out, Role.SCRATCH)}
    buffers["zeroed"] = buffer("zeroed", out, Role.SCRATCH, zeroed=True)
    plan = type(plan)(plan.function, plan.kernels, buffers, plan.launches, plan.source, plan.source_name)
    result = execute(plan, {})
    finding = single(result.findings, FindingKind.UNINITIALISED)
    assert (finding.array, finding.line, finding.index) == ("scratch", 6, (16,))
    assert np.array_equal(result.outputs["out"][:16], np.arange(16) + 1)
    assert np.isnan(result.outputs["out"][16:]).all()


def test_divergent_barrier() -> None:
    out = np.zeros(32, np.float32)
    result = execute(numba_plan(kernels.barrier_in_divergent_code, {"out": out}, {"out": Role.OUTPUT}, (1,), (32,)), {})
    finding = single(result.findings, FindingKind.DIVERGENT_BARRIER)
    assert finding.line == line_of("divergent barrier")
    assert np.array_equal(result.outputs["out"], np.where(np.arange(32) % 2 == 0, 2, 4))


def test_deadlock_names_every_waiting_line() -> None:
    source = """
    extern "C" __global__ void k(float* out) {
        int warp = threadIdx.x / 32;
        if (warp == 0) asm volatile("bar.sync 1, 96;");
        else if (warp == 1) asm volatile("bar.sync 2, 64;");
        out[threadIdx.x] = 1;
    }"""
    out = np.zeros(64, np.float32)
    result = execute(cuda_plan(source, "k", {"out": (out, Role.OUTPUT)}, ("out",), (1,), (64,)), {})
    assert {(f.kind, f.line) for f in result.findings} == {(FindingKind.DEADLOCK, 4), (FindingKind.DEADLOCK, 5)}


def test_endless_kernel() -> None:
    out = np.zeros(32, np.float32)
    plan = numba_plan(kernels.endless, {"out": out}, {"out": Role.INOUT}, (1,), (32,))
    result = execute(plan, {"out": out}, instruction_budget=100_000)
    finding = single(result.findings, FindingKind.ENDLESS)
    assert abs(finding.line - line_of("endless")) <= 1


def test_launches_share_the_instruction_budget() -> None:
    x = np.ones(32, np.float32)
    plan = numba_plan(kernels.prints, {"x": x.astype(np.float64)}, {}, (1,), (32,))
    once = execute(plan, {"x": x.astype(np.float64)})
    several = replace(plan, launches=plan.launches * 5)
    budget = 3 * once.total.warp_instructions
    result = execute(several, {"x": x.astype(np.float64)}, instruction_budget=budget)
    assert once.findings == () and single(result.findings, FindingKind.ENDLESS)
    assert 3 <= len(result.launches) < 5


def test_launch_failures() -> None:
    x = np.ones(8, np.float32)
    for block, words in (((2048,), "2048 threads"), ((1, 1, 65), "exceeds the limit")):
        plan = numba_plan(kernels.prints, {"x": x.astype(np.float64)}, {}, (1,), block)
        finding = single(execute(plan, {"x": x.astype(np.float64)}).findings, FindingKind.LAUNCH_FAILURE)
        assert words in finding.message


def ptx(body: str, parameters: str = ".param .u64 p0") -> str:
    return f""".version 9.0
    .target sm_90a
    .address_size 64
    .visible .entry k({parameters}) {{
        .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
        ld.param.u64 %rd1, [p0];
        mov.u32 %r1, %tid.x;
        {body}
        ret;
    }}"""


def run_ptx(body: str, size: int = 32, role: Role = Role.OUTPUT, block: int = 32):
    out = np.zeros(size, np.uint32)
    plan = plan_of(ptx(body), "k", {"out": buffer("out", out, role)}, (Pointer("out", 0, "out"),), (1,), (block,))
    return execute(plan, {} if role is Role.OUTPUT else {"out": out})


def test_misaligned_null_and_wild_addresses() -> None:
    result = run_ptx("add.s64 %rd1, %rd1, 2; ld.global.u32 %r2, [%rd1];")
    assert single(result.findings, FindingKind.MISALIGNED).array == "out"
    result = run_ptx("mov.u64 %rd2, 16; st.global.u32 [%rd2], %r1;")
    assert "null pointer" in single(result.findings, FindingKind.NULL_POINTER).message
    result = run_ptx("mov.u64 %rd2, 0x7fff00000000; ld.u32 %r2, [%rd2];")
    assert single(result.findings, FindingKind.OUT_OF_BOUNDS).count == 32
    result = run_ptx("ld.global.u32 %r2, [%rd1+-4];")
    assert single(result.findings, FindingKind.OUT_OF_BOUNDS).index == (-1,)
    result = run_ptx("mov.u32 %r2, 0; ld.shared.u32 %r3, [%r2];")
    assert single(result.findings, FindingKind.OUT_OF_BOUNDS).count == 32


def test_unknown_instructions_are_reported_only_when_they_run() -> None:
    result = run_ptx("frobnicate.rn.f32 %f1, %f2, %f3;")
    finding = single(result.findings, FindingKind.UNSUPPORTED)
    assert "needs the instruction frobnicate.rn.f32, which the emulator does not have" in finding.message
    skipped = "setp.gt.u32 %p1, %r1, 100; @%p1 frobnicate.rn.f32 %f1, %f2, %f3;"
    assert not run_ptx(skipped).findings


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];", "needs textures"),
        ("suld.b.1d.b32.trap %r2, [%rd1, {%r1}];", "needs surfaces"),
        ("@%p1 mov.u32 %r2, %envreg7;", "needs the special register %envreg7"),
        ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r1}];",
         "needs tensor copies in im2col mode"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named_in_words(body: str, words: str) -> None:
    result = run_ptx(f"setp.eq.u32 %p1, %r1, %r1; {body}")
    finding = single(result.findings, FindingKind.UNSUPPORTED)
    assert words in finding.message and "%rd1" not in finding.message


def test_declarations_need_no_blanks_between_their_directives() -> None:
    result = run_ptx(
        "{.reg.b32 a,b; .shared.align 8.b8 room[8]; mov.u32 a, 3; add.u32 b, a, a; st.global.u32 [%rd1], b;}"
    )
    assert result.findings == () and result.outputs["out"][0] == 6


def test_trap() -> None:
    assert run_ptx("trap;").findings[0].kind is FindingKind.TRAP


def test_modified_input() -> None:
    result = run_ptx("mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;", role=Role.INPUT)
    assert single(result.findings, FindingKind.INPUT_MODIFIED).array == "out"


def test_shuffle_with_lanes_that_are_elsewhere() -> None:
    body = """setp.lt.u32 %p1, %r1, 8; @!%p1 bra SKIP;
              shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
              SKIP: mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2;"""
    finding = single(run_ptx(body).findings, FindingKind.DIVERGENT_BARRIER)
    assert "24 threads of its warp" in finding.message


def test_named_barriers_order_accesses() -> None:
    """A producer warp and a consumer warp that meet at a named barrier do not race; without it they do."""
    source = """
    extern "C" __global__ void k(float* out) {{
        __shared__ float box[32];
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (warp == 0) {{ box[lane] = lane; {arrive} }}
        else if (warp == 1) {{ {sync} out[lane] = box[31 - lane]; }}
    }}"""
    out = np.zeros(32, np.float32)
    arrive, sync = 'asm volatile("bar.arrive 1, 64;" ::: "memory");', 'asm volatile("bar.sync 1, 64;" ::: "memory");'
    for parts, kinds in (((arrive, sync), set()), (("", ""), {FindingKind.RACE})):
        text = source.format(arrive=parts[0], sync=parts[1])
        result = execute(cuda_plan(text, "k", {"out": (out, Role.OUTPUT)}, ("out",), (1,), (96,)), {})
        assert {f.kind for f in result.findings} == kinds
        assert np.array_equal(result.outputs["out"], np.arange(32)[::-1])


def test_spinning_on_another_warp_makes_progress() -> None:
    source = """
    extern "C" __global__ void k(int* out) {
        __shared__ volatile int flag;
        if (threadIdx.x == 32) flag = 0;
        __syncthreads();
        if (threadIdx.x < 32) { while (flag == 0); out[threadIdx.x] = flag; }
        else if (threadIdx.x == 63) flag = 7;
    }"""
    out = np.zeros(32, np.int32)
    result = execute(cuda_plan(source, "k", {"out": (out, Role.OUTPUT)}, ("out",), (1,), (64,)), {})
    assert np.all(result.outputs["out"] == 7)
    assert not result.findings


def test_scalars_of_every_size_reach_the_kernel() -> None:
    body = """ld.param.u8 %h1, [p1]; cvt.u32.u16 %r2, %h1; ld.param.s16 %r3, [p2]; add.s32 %r2, %r2, %r3;
              mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2;"""
    out = np.zeros(32, np.int32)
    text = ptx(body, ".param .u64 p0, .param .u8 p1, .param .u16 p2")
    arguments = (Pointer("out"), Value("uint8", 200), Value("int16", -300))
    result = execute(plan_of(text, "k", {"out": buffer("out", out, Role.OUTPUT)}, arguments, (1,), (32,)), {})
    assert np.all(result.outputs["out"] == -100)


WARP_RACES = r"""
extern "C" __global__ void neighbours(float* out, int how)
{
    __shared__ float part[64];
    __shared__ short halves[64];
    int t = threadIdx.x;
    float sum = 0;
    part[t] = t;
    halves[t] = t;
    sum += halves[t];  // its own half of a word that another lane shares
    if (how == 1) __syncwarp();
    if (how == 2) sum += __shfl_xor_sync(0xffffffff, sum, 1);
    if (how == 3) __syncthreads();
    sum += part[t ^ 1];
    if (how == 1) __syncwarp();
    if (how == 2) sum += __shfl_xor_sync(0xffffffff, sum, 1);
    if (how == 3) __syncthreads();
    part[t] = sum;
    out[t] = part[t];
}

extern "C" __global__ void broadcast(float* out, int how)
{
    __shared__ float first;
    if (threadIdx.x == 0) first = 2.5f * how;
    if (how == 1) __syncwarp();
    out[threadIdx.x] = first;
}

extern "C" __global__ void two_writes(float* out, int how)
{
    __shared__ float part[33];
    part[threadIdx.x + 1] = 1;
    if (how == 1) __syncwarp();
    part[threadIdx.x] = 2;
    out[threadIdx.x] = part[threadIdx.x];
}
"""

# Bytes in another order than that of the lanes, so that no access is one run of bytes.
WARP_RACES += r"""
extern "C" __global__ void scattered_bytes(float* out, int how)
{
    __shared__ char part[32];
    int place = threadIdx.x * 5 & 31;
    part[place] = threadIdx.x;
    if (how == 1) __syncwarp();
    out[threadIdx.x] = part[how == 2 ? place : place ^ 2];
}
"""


def warp_races(kernel: str, how: int, threads: int = 32) -> list[Finding]:
    out = np.zeros(threads, np.float32)
    plan = cuda_plan(WARP_RACES, kernel, {"out": (out, Role.OUTPUT)}, ("out", np.int32(how)), (1,), (threads,))
    return list(execute(plan, {}).findings)


def test_lanes_of_one_warp_race_unless_they_wait_for_each_other() -> None:
    for kernel in ("neighbours", "broadcast", "two_writes"):
        found = warp_races(kernel, 0)
        assert found and all(f.kind is FindingKind.RACE for f in found), kernel
        assert all("another thread of the same warp" in f.message for f in found)
        assert warp_races(kernel, 1) == []
    assert warp_races("scattered_bytes", 0) and warp_races("scattered_bytes", 1) == []
    assert warp_races("scattered_bytes", 2) == []
    assert all(" reads " in f.message for f in warp_races("neighbours", 2))  # a shuffle waits for reads, not for writes
    assert warp_races("neighbours", 2)
    assert warp_races("neighbours", 3, 64) == []
    reads = next(f for f in warp_races("neighbours", 0) if " reads shared array part[" in f.message)
    wrote = 1 + next(i for i, text in enumerate(WARP_RACES.splitlines()) if "part[t] = t;" in text)
    assert f"that line {wrote} writes" in reads.message


@pytest.mark.parametrize(
    ("body", "symbols", "named"),
    [
        ("tile = cuda.shared.array((ROWS, 4), float32)", 1, {"tile": (2, 3)}),
        ("tile = cuda.shared.array(shape=(ROWS, 4), dtype=numba.float32)", 1, {"tile": (2, 3)}),
        ("tile = cuda.shared.array(64, np.float32)  # flat", 1, {"tile": (11,)}),
        ("tile = shared.array(\n        (ROWS, PITCH),\n        float32,\n    )", 1, {"tile": None}),
        ("tile = cuda.shared.array((ROWS, ROWS + 1), float32)", 1, {"tile": None}),
        ("tile = cuda.shared.array((99999999999999999999, 4), float32)", 1, {"tile": (2, 3)}),
        ("tile = cuda.shared.array(64, f16)", 1, {"tile": None}),  # a name of the submission's own
        ("a = cuda.shared.array(8, float32)\n    b = cuda.shared.array((4, 8), float32)", 2, {"a": None, "b": (1, 3)}),
        ("a = cuda.shared.array(0, float32)\n    b = cuda.shared.array((4, 8), float32)", 1, {"b": (1, 3)}),
        ("a = cuda.shared.array(8, float32)\n    b = cuda.shared.array(8, float32)", 1, {}),  # one is not used
        ("a = cuda.shared.array(8, float32)", 2, {}),  # a function that is called has one, too
    ],
)
def test_numba_arrays_have_their_names_in_the_source(body: str, symbols: int, named: dict) -> None:
    source = f"ROWS = 8\nPITCH = ROWS + 1\n\n\ndef kernel(x):\n    {body}\n    x[0] = 1\n\n\ndef other(x):\n"
    source += "    c = cuda.shared.array(9, float32)\n"
    kernel = Kernel("kernel", "kernel", Language.NUMBA, (), {}, line=5)
    found = shared_arrays(source, kernel, [f"_cudapy_smem_{number}" for number in range(10, 10 - symbols, -1)])
    made = sorted(found.items(), key=lambda item: int(item[0].rsplit("_", 1)[1]))
    assert {array.name: array.index(44) for _, array in made} == named


def test_names_of_cpp_variables() -> None:
    for mangled, name in {
        "_ZZ16count_read_earlyE5count": "count",
        "_ZZ6kernelPfE4tile_0": "tile",
        "_ZZN4math6kernelIfEEvPT_E4part": "part",
        "_ZN4math5tableE": "table",
        "_ZL5table": "table",
        "plain": "plain",
        "_Zstrange": "_Zstrange",
    }.items():
        assert demangled(mangled) == name


HELPERS = """#include <cooperative_groups.h>
__device__ float element(const float* p, int i)
{
    return p[i];  // <- inner
}
__device__ float sum(const float* p, int i)
{
    float total = 0;
    for (int k = 0; k < 2; ++k) if (p[i] > 0) total += element(p, i + k);
    return total;
}
extern "C" __global__ void k(const float* a, float* out)
{
    if (threadIdx.x < 32) __syncthreads();
    out[threadIdx.x] = sum(a, threadIdx.x);  // <- outer
}
"""


def test_a_helpers_fault_names_the_kernels_line_first_and_the_helpers_second() -> None:
    a, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    arrays = {"a": (a, Role.INPUT), "out": (out, Role.OUTPUT)}
    result = execute(cuda_plan(HELPERS, "k", arrays, ("a", "out"), (1,), (32,)), {"a": a})
    finding = single(result.findings, FindingKind.OUT_OF_BOUNDS)
    inner, outer = (1 + HELPERS[: HELPERS.index(mark)].count("\n") for mark in ("<- inner", "<- outer"))
    assert finding.line == outer and finding.index == (32,)
    assert finding.message.startswith(f"Line {outer} (through line {inner}) reads a[32]")


def test_lines_are_followed_through_headers_inlined_in_other_blocks() -> None:
    """The chain submission 9 -> header -> header ends in a block before which only another line was named."""
    body = """.loc 1 4 1
        mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, %r1;
        @%p1 bra NEXT;
        .loc 2 7 1, function_name f, inlined_at 1 9 3
        add.u32 %r2, %r2, 1;
        NEXT:
        .loc 3 5 1, function_name g, inlined_at 2 7 1
        st.global.u32 [%rd1+4096], %r2;"""
    files = '.file 1 "/tmp/submission.py"\n.file 2 "/usr/a.h"\n.file 3 "/usr/b.h"\n'
    out = np.zeros(32, np.uint32)
    text = ptx(body) + "\n" + files
    plan = plan_of(text, "k", {"out": buffer("out", out, Role.OUTPUT)}, (Pointer("out", 0, "out"),), (1,), (32,))
    assert single(execute(plan, {}).findings, FindingKind.OUT_OF_BOUNDS).line == 9


DYNAMIC = """extern "C" __global__ void k(float* out)
{
    extern __shared__ float tile[];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[31 - threadIdx.x];
}
"""


@pytest.mark.parametrize(("given", "words"), [(0, "no bytes of dynamic"), (64, "64 bytes of dynamic"), (128, "")])
def test_dynamic_shared_memory_that_the_launch_does_not_give(given: int, words: str) -> None:
    out = np.zeros(32, np.float32)
    result = execute(cuda_plan(DYNAMIC, "k", {"out": (out, Role.OUTPUT)}, ("out",), (1,), (32,), given), {})
    assert bool(result.findings) == bool(words)
    assert all(f.kind is FindingKind.OUT_OF_BOUNDS and words in f.message for f in result.findings)


LOCAL_READS = r"""
extern "C" __global__ void k(float* out, int first, int step)
{
    float own[16];
    unsigned char bytes[8];
    for (int i = first; i < 16; i += step) own[i] = i;
    for (int i = 0; i < 8; i += step) bytes[i] = i;
    out[threadIdx.x] = own[(threadIdx.x + first) % 16] + bytes[threadIdx.x % 8];
}"""


def test_uninitialised_local_memory() -> None:
    out = np.zeros(32, np.float32)
    line = 1 + next(i for i, text in enumerate(LOCAL_READS.splitlines()) if "own[(" in text)
    for first, step, threads in ((0, 1, ()), (1, 1, (15, 31)), (0, 2, range(1, 32, 2))):
        arguments = ("out", np.int32(first), np.int32(step))
        plan = cuda_plan(LOCAL_READS, "k", {"out": (out, Role.OUTPUT)}, arguments, (1,), (32,))
        found = execute(plan, {}).findings
        assert bool(found) == bool(threads)
        for finding in found:
            assert finding.kind is FindingKind.UNINITIALISED and finding.line == line
            assert finding.array == "a local array" and finding.thread[0] == threads[0]
            assert finding.count == len(threads)
        assert not execute(plan, {}, sanitize=False).findings
