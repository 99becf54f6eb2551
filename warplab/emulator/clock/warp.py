"""How long one warp takes by itself: its machine code in order, with the waits that ptxas wrote into it.

A warp issues in order. It holds for the cycles of each instruction's control code, and waits for the barriers that
the code names. A barrier is signalled when a load, a special function or the like is done; the latency of each depends
on where its data lie. Loops are gone through twice, so that the second round finds what the first has left in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warplab.emulator.clock.executed import Span, loops
from warplab.isa.control_codes import Control
from warplab.isa.machine_code import MachineInstruction

_BARRIERS = 6
Latency = Callable[[int], float]  # cycles of an instruction, by its number


def path(
    code: Sequence[MachineInstruction], control: Sequence[Control], ran: Sequence[float], latency: Latency
) -> float:
    """Cycles of a warp that runs instruction i `ran[i]` times and shares its SM with nobody."""
    return _Path(code, control, ran, latency).cycles()


class _Path:
    def __init__(
        self, code: Sequence[MachineInstruction], control: Sequence[Control], ran: Sequence[float], latency: Latency
    ) -> None:
        self._code, self._control, self._ran, self._latency = code, control, ran, latency
        self._blocks: dict[int, list[int]] = {}
        for number, instruction in enumerate(code):
            if not instruction.rare:
                self._blocks.setdefault(instruction.block, []).append(number)
        self._loops = loops(code)
        self._now = 0.0
        self._done: list[list[float]] = [[0.0] for _ in range(_BARRIERS)]

    def cycles(self) -> float:
        """The time of the whole path."""
        costs = self._through(sorted(self._blocks), frozenset())
        return sum(costs.values())

    def _through(self, blocks: list[int], inside: frozenset[Span]) -> dict[int, float]:
        """Cycles that each block takes in all its rounds, per entry of what surrounds it."""
        costs: dict[int, float] = {}
        place = 0
        while place < len(blocks):
            block = blocks[place]
            begun = [span for span in self._loops if span[0] == block and span not in inside]
            if not begun:
                costs[block] = self._once(block) * self._times(block)
                place += 1
                continue
            span = max(begun, key=lambda s: s[1])
            body = [b for b in blocks[place:] if b <= span[1]]
            first = self._through(body, inside | {span})
            second = self._through(body, inside | {span})
            for b in body:
                times = max(self._times(b), 1e-9)
                once = min(times, 1.0)
                costs[b] = (first[b] * once + second[b] * (times - once)) / times
            place += len(body)
        return costs

    def _times(self, block: int) -> float:
        return self._ran[self._blocks[block][0]]

    def _once(self, block: int) -> float:
        begin = self._now
        for number in self._blocks[block]:
            self._issue(number)
        return self._now - begin

    def _issue(self, number: int) -> None:
        control, instruction = self._control[number], self._code[number]
        if instruction.root == "DEPBAR":
            self._wait_for_older(instruction)
        for barrier in range(_BARRIERS):
            if control.waits >> barrier & 1:
                self._now = max(self._now, self._done[barrier][-1])
        latency = self._latency(number)
        if control.wrote >= 0:
            self._signal(control.wrote, self._now + latency)
        elif instruction.root in ("BAR", "WARPSYNC") or instruction.root.startswith("SYNCS"):
            self._now += latency
        if control.read >= 0:
            self._signal(control.read, self._now + min(latency, _READ))
        self._now += max(control.stall, 1)

    def _signal(self, barrier: int, done: float) -> None:
        finished = self._done[barrier]
        finished.append(max(done, finished[-1]))
        del finished[:-_KEPT]

    def _wait_for_older(self, instruction: MachineInstruction) -> None:
        """DEPBAR.LE SB0, 0x2: until at most so many are left."""
        name, _, left = instruction.operands.partition(",")
        try:
            barrier, most = int(name.strip().removeprefix("SB")), int(left.strip().split(",")[0] or "0", 0)
        except ValueError:
            return
        finished = self._done[barrier]
        if len(finished) > most:
            self._now = max(self._now, finished[-1 - most])


_READ = 12  # cycles until the operands of an instruction that is sent away are read
_KEPT = 16
