"""What a launch asks of each part of an SM: its machine code's instructions by pipe, and a warp's own time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log, prod, sqrt
from types import MappingProxyType

from warplab.emulator.clock.constants import LANES, Constants
from warplab.emulator.clock.executed import Executions, executions, loops
from warplab.emulator.clock.warp import path
from warplab.emulator.report.counters import CountedLaunch
from warplab.isa.control_codes import Control, control_codes
from warplab.isa.machine_code import MachineInstruction
from warplab.plan.disassembler import disassembled
from warplab.plan.execution import LaunchProfile

FMA, ALU, DOUBLE, SPECIAL, TENSOR = "float pipe", "integer pipe", "fp64 pipe", "special functions", "tensor cores"
SHUFFLES = frozenset({"SHFL", "MOVM"})
_BY_PIPE = {
    FMA: "FFMA FMUL FADD HFMA2 HADD2 HMUL2 HSET2 HSETP2 HMNMX2",
    ALU: "IADD3 LOP3 SHF LEA ISETP SEL FSEL FMNMX FSETP PRMT IMNMX VIMNMX VIADD IABS PLOP3 MOV I2FP F2FP FSET SGXT "
    "BMSK P2R R2P VABSDIFF VABSDIFF4 CS2R FCHK FSWZADD LOP PSETP",
    DOUBLE: "DFMA DADD DMUL DSETP DMNMX",
    SPECIAL: "MUFU I2F F2I F2F POPC FLO BREV FRND",
    TENSOR: "HMMA IMMA DMMA QMMA BMMA HGMMA QGMMA IGMMA BGMMA",
}
PIPES: Mapping[str, str] = MappingProxyType({root: pipe for pipe, roots in _BY_PIPE.items() for root in roots.split()})
_WIDE = frozenset({"IMAD", "IDP", "IDP4A"})  # integer products: by one half of the float pipe
_GLOBAL = frozenset({"LDG", "LD", "LDL", "LDGSTS", "LDGDEPBAR"})
_ATOMIC = frozenset({"ATOMG", "ATOM"})
_SHARED = frozenset({"LDS", "LDSM", "ATOMS"})
_CONSTANT = frozenset({"LDC", "ULDC", "S2R", "S2UR", "R2UR"})


@dataclass(frozen=True)
class Work:
    """Of a whole launch: warp instructions by pipe, those that are issued, and cycles of one warp by itself."""

    issued: float
    by_pipe: Mapping[str, float]  # cycles of one SM that did all of it
    exchanged: float  # shuffles of warps
    path: float
    waiting: float  # of these, for global memory and barriers, which the warps of a block do together


@dataclass(frozen=True)
class Waits:
    """Cycles until the data of a request are there."""

    memory: float
    together: float  # the same where the warps of a block meet at a barrier behind it: the last one's
    atomic: float
    shared: float
    barrier: float


def waits_of(profile: LaunchProfile, constants: Constants) -> Waits:
    """Mean latencies of a launch's requests, from where its caches say that their sectors are."""
    total, caches = profile.total, profile.caches
    warps = ceil(prod(profile.block) / LANES)
    l1, l2 = 0.0, 0.0
    if caches and caches.l1_load_sectors:
        l1 = (caches.l1_load_hits - caches.l1_late_hits) / caches.l1_load_sectors
    if caches and caches.l2_read_sectors:
        l2 = max(caches.l2_read_hits - caches.l2_late_hits, 0) / caches.l2_read_sectors
    # A request is there when the last of its lines is. Lines of lanes that are apart are half independent.
    apart = sqrt(max(total.global_load_sectors / max(total.global_load_ideal_sectors, 1), 1.0))
    near, l2_alone = l1**apart, l2**apart
    lines = max(total.global_load_sectors / 4 / max(total.global_load_requests, 1), 1.0)
    memory, together = (
        near * constants.l1_latency
        + (1 - near) * (l2_alone * constants.l2_latency + (1 - l2_alone) * _last_of(lines * n, constants))
        for n in (1, warps)
    )
    atomic_hits = caches.l2_atomic_hits / caches.l2_atomic_sectors if caches and caches.l2_atomic_sectors else 1.0
    atomic = atomic_hits * constants.l2_latency + (1 - atomic_hits) * constants.dram_latency
    requests = total.shared_load_requests + total.shared_atomic_requests
    meeting = (total.shared_load_wavefronts + total.shared_atomic_wavefronts) / requests if requests else 1.0
    shared = constants.shared_latency + constants.shared_conflict * max(meeting - 1, 0.0)
    barrier = constants.barrier + constants.barrier_warp * warps
    return Waits(memory, together, atomic, shared, barrier)


def _last_of(lines: float, constants: Constants) -> float:
    """Cycles until the last of so many lines is there that DRAM is asked for at once."""
    return constants.dram_latency + constants.dram_tail * log(max(lines, 1.0))


