"""Counters by machine code: what Nsight Compute counted on an H200 or an H100 is the truth."""

from __future__ import annotations

import operator
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, find_lab
from corpus.emulator.catalogue import ENTRIES
from corpus.emulator.plans import assemble_file
from corpus.emulator.recorded import load, names
from tests.emulator.plans import buffer, cuda_plan, plan_of
from tests.emulator.recorded import needs_nvdisasm, recorded
from warplab import emulator
from warplab.emulator.lowering import decoder
from warplab.emulator.lowering.assembled.kernel import Assembled
from warplab.isa.machine_code import read
from warplab.plan import disassembler
from warplab.plan.assemble import assemble
from warplab.plan.execution import COUNTERS_NOTE, METRICS, Execution
from warplab.plan.model import Pointer, Role

pytestmark = pytest.mark.processes

COUNTED = {
    "a sum that only one thread needs": ("cooperation/reduction/shuffle", "thread_fadd"),
    "an absolute value is a sum": ("arithmetic/approximate/fast_log", "thread_fadd"),
    "a product that no thread needs": ("arithmetic/approximate/accurate_log", "thread_fmul"),
    "a product that some threads need": ("arithmetic/approximate/accurate_tanh", "thread_ffma"),
    "several of one": ("arithmetic/approximate/accurate_erf", "thread_fadd"),
    "division of halves": ("arithmetic/floats/halves_special", "thread_ffma"),
    "detours of diverged warps": ("numerics/attention", "thread_ffma"),
    "several instructions on one line": ("headers/warp_algorithms", "thread_fadd"),
    "four loads joined": ("cooperation/atomics/shared", "shared_load_wavefronts"),
    "four stores joined": ("cooperation/atomics/shared", "shared_store_wavefronts"),
    "two pairs of neighbouring stores": ("unseen/structs_shared", "shared_store_bank_conflicts"),
    "one lane for a warp": ("cooperation/atomics/shared", "shared_atomic_wavefronts"),
    "one lane for a warp: conflicts": ("cooperation/atomics/shared", "shared_atomic_bank_conflicts"),
    "loads dropped": ("applications/control/local_vectors", "local_load_requests"),
    "stores dropped": ("applications/control/local_vectors", "local_store_sectors"),
    "pairs of a fragment": ("warp_matrices/wmma/square", "global_store_requests"),
    "pairs of a turned fragment": ("warp_matrices/wmma/flat", "global_store_requests"),
    "fragments by ldmatrix": ("warp_matrices/wmma/staged", "matrix_load_wavefronts"),
    "fragments by ldmatrix are shared loads": ("warp_matrices/wmma/staged", "shared_load_wavefronts"),
    "words of a local vector": ("unseen/local_window", "local_load_requests"),
    "words of a stored vector": ("unseen/local_window", "local_store_requests"),
    "a guard that a test of bits makes": ("unseen/fft_64", "thread_fadd"),
    "guards that are bits of a register": ("unseen/walsh_hadamard", "thread_fadd"),
    "loads joined across branches": ("unseen/rank_sort", "shared_load_wavefronts"),
    "loads not joined across barriers": ("unseen/scan_blelloch", "shared_load_bank_conflicts"),
    "the subroutine of a division": ("unseen/cyclic_reduction", "thread_ffma"),
    "its sums": ("unseen/cyclic_reduction", "thread_fadd"),
    "what a root of zero leaves out": ("unseen/numba_distances", "thread_fmul"),
    "subroutines of doubles": ("arithmetic/floats/doubles_special", "thread_dfma"),
    "roots of doubles": ("arithmetic/floats/doubles_special", "thread_dadd"),
    "NaN in a division": ("arithmetic/floats/halves_special", "thread_fadd"),
    "spills on the lines of loads": ("unseen_second/spilled", "local_load_requests"),
    "a spill in front of all instructions": ("unseen_second/spilled", "local_store_requests"),
    "spills are no copies of a block": ("unseen_second/spilled", "thread_ffma"),
    "a joined load that was taken apart": ("unseen_second/solve_lower", "shared_load_wavefronts"),
    "its parts are no copies of a block": ("unseen_second/solve_lower", "thread_ffma"),
    "a local array in registers": ("unseen_second/sha_256", "local_load_requests"),
    "its stores": ("unseen_second/sha_256", "local_store_sectors"),
    "local loads joined ahead of a branch": ("unseen_second/nearest_three", "local_load_sectors"),
    "pairs of a turned fragment, loaded": ("unseen_second/fragments_relu", "global_load_requests"),
    "a branch on the line of a store": ("unseen_second/binomial_put", "thread_ffma"),
    "lanes that leave are not waited for": ("unseen_third/flip_spins", "global_store_requests"),
    "loads of one address behind barriers": ("unseen_third/numba_spectra", "shared_load_bank_conflicts"),
    "parts of a joined load ahead of and behind a branch": ("unseen_third/wavelet", "shared_load_wavefronts"),
    "a wide load of which a lower part lies behind a branch": ("unseen_third/wavelet", "shared_load_bank_conflicts"),
    "a generic atomic": ("unseen_third/relax_line", "shared_atomic_wavefronts"),
    "two neighbouring wide stores": ("unseen_third/numba_vote", "local_store_requests"),
    "two conversions that share a constant": ("unseen_third/fit_lines", "thread_fmul"),
    "lanes that leave a loop in its middle": ("unseen_third/cover", "global_load_requests"),
    "lanes that leave a loop behind two loads": ("unseen_third/colour_graph", "global_load_sectors"),
    "one of two conditions, by branches": ("unseen_third/numba_row_minima", "shared_store_wavefronts"),
    "one of two conditions, by predicates": ("unseen_third/sort_items", "shared_store_bank_conflicts"),
    "increments that wrap where the word does": ("unseen_fifth/mend_hamming", "shared_atomic_wavefronts"),
    "a load of what was loaded already": ("unseen_fifth/count_keys", "global_load_requests"),
    "lanes that store and leave past a barrier": ("unseen_fifth/bareiss", "local_store_requests"),
    "a loop made several": ("unseen_fifth/fenwick", "global_load_requests"),
    "its stores to local memory": ("unseen_fifth/days_to_warmer", "local_load_requests"),
    "rounds of several under guards of one block": ("unseen_second/print_numbers", "global_store_requests"),
    "rounds whose loads conflict": ("unseen_third/crc_64", "shared_load_bank_conflicts"),
    "rounds of which only the first has a sum": ("unseen_fifth/internal_rates", "thread_dadd"),
    "a loop made several in a function that is called twice": ("applications/control/outlined", "thread_fadd"),
    "lanes that go back to a loop's head by two ways": ("unseen_sixth/skip_list", "global_load_requests"),
    "words of several rounds in one load": ("unseen_sixth/hulls", "local_load_requests"),
    "sectors of words of several rounds": ("unseen_sixth/hulls", "local_load_sectors"),
    "one load of both sides of a branch": ("unseen_sixth/zero_crossings", "shared_load_wavefronts"),
    "copies that read nothing": ("cp_async_16_bytes/zeros_only", "global_load_requests"),
}


