"""Makes sm.py's table of a launch's machine code: what each instruction keeps busy, requests and waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from warplab.emulator.clock import sm
from warplab.emulator.clock.constants import LANES, SCHEDULERS, SECTOR, Constants
from warplab.emulator.core.state.layout import (
    C_IDEAL,
    C_IDEAL_SECTORS,
    C_REQUESTS,
    C_SECTORS,
    C_SHARED_REQUESTS,
    C_WAVEFRONTS,
)
from warplab.emulator.report.counters import CountedLaunch
from warplab.isa.control_codes import Control
from warplab.isa.machine_code import MachineInstruction
from warplab.plan.execution import CacheTraffic

FMA, ALU, DOUBLE, SPECIAL, TENSOR = range(5)
_BY_PIPE = {
    FMA: "FFMA FMUL FADD HFMA2 HADD2 HMUL2 HSET2 HSETP2 HMNMX2 IMAD IDP IDP4A",
    ALU: "IADD3 LOP3 SHF LEA ISETP SEL FSEL FMNMX FSETP PRMT IMNMX VIMNMX VIADD IABS PLOP3 MOV I2FP F2FP FSET SGXT "
    "BMSK P2R R2P VABSDIFF VABSDIFF4 CS2R FCHK FSWZADD LOP PSETP",
    DOUBLE: "DFMA DADD DMUL DSETP DMNMX",
    SPECIAL: "MUFU I2F F2I F2F POPC FLO BREV FRND",
    TENSOR: "HMMA IMMA DMMA QMMA BMMA HGMMA QGMMA IGMMA BGMMA",
}
PIPES: Mapping[str, int] = MappingProxyType({root: pipe for pipe, roots in _BY_PIPE.items() for root in roots.split()})
SHUFFLES = frozenset({"SHFL", "MOVM"})
_WIDE = frozenset({"IMAD", "IDP", "IDP4A"})  # integer products: by one half of the float pipe
_KINDS = {
    sm.LOAD: "LDG LD LDL",
    sm.STORE: "STG ST STL",
    sm.SHARED: "LDS LDSM STS STSM ATOMS SHFL MOVM",
    sm.ATOMIC: "ATOMG ATOM",
    sm.REDUCTION: "RED REDG",
    sm.ASYNC_COPY: "LDGSTS",
    sm.ASYNC_GROUP: "LDGDEPBAR",
    sm.GROUP_WAIT: "DEPBAR",
    sm.BLOCK_BARRIER: "BAR",
    sm.BULK_STORE: "UTMASTG UTMAREDG UBLKRED",
    sm.STAGE_WAIT: "SYNCS",
    sm.TENSOR_GROUP: "HGMMA QGMMA IGMMA BGMMA",
    sm.TENSOR_WAIT: "WARPGROUP",
}
KINDS: Mapping[str, int] = MappingProxyType({root: kind for kind, roots in _KINDS.items() for root in roots.split()})
_CONSTANT = frozenset({"LDC", "ULDC", "S2R", "S2UR", "R2UR"})
_MADE_OF_MEMORY = frozenset({sm.LOAD, sm.STORE, sm.ATOMIC, sm.REDUCTION, sm.ASYNC_COPY, sm.BULK_STORE})
_ALONE = 0.9  # sectors per lane of a store from which each lane writes a part of one
_MISSED = 0.75  # share of sectors that miss L1 from which it holds little
_SCATTERED = 1.5  # times the sectors of contiguous lanes, from which each is in a line of its own
FIRST_ARGUMENT = 0x210  # place in the bank; what lies before belongs to the driver
_ARGUMENT_LINE = 64  # bytes
_ARGUMENT = re.compile(r"c\[0x0\]\[(?:RZ|(0x[0-9a-f]+))\]")


def cycles_of(instruction: MachineInstruction, constants: Constants) -> float:
    """Cycles for which a warp's instruction, one of PIPES, keeps its scheduler's part of the pipe busy."""
    root, pipe = instruction.root, PIPES[instruction.root]
    if pipe == TENSOR:
        m, n, depth = _product(instruction.opcode)
        rate = constants.group_rate if KINDS.get(root) == sm.TENSOR_GROUP else constants.product_rate
        parts = SCHEDULERS if KINDS.get(root) == sm.TENSOR_GROUP else 1  # a warp has a quarter of a group's product
        return 2 * m * n * depth / parts / (rate / SCHEDULERS)
    lanes = (constants.fp32, constants.integer, constants.fp64, constants.special)[pipe]
    return LANES * SCHEDULERS / (constants.integer if root in _WIDE else lanes)


def argument_of(instruction: MachineInstruction) -> int:
    """The place in the bank of arguments that an instruction reads, or -1."""
    found = _ARGUMENT.search(instruction.operands)
    return int(found[1] or "0", 16) if found else -1


class Steps:
    """Makes a row of sm.py's table for each machine instruction of a launch."""

    def __init__(
        self, profile: CountedLaunch, caches: CacheTraffic, code: Sequence[MachineInstruction],
        control: Sequence[Control], constants: Constants,
    ) -> None:  # fmt: skip
        self._profile, self._code, self._control, self._constants = profile, code, control, constants
        loads, reads = caches.l1_load_sectors, caches.l2_read_sectors
        self._l1 = _share(caches.l1_load_hits - caches.l1_late_hits, loads)
        self._missed = 1.0 - _share(caches.l1_load_hits, loads)
        self._l2 = _share(caches.l2_read_hits - caches.l2_late_hits, reads)
        self._from_dram = _share(caches.dram_read_sectors, reads)
        self._written_anew = 1.0 - _share(caches.l2_write_hits, caches.l2_write_sectors)
        atomics = caches.l2_atomic_sectors
        self._atomic_hits = _share(caches.l2_atomic_hits, atomics) if atomics else 1.0

    def table(self) -> np.ndarray:
        """float64 [instructions, FIELDS]."""
        rows = np.zeros((len(self._code), sm.FIELDS))
        for number, (instruction, control) in enumerate(zip(self._code, self._control, strict=True)):
            rows[number] = self._row(instruction, control)
        return rows

    def _row(self, instruction: MachineInstruction, control: Control) -> np.ndarray:
        row, root, k = np.zeros(sm.FIELDS), instruction.root, self._constants
        kind = KINDS.get(root, sm.PLAIN)
        row[sm.KIND], row[sm.STALL] = kind, control.stall
        row[sm.WROTE], row[sm.READ], row[sm.WAITS] = control.wrote, control.read, control.waits
        pipe = PIPES.get(root, -1)
        row[sm.PIPE] = pipe
        if pipe >= 0:
            row[sm.BUSY] = cycles_of(instruction, k)
        row[sm.ARGUMENT] = min(argument_of(instruction) // _ARGUMENT_LINE, sm.ARGUMENT_LINES - 1)
        row[sm.LATENCY] = k.special_latency
        if root in _CONSTANT:
            row[sm.LATENCY] = k.constant_latency
        elif kind == sm.SHARED:
            row[sm.LATENCY] = k.exchange_latency if root in SHUFFLES else k.shared_latency
            row[sm.WAVEFRONTS] = 1.0 if root in SHUFFLES else self._shared_wavefronts(instruction)
        elif kind in _MADE_OF_MEMORY:
            self._memory(row, kind, instruction)
        elif kind == sm.BLOCK_BARRIER:
            row[sm.NUMBER], row[sm.COUNT] = _barrier(instruction.operands)
        elif kind == sm.GROUP_WAIT:
            board, left = _depbar(instruction.operands)
            row[sm.COUNT], row[sm.NUMBER] = board, left
            if board < 0:
                row[sm.KIND] = sm.PLAIN
        elif kind == sm.TENSOR_GROUP:
            row[sm.WAVEFRONTS] = self._group_wavefronts(instruction)
            row[sm.LATENCY] = k.product_latency
        elif kind == sm.TENSOR_WAIT:
            groups = re.search(r"0x([0-9a-f]+)", instruction.operands)
            row[sm.NUMBER] = int(groups[1], 16) if groups else 0
            if "DEPBAR" not in instruction.opcode:
                row[sm.KIND] = sm.PLAIN
        elif kind == sm.STAGE_WAIT:
            row[sm.LATENCY] = k.shared_latency
            if "PHASECHK" not in instruction.opcode:
                row[sm.KIND] = sm.PLAIN
        return row

    def _counts(self, instruction: MachineInstruction) -> np.ndarray:
        """The counts of the PTX that an instruction was made of, int64 [C_FIELDS]."""
        counts = self._profile.counts
        program = self._profile.program
        total = np.zeros(counts.shape[1], np.int64)
        for record in program.of_ptx.get(instruction.line, ()):
            last = record + 1
            while last < len(counts) and not program.counted[last]:  # further steps of the same instruction
                last += 1
            row = counts[record:last].sum(axis=0)
            if record in program.elected:  # one lane of each warp, after the warp's values were added up
                row[C_SECTORS] = row[C_REQUESTS]
                row[C_WAVEFRONTS] = row[C_IDEAL] = row[C_SHARED_REQUESTS]
            total += row
        return total

    def _shared_wavefronts(self, instruction: MachineInstruction) -> float:
        counts = self._counts(instruction)
        least = instruction.width * LANES / 128 if instruction.root in ("LDS", "STS") else 1.0
        if not counts[C_SHARED_REQUESTS]:
            return max(least, 1.0)
        return max(counts[C_WAVEFRONTS] / counts[C_SHARED_REQUESTS], 1.0)

    def _group_wavefronts(self, instruction: MachineInstruction) -> float:
        counts = self._counts(instruction)
        return counts[C_WAVEFRONTS] / counts[C_SHARED_REQUESTS] if counts[C_SHARED_REQUESTS] else 0.0

    def _memory(self, row: np.ndarray, kind: int, instruction: MachineInstruction) -> None:
        k, counts = self._constants, self._counts(instruction)
        requests = counts[C_REQUESTS]
        sectors = counts[C_SECTORS] / requests if requests else instruction.width * LANES / SECTOR
        ideal = counts[C_IDEAL_SECTORS] / requests if requests else sectors
        local = instruction.root in ("LDL", "STL") or not requests and kind in (sm.LOAD, sm.STORE)
        bulk = kind == sm.BULK_STORE
        apart = max(sectors / max(ideal, 1e-9), 1.0) if ideal else 1.0
        row[sm.WAVEFRONTS] = 0.0 if bulk else max(ideal / 4 + max(sectors - ideal, 0.0), 1.0)
        row[sm.LINES] = max(sectors / 4, 1.0)
        moved = sectors * SECTOR
        if kind in (sm.LOAD, sm.ASYNC_COPY):
            near = 1.0 if local else self._l1
            missed = 0.0 if local else self._missed
            # Lanes that read along rows of their own advance together: L1 holds all of their lines or none, and hits in
            # L2 are partly independent, hence the root. Where L1 holds little, scattered lanes are independent.
            anywhere = apart > _SCATTERED and self._missed > _MISSED
            row[sm.NEAR] = near
            row[sm.IN_L2] = self._l2 ** (sectors if anywhere else apart**0.5)
            row[sm.LINES] = max(sectors if apart > _SCATTERED else sectors / 4, 1.0)
            row[sm.L2_BYTES] = moved * missed
            row[sm.DRAM_BYTES] = moved * missed * self._from_dram
        elif kind in (sm.STORE, sm.BULK_STORE):
            row[sm.L2_BYTES] = moved
            row[sm.DRAM_BYTES] = 0.0 if local else moved
            if sectors > _ALONE * LANES:
                row[sm.DRAM_BYTES] += self._written_anew * sectors * k.store_fill
        else:
            row[sm.L2_BYTES] = moved
            row[sm.DRAM_BYTES] = moved * (1 - self._atomic_hits)
            row[sm.IN_L2] = self._atomic_hits
            row[sm.NUMBER] = sectors * (k.atomic if sectors < _SCATTERED else k.atomic_sector) / k.atomic


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole else 0.0


def _barrier(operands: str) -> tuple[int, float]:
    """The number of a barrier and how many warps it waits for; 0 warps are all of the block."""
    parts = [part.strip() for part in operands.split(",") if part.strip()]
    values = [int(part, 16) if part.startswith("0x") else -1 for part in parts]
    name = values[0] & 15 if values and values[0] >= 0 else 0
    count = values[1] // LANES if len(values) > 1 and values[1] > 0 else 0
    return name, count


def _depbar(operands: str) -> tuple[int, int]:
    name, _, left = operands.partition(",")
    try:
        return int(name.strip().removeprefix("SB")), int(left.strip().split(",")[0] or "0", 0)
    except ValueError:
        return -1, 0


def _product(opcode: str) -> tuple[int, int, int]:
    """The shape of a tensor core's product: HMMA.16816.F32, HGMMA.64x128x16.F32."""
    if m := re.search(r"\.(\d+)x(\d+)x(\d+)", opcode):
        return int(m[1]), int(m[2]), int(m[3])
    if m := re.search(r"\.(8|16)(8|16)(4|8|16|32|64|128|256)(?:\.|$)", opcode):
        return int(m[1]), int(m[2]), int(m[3])
    return 16, 8, 8
