"""Turns a submission into plans: runs its host code in a bounded child process without a GPU.

The process is not a security boundary by itself (the judge's containers are); it bounds time, memory and output, and
keeps a submission's crash, endless loop or patched module away from the judge. Nothing that it answers is trusted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import warplab
from warplab.plan.failure import CaptureFailure, CaptureStatus
from warplab.plan.limits import limits_of
from warplab.plan.model import HostCall, Plan
from warplab.plan.protocol import MAX_RESPONSE, Request, decode_response, encode_request, printable

MAX_SOURCE = 1 << 20  # bytes
MAX_OUTPUT = 16 << 20  # bytes of the submission's own prints
_KEPT_OUTPUT = 4000

# What the compilers need to be found; nothing else of the judge's environment is the submission's business.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")

# Warplab may run from a checkout, which -I does not look at; its folder must not stay importable, as it holds more.
_BOOTSTRAP = """
import sys, site
root, *packages = sys.argv[1:]
sys.path[:] = [folder for folder in sys.path if folder not in packages]
for folder in packages:  # in the judge's own order: a folder on its PYTHONPATH may shadow what is installed
    site.addsitedir(folder)
sys.path.insert(0, root)
import warplab.plan.child
sys.path.remove(root)
sys.argv = ["submission.py"]
warplab.plan.child.main()
"""


def capture(
    source: Path, calls: Sequence[HostCall], architectures: Sequence[str] = ("sm_90a",), *, timeout: float = 60.0
) -> list[Plan]:
    """Capture a submission: one plan for each call, with PTX for each architecture.

    The file is imported once in a child process and its host function called once for each of `calls`, with arrays
    that have a shape, a dtype and strides but no contents. No GPU is needed or visible. `timeout` is in seconds, for
    all of it. Raises CaptureFailure with what went wrong, and PlanError for an unknown architecture.
    """
    for architecture in architectures:
        limits_of(architecture)
    text = _read(Path(source))
    request = Request(text, Path(source).name, tuple(calls), tuple(architectures), int(timeout) + 5)
    with tempfile.TemporaryDirectory(prefix="warplab-capture-", ignore_cleanup_errors=True) as folder:
        answer = _run_child(encode_request(request), folder, timeout)
    return decode_response(answer, request)


def _read(path: Path) -> str:
    name = path.name
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_SOURCE + 1)
    except FileNotFoundError:
        raise CaptureFailure(CaptureStatus.NOT_FOUND, f"There is no file {path}.") from None
    except IsADirectoryError:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{path} is a folder, not a Python file.") from None
    except OSError as error:
        raise CaptureFailure(CaptureStatus.NOT_FOUND, f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > MAX_SOURCE:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{name} is larger than {MAX_SOURCE >> 20} MiB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{name} is not a Python file: it is not UTF-8 text.") from None
    if "\0" in text:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{name} is not a Python file: it contains null bytes.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _command() -> list[str]:
    root = str(Path(warplab.__path__[0]).resolve().parent)
    packages = [p for p in sys.path if p and p != root and any(Path(p).glob("*.dist-info"))]
    return [sys.executable, "-I", "-B", "-c", _BOOTSTRAP, root, *packages]


def _environment(folder: str) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return (
        environment
        | dict.fromkeys(single, "1")
        | {
            "CUDA_VISIBLE_DEVICES": "",
            "HOME": folder,
            "TMPDIR": folder,
            "LANG": "C.UTF-8",
            "PATH": os.defpath,
            "NUMBA_CACHE_DIR": folder,
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
            "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
        }
    )


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


def _run_child(request: bytes, folder: str, timeout: float) -> bytes:
    process = subprocess.Popen(
        _command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=_environment(folder),
        close_fds=True,
        start_new_session=os.name == "posix",
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None

    def end() -> None:
        _end(process)

    answer = _Drain(process.stdout, MAX_RESPONSE, MAX_RESPONSE, end)
    prints = _Drain(process.stderr, _KEPT_OUTPUT, MAX_OUTPUT, end)
    writer = threading.Thread(target=_send, args=(process.stdin, request), daemon=True)
    writer.start()
    deadline = time.monotonic() + timeout
    try:
        while answer.is_alive():
            left = deadline - time.monotonic()
            if left <= 0:
                raise CaptureFailure(
                    CaptureStatus.TIMEOUT,
                    f"The host code did not finish within {timeout:g} s: look for an endless loop outside the kernels.",
                )
            answer.join(min(left, 0.2))
            if process.poll() is not None:
                end()  # what it left behind may hold the pipe open
        code = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end()
        process.wait()
        for thread in (answer, prints, writer):
            thread.join(1.0)
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                stream.close()
    if prints.overflowed:
        raise CaptureFailure(
            CaptureStatus.RESOURCES, f"The host code prints more than {MAX_OUTPUT >> 20} MiB: remove the prints."
        )
    if answer.overflowed:
        raise CaptureFailure(CaptureStatus.RESOURCES, "The submission makes too much code to keep.")
    if not answer.content:
        raise _crash(code, bytes(prints.content))
    return bytes(answer.content)


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


def _crash(code: int | None, output: bytes) -> CaptureFailure:
    """The failure for a child that died without an answer."""
    if code is not None and code < 0:
        number = -code
        if hasattr(signal, "SIGXCPU") and number == signal.SIGXCPU:
            return CaptureFailure(CaptureStatus.TIMEOUT, "The host code used up its processor time.")
        try:
            how = signal.Signals(number).name
        except ValueError:
            how = f"signal {number}"
        return CaptureFailure(CaptureStatus.CRASHED, f"The host code crashed the process ({how}).")
    last = printable(output.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1])
    if "MemoryError" in last:
        return CaptureFailure(CaptureStatus.RESOURCES, "The submission needs too much memory.")
    said = f" Its last words: {last}" if last else ""
    return CaptureFailure(
        CaptureStatus.CRASHED, f"The host code ended the process before its kernels were recorded.{said}"
    )
