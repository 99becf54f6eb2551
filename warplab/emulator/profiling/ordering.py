"""Puts a warp's instructions in an order as an assembler would: what takes long starts early, its users come late.

Within a stretch without branches, synchronisation or a change of the active lanes, by list scheduling: of what can be
issued, first comes what the longest chain of latencies hangs on. Reads wait for the write that they need; stores keep
their place among the accesses to the same memory. That a register is used again for something else is no reason to
wait: the assembler has others.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from warplab.emulator.profiling.timeline import Issue, IssueKind, Reason

_FIXED = (IssueKind.BRANCH, IssueKind.SYNC, IssueKind.ASYNC)
_FIXED_TEXTS = ("ret", "exit", "wgmma", "trap", "clock")


@dataclass
class Step:
    """One instruction of a warp, to be given its time."""

    issue: Issue
    reads: tuple[int, ...]  # frame offsets
    writes: tuple[int, ...]
    pipe: int  # cycles that it keeps the memory pipe busy
    after: list[Step] = field(default_factory=list)  # instructions of other warps that have to be issued first
    reason: Reason = Reason.BARRIER  # what waiting for those is called
    tried: bool = False  # a test of an mbarrier that failed before
    time: int = -1


def ordered(steps: list[Step], latencies: Mapping[IssueKind, int]) -> list[Step]:
    """The steps of one warp, each stretch in the order of a list scheduler."""
    result: list[Step] = []
    stretch: list[Step] = []
    for step in steps:
        fixed = step.tried or step.issue.kind in _FIXED or step.issue.text.startswith(_FIXED_TEXTS)
        if fixed or (stretch and stretch[-1].issue.active != step.issue.active):
            result += _listed(stretch, latencies)
            stretch = []
        if fixed:
            result.append(step)
        else:
            stretch.append(step)
    return result + _listed(stretch, latencies)


def _listed(steps: list[Step], latencies: Mapping[IssueKind, int]) -> list[Step]:
    needs = _needs(steps)
    users: list[list[int]] = [[] for _ in steps]
    for place, needed in enumerate(needs):
        for other in needed:
            users[other].append(place)
    height = [0] * len(steps)
    for place in range(len(steps) - 1, -1, -1):
        chain = max((height[user] for user in users[place]), default=0)
        height[place] = chain + latencies[steps[place].issue.kind]
    missing = [len(needed) for needed in needs]
    ready = [0] * len(steps)
    waiting = [(0, place) for place, count in enumerate(missing) if count == 0]  # by when they are ready
    heapq.heapify(waiting)
    able: list[tuple[int, int]] = []  # by how much hangs on them
    result: list[Step] = []
    time = 0
    while waiting or able:
        if not able:
            time = max(time, waiting[0][0])
        while waiting and waiting[0][0] <= time:
            place = heapq.heappop(waiting)[1]
            heapq.heappush(able, (-height[place], place))
        place = heapq.heappop(able)[1]
        result.append(steps[place])
        done = time + latencies[steps[place].issue.kind]
        time += 1
        for user in users[place]:
            ready[user] = max(ready[user], done)
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(waiting, (ready[user], user))
    return result


def _needs(steps: list[Step]) -> list[set[int]]:
    """For each step the earlier ones that it has to follow."""
    writer: dict[int, int] = {}
    last_store: dict[IssueKind, int] = {}
    loads: dict[IssueKind, list[int]] = {}
    needs: list[set[int]] = []
    for place, step in enumerate(steps):
        kind = step.issue.kind
        needed = {writer[register] for register in step.reads if register in writer}
        if step.issue.access >= 0:
            if kind in last_store:
                needed.add(last_store[kind])
            if step.issue.text.startswith("ld"):
                loads.setdefault(kind, []).append(place)
            else:
                needed.update(loads.pop(kind, ()))
                last_store[kind] = place
        needs.append(needed)
        for register in step.writes:
            writer[register] = place
    return needs
