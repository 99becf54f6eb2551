"""What a profile says of one block, against what is known of the kernel by hand, and against the counters."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.emulator import kernels
from tests.emulator.plans import cuda_plan, numba_plan
from warplab.emulator import execute, profile
from warplab.emulator.clock.chips import MEASURED
from warplab.emulator.clock.estimate import estimate
from warplab.emulator.profiling import Profile
from warplab.emulator.profiling.accesses import Space, accesses_of
from warplab.emulator.profiling.profile import ProfileError
from warplab.emulator.profiling.timeline import Clock, IssueKind, Reason
from warplab.emulator.recorder import Recorder
from warplab.errors import PlanError
from warplab.hardware.chips import H200
from warplab.plan.execution import Counters
from warplab.plan.model import Plan, Role

pytestmark = pytest.mark.stored

SOURCE = """
extern "C" __global__ void halves(const int* a, int* out) {
    int t = threadIdx.x;
    if (a[t] % 3 == 0)
        out[t] = a[t] * a[t + 32];
    else
        for (int k = 0; k < a[t]; ++k) out[t] += k;
}
extern "C" __global__ void late(const int* a, int* out) {
    __shared__ int tile[96];
    int t = threadIdx.x;
    if (t < 32) for (int k = 0; k < a[0]; ++k) atomicAdd(out, 1);
    tile[t] = a[t];
    __syncthreads();
    out[t] = tile[95 - t];
}
extern "C" __global__ void widths(const double4* a, const short* s, double2* out, int* order) {
    __shared__ double2 tile[64];
    __shared__ short small[64];
    int t = threadIdx.x;
    double2 v = reinterpret_cast<const double2*>(a)[order[t]];
    tile[t * 5 % 64] = v;
    small[t] = s[63 - t];
    __syncthreads();
    if (t % 3) out[t].x = tile[order[t] / 2].x + small[t / 2];
    out[t].y = tile[t / 4].y + tile[0].y;
    __syncthreads();
    atomicAdd(order + t / 8, 1);
}
extern "C" __global__ void generic(int* a, int n, int* out) {
    __shared__ int tile[32];
    int mine[8];
    int t = threadIdx.x;
    tile[t] = t;
    for (int k = 0; k < 8; ++k) mine[k] = a[t] + k;
    __syncthreads();
    int* p = t % 3 == 0 ? tile + t : t % 3 == 1 ? a + 2 * t : mine + n + t % 4;
    out[t] = *p;
    out[t + n] = a[t + 1000 * (t == 5)];
}
extern "C" __global__ void copies(const float4* a, float4* out) {
    __shared__ float4 tile[32];
    int t = threadIdx.x;
    unsigned to = __cvta_generic_to_shared(tile + (t ^ 1));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(a + t) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    unsigned from = __cvta_generic_to_shared(tile) + t * 32 % 512, r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(from));
    out[t] = tile[t];
    out[t].x += r;
}
"""


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.splitlines(), start=1) if text in line)


def cuda(entry: str, arrays: dict, arguments: tuple, threads: int) -> Plan:
    return cuda_plan(SOURCE, entry, arrays, arguments, (1,), (threads,))


@pytest.fixture(scope="module")
def transposed() -> Profile:
    a = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    values = {"a": a, "out": np.zeros((96, 64), np.float32)}
    plan = numba_plan(kernels.transpose_unpadded, values, {"out": Role.OUTPUT}, (3, 2), (32, 8))
    return profile(plan, {"a": a}, block=(2, 1, 0))


@pytest.fixture(scope="module")
def halves() -> Profile:
    a = np.arange(64, dtype=np.int32)
    plan = cuda("halves", {"a": (a, Role.INPUT), "out": (a, Role.INOUT)}, ("a", "out"), 32)
    return profile(plan, {"a": a, "out": a})


def test_a_column_of_the_tile_meets_in_one_bank(transposed: Profile) -> None:
    line = next(n for n, row in enumerate(transposed.plan.source.splitlines(), 1) if "MARK conflicts" in row)
    read, write = transposed.accesses(line, warp=3)
    assert (read.space, read.verb, read.size, read.occurrences) == (Space.SHARED, "load", 4, 4)
    assert (write.space, write.verb, write.arrays) == (Space.GLOBAL, "store", "out")
    for occurrence in range(4):
        access = transposed.access(line, occurrence, warp=3, index=0)
        assert (access.cost, access.ideal, access.banks.conflicts) == (32, 1, 31)
        column = 3 + 8 * occurrence  # threadIdx.y is the warp, and j goes up by 8
        assert [lane.index for lane in access.lanes] == [(lane, column) for lane in range(32)]
        assert {a // 4 % 32 for a in access.addresses} == {column}
        stored = transposed.access(line, occurrence, warp=3, index=1)
        # Block (2, 1) writes rows 64 on and columns 32 on of out.
        assert [lane.index for lane in stored.lanes] == [(64 + column, 32 + lane) for lane in range(32)]
        assert (stored.cost, stored.ideal) == (4, 4)


def test_every_warp_but_the_last_waits_at_the_barrier(transposed: Profile) -> None:
    line = transposed.timeline()
    assert line.warps == 8 and line.clock is Clock.ISSUE_ORDER and line.truncated == 0
    assert [(stall.warp, stall.reason) for stall in line.stalls] == [(w, Reason.BARRIER) for w in range(7)]
    arrivals = {i.warp: i.time for i in line.issues if i.text.startswith("bar.sync")}
    assert len(arrivals) == 8 and max(arrivals, key=arrivals.__getitem__) == 7
    for stall in line.stalls:
        assert stall.start == arrivals[stall.warp] + 1 and stall.ended
        # It went on after the last had arrived, and issued nothing meanwhile.
        assert stall.end > arrivals[7]
        assert not [i for i in line.of_warp(stall.warp) if stall.start <= i.time < stall.end]
    assert line.waits_at(arrivals[7]).keys() == set(range(7))
    assert line.ended_at(line.end) == frozenset(range(8))


def test_the_timeline_has_every_instruction_once(transposed: Profile) -> None:
    times = [issue.time for issue in transposed.timeline().issues]
    assert times == sorted(set(times))
    blocks = 6
    total = transposed.execution.total
    assert len(times) * blocks == total.warp_instructions
    assert sum(i.lanes for i in transposed.timeline().issues) * blocks == total.thread_instructions


def test_recording_changes_nothing(transposed: Profile) -> None:
    a = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    plain = execute(transposed.plan, {"a": a})
    assert np.array_equal(transposed.execution.outputs["out"], plain.outputs["out"])
    assert np.array_equal(plain.outputs["out"], a.T)
    assert transposed.execution.lines == plain.lines


def test_a_divergent_branch_parts_the_warp(halves: Profile) -> None:
    line = halves.timeline()
    threes = sum(1 << lane for lane in range(0, 32, 3))
    branch = next(i for i in line.issues if i.kind is IssueKind.BRANCH)
    assert branch.line == line_of("% 3 == 0") and branch.active == 0xFFFFFFFF
    assert branch.mask in (threes, ~threes & 0xFFFFFFFF)
    product = next(i for i in line.issues if i.line == line_of("a[t + 32]") and i.kind is IssueKind.GLOBAL)
    other = next(i for i in line.issues if i.line == line_of("else") + 1)
    assert product.mask == threes
    assert other.active == ~threes & 0xFFFFFFFF
    # The loop of lane t turns t times: the lanes leave one after the other.
    loop = [i.lanes for i in line.issues if i.line == line_of("else") + 1 and i.kind is IssueKind.BRANCH]
    assert loop and min(loop) <= 1
    ends = [i.mask for i in line.issues if i.text == "ret;"]
    assert sum(ends) == 0xFFFFFFFF and all(a & b == 0 for a in ends for b in ends if a is not b)


def test_the_first_to_arrive_waits() -> None:
    a = np.full(96, 40, np.int32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(96, np.int32), Role.INOUT)}
    line = profile(cuda("late", arrays, ("a", "out"), 96), {"a": a, "out": np.zeros(96, np.int32)}).timeline()
    barrier = line_of("__syncthreads();")
    arrivals = {i.warp: i.time for i in line.issues if i.line == barrier and i.kind is IssueKind.SYNC}
    waits = {s.warp: s for s in line.stalls if s.reason is Reason.BARRIER}
    last = max(arrivals, key=arrivals.__getitem__)
    assert waits.keys() == {0, 1, 2} - {last}
    assert all(s.line == barrier and s.lanes == 0xFFFFFFFF for s in waits.values())


def _sums(profiled: Profile) -> dict[int, dict[str, int]]:
    sums: dict[int, dict[str, int]] = {}
    for access in accesses_of(profiled.trace, profiled.resolver, None, None):
        line = sums.setdefault(access.line, {})
        unit = "wavefronts" if access.space is Space.SHARED else "sectors"
        for name in (f"{access.space}_{access.verb}_{unit}", f"{access.space}_{access.verb}_requests"):
            line[name] = line.get(name, 0) + (access.cost if name.endswith(unit) else 1)
    return sums


def _counted(counters: Counters) -> dict[str, int]:
    kept = ("global_load", "global_store", "shared_load", "shared_store", "local_load", "local_store", "global_atomic",
            "global_reduction")  # fmt: skip
    return {
        name.replace("reduction", "atomic"): value
        for name, value in vars(counters).items()
        if value and name.startswith(kept) and name.endswith(("_requests", "_sectors", "_wavefronts"))
        and "ideal" not in name
    }  # fmt: skip


def test_accesses_add_up_to_the_counters() -> None:
    """Two implementations of the hardware's rules: the pictures' and the interpreter's."""
    rng = np.random.default_rng(5)
    a, s = rng.random((128, 2)), rng.integers(0, 9, 64).astype(np.int16)
    order = rng.permutation(64).astype(np.int32)
    arrays = {
        "a": (a, Role.INPUT), "s": (s, Role.INPUT), "out": (np.zeros((64, 2)), Role.INOUT),
        "order": (order, Role.INOUT),
    }  # fmt: skip
    plan = cuda("widths", arrays, ("a", "s", "out", "order"), 64)
    profiled = profile(plan, {"a": a, "s": s, "out": np.zeros((64, 2)), "order": order})
    assert profiled.findings == ()
    sums, lines = _sums(profiled), profiled.execution.lines
    assert {n: _counted(lines[n]) for n in sums} == sums
    assert {access.size for n in sums for access in profiled.accesses(n)} >= {2, 4, 8, 16}


