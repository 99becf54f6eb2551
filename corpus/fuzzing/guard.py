"""Memory for the emulator between pages that nobody may touch: a stray access of compiled code kills the process.

Regions, frames, shared memory and queues all come from `aligned_bytes`. Here each ends at a page that cannot be read
or written, but for what its alignment leaves over; those bytes are filled with a pattern and looked at afterwards.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from warplab.emulator import executor, machine, memory

PATTERN = 0xA7
_NO_ACCESS = 0


class OutOfBounds(Exception):
    """The pattern beside a piece of memory has changed."""


@dataclass
class Guard:
    """All pieces of memory handed out, as (map, address, size, first byte, bytes)."""

    pieces: list[tuple[mmap.mmap, int, int, int, int]] = field(default_factory=list)

    def allocate(self, size: int, alignment: int = memory.ALIGNMENT) -> np.ndarray:
        """What `memory.aligned_bytes` gives, between two pages without access."""
        page = mmap.PAGESIZE
        room = -(-max(size + alignment, 1) // page) * page
        pages = mmap.mmap(-1, room + 2 * page)
        base = np.frombuffer(pages, dtype=np.uint8)
        address = base.ctypes.data
        base[page : page + room] = PATTERN
        start = (page + room - size) // alignment * alignment
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for guard in (address, address + page + room):
            if protect(ctypes.c_void_p(guard), ctypes.c_size_t(page), _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.pieces.append((pages, address + page, room, start - page, size))
        return base[start : start + size]

    def check(self) -> None:
        """Raises OutOfBounds if something was written beside a piece."""
        for _, address, room, start, size in self.pieces:
            around = np.ctypeslib.as_array((ctypes.c_uint8 * room).from_address(address))
            if (around[:start] != PATTERN).any() or (around[start + size :] != PATTERN).any():
                raise OutOfBounds(f"something was written beside {size} bytes")


@contextmanager
def guarded() -> Iterator[Guard]:
    """While this holds, the emulator's memory is guarded; it is looked at when it ends without an error."""
    guard = Guard()
    modules = (memory, machine, executor)
    original = memory.aligned_bytes
    for module in modules:
        module.aligned_bytes = guard.allocate  # type: ignore[attr-defined]
    try:
        yield guard
        guard.check()
    finally:
        for module in modules:
            module.aligned_bytes = original  # type: ignore[attr-defined]
