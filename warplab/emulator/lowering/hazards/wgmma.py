"""What other instructions may do with the registers of a wgmma that has been issued but not made.

A wgmma reads a's registers when it is issued and writes its accumulators as late as a wait allows. This pass follows,
along every path of a kernel, which registers may be in flight, and marks the few instructions that touch one of them: a
plain move becomes a step of the queue, anything else gets a record in front that checks it when it runs. It also finds
the products whose registers may have been touched since the last wgmma.fence. Sets of registers are Python integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from warplab.emulator.core.state.layout import (
    DST,
    GUARD,
    GUARD_XOR,
    IMM,
    OP_EXIT,
    OP_ROWS,
    OP_WGMMA,
    OP_WGMMA_GROUP,
    OP_WGMMA_REGISTER,
    VECTOR_BASE,
    WGMMA_A_REGISTERS,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_MOVE,
    WGMMA_READ,
    WGMMA_TOUCH,
    WGMMA_TOUCHED,
    WGMMA_WAIT,
    WGMMA_WRITE,
    X0,
    X3,
    X7,
)
from warplab.emulator.lowering.hazards.in_flight import bits_of_numbers, numbers_of, states_before, successors_of
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.lowering.registers import Operands
from warplab.emulator.program import ROWS_BASE, Record, make_record

_MOVE = "mov.i32"


@dataclass(frozen=True)
class _Step:
    """One record as this pass sees it; sets of registers by number."""

    record: Record
    reads: int = 0
    writes: int = 0
    accumulators: int = 0  # of a product
    fragments: int = 0
    moves: bool = False  # a plain move of 32 bits
    hidden: bool = False  # belongs to the product behind it


@dataclass(frozen=True)
class _Flight:
    """Registers in flight: to be written, and read already but not to be changed; in open and in committed groups."""

    written: int = 0
    read: int = 0
    written_later: int = 0  # of wgmmas that no commit_group follows yet
    read_later: int = 0

    def joined(self, other: _Flight) -> _Flight:
        return _Flight(
            self.written | other.written,
            self.read | other.read,
            self.written_later | other.written_later,
            self.read_later | other.read_later,
        )

    @property
    def all_written(self) -> int:
        return self.written | self.written_later

    @property
    def all_read(self) -> int:
        return self.read | self.read_later


def _steps(records: list[Record], operands: Operands, move: int) -> list[_Step]:
    steps = []
    for record in records:
        reads, writes, _ = operands.of(record)
        moves = record.op == move and record.fields[DST] >= ROWS_BASE
        steps.append(_Step(record, bits_of_numbers(reads), bits_of_numbers(writes), moves=moves))
    for position, record in enumerate(records):
        if record.op != OP_WGMMA:
            continue
        first = position - record.fields[X7]
        accumulators = fragments = 0
        for row in range(first, position):
            accumulators |= steps[row].reads
        if record.fields[X3] & WGMMA_A_REGISTERS:
            first -= 1
            fragments = steps[first].reads
        for row in range(first, position):
            steps[row] = _Step(records[row], hidden=True)
        steps[position] = _Step(record, steps[position].reads, 0, accumulators, fragments)
    return steps


def _after_flight(flight: _Flight, step: _Step) -> _Flight:
    """What is in flight after a step."""
    op, fields = step.record.op, step.record.fields
    if op == OP_WGMMA:
        return _Flight(
            flight.written, flight.read, flight.written_later | step.accumulators, flight.read_later | step.fragments
        )
    if op == OP_WGMMA_GROUP and fields[X0] == WGMMA_COMMIT:
        return _Flight(flight.all_written, flight.all_read)
    if op == OP_WGMMA_GROUP and fields[X0] == WGMMA_WAIT and fields[IMM] == 0:
        return _Flight(0, 0, flight.written_later, flight.read_later)
    if step.moves and (step.reads | step.writes) & flight.all_written:
        # A move in the queue: its target is written when what stands before it has been made.
        if flight.written_later:
            return _Flight(flight.written, flight.read, flight.written_later | step.writes, flight.read_later)
        return _Flight(flight.written | step.writes, flight.read)
    return flight


@dataclass(frozen=True)
class _Touched:
    """Registers written since the last wgmma.fence on some path."""

    registers: int = 0

    def joined(self, other: _Touched) -> _Touched:
        return _Touched(self.registers | other.registers)


def _after_touch(touched: _Touched, step: _Step) -> _Touched:
    record = step.record
    if record.op == OP_WGMMA_GROUP and record.fields[X0] == WGMMA_FENCE:
        return _Touched()
    if not step.writes:
        return touched
    if not step.moves:
        return _Touched(touched.registers | step.writes)
    # The assembler gives both ends of a move one register, so that it is no access of its own.
    if touched.registers & step.reads:
        return _Touched(touched.registers | step.writes)
    return touched if record.fields[GUARD] else _Touched(touched.registers & ~step.writes)


def _check(record: Record, action: int, row: int) -> Record:
    """A record in front of another, under the same guard."""
    check = make_record(OP_WGMMA_REGISTER, 0, row, extra=(action,))
    check.fields[GUARD], check.fields[GUARD_XOR] = record.fields[GUARD], record.fields[GUARD_XOR]
    check.line, check.outermost, check.text = record.line, record.outermost, record.text
    check.counted = False
    return check


def guard_registers(lowering: Lowering) -> None:
    """Mark what may touch registers in flight: changes the records and labels of a lowered kernel, before linking."""
    records, labels = lowering.records, lowering.labels
    if all(record.op != OP_WGMMA for record in records):
        return
    operands = Operands(lowering.frame)
    places = {number: place for place, number in reversed(operands.number.items())}
    steps = _steps(records, operands, VECTOR_BASE + lowering.index[_MOVE])
    starts, successors = successors_of(records, labels)
    flights = states_before(steps, starts, successors, _Flight(), _after_flight, _Flight.joined)
    touched = states_before(steps, starts, successors, _Touched(), _after_touch, _Touched.joined)
    suspects = 0
    for step, state in zip(steps, touched, strict=True):
        found = state.registers & (step.accumulators | step.fragments)
        if found:
            step.record.fields[X3] |= WGMMA_TOUCHED
            suspects |= found
    # The checks of a record with OP_ROWS in front of it come before those, where its labels point.
    result: list[Record] = []
    moved: dict[int, int] = {}
    rows: list[Record] = []
    for position, (step, flight) in enumerate(zip(steps, flights, strict=True)):
        record = step.record
        checks = [] if step.hidden else _checks(step, flight, suspects, places)
        if record.op == OP_EXIT or record.op == OP_WGMMA_GROUP and record.fields[X0] == WGMMA_WAIT:
            record.keeps = tuple(places[n] for n in numbers_of(flight.all_written | flight.all_read))
        moved[position] = len(result)
        result.extend(checks)
        if record.op == OP_ROWS:
            rows.append(record)
            continue
        result.extend((*rows, record))
        rows.clear()
    moved[len(records)] = len(result)
    lowering.records = result
    lowering.labels = {name: moved[place] for name, place in labels.items()}


def _checks(step: _Step, flight: _Flight, suspects: int, places: dict[int, int]) -> list[Record]:
    """The records to put in front of a step; a move in flight is changed in place instead."""
    record = step.record
    if record.op in (OP_WGMMA, OP_WGMMA_GROUP):
        return []
    if step.moves:
        if (step.reads | step.writes) & flight.all_written:
            record.fields[0], record.fields[X0] = OP_WGMMA_REGISTER, WGMMA_MOVE
        return []
    found = [_check(record, WGMMA_READ, places[n]) for n in numbers_of(step.reads & flight.all_written)]
    written = step.writes & (flight.all_written | flight.all_read)
    found += [_check(record, WGMMA_WRITE, places[n]) for n in numbers_of(written)]
    if step.writes & suspects:
        found.append(_check(record, WGMMA_TOUCH, 0))
    return found
