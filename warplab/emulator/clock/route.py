"""The path of a warp through machine code: its stretches in order, with long loops shortened."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warplab.emulator.clock import sm
from warplab.emulator.clock.executed import Executions, Span, loops
from warplab.emulator.clock.steps import KINDS
from warplab.isa.machine_code import MachineInstruction

_FEWEST = 3  # rounds of a loop that is shortened
_MOST_STEPS = 12_000  # instructions of a warp's path
_LONGEST_WAIT = 8  # instructions of a loop that only polls a barrier
_ALL = 0.999  # share of warps from which all of them are taken to run a block


class Route:
    """The path through `code` of a launch of so many warps, from how often each instruction ran.

    `rows` is float64 [stretches, STRETCH_FIELDS] of sm.py.
    """

    def __init__(self, code: Sequence[MachineInstruction], ran: Executions, warps: int) -> None:
        self._code, self._ran = code, ran
        self._blocks: dict[int, tuple[int, int]] = {}  # by number: the first instruction, and the one behind the last
        for number, instruction in enumerate(code):
            if not instruction.rare:
                first, _ = self._blocks.get(instruction.block, (number, 0))
                self._blocks[instruction.block] = first, number + 1
        self._loops = loops(code)
        self._share = {
            block: min(ran.total[first] / (ran.longest[first] * warps), 1.0) if ran.longest[first] else 0.0
            for block, (first, _) in self._blocks.items()
        }
        groups = [self._share[i.block] for i in code if KINDS.get(i.root) == sm.TENSOR_GROUP and not i.rare]
        self._multiplying = max(groups, default=1.0)  # the share of warps that multiply, where others copy for them
        self._rounds = 1 << 20
        self.rows = self._laid_out()
        while (length := self._length()) > _MOST_STEPS and self._rounds > _FEWEST:
            self._rounds = max(_FEWEST, min(int(self._rounds * _MOST_STEPS / length), self._rounds // 2))
            self.rows = self._laid_out()

    def produces(self, block: int) -> bool:
        """Whether a block is run by the warps that copy for those that multiply."""
        return self._multiplying < _ALL and self._share.get(block, 0.0) <= 1.0 - self._multiplying + 1.0 - _ALL

    def times_of(self, chosen: np.ndarray) -> tuple[float, float]:
        """How often a warp that runs the chosen instructions does so, and the share of warps that do."""
        times = share = 0.0
        for row in self.rows:
            found = int(chosen[int(row[sm.FIRST]) : int(row[sm.LAST])].sum())
            if found:
                times += found * row[sm.CHANCE] * row[sm.TIMES] * (row[sm.TO] - row[sm.FROM])
                share = max(share, row[sm.TO] - row[sm.FROM])
        return (times / share if share else 0.0), share

    def _length(self) -> float:
        return float((self.rows[:, sm.LAST] - self.rows[:, sm.FIRST]).sum())

    def _laid_out(self) -> np.ndarray:
        out: list[tuple[float, ...]] = []
        self._through(sorted(self._blocks), frozenset(), 1.0, 1.0, 1.0, out)
        return np.array(out, np.float64).reshape(-1, sm.STRETCH_FIELDS)

    def _times(self, block: int) -> float:
        return self._ran.longest[self._blocks[block][0]]

    def _waits(self, body: list[int]) -> bool:
        """Whether a loop only polls a barrier."""
        rows = [self._code[n] for b in body for n in range(*self._blocks[b])]
        return len(rows) <= _LONGEST_WAIT and any("PHASECHK" in i.opcode for i in rows)

    def _through(
        self, blocks: list[int], inside: frozenset[Span], entered: float, stands: float, chance: float,
        out: list[tuple[float, ...]],
    ) -> None:  # fmt: skip
        """Append the stretches of blocks that warps enter `entered` times; each stands for `stands` such stretches."""
        place = 0
        while place < len(blocks):
            block = blocks[place]
            begun = [span for span in self._loops if span[0] == block and span not in inside]
            if not begun:
                self._add(block, chance * self._times(block) / entered, stands, out)
                place += 1
                continue
            span = max(begun, key=lambda s: s[1])
            body = [b for b in blocks[place:] if b <= span[1]]
            place += len(body)
            times = max(self._times(block), self._times(body[-1]))
            if not times or self._waits(body):
                continue
            rounds = times / entered
            shown = min(max(round(rounds), 1), self._rounds)
            for n in range(shown):
                many = stands * (1.0 if n + 1 < shown else max(rounds, 1.0) - shown + 1.0)
                self._through(body, inside | {span}, times, many, chance * min(rounds, 1.0), out)

    def _add(self, block: int, times: float, stands: float, out: list[tuple[float, ...]]) -> None:
        if times <= 0.0:
            return
        low, high = 0.0, 1.0
        if self._share[block] < _ALL:
            low = self._multiplying if self.produces(block) else 0.0
            high = low + self._share[block]
        out.append((*self._blocks[block], low, high, min(times, 1.0), stands))
