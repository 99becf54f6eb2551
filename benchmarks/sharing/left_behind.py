"""What runs in a process of its own and leaves words behind, in memory or on the chip, or looks for its own there.

Only two things are counted: words of this module's pattern, and zeros. No other word is looked at.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from benchmarks.sharing.tenant import GRID, source

PATTERN = 0xA7C35E19
PART = 0.9  # of the free memory, so that two allocations must share most of it
SHARED = 227 << 10  # bytes of shared memory per block, the most on a Hopper GPU


@cache
def _kernels() -> Any:
    import cupy

    return cupy.RawModule(code=source()).get_function


def _numbers(words: int) -> tuple[Any, ...]:
    return np.uint64(words), np.uint32(PATTERN)


def fill_memory(words: int) -> int:
    """Allocate so many words of memory, or with 0 PART of what is free, fill them with the pattern and free them. The
    number of words."""
    import cupy

    if not words:
        words = int(cupy.cuda.runtime.memGetInfo()[0] * PART) // 4
    with _Memory(words) as memory:
        _kernels()("fill")((GRID[0],), (GRID[1],), (memory, *_numbers(words)))
        cupy.cuda.Device().synchronize()
    return words


def count_memory(words: int) -> list[float]:
    """Allocate so many words and read them at once: the fractions that are of the pattern, and zero."""
    import cupy

    found = cupy.zeros(2, cupy.uint64)
    with _Memory(words) as memory:
        _kernels()("count")((GRID[0],), (GRID[1],), (memory, *_numbers(words), found))
        return [int(number) / words for number in found.get()]


class _Memory:
    """Fresh memory from cudaMalloc, without CuPy's pool, as a number for a kernel."""

    def __init__(self, words: int) -> None:
        import cupy

        self._runtime = cupy.cuda.runtime
        self._address = self._runtime.malloc(4 * words)

    def __enter__(self) -> np.uint64:
        return np.uint64(self._address)

    def __exit__(self, *_: object) -> None:
        self._runtime.free(self._address)


def fill_shared() -> None:
    """Fill the shared memory of every SM with the pattern."""
    _of_shared("fill_shared")


def count_shared() -> list[float]:
    """Read the shared memory of every SM without writing it: the fractions that are of the pattern, and zero."""
    import cupy

    found = cupy.zeros(2, cupy.uint64)
    blocks = _of_shared("count_shared", found)
    return [int(number) / (blocks * SHARED / 4) for number in found.get()]


def _of_shared(name: str, *rest: Any) -> int:
    """Run a kernel on one block per SM, four times over, that has all shared memory. The number of blocks."""
    import cupy

    kernel = _kernels()(name)
    kernel.max_dynamic_shared_size_bytes = SHARED
    blocks = 4 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    kernel((blocks,), (1024,), (np.int32(SHARED // 4), np.uint32(PATTERN), *rest), shared_mem=SHARED)
    cupy.cuda.Device().synchronize()
    return blocks
