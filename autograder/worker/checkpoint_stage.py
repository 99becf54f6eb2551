"""Checks the plans of checkpoints that a submission returned, and counts what each computes again.

It reads a stranger's bytes, so it runs in a worker's sandbox. A plan is data, names of operators: all of it can be
checked, and what it costs is a sum.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from autograder.records.outcome import CaseOutcome
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.checkpoints import MOVED, Aim, Checkpoint, planned
from autograder.spec.records import RecordCase
from autograder.worker.record_rows import Number, failed, rows
from systems.training.planner import Plan
from warplab.plan.capture.records import LONGEST_NAME, MOST_RECORDS
from warplab.plan.execution import FindingKind

_Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
_Rows = Annotated[list[tuple[Number, _Name]], msgspec.Meta(max_length=MOST_RECORDS)]


def check(asked: Checkpoint, case: RecordCase, blob: bytes) -> tuple[CaseOutcome, bytes]:
    """The outcome of one case, and the names that are kept of each block as JSON. Raises Rejected."""
    found, size = rows(blob, _Rows), case.dimensions
    table = asked.table(size)
    call = f"{asked.function}({', '.join(f'{key}={value}' for key, value in size.items())})"
    known, seen = {(one.block, one.name) for one in table}, set[tuple[int, str]]()
    for number, (block, name) in enumerate(found):
        where = f"{call}: Record {number} keeps {name!r} of block {block},"
        if (block, name) not in known:
            return failed(case, FindingKind.OUT_OF_BOUNDS, f"{where} which is not in the table."), b""
        if (block, name) in seen:
            return CaseOutcome(case.name, Status.WRONG_ANSWER, f"{where} which an earlier one does too."), b""
        seen.add((block, name))
    fault = _fault(asked, case, _plan(asked, case, found))
    if fault:
        words = f"{call}: {fault}"
        return CaseOutcome(case.name, Status.WRONG_ANSWER, words), b""
    blocks = 1 + max(one.block for one in table)
    kept = [sorted(name for block, name in seen if block == number) for number in range(blocks)]
    return CaseOutcome(case.name, Status.PASSED), msgspec.json.encode(kept)


def model(asked: Checkpoint, case: RecordCase, blob: bytes) -> ScheduleModel:
    """What one case costs, beside the least there can be, and the bytes that it moves again. Raises Rejected."""
    made = _plan(asked, case, rows(blob, _Rows))
    return ScheduleModel(case.name, asked.cost(made), asked.cost(asked.best(case.dimensions)), {MOVED: made.moved})


def _fault(asked: Checkpoint, case: RecordCase, made: Plan) -> str:
    """What a plan of operators that there are does wrong, in a sentence, or nothing."""
    table = asked.table(case.dimensions)
    if asked.aim is Aim.NOTHING_AGAIN:
        kept = set(made.kept)
        again = next((one for one in table if one.flops and one not in kept), None)
        where = f"those of {again.name} of block {again.block} first" if again else ""
        none = "" if kept else " It returns no records."
        return f"{made.flops:,} FLOP are computed again, {where}.{none}" if again else ""
    taken, budget = asked.taken(made.kept, case.dimensions), asked.budget(case.dimensions)
    fits = next((one for one in table if one.flops and asked.taken([one], case.dimensions) <= budget), None)
    if fits and not made.kept:
        return f"It returns no records, where there is room for {fits.name} of block {fits.block}."
    where = " more at the peak" if asked.aim is Aim.PEAK else ""
    return f"It keeps {taken:,} bytes{where}, where the budget is {budget:,}." if taken > budget else ""


def _plan(asked: Checkpoint, case: RecordCase, found: list[tuple[int, str]]) -> Plan:
    names = set(found)
    table = asked.table(case.dimensions)
    return planned([one for one in table if (one.block, one.name) in names], table)
