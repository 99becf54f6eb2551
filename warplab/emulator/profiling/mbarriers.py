"""Which mbarrier an instruction of a trace is about: what joins a wait to the copies and arrivals that it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warplab.emulator.core.state.layout import LANES, OFFSET_MASK, OP, OP_BULK, OP_MBARRIER, X0
from warplab.emulator.core.state.trace import I_ACCESS, I_MASK, I_OUTCOME, I_PC, I_TIME, I_WARP, OUTCOME_FAILED
from warplab.emulator.profiling.timeline import heads_of
from warplab.emulator.program import Program
from warplab.emulator.recorder import Trace


@dataclass(frozen=True, slots=True)
class Use:
    """An instruction that uses mbarriers of the block."""

    time: int  # when it was issued: an instruction may have several steps, and this is the time of the first
    warp: int
    line: int
    copies: bool  # a bulk copy that completes there; else an instruction of the mbarrier itself
    action: int  # of the latter: MB_...
    failed: bool  # a test that was too early
    places: frozenset[int]  # the mbarriers, by their offsets in shared memory


def uses_of(trace: Trace, program: Program) -> Iterator[Use]:
    """The uses of mbarriers in a trace, in the emulator's order."""
    heads, code = heads_of(program), program.code[:, (OP, X0)].tolist()
    began: dict[int, int] = {}  # of each warp, when its present instruction began
    for event in trace.events.tolist():
        warp, pc, mask, row = event[I_WARP], event[I_PC], event[I_MASK], event[I_ACCESS]
        if heads[pc] == pc:
            began[warp] = event[I_TIME]
        op, action = code[pc]
        if row < 0 or op not in (OP_BULK, OP_MBARRIER):
            continue
        asked = [int(trace.addresses[row, lane]) for lane in range(LANES) if mask >> lane & 1]
        places = frozenset(address & OFFSET_MASK for address in asked)  # of generic ones too: see SHARED_ALIGNMENT
        failed = event[I_OUTCOME] == OUTCOME_FAILED
        time = began.get(warp, event[I_TIME])
        yield Use(time, warp, int(program.lines[pc]), op == OP_BULK, action, failed, places)
