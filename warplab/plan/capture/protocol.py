"""The two messages between capture and its child process: what to capture, and what came of it.

What is captured are plans, of what host functions launch, or records, of what they return. Both messages are JSON. What
comes back is not trusted: the child has run a stranger's code, which could have written it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from warplab.errors import PlanError
from warplab.plan import archive
from warplab.plan.capture.arrays import contiguous_strides
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.records import RecordForm
from warplab.plan.fields import Fields
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role, ScalarArgument

SOURCE_NAME = "submission.py"  # in plans and in PTX, whatever a file is called: compilers choke on many a name
READY = b"ready\n"  # what the child says first, before any line of the submission runs
MAX_RESPONSE = 128 << 20  # bytes
MAX_OUTPUT = 16 << 20  # bytes of the submission's own prints
KEPT_OUTPUT = 4000  # of them, the last
_MAX_MESSAGE = 2000  # characters
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


@dataclass(frozen=True)
class Readable:
    """Files and folders that a process may read, and folders of which it may see the names alone."""

    paths: tuple[str, ...]
    listed: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """What the child is asked: the submission's text, the calls to make, the architectures to compile for.

    `name` is what messages call the file, `SOURCE_NAME` what code does.
    `seconds` is the processor time that it may use. `readable`, if it is given, is all that it may see of the file
    system beside its own folder, and it has to see to that itself. `records`: the functions launch nothing, and what
    they return is asked for, records of that form. `contents` has for each call what a rank's program has and was
    given, or the table that a planner of checkpoints is called with, or the judge that a kernel attacks.
    """

    source: str
    name: str
    calls: tuple[HostCall, ...]
    architectures: tuple[str, ...]
    seconds: int
    readable: Readable | None = None
    records: RecordForm | None = None
    contents: tuple[str, ...] = ()


def encode_request(request: Request) -> bytes:
    """The request as the child reads it from its standard input."""
    calls = []
    for call in request.calls:
        arguments: list[dict[str, Any]] = []
        for a in call.arguments:
            if isinstance(a, ArrayArgument):
                arguments.append({"name": a.name, "dtype": a.dtype, "shape": a.shape, "role": a.role.value})
            else:
                arguments.append({"name": a.name, "value": a.value})
        calls.append({"function": call.function, "arguments": arguments})
    document = {
        "source": request.source,
        "name": request.name,
        "calls": calls,
        "architectures": request.architectures,
        "seconds": request.seconds,
        "readable": None if request.readable is None else asdict(request.readable),
        "records": request.records,
        "contents": request.contents,
    }
    return json.dumps(document).encode()


def decode_request(data: bytes) -> Request:
    """The request; the child trusts the parent."""
    document = json.loads(data)
    calls = []
    for call in document["calls"]:
        arguments: list[ArrayArgument | ScalarArgument] = []
        for a in call["arguments"]:
            if "role" in a:
                arguments.append(ArrayArgument(a["name"], a["dtype"], tuple(a["shape"]), Role(a["role"])))
            else:
                arguments.append(ScalarArgument(a["name"], a["value"]))
        calls.append(HostCall(call["function"], tuple(arguments)))
    architectures = tuple(document["architectures"])
    seen = document["readable"]
    readable = None if seen is None else Readable(tuple(seen["paths"]), tuple(seen["listed"]))
    return Request(
        document["source"],
        document["name"],
        tuple(calls),
        architectures,
        document["seconds"],
        readable,
        RecordForm(document["records"]) if document["records"] else None,
        tuple(document["contents"]),
    )


def encode_plans(plans: Sequence[Plan]) -> bytes:
    """A success: one line of JSON with the size of each plan, then the plans."""
    blobs = [archive.dumps(plan) for plan in plans]
    return json.dumps({"plans": [len(b) for b in blobs]}).encode() + b"\n" + b"".join(blobs)


def encode_records(records: Sequence[bytes]) -> bytes:
    """A success where records were asked for: one line of JSON with the size of each call's, then these, JSON too."""
    return json.dumps({"records": [len(r) for r in records]}).encode() + b"\n" + b"".join(records)


