"""A trusted child process that is asked to run functions by name, and is replaced when it dies or hangs.

Device code can hang, crash the context or take the whole process down. Everything that executes a student's kernels
therefore runs behind a Worker: the caller gets a WorkerError, and the next call starts afresh.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from enum import StrEnum
from typing import Any, BinaryIO

from warplab.errors import WarplabError
from warplab.gpu import wire

_STARTUP_SECONDS = 60.0


class WorkerFault(StrEnum):
    """How a call failed."""

    TIMEOUT = "timeout"  # no answer in time; the process was killed
    CRASHED = "crashed"  # the process died
    DEVICE_FAULT = "device_fault"  # the GPU reported a fault that poisons its context; the process was replaced
    ERROR = "error"  # the function raised; the process lives on


class WorkerError(WarplabError):
    """A call that did not return; `status` says how it failed and `kind` names the exception the function raised."""

    def __init__(self, status: WorkerFault, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class DeviceFault(WarplabError):
    """Raised inside a worker when the GPU reports a fault after which its context cannot be used any more."""


class Worker:
    """Runs `module:function` calls in one child process, started at the first call. Use as a context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """The result of `target` ("package.module:function") called with `payload` as keyword arguments.

        Payload and result are built of dicts, lists, JSON scalars, NumPy arrays and bytes. `timeout` in seconds.
        Raises WorkerError.
        """
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(wire.encode({"target": target, "payload": payload}))
            process.stdin.flush()
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            self.close()
            raise WorkerError(WorkerFault.TIMEOUT, f"no answer within {timeout:g} s; the worker was replaced") from None
        except BrokenPipeError:
            answer = None
        if answer is None:
            code = process.wait()
            self.close()
            raise WorkerError(WorkerFault.CRASHED, f"the worker died ({_exit_words(code)})")
        if "result" in answer:
            return answer["result"]
        fault = WorkerFault(answer["status"])
        if fault is WorkerFault.DEVICE_FAULT:
            self.close()
        raise WorkerError(fault, answer["message"], answer["kind"])

    def close(self) -> None:
        """End the process, at once; harmless when there is none."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._answers = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "warplab.gpu.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        threading.Thread(target=_drain, args=(self._process.stdout, self._answers), daemon=True).start()
        try:
            ready = self._answers.get(timeout=_STARTUP_SECONDS)
        except queue.Empty:
            ready = None
        if ready is None:
            self.close()
            raise WorkerError(WorkerFault.CRASHED, "the worker process did not start; run `autograder doctor`")
        return self._process


def _drain(stream: BinaryIO, answers: queue.Queue[Any]) -> None:
    """Put every answer of the child in the queue, and None at its end."""
    with contextlib.suppress(EOFError, OSError, ValueError):
        while True:
            answers.put(wire.read(stream))
    answers.put(None)


def _exit_words(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _end_with(parent: int) -> None:
    """End this process soon after its parent has: a kernel that never ends would otherwise keep the GPU for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def serve() -> None:
    """The child's loop: read a call, answer it, until the parent closes the pipe."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # What called functions print must not mix with the answers, and what kernels print is a stranger's text.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers.write(wire.encode("ready"))
    answers.flush()
    while True:
        try:
            request = wire.read(requests)
        except EOFError:
            return
        module, _, function = request["target"].partition(":")
        try:
            answer = {"result": getattr(importlib.import_module(module), function)(**request["payload"])}
            frame = wire.encode(answer)
        except Exception as error:
            status = WorkerFault.DEVICE_FAULT if isinstance(error, DeviceFault) else WorkerFault.ERROR
            frame = wire.encode({"status": status, "message": str(error), "kind": type(error).__name__})
        answers.write(frame)
        answers.flush()


if __name__ == "__main__":
    from warplab.gpu.worker import serve as _serve  # so that DeviceFault is one class, whoever imports it

    _serve()
