"""The model of time: control codes, the simulated SM, routes, rounds of copied loops, and measured chains."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from course import results
from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.emulator.clock import executed, sm
from warplab.emulator.clock.chips import MEASURED, constants_of
from warplab.emulator.clock.constants import SEEN
from warplab.emulator.clock.estimate import Estimate, estimate
from warplab.emulator.clock.route import Route
from warplab.errors import PlanError
from warplab.hardware.chips import H200, RTX_4090
from warplab.isa.control_codes import Control, control_codes
from warplab.isa.machine_code import MachineInstruction
from warplab.plan.assemble import assemble
from warplab.plan.model import Role

NONE = Control(1, -1, -1, 0)


def instruction(opcode: str, block: int = 0, operands: str = "", leads_to: int = -1) -> MachineInstruction:
    return MachineInstruction(opcode, operands, "", 1, block, leads_to=leads_to)


def elf(sections: dict[str, bytes]) -> bytes:
    """A 64-bit ELF file of nothing but these sections and their names."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    contents = {**sections, ".shstrtab": names}
    body, headers = b"", [b"\0" * 64]
    for name, content in contents.items():
        at = names.index(name.encode() + b"\0")
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, 64 + len(body), len(content), 0, 0, 0, 0))
        body += content
    start = struct.pack("<16s", b"\x7fELF\x02").ljust(40, b"\0") + struct.pack("<Q", 64 + len(body))
    head = start.ljust(60, b"\0") + struct.pack("<2H", len(headers), len(headers) - 1)
    return head + body + b"".join(headers)


def test_control_codes_are_read_from_the_upper_bits_of_an_instruction() -> None:
    def encoded(stall: int, wrote: int, read: int, waits: int) -> bytes:
        return struct.pack("<2Q", 0, (stall | wrote << 5 | read << 8 | waits << 11) << 41)

    image = elf({".text.k": encoded(4, 7, 7, 0) + encoded(1, 2, 7, 0b100001), ".text.other": encoded(15, 0, 5, 0)})
    codes = control_codes(image)
    assert codes == {"k": (Control(4, -1, -1, 0), Control(1, 2, -1, 0b100001)), "other": (Control(15, 0, 5, 0),)}
    assert control_codes(b"no ELF file") == control_codes(image[:70]) == {}


def row(kind: int = sm.PLAIN, control: Control = NONE, **fields: float) -> list[float]:
    """An instruction of `simulate`, with fields by their names."""
    values: dict[str, float] = {"PIPE": -1, "ARGUMENT": -1, "KIND": kind, "STALL": control.stall, "LATENCY": 4}
    values |= {"WROTE": control.wrote, "READ": control.read, "WAITS": control.waits} | fields
    result = [0.0] * sm.FIELDS
    for name, value in values.items():
        result[getattr(sm, name)] = value
    return result


def cycles(
    rows: list[list[float]], warps: int = 1, blocks: int = 1, resident: int = 1,
    route: Sequence[tuple[float, ...]] = (), more: Mapping[str, float] = MappingProxyType({}), **values: float,
) -> float:  # fmt: skip
    """Cycles that an SM takes for blocks of these instructions, with parameters by their names."""
    parameters = np.zeros(sm.PARAMETERS)
    values = {"SCHEDULERS": 4, "SHARPNESS": 2.25, "CONSUMERS": 1, **more, **values}
    for name, value in values.items():
        parameters[getattr(sm, name)] = value
    way = np.array(route or [(0, len(rows), 0, 1, 1, 1)], float)
    end, _ = sm.simulate(np.array(rows), way, parameters, blocks, resident, warps, np.zeros(len(way)), 10**6)
    return end


WAITING = Control(1, -1, -1, 1)


def test_a_warp_waits_for_what_a_barrier_stands_for() -> None:
    load, used = row(control=Control(2, 0, -1, 0), LATENCY=100), row(control=Control(5, -1, -1, 1))
    between = row(control=Control(4, -1, -1, 0))
    # Issued at 0; what does not need it at 2; the sum at 100, which holds the warp for 5 cycles; the end a cycle later.
    assert cycles([load, between, used, row()]) == 106
    near = row(control=Control(2, 0, -1, 0), LATENCY=3)
    assert cycles([near, between, used, row()]) == 12  # it is there before


def test_two_loads_are_in_flight_at_once() -> None:
    first, second = (row(control=Control(1, barrier, -1, 0), LATENCY=100) for barrier in (0, 1))
    assert cycles([first, second, row(control=Control(1, -1, -1, 3))]) == 102