def encode_failure(failure: CaptureFailure) -> bytes:
    """A failure: one line of JSON."""
    document = {
        "status": failure.status.value,
        "message": failure.message,
        "line": failure.line,
        "original": failure.original,
    }
    return json.dumps(document).encode() + b"\n"


def decode_response(data: bytes, request: Request) -> list[Plan]:
    """The plans in a response, checked against what was asked. Raises CaptureFailure: the child's own, or CRASHED."""
    try:
        plans = []
        for blob, call in zip(_blobs(data, "plans", len(request.calls)), request.calls, strict=True):
            plan = archive.loads(blob)
            _check_answer(plan, call, request)
            plans.append(plan)
    except CaptureFailure:
        raise
    except (PlanError, ValueError, RecursionError) as error:
        raise unusable(error) from None
    return plans


def decode_records(data: bytes, calls: int) -> list[bytes]:
    """What each of so many calls returned, as JSON that nobody has looked at. Raises CaptureFailure: the child's own,
    or CRASHED."""
    try:
        return _blobs(data, "records", calls)
    except (PlanError, ValueError, RecursionError) as error:
        raise unusable(error) from None


def unusable(error: Exception) -> CaptureFailure:
    """The failure of a child whose answer cannot be read."""
    return CaptureFailure(CaptureStatus.CRASHED, f"The capture process gave no usable answer: {printable(str(error))}")


def _blobs(data: bytes, what: str, calls: int) -> list[bytes]:
    """The parts of an answer, one a call. Raises CaptureFailure, the child's own, PlanError and ValueError."""
    head, _, body = data.partition(b"\n")
    fields = Fields(json.loads(head.decode()), "the answer")
    if "status" in fields.names():
        raise _failure(fields)
    sizes = fields.integers(what)
    fields.done()
    if len(sizes) != calls or min(sizes, default=0) < 0 or sum(sizes) != len(body):
        raise PlanError(f"it has not {what} for each call.")
    parts, start = [], 0
    for size in sizes:
        parts.append(body[start : start + size])
        start += size
    return parts


def _failure(fields: Fields) -> CaptureFailure:
    line = fields.optional_integer("line")
    message, original = printable(fields.text("message")), _printable_lines(fields.text("original"))
    status = fields.member("status", CaptureStatus)
    return CaptureFailure(status, message, line if line and line > 0 else None, original)


def printable(text: str) -> str:
    """One line of bounded length without control characters: safe to show in any terminal."""
    text = _CONTROL.sub(" ", text.encode("utf-8", "replace").decode()).strip()
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "..."


def _printable_lines(text: str) -> str:
    """Lines of bounded length altogether, each without control characters."""
    return "\n".join(printable(line) for line in text[:_MAX_MESSAGE].splitlines())


def _check_answer(plan: Plan, call: HostCall, request: Request) -> None:
    """The plan must be of this call: the parent, not the child, says what the arguments are."""
    if plan.function != call.function or plan.source != request.source or plan.source_name != SOURCE_NAME:
        raise PlanError("a plan is of another submission.")
    wanted = {a.name: (a.role, a.dtype, tuple(a.shape)) for a in call.arguments if isinstance(a, ArrayArgument)}
    arguments = [b for b in plan.buffers.values() if b.role is not Role.SCRATCH]
    given = {b.name: (b.role, b.dtype, b.shape) for b in arguments}
    if wanted != given:
        raise PlanError("a plan has other arguments than the call.")
    if any(
        b.strides != contiguous_strides(b.shape, b.itemsize)
        for b in plan.buffers.values()
        if b.role is not Role.SCRATCH
    ):
        raise PlanError("a plan has an argument that is not contiguous.")
    if any(b.zeroed or b.content for b in arguments):
        raise PlanError("a plan fills an argument.")
    if any(set(k.ptx) != set(request.architectures) or k.cubins for k in plan.kernels.values()):
        raise PlanError("a plan has code for other architectures.")
    if not plan.launches:
        raise PlanError("a plan launches nothing.")
