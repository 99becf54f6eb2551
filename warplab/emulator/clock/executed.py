"""How often warps run each machine instruction, from how often they ran the PTX that it was made of.

The emulator runs PTX. ptxas copies the body of a loop several times, may keep another loop for the rounds that remain,
and moves instructions between blocks. So a block of machine code is taken to run as often as the PTX block that most of
its instructions come from, divided by the copies that it has of it; loops with more copies take their rounds first.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from warplab.emulator.core.state.layout import C_WARPS, IMM, OP, OP_BRANCH, OP_EXIT, OP_JUMP
from warplab.emulator.program import Program
from warplab.isa.machine_code import MachineInstruction

Span = tuple[int, int]  # the first and the last block of a loop
_ENDS = (OP_BRANCH, OP_JUMP, OP_EXIT)
_COPIED = (
    "LDG STG LDS STS LDSM STSM LDL STL ATOMG ATOMS ATOM RED REDG LDGSTS MUFU SHFL BAR VOTE FFMA FMUL FADD DFMA DMUL "
    "DADD HFMA2 HADD2 HMUL2 HMMA IMMA FMNMX UBLKCP UTMALDG"
)
_ANCHORS = frozenset(_COPIED.split())  # of which one is made of one instruction of PTX


@dataclass(frozen=True)
class Executions:
    """How often each machine instruction of a launch runs."""

    total: list[float]  # by all warps
    longest: list[float]  # by one warp that does whatever any warp does


def executions(program: Program, counts: np.ndarray, code: Sequence[MachineInstruction], warps: int) -> Executions:
    """How often a launch of so many warps runs `code`, from the counts of its records (int64 [records, C_FIELDS])."""
    blocks = _PtxBlocks(program, counts)
    main: dict[int, Counter[int]] = defaultdict(Counter)  # by block of machine code: blocks of PTX, and instructions
    lines: dict[tuple[int, int], dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for instruction in code:
        block = blocks.of_line.get(instruction.line)
        if block is not None and not instruction.rare:
            main[instruction.block][block] += 1
            lines[instruction.block, block][instruction.line][instruction.root] += 1
    carriers: dict[int, list[int]] = defaultdict(list)
    for number, found in main.items():
        carriers[found.most_common(1)[0][0]].append(number)
    spans = loops(code)
    ran: dict[int, float] = {}
    for block, numbers in carriers.items():
        for part in _parts({n: set(lines[n, block]) for n in numbers}):
            several = blocks.rounds(block) > 1 or len(part) > 1
            copies = {n: _copies(lines[n, block]) if several else 1 for n in part}
            sizes = {n: main[n][block] for n in part}
            depths = {n: sum(first <= n <= last for first, last in spans) for n in part}
            ran |= _shared_out(blocks.rounds(block), blocks.entries(block), copies, depths, sizes)
    alone = {number: warps / blocks.visitors(block) for block, numbers in carriers.items() for number in numbers}
    total, longest, times, factor = [], [], 0.0, 1.0
    for instruction in code:
        times, factor = ran.get(instruction.block, times), alone.get(instruction.block, factor)
        total.append(0.0 if instruction.rare else times)
        longest.append(total[-1] * max(factor, 1.0) / warps)
    return Executions(total, longest)


def loops(code: Sequence[MachineInstruction]) -> list[Span]:
    """The loops of machine code, by branches back, those of the same start as one.

    BRA.U.ANY is left out: it goes back for lanes with other values, and mostly there are none.
    """
    spans: dict[int, int] = {}
    for instruction in code:
        back = 0 <= instruction.leads_to <= instruction.block
        if instruction.root == "BRA" and back and not instruction.rare and "U.ANY" not in instruction.opcode:
            spans[instruction.leads_to] = max(spans.get(instruction.leads_to, 0), instruction.block)
    return sorted(spans.items())


def _parts(lines: dict[int, set[int]]) -> list[list[int]]:
    """The blocks of machine code that are copies of one another, by the lines of PTX that they have in common.

    Those without are parts of one body, between which ptxas put a branch.
    """
    parts: list[list[int]] = []
    for number in sorted(lines, key=lambda n: -len(lines[n])):
        alike = (p for p in parts if 2 * len(lines[number] & lines[p[0]]) > len(lines[number]))
        found = next(alike, None)
        if found is None:
            parts.append([number])
        else:
            found.append(number)
    return parts


def _copies(lines: dict[int, Counter[str]]) -> int:
    """How many copies of a PTX block a block of machine code has: by anchors, else by what most lines say."""
    anchored = [
        max(n for root, n in roots.items() if root in _ANCHORS) for roots in lines.values() if _ANCHORS & roots.keys()
    ]
    found = anchored or [max(roots.values()) for roots in lines.values()]
    return max(round(median(found)), 1)


def _shared_out(
    rounds: float, entries: float, copies: dict[int, int], depths: dict[int, int], sizes: dict[int, int]
) -> dict[int, float]:
    """How often each block runs of those that have so many copies of a body that goes round `rounds` times per entry.

    Those in fewer loops than others run once at most: they have rounds beside the loop, or what was moved ahead of it.
    """
    deepest = max(depths.values())
    body = min(sizes[number] / copies[number] for number in copies if depths[number] == deepest)
    order = sorted(copies, key=lambda number: (depths[number], -copies[number]))
    ran, left = {}, rounds
    for place, number in enumerate(order):
        times = left / copies[number]
        if depths[number] < deepest and sizes[number] < body / 2:
            ran[number] = min(rounds, 1.0) * entries
            continue
        if depths[number] < deepest or not deepest and place + 1 < len(order):
            times = min(float(int(times)), 1.0)
        elif place + 1 < len(order):
            times = float(int(times))
        ran[number] = times * entries
        left -= times * copies[number]
    return ran


class _PtxBlocks:
    """The basic blocks of a program, and how often warps ran them.

    A block does not run more often than its loop goes round: where the emulator ran it for the halves of a split warp
    one after the other, ptxas mostly made predicates of the branch.
    """

    def __init__(self, program: Program, counts: np.ndarray) -> None:
        opcodes, targets = program.code[:, OP].tolist(), program.code[:, IMM].tolist()
        leaves = [pc for pc, op in enumerate(opcodes) if op in _ENDS]
        starts = {targets[pc] for pc in leaves if opcodes[pc] != OP_EXIT} | {pc + 1 for pc in leaves}
        number, self._of = -1, []
        for pc in range(len(opcodes)):
            number += pc == 0 or pc in starts
            self._of.append(number)
        self._ran = [0] * (number + 1)
        for pc, ran in enumerate(counts[:, C_WARPS].tolist()):
            self._ran[self._of[pc]] = max(self._ran[self._of[pc]], ran)
        self._loops = [
            (self._of[targets[pc]], self._of[pc]) for pc in leaves if opcodes[pc] != OP_EXIT and targets[pc] <= pc
        ]
        self._ran = [min(ran, self._ran[self._around(block, 0)]) for block, ran in enumerate(self._ran)]
        self.of_line = {line: self._of[records[0]] for line, records in program.of_ptx.items()}
        self._written = frozenset(self.of_line.values())  # the others are the emulator's own

    def _around(self, block: int, none: int) -> int:
        """The first block of the innermost loop around a block."""
        return min(((last - first, first) for first, last in self._loops if first <= block <= last), default=(0, none))[
            1
        ]

    def entries(self, block: int) -> float:
        """How often warps came to the innermost loop around a block from outside; of no loop, to the block."""
        first, ran = self._around(block, -1), self._ran[block]
        if first < 0 or not ran:
            return ran
        return min(self._before(first, ran), ran)

    def _before(self, block: int, none: int) -> int:
        """How often warps ran the nearest earlier block of the PTX that ran at all; `none` without one."""
        return next((self._ran[b] for b in range(block - 1, -1, -1) if b in self._written and self._ran[b]), none)

    def visitors(self, block: int) -> float:
        """Warps that came to the outermost loop around a block from outside, each once; of no loop, to the block."""
        first = min((first for first, last in self._loops if first <= block <= last), default=-1)
        ran = self._ran[block]
        if first < 0 or not ran:
            return ran or math.inf
        return min(self._before(first, ran), ran)

    def rounds(self, block: int) -> float:
        """How often a block runs per entry of its innermost loop."""
        entries = self.entries(block)
        return self._ran[block] / entries if entries else 0.0
