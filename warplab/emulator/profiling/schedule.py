"""A model of when the warps of a block would issue on the hardware: four schedulers, fixed latencies, one memory pipe.

What each warp issues, and what it waits for, is taken from the trace; `ordering.py` puts it in an assembler's order.
Each cycle, each of the four schedulers of a multiprocessor issues one instruction of one of its warps (warp number
modulo 4) whose operands are ready: the one that has waited longest. Memory instructions go through one pipe, which is
busy for a cycle a wavefront or for four sectors. What is left out: other blocks on the multiprocessor, caches, the
difference between PTX and machine code, how often each unit can start an instruction. So the picture explains, and does
not predict.

Latencies are round numbers near what microbenchmarks of Hopper find (one is Luo et al., "Dissecting the NVIDIA Hopper
Architecture through Microbenchmarking and Multiple Level Analysis", arXiv 2501.12084): shared memory, main memory as if
nothing was cached, mma.sync. A shuffle goes through the memory pipe like a load from shared memory.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from warplab.emulator.core.state.layout import (
    BARRIER_ARRIVE,
    COPY_ARRIVE,
    DST,
    FIRST_PREDICATE,
    GUARD,
    MB_ARRIVE,
    MB_COMPLETE,
    OP,
    OP_ATOMIC,
    OP_BARRIER,
    OP_COPY_GROUP,
    OP_LDMATRIX,
    OP_LOAD,
    OP_MBARRIER,
    OP_MMA,
    OP_ROWS,
    OP_STMATRIX,
    OP_STORE,
    SRC_A,
    SRC_B,
    SRC_C,
    VECTOR_BASE,
    X0,
    X1,
    X2,
    X4,
    X5,
    X6,
)
from warplab.emulator.profiling.flights import moved
from warplab.emulator.profiling.mbarriers import uses_of
from warplab.emulator.profiling.ordering import Step, ordered
from warplab.emulator.profiling.timeline import Clock, Issue, IssueKind, Reason, Stall, Timeline, heads_of
from warplab.emulator.program import Program
from warplab.emulator.recorder import Trace

SCHEDULERS = 4
LATENCIES = {
    IssueKind.ARITHMETIC: 4,
    IssueKind.BRANCH: 4,
    IssueKind.GLOBAL: 480,
    IssueKind.SHARED: 30,
    IssueKind.SYNC: 30,
    IssueKind.TENSOR: 32,
    IssueKind.ASYNC: 4,
}
REASONS = {
    IssueKind.GLOBAL: Reason.GLOBAL,
    IssueKind.SHARED: Reason.SHARED,
    IssueKind.SYNC: Reason.RESULT,
    IssueKind.TENSOR: Reason.RESULT,
}  # what the wait for a result is called; shorter ones are not shown
SECTORS_A_CYCLE = 4
_NEVER = 1 << 60


def schedule(chart: Timeline, program: Program, costs: dict[int, int], trace: Trace) -> Timeline:
    """The instructions of a timeline at the times of the model. `costs`: cycles in the pipe, by `Issue.access`."""
    warps = [_steps(chart, program, costs, warp) for warp in range(chart.warps)]
    _link_barriers(chart, program, warps)
    _link_mbarriers(program, warps, {use.time: use.places for use in uses_of(trace, program)})
    issues, stalls = _run(warps)
    times = {step.issue.time: step.time for steps in warps for step in steps}
    issues.sort(key=lambda issue: (issue.time, issue.warp))
    stalls.sort(key=lambda stall: (stall.start, stall.warp))
    result = Timeline(chart.block, chart.warps, tuple(issues), tuple(stalls), Clock.MODEL, chart.truncated)
    return replace(result, flights=moved(chart.flights, times, result.end))


def _steps(chart: Timeline, program: Program, costs: dict[int, int], warp: int) -> list[Step]:
    """A warp's instructions in an assembler's order, without failed tests of mbarriers and the loops around them."""
    issues = chart.of_warp(warp)
    final = {issue.pc: place for place, issue in enumerate(issues)}
    times = [issue.time for issue in issues]
    stalls = (s for s in chart.stalls if s.warp == warp and s.reason is Reason.MBARRIER)
    failed = {times[bisect_right(times, stall.start - 1) - 1] for stall in stalls}  # a test may have several steps
    heads = heads_of(program)
    operands: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    steps: list[Step] = []
    skipping = -1  # the pc of the test that is tried again
    for place, issue in enumerate(issues):
        tried = issue.pc == skipping
        if tried:
            skipping = -1
        if skipping < 0 and issue.time in failed and final[issue.pc] > place:
            skipping = issue.pc
        if skipping < 0:
            if issue.pc not in operands:
                operands[issue.pc] = operands_of(program, heads, issue.pc)
            reads, writes = operands[issue.pc]
            steps.append(Step(issue, reads, writes, _pipe(issue, costs), tried=tried))
    return ordered(steps, LATENCIES)


def _pipe(issue: Issue, costs: dict[int, int]) -> int:
    if issue.access >= 0:
        return max(costs.get(issue.access, 1), 1)
    return 1 if issue.kind is IssueKind.SYNC else 0


def operands_of(program: Program, heads: list[int], pc: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places in the frame that an instruction reads and writes, with all its steps."""
    reads: dict[int, None] = {}
    writes: dict[int, None] = {}
    for step in range(pc, len(heads)):
        if heads[step] != pc:
            break
        read, written = _operands_of_step(program, step)
        reads |= dict.fromkeys(place for place in read if place not in writes)
        writes |= dict.fromkeys(written)
    return tuple(reads), tuple(writes)


