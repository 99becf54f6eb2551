"""Runs one capture process from start to end: feeds it, bounds it, kills it with all that it left, reads its answer."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from warplab.errors import WarplabError
from warplab.interrupts import waits_for
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.protocol import (
    KEPT_OUTPUT,
    MAX_OUTPUT,
    MAX_RESPONSE,
    READY,
    Readable,
    Request,
    encode_request,
    printable,
)
from warplab.sandbox import isolation as ways
from warplab.sandbox.isolation import Isolation

# Of a processor, whatever else the machine does meanwhile. The dearest reference in Numba, lab 10's, takes ten.
PROCESSOR_SECONDS = 40
LEAST_SECONDS = 2  # with less a process would hardly start
_TRIES = 3
_KILLERS = frozenset(getattr(signal, name) for name in ("SIGKILL", "SIGTERM") if hasattr(signal, name))


class CaptureFault(WarplabError):
    """The capture process did not come to run the submission: a fault of this machine, not of the submission."""


def run(
    request: Request, isolation: Isolation, timeout: float, spend: Callable[[float], None] = lambda seconds: None
) -> bytes:
    """The answer of a capture process to `request`, as `protocol.decode_response` takes it.

    A process that something killed is started again, within `timeout` (seconds, for all of it) and the request's
    processor time: a submission that ends itself does so every time, and what else ended it is not its fault. `spend`
    is told the seconds of a processor that each process took, to a tenth of a second (Linux). Raises CaptureFailure,
    CaptureFault.
    """
    deadline, spent = time.monotonic() + timeout, 0.0

    def count(seconds: float) -> None:
        nonlocal spent
        spent += seconds
        spend(seconds)

    for remaining in reversed(range(_TRIES)):
        left = replace(request, seconds=max(request.seconds - int(spent), 1))
        try:
            return _run_once(left, isolation, deadline, timeout, count)
        except Killed as killed:
            over = time.monotonic() > deadline or request.seconds - spent < LEAST_SECONDS
            if not remaining or over:
                raise killed.failure from None
    raise AssertionError("unreachable")


class Killed(Exception):
    """The process died of a signal; `failure` is what to say if it does so again."""

    def __init__(self, failure: CaptureFailure | CaptureFault) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _run_once(
    request: Request, isolation: Isolation, deadline: float, timeout: float, spend: Callable[[float], None]
) -> bytes:
    with tempfile.TemporaryDirectory(prefix=prefix(), ignore_cleanup_errors=True) as scratch:
        start = ways.start(isolation, program(scratch), scratch)
        return _run_child(encode_request(shown(request, isolation)), start, deadline, timeout, spend)


def shown(request: Request, isolation: Isolation) -> Request:
    """The request with what its process may see, where it has to see to that itself."""
    if isolation is not Isolation.LANDLOCK:
        return request
    seen = ways.without(ways.readable(), ways.project_beyond_engine())
    return replace(request, readable=Readable((*seen, *ways.devices()), ways.readable()))


def program(scratch: str, module: str = "warplab.plan.capture.child") -> ways.Program:
    """The capture process as a program: it sees no GPU, compiles on one core, and finds no programs.

    Of the project it sees the engine alone: what else there is can build the schedules and plans that labs ask for.
    """
    single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = dict.fromkeys(single, "1") | {
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": "",  # ctypes looks for a C compiler in it, and makes a file before it tries to start one
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
    }
    return ways.Program(
        module,
        scratch,
        environment=tuple(environment.items()),
        hidden=ways.project_beyond_engine(),
    )


def prefix() -> str:
    """How the names of this judge's captures begin."""
    return f"warplab-capture-{os.getpid()}-"