RECORDED = set(names())


@cache
def _run(name: str) -> Execution:
    if name in RECORDED:
        kernel = load(name)
        return emulator.execute(kernel.plan, dict(kernel.inputs), workers=1)
    entry = next(e for e in ENTRIES if e.name == name)
    (plan,) = assemble_file([entry], "sm_90a").values()
    return emulator.execute(plan, entry.draw(), workers=1)


@needs_nvdisasm
@pytest.mark.parametrize(("name", "counter"), COUNTED.values(), ids=COUNTED.keys())
def test_counts_what_the_hardware_did(name: str, counter: str) -> None:
    truth = recorded().get((f"corpus/{name}", METRICS[counter]), 0)  # what is zero on both sides is not recorded
    assert getattr(_run(name).total, counter) == truth


@needs_nvdisasm
def test_shared_loads_joined_ahead_of_branches() -> None:
    """Beyond its conflicts: ncu counts one, where all lanes of every load have the same address."""
    name, wavefronts, conflicts = "unseen_second/nearest_three", "shared_load_wavefronts", "shared_load_bank_conflicts"
    total, truth = _run(name).total, recorded()
    beyond = truth[f"corpus/{name}", METRICS[wavefronts]] - truth[f"corpus/{name}", METRICS[conflicts]]
    assert total.shared_load_wavefronts - total.shared_load_bank_conflicts == beyond > 0


