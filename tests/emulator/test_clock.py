"""The model of time: control codes, a warp's own time, rounds of copied loops, and chains whose time was measured."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from math import log

import numpy as np
import pytest

from course import results
from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.emulator.clock import executed
from warplab.emulator.clock.chips import MEASURED, constants_of
from warplab.emulator.clock.constants import SEEN
from warplab.emulator.clock.estimate import Estimate, estimate
from warplab.emulator.clock.warp import path
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


def test_a_warp_waits_for_what_a_barrier_stands_for() -> None:
    code = [instruction("LDG"), instruction("FADD"), instruction("FADD"), instruction("EXIT")]
    control = [Control(2, 0, -1, 0), Control(4, -1, -1, 0), Control(5, -1, -1, 1), NONE]
    # Issued at 0; the first sum at 2, which needs nothing of it; the second at 100; and the end at 105.
    assert path(code, control, [1] * 4, lambda n: 100.0) == 106
    assert path(code, control, [1] * 4, lambda n: 3.0) == 12  # it is there before


def test_two_loads_are_under_way_at_once() -> None:
    code = [instruction("LDG"), instruction("LDG"), instruction("FADD")]
    control = [Control(1, 0, -1, 0), Control(1, 1, -1, 0), Control(1, -1, -1, 3)]
    assert path(code, control, [1] * 3, lambda n: 100.0) == 102


def test_a_loop_that_loads_ahead_waits_less() -> None:
    load, add, back = instruction("LDG", 1), instruction("FADD", 1), instruction("BRA", 1, leads_to=1)
    fetched, used, turn = Control(1, 0, -1, 0), Control(4, -1, -1, 1), Control(5, -1, -1, 0)
    ran = [10.0] * 3
    at_once = path([load, add, back], [fetched, used, turn], ran, lambda n: 100.0 if n == 0 else 0.0)
    assert at_once == 10 * (100 + 4 + 5)
    ahead = path([add, load, back], [used, fetched, turn], ran, lambda n: 100.0 if n == 1 else 0.0)
    assert ahead == pytest.approx(10 * (100 + 4), abs=110)  # what it loads is used in the next round
    assert ahead < at_once


def test_a_wait_for_all_but_some_groups_leaves_those_in_flight() -> None:
    code = [
        instruction("LDGSTS"),
        instruction("LDGSTS"),
        instruction("DEPBAR", operands="SB0, 0x1"),
        instruction("EXIT"),
    ]
    control = [Control(50, 0, -1, 0), Control(1, 0, -1, 0), NONE, NONE]
    assert path(code, control, [1] * 4, lambda n: 100.0) == 102  # the first one is there at 100, the second at 150


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
    ratios = [record.value / record.baseline_value for record in records if record.baseline_value]
    inside = [SEEN[0] <= ratio <= SEEN[1] for ratio in ratios]
    assert len(ratios) >= 120 and 0.75 < sum(inside) / len(inside) < 0.85


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
    word = value("cold word", "time")
    sizes = [mib << 20 for mib in (1, 4, 16, 64)]
    beyond = [filled(size, "cold read") - word - size / MEASURED.dram_read for size in sizes]
    assert np.median(beyond) == pytest.approx(MEASURED.spread, rel=0.2)
    assert MEASURED.dram_tail * log(8192) == pytest.approx(MEASURED.spread * MEASURED.clock, rel=0.4)
