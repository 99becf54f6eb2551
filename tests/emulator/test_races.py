"""Races in global memory: what counts as one, what orders blocks, and what the search cannot hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute, races
from warplab.emulator.lowering.instructions.table import TABLE
from warplab.emulator.lowering.passes.written import access_widths, written_names
from warplab.isa.parser import parse
from warplab.plan.execution import Execution, Finding, FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

BLOCKS, THREADS = 256, 64  # as many threads as are searched on several cores


def run(
    body: str,
    grid: int = 8,
    threads: int = THREADS,
    workers: int = 1,
    kind: str = "int",
    before: str = "",
    searched: int = races.CELLS,
) -> Execution:
    """A kernel of one array, `out`, of 16,384 elements that start at zero; `before` is text in front of it."""
    source = (
        f'{before}\nextern "C" __global__ void k({kind}* out)\n{{\n    int t = threadIdx.x, b = blockIdx.x;\n{body}\n}}'
    )
    dtype = {"int": np.int32, "unsigned char": np.uint8, "short": np.int16, "double": np.float64}[kind]
    array = np.zeros(BLOCKS * THREADS, dtype)
    plan = cuda_plan(source, "k", {"out": (array, Role.INOUT)}, ("out",), (grid,), (threads,))
    return execute(plan, {"out": array}, workers=workers, searched_elements=searched)


def one(execution: Execution) -> Finding:
    (finding,) = execution.findings
    assert finding.kind is FindingKind.RACE
    return finding


def test_a_finding_names_both_lines_both_threads_and_the_element() -> None:
    found = one(run("if (b == 2 && t == 40)\n        out[7] = 1;\n    if (b == 5 && t == 3)\n        out[0] = out[7];"))
    assert (found.block, found.thread, found.array, found.index) == ((5, 0, 0), (3, 0, 0), "out", (7,))
    assert found.message.startswith(
        "Line 8 reads out[7], which line 6 writes in thread (40, 0, 0) of block (2, 0, 0), and nothing orders the two "
        "(read-write race): "
    )


@pytest.mark.parametrize(
    "body",
    [
        "if (t == 0) out[3] += b;",
        "if (b == 0) out[t] = t; if (b == gridDim.x - 1) out[1000 + t] = out[t];",
        "if (b == 1) out[1000 + t] = out[t]; if (b == gridDim.x - 1) out[t] = t;",
        "if (t == 0 && (b == 0 || b == gridDim.x - 1)) out[5] = b;",  # the only element that either worker uses
        "out[b * 60 + t] = b;",
        "((int4*)out)[(b % 100) * 32 + t % 32] = make_int4(b, t, b, t);",
        "int mine = out[b * 64 + t]; out[(b * 64 + t + 1) % 16384] = mine + 1;",
        "out[t * 256 + b] = out[(t * 256 + b + 700) % 16384];",
    ],
)
def test_the_number_of_workers_changes_no_finding_and_hardly_a_count(body: str) -> None:
    alone, shared = run(body, BLOCKS, workers=1), run(body, BLOCKS, workers=5)
    assert alone.findings
    for found, again in zip(alone.findings, shared.findings, strict=True):
        # Which blocks' values are compared depends on who runs them, and with it what counts as of the same value.
        assert again == replace(found, count=again.count) and again.count == pytest.approx(found.count, rel=0.02)


def test_writes_of_the_same_value_are_named_but_no_finding() -> None:
    for grid, workers in ((8, 1), (BLOCKS, 4)):
        same = run("out[0] = 1;", grid, workers=workers)
        assert not same.findings
        (note,) = (text for name, text in same.notes.items() if name.startswith("same value"))
        assert "Line 5 writes out[0]" in note and "of the same value" in note
        assert one(run("if (t == 0) out[0] = b;", grid, workers=workers)).index == (0,)
        twice = "if (t == 0) out[0] = 0; __syncthreads(); if (t == 0) out[0] = 1;"
        assert {f.index for f in run(twice, grid, workers=workers).findings} == {(0,)}


def test_one_warp_that_writes_one_value_to_an_element_in_one_instruction_does_not_race_with_itself() -> None:
    assert not run("out[0] = 7;", grid=1, threads=32).findings
    assert run("out[0] = t;", grid=1, threads=64).findings


@pytest.mark.parametrize("kind", ["unsigned char", "short", "double", "int"])
def test_neighbouring_elements_are_apart(kind: str) -> None:
    assert not run("out[t * 8 + b] = b;", kind=kind).findings
    assert run("out[t * 8 + b / 2] = b;", kind=kind).findings


def test_bytes_of_one_word_are_apart() -> None:
    assert not run("((unsigned char*)out)[t * 8 + b] = b;").findings
    assert one(run("((unsigned char*)out)[t * 8 + b / 2] = b;")).kind is FindingKind.RACE
    assert one(run("if (b == 0) out[t] = 1; else if (b == 1) ((unsigned char*)out)[4 * t + 3] = 2;"))


def test_variables_of_modules_are_searched() -> None:
    found = run("if (t == 0) total += b;", before="__device__ int total;").findings
    assert {f.array for f in found} == {"total"}
    assert not run("if (t == 0) atomicAdd(&total, b);", before="__device__ int total;").findings


def test_launches_order_what_they_do() -> None:
    source = """
    extern "C" __global__ void k(int* out) { out[blockIdx.x * 64 + threadIdx.x] = out[16383 - blockIdx.x] + 1; }"""
    array = np.zeros(BLOCKS * THREADS, np.int32)
    plan = cuda_plan(source, "k", {"out": (array, Role.INOUT)}, ("out",), (4,), (64,))
    twice = type(plan)(plan.function, plan.kernels, plan.buffers, plan.launches * 3, plan.source, plan.source_name)
    assert not execute(twice, {"out": array}, workers=1).findings


CLUSTER = 'asm volatile("barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;" ::: "memory");'


def test_barriers_of_a_cluster_order_its_blocks() -> None:
    body = "out[b * 64 + t] = t; {} out[4096 + b * 64 + t] = out[(b ^ 1) * 64 + t];"
    source = (
        'extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* out)\n'
        "{{ int t = threadIdx.x, b = blockIdx.x; {} }}"
    )
    array = np.zeros(BLOCKS * THREADS, np.int32)
    for middle, racy in ((CLUSTER, False), ("", True), ("__syncthreads();", True)):
        text = source.format(body.format(middle))
        plan = cuda_plan(text, "k", {"out": (array, Role.INOUT)}, ("out",), (8,), (64,))
        assert bool(execute(plan, {"out": array}, workers=1).findings) is racy


LOCK = """
    if (t == 0) {
        while (atomicCAS(out, 0, 1) != 0) {}
        __threadfence();
        out[1] += b;
        __threadfence();
        atomicExch(out, 0);
    }"""


def test_a_search_without_room_says_so_and_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy = run(LOCK, 64)
    assert not any(name.startswith("races") for name in roomy.notes) and not roomy.findings
    monkeypatch.setattr(races, "NODE_MEMORY", 1000)
    crowded = run(LOCK, 64)
    assert not crowded.findings
    assert "more often than there is room for" in crowded.notes["races in kernel"]


def test_of_what_is_too_large_the_first_elements_are_searched() -> None:
    assert one(run("if (t == 0) out[100] = b;", searched=128)).index == (100,)
    assert not run("if (t == 0) out[200] = b;", searched=128).findings
    assert one(run("if (t == 0) out[200] = b;", searched=256)).index == (200,)
    assert not run("out[b * 64 + t] = b;", searched=128).findings


@pytest.mark.parametrize("readers", [2, 3, 5])
def test_each_reader_has_to_be_waited_for(readers: int) -> None:
    """The last block writes what all others have read; it waits for all of them, or for all but one."""
    for left_out in range(readers):
        kernel = (
            f"volatile int* count = out + 1000; int last = {readers}; if (t) return; if (b < last) {{ out[2000 + b] ="
            f" out[7]; __threadfence(); if (b != LEFT_OUT) atomicAdd(out + 1000, 1); }} else {{ while (*count < WAIT);"
            " __threadfence(); out[7] = 1; }"
        )
        waits = kernel.replace("WAIT", str(readers)).replace("LEFT_OUT", "-1")
        fails = kernel.replace("WAIT", str(readers - 1)).replace("LEFT_OUT", str(left_out))
        assert not run(waits, readers + 1).findings
        assert one(run(fails, readers + 1)).index == (7,)


def test_a_strong_read_needs_no_fence_but_what_it_tells_of_does() -> None:
    set_flag = "if (b == 0 && t == 0) { out[1] = 5; __threadfence(); atomicExch(out, 1); }"
    look = "if (b == 1 && t == 0 && atomicAdd(out, 0)) "
    assert not run(f"{set_flag} {look} out[2] = *(volatile int*)(out + 1);").findings
    assert "missing fence" in one(run(f"{set_flag} {look} out[2] = out[1];")).message
    unread = "if (b == 1 && t == 0) { atomicAdd(out, 1); __threadfence(); out[2] = out[1]; }"
    assert "read-write race" in one(run(f"{set_flag} {unread}")).message


POINTERS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .u64 third, .param .u32 n) {{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; ld.param.u64 %rd3, [third]; ld.param.u32 %r3, [n];
    ld.global.u32 %r1, [%rd1];
    mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd2, %rd4;
    {}
    ret;
}}"""