def _operands_of_step(program: Program, pc: int) -> tuple[list[int], list[int]]:
    record = program.code[pc]
    op = int(record[OP])
    more = (X4, X5, X6)
    read, written = [GUARD, SRC_A, SRC_B, SRC_C], [DST]
    if op in (OP_LOAD, OP_LDMATRIX):
        written += more
    elif op in (OP_STORE, OP_STMATRIX):
        read, written = [*read, *more], []
    elif op == OP_MMA:
        read, written = [*read, X0], [DST, *more]
    elif op == OP_ATOMIC and not record[X4]:
        written = []
    if record[GUARD]:
        read = [*read, *written]  # lanes that it switches off keep what was there
    reads = [int(record[f]) for f in read]
    if pc and program.code[pc - 1, OP] == OP_ROWS:
        reads += [int(program.code[pc - 1, f]) for f in (SRC_A, SRC_B, SRC_C, X0, X1, X2, *more)]
    writes = [int(record[f]) for f in written]
    return [r for r in reads if r >= FIRST_PREDICATE], [w for w in writes if w >= FIRST_PREDICATE]


def _link_barriers(chart: Timeline, program: Program, warps: list[list[Step]]) -> None:
    """Whoever waited at a barrier goes on after all that arrived in its phase.

    A phase ends with the arrival that did not wait, or, where threads have ended, when somebody goes on.
    """
    ends = {(s.warp, s.start - 1): s for s in chart.stalls if s.reason is Reason.BARRIER}
    arrivals: dict[int, list[tuple[Step, Step | None]]] = {}  # barrier -> arrivals, and what comes behind each
    for steps in warps:
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if program.code[step.issue.pc, OP] == OP_BARRIER:
                arrivals.setdefault(int(program.code[step.issue.pc, SRC_A]), []).append((step, following))
    for group in arrivals.values():
        phase: list[tuple[Step, Step | None]] = []
        opens = _NEVER  # when the first of the phase went on

        def close(members: list[tuple[Step, Step | None]]) -> None:
            for arrival, following in members:
                if following is not None and program.code[arrival.issue.pc, X0] != BARRIER_ARRIVE:
                    following.after += [other for other, _ in members if other is not arrival]

        for step, following in sorted(group, key=lambda pair: pair[0].issue.time):
            if step.issue.time > opens:
                close(phase)
                phase, opens = [], _NEVER
            phase.append((step, following))
            stall = ends.get((step.issue.warp, step.issue.time))
            if stall is not None:
                opens = min(opens, stall.end)
            elif program.code[step.issue.pc, X0] != BARRIER_ARRIVE:
                close(phase)
                phase, opens = [], _NEVER
        close([pair for pair in phase if opens < _NEVER])