@needs_nvdisasm
def test_spills_are_local_loads_and_stores() -> None:
    name, lab = "solutions/08_hopper_hgemm/rung_04_one_consumer", find_lab("08_hopper_hgemm")
    case = lab.task.profile
    plan = capture_submission(lab, CHECKOUT / f"{name}.py", (case,), 20, "sm_90a").plans[case.name]
    values = generate(np, lab.task, case, 20)
    total = emulator.execute(plan, {key: values[key] for key in plan.buffers if key in values}, workers=1).total
    for counter in ("local_load_requests", "local_load_sectors", "local_store_requests", "local_store_sectors"):
        assert getattr(total, counter) == recorded()[name, METRICS[counter]] > 0


PIECES = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
    .reg .b32 %r<12>; .reg .b64 %rd<12>;
    .local .align 16 .b8 box[64];
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4];
    mov.u64 %rd6, box;
    mul.wide.u32 %rd7, %r2, 4;
    add.s64 %rd8, %rd6, %rd7;
    mov.u32 %r3, 0;
    st.local.v4.u32 [%rd6], {%r3, %r3, %r3, %r3};
    st.local.v4.u32 [%rd6+16], {%r3, %r3, %r3, %r3};
    st.local.u32 [%rd8], %r2;
    ld.local.v4.u32 {%r4, %r5, %r6, %r7}, [%rd6+16];
    add.s32 %r8, %r4, %r5;
    mul.wide.u32 %rd9, %r8, 4;
    add.s64 %rd10, %rd6, %rd9;
    ld.local.u32 %r9, [%rd10];
    add.s32 %r9, %r9, %r7;
    st.global.u32 [%rd5], %r9;
    ret;
}"""


@needs_nvdisasm
def test_a_vector_in_pieces_is_no_copy_of_its_block() -> None:
    data, out = np.arange(32, dtype=np.uint32) % 8, np.zeros(32, np.uint32)
    buffers = {"p": buffer("p", data, Role.INPUT), "q": buffer("q", out, Role.OUTPUT)}
    plan = assemble(plan_of(PIECES, "k", buffers, (Pointer("p"), Pointer("q")), (1,), (32,)), "sm_90a")
    image = plan.kernels["kernel"].cubins["sm_90a"].image
    place = 1 + PIECES.split("\n").index("    ld.local.v4.u32 {%r4, %r5, %r6, %r7}, [%rd6+16];")
    (code,) = (disassembler.disassembled(image) or {}).values()
    assert sorted(i.width for i in code if i.root == "LDL" and i.line == place) == [4, 8]
    total = emulator.execute(plan, {"p": data}, workers=1).total
    assert (total.global_load_requests, total.global_store_requests) == (1, 1)


@needs_nvdisasm
def test_lines_add_up_to_the_total() -> None:
    for launch in _run("cooperation/atomics/shared").launches + _run("cooperation/reduction/shuffle").launches:
        for counter in ("thread_fadd", "shared_load_wavefronts", "shared_atomic_wavefronts"):
            assert sum(getattr(line, counter) for line in launch.lines.values()) == getattr(launch.total, counter)


def test_without_nvdisasm_the_ptx_counts_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load("cooperation/reduction/shuffle")
    monkeypatch.setattr(disassembler, "nvdisasm", lambda: None)
    monkeypatch.setattr(disassembler.cache, "read", lambda kind, key: None)
    disassembler.disassembled.cache_clear()
    decoder._decoded.cache_clear()
    try:
        execution = emulator.execute(kernel.plan, dict(kernel.inputs), workers=1)
    finally:
        disassembler.disassembled.cache_clear()
        decoder._decoded.cache_clear()
    assert execution.total.thread_fadd == 3200  # five additions of each thread, five more of the first warps
    assert "nvidia-cuda-nvdisasm" in execution.notes[COUNTERS_NOTE]


@needs_nvdisasm
def test_machine_code_that_the_rules_do_not_know_leaves_the_ptx_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(assembled: Assembled) -> None:
        compare(assembled)
        raise LookupError

    compare = Assembled.compare
    monkeypatch.setattr(Assembled, "compare", fails)
    kernel = load("cooperation/atomics/shared")
    decoder._decoded.cache_clear()
    try:
        execution = emulator.execute(kernel.plan, dict(kernel.inputs), workers=1)
    finally:
        decoder._decoded.cache_clear()
    assert execution.total.shared_load_wavefronts == 16  # eight loads of each block's first warp
    assert "those of its PTX" in execution.notes[COUNTERS_NOTE]


MADE = """
extern "C" __global__ void ell(const int* col, const float* val, const float* x, float* y, int rows, int width) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int k = 0; k < width; ++k) {
        int c = col[k * rows + r];
        if (c >= 0) s += val[k * rows + r] * x[c];
    }
    y[r] = s;
}

