"""Checks the orders of a pipeline's passes that a submission returned, and models when each pass is done.

It reads a stranger's bytes, so it runs in a worker's sandbox. An order is data: all of it can be checked, and none of
it is ever run here.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from autograder.records.outcome import CaseOutcome
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.spec.pipelines import Pipeline, chunks_of, held_by, ranks_of
from autograder.spec.records import RecordCase
from autograder.worker.record_rows import Number, failed, rows
from systems.parallel.bubbles import least_bubble
from systems.parallel.execution import Work
from systems.parallel.order_check import Wrong
from systems.parallel.order_check import check as first_fault
from systems.parallel.shapes import LayoutError
from systems.parallel.timeline import from_records, held, idle, run
from warplab.plan.capture.records import MOST_RECORDS
from warplab.plan.execution import FindingKind

_Rows = Annotated[list[tuple[Number, Literal["F", "B", "W"], Number, Number]], msgspec.Meta(max_length=MOST_RECORDS)]
# What a fault of an order would be called in a kernel: who needs a result too early reads what nobody has written.
_KINDS = {
    Wrong.NO_SUCH_PASS: FindingKind.OUT_OF_BOUNDS,
    Wrong.TOO_EARLY: FindingKind.UNINITIALISED,
    Wrong.DEADLOCK: FindingKind.DEADLOCK,
}


def check(pipeline: Pipeline, case: RecordCase, blob: bytes) -> tuple[CaseOutcome, bytes]:
    """The outcome of one case, and the work of its processes as JSON. Raises Rejected."""
    found, size = rows(blob, _Rows), case.dimensions
    ranks, name = ranks_of(size), f"{pipeline.function}({', '.join(f'{key}={value}' for key, value in size.items())})"
    try:
        orders = from_records(found, ranks, pipeline.split)
    except LayoutError as error:
        return failed(case, FindingKind.OUT_OF_BOUNDS, f"{name}: {error}"), b""
    fault = first_fault(orders, size["micro_batches"], chunks_of(size), pipeline.split)
    if fault is None:
        work = Work(orders, size["micro_batches"], chunks_of(size), pipeline.split)
        return CaseOutcome(case.name, Status.PASSED), msgspec.json.encode(work)
    words = f"{name}: {fault.sentence}"
    if not found:
        words += " It returns no records."
    kind = _KINDS.get(fault.kind)
    if kind is None:
        return CaseOutcome(case.name, Status.WRONG_ANSWER, words), b""
    return failed(case, kind, words), b""


def model(pipeline: Pipeline, case: RecordCase, blob: bytes) -> ScheduleModel:
    """The modelled bubble of one case, and what each rank holds. Raises Rejected, LayoutError."""
    times, size = pipeline.times, case.dimensions
    ranks, chunks = ranks_of(size), chunks_of(size)
    orders = from_records(rows(blob, _Rows), ranks, pipeline.split)
    cells = run(orders, times.forward, times.input_part, times.weights, chunks, times.transfer)
    least = least_bubble(
        ranks, size["micro_batches"], times.forward, times.input_part, times.weights, chunks, times.transfer,
        pipeline.split,
    )  # fmt: skip
    bubble = max(idle(cells, rank) for rank in range(ranks))
    return ScheduleModel(case.name, bubble, least, {held_by(rank): held(cells, rank) for rank in range(ranks)})