def _bulk_waits(profile: LaunchProfile, constants: Constants) -> float:
    """Cycles in which a block has nothing but bulk copies in flight: its map, then its shared memory once and again."""
    c = profile.total
    if not c.bulk_load_requests or not isinstance(profile, CountedLaunch):
        return 0.0
    held = max(profile.program.static_shared + profile.launch.shared_bytes, 1)
    loaded = c.bulk_load_bytes / prod(profile.grid)
    rounds = 1 + max(loaded / held, 1.0) + (c.bulk_store_requests > 0)
    return rounds * _last_of(min(loaded, held) / 128, constants)


def work_of(profile: LaunchProfile, constants: Constants) -> Work:
    """The work of a launch: by its machine code if that is known, else by the PTX."""
    waits = waits_of(profile, constants)
    warps = prod(profile.grid) * ceil(prod(profile.block) / LANES)
    known = _machine_code(profile, warps)
    if known is None:
        return _of_ptx(profile, constants, waits, warps)
    code, control, ran = known
    by_pipe: dict[str, float] = {}
    exchanged = issued = 0.0
    for instruction, times in zip(code, ran.total, strict=True):
        issued += times
        if instruction.root in SHUFFLES:
            exchanged += times
        for pipe, cycles in _cycles(instruction, constants):
            by_pipe[pipe] = by_pipe.get(pipe, 0.0) + cycles * times
    bulk = _bulk_waits(profile, constants)
    met = _with_barriers(code)

    def alone_with(these: Waits) -> float:
        apart = replace(these, together=these.memory)
        return path(
            code, control, ran.longest,
            lambda number: _latency(code[number], constants, these if code[number].block in met else apart),
        )  # fmt: skip

    alone = bulk + alone_with(waits)
    busy = alone_with(replace(waits, memory=0.0, together=0.0, atomic=0.0, barrier=0.0))
    return Work(issued, by_pipe, exchanged, alone, alone - busy)


def _with_barriers(code: Sequence[MachineInstruction]) -> set[int]:
    """The blocks whose innermost loop has a barrier; of those in no loop, all if the kernel has one."""
    spans = loops(code)
    barriers = {i.block for i in code if i.root == "BAR" and not i.rare}
    found = set()
    for block in {i.block for i in code}:
        around = [(last - first, first, last) for first, last in spans if first <= block <= last]
        _, first, last = min(around, default=(0, 0, block if not barriers else max(max(barriers), block)))
        if any(first <= b <= last for b in barriers):
            found.add(block)
    return found


def _machine_code(
    profile: LaunchProfile, warps: int
) -> tuple[tuple[MachineInstruction, ...], tuple[Control, ...], Executions] | None:
    if not isinstance(profile, CountedLaunch) or profile.cubin is None:
        return None
    machine = disassembled(profile.cubin.image)
    code = machine.get(profile.program.entry, ()) if machine else ()
    control = control_codes(profile.cubin.image).get(profile.program.entry, ())
    if not code or len(code) != len(control):
        return None
    return code, control, executions(profile.program, profile.counts, code, warps)


def _cycles(instruction: MachineInstruction, constants: Constants) -> list[tuple[str, float]]:
    """The pipes of an SM that a warp's instruction keeps busy, and for how many cycles of it."""
    root = instruction.root
    if root in _WIDE:
        return [(FMA, LANES / constants.integer)]
    pipe = PIPES.get(root)
    rates = {FMA: constants.fp32, ALU: constants.integer, DOUBLE: constants.fp64, SPECIAL: constants.special}
    return [(pipe, LANES / rates[pipe])] if pipe in rates else []


def _latency(instruction: MachineInstruction, constants: Constants, waits: Waits) -> float:
    root = instruction.root
    if root in _GLOBAL:
        return waits.together
    if root in _ATOMIC:
        return waits.atomic
    if root in _SHARED:
        return waits.shared
    if root in SHUFFLES:
        return constants.exchange_latency
    if root in _CONSTANT:
        return constants.constant_latency
    if root == "BAR":
        return waits.barrier
    return constants.special_latency


def _of_ptx(profile: LaunchProfile, constants: Constants, waits: Waits, warps: int) -> Work:
    """The same by the PTX, as if each instruction of it were one of the machine's and waited for the one before."""
    c = profile.total
    issued = float(c.warp_instructions - c.move_instructions + c.wide_integer_instructions)
    lanes = {
        FMA: (c.fp32_instructions + c.fp16_instructions, constants.fp32),
        ALU: (c.integer_instructions + c.wide_integer_instructions, constants.integer),
        DOUBLE: (c.fp64_instructions, constants.fp64),
        SPECIAL: (c.special_instructions + c.conversion_instructions, constants.special),
    }
    by_pipe = {pipe: count * LANES / rate for pipe, (count, rate) in lanes.items()}
    loads = c.global_load_requests + c.local_load_requests
    shared = c.shared_load_requests + c.shared_atomic_requests
    waiting = loads * waits.memory + c.global_atomic_requests * waits.atomic
    alone = waiting + shared * waits.shared + 4 * issued
    return Work(issued, by_pipe, c.exchange_instructions, alone / warps, waiting / warps)