def survivors() -> list[int]:
    """Process ids of capture processes of this judge that still run, with what they started (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if prefix().encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


class _Drain(threading.Thread):
    """Reads a pipe to its end, keeping the last `keep` bytes; beyond `most` bytes it calls `overflow` and goes on."""

    def __init__(self, pipe: IO[bytes], keep: int, most: int, overflow: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.content = bytearray()
        self.overflowed = False
        self._pipe, self._keep, self._most, self._overflow = pipe, keep, most, overflow
        self.start()

    def run(self) -> None:
        total = 0
        with suppress(OSError, ValueError):  # the pipe was closed
            while chunk := os.read(self._pipe.fileno(), 1 << 20):
                total += len(chunk)
                if total > self._most and not self.overflowed:
                    self.overflowed = True
                    self._overflow()
                self.content += chunk
                del self.content[: -self._keep]


def _run_child(
    request: bytes, start: ways.Start, deadline: float, timeout: float, spend: Callable[[float], None]
) -> bytes:
    process = subprocess.Popen(
        start.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=start.folder,
        env=start.environment,
        close_fds=True,
        start_new_session=os.name == "posix",
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None

    def end() -> None:
        _end(process)

    answer = _Drain(process.stdout, MAX_RESPONSE, MAX_RESPONSE, end)
    prints = _Drain(process.stderr, KEPT_OUTPUT, MAX_OUTPUT, end)
    writer = threading.Thread(target=_send, args=(process.stdin, request), daemon=True)
    writer.start()
    spent = 0.0
    try:
        with waits_for(end):
            while answer.is_alive():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise too_late(timeout)
                answer.join(min(left, 0.1))
                spent = max(spent, _processor_seconds(process.pid))
                if process.poll() is not None:
                    end()  # what it left behind may hold the pipe open
            code = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        code = None
    finally:
        spend(spent)
        end()
        process.wait()
        for thread in (answer, prints, writer):
            thread.join(1.0)
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                stream.close()
    return content_of(code, bytes(answer.content), answer.overflowed, bytes(prints.content), prints.overflowed)


def too_late(timeout: float) -> CaptureFailure:
    """The failure for a process that came to no end in so many seconds."""
    words = f"The host code did not finish within {timeout:g} s: look for an endless loop outside the kernels."
    return CaptureFailure(CaptureStatus.TIMEOUT, words)


def content_of(code: int | None, answer: bytes, too_long: bool, prints: bytes, too_much: bool) -> bytes:
    """What a process answered that ended with this code; `too_long` an answer or `too_much` printed ended it. Raises
    CaptureFailure, Killed."""
    if too_much:
        raise CaptureFailure(
            CaptureStatus.RESOURCES, f"The host code prints more than {MAX_OUTPUT >> 20} MiB: remove the prints."
        )
    if too_long:
        raise CaptureFailure(CaptureStatus.RESOURCES, "The submission makes too much code to keep.")
    ready, content = _began(answer)
    killer = _signal_of(code)
    if killer is not None and killer in _KILLERS:
        raise Killed(_crash(killer, b"") if ready else CaptureFault(f"The capture process was ended by {killer.name}."))
    if not ready:
        words = printable(prints.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1])
        raise CaptureFault(f"The capture process did not start ({words or 'without a word'}).")
    if killer is not None or not content:
        raise _crash(killer, prints)
    return content


def _processor_seconds(pid: int) -> float:
    """What a process and its children took so far; 0 where the kernel does not say. A sandbox's first process does not
    wait for those inside, so that what they took can only be seen while they run."""
    ticks, left = 0, [str(pid)]
    while left:
        process = Path("/proc") / left.pop()
        with suppress(OSError):
            ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
            left += (process / "task" / process.name / "children").read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _began(answer: bytes) -> tuple[bool, bytes]:
    """Whether the process came to its submission, and what it answered after that."""
    return answer.startswith(READY), answer.removeprefix(READY)


def _send(pipe: IO[bytes], request: bytes) -> None:
    with suppress(OSError, ValueError):
        pipe.write(request)
        pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and whatever it started in its group."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _signal_of(code: int | None) -> signal.Signals | None:
    """The signal that a process died of; bubblewrap says it as a shell does, by 128 and its number."""
    number = 0 if code is None else -code if code < 0 else code - 128
    try:
        return signal.Signals(number)
    except ValueError:
        return None


def _crash(killer: signal.Signals | None, output: bytes) -> CaptureFailure:
    """The failure for a child that died without an answer."""
    if killer is not None:
        if killer.name == "SIGXCPU":
            return CaptureFailure(
                CaptureStatus.TIMEOUT,
                f"The host code used up its time, {PROCESSOR_SECONDS} s of a processor at most: look for an endless "
                "loop outside the kernels.",
            )
        return CaptureFailure(CaptureStatus.CRASHED, f"The host code crashed the process ({killer.name}).")
    last = printable(output.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1])
    if "MemoryError" in last:
        return CaptureFailure(CaptureStatus.RESOURCES, "The submission needs too much memory.")
    said = f" Its last words: {last}" if last else ""
    return CaptureFailure(
        CaptureStatus.CRASHED, f"The host code ended the process before its kernels were recorded.{said}"
    )
