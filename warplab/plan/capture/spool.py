"""Captures made in another container: requests and answers are files in a folder that both see, and nothing else is.

    SPOOL/requests/ID   what to capture, by the judge: one line of JSON, then the request of `protocol`
    SPOOL/answers/ID    what came of it, by `service`: one line of JSON, then the capture child's answer
    SPOOL/alive         touched by the service while it runs

Files appear whole, by renaming; one whose name begins with a dot is being written. The other side of the judge has run
strangers' code: of what it writes only the form is read here, bounded, as of a capture child's answer.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warplab.errors import PlanError
from warplab.files import write_whole
from warplab.interrupts import interrupted, waits_for
from warplab.plan.capture.child_process import CaptureFault
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.protocol import MAX_RESPONSE, Request, encode_request, printable
from warplab.plan.fields import Fields
from warplab.sandbox.isolation import Isolation

VARIABLE = "WARPLAB_CAPTURE_SPOOL"  # names the folder, in the judge's environment
ALIVE_SECONDS = 30.0  # without a touch of the service; it touches every second
_QUEUE_SECONDS = 600.0  # that a request may wait for others before its own time begins
_HEAD = 16 << 10  # bytes of an answer's first line


@dataclass(frozen=True)
class Order:
    """What a request file says beside the request: how long the capture may take, and the isolation that it needs."""

    seconds: float
    isolation: Isolation


def folder() -> Path | None:
    """The spool that this judge is to use, if it is to use one."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def answer_from(
    spool: Path, request: Request, isolation: Isolation, timeout: float, spend: Callable[[float], None]
) -> bytes:
    """The answer to `request` from the service that works on `spool`, as `child_process.run` would give it.

    `spend` is told what the service says that it took, no more than the request allows. Raises CaptureFailure as that
    does, and CaptureFault if no service works there.
    """
    name = secrets.token_hex(16)
    asked, answered = spool / "requests" / name, spool / "answers" / name
    order = {"seconds": timeout, "isolation": isolation.value}
    try:
        asked.parent.stat()  # not made here: in a spool that nobody has made nobody would look
        write_whole(asked, json.dumps(order).encode() + b"\n" + encode_request(request))
    except OSError as error:
        raise CaptureFault(f"No capture can be asked for in {spool}: {error.strerror}.") from None
    try:
        with waits_for(lambda: None):
            _wait(answered, spool, timeout)
        return _opened(_content(answered), lambda seconds: spend(min(max(seconds, 0.0), float(request.seconds))))
    finally:
        for path in (asked, answered):
            with suppress(OSError):
                path.unlink()


def read_order(content: bytes) -> tuple[Order, bytes]:
    """The order of a request file and the request behind it; the service trusts the judge."""
    head, _, body = content.partition(b"\n")
    order = json.loads(head)
    return Order(float(order["seconds"]), Isolation(order["isolation"])), body


def answer_line(failure: CaptureFailure | CaptureFault | None, spent: float = 0.0) -> bytes:
    """The first line of an answer: that one follows, or why none does; `spent` are seconds of a processor."""
    if failure is None:
        document: dict[str, object] = {"outcome": "answer"}
    elif isinstance(failure, CaptureFailure):
        document = {"outcome": "failure", "status": failure.status.value, "message": failure.message}
        document["line"] = failure.line
    else:
        document = {"outcome": "fault", "message": str(failure)}
    return json.dumps({**document, "spent": spent}).encode() + b"\n"


def _wait(answered: Path, spool: Path, timeout: float) -> None:
    deadline = time.monotonic() + _QUEUE_SECONDS + timeout
    started = time.time()
    while not (os.path.lexists(answered) or interrupted()):
        try:
            seen = (spool / "alive").stat().st_mtime
        except OSError:
            seen = 0.0
        if time.time() - max(seen, started) > ALIVE_SECONDS:
            raise CaptureFault(f"No capture service works on {spool}: start the container `capture`.")
        if time.monotonic() > deadline:
            raise CaptureFault(f"The capture service did not answer within {_QUEUE_SECONDS + timeout:g} s.")
        time.sleep(0.05)


def _content(path: Path) -> bytes:
    """A stranger's file: no link, no pipe, no more than an answer may have."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise CaptureFault(f"The answer of the capture service cannot be read: {error.strerror}.") from None
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CaptureFault("The answer of the capture service is no file.")
        content = opened.read(MAX_RESPONSE + _HEAD + 1)
    if len(content) > MAX_RESPONSE + _HEAD:
        raise CaptureFailure(CaptureStatus.RESOURCES, "The submission makes too much code to keep.")
    return content


def _opened(content: bytes, spend: Callable[[float], None]) -> bytes:
    head, _, body = content.partition(b"\n")
    try:
        fields = Fields(json.loads(head[:_HEAD].decode()), "the answer of the capture service")
        outcome = fields.text("outcome")
        spend(float(fields.number("spent")))
        if outcome == "answer":
            fields.done()
            return body
        message = printable(fields.text("message"))
        if outcome == "fault":
            raise CaptureFault(message)
        line = fields.optional_integer("line")
        raise CaptureFailure(fields.member("status", CaptureStatus), message, line if line and line > 0 else None)
    except (PlanError, ValueError, RecursionError):
        raise CaptureFault("The capture service gave no usable answer.") from None
