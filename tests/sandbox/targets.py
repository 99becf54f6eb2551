"""What a kernel that has taken a worker over could try; called by name in the worker."""

from __future__ import annotations

import contextlib
import getpass
import mmap
import os
import signal
import socket
import subprocess
import sys
import time


def attempt(what: str, arguments: list[str]) -> str:
    """The name of the error that an attempt ends with, or "done"."""
    try:
        _ATTEMPTS[what](*arguments)
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    return "done"


_STARTED = time.time_ns()  # the process's own: inside a sandbox every one has the same number


def process() -> int:
    """What tells this process from another one."""
    return _STARTED


def user() -> str:
    """The name of who runs it, as libraries ask."""
    return getpass.getuser()


def _connect(port: str) -> None:
    socket.create_connection(("127.0.0.1", int(port)), timeout=2)


def _write_code(path: str) -> None:
    with open(path, "a") as file:
        file.write("\n")


_ATTEMPTS = {
    "read": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "list": os.listdir,
    "connect": _connect,
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "change code": _write_code,
    "ptrace": lambda pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)),
    "mount": lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else _unsupported(),
    "chmod": lambda path: os.chmod(path, 0o777),
    "session": os.setsid,
    "memfd": lambda: os.memfd_create("x"),
    "large file": lambda: os.posix_fallocate(os.open("large", os.O_RDWR | os.O_CREAT), 0, 4 << 30),
}


def _unsupported() -> None:
    raise OSError("this Python cannot try")


def paths() -> list[str]:
    """Where modules are imported from, and the folder."""
    return [*sys.path, os.getcwd()]


def fill_memory() -> None:
    """Take memory in more than one process, each with little; die as soon as one of them does."""
    for _ in range(16):
        if os.fork() == 0:
            block = mmap.mmap(-1, 64 << 20)
            for place in range(0, len(block), 4096):
                block[place] = 1
            time.sleep(60)
    os.wait()
    os._exit(1)


def start_processes() -> int:
    """How many processes could be started before it was refused."""
    children = []
    with contextlib.suppress(OSError):
        while len(children) < 5000:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
    for child in children:
        os.kill(child, signal.SIGKILL)
    return len(children)


def forge(frame: bytes) -> None:
    """Answer with these bytes instead of a message, wherever the answers go, and die."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, frame)
    os._exit(0)