def test_addresses_are_named_in_every_space() -> None:
    a = np.arange(64, dtype=np.int32)
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(32, np.int32), Role.OUTPUT)}
    plan = cuda("generic", arrays, ("a", np.int32(0), "out"), 32)
    profiled = profile(plan, {"a": a})
    parts = {p.space: p for p in profiled.accesses(line_of("out[t] = *p")) if p.verb == "load"}
    assert parts.keys() == set(Space)
    for lane in range(32):
        space = (Space.SHARED, Space.GLOBAL, Space.LOCAL)[lane % 3]
        place = parts[space].lanes[lane]
        assert place is not None and all(parts[other].lanes[lane] is None for other in parts if other is not space)
        if space is not Space.LOCAL:
            assert place.array.endswith(("tile", "a")) and place.index == ((lane if lane % 3 == 0 else 2 * lane),)
    assert parts[Space.GLOBAL].addresses[1] == 8 and parts[Space.GLOBAL].addresses[0] is None
    assert profiled.accesses(line_of("tile[t] = t;"))[0].arrays.endswith("tile")
    # A word of the 32 lanes of local memory is one row of 128 bytes.
    written = profiled.access(line_of("mine[k] ="), 1, index=-1)
    assert written.space is Space.LOCAL and written.sectors.bytes_moved == 128
    assert written.cost == written.size == 16  # four words of 32 lanes, each a row of four sectors
    # Lane 5 reads a[1005], which is not there: it is named, and costs nothing.
    stray = profiled.accesses(line_of("1000 *"))[0]
    assert str(stray.lanes[5]) == "a[1005] (outside or misaligned)" and stray.addresses[5] is None
    assert profiled.findings[0].index == (1005,)
    with pytest.raises(ValueError, match="banks, not sectors"):
        _ = parts[Space.SHARED].sectors
    with pytest.raises(ValueError, match="sectors, not banks"):
        _ = parts[Space.GLOBAL].banks