extern "C" __global__ void mean(const float* x, float* y, float n) {
    float s = x[threadIdx.x];
    for (int k = 16; k; k /= 2) s += __shfl_down_sync(~0u, s, k);
    if (threadIdx.x == 0) y[0] = s / n;
}

__device__ __noinline__ float leak(float x, float scale) {
    float y = x * scale;
    return y < 0 ? y * 0.5f : y;
}

extern "C" __global__ void leaks(const float* x, float* y) {
    y[threadIdx.x] = leak(x[threadIdx.x], 2.0f) - leak(x[threadIdx.x] - 1, 3.0f);
}"""


@needs_nvdisasm
def test_a_guard_on_the_line_of_a_sum_is_that_of_a_branch() -> None:
    """ptxas unrolls the loop, makes predicates of its branches and gives some of them the line of a sum."""
    col = np.random.default_rng(4).integers(-9, 20, (9, 100)).astype(np.int32)
    val, x = np.ones((9, 100), np.float32), np.ones(20, np.float32)
    arrays = {n: (a, Role.INPUT) for n, a in (("col", col), ("val", val), ("x", x))}
    arrays["y"] = np.zeros(100, np.float32), Role.OUTPUT
    plan = cuda_plan(MADE, "ell", arrays, ("col", "val", "x", "y", np.int32(100), np.int32(9)), (2,), (64,))
    total = emulator.execute(assemble(plan, "sm_90a"), {"col": col, "val": val, "x": x}, workers=1).total
    assert total.thread_ffma == np.count_nonzero(col >= 0)


@needs_nvdisasm
def test_what_precedes_a_division_stands_with_what_follows_it() -> None:
    """ptxas makes the last sum of the shuffles behind the exit of all threads but one, in front of the division."""
    x = np.ones(32, np.float32)
    arrays = {"x": (x, Role.INPUT), "y": (np.zeros(1, np.float32), Role.OUTPUT)}
    plan = cuda_plan(MADE, "mean", arrays, ("x", "y", np.float32(32)), (1,), (32,))
    total = emulator.execute(assemble(plan, "sm_90a"), {"x": x}, workers=1).total
    assert (total.thread_fadd, total.thread_ffma) == (4 * 32 + 1, 5)


@needs_nvdisasm
def test_a_guard_in_a_function_that_is_called_twice() -> None:
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    arrays = {"x": (x, Role.INPUT), "y": (np.zeros(64, np.float32), Role.OUTPUT)}
    plan = cuda_plan(MADE, "leaks", arrays, ("x", "y"), (1,), (64,))
    total = emulator.execute(assemble(plan, "sm_90a"), {"x": x}, workers=1).total
    assert total.thread_fmul == 2 * 64 + np.count_nonzero(x < 0) + np.count_nonzero(x < 1)


LEAVES = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r9, 0;
ROUND:
    ld.global.u32 %r2, [%rd4];
    setp.gt.u32 %p1, %r2, 20;
    @%p1 bra MEET;
    ld.global.u32 %r3, [%rd4+128];
    setp.gt.u32 %p2, %r3, 2;
    @%p2 bra MEET;
    ld.global.u32 %r4, [%rd4+256];
    add.s32 %r9, %r9, %r4;
    bra.uni OUT;
MEET:
    ld.global.u32 %r5, [%rd4+384];
    add.s32 %r9, %r9, %r5;
    add.s64 %rd4, %rd4, 512;
    setp.lt.u32 %p3, %r9, 100;
    @%p3 bra ROUND;
OUT:
    st.global.u32 [%rd5], %r9;
    ret;
}"""


