"""What a process does to itself before a stranger's bytes reach it: limits, few system calls, fewer files.

Everything here can only be tightened afterwards, never undone, and needs neither privileges nor namespaces: resource
limits (POSIX), a seccomp filter and Landlock (Linux). What a platform lacks is left out; `plan.capture.escape_probe`
and `sandbox.self_test` find out what is then missing, so nothing here has to be believed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from warplab.sandbox.system_calls import CLONE3, FLAGS_ARGUMENT, ON_ITSELF, OPEN, SOCKET, STARTING, Role, allowed

# prctl(2)
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
# What a filter answers, linux/seccomp.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
# Classic BPF, linux/bpf_common.h: load a word, compare, test bits, return
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT, _ARGUMENT_SIZE = 0, 4, 16, 8  # offsets in struct seccomp_data
_X32 = 0x40000000  # system calls of x86-64's second, 32-bit ABI carry this bit
_AF_UNIX = 1
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000  # asm-generic/fcntl.h, the same on both machines

# By machine: what the kernel calls it (linux/audit.h), and which of a pair of numbers is its own.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# Landlock: system calls with the same number everywhere, and its rights on files (linux/landlock.h).
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # by version
_ALL_RIGHTS_LATER = (1 << 16) - 1  # from version 5 on
_IOCTL = 1 << 15  # on devices, from version 5 on
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | _IOCTL  # what may be said of something that is no folder
_SCOPES = 3  # from version 6 on: no signals and no abstract sockets to processes outside


@dataclass(frozen=True)
class Limits:
    """What one process may use: bytes of address space (None: as it likes), seconds of processor time (None: the
    same), bytes of one file, open files, and whether it may start processes."""

    memory: int | None
    seconds: int | None
    file_size: int
    files: int = 256
    processes: bool = False


def limit_resources(limits: Limits) -> None:
    """Bound memory, processor time, file size, descriptors and processes, where the platform can."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    bounds: dict[str, int | None] = {
        "RLIMIT_AS": limits.memory,
        "RLIMIT_CPU": limits.seconds,
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_NOFILE": limits.files,
        "RLIMIT_CORE": 0,
        # All processes of the user count for this one, so it is not their number that is bounded but any new one.
        # It does not bind root; the filter of `allow_system_calls` does.
        "RLIMIT_NPROC": None if limits.processes else 0,
    }
    for name, value in bounds.items():
        which = getattr(resource, name, None)
        if which is None or value is None:
            continue
        _, hard = resource.getrlimit(which)
        free = hard == resource.RLIM_INFINITY or value < hard
        most = value if free else hard
        # At the hard limit of processor time comes SIGKILL, which anybody could have sent; a second before, SIGXCPU.
        last = most + 1 if free and name == "RLIMIT_CPU" else most
        with suppress(ValueError, OSError):
            resource.setrlimit(which, (most, last))


def give_up_privileges() -> None:
    """End with the judge, gain nothing by running a set-user-ID program, and use no power of root's (Linux)."""
    libc = _libc()
    if libc is None:
        return
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)  # version 3 of capset(2), this process
    libc.capset(header, bytes(24))


def allow_system_calls(role: Role) -> bool:
    """Refuse every system call that the role does not need.

    Returns whether the filter is in force; False where the kernel or the machine has none.
    """
    libc, machine = _libc(), platform.machine()
    if libc is None or machine not in MACHINES:
        return False
    program = _filter(role, machine, os.getpid())
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    return libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) == 0


def _filter(role: Role, machine: str, pid: int) -> bytes:
    """The filter as classic BPF: one instruction is a code, two distances to jump and a word."""
    kernel_name, column = MACHINES[machine]
    steps: list[tuple[int, int, int, int]] = []

    def answer(numbers: Iterable[int], what: int) -> None:
        for number in numbers:
            if number >= 0:
                steps.append((_EQUAL, 0, 1, number))
                steps.append((_RETURN, 0, 0, what))

    steps += [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, kernel_name), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    answer((numbers[column] for numbers in allowed(role).values()), _ALLOW)
    answer([CLONE3[column]], _ERRNO | errno.ENOSYS)
    if role is Role.GPU_WORKER:
        steps += [
            (_EQUAL, 0, 4, SOCKET[column]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 1, 0, _AF_UNIX),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    if role is Role.CAPTURE:
        answer((numbers[column] for numbers in STARTING.values()), _ERRNO | errno.EAGAIN)
        for name, numbers in OPEN.items():
            if numbers[column] >= 0:  # no new file, with a name or without: nothing to fill a disk or a table with
                steps += [
                    (_EQUAL, 0, 4, numbers[column]),
                    (_LOAD, 0, 0, _FIRST_ARGUMENT + FLAGS_ARGUMENT[name] * _ARGUMENT_SIZE),
                    (_ANY_BIT, 0, 1, _O_CREAT | _O_TMPFILE),
                    (_RETURN, 0, 0, _ERRNO | errno.EACCES),
                    (_RETURN, 0, 0, _ALLOW),
                ]
        for name, numbers in ON_ITSELF.items():
            if numbers[column] >= 0:
                steps += [
                    (_EQUAL, 0, 5, numbers[column]),
                    (_LOAD, 0, 0, _FIRST_ARGUMENT),
                    (_EQUAL, 2, 0, pid),
                    # 0 is the whole group for kill, else the process itself
                    (_EQUAL, 0 if name == "kill" else 1, 0, 0),
                    (_RETURN, 0, 0, _ERRNO | errno.EPERM),
                    (_RETURN, 0, 0, _ALLOW),
                ]
    steps.append((_RETURN, 0, 0, _ERRNO | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def hide_files(readable: Sequence[str], writable: Sequence[str], listed: Sequence[str] = ()) -> bool:
    """Leave only these files, folders and devices to be seen, the first to read, the second to write too (Landlock).

    Of folders that are only `listed`, and of those below, the names can be seen: imports look for them.
    Returns whether that is in force; False where the kernel has no Landlock.
    """
    libc = _libc()
    version = -1 if libc is None else libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if libc is None or version < 1:
        return False
    rights = _ALL_RIGHTS.get(version, _ALL_RIGHTS_LATER)
    attributes = struct.pack("QQQ", rights, 0, _SCOPES) if version >= 6 else struct.pack("Q", rights)
    ruleset = libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(libc, ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in listed:
            _allow(libc, ruleset, path, _READ_DIR)
        for path in writable:
            _allow(libc, ruleset, path, rights & ~_EXECUTE)
        return libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there need not be allowed
        return
    try:
        if not os.path.isdir(path):
            rights &= _ON_FILES
            if not rights:
                return
        libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL | None:
    if platform.system() != "Linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
