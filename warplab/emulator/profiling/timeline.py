"""The timeline of a block: what each of its warps issued when, with which lanes, and where it had to wait.

Time is the emulator's: the place of an instruction in the order in which it issued them. That order is one that the
hardware could take, not the one that it would; `schedule.py` makes a model of the latter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from warplab.emulator.core.state.layout import (
    OP,
    OP_ATOMIC,
    OP_BARRIER,
    OP_BRANCH,
    OP_BULK,
    OP_BULK_GROUP,
    OP_CANCEL,
    OP_CLUSTER_BARRIER,
    OP_COPY,
    OP_COPY_GROUP,
    OP_FENCE,
    OP_JUMP,
    OP_LDMATRIX,
    OP_LOAD,
    OP_MATCH,
    OP_MBARRIER,
    OP_MMA,
    OP_REDUX,
    OP_REMOTE,
    OP_SHUFFLE,
    OP_STMATRIX,
    OP_STORE,
    OP_TENSOR_CORE,
    OP_TENSOR_MEMORY,
    OP_VOTE,
    OP_WARP_SYNC,
    OP_WGMMA,
    OP_WGMMA_GROUP,
    SPACE_CONST,
    SPACE_PARAM,
    SPACE_SHARED,
    X0,
)
from warplab.emulator.core.state.trace import (
    I_ACCESS,
    I_ACTIVE,
    I_MASK,
    I_OUTCOME,
    I_PC,
    I_TIME,
    I_WARP,
    OUTCOME_FAILED,
    OUTCOME_WAITS,
)
from warplab.emulator.program import Program
from warplab.emulator.recorder import Trace


class IssueKind(StrEnum):
    """What an instruction is about."""

    ARITHMETIC = "arithmetic"
    GLOBAL = "global memory"  # and local memory, and atomics there
    SHARED = "shared memory"
    BRANCH = "branch"
    SYNC = "synchronisation"  # barriers, and instructions in which lanes meet
    TENSOR = "tensor core"
    ASYNC = "asynchronous copy"


class Reason(StrEnum):
    """Why lanes wait."""

    BARRIER = "at a barrier"
    MBARRIER = "at an mbarrier"
    LANES = "for lanes of the warp"
    # Only in a modelled schedule:
    GLOBAL = "for global memory"
    SHARED = "for shared memory"
    RESULT = "for a result"


class Clock(StrEnum):
    """What the times of a timeline count."""

    ISSUE_ORDER = "issue order"
    MODEL = "modelled cycles"


_KINDS = {
    OP_ATOMIC: IssueKind.GLOBAL,
    OP_BRANCH: IssueKind.BRANCH,
    OP_JUMP: IssueKind.BRANCH,
    OP_BARRIER: IssueKind.SYNC,
    OP_SHUFFLE: IssueKind.SYNC,
    OP_VOTE: IssueKind.SYNC,
    OP_MATCH: IssueKind.SYNC,
    OP_REDUX: IssueKind.SYNC,
    OP_WARP_SYNC: IssueKind.SYNC,
    OP_MBARRIER: IssueKind.SYNC,
    OP_CLUSTER_BARRIER: IssueKind.SYNC,
    OP_FENCE: IssueKind.SYNC,
    OP_CANCEL: IssueKind.ASYNC,
    OP_REMOTE: IssueKind.ASYNC,
    OP_MMA: IssueKind.TENSOR,
    OP_WGMMA: IssueKind.TENSOR,
    OP_WGMMA_GROUP: IssueKind.TENSOR,
    OP_TENSOR_MEMORY: IssueKind.TENSOR,
    OP_TENSOR_CORE: IssueKind.TENSOR,
    OP_LDMATRIX: IssueKind.SHARED,
    OP_STMATRIX: IssueKind.SHARED,
    OP_COPY: IssueKind.ASYNC,
    OP_COPY_GROUP: IssueKind.ASYNC,
    OP_BULK: IssueKind.ASYNC,
    OP_BULK_GROUP: IssueKind.ASYNC,
}


TRACKED = (OP_BULK, OP_MBARRIER)  # of these a trace keeps the address of the mbarrier


@dataclass(frozen=True, slots=True)
class Issue:
    """A warp instruction: `active` lanes reached it, `mask` of them ran it (its guard switches the others off)."""

    time: int
    warp: int
    line: int  # of the submission, 0 if unknown
    kind: IssueKind
    mask: int
    active: int
    pc: int
    text: str  # PTX
    access: int = -1  # its addresses in the trace

    @property
    def lanes(self) -> int:
        """How many lanes ran it."""
        return self.mask.bit_count()


@dataclass(frozen=True, slots=True)
class Stall:
    """Lanes of a warp that wait from `start` up to `end`; `ended` is False if they never went on."""

    warp: int
    start: int
    end: int
    reason: Reason
    line: int
    lanes: int  # a mask
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Flight:
    """Asynchronous copies or products of a warp, from the first issue to the wait that they end with."""

    warp: int
    start: int
    end: int
    kind: IssueKind
    line: int  # of its first instruction
    operations: int  # warp instructions
    ended: bool = True  # False: nothing waits for it


@dataclass(frozen=True)
class Timeline:
    """Everything that a block issued, in order. `truncated` instructions came after the trace was full."""

    block: tuple[int, int, int]
    warps: int
    issues: tuple[Issue, ...] = field(repr=False)
    stalls: tuple[Stall, ...] = field(repr=False)
    clock: Clock = Clock.ISSUE_ORDER
    truncated: int = 0
    flights: tuple[Flight, ...] = field(default=(), repr=False)

    @property
    def end(self) -> int:
        """The first moment at which nothing happens any more."""
        return max([*(issue.time + 1 for issue in self.issues), *(stall.end for stall in self.stalls)], default=0)

    def of_warp(self, warp: int) -> tuple[Issue, ...]:
        """What one warp issued."""
        return tuple(issue for issue in self.issues if issue.warp == warp)

    def at(self, time: int) -> dict[int, Issue | None]:
        """For each warp the last instruction that it had issued by `time`, None before its first."""
        result: dict[int, Issue | None] = dict.fromkeys(range(self.warps))
        for issue in self.issues:
            if issue.time <= time:
                result[issue.warp] = issue
        return result

    def ended_at(self, time: int) -> frozenset[int]:
        """The warps of which nothing comes after `time`: they have ended, if nothing is missing."""
        later = {issue.warp for issue in self.issues if issue.time >= time}
        return frozenset(range(self.warps)) - later - self.waits_at(time).keys()

    def waits_at(self, time: int) -> dict[int, Stall]:
        """The warps that wait at `time`."""
        return {stall.warp: stall for stall in self.stalls if stall.start <= time < stall.end}

    def __str__(self) -> str:
        how = "modelled, not measured: the emulator's issue order"
        if self.clock is Clock.MODEL:
            how = "modelled, not measured: cycles of a simple scheduler"
        text = f"{len(self.issues):,} instructions of {self.warps} warps of block {self.block} ({how})"
        waits: dict[Reason, int] = {}
        for stall in self.stalls:
            waits[stall.reason] = waits.get(stall.reason, 0) + stall.end - stall.start
        rows = [f"  waiting {reason}: {total:,} warp ticks" for reason, total in waits.items()]
        if self.truncated:
            rows.append(f"  {self.truncated:,} later instructions are not in it: the trace was full")
        return "\n".join([text, *rows])


def kind_of(record: np.ndarray) -> IssueKind:
    """The kind of an instruction record (int32 [RECORD_WORDS])."""
    op, space = int(record[OP]), int(record[X0])
    if op in (OP_LOAD, OP_STORE):
        if space in (SPACE_CONST, SPACE_PARAM):
            return IssueKind.ARITHMETIC  # a constant operand, which the hardware reads on the way
        return IssueKind.SHARED if space == SPACE_SHARED else IssueKind.GLOBAL
    if op == OP_ATOMIC and space == SPACE_SHARED:
        return IssueKind.SHARED
    return _KINDS.get(op, IssueKind.ARITHMETIC)


def timeline_of(trace: Trace, program: Program, block: tuple[int, int, int], warps: int) -> Timeline:
    """The timeline of a trace. An instruction that the emulator does in several steps is there once, as it counts."""
    kinds = [kind_of(record) for record in program.code]
    texts = [" ".join(text.split()) for text in program.texts]
    lines, heads = program.lines.tolist(), heads_of(program)
    issues: list[Issue] = []
    stalls: list[Stall] = []
    latest: dict[int, int] = {}  # of each warp, the place of its last instruction
    waiting: dict[int, list[Stall]] = {}  # of each warp, with the pc where it waits as their end
    events = trace.events.tolist()
    tracked = {pc for pc, op in enumerate(program.code[:, OP].tolist()) if op in TRACKED}
    for event in events:
        time, warp, pc, active = event[I_TIME], event[I_WARP], event[I_PC], event[I_ACTIVE]
        access = -1 if pc in tracked else event[I_ACCESS]  # an mbarrier's address is no access of the lanes
        again = False
        for stall in [stall for stall in waiting.get(warp, ()) if stall.lanes & active]:
            waiting[warp].remove(stall)
            again = again or (stall.end == pc and stall.reason is not Reason.MBARRIER)
            stalls.append(replace(stall, end=max(time, stall.start)))
        if heads[pc] == pc and not again:
            latest[warp] = len(issues)
            issue = Issue(time, warp, lines[pc], kinds[pc], event[I_MASK], active, pc, texts[pc], access)
            issues.append(issue)
        elif heads[pc] >= 0 and not again and warp in latest and issues[latest[warp]].pc == heads[pc]:
            issues[latest[warp]] = _with_step(issues[latest[warp]], kinds[pc], access)
        if (reason := _reason(event[I_OUTCOME], int(program.code[pc, OP]))) is not None:
            waiting.setdefault(warp, []).append(Stall(warp, time + 1, pc, reason, lines[pc], active))
    last = events[-1][I_TIME] + 1 if events else 0
    for stall in (stall for several in waiting.values() for stall in several):
        stalls.append(replace(stall, end=max(last, stall.start), ended=False))
    stalls.sort(key=lambda stall: (stall.start, stall.warp))
    return Timeline(block, warps, tuple(issues), tuple(stalls), truncated=trace.lost_events)


def heads_of(program: Program) -> list[int]:
    """For each step the pc of the instruction that it is part of: its first step, which is counted; else -1."""
    heads: list[int] = []
    for pc, counted in enumerate(program.counted.tolist()):
        behind = bool(heads) and heads[-1] >= 0 and program.texts[pc] == program.texts[pc - 1]
        heads.append(pc if counted else heads[-1] if behind else -1)
    return heads


def _with_step(issue: Issue, kind: IssueKind, access: int) -> Issue:
    """An instruction with a further step: what it is about shows in the step that is not arithmetic."""
    return replace(
        issue,
        kind=issue.kind if kind is IssueKind.ARITHMETIC else kind,
        access=issue.access if access < 0 else access,
    )


def _reason(outcome: int, op: int) -> Reason | None:
    """Why the lanes of an instruction wait behind it, if they do."""
    if outcome == OUTCOME_FAILED:
        return Reason.MBARRIER
    if outcome == OUTCOME_WAITS:
        return Reason.BARRIER if op in (OP_BARRIER, OP_CLUSTER_BARRIER) else Reason.LANES
    return None