@needs_nvdisasm
def test_lanes_that_fall_through_past_a_meeting() -> None:
    """Nothing branches to where the second branch leads on past the meeting."""
    data = np.random.default_rng(3).integers(0, 40, (40, 4, 32)).astype(np.uint32)
    data[:, 1] %= 8
    buffers = {"p": buffer("p", data, Role.INPUT), "q": buffer("q", np.zeros(32, np.uint32), Role.OUTPUT)}
    plan = assemble(plan_of(LEAVES, "k", buffers, (Pointer("p"), Pointer("q")), (1,), (32,)), "sm_90a")
    execution = emulator.execute(plan, {"p": data}, workers=1)
    sums, active, requests = np.zeros(32, np.uint32), np.full(32, True), 0
    for row in data:  # the hardware: lanes that stay are together in each round
        asking = active & (row[0] <= 20)
        leaving = asking & (row[1] <= 2)
        staying = active & ~leaving
        requests += sum(int(lanes.any()) for lanes in (active, asking, leaving, staying))
        sums += np.where(leaving, row[2], 0) + np.where(staying, row[3], 0)
        active = staying & (sums < 100)
    assert execution.outputs["q"].tolist() == sums.tolist()
    assert execution.total.global_load_requests == requests


BACK = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r9, 0;
ROUND:
    ld.global.u32 %r2, [%rd4];
    add.s64 %rd4, %rd4, 128;
    add.s32 %r9, %r9, %r2;
    setp.gt.u32 %p1, %r2, 9;
    @%p1 bra OTHER;
    ld.global.u32 %r3, [%rd4+8192];
    add.s32 %r9, %r9, %r3;
    setp.lt.u32 %p2, %r3, 30;
    @%p2 bra ROUND;
    bra.uni OUT;
OTHER:
    setp.lt.u32 %p3, %r2, 18;
    @%p3 bra ROUND;
OUT:
    st.global.u32 [%rd5], %r9;
    ret;
}"""


@needs_nvdisasm
def test_lanes_that_go_back_by_two_ways() -> None:
    """They meet ahead of the one branch back of the machine code, so that a round is one load, and one for OTHER's."""
    generator = np.random.default_rng(3)
    data = np.concatenate([generator.integers(0, 20, (64, 32)), generator.integers(0, 40, (65, 32))]).astype(np.uint32)
    buffers = {"p": buffer("p", data, Role.INPUT), "q": buffer("q", np.zeros(32, np.uint32), Role.OUTPUT)}
    plan = assemble(plan_of(BACK, "k", buffers, (Pointer("p"), Pointer("q")), (1,), (32,)), "sm_90a")
    (code,) = (disassembler.disassembled(plan.kernels["kernel"].cubins["sm_90a"].image) or {}).values()
    assert any(one.root == "BSYNC" and 0 <= two.leads_to < one.block for one, two in pairwise(code))
    execution = emulator.execute(plan, {"p": data}, workers=1)
    sums, active, requests, row = np.zeros(32, np.uint32), np.full(32, True), 0, 0
    while active.any():
        asking = active & (data[row] <= 9)
        requests += 1 + int(asking.any())
        row += 1
        sums += np.where(active, data[row - 1], 0) + np.where(asking, data[row + 64], 0)
        active &= np.where(asking, data[row + 64] < 30, data[row - 1] < 18)
    assert 4 < row < 64
    assert execution.outputs["q"].tolist() == sums.tolist()
    assert execution.total.global_load_requests == requests


