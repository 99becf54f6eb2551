"""The judge's side of `several`: one capture process for the requests of one submission, one after the other, or of
one person's.

It saves time and changes nothing: whatever goes wrong with it, a capture process of its own carries out the request.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, Self, cast

from warplab.interrupts import waits_for
from warplab.plan.capture import child_process, several
from warplab.plan.capture.protocol import Request, encode_request
from warplab.sandbox import isolation as ways
from warplab.sandbox.isolation import Isolation

_MODULE = "warplab.plan.capture.several"


class CaptureProcess:
    """A capture process, started when it is first asked. Use as a context manager, for one submission, or for
    those of one person."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._answers: queue.Queue[bytes | None] = queue.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        request: Request,
        isolation: Isolation,
        timeout: float,
        spend: Callable[[float], None] = lambda seconds: None,
    ) -> bytes:
        """As `child_process.run`. Raises CaptureFailure, CaptureFault."""
        start = time.monotonic()
        found = None
        if isolation is not Isolation.REDUCED:  # there nothing keeps a child from its parent
            found = self._asked(encode_request(child_process.shown(request, isolation)), isolation, timeout)
        if found is not None:
            about, answer, prints = found
            spend(about["seconds"])
            request = replace(request, seconds=max(request.seconds - int(about["seconds"]), 1))
            with suppress(child_process.Killed, child_process.CaptureFault):
                return child_process.content_of(
                    about["code"], answer, about["answer_overflowed"], prints, about["prints_overflowed"]
                )
        self.close()
        return child_process.run(request, isolation, timeout - (time.monotonic() - start), spend)

    def close(self) -> None:
        """End the process with all that it has started; harmless where there is none."""
        process, self._process = self._process, None
        scratch, self._scratch = self._scratch, None
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
        if scratch is not None:
            scratch.cleanup()

    def _asked(
        self, request: bytes, isolation: Isolation, timeout: float
    ) -> tuple[dict[str, Any], bytes, bytes] | None:
        """What became of a child: how it ended, its answer and its last prints; None if that cannot be known. Raises
        CaptureFailure after `timeout` seconds."""
        process = self._running(isolation)
        try:
            with waits_for(self.close):
                several.write_frame(cast(BinaryIO, process.stdin), request)
                answer = self._answers.get(timeout=timeout)
        except (OSError, ValueError):
            return None
        except queue.Empty:
            self.close()
            raise child_process.too_late(timeout) from None
        if answer is None:
            return None
        head, _, content = answer.partition(b"\n")
        about = json.loads(head)
        return about, content[: about["answer"]], content[about["answer"] :]

    def _running(self, isolation: Isolation) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._scratch = tempfile.TemporaryDirectory(prefix=child_process.prefix(), ignore_cleanup_errors=True)
        start = ways.start(isolation, child_process.program(self._scratch.name, _MODULE), self._scratch.name)
        self._answers = queue.Queue()
        self._process = subprocess.Popen(
            start.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=start.folder,
            env=start.environment, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process


class CaptureProcesses:
    """Capture processes for one person's submissions: one for those that name CuPy, which takes a second to import, and
    one for the others. Use as a context manager, or call `close`."""

    def __init__(self) -> None:
        self._of: dict[bool, CaptureProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def for_text(self, text: str) -> CaptureProcess:
        """The process for a submission with this text."""
        return self._of.setdefault("cupy" in text, CaptureProcess())

    def close(self) -> None:
        """End them."""
        for process in self._of.values():
            process.close()
        self._of.clear()


def _read(stream: Any, answers: queue.Queue[bytes | None]) -> None:
    with suppress(OSError, ValueError):
        while (frame := several.read_frame(stream)) is not None:
            answers.put(frame)
    answers.put(None)
