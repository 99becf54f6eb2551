"""How long a launch takes: sm.py simulates the SM with most blocks, with its share of L2 and DRAM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

import numpy as np

from warplab.emulator.clock import sm
from warplab.emulator.clock.constants import LANES, SCHEDULERS, SECTOR, Constants
from warplab.emulator.clock.executed import Executions, executions
from warplab.emulator.clock.route import Route
from warplab.emulator.clock.steps import FIRST_ARGUMENT, TENSOR, Steps, argument_of
from warplab.emulator.report.counters import CountedLaunch
from warplab.hardware.records import Chip
from warplab.isa.control_codes import Control, control_codes
from warplab.isa.machine_code import MachineInstruction
from warplab.plan.disassembler import disassembled
from warplab.plan.execution import CacheTraffic

_MOST_STEPS = 1_000_000  # instructions of the waves that are simulated; further waves are taken to be like the last
_FEWEST_WAVES = 3
_LIMIT = 20_000_000  # instructions after which a simulation ends in any case


@dataclass(frozen=True)
class Machine:
    """A kernel's machine code, its control codes, and how often a launch ran each instruction."""

    code: tuple[MachineInstruction, ...]
    control: tuple[Control, ...]
    ran: Executions


def machine_of(profile: CountedLaunch) -> Machine | None:
    """The machine code of a launch; None if it was not assembled or cannot be disassembled here."""
    if profile.cubin is None:
        return None
    machine = disassembled(profile.cubin.image)
    code = machine.get(profile.program.entry, ()) if machine else ()
    control = control_codes(profile.cubin.image).get(profile.program.entry, ())
    if not code or len(code) != len(control):
        return None
    warps = prod(profile.grid) * ceil(prod(profile.block) / LANES)
    return Machine(code, control, executions(profile.program, profile.counts, code, warps))