@needs_nvdisasm
def test_lanes_that_leave_a_loop_with_a_loop_in_it() -> None:
    """The lanes of a warp are together in each round, so each round in which one of them loads is one request."""
    name = "applications/control/break_continue"
    total, a = _run(name).total, load(name).inputs["a"]
    thread = np.arange(a.size)
    active, requests = np.full(a.size, True), 0
    for k in range(40):
        loads = active & ((k + thread) % 5 != 0)
        requests += sum(int(loads[first : first + 32].any()) for first in range(0, a.size, 32))
        active &= ~(loads & (k > a % 40))
    assert total.global_load_requests == requests


HANDED = """
extern "C" __global__ void handed(const int* a, volatile int* flag, int* out) {
    int t = threadIdx.x, x = 0;
    for (int k = 0; k < 4; ++k) {
        int v = a[k * 32 + t];
        if (v > 5) {
            if (v > 7) { flag[0] = 1; break; }
            while (flag[0] == 0);
        }
        x += v * a[t];
    }
    out[t] = x;
}"""


@needs_nvdisasm
def test_lanes_that_leave_do_not_wait_for_those_that_wait_for_them() -> None:
    a = np.random.default_rng(1).integers(0, 9, (4, 32)).astype(np.int32)
    arrays = {"a": (a, Role.INPUT), "flag": (np.zeros(1, np.int32), Role.INOUT)}
    arrays["out"] = np.zeros(32, np.int32), Role.OUTPUT
    plan = assemble(cuda_plan(HANDED, "handed", arrays, ("a", "flag", "out"), (1,), (32,)), "sm_90a")
    (code,) = (disassembler.disassembled(plan.kernels["kernel"].cubins["sm_90a"].image) or {}).values()
    assert "BREAK" in {i.root for i in code}
    values = {"a": a, "flag": np.zeros(1, np.int32)}
    execution = emulator.execute(plan, values, workers=1, instruction_budget=100_000)
    stays = np.logical_and.accumulate(a <= 7)
    assert not execution.findings
    assert execution.outputs["out"].tolist() == (np.where(stays, a, 0).sum(axis=0) * a[0]).tolist()


LEFT = """
extern "C" __global__ void counted(const int* keys, int* counts) {
    unsigned lane = threadIdx.x % 32, same = __match_any_sync(~0u, keys[threadIdx.x]);
    if (__ffs(same) - 1 == lane) atomicAdd(&counts[keys[threadIdx.x]], __popc(same));
}

extern "C" __global__ void chosen(const int* a, int* out) {
    int t = threadIdx.x, x = a[t];
    if (x == 0) {
        int y = a[t + 32];
        if (y == 0) { out[t] = -1; return; }
        x = a[t + 64] / y;
    }
    out[t] = a[t + 96] - x;
}"""


def _run_left(entry: str, arrays: dict) -> tuple[list[str], Execution]:
    """The opcodes of a kernel of LEFT, and what its two arrays' execution by one warp gives."""
    plan = assemble(cuda_plan(LEFT, entry, arrays, tuple(arrays), (1,), (32,)), "sm_90a")
    (code,) = (
        code
        for name, code in (disassembler.disassembled(plan.kernels["kernel"].cubins["sm_90a"].image) or {}).items()
        if name == entry
    )
    return [i.root for i in code], emulator.execute(plan, {name: a for name, (a, _) in arrays.items()}, workers=1)


@needs_nvdisasm
def test_a_load_of_what_was_loaded_already() -> None:
    keys = np.random.default_rng(5).integers(0, 9, 32).astype(np.int32)
    arrays = {"keys": (keys, Role.INPUT), "counts": (np.zeros(9, np.int32), Role.INOUT)}
    roots, execution = _run_left("counted", arrays)
    assert roots.count("LDG") == 1
    assert execution.outputs["counts"].tolist() == np.bincount(keys, minlength=9).tolist()
    assert (execution.total.global_load_requests, execution.total.global_load_sectors) == (1, 4)


