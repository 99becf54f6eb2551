"""Registers that a tcgen05.ld has been asked for and that are used before its tcgen05.wait::ld.

This pass follows, along every path of a kernel, which registers may not have been waited for, and puts a record in
front of what uses one: when it runs it reports a load that its warp has not waited for. A plain move is no use: its
target is then one such register too. Nor is a tcgen05.st, which the tensor memory takes in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from warplab.emulator.core.state.layout import (
    DST,
    GUARD,
    GUARD_XOR,
    OP_ROWS,
    OP_TENSOR_CORE,
    OP_TENSOR_MEMORY,
    VECTOR_BASE,
    X3,
)
from warplab.emulator.core.state.tensor_layout import TC_USED, TM_LOAD, TM_STORE, TM_WAIT_LOAD
from warplab.emulator.lowering.hazards.in_flight import bits_of_numbers, states_before, successors_of
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.lowering.registers import Operands
from warplab.emulator.program import ROWS_BASE, Record, make_record

_MOVES = ("mov.i32", "mov.i64")
_REDUCES = "tcgen05.ld.red"  # whose result is in flight with what it loads


@dataclass(frozen=True)
class _Step:
    """One record as this pass sees it. `loads`: it names registers of a load; `uses`: reading in flight is a fault."""

    record: Record
    reads: int
    writes: int
    moves: bool
    loads: bool
    uses: bool


def _steps(lowering: Lowering) -> list[_Step]:
    operands = Operands(lowering.frame)
    moves = {VECTOR_BASE + lowering.index[name] for name in _MOVES}
    steps: list[_Step] = []
    action = -1  # of the instruction on tensor memory that a record belongs to, from the last one backwards
    for record in reversed(lowering.records):
        if record.op == OP_TENSOR_MEMORY:
            action = record.fields[X3]
        elif record.op != OP_ROWS:
            action = -1
        reads, writes, _ = operands.of(record)
        moved = record.op in moves and record.fields[DST] >= ROWS_BASE or _REDUCES in record.text
        named = record.op == OP_ROWS and action in (TM_LOAD, TM_STORE)
        loads = named and action == TM_LOAD
        step = _Step(record, bits_of_numbers(reads), bits_of_numbers(writes), moved, loads, not (named or moved))
        steps.append(step)
    return steps[::-1]


def _after(flight: int, step: _Step) -> int:
    """The registers in flight after a step."""
    if step.record.op == OP_TENSOR_MEMORY and step.record.fields[X3] == TM_WAIT_LOAD:
        return 0
    if step.loads or step.moves and step.reads & flight:
        return flight | step.writes
    return flight if step.record.fields[GUARD] else flight & ~step.writes


def _check(record: Record) -> Record:
    """A record in front of another, under the same guard."""
    check = make_record(OP_TENSOR_CORE, extra=(0, 0, 0, TC_USED))
    check.fields[GUARD], check.fields[GUARD_XOR] = record.fields[GUARD], record.fields[GUARD_XOR]
    check.line, check.outermost, check.text = record.line, record.outermost, record.text
    check.counted = False
    return check


def guard_loaded_registers(lowering: Lowering) -> None:
    """Mark what uses registers in flight: changes the records and labels of a lowered kernel, before linking."""
    records, labels = lowering.records, lowering.labels
    if all(record.op != OP_TENSOR_MEMORY or record.fields[X3] != TM_LOAD for record in records):
        return
    steps = _steps(lowering)
    starts, successors = successors_of(records, labels)
    flights = states_before(steps, starts, successors, 0, _after, int.__or__)
    # The check of a record with OP_ROWS in front of it comes before those, where its labels point.
    result: list[Record] = []
    moved: dict[int, int] = {}
    rows: list[Record] = []
    early = False
    for position, (step, flight) in enumerate(zip(steps, flights, strict=True)):
        moved[position] = len(result)
        early = early or step.uses and bool(step.reads & flight)
        if step.record.op == OP_ROWS:
            rows.append(step.record)
            continue
        if early:
            result.append(_check(step.record))
        result.extend((*rows, step.record))
        rows.clear()
        early = False
    moved[len(records)] = len(result)
    lowering.records = result
    lowering.labels = {name: moved[place] for name, place in labels.items()}
