"""What the capture process does to itself before a stranger's code runs in it: limits, no new processes, fewer files.

Everything here can only be tightened afterwards, never undone, and needs neither privileges nor namespaces: resource
limits (POSIX), a seccomp filter and Landlock (Linux). What a platform lacks is left out; `breakout` finds out what is
then missing, so nothing here has to be believed.
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

MEMORY = 4 << 30  # bytes of address space; Numba and NVVM take about 0.4 GiB, NVRTC with large headers 1 GiB
FILE_SIZE = 64 << 20  # bytes of one file

# prctl(2)
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
# What a filter answers, linux/seccomp.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
# Classic BPF, linux/bpf_common.h: load a word, compare, return
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000  # system calls of x86-64's second, 32-bit ABI carry this bit

# By machine: what the kernel calls it (linux/audit.h), and which of a pair of numbers below is its own.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# System calls by number on x86-64 and on arm64 (-1: there is none). A capture compiles in its own process: it needs no
# other process, no socket, no shared memory, and nothing that administers the machine.
_NEW_PROCESS = {"clone": (56, 220), "fork": (57, -1), "vfork": (58, -1)}
_CLONE3 = (435, 435)  # its flags lie in memory, where a filter cannot look; libc then falls back to clone
_REFUSED = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "io_uring_setup": (425, 425),  # a way around a filter
    "memfd_create": (319, 279),  # memory that the limits do not see
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "setsid": (112, 157),  # leaving the group that is killed at the end
    "setpgid": (109, 154),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "mknod": (133, -1),
    "mknodat": (259, 33),
    "personality": (135, 92),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "acct": (163, 89),
    "iopl": (172, -1),
    "ioperm": (173, -1),
}
# Allowed on the process itself only.
_ON_ITSELF = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
}

# Landlock: system calls with the same number everywhere, and its rights on files (linux/landlock.h).
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # by version
_ALL_RIGHTS_LATER = (1 << 16) - 1  # from version 5 on
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15  # what may be said of something that is no folder
_SCOPES = 3  # from version 6 on: no signals and no abstract sockets to processes outside


def limit_resources(seconds: int) -> None:
    """Bound memory, processor time, file size, descriptors and processes, where the platform can."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    bounds = {
        "RLIMIT_AS": MEMORY,
        "RLIMIT_CPU": seconds,
        "RLIMIT_FSIZE": FILE_SIZE,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
        # All processes of the user count for this one, so it is not their number that is bounded but any new one.
        # It does not bind root; the filter of `forbid_system_calls` does.
        "RLIMIT_NPROC": 0,
    }
    for name, value in bounds.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(which, (most, most))


def give_up_privileges() -> None:
    """End with the judge, gain nothing by running a set-user-ID program, and use no power of root's (Linux)."""
    libc = _libc()
    if libc is None:
        return
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)  # version 3 of capset(2), this process
    libc.capset(header, bytes(24))


def forbid_system_calls() -> bool:
    """Refuse new processes and programs, sockets, other processes and everything of an administrator's.

    Returns whether the filter is in force; False where the kernel or the machine has none.
    """
    libc, machine = _libc(), platform.machine()
    if libc is None or machine not in _MACHINES:
        return False
    program = _filter(machine, os.getpid())
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    return libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) == 0


def _filter(machine: str, pid: int) -> bytes:
    """The filter as classic BPF: one instruction is a code, two distances to jump and a word."""
    kernel_name, column = _MACHINES[machine]
    steps: list[tuple[int, int, int, int]] = []

    def answer(numbers: Iterable[int], error: int) -> None:
        for number in numbers:
            if number >= 0:
                steps.append((_EQUAL, 0, 1, number))
                steps.append((_RETURN, 0, 0, _ERRNO | error))

    steps += [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, kernel_name), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    answer((numbers[column] for numbers in _NEW_PROCESS.values()), errno.EAGAIN)
    answer([_CLONE3[column]], errno.ENOSYS)
    answer((numbers[column] for numbers in _REFUSED.values()), errno.EPERM)
    for numbers in _ON_ITSELF.values():
        steps += [
            (_EQUAL, 0, 5, numbers[column]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 2, 0, pid),
            (_EQUAL, 0 if numbers is _ON_ITSELF["kill"] else 1, 0, 0),  # 0 is the whole group for kill, else itself
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def hide_files(readable: Sequence[str], writable: Sequence[str]) -> bool:
    """Leave only these files and folders to be seen, the first to read and the second to write as well (Landlock).

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
        libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL | None:
    if platform.system() != "Linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
