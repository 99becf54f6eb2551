"""The numbers of system calls, against the kernel's own headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warplab.sandbox import system_calls as calls

# Debian and Ubuntu: package linux-libc-dev. The second one is that of 64-bit ARM, which uses the generic table.
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")
GENERIC_NAMES = {"fcntl": "fcntl", "statfs": "statfs", "newfstatat": "fstatat", "fstat": "fstat", "lseek": "lseek"}
ALL = {
    **calls.BASIC,
    **calls.OPEN,
    **calls.STARTING,
    **calls.WORKING,
    **calls.ON_ITSELF,
    **calls.SOCKETS,
    "clone3": calls.CLONE3,
    "socket": calls.SOCKET,
}


@pytest.mark.parametrize(("column", "header"), list(enumerate(HEADERS)))
def test_numbers_are_the_kernels(column: int, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"{header} is not installed")
    text = Path(header).read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    for name, numbers in ALL.items():
        wanted = known.get(name, known.get(GENERIC_NAMES.get(name, ""), -1))
        assert numbers[column] == wanted, name


def test_a_capture_may_do_less_than_a_worker() -> None:
    capture, worker = (set(calls.allowed(role)) for role in (calls.Role.CAPTURE, calls.Role.WORKER))
    assert capture < worker < set(calls.allowed(calls.Role.GPU_WORKER))
    never = {
        "ptrace",
        "mount",
        "bpf",
        "keyctl",
        "connect",
        "chmod",
        "setxattr",
        "mknod",
        "unshare",
        "setns",
        "memfd_create",
    }
    assert not never & set(calls.allowed(calls.Role.GPU_WORKER))
