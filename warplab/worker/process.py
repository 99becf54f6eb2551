"""A child process that is asked to run functions by name, and is replaced when it dies or hangs.

Device code can hang, crash the context or take the whole process down. Everything that executes a student's kernels
therefore runs behind a Worker: the caller gets a WorkerError, and the next call starts afresh. What reads a stranger's
bytes runs in a Worker with a Sandbox; nothing that it answers is believed to be well-formed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from warplab.errors import WarplabError
from warplab.interrupts import waits_for
from warplab.sandbox import cgroup, confinement, self_test
from warplab.sandbox import isolation as ways
from warplab.sandbox.confinement import Limits
from warplab.sandbox.isolation import Isolation
from warplab.sandbox.system_calls import Role
from warplab.worker import wire

_STARTUP_SECONDS = 60.0
_MODULE = "warplab.worker.process"
_WATCH_SECONDS = 0.25
_MOST_PROCESSES = 512  # and threads, of a sandbox: the emulator's are one a core, CUDA's a dozen

# Starts every worker. A sandbox dies with the *thread* that started it (prctl(2), PR_SET_PDEATHSIG), and callers have
# threads that end before they are done with the worker.
_STARTER = ThreadPoolExecutor(1, "warplab-starter")


class WorkerFault(StrEnum):
    """How a call failed."""

    TIMEOUT = "timeout"  # no answer in time; the process was killed
    NOT_STARTED = "not_started"  # it did not come to answer anything: a fault of this machine
    CRASHED = "crashed"  # the process died
    MEMORY = "memory"  # the process was ended because it took more memory than it may
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


@dataclass(frozen=True)
class Sandbox:
    """What a worker is kept in. It has a folder of its own that nobody else sees, and sees itself, Python and these.

    `packages` are those of this project that it calls functions of: found before it is confined, as the folder that
    they lie in holds more. `readable` are files and folders, `writable` folders, `devices` device files,
    `environment` variables. `copies` are folders whose files it gets copies of, each under a name below its own
    folder, and the environment variable that says where: caches that it may add to for itself alone. `memory` is in
    bytes, of all that it starts together; `address_space` the same of each process, None where programs reserve
    more than they use. With `gpu` it may do what CUDA's driver needs.
    """

    isolations: tuple[Isolation, ...] = tuple(Isolation)  # those to choose from, the strongest first
    packages: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    copies: tuple[tuple[str, str, str], ...] = ()  # folder, name of the copy below the own folder, variable
    memory: int = 16 << 30
    address_space: int | None = 16 << 30
    file_size: int = 512 << 20
    gpu: bool = False


class Worker:
    """Runs `module:function` calls in one child process, started at the first call. Use as a context manager.

    Without a sandbox it runs what this project trusts, as the user who starts it, but in a folder of its own and
    without whatever lies in the current one; `environment` are then variables besides that user's. `isolation` is what
    a sandboxed one was found to be kept in.
    """

    def __init__(self, sandbox: Sandbox | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._sandbox, self._environment = sandbox, environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()
        self._scratch = ""
        self._in_call = threading.Lock()
        self._group: cgroup.ControlGroup | None = None
        self._over = threading.Event()  # more memory than the sandbox allows
        self.isolation: Isolation | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """The result of `target` ("package.module:function") called with `payload` as keyword arguments.

        Payload and result are built of dicts, lists, JSON scalars, NumPy arrays and bytes. `timeout` in seconds; calls
        of other threads are waited for besides. Raises WorkerError.
        """
        with self._in_call:
            return self._answer_of(self._running(), target, timeout, payload)

    def call_if_started(self, target: str, *, timeout: float, **payload: Any) -> None:
        """As `call`, for what only makes the process ready: none is started, whether there never was one or another
        thread has closed it. Raises WorkerError."""
        with self._in_call:
            if (process := self._process) is not None:
                self._answer_of(process, target, timeout, payload)

    def _answer_of(self, process: subprocess.Popen[bytes], target: str, timeout: float, payload: dict[str, Any]) -> Any:
        try:
            with waits_for(self.close):
                answer = self._asked(process, wire.encode({"target": target, "payload": payload}), timeout)
        except KeyboardInterrupt:
            self.close()  # or its answer would be taken for that of the next call
            raise
        if not isinstance(answer, dict):
            raise self._died(process)
        if "result" in answer:
            return answer["result"]
        try:
            fault, message, kind = WorkerFault(answer["status"]), str(answer["message"]), str(answer["kind"])
        except (KeyError, ValueError):
            raise self._died(process) from None
        if fault is WorkerFault.DEVICE_FAULT:
            self.close()
        raise WorkerError(fault, message, kind)

    def _asked(self, process: subprocess.Popen[bytes], frame: bytes, timeout: float) -> Any:
        assert process.stdin is not None
        try:
            process.stdin.write(frame)
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has ended, or another thread has closed it
            raise self._died(process) from None
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            self.close()
            raise WorkerError(WorkerFault.TIMEOUT, f"no answer within {timeout:g} s; the worker was replaced") from None

    def _died(self, process: subprocess.Popen[bytes]) -> WorkerError:
        """The error for a process that is gone, or that answered what no worker answers."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        code = process.poll()
        too_much = self._over.is_set() or (self._group is not None and self._group.ran_out_of_memory())
        self.close()
        if too_much:
            return WorkerError(WorkerFault.MEMORY, "the worker took more memory than it may")
        words = "gave an answer of no use" if code is None else f"died ({_exit_words(code)})"
        return WorkerError(WorkerFault.CRASHED, f"the worker {words}")

    def close(self) -> None:
        """End the process, at once, with all that it left; harmless when there is none."""
        process, self._process = self._process, None
        group, self._group = self._group, None
        scratch, self._scratch = self._scratch, ""
        if process is not None:
            _end(process.pid)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        if group is not None:
            group.remove()
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)

    def start(self) -> None:
        """Start the process now rather than at the first call. Raises WorkerError."""
        self._running()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        if self._sandbox is None:
            program = ways.Program(_MODULE, "warplab-worker", keeps_project=True)
            self._scratch = tempfile.mkdtemp(prefix=_prefix())
            environment = {**os.environ, **self._environment}
            self._launch(ways.Start(ways.python_command(program), self._scratch, environment), 0)
            return self._process_or_fault()
        reasons = []
        known = (self.isolation,) if self.isolation is not None else self._sandbox.isolations
        for isolation in known:
            fault = self._try(self._sandbox, isolation)
            if not fault:
                assert self._process is not None
                self.isolation = isolation
                return self._process
            reasons.append(f"{isolation}: {fault}")
            self.close()
        raise WorkerError(WorkerFault.NOT_STARTED, f"no sandbox for kernels works here ({'; '.join(reasons)})")

    def _try(self, sandbox: Sandbox, isolation: Isolation) -> str:
        """Start the process in one isolation; why that is of no use here, or nothing."""
        self._scratch = tempfile.mkdtemp(prefix=_prefix())
        self._group = cgroup.make(sandbox.memory, _MOST_PROCESSES)
        with self_test.bait() as bait:
            try:
                self._launch(_confined(sandbox, isolation, self._scratch, bait), sandbox.memory)
                ready = self._answers.get(timeout=_STARTUP_SECONDS)
            except OSError as error:
                return f"{error.filename}: {error.strerror}"
            except queue.Empty:
                return "no answer"
        if not isinstance(ready, dict) or not isinstance(ready.get("escapes"), list):
            return "it does not start"
        if ready["escapes"] and isolation is not Isolation.REDUCED:
            known = [self_test.ATTEMPTS.get(str(name), "something unknown") for name in ready["escapes"][:5]]
            return f"it could {', '.join(known)}"
        return ""

    def _launch(self, start: ways.Start, memory: int) -> None:
        self._answers = queue.Queue()
        self._over = threading.Event()
        self._process = _STARTER.submit(
            subprocess.Popen[bytes],
            self._group.command(start.command) if self._group else start.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self._sandbox else None,
            cwd=start.folder,
            env=start.environment,
            start_new_session=True,
        ).result()
        arguments = (self._process.stdout, self._answers, self._sandbox is not None)
        threading.Thread(target=_drain, args=arguments, daemon=True).start()
        threading.Thread(target=_end_what_is_left, args=(self._process,), daemon=True).start()
        if memory and self._group is None:
            threading.Thread(target=_watch, args=(self._process, memory, self._over), daemon=True).start()

    def _process_or_fault(self) -> subprocess.Popen[bytes]:
        try:
            ready = self._answers.get(timeout=_STARTUP_SECONDS)
        except queue.Empty:
            ready = None
        if ready is None:
            self.close()
            raise WorkerError(WorkerFault.NOT_STARTED, "the worker process did not start; run `autograder doctor`")
        assert self._process is not None
        return self._process