@pytest.mark.parametrize(
    ("writes", "names"),
    [
        ("st.global.u32 [%rd5], %r1;", {"to"}),
        ("ld.global.u32 %r2, [%rd5];", set()),
        ("setp.eq.u32 %p1, %r1, 0; selp.b64 %rd6, %rd2, %rd3, %p1; red.global.add.u32 [%rd6], 1;", {"to", "third"}),
        ("atom.global.add.u32 %r2, [%rd3+4], 1;", {"third"}),
        ("ld.global.u64 %rd6, [%rd3]; st.u32 [%rd6], 1;", None),
        ("mov.u64 %rd6, 4096; st.global.u32 [%rd6], 1;", None),
        ("st.shared.u32 [%r1], 1; cp.async.bulk.prefetch.L2.global [%rd3], 16;", set()),
        ("mul.wide.u32 %rd6, %r3, 4; add.s64 %rd6, %rd5, %rd6; st.global.u32 [%rd6], 1;", {"to", "n"}),
    ],
)
def test_what_a_kernel_may_write(writes: str, names: set[str] | None) -> None:
    found = written_names(parse(POINTERS.format(writes), "k.py"), "k", TABLE)
    assert found == (None if names is None else frozenset(names))


@pytest.mark.parametrize(
    ("accesses", "widths"),
    [
        ("", {("from",): 4}),
        ("ld.global.u8 %r2, [%rd1+1]; st.global.u16 [%rd5], %r1;", {("from",): 1, ("to",): 2}),
        ("ld.global.v4.u8 {%r2,%r3,%r4,%r5}, [%rd3]; st.global.v4.u8 [%rd2], {%r2,%r3,%r4,%r5};",
         {("from",): 4, ("third",): 4, ("to",): 1}),
        ("ld.global.u64 %rd6, [%rd3]; ld.u16 %r2, [%rd6];", {("from",): 4, ("third",): 8, (): 2}),
        ("ld.global.s64 %rd6, [%rd3]; add.s64 %rd6, %rd2, %rd6; st.u8 [%rd6], 1;",
         {("from",): 4, ("third",): 8, ("to",): 1}),
        ("st.shared.u8 [%r1], 1; ld.const.u8 %r2, [%rd2]; cp.async.ca.shared.global [%r1], [%rd2], 8;",
         {("from",): 4, ("to",): 8}),
        ("st.global.pred [%rd2], %p1; cp.async.ca.shared.global [%r1], [%rd3], -8;",
         {("from",): 4, ("to",): 1, ("third",): 4}),
        ("call beside; st.global.u8 [%rd2], %r1; cp.async.commit_group; cp.async.wait_group 0;", {(): 1}),
    ],
)  # fmt: skip
def test_how_narrow_a_kernel_accesses_what(accesses: str, widths: dict[tuple[str, ...], int]) -> None:
    text = POINTERS.format(accesses).replace(".visible", ".func beside() { ret; }\n.visible")
    found = access_widths(parse(text, "k.py"), "k")
    assert found == {frozenset(names): width for names, width in widths.items()}
