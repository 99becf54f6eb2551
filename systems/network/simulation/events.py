"""Schedules whose transfers share links: from event to event, with max-min fair rates between.

What happens to one of a class (see `traffic.Classes`) happens to all of it, so the engine follows classes only. Where a
phase repeats and everything stands as it stood one repeat ago, it will go on so: the repeats that are left are taken at
once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from systems.network.links import NetworkError
from systems.network.simulation.fairness import max_min
from systems.network.simulation.traffic import Classes, Floats, Integers, Traffic

MOST_EVENTS = 2_000_000
_SOON = 1e-12  # events that are this share of the time apart are one


@dataclass
class _Rank:
    """One class of ranks: where it is, and how many classes of transfers it waits for in its step."""

    phase: int = 0
    repeat: int = 0
    step: int = 0  # index among its steps in the phase
    left: int = 0
    done: float | None = None


@dataclass
class _Flow:
    """One class of transfers: how many of its two ends have come to its step, and in which repeat."""

    ends: int = 0
    repeat: int = 0
    sides: list[tuple[int, int]] = field(
        default_factory=list
    )  # (class of ranks, step) of its ends, one if they are alike


@dataclass(frozen=True, eq=False)
class _Mark:
    """How all stood when the leading class of ranks began a repeat."""

    repeat: int
    time: float
    state: tuple[object, ...]
    amounts: Floats  # what is left of each moving flow, and of each wait


def run(traffic: Traffic, classes: Classes) -> Floats:
    """When each rank is done, in seconds. Raises NetworkError for a deadlock, or if it would take too many events."""
    return _Engine(traffic, classes).run()[classes.rank]


class _Engine:
    def __init__(self, traffic: Traffic, classes: Classes) -> None:
        self.repeats, self.bytes, self.classes = traffic.repeats, traffic.bytes, classes
        first = classes.first
        self.latency = traffic.latency[first]
        self.ranks = [_Rank() for _ in range(int(classes.rank.max()) + 1)]
        self.flows = [_Flow() for _ in first]
        # For each class of ranks and phase: its steps in order, each the classes of transfers it has a part in.
        self.todo: list[list[list[list[int]]]] = [[[] for _ in self.repeats] for _ in self.ranks]
        tables: list[list[dict[int, set[int]]]] = [[{} for _ in self.repeats] for _ in self.ranks]
        for flow, at in enumerate(first.tolist()):
            phase = int(traffic.phase[at])
            for rank, step in {
                (int(classes.rank[traffic.source[at]]), int(traffic.step[at])),
                (int(classes.rank[traffic.destination[at]]), int(traffic.received[at])),
            }:
                tables[rank][phase].setdefault(step, set()).add(flow)
                self.flows[flow].sides.append((rank, step))
        for rank, phases in enumerate(tables):
            for phase, steps in enumerate(phases):
                self.todo[rank][phase] = [sorted(steps[step]) for step in sorted(steps)]
        self.now = 0.0
        self.starts: list[tuple[float, int]] = []  # when flows of which the ends have met begin to move
        self.active = np.zeros(0, np.int64)
        self.remaining = np.zeros(0)
        self.rates = np.zeros(0)
        self.known: dict[bytes, Floats] = {}
        self.marks = {phase: _Mark(0, 0.0, (), np.zeros(0)) for phase in range(len(self.repeats))}
        # For each phase with repeats to skip, the first class that has a part in it.
        self.leads = {
            phase: next(number for number, phases in enumerate(self.todo) if phases[phase])
            for phase, repeats in enumerate(self.repeats)
            if repeats > 3
        }

    def run(self) -> Floats:
        for rank in range(len(self.ranks)):
            self._settle(rank)
        events = 0
        while self.starts or len(self.active):
            events += 1
            if events > MOST_EVENTS:
                raise NetworkError(f"After {events} events this schedule is still running: it is too irregular for its "
                                   "size, so simulate fewer ranks, or fewer pieces.")  # fmt: skip
            self._advance()
        if late := [number for number, rank in enumerate(self.ranks) if rank.done is None]:
            rank = int(np.flatnonzero(self.classes.rank == late[0])[0])
            raise NetworkError(f"The schedule has a deadlock at rank {rank}: check what that rank waits for.")
        return np.array([rank.done for rank in self.ranks], np.float64)

    def _advance(self) -> None:
        """To the next time at which a flow begins to move or is through."""
        finish = self.remaining / self.rates if len(self.active) else np.zeros(0)
        soonest = float(finish.min()) if len(finish) else np.inf
        if self.starts:
            soonest = min(soonest, min(self.starts)[0] - self.now)
        slack = _SOON * max(self.now + soonest, 1e-9)
        through = self.active[finish <= soonest + slack]
        keep = finish > soonest + slack
        self.remaining = self.remaining[keep] - self.rates[keep] * soonest
        self.active, self.rates = self.active[keep], self.rates[keep]
        self.now += soonest
        begin = [flow for at, flow in self.starts if at <= self.now + slack]
        self.starts = [(at, flow) for at, flow in self.starts if at > self.now + slack]
        if not self.bytes:
            through, begin = np.concatenate([through, np.array(begin, np.int64)]), []
        for flow in through.tolist():
            for rank, _ in self.flows[flow].sides:
                self.ranks[rank].left -= 1
                if not self.ranks[rank].left:
                    self.ranks[rank].step += 1
                    self._settle(rank)
        if begin:
            self.active = np.concatenate([self.active, np.array(begin, np.int64)])
            self.remaining = np.concatenate([self.remaining, np.full(len(begin), self.bytes)])
            order = np.argsort(self.active)
            self.active, self.remaining = self.active[order], self.remaining[order]
        if begin or len(through):
            self.rates = self._fair()
            self._leap()

    def _settle(self, number: int) -> None:
        """Bring a class of ranks into its next step, over ends of repeats and phases in which it has nothing to do."""
        rank = self.ranks[number]
        while rank.phase < len(self.repeats):
            steps = self.todo[number][rank.phase]
            if rank.step < len(steps):
                break
            rank.step, rank.repeat = 0, rank.repeat + 1
            if rank.repeat >= self.repeats[rank.phase] or not steps:
                rank.phase, rank.repeat = rank.phase + 1, 0
        else:
            rank.done = self.now
            return
        flows = self.todo[number][rank.phase][rank.step]
        rank.left = len(flows)
        for flow in flows:
            entry = self.flows[flow]
            entry.ends += 1
            if entry.ends == len(entry.sides):
                entry.ends = 0
                self.starts.append((self.now + float(self.latency[flow]), flow))

    def _fair(self) -> Floats:
        key = self.active.tobytes()
        if key not in self.known:
            place = np.full(len(self.flows), -1)
            place[self.active] = np.arange(len(self.active))
            classes = self.classes
            on = place[classes.carries_transfer] >= 0
            flows: Integers = place[classes.carries_transfer[on]]
            rates = max_min(
                classes.capacity, classes.carries_link[on], flows, classes.carries_count[on], len(self.active)
            )
            self.known[key] = rates
        return self.known[key]

    def _leap(self) -> None:
        """If all stands as when a phase's leading class began its last repeat, skip those that will go the same way."""
        for phase, number in self.leads.items():
            lead = self.ranks[number]
            if lead.phase == phase and not lead.step and lead.repeat not in (0, self.marks[phase].repeat):
                self._compare(phase, lead)

    def _compare(self, phase: int, lead: _Rank) -> None:
        ahead = sorted((at - self.now, flow) for at, flow in self.starts)
        mark = _Mark(
            lead.repeat,
            self.now,
            (
                tuple((rank.phase, self._since(rank, lead), rank.step, rank.left) for rank in self.ranks),
                tuple(flow.ends for flow in self.flows),
                self.active.tobytes(),
                tuple(flow for _, flow in ahead),
            ),
            np.array([*self.remaining, *(wait for wait, _ in ahead)]),
        )
        last, self.marks[phase] = self.marks[phase], mark
        if last.state != mark.state or not np.allclose(last.amounts, mark.amounts, rtol=1e-9, atol=1e-15):
            return
        # A repeat of each stays to be done, so that the phase ends as it would have.
        moving = [rank for rank in self.ranks if rank.phase == phase]
        skip = self.repeats[phase] - max(rank.repeat for rank in moving) - 2
        if skip > 0:
            later = skip * (mark.time - last.time)
            for rank in moving:
                rank.repeat += skip
            self.starts = [(at + later, flow) for at, flow in self.starts]
            self.now += later

    @staticmethod
    def _since(rank: _Rank, lead: _Rank) -> int:
        """How many repeats a class is ahead of the leading one; in another phase, where it stands."""
        return rank.repeat - lead.repeat if rank.phase == lead.phase else rank.repeat
