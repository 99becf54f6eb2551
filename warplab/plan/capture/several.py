"""A capture process for several requests of one submission, one after the other. What a submission imports takes longer
than most captures, so it is imported once: each request is carried out by a child that is forked from this process.

This process never runs a line of the submission. A child gives up what a submission must not have, before it runs one:
it can then start nothing that outlives it, write no file, signal nobody, and has no descriptor but its own pipes. So a
later request is no secret to lose: it is read when the child of the one before has ended.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import struct
import sys
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn

from warplab.plan.capture import child
from warplab.plan.capture.protocol import KEPT_OUTPUT, MAX_OUTPUT, MAX_RESPONSE, decode_request

_LENGTH = struct.Struct(">Q")
_DESCRIPTORS = 256
_CHUNK = 1 << 20


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write bytes with their length before them."""
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next bytes that were written so; None at the end of the stream, or for more than an answer can have."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size or (size := _LENGTH.unpack(head)[0]) > 2 * MAX_RESPONSE:
        return None
    content = stream.read(size)
    return content if len(content) == size else None


def main() -> None:
    """Read requests from standard input and write what became of each to standard output, until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    ready = False
    while (request := read_frame(sys.stdin.buffer)) is not None:
        if not ready:
            _import_what_is_used(decode_request(request).source)
            gc.collect()
            gc.freeze()
            ready = True
        write_frame(answers, _carried_out(request))


def _import_what_is_used(source: str) -> None:
    """Import what a submission will, if its text says so, and have Numba compile: its first kernel takes longest."""
    with suppress(Exception):  # the child that needs it finds out what is wrong
        if "cupy" in source:
            from warplab.plan.capture import nvrtc
            from warplab.plan.capture.of_cupy import capture as cupy_capture

            del nvrtc, cupy_capture
        if "numba" in source:
            from numba import cuda, float32

            from warplab.plan.capture.of_numba import capture as numba_capture

            del numba_capture

            def twice(x: Any, y: Any) -> None:
                i: Any = cuda.grid(1)  # type: ignore[call-arg]
                if i < x.size:
                    y[i] = 2 * x[i]

            cuda.compile_ptx(twice, (float32[::1], float32[::1]), cc=(9, 0))


class _Kept:
    """What a pipe of a child's said: the last `keep` bytes of it. Beyond `most` bytes the child is ended."""

    def __init__(self, child: int, keep: int, most: int) -> None:
        self.content, self.overflowed = bytearray(), False
        self._child, self._keep, self._most, self._total = child, keep, most, 0

    def add(self, chunk: bytes) -> None:
        """Take what was read."""
        self._total += len(chunk)
        if self._total > self._most and not self.overflowed:
            self.overflowed = True
            os.kill(self._child, signal.SIGKILL)  # nobody has waited for it yet: its number is its own
        self.content += chunk
        del self.content[: -self._keep]


def _carried_out(request: bytes) -> bytes:
    """A line of JSON with what became of a child, then its answer, then the end of what it printed."""
    from_answer, to_answer = os.pipe()
    from_prints, to_prints = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(request, to_answer, to_prints)
    os.close(to_answer)
    os.close(to_prints)
    answer, prints = _Kept(pid, MAX_RESPONSE, MAX_RESPONSE), _Kept(pid, KEPT_OUTPUT, MAX_OUTPUT)
    open_pipes = {from_answer: answer, from_prints: prints}
    while open_pipes:
        for pipe in select.select(list(open_pipes), [], [])[0]:
            if chunk := os.read(pipe, _CHUNK):
                open_pipes[pipe].add(chunk)
            else:
                os.close(pipe)
                del open_pipes[pipe]
    _, status, usage = os.wait4(pid, 0)
    about = {
        "code": os.waitstatus_to_exitcode(status),
        "seconds": usage.ru_utime + usage.ru_stime,
        "answer": len(answer.content),
        "answer_overflowed": answer.overflowed,
        "prints_overflowed": prints.overflowed,
    }
    return json.dumps(about).encode() + b"\n" + answer.content + prints.content


def _be_child(request: bytes, answer: int, prints: int) -> NoReturn:
    """Carry out a request, with nothing of the process that this one was forked from but its modules."""
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, number in ((nothing, 0), (answer, 1), (prints, 2)):
            os.dup2(descriptor, number)
        os.closerange(3, _DESCRIPTORS)
        child.carry_out(decode_request(request))
    finally:
        os._exit(1)