@needs_nvdisasm
def test_lanes_that_leave_the_kernel_are_not_waited_for_though_they_store() -> None:
    """Those that stay are together behind the barrier: a load and a store for them, a store for those that left."""
    a = np.random.default_rng(6).integers(0, 3, (4, 32)).astype(np.int32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(32, np.int32), Role.OUTPUT)}
    roots, execution = _run_left("chosen", arrays)
    assert "BSYNC" in roots and "BREAK" not in roots
    x = np.where(a[0] == 0, a[2] // np.maximum(a[1], 1), a[0])
    assert execution.outputs["out"].tolist() == np.where((a[0] == 0) & (a[1] == 0), -1, a[3] - x).tolist()
    assert (execution.total.global_load_requests, execution.total.global_store_requests) == (4, 2)


def _run_rounds(text: str, data: np.ndarray, numbers: np.ndarray) -> tuple[list[str], Execution]:
    """The machine instructions of a kernel whose lanes each go over a column of `data`, as many rounds as `numbers`
    gives them; and its execution by one warp."""
    buffers = {
        "p": buffer("p", data, Role.INPUT),
        "q": buffer("q", np.zeros(32, data.dtype), Role.OUTPUT),
        "s": buffer("s", numbers, Role.INPUT),
    }
    plan = plan_of(text, "k", buffers, (Pointer("p"), Pointer("q"), Pointer("s")), (1,), (32,))
    plan = assemble(plan, "sm_90a")
    (code,) = (disassembler.disassembled(plan.kernels["kernel"].cubins["sm_90a"].image) or {}).values()
    return [i.root for i in code], emulator.execute(plan, {"p": data, "s": numbers}, workers=1)


ROUNDS = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 s) {{
    .reg .pred %p<3>; .reg .b32 %r<10>; .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    ld.param.u64 %rd6, [s];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    add.s64 %rd7, %rd6, %rd3;
    ld.global.u32 %r2, [%rd7];
    mov.u32 %r4, 0;
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra OUT;
    mov.u32 %r3, {first};
ROUND:
    ld.global.u32 %r5, [%rd4];
    add.s32 %r4, %r4, %r5;
    add.s64 %rd4, %rd4, 128;
    add.s32 %r3, %r3, {step};
    setp.{condition} %p1, %r3, {last};
    @%p1 bra ROUND;
OUT:
    st.global.u32 [%rd5], %r4;
    ret;
}}"""


@needs_nvdisasm
@pytest.mark.parametrize(
    ("first", "step", "condition", "last"),
    [("%r2", -1, "ne", "0"), ("0", 1, "ne", "%r2"), ("0", 1, "lt", "%r2"), ("0", 2, "le", "%r2"),
     ("%r2", -2, "gt", "0"), ("%r2", -3, "ge", "-7")],
)  # fmt: skip
def test_a_loop_that_became_several(first: str, step: int, condition: str, last: str) -> None:
    """Lanes with four rounds left go four together, then those with two left two, then one: each round is a load."""
    text = ROUNDS.format(first=first, step=step, condition=f"{condition}.s32", last=last)
    data = np.random.default_rng(7).integers(0, 1000, (40, 32)).astype(np.uint32)
    numbers = np.random.default_rng(8).integers(0, 20, 32).astype(np.uint32)
    rounds = np.zeros(32, int)
    for lane, number in enumerate(numbers.tolist()):
        place, end = (number if where == "%r2" else int(where) for where in (first, last))
        goes_on = number > 0
        while goes_on:
            rounds[lane] += 1
            place += step
            goes_on = getattr(operator, condition)(place, end)
    roots, execution = _run_rounds(text, data, numbers)
    assert roots.count("LDG") == 1 + 4 + 2 + 1
    requests, sectors, row = 1, 4, np.zeros(32, int)  # what is loaded ahead; the next row of each lane
    for group in (4, 2, 1):
        while (together := rounds - row >= group).any():
            for _ in range(group):
                requests += 1
                sectors += len({(row[lane], lane // 8) for lane in np.flatnonzero(together)})
                row += together
    sums = [data[:n, lane].sum(dtype=np.uint32) for lane, n in enumerate(rounds)]
    assert execution.outputs["q"].tolist() == sums
    assert (execution.total.global_load_requests, execution.total.global_load_sectors) == (requests, sectors)


CARRIED = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 s) {
    .reg .pred %p<3>; .reg .b32 %r<4>; .reg .f32 %f<5>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    ld.param.u64 %rd6, [s];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    add.s64 %rd7, %rd6, %rd3;
    ld.global.u32 %r2, [%rd7];
    ld.global.f32 %f1, [%rd4];
    mov.f32 %f2, %f1;
ROUND:
    ld.global.f32 %f3, [%rd4+128];
    add.f32 %f4, %f2, %f3;
    mul.f32 %f2, %f4, %f1;
    add.s64 %rd4, %rd4, 128;
    add.s32 %r2, %r2, -1;
    setp.ne.s32 %p1, %r2, 0;
    @%p1 bra ROUND;
    st.global.f32 [%rd5], %f2;
    ret;
}"""