def test_copies_and_matrices_have_their_ends() -> None:
    a = np.ones((32, 4), np.float32)
    arrays = {"a": (a, Role.INPUT), "out": (a, Role.OUTPUT)}
    profiled = profile(cuda("copies", arrays, ("a", "out"), 32), {"a": a})
    to, source = profiled.accesses(line_of("cp.async.cg"))
    assert (to.space, to.write, to.size) == (Space.SHARED, True, 16)
    assert [place.index for place in to.lanes] == [(lane ^ 1,) for lane in range(32)]
    assert (source.space, source.write, source.cost) == (Space.GLOBAL, False, 16)
    assert [place.index for place in source.lanes] == [(lane, 0) for lane in range(32)]
    total = profiled.execution.total
    assert (to.cost, source.cost) == (total.async_copy_wavefronts, total.async_copy_bypass_sectors)
    matrix = profiled.access(line_of("ldmatrix"))
    assert matrix.active == 8 and matrix.matrix
    assert (matrix.cost, matrix.ideal) == (2, 1)  # rows 32 bytes apart: every second group of four banks
    assert matrix.cost == total.matrix_load_wavefronts


def test_a_full_trace_says_so(monkeypatch: pytest.MonkeyPatch, halves: Profile) -> None:
    module = sys.modules["warplab.emulator.profiling.profile"]  # the package's `profile` is the function
    monkeypatch.setattr(module, "Recorder", partial(Recorder, events=10, accesses=1))
    a = np.arange(64, dtype=np.int32)
    short = profile(halves.plan, {"a": a, "out": a})
    line = short.timeline()
    assert len(line.issues) <= 10 and line.truncated == len(halves.trace.events) - 10
    assert f"{line.truncated:,} later instructions are not in it" in str(line)
    assert line.issues == halves.timeline().issues[: len(line.issues)]
    assert short.execution.lines == halves.execution.lines
    with pytest.raises(ProfileError, match="The recorded part of block"):
        short.access(line_of("else") + 1)


