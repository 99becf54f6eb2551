"""Rows of a stranger's records, as the capture process wrote them or somebody who took it over."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import Rejected, rejected
from autograder.records.status import Status
from autograder.spec.records import RecordCase
from warplab.plan.capture.protocol import unusable
from warplab.plan.capture.records import MOST_NUMBER
from warplab.plan.execution import Finding, FindingKind

MOST_BYTES = 32 << 20  # of one call's records

Number = Annotated[int, msgspec.Meta(ge=0, lt=MOST_NUMBER)]


def rows(blob: bytes, form: Any) -> Any:
    """The rows of one call, of the type `form`. Raises Rejected for what the capture process cannot have written."""
    if len(blob) > MOST_BYTES:
        raise Rejected(Status.RESOURCES, f"The records of one call take more than {MOST_BYTES >> 20} MiB.")
    try:
        return msgspec.json.decode(blob, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise rejected(unusable(error)) from None


def failed(case: RecordCase, kind: FindingKind, words: str) -> CaseOutcome:
    """The outcome of a case with one finding."""
    return CaseOutcome(case.name, Status(kind.value), words, findings=[Finding(kind, words)])
