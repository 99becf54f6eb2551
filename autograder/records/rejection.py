"""A submission that is at fault before any kernel has run."""

from __future__ import annotations

from typing import Any

from autograder.records.status import Status
from autograder.records.text import clean, clean_source
from warplab.errors import WarplabError
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus

_STATUSES = {
    CaptureStatus.NOT_FOUND: Status.NOT_FOUND,
    CaptureStatus.NOT_PYTHON: Status.NOT_PYTHON,
    CaptureStatus.SYNTAX_ERROR: Status.SYNTAX_ERROR,
    CaptureStatus.IMPORT_ERROR: Status.IMPORT_ERROR,
    CaptureStatus.NO_FUNCTION: Status.NO_FUNCTION,
    CaptureStatus.ARGUMENT_MISMATCH: Status.ARGUMENT_MISMATCH,
    CaptureStatus.HOST_ERROR: Status.HOST_ERROR,
    CaptureStatus.TIMEOUT: Status.HOST_TIMEOUT,
    CaptureStatus.CRASHED: Status.HOST_CRASHED,
    CaptureStatus.COMPILE_ERROR: Status.COMPILE_ERROR,
    CaptureStatus.LAUNCH_ERROR: Status.LAUNCH_ERROR,
    CaptureStatus.NO_LAUNCH: Status.NO_LAUNCH,
    CaptureStatus.NO_RECORDS: Status.NO_RECORDS,
    CaptureStatus.UNSUPPORTED: Status.HOST_UNSUPPORTED,
    CaptureStatus.RESOURCES: Status.RESOURCES,
}


class Rejected(WarplabError):
    """The submission is at fault before any kernel has run; `status` says how and `line` where (0: unknown)."""

    def __init__(self, status: Status, message: str, line: int | None = None, original: str = "") -> None:
        super().__init__(clean(message))
        self.original = clean_source(original)  # what a compiler or Python said, in its own words
        self.status = status
        self.line = line or 0

    def to_wire(self) -> dict[str, Any]:
        """What a stage of the worker says in place of its answer."""
        return {"refused": {"status": self.status, "message": str(self), "line": self.line, "original": self.original}}


def rejected(failure: CaptureFailure) -> Rejected:
    """The rejection for a capture that failed."""
    return Rejected(_STATUSES[failure.status], failure.message, failure.line, failure.original)


def without_details(rejection: Rejected) -> Rejected:
    """The rejection on a hidden case: the host code knows its size, and could say it in a message or a name."""
    return Rejected(rejection.status, f"On a size that is not shown: {rejection.status}.")
