"""The machines of one worker: one that runs cluster after cluster, or several that run clusters in turns.

On a GPU blocks are resident side by side, as many as fit, and one may wait for what another does: at the barrier of a
cooperative grid, at a flag, at a counter. Here clusters run one after the other as long as none of them seems to wait:
that takes the least memory, and is the order in which most programs expect what they may not rely on. Where one runs
for long and may be waiting, the next ones join it.

In a drawn order a few run side by side from the start, and change where one has touched what the others may touch as
well: an update in two parts that others can come between shows only so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from warplab.emulator import compiled
from warplab.emulator.core.blocks import SMS
from warplab.emulator.core.state import layout as L
from warplab.emulator.machine import MAX_RESIDENT, Machine, resident_bytes
from warplab.emulator.program import Program
from warplab.emulator.recorder import Recorder
from warplab.plan.model import Launch
from warplab.plan.occupancy import occupancy

SHORT_TURN = 256  # warp instructions before another warp's turn, where several clusters take turns


@dataclass(frozen=True)
class Residence:
    """How many clusters of so many blocks are on the GPU at one time, and how many the emulator has memory for."""

    blocks: int
    gpu: int
    emulator: int

    @property
    def most(self) -> int:
        """The clusters that are run side by side."""
        return max(min(self.gpu, self.emulator), 1)


def residence(architecture: str, registers: int, program: Program, launch: Launch) -> Residence:
    """The residence of a launch whose kernel takes so many registers a thread, 0: not known."""
    static = program.static_shared - L.SHARED_BASE
    each = occupancy(architecture, prod(launch.block), registers, static, launch.shared_bytes).blocks
    size = prod(launch.cluster)
    return Residence(size, each * SMS // size, MAX_RESIDENT // resident_bytes(program, launch))


def cooperative_failure(found: Residence, launch: Launch) -> str:
    """Why a cooperative launch is refused; empty if it is not."""
    wanted = prod(launch.grid)
    if wanted <= found.most * found.blocks:
        return ""
    if wanted > found.gpu * found.blocks:
        fault = f"on the GPU at one time, but only {found.gpu * found.blocks} of them fit"
    else:
        fault = f"at one time, but the emulator has memory for {found.emulator * found.blocks} of them only"
    return f"a cooperative launch needs its {wanted} blocks {fault}: launch fewer, and have each do more."


class Crew:
    """Machines made by `fresh`, given the first of them; at most `resident` work side by side, from the start if told.

    `interleaved`: so many change at their strong accesses; 0: none do. The first machine has what all of them counted,
    found and printed.
    """

    def __init__(
        self,
        fresh: Callable[[Machine | None], Machine],
        resident: int,
        side_by_side: bool = False,
        interleaved: int = 0,
    ) -> None:
        self._fresh = fresh
        self._resident = resident
        self.first = fresh(None)
        self._machines = [self.first]
        self._side_by_side = side_by_side
        self._interleaved = interleaved
        self._recorder: Recorder | None = None

    def record(self, recorder: Recorder) -> None:
        """Record the recorder's block when it runs."""
        self._recorder = recorder
        for machine in self._machines:
            machine.record(recorder)

    def run(self, first: int, last: int) -> None:
        """Run clusters [first, last) of the grid, or until the launch has to stop."""
        loop = compiled.loop()
        if self._side_by_side:
            self._meet(last - first)
        elif self._interleaved:
            self._grow(min(self._interleaved, last - first))
        while not self.first.stopped and (first < last or any(machine.running for machine in self._machines)):
            addresses = np.array([machine.address for machine in self._machines], dtype=np.int64)
            first = loop(addresses.ctypes.data, len(addresses), first, last)
            if self.first.waits:
                self._meet(len(self._machines) + last - first)

    def _meet(self, clusters: int) -> None:
        """So many clusters, as far as they can be resident, are there together: each may wait for any other."""
        self._grow(clusters)
        if self.first.races is not None and len(self._machines) > 1:
            self.first.races.meet()
        for machine in self._machines:
            machine.states[:, L.M_MAY_WAIT] = 0  # nothing is gained by leaving again

    def _grow(self, clusters: int) -> None:
        """Have so many machines, if so many clusters can be resident."""
        if self.first.races is not None and min(clusters, self._resident) > 1:
            self.first.races.take_turns()
        while len(self._machines) < min(clusters, self._resident):
            machine = self._fresh(self.first)
            machine.states[:, L.M_LOG] = self.first.states[0, L.M_LOG]
            machine.states[:, L.M_SLOT] = len(self._machines)
            if self._recorder is not None:
                machine.record(self._recorder)
            self._machines.append(machine)
        turn = int(self.first.states[0, L.M_QUANTUM])
        for machine in self._machines:
            machine.states[:, L.M_QUANTUM] = min(turn, SHORT_TURN)
            machine.states[:, L.M_INTERLEAVES] = self._interleaved > 0