def _prefix() -> str:
    return f"warplab-worker-{os.getpid()}-"


def _confined(sandbox: Sandbox, isolation: Isolation, scratch: str, bait: self_test.Bait) -> ways.Start:
    """The start of a sandboxed worker."""
    readable = ways.with_real_places((*sandbox.readable, *(copy[0] for copy in sandbox.copies)))
    limits = Limits(sandbox.address_space, None, sandbox.file_size, 1024, processes=True)
    orders = {
        "bait": bait.arguments(),
        "packages": sandbox.packages,
        "role": Role.GPU_WORKER if sandbox.gpu else Role.WORKER,
        "limits": asdict(limits),
        "copies": sandbox.copies,
        "readable": [*ways.readable(), *ways.devices(), *readable] if isolation is Isolation.LANDLOCK else None,
        "writable": [*sandbox.writable, *sandbox.devices, os.devnull] if isolation is Isolation.LANDLOCK else [],
    }
    program = ways.Program(
        _MODULE,
        scratch,
        (json.dumps(orders),),
        readable,
        sandbox.writable,
        sandbox.devices,
        sandbox.gpu,  # CUDA's driver looks for itself in /proc
        True,
        sandbox.environment,
    )
    return ways.start(isolation, program, scratch)


def _drain(stream: BinaryIO, answers: queue.Queue[Any], bounded: bool) -> None:
    """Put every answer of the child in the queue, and None at its end or at what cannot be read."""
    with contextlib.suppress(EOFError, OSError, ValueError):
        while True:
            answers.put(wire.read(stream, wire.MOST_FROM_A_STRANGER if bounded else None))
    answers.put(None)


