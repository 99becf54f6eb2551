"""The buffers of a trace, and what was recorded in them: `core/state/trace.py` fills them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from warplab.emulator.core.state.layout import LANES
from warplab.emulator.core.state.trace import (
    I_FIELDS,
    I_TIME,
    T_ACCESS_COUNT,
    T_ACCESS_LIMIT,
    T_ACCESSES,
    T_EVENT_COUNT,
    T_EVENT_LIMIT,
    T_EVENTS,
    T_FIELDS,
    T_LOST_ACCESSES,
    T_LOST_EVENTS,
)
from warplab.plan.model import Dim3, Launch

EVENTS = 200_000
ACCESSES = 100_000


@dataclass(frozen=True)
class Trace:
    """What was recorded of a block: `events` int64 [n, I_FIELDS], `addresses` int64 [accesses, 32]."""

    events: np.ndarray = field(repr=False)
    addresses: np.ndarray = field(repr=False)
    lost_events: int = 0
    lost_accesses: int = 0


class Recorder:
    """Buffers for the trace of one block of one launch (its place in the plan)."""

    def __init__(self, launch: int, block: Dim3, events: int = EVENTS, accesses: int = ACCESSES) -> None:
        self.launch = launch
        self.block = block
        self.running: Launch | None = None  # with the clusters that it runs with
        self.cluster = 0  # the block's cluster among those of the grid
        self.rank = 0  # the block in its cluster
        self._events = np.empty((events, I_FIELDS), dtype=np.int64)
        self._addresses = np.empty((accesses, LANES), dtype=np.int64)
        self._control = np.zeros(T_FIELDS, dtype=np.int64)
        self._control[T_EVENTS] = self._events.ctypes.data
        self._control[T_EVENT_LIMIT] = events
        self._control[T_ACCESSES] = self._addresses.ctypes.data
        self._control[T_ACCESS_LIMIT] = accesses

    def locate(self, launch: Launch) -> None:
        """Find the block among the clusters of the launch, which it takes its turns with."""
        self.running = launch
        self.cluster = self.rank = 0
        for place, grid, size in zip(self.block[::-1], launch.grid[::-1], launch.cluster[::-1], strict=True):
            self.cluster = self.cluster * (grid // size) + place // size
            self.rank = self.rank * size + place % size

    @property
    def address(self) -> int:
        """What M_TRACE is while the block runs."""
        return self._control.ctypes.data

    def trace(self) -> Trace:
        """What has been recorded so far; times count from the block's first instruction."""
        events = self._events[: self._control[T_EVENT_COUNT]].copy()
        if len(events):
            events[:, I_TIME] -= events[0, I_TIME]
        addresses = self._addresses[: self._control[T_ACCESS_COUNT]].copy()
        return Trace(events, addresses, int(self._control[T_LOST_EVENTS]), int(self._control[T_LOST_ACCESSES]))
