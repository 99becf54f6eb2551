"""The system calls that a confined process may make, by number; every other one is refused.

A list of what is allowed ages well: what a new kernel adds is refused until somebody asks for it. The lists are what
captures, ptxas, the emulator and CUDA's driver were seen to ask for (strace), and what the C library may ask for
instead on other versions. Numbers: linux/arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

# name: (number on x86-64, number on 64-bit ARM); -1 where there is none
Calls = Mapping[str, tuple[int, int]]


class Role(StrEnum):
    """What a process is for, and so which system calls it needs."""

    CAPTURE = "capture"  # a stranger's Python: reads files, makes none, starts nothing
    WORKER = "worker"  # our code on a stranger's kernels: threads, files of its own, the assembler as a child
    GPU_WORKER = "gpu worker"  # the same with CUDA's driver


# Memory, time, what is already open, and questions about itself.
BASIC: Calls = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "close_range": (436, 436),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "msync": (26, 227),
    "mincore": (27, 232),
    "madvise": (28, 233),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "ioctl": (16, 29),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "pipe": (22, -1),
    "pipe2": (293, 59),
    "select": (23, -1),
    "pselect6": (270, 72),
    "poll": (7, -1),
    "ppoll": (271, 73),
    "sched_yield": (24, 124),
    "dup": (32, 23),
    "dup2": (33, -1),
    "dup3": (292, 24),
    "pause": (34, -1),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "getitimer": (36, 102),
    "times": (100, 153),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getppid": (110, 173),
    "getpgrp": (111, -1),
    "getpgid": (121, 155),
    "getsid": (124, 156),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getgroups": (115, 158),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "uname": (63, 160),
    "fcntl": (72, 25),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "readlink": (89, -1),
    "readlinkat": (267, 78),
    "access": (21, -1),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "stat": (4, -1),
    "lstat": (6, -1),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "readahead": (187, 213),
    "fadvise64": (221, 223),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126),
    "sched_rr_get_interval": (148, 127),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "get_mempolicy": (239, 236),
    "arch_prctl": (158, -1),
    "futex": (202, 98),
    "set_tid_address": (218, 96),
    "set_robust_list": (273, 99),
    "get_robust_list": (274, 100),
    "restart_syscall": (219, 128),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "epoll_create": (213, -1),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, -1),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "getrandom": (318, 278),
}

# Opening files: of a capture, a filter looks at the flags, in the argument that is named here.
OPEN: Calls = {"open": (2, -1), "openat": (257, 56)}
FLAGS_ARGUMENT: Mapping[str, int] = {"open": 1, "openat": 2}

# Allowed on the process itself only, whose number is the first argument.
ON_ITSELF: Calls = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "prlimit64": (302, 261),
}

# New processes and threads, for a capture refused as if there were too many: libraries have an answer to that.
STARTING: Calls = {"clone": (56, 220), "fork": (57, -1), "vfork": (58, -1)}
CLONE3 = (435, 435)  # its flags lie in memory, where a filter cannot look; the C library falls back to clone

# What a worker does beside that: the assembler as a child, temporary files, CUDA's driver.
WORKING: Calls = {
    "execve": (59, 221),
    "wait4": (61, 260),
    "waitid": (247, 95),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "set_mempolicy": (238, 237),
    "mbind": (237, 235),
    "mlock": (149, 228),
    "munlock": (150, 229),
    "mkdir": (83, -1),
    "mkdirat": (258, 34),
    "rmdir": (84, -1),
    "unlink": (87, -1),
    "unlinkat": (263, 35),
    "rename": (82, -1),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "flock": (73, 32),
    "umask": (95, 166),
    "copy_file_range": (326, 285),
    "sendfile": (40, 71),
    "prctl": (157, 167),
    "setpgid": (109, 154),  # leaving the session is what would hide a process from its end
}


# Sockets of this machine alone (AF_UNIX), which CUDA's driver makes when it starts, and needs no connection for.
SOCKET = (41, 198)
SOCKETS: Calls = {
    "bind": (49, 200),
    "listen": (50, 201),
    "getsockname": (51, 204),
    "getsockopt": (55, 209),
    "setsockopt": (54, 208),
}


def allowed(role: Role) -> dict[str, tuple[int, int]]:
    """The calls that a role may make whatever their arguments are, by name."""
    if role is Role.CAPTURE:
        return dict(BASIC)
    return {**BASIC, **OPEN, **STARTING, **WORKING, **(SOCKETS if role is Role.GPU_WORKER else {})}