def test_the_time_is_modelled_with_the_caches_of_the_chip(transposed: Profile) -> None:
    time = transposed.estimate()
    assert "modelled, not measured" in repr(time) and time.chip == H200.name
    again = execute(transposed.plan, transposed.inputs, caches=H200)
    assert time == estimate(again, H200) and time.seconds > MEASURED.start
    slower = replace(H200, boost_clock=H200.boost_clock / 4)
    assert transposed.estimate(slower).seconds > time.seconds
    table = transposed.table(H200)
    assert str(table).splitlines()[-1] == repr(time) and "modelled, not measured" in table._repr_html_()
    assert "modelled" not in str(transposed.table())
    with pytest.raises(PlanError, match="cannot be estimated"):
        transposed.estimate(replace(H200, boost_clock=None))


def test_the_table_has_the_hardware_names_and_the_waste(transposed: Profile) -> None:
    table = transposed.table()
    rows = {row.counter: row for row in table.rows}
    wavefronts = rows["shared_load_wavefronts"]
    assert wavefronts.metric == "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    assert (wavefronts.value, wavefronts.ideal, wavefronts.unit) == (6 * 32 * 32, 6 * 32, "wavefronts")
    assert wavefronts.waste == pytest.approx(31 / 32)
    assert rows["global_load_sectors"].waste == 0 and rows["global_load_sectors"].ideal == 6 * 128
    assert "97%" in str(table) and table._repr_html_().count("<tr>") == 1 + len(table.rows)
    assert table.value("shared_load_wavefronts") == 6144 and table.value("local_load_sectors") == 0
    text = str(transposed.source())
    assert any("MARK conflicts" in row and row.rstrip().endswith("5,952!") for row in text.splitlines())
    assert "5,952" in transposed.source()._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"launch": 1}, "1 launches, numbered from 0: there is no launch 1"),
        ({"block": (1, 0, 0)}, r"grid of \(1, 1, 1\) blocks: there is no block \(1, 0, 0\)"),
        ({"block": (0, -1, 0)}, "there is no block"),
    ],
)
def test_what_is_not_there_is_one_sentence(halves: Profile, arguments: dict, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        profile(halves.plan, {}, **arguments)


def test_a_missing_access_is_one_sentence(halves: Profile) -> None:
    line = line_of("a[t + 32]")
    with pytest.raises(ProfileError, match="accesses no memory on line 1; lines that do: 4, 5"):
        halves.access(1)
    with pytest.raises(ProfileError, match="warps 0 to 0: there is no warp 4"):
        halves.access(line, warp=4)
    with pytest.raises(ProfileError, match=r"makes 2 accesses \(0: global load, a; 1: global store, out\): pick one"):
        halves.access(line)
    with pytest.raises(ProfileError, match="there is no index 2"):
        halves.access(line, index=2)
    with pytest.raises(ProfileError, match="there is no occurrence 9"):
        halves.access(line, 9, index=1)


def test_a_plan_that_stops_early_is_one_sentence(halves: Profile) -> None:
    launch = halves.plan.launches[0]
    plan = replace(halves.plan, launches=(replace(launch, block=(2048, 1, 1)), launch))
    a = np.arange(64, dtype=np.int32)
    with pytest.raises(ProfileError, match="stopped before its launch 1 ran. The launch of kernel fails"):
        profile(plan, {"a": a, "out": a}, launch=1)


CLUSTER = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x;
    unsigned rank, there, v;
    tile[t] = 100 * blockIdx.x + t;
    asm volatile("barrier.cluster.arrive.aligned;\\n barrier.cluster.wait.aligned;" ::: "memory");
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    unsigned own = (unsigned)__cvta_generic_to_shared(tile + 31 - t);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(1 - rank));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\\n barrier.cluster.wait.aligned;" ::: "memory");
    out[32 * blockIdx.x + t] = v;
}
"""


def test_a_block_of_a_cluster_is_recorded_alone() -> None:
    out = np.zeros(32 * 6, np.int32)
    plan = cuda_plan(CLUSTER, "pairs", {"out": (out, Role.OUTPUT)}, ("out",), (6,), (32,))
    profiled = profile(plan, {}, block=(3, 0, 0))
    assert profiled.findings == ()
    assert np.array_equal(profiled.execution.outputs["out"].reshape(6, 32)[3], 200 + np.arange(31, -1, -1))
    line = profiled.timeline()
    assert 6 * len(line.issues) == profiled.execution.total.warp_instructions
    remote = next(n for n, row in enumerate(CLUSTER.splitlines(), 1) if "ld.shared::cluster" in row)
    access = profiled.access(remote)
    assert access.space is Space.SHARED and access.arrays.endswith("tile of block 0 of the cluster")
    assert [lane.index for lane in access.lanes] == [(31 - n,) for n in range(32)]
    stored = next(n for n, row in enumerate(CLUSTER.splitlines(), 1) if "out[32" in row)
    assert [lane.index for lane in profiled.access(stored).lanes] == [(96 + n,) for n in range(32)]


HANDOVER = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void handover(int* out) {
    __shared__ unsigned long long full;
    __shared__ int tile[32];
    int t = threadIdx.x;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at(&full)) : "memory");
    __syncthreads();
    if (t >= 32) {
        asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra AGAIN; }" :: "r"(at(&full)) : "memory");
        out[t] = tile[t - 32];
    } else {
        int v = t;
        for (int k = 0; k < 20; ++k) v = v * 3 + out[t + 64];
        tile[t] = v;
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&full)) : "memory");
    }
}
"""  # noqa: E501