def test_a_wait_for_all_but_some_groups_leaves_those_in_flight() -> None:
    first, second = (row(control=Control(stall, 0, -1, 0), LATENCY=100) for stall in (50, 1))
    assert cycles([first, second, row(sm.GROUP_WAIT, NUMBER=1), row()]) == 102  # the second one is there at 150


def test_warps_of_a_scheduler_share_its_issue_slots_and_pipes() -> None:
    code = [row() for _ in range(100)]
    assert cycles(code) == cycles(code, warps=4) == 100
    assert cycles(code, warps=8) == pytest.approx(200, abs=2)
    piped = [row(PIPE=1, BUSY=2) for _ in range(100)]
    assert cycles(piped) == pytest.approx(200, abs=2)
    assert cycles(piped, warps=8) == pytest.approx(400, abs=4)


def test_other_warps_go_on_while_one_waits() -> None:
    code = [row(control=Control(1, 0, -1, 0), LATENCY=100), row(control=WAITING)] * 8
    alone = cycles(code)
    assert alone == pytest.approx(808, abs=10)
    assert cycles(code, warps=16) < 1.1 * alone


def test_a_barrier_waits_for_the_slowest_warp() -> None:
    slow, meet = [row() for _ in range(300)], [row(sm.BLOCK_BARRIER), row()]
    way = [(0, 300, 0, 0.25, 1, 1), (300, 302, 0, 1, 1, 1)]
    assert cycles([*slow, *meet], warps=4, route=way, BARRIER=20) == pytest.approx(320, abs=4)
    assert cycles([*slow, *meet], warps=4, route=way[1:], BARRIER=20) < 30


def test_blocks_follow_one_another_where_there_is_room() -> None:
    code = [row(control=Control(15, -1, -1, 0)) for _ in range(20)]
    one = cycles(code)
    assert cycles(code, blocks=4, resident=4) == one
    assert cycles(code, blocks=8, resident=4) == pytest.approx(2 * one, abs=4)
    assert cycles(code, blocks=5, resident=4) == pytest.approx(2 * one, abs=4)  # a tail


def test_loads_wait_for_the_bandwidth_if_many_are_in_flight() -> None:
    load = row(sm.LOAD, Control(1, 0, -1, 0), L2_BYTES=512, DRAM_BYTES=512, LINES=1)
    code = [*[load] * 8, row(control=WAITING)]
    memory = {"DRAM_LATENCY": 700, "L2_LATENCY": 280, "DRAM_CYCLES": 1 / 16}
    few, many = cycles(code, warps=1, more=memory), cycles(code, warps=32, more=memory)
    assert 700 < few < 900
    assert many == pytest.approx(8 * 512 * 32 / 16, rel=0.15)


def test_a_request_of_many_wavefronts_holds_up_those_of_its_scheduler() -> None:
    code = [row(sm.SHARED, Control(1, 0, -1, 0), WAVEFRONTS=32, LATENCY=23), row(control=WAITING)]
    assert cycles(code, WAVEFRONT_CYCLES=2) == pytest.approx(85, abs=2)  # microbench.json, "shared memory", 32 lanes
    assert cycles(code * 8, warps=32, WAVEFRONT_CYCLES=2) == pytest.approx(8 * 32 * 32, rel=0.05)  # one per cycle


def test_bulk_copies_run_as_far_ahead_as_there_is_room() -> None:
    code = [row(sm.STAGE_WAIT), row(control=Control(15, -1, -1, 0))] * 16
    memory = {"STAGE_BYTES": 4096, "STAGE_DRAM": 4096, "DRAM_LATENCY": 700, "DRAM_CYCLES": 1 / 16}
    one, four = (cycles(code, DEPTH=depth, more=memory) for depth in (1, 4))
    assert one == pytest.approx(16 * 700, rel=0.2)
    assert four < one / 2


