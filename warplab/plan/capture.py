"""Turns a submission into plans: runs its host code in a bounded child process without a GPU.

The process is not a security boundary by itself (the judge's containers are); it bounds time, memory and output, and
keeps a submission's crash, endless loop or patched module away from the judge. Nothing that it answers is trusted.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import warplab
from warplab.plan.failure import CaptureFailure, CaptureStatus
from warplab.plan.limits import limits_of
from warplab.plan.model import HostCall, Plan
from warplab.plan.protocol import MAX_RESPONSE, Request, decode_response, encode_request, printable

MAX_SOURCE = 1 << 20  # bytes
MAX_OUTPUT = 16 << 20  # bytes of the submission's own prints
MEMORY = 8 << 30  # bytes of address space; the compilers map about 2 GiB
_KEPT_OUTPUT = 4000

# What the compilers need to be found; nothing else of the judge's environment is the submission's business.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")

# Warplab may run from a checkout, which -I does not look at; its folder must not stay importable, as it holds more.
_BOOTSTRAP = """
import sys, site
root, *packages = sys.argv[1:]
for folder in packages:
    if folder not in sys.path:
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
    request = Request(text, Path(source).name, tuple(calls), tuple(architectures))
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
    packages = [p for p in sys.path if p.rstrip("/\\").endswith(("site-packages", "dist-packages"))]
    return [sys.executable, "-I", "-B", "-c", _BOOTSTRAP, root, *packages]


def _environment(folder: str) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return environment | dict.fromkeys(single, "1") | {
        "CUDA_VISIBLE_DEVICES": "",
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "PATH": os.defpath,
        "NUMBA_CACHE_DIR": folder,
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
    }


def _limit_resources(seconds: int) -> None:
    """Runs in the child before Python starts. The same user's other processes count for RLIMIT_NPROC, so the limit is
    not a number of processes but the end of making them."""
    import resource

    wanted = (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 64 << 20),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
        (getattr(resource, "RLIMIT_NPROC", None), 0),
    )
    for which, value in wanted:
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        with suppress(ValueError, OSError):
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (most, most))


def _run_child(request: bytes, folder: str, timeout: float) -> bytes:
    posix = os.name == "posix"
    process = subprocess.Popen(
        _command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=_environment(folder),
        close_fds=True,
        start_new_session=posix,
        preexec_fn=(lambda: _limit_resources(int(timeout) + 5)) if posix else None,
    )
    try:
        answer, output = _converse(process, request, time.monotonic() + timeout, timeout)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    finally:
        _kill(process)
    if not answer:
        raise _crash(process.returncode, output)
    return answer


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started in its group."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()


def _converse(
    process: subprocess.Popen[bytes], request: bytes, deadline: float, timeout: float
) -> tuple[bytes, bytes]:
    """Send the request, collect the answer and the end of the prints, until the answer is complete or time is up."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    answer, output, printed = bytearray(), bytearray(), 0
    waiting = memoryview(request)
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while process.stdout in {key.fileobj for key in selector.get_map().values()}:
            left = deadline - time.monotonic()
            if left <= 0:
                raise CaptureFailure(
                    CaptureStatus.TIMEOUT,
                    f"The host code did not finish within {timeout:g} s: look for an endless loop outside the kernels.",
                )
            for key, _ in selector.select(left):
                if key.fileobj is process.stdin:
                    with suppress(BlockingIOError):
                        try:
                            waiting = waiting[os.write(key.fd, waiting[:65536]) :]
                        except BrokenPipeError:
                            waiting = waiting[:0]
                    if not waiting:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, 1 << 20)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    answer += chunk
                    if len(answer) > MAX_RESPONSE:
                        raise CaptureFailure(CaptureStatus.RESOURCES, "The submission makes too much code to keep.")
                else:
                    printed += len(chunk)
                    output += chunk
                    del output[:-_KEPT_OUTPUT]
                    if printed > MAX_OUTPUT:
                        raise CaptureFailure(
                            CaptureStatus.RESOURCES,
                            f"The host code prints more than {MAX_OUTPUT >> 20} MiB: remove the prints.",
                        )
    return bytes(answer), bytes(output)


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
