"""Records that do nothing but count, where what the machine code does depends on values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from warplab.emulator.core.state.layout import GUARD, GUARD_XOR, OP_NOP, OP_UNUSUAL, VECTOR_BASE
from warplab.emulator.lowering.assembled.kernel import Assembled
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.program import AnyProbe, OperandTest, Probe, Record, SubroutineCall, make_record
from warplab.isa.machine_code import MachineInstruction


def add_probes(lowering: Lowering, code: Sequence[MachineInstruction]) -> None:
    """Add records that count in how many threads predicates and comparisons are true on which the counters of the
    machine code depend."""
    records, labels = lowering.records, lowering.labels
    targets = {labels[r.target] for r in records if r.target}
    wanted: defaultdict[int, list[AnyProbe]] = defaultdict(list)
    for probe in Assembled(records, code, lowering.bank, targets).wanted():
        wanted[id(probe.beside)].append(probe)
    lowering.records, moved = [], []
    for record in records:
        moved.append(len(lowering.records))
        for probe in wanted[id(record)]:
            if isinstance(probe, OperandTest):
                _append(lowering, record, _compare(lowering, probe))
            elif isinstance(probe, SubroutineCall):
                _append(lowering, record, _follow(lowering, probe))
        lowering.records.append(record)
        for probe in wanted[id(record)]:
            if isinstance(probe, Probe):
                _append(lowering, record, [_counter(probe, probe.predicate)])
    moved.append(len(lowering.records))
    for name, position in labels.items():
        labels[name] = moved[position]


def _append(lowering: Lowering, beside: Record, added: list[Record]) -> None:
    for record in added:
        record.line, record.outermost, record.counted = beside.line, beside.outermost, False
        lowering.records.append(record)


def _counter(probe: Probe | OperandTest, predicate: int) -> Record:
    counter = make_record(OP_NOP)
    counter.fields[GUARD], counter.fields[GUARD_XOR] = predicate, -1 if probe.false else 0
    counter.probe = probe
    return counter


def _compare(lowering: Lowering, test: OperandTest) -> list[Record]:
    """The records of a comparison, and the one that counts."""
    width = int(test.kind[1:])
    row, result = test.row, lowering.temporary(1)
    added = []
    if test.absolute:
        row = lowering.temporary(width)
        added.append(make_record(VECTOR_BASE + lowering.index[f"abs.{test.kind}"], row, test.row))
    constant = lowering.constant(width, test.constant)
    added.append(make_record(VECTOR_BASE + lowering.index[test.key], result, row, constant))
    return [*added, _counter(test, result)]


def _follow(lowering: Lowering, call: SubroutineCall) -> list[Record]:
    """The records that tell which threads call a subroutine, and count what it does for them."""
    result = lowering.temporary(1)
    counter = make_record(OP_UNUSUAL, 0, call.row, call.divisor, extra=(call.kind,))
    counter.fields[GUARD] = result
    counter.probe = call
    return [make_record(VECTOR_BASE + lowering.index[call.key], result, call.row, call.divisor), counter]