def test_arguments_and_code_are_fetched_once() -> None:
    reads = [row(ARGUMENT=number // 4) for number in range(8)]
    assert cycles(reads, ARGUMENT_CYCLES=100) == pytest.approx(cycles(reads) + 200, abs=4)
    assert cycles(reads, warps=4, ARGUMENT_CYCLES=100) == pytest.approx(cycles(reads) + 200, abs=4)
    code = [row() for _ in range(80)]
    assert cycles(code, FETCH=20) == pytest.approx(9 * 20 + 8, abs=8)


def test_a_route_goes_round_loops_as_often_as_they_ran() -> None:
    code = [instruction("MOV"), instruction("FADD", 1), instruction("BRA", 1, leads_to=1), instruction("EXIT", 2)]
    ran = executed.Executions([4.0, 40.0, 40.0, 4.0], [1.0, 10.0, 10.0, 1.0])
    rows = Route(code, ran, 4).rows
    assert rows[:, :2].tolist() == [[0, 1], *[[1, 3]] * 10, [3, 4]]
    often = executed.Executions([4.0, 4e6, 4e6, 4.0], [1.0, 1e6, 1e6, 1.0])
    rows = Route(code, often, 4).rows
    assert len(rows) < 20_000 and rows[1:-1, sm.TIMES].sum() == pytest.approx(1e6)


def test_warps_that_copy_are_others_than_those_that_multiply() -> None:
    code = [instruction("HGMMA", 1), instruction("SYNCS", 2), instruction("EXIT", 3)]
    rows = Route(code, executed.Executions([8.0, 1.0, 12.0], [1.0, 1.0, 1.0]), 12).rows
    assert rows[:, [sm.FROM, sm.TO]] == pytest.approx(np.array([[0, 2 / 3], [2 / 3, 3 / 4], [0, 1]]))


@pytest.mark.parametrize(
    ("rounds", "copies", "depths", "ran"),
    [
        (10, {1: 4, 2: 1}, {1: 1, 2: 1}, {1: 2, 2: 2}),  # a loop of four rounds each, and one for what is left
        (3, {1: 4, 2: 1}, {1: 1, 2: 1}, {1: 0, 2: 3}),
        (16, {1: 16}, {1: 0}, {1: 1}),  # no loop is left of it
        (9, {1: 1, 2: 4}, {1: 0, 2: 1}, {1: 1, 2: 2}),  # the first round stands before the loop
    ],
)
def test_loops_with_more_copies_take_their_rounds_first(rounds, copies, depths, ran) -> None:
    sizes = {number: 10 * count for number, count in copies.items()}
    assert executed._shared_out(rounds, 5, copies, depths, sizes) == {n: 5 * times for n, times in ran.items()}


def test_what_was_moved_ahead_of_a_loop_runs_once() -> None:
    assert executed._shared_out(100, 1, {1: 1, 2: 1}, {1: 0, 2: 1}, {1: 2, 2: 20}) == {1: 1, 2: 100}


def test_parts_of_a_body_are_not_taken_for_copies_of_it() -> None:
    assert executed._parts({1: {10, 11, 12}, 2: {13, 14}, 3: {11, 12}}) == [[1, 3], [2]]


def test_copies_are_counted_by_what_is_made_one_to_one() -> None:
    lines = {1: Counter(LDG=4, IADD3=9), 2: Counter(FFMA=4), 3: Counter(IMAD=1)}
    assert executed._copies(lines) == 4


SOURCE = """
extern "C" __global__ void chain(float* x, int n)
{
    float a = x[threadIdx.x];
    #pragma unroll 16
    for (int i = 0; i < n; ++i) STEP;
    x[threadIdx.x] = a;
}
extern "C" __global__ void copy(const float4* a, float4* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i];
}
"""


def modelled(source: str, entry: str, arrays: dict, arguments: tuple, blocks: int, threads: int, chip=H200) -> Estimate:
    plan = assemble(cuda_plan(source, entry, arrays, arguments, (blocks,), (threads,)), "sm_90a")
    inputs = {name: array for name, (array, role) in arrays.items() if role is not Role.OUTPUT}
    return estimate(execute(plan, inputs, caches=chip, sanitize=False, architecture="sm_90a"), chip)


def steps(step: str, count: int) -> float:
    source = SOURCE.replace("STEP", step)
    arrays = {"x": (np.ones(32, "f4"), Role.INOUT)}
    return modelled(source, "chain", arrays, ("x", np.int32(count)), 1, 32).seconds


@pytest.mark.processes
@pytest.mark.parametrize(
    ("step", "name"),
    [
        ('asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a))', "fma.f32"),
        ('asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a))', "ex2.f32"),
        ('asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+f"(a))', "shfl.b32"),
    ],
)
def test_a_step_of_a_chain_takes_what_was_measured(step: str, name: str) -> None:
    measured = results.read(results.DIRECTORY / "microbench.json").find(name, "latency").value
    cycles = (steps(step, 32 * 256) - steps(step, 16 * 256)) * MEASURED.clock / (16 * 256)
    assert cycles == pytest.approx(measured, rel=0.15)


@pytest.mark.processes
def test_a_copy_takes_what_was_measured() -> None:
    records = results.read(results.DIRECTORY / "microbench.json")
    for size in (1 << 20, 1 << 22, 1 << 24):
        measured = records.find("cold copy", "time", variant="16 bytes per lane", shape=(size,)).value
        source = SOURCE.replace("STEP", "a += 1")
        arrays = {"a": (np.ones(size // 4, "f4"), Role.INPUT), "out": (np.ones(size // 4, "f4"), Role.OUTPUT)}
        model = modelled(source, "copy", arrays, ("a", "out"), size // 4096, 256)
        assert model.seconds == pytest.approx(measured, rel=0.15)
        assert "modelled, not measured" in repr(model) and "NVIDIA H200" not in repr(model)


def test_a_chip_that_is_not_known_well_enough_is_refused() -> None:
    for chip in (replace(RTX_4090, boost_clock=None), replace(H200, compute_capability=(3, 0))):
        with pytest.raises(PlanError, match="cannot be estimated"):
            constants_of(chip)


@pytest.mark.pages
def test_the_interval_is_that_of_the_recorded_errors() -> None:
    records = results.read(results.DIRECTORY / "clock.json").records
    compared = [record for record in records if record.baseline_value]
    assert len(compared) >= 120
    for bound, (low, high) in SEEN.items():
        ratios = [r.value / (r.baseline_value or 1.0) for r in compared if bound in ("", r.extra["bound"])]
        inside = [low <= ratio <= high for ratio in ratios]
        most = 0.95 if bound else 0.85  # of few kernels, a tenth is a kernel or two
        assert len(ratios) >= 10 and 0.75 < sum(inside) / len(inside) < most and low < 1 <= high


def test_the_constants_are_those_of_the_microbenchmarks() -> None:
    records = results.read(results.DIRECTORY / "microbench.json")

    def value(name: str, metric: str, **where) -> float:
        return records.find(name, metric, **where).value

    for name, constant in (("l1", MEASURED.l1_latency), ("l2", MEASURED.l2_latency), ("hbm", MEASURED.dram_latency),
                           ("shfl.b32", MEASURED.exchange_latency), ("ex2.f32", MEASURED.special_latency)):  # fmt: skip
        assert constant == pytest.approx(value(name, "latency"), rel=0.01)
    assert value("shared memory", "latency", shape=(1,)) == pytest.approx(MEASURED.shared_latency, rel=0.01)
    assert value("l2", "bandwidth") == pytest.approx(MEASURED.l2_read, rel=0.01)
    assert value("hbm", "bandwidth") == pytest.approx(MEASURED.dram_read, rel=0.01)
    for warps in (4, 8, 16, 32):
        measured = value("barrier", "latency", shape=(32 * warps,))
        assert MEASURED.barrier + MEASURED.barrier_warp * warps == pytest.approx(measured, rel=0.02)

    def empty(blocks: int) -> float:
        return value("cold blocks", "time", variant="256 threads", shape=(blocks,))

    def filled(size: int, what: str) -> float:
        return value(what, "time", variant="16 bytes per lane", shape=(size,))

    assert empty(1) == pytest.approx(MEASURED.start, rel=0.01)
    assert (empty(67584) - empty(16896)) / (67584 - 16896) == pytest.approx(MEASURED.launched, rel=0.01)
    large, small = 256 << 20, 64 << 20
    rate = (large - small) / (filled(large, "cold fill") - filled(small, "cold fill"))
    assert rate == pytest.approx(MEASURED.l2_write, rel=0.01)
    assert value("launch", "time", variant="between kernels") == pytest.approx(MEASURED.next_start, rel=0.01)
    per_warp = (value("cold blocks", "time", variant="1024 threads", shape=(16896,)) - empty(1)) / 16896 / 32
    assert per_warp == pytest.approx(MEASURED.launched_warp, rel=0.03)

    def cold(name: str, variant: str, shape: int) -> float:
        return value(name, "time", variant=variant, shape=(shape,))

    lines = (65536 - 16384) / 128
    code = (
        cold("cold code", "independent, 1 blocks", 65536) - cold("cold code", "independent, 1 blocks", 16384)
    ) / lines
    assert code * MEASURED.clock == pytest.approx(MEASURED.code_line, rel=0.1)
    arguments = (cold("cold arguments", "132 blocks", 8) - cold("cold arguments", "132 blocks", 1)) / 7
    assert arguments * MEASURED.clock == pytest.approx(MEASURED.argument, rel=0.05)
    few = value("bulk copy", "latency", shape=(128,))
    assert few - MEASURED.l2_latency == pytest.approx(MEASURED.bulk, rel=0.05)