def _watch(process: subprocess.Popen[bytes], memory: int, over: threading.Event) -> None:
    """End a process that takes too much memory with all that it started: where there are no control groups."""
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    while process.poll() is None:
        if _resident_pages(process.pid) * page > memory:
            over.set()
            _end(process.pid)
            return
        time.sleep(_WATCH_SECONDS)


def _end_what_is_left(process: subprocess.Popen[bytes]) -> None:
    """End what a process leaves behind when it ends, which holds the pipe open whose end would tell of that.

    A kernel that is out of memory ends one process of a group, perhaps the one that answers, and not its children.
    """
    with contextlib.suppress(ChildProcessError):  # it has been waited for, by who ends it all
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own
        else:
            process.wait()
        _end(process.pid)


def _end(leader: int) -> None:
    """Kill the process that leads a session with all that it started, which may have made groups, but no session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for member in _session(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member, signal.SIGKILL)


def _resident_pages(session: int) -> int:
    """Pages that the processes of a session have in memory, shared ones counted each time (Linux; else 0)."""
    return sum(_session(session).values())


def _session(session: int) -> dict[int, int]:
    """The processes of a session, each with the pages that it has in memory (Linux; else none)."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found[int(entry.name)] = int(fields[21])
    return found


def _exit_words(code: int) -> str:
    """How a process ended; bubblewrap says a signal as a shell does, by 128 and its number."""
    number = -code if code < 0 else code - 128
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"exit code {code}"


def _end_with(parent: int) -> None:
    """End this process soon after its parent has: a kernel that never ends would otherwise keep the GPU for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _imported(name: str) -> Any:
    """A module. Nobody looks for garbage while it is imported: there is none, and to look takes a tenth of the time."""
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def serve(ready: Any) -> None:
    """The child's loop: say that it is ready, read a call, answer it, until the parent closes the pipe."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # What called functions print must not mix with the answers, and what kernels print is a stranger's text.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers.write(wire.encode(ready))
    answers.flush()
    while True:
        try:
            request = wire.read(requests)
        except EOFError:
            return
        module, _, function = request["target"].partition(":")
        try:
            answer = {"result": getattr(_imported(module), function)(**request["payload"])}
            frame = wire.encode(answer)
        except Exception as error:
            status = WorkerFault.DEVICE_FAULT if isinstance(error, DeviceFault) else WorkerFault.ERROR
            frame = wire.encode({"status": status, "message": str(error), "kind": type(error).__name__})
        answers.write(frame)
        answers.flush()


def main() -> None:
    """The child: with orders among the arguments it first confines itself, and says what it could do nevertheless."""
    if len(sys.argv) < 2:
        serve("ready")
        return
    orders = json.loads(sys.argv[1])
    folder = os.getcwd()
    for source, name, variable in orders["copies"]:
        shutil.copytree(source, os.path.join(folder, name), copy_function=shutil.copyfile, dirs_exist_ok=True)
        os.environ[variable] = os.path.join(folder, name.split("/")[0])
    for package in orders["packages"]:
        importlib.import_module(package)
    confine(Role(orders["role"]), orders["readable"], [folder, *orders["writable"]], Limits(**orders["limits"]))
    serve({"escapes": self_test.escapes(*orders["bait"])})


def confine(role: Role, readable: Sequence[str] | None, writable: Sequence[str], limits: Limits) -> None:
    """Give up what a worker on a stranger's kernels must not have. Exits if Landlock is asked for and is not there."""
    confinement.limit_resources(limits)
    confinement.give_up_privileges()
    if readable is not None and not confinement.hide_files(readable, writable):
        sys.exit("this kernel has no Landlock")
    confinement.allow_system_calls(role)
