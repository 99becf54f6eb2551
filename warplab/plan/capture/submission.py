"""Turns a submission into plans: runs its host code in a bounded child process without a GPU.

`isolation` says how far that process is kept from the machine, `confinement` what it may use, `child_process` starts
and ends it. Whatever the isolation, nothing that it answers is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from warplab.plan.capture import child_process, escape_probe, spool
from warplab.plan.capture.protocol import Request, decode_response
from warplab.plan.capture.records import RecordForm
from warplab.plan.capture.several_process import CaptureProcess
from warplab.plan.capture.source_file import read_source
from warplab.plan.limits import limits_of
from warplab.plan.model import HostCall, Plan
from warplab.sandbox.isolation import Isolation

# For who sleeps; who computes without end has child_process.PROCESSOR_SECONDS. The dearest reference takes 10 s of a
# processor, and was refused after 60 s on a machine with eight processes for each of its processors.
CAPTURE_SECONDS = 120.0


def capture(
    source: Path,
    calls: Sequence[HostCall],
    architectures: Sequence[str] = ("sm_90a",),
    *,
    timeout: float = CAPTURE_SECONDS,
    isolation: Isolation | None = None,
    process: CaptureProcess | None = None,
) -> list[Plan]:
    """Capture a submission: one plan for each call, with PTX for each architecture.

    The file is imported once in a child process and its host function called once for each of `calls`, with arrays
    that have a shape, a dtype and strides but no contents. No GPU is needed or visible. `timeout` is in seconds, for
    all of it; `isolation` is the strongest that this machine has, unless one is named. With `process` the child is
    forked from it. Raises CaptureFailure with what went wrong, CaptureFault if the process could not be started, and
    PlanError for an unknown architecture.
    """
    request = _request(read_source(Path(source)), Path(source).name, calls, architectures, timeout)
    run = (process or child_process).run
    return decode_response(run(request, isolation or escape_probe.strongest(), timeout), request)


def answer_of(
    text: str,
    name: str,
    calls: Sequence[HostCall],
    architectures: Sequence[str] = ("sm_90a",),
    *,
    timeout: float = CAPTURE_SECONDS,
    isolation: Isolation | None = None,
    records: RecordForm | None = None,
    contents: Sequence[str] = (),
    seconds: int = child_process.PROCESSOR_SECONDS,
    spend: Callable[[float], None] = lambda seconds: None,
    process: CaptureProcess | None = None,
) -> bytes:
    """The same for a submission's text, up to what the child process answers, which nobody has looked at yet.

    `protocol.decode_response` reads it; that is done in a sandbox where the submission is another person's. With
    `records` the answer is what the host functions return (`records.py`), and `protocol.decode_records` reads it;
    `contents` are those of `Request`. It may use `seconds` of a processor, and `spend` is told how many it did. Where
    WARPLAB_CAPTURE_SPOOL names a folder, the child process is one of the capture service that works there; else it is
    of `process`, where that is given.
    """
    request = _request(text, name, calls, architectures, timeout)
    request = replace(request, records=records, contents=tuple(contents), seconds=min(request.seconds, seconds))
    wanted = isolation or escape_probe.strongest()
    elsewhere = spool.folder()
    if elsewhere is not None:
        return spool.answer_from(elsewhere, request, wanted, timeout, spend)
    return (process or child_process).run(request, wanted, timeout, spend)


def _request(text: str, name: str, calls: Sequence[HostCall], architectures: Sequence[str], timeout: float) -> Request:
    for architecture in architectures:
        limits_of(architecture)
    seconds = min(int(timeout) + 5, child_process.PROCESSOR_SECONDS)
    return Request(text, name, tuple(calls), tuple(architectures), seconds)
