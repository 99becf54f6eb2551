"""Finds out by trying what a capture process could reach on this machine, so that no isolation has to be believed.

The attempts are made by a submission like any other: its host code tries them and tells which of them succeeded.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warplab.errors import WarplabError
from warplab.plan.capture import child, child_process
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.protocol import Request, decode_response
from warplab.sandbox import isolation as ways
from warplab.sandbox.isolation import Isolation

_TRYING = threading.Lock()
_SECONDS = 60.0
_ENDLESS_SECONDS = 1.5
# In the order in which they are tried.
ATTEMPTS = {
    "network": "open a connection",
    "read": "read a file of the judge",
    "write": "write a file beside its own",
    "environment": "see an environment variable of the judge",
    "signal": "send a signal to the judge",
    "process": "start another process",
    "memory": "take more memory than it may",
    "file": "write a file larger than it may",
    "outlive": "run on after the judge has ended it",
}
_TRY = r"""
import mmap, os, socket

def network():
    socket.create_connection(("127.0.0.1", {port}), timeout=2)

def read():
    for path in {private}:
        try:
            os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        except OSError:
            continue
        return
    open("/proc/{judge}/environ", "rb").read(1)

def write():
    for path in {targets}:
        try:
            open(path, "w").close()
        except OSError:
            pass

def environment():
    assert set(os.environ) - set({names})

def signal():
    os.kill({judge}, 0)

def process():
    if os.fork() == 0:
        os._exit(0)

def memory():
    try:
        mmap.mmap(-1, {memory} + (1 << 30))
    except OSError:
        os.memfd_create("more")

def file():
    with open("large", "wb") as f:
        f.seek({file_size})
        f.write(b"x")

class Tried(Exception):
    pass

done = []
for attempt in (network, read, write, environment, signal, process, memory, file):
    try:
        attempt()
    except Exception:
        continue
    done.append(attempt.__name__)
raise Tried("escaped=" + ",".join(done))
"""
_ENDLESS = """
import os, time
try:
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
except OSError:
    pass
while True:
    pass
"""
_ESCAPED = re.compile(r"raises Tried: escaped=([a-z,]*)")


@dataclass(frozen=True)
class Proof:
    """What came of trying one isolation. `escapes` names those of ATTEMPTS that succeeded; `fault` says why it does
    not work here at all, if it does not."""

    isolation: Isolation
    escapes: tuple[str, ...] = ()
    fault: str = ""

    @property
    def holds(self) -> bool:
        """Whether it works here and nothing got through."""
        return not self.escapes and not self.fault


def strongest() -> Isolation:
    """The strongest isolation that holds on this machine; tried out once a process, which takes up to a second. Who
    asks while another thread tries it waits for that."""
    with _TRYING:
        return _tried_out()


def find_strongest() -> Isolation:
    """As `strongest`, but tried out now."""
    for isolation in (Isolation.BUBBLEWRAP, Isolation.LANDLOCK):
        if prove(isolation).holds:
            return isolation
    return Isolation.REDUCED


_tried_out = cache(find_strongest)


def prove(isolation: Isolation, private: Sequence[Path] = (), thorough: bool = False) -> Proof:
    """Try to break out of an isolation. `private` are files and folders that must not be readable, beside one of this
    function's own. `thorough` also leaves an endless program behind, which takes some seconds."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="warplab-private-") as folder,
            socket.create_server(("127.0.0.1", 0)) as listening,  # the system answers who connects
        ):
            escapes = _try_everything(isolation, Path(folder), private, listening.getsockname()[1])
        if thorough and _outlives(isolation):
            escapes.append("outlive")
    except (WarplabError, OSError) as error:
        return Proof(isolation, fault=str(error))
    return Proof(isolation, tuple(escapes))


def _try_everything(isolation: Isolation, folder: Path, private: Sequence[Path], port: int) -> list[str]:
    secret, target = folder / "secret", folder / "written"
    secret.write_text("secret")
    # Python names the character set itself where the environment does not
    names = [*ways.start(isolation, child_process.program(""), "").environment, "LC_CTYPE", "PWD"]
    attempts = _TRY
    for name, value in {
        "port": port,
        "private": [str(path) for path in (secret, *private)],
        "targets": [str(target)],
        "names": names,
        "judge": os.getpid(),
        "memory": child.MEMORY,
        "file_size": child.FILE_SIZE,
    }.items():
        attempts = attempts.replace("{" + name + "}", repr(value))
    failure = _failure_of(attempts, isolation, _SECONDS)
    told = _ESCAPED.search(failure.message)
    if told is None:
        raise child_process.CaptureFault(f"The attempts to break out gave no answer: {failure.message}")
    # Written counts what the judge finds: a folder of its own may have the same name.
    escapes = [name for name in told.group(1).split(",") if name and name != "write"]
    return escapes + ["write"] * target.exists()


def _outlives(isolation: Isolation) -> bool:
    failure = _failure_of(_ENDLESS, isolation, _ENDLESS_SECONDS)
    if failure.status is not CaptureStatus.TIMEOUT:
        raise child_process.CaptureFault(f"An endless program was not ended: {failure.message}")
    return bool(child_process.survivors())


def _failure_of(source: str, isolation: Isolation, seconds: float) -> CaptureFailure:
    request = Request(source, "submission.py", (), ("sm_90a",), int(seconds) + 5)
    try:
        decode_response(child_process.run(request, isolation, seconds), request)
    except CaptureFailure as failure:
        return failure
    raise child_process.CaptureFault("The attempts to break out were not made.")