@pytest.mark.parametrize("modelled", [False, True])
def test_a_wait_at_an_mbarrier_lasts_until_the_arrival(modelled: bool) -> None:
    out = np.zeros(128, np.int32)
    plan = cuda_plan(HANDOVER, "handover", {"out": (out, Role.INOUT)}, ("out",), (1,), (64,))
    profiled = profile(plan, {"out": out})
    assert profiled.findings == ()
    line = profiled.timeline(modelled=modelled)
    lines = {n: text for n, text in enumerate(HANDOVER.splitlines(), 1)}
    wait = next(n for n, text in lines.items() if "AGAIN" in text)
    (arrival,) = [i.time for i in line.of_warp(0) if i.text.startswith("mbarrier.arrive")]
    stalls = [s for s in line.stalls if s.warp == 1 and s.reason is Reason.MBARRIER]
    assert stalls and max(s.end for s in stalls) > arrival > min(s.start for s in stalls)
    if not modelled:
        assert all(s.line == wait for s in stalls)
    read = next(
        i.time for i in line.of_warp(1) if "tile[t - 32];" in lines.get(i.line, "") and i.kind is IssueKind.SHARED
    )
    assert read > arrival
    tests = [i for i in line.of_warp(1) if i.text.startswith("mbarrier.try_wait")]
    assert len(tests) == 1 if modelled else len(tests) >= 2