class TimedLaunch:
    """One launch on a chip, whose caches were modelled."""

    def __init__(
        self, profile: CountedLaunch, caches: CacheTraffic, machine: Machine, chip: Chip, constants: Constants
    ) -> None:
        self._profile, self._caches, self._machine, self._constants = profile, caches, machine, constants
        self._blocks = prod(profile.grid)
        self._warps = ceil(prod(profile.block) / LANES)
        self._busiest = ceil(self._blocks / chip.sms)
        self._share = self._busiest / self._blocks  # of all work, on the SM that has the most
        self._sms = chip.sms
        self._total = profile.total

    def seconds(self) -> float:
        """Seconds after the start of a launch without arguments, until the last byte has arrived."""
        return self._argument_bytes() * self._constants.argument_byte + self._blocks_seconds()

    def _argument_bytes(self) -> int:
        """Bytes of arguments, up to the last that the code reads."""
        found = (argument_of(instruction) for instruction in self._machine.code)
        return max(max(found, default=0) - FIRST_ARGUMENT, 0)

    def _blocks_seconds(self) -> float:
        resident = self._caches.blocks_per_sm
        length = float((self._route.rows[:, sm.LAST] - self._route.rows[:, sm.FIRST]).sum())
        waves = self._busiest // resident
        most = max(_FEWEST_WAVES, int(_MOST_STEPS / max(length * self._warps * resident, 1.0)))
        if waves <= most:
            return self._cycles(self._busiest) / self._constants.clock
        left = self._busiest - waves * resident
        whole, less = (self._cycles(n * resident + left) for n in (most, most - 1))
        return (whole + (waves - most) * (whole - less)) / self._constants.clock

    @cached_property
    def _route(self) -> Route:
        return Route(self._machine.code, self._machine.ran, self._blocks * self._warps)

    def _cycles(self, blocks: int) -> float:
        """Cycles that an SM takes for so many blocks."""
        rows, resident = self._route.rows, min(self._caches.blocks_per_sm, blocks)
        spent = np.zeros(len(rows))
        end, arrived = sm.simulate(self._table, rows, self._parameters, blocks, resident, self._warps, spent, _LIMIT)
        stretched = float((spent * rows[:, sm.TIMES]).sum()) / float(spent.sum()) if spent.any() else 1.0
        return max(end, arrived) * stretched

    @cached_property
    def _table(self) -> np.ndarray:
        machine = self._machine
        table = Steps(self._profile, self._caches, machine.code, machine.control, self._constants).table()
        if not self._total.bulk_load_bytes:
            table[table[:, sm.KIND] == sm.STAGE_WAIT, sm.KIND] = sm.PLAIN
        for number, instruction in enumerate(machine.code):
            if table[number, sm.KIND] == sm.STAGE_WAIT and self._route.produces(instruction.block):
                table[number, sm.KIND] = sm.PLAIN  # it waits for room, which `simulate` sees to
        self._match_products(table)
        return table

    def _match_products(self, table: np.ndarray) -> None:
        """Scale products to the counted multiply-adds: copies of a loop of products are hard to tell apart."""
        products = table[:, sm.PIPE] == TENSOR
        busy = float((table[products, sm.BUSY] * np.array(self._machine.ran.total)[products]).sum())
        rate = self._constants.group_rate if self._total.warpgroup_read_requests else self._constants.product_rate
        counted = 2 * self._total.tensor_multiply_adds * SCHEDULERS / rate
        if busy and counted:
            table[products, sm.BUSY] *= counted / busy

    @cached_property
    def _parameters(self) -> np.ndarray:
        k, clock = self._constants, self._constants.clock
        values = {
            sm.SCHEDULERS: SCHEDULERS,
            sm.L1_LATENCY: k.l1_latency,
            sm.L2_LATENCY: k.l2_latency,
            sm.DRAM_LATENCY: k.dram_latency,
            sm.TAIL: k.dram_tail,
            sm.SHARPNESS: k.sharpness,
            sm.L2_CYCLES: clock / (k.l2_read * self._share),
            sm.DRAM_CYCLES: clock / (k.dram_read * self._share),
            sm.PORT_CYCLES: 1 / k.l2_port,
            sm.ATOMIC_CYCLES: self._caches.busiest_atomic_share * k.atomic * clock / self._share,
            sm.DISPATCH: max(k.launched, k.launched_warp * self._warps) * self._sms * clock,
            sm.ARGUMENT_CYCLES: k.argument,
            sm.TRANSLATION: k.spread * clock if min(self._blocks, self._sms) > 1 else 0.0,
            sm.BARRIER: k.barrier,
            sm.BARRIER_WARP: k.barrier_warp,
            sm.FETCH: k.code_line,
            sm.JUMP: k.code_jump,
            sm.BULK_LATENCY: k.bulk,
            sm.TURNAROUND: k.turnaround,
            sm.WAVEFRONT_CYCLES: k.shared_conflict,
            **self._stages(),
        }
        parameters = np.zeros(sm.PARAMETERS)
        parameters[list(values)] = list(values.values())
        return parameters

    def _stages(self) -> dict[int, float]:
        """Parameters of bulk copies: bytes per wait, warps that wait for them, stages that fit into shared memory."""
        waits = self._table[:, sm.KIND] == sm.STAGE_WAIT
        each, consumers = self._route.times_of(waits)
        copied = self._total.bulk_load_sectors * SECTOR / self._blocks
        stages = max(round(each), 1)
        held = self._profile.program.static_shared + self._profile.launch.shared_bytes
        missing = self._caches.dram_read_sectors / max(self._caches.l2_read_sectors, 1)
        room = held * stages * self._blocks / max(self._total.bulk_load_bytes, 1)
        return {
            sm.STAGE_BYTES: copied / stages,
            sm.STAGE_DRAM: copied / stages * missing,
            sm.CONSUMERS: max(round(consumers * self._warps), 1),
            sm.DEPTH: min(max(int(room), 1), stages),
        }