def _link_mbarriers(program: Program, warps: list[list[Step]], places: dict[int, frozenset[int]]) -> None:
    """Who tried an mbarrier in vain at first goes on after the other warps' last arrivals there before its test passed.

    `places`: the mbarriers of an instruction, by its time; an arrival without any may be one at each.
    """
    bring_on = {pc for pc in {step.issue.pc for steps in warps for step in steps} if _arrives(program, pc)}
    arrivals = [step for steps in warps for step in steps if step.issue.pc in bring_on]
    tests = [pair for steps in warps for pair in zip(steps, steps[1:], strict=False) if pair[0].tried]
    events: list[tuple[Step, Step | None]] = [*((step, None) for step in arrivals), *tests]
    latest: dict[int, dict[int, Step]] = {}  # by the mbarrier (-1: not known) and the warp
    for step, following in sorted(events, key=lambda event: event[0].issue.time):
        there = places.get(step.issue.time, frozenset())
        if following is None:
            for place in there or (-1,):
                latest.setdefault(place, {})[step.issue.warp] = step
        else:
            found = [latest.get(place, {}) for place in ((*there, -1) if there else latest)]
            others = [other for warps_of in found for warp, other in warps_of.items() if warp != step.issue.warp]
            following.after += others
            following.reason = Reason.MBARRIER


def _arrives(program: Program, pc: int) -> bool:
    """Does an instruction bring an mbarrier on? Before the step that does there may be others."""
    for record in program.code[pc : pc + 2]:
        op, action = int(record[OP]), int(record[X0])
        if op < VECTOR_BASE:
            arrives = op == OP_MBARRIER and action in (MB_ARRIVE, MB_COMPLETE)
            return arrives or (op == OP_COPY_GROUP and action == COPY_ARRIVE)
    return False


class _Warp:
    """A warp on its way through its steps."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.next = 0
        self.last = -1  # when it issued last
        self.ready: dict[int, tuple[int, IssueKind]] = {}  # frame offset -> when it holds its value, and from what

    @property
    def step(self) -> Step | None:
        """What it issues next."""
        return self.steps[self.next] if self.next < len(self.steps) else None

    def earliest(self) -> tuple[int, Reason | None]:
        """When its next step can be issued, and what it waits for until then; _NEVER if others come first."""
        step = self.step
        assert step is not None
        time, reason = self.last + 1, None
        for other in step.after:
            if other.time < 0:
                return _NEVER, step.reason
            if other.time + 1 > time:
                time, reason = other.time + 1, step.reason
        for place in step.reads:
            ready, kind = self.ready.get(place, (0, IssueKind.ARITHMETIC))
            if ready > time:
                time, reason = ready, REASONS.get(kind)
        return time, reason


def _at(issue: Issue, time: int) -> Issue:
    """The instruction at another time; there are ten thousands, and `replace` takes its time for each."""
    return Issue(time, issue.warp, issue.line, issue.kind, issue.mask, issue.active, issue.pc, issue.text, issue.access)


def _run(warps: list[list[Step]]) -> tuple[list[Issue], list[Stall]]:
    running = [_Warp(steps) for steps in warps]
    free = [0] * SCHEDULERS
    pipe = 0
    issues: list[Issue] = []
    stalls: list[Stall] = []
    known = {number: warp.earliest() for number, warp in enumerate(running) if warp.step is not None}
    while known:
        soonest, longest, number = _NEVER + 1, 0, 0
        for n, (time, _) in known.items():
            if time == _NEVER:
                known[n] = running[n].earliest()
                time = known[n][0]
            if time < free[n % SCHEDULERS]:
                time = free[n % SCHEDULERS]
            last = running[n].last
            if time < soonest or (time == soonest and (last, n) < (longest, number)):
                soonest, longest, number = time, last, n
        warp = running[number]
        ready, reason = known[number]
        step = warp.step
        assert step is not None
        if ready == _NEVER:
            # Nobody can go on: the warp that it waits for is not in the trace, or comes later by another way.
            step.after.clear()
            known[number] = warp.earliest()
            continue
        time = max(ready, free[number % SCHEDULERS])
        if reason is not None and warp.last >= 0 and ready > warp.last + 1:
            before = warp.steps[warp.next - 1].issue
            stalls.append(Stall(number, warp.last + 1, ready, reason, step.issue.line, before.active))
        issues.append(_at(step.issue, time))
        step.time = warp.last = time
        free[number % SCHEDULERS] = time + 1
        done = time + LATENCIES[step.issue.kind]
        if step.pipe:
            pipe = max(pipe, time) + step.pipe
            done = pipe - 1 + LATENCIES[step.issue.kind]
        for place in step.writes:
            warp.ready[place] = (done, step.issue.kind)
        warp.next += 1
        if warp.step is None:
            del known[number]
        else:
            known[number] = warp.earliest()
    return issues, stalls