@needs_nvdisasm
def test_rounds_of_a_group_have_other_operations() -> None:
    """ptxas fuses the product of a round with the sum of the next in its group: each time that lanes go through one,
    they make one sum, one product and a fused one for each further round."""
    data = np.random.default_rng(9).integers(-1, 2, (21, 32)).astype(np.float32)
    numbers = np.random.default_rng(10).integers(1, 20, 32).astype(np.uint32)
    roots, execution = _run_rounds(CARRIED, data, numbers)
    assert [roots.count(root) for root in ("FADD", "FMUL", "FFMA")] == [3, 3, 4]
    rounds = numbers.astype(int)
    passes = rounds // 4 + rounds % 4 // 2 + rounds % 2
    expected = data[0].copy()
    for row in range(1, 21):
        expected = np.where(row <= rounds, (expected + data[row]) * data[0], expected)
    assert execution.outputs["q"].tolist() == expected.tolist()
    total = execution.total
    assert (total.thread_fadd, total.thread_fmul) == (passes.sum(), passes.sum())
    assert total.thread_ffma == (rounds - passes).sum()


LISTING = """
	.section	.text.first,"ax",@progbits
first:
.text.first:
	//## File ".nv_debug_ptx_txt", line 7
        /*0000*/                   LDS.128 R4, [UR4+0x10] ;
        /*0010*/               @P0 FADD.FTZ R0, R3, -R4 ;
        /*0020*/                   BRA.DIV UR4, `(.L_x_2) ;
	//## File ".nv_debug_ptx_txt", line 9
        /*0030*/              @!P1 STG.E.U16 desc[UR4][R2.64], R5 ;
        /*0040*/                   EXIT ;
.L_x_2:
        /*0050*/                   FMUL R1, R1, R1 ;
        /*0060*/                   BRA `(.L_x_3) ;
.L_x_3:
        /*0070*/                   FADD R1, R1, R1 ;
	.section	.text.second,"ax",@progbits
        /*0000*/                   STL.64 [R1+0x8], R26 ;
"""


def test_reads_what_nvdisasm_prints() -> None:
    code = read(LISTING)
    assert [(i.root, i.guard, i.line) for i in code["first"][:4]] == [
        ("LDS", "", 7), ("FADD", "P0", 7), ("BRA", "", 7), ("STG", "!P1", 9)
    ]  # fmt: skip
    assert [code["first"][n].width for n in (0, 3)] == [16, 2]
    assert [i.rare for i in code["first"]] == [False] * 5 + [True] * 3  # behind a branch for diverged warps only
    assert [i.branched_to for i in code["first"]] == [False] * 5 + [True] * 3
    assert code["first"][0].block == code["first"][2].block != code["first"][3].block
    assert {n: i.leads_to for n, i in enumerate(code["first"]) if i.leads_to >= 0} == {
        branch: code["first"][at].block for branch, at in ((2, 5), (6, 7))
    }
    assert code["second"][0].width == 8


@pytest.mark.parametrize("text", ["", "/*0000*/", "first:\n/*0000*/ FADD", LISTING[::-1], LISTING.replace(";", "")])
def test_what_is_no_listing_has_no_instructions(text: str) -> None:
    assert not any(read(text).values())
