"""Capture processes that are forked from one which has imported Numba: for tests of what comes out of a capture.

To import Numba and to compile its first kernel takes most of a small capture. How a capture process is started, kept
apart and ended is not what these tests ask. What does has the mark `cold_captures` and starts real ones, and so does
all of `make test-long`. Limits and system calls are those of any capture, its namespaces are not. The processes of
`warplab.run`, which record a user's own host code and are not kept apart, are forked from it too.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from warplab.plan.capture import child_process, submission
from warplab.sandbox import isolation as ways
from warplab.sandbox.isolation import Isolation

VARIABLE = "WARPLAB_WARM_CAPTURES"
ARE_USED = os.name == "posix" and os.environ.get("WARPLAB_WHOLE", "") in ("", "0")
STARTED = "tests.warm_capture"  # the audit event of a warm capture that starts
INTEGER = "i"
MOST = 1 << 15  # bytes of what is asked of the process that captures are forked from
_STARTING = threading.Lock()


def use(warm: bool = True) -> None:
    """Have captures of this process be warm ones, or not. Its proofs that sandboxes hold start real ones always."""
    own_run: Any = importlib.import_module("warplab.own_kernels.run")  # the package has a function of that name
    processes: Any = SimpleNamespace(run=_run_own, TimeoutExpired=subprocess.TimeoutExpired)
    own_run.subprocess = processes if warm else subprocess
    submission.child_process = child_processes() if warm else child_process  # type: ignore[misc]


@cache
def child_processes() -> ModuleType:
    """A second `child_process`, which starts no processes but asks for them."""
    spec = importlib.util.spec_from_file_location("warm_child_process", child_process.__file__)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.CaptureFault = child_process.CaptureFault
    names = {name: getattr(subprocess, name) for name in ("PIPE", "TimeoutExpired")}
    module.subprocess = SimpleNamespace(Popen=lambda command, *, cwd, **_: Warm(_place(), cwd), **names)
    return module


def _run_own(
    command: Sequence[str], *, env: dict[str, str], timeout: float, errors: str, **_: Any
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` gives for a child of `warplab.run`, which is started with its folder."""
    process = Warm(_place(), os.getcwd(), (command[-1], env["PYTHONPATH"]))
    process.stdin.close()
    with process.stdout, process.stderr, ThreadPoolExecutor(2) as readers:
        said = [readers.submit(pipe.read) for pipe in (process.stdout, process.stderr)]
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        out, err = (one.result().decode("utf-8", errors) for one in said)
    return subprocess.CompletedProcess(command, code, out, err)


def _place() -> str:
    with _STARTING:  # of two threads that ask first, one starts it
        return _started()


@cache
def _started() -> str:
    """The socket of the process that captures are forked from: of the one that started this one, or ending with it."""
    if place := os.environ.get(VARIABLE):
        return place
    folder = tempfile.TemporaryDirectory(prefix="warplab-warm-")
    atexit.register(folder.cleanup)
    place = str(Path(folder.name) / "socket")
    program = replace(child_process.program(folder.name), module=__name__, name="warplab-warm", arguments=(place,))
    start = ways.start(Isolation.REDUCED, program, folder.name)
    server = subprocess.Popen(
        start.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=start.folder, env=start.environment
    )
    atexit.register(server.kill)
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    os.environ[VARIABLE] = place
    return place


class Warm:
    """A capture process, as `child_process` uses a Popen of it; with `own`, one of `warplab.run`: its folder, and where
    it looks for modules."""

    def __init__(self, place: str, folder: str, own: tuple[str, str] | None = None) -> None:
        sys.audit(STARTED, folder)
        (read_in, write_in), (read_out, write_out), (read_error, write_error) = (os.pipe() for _ in range(3))
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.connect(place)
        asked = json.dumps([folder, own]).encode()
        assert len(asked) <= MOST
        socket.send_fds(self._line, [asked], [read_in, write_out, write_error])
        for given in (read_in, write_out, write_error):
            os.close(given)
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(write_in, "wb"),
            os.fdopen(read_out, "rb"),
            os.fdopen(read_error, "rb"),
        )
        self.pid = self._number()
        self._code: int | None = None

    def _number(self) -> int:
        (number,) = array.array(INTEGER, self._line.recv(array.array(INTEGER).itemsize, socket.MSG_WAITALL))
        return number

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a warm capture", timeout or 0.0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self._code is None:
            self._line.settimeout(timeout)
            try:
                self._code = self._number()
            except (TimeoutError, BlockingIOError):
                return None
            self._line.close()
        return self._code


def main() -> None:
    """The process that captures are forked from: asked through a socket for one in a folder, with three pipes."""
    from warplab.own_kernels import child as own_child
    from warplab.plan.capture import child, nvrtc
    from warplab.plan.capture.of_cupy import capture as cupy_capture
    from warplab.plan.capture.of_numba import capture as numba_capture

    del cupy_capture, numba_capture, nvrtc  # imported to be there
    _compile_something()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(sys.argv[1])
    listener.listen(16)
    print("ready", flush=True)
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            return  # who started this has ended
        line, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _keep(line, child.main, own_child.main)
        line.close()


def _compile_something() -> None:
    """Numba's first kernel takes far longer than the second one."""
    from numba import cuda, float32

    def twice(x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 2 * x[i]

    cuda.compile_ptx(twice, (float32[::1], float32[::1]), cc=(9, 0))


def _keep(line: socket.socket, capture: Callable[[], NoReturn], run_own: Callable[[], None]) -> NoReturn:
    """Fork a capture process and say its number, and when it has ended, how."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, pipes, _, _ = socket.recv_fds(line, MOST, 3)
    folder, own = json.loads(asked)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(folder)
        line.send(array.array(INTEGER, [os.getpid()]))
        line.close()
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        try:
            if own is None:
                capture()
            _as_program(run_own, *own)
        finally:
            os._exit(1)
    for pipe in pipes:
        os.close(pipe)
    _, status = os.waitpid(pid, 0)
    line.send(array.array(INTEGER, [os.waitstatus_to_exitcode(status)]))
    os._exit(0)


def _as_program(run: Callable[[], None], folder: str, path: str) -> NoReturn:
    """Do what `python -m` would do with the module whose `main` this is."""
    sys.argv[1:] = [folder]
    sys.path[:0] = [os.getcwd(), *path.split(os.pathsep)]
    os.environ["PYTHONPATH"] = path
    try:
        run()
        code = 0
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
