"""Runs in a worker process: fills memory or shared memory with a pattern, or counts the pattern and zeros there.

No other word is looked at.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from benchmarks.sharing.tenant import GRID, source

PATTERN = 0xA7C35E19
PART = 0.9  # of the free memory: so two allocations one after the other have most pages in common
SHARED = 227 << 10  # bytes of shared memory per block, the most on a Hopper GPU


@cache
def _kernels() -> Any:
    import cupy

    return cupy.RawModule(code=source()).get_function


def _numbers(words: int) -> tuple[Any, ...]:
    return np.uint64(words), np.uint32(PATTERN)


def fill_memory(words: int) -> int:
    """Allocate so many words, or for 0 PART of the free memory, fill them with the pattern and free them.

    Returns the number of words.
    """
    import cupy

    if not words:
        words = int(cupy.cuda.runtime.memGetInfo()[0] * PART) // 4
    with _Memory(words) as memory:
        _kernels()("fill")((GRID[0],), (GRID[1],), (memory, *_numbers(words)))
        cupy.cuda.Device().synchronize()
    return words


def count_memory(words: int) -> list[float]:
    """Allocate so many words and read them before any write: the fractions that have the pattern, and zero."""
    import cupy

    found = cupy.zeros(2, cupy.uint64)
    with _Memory(words) as memory:
        _kernels()("count")((GRID[0],), (GRID[1],), (memory, *_numbers(words), found))
        return [int(number) / words for number in found.get()]


class _Memory:
    """Memory from cudaMalloc, past CuPy's pool; inside `with` its address as a kernel's argument."""

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
    """Read the shared memory of every SM without writing it: the fractions that have the pattern, and zero."""
    import cupy

    found = cupy.zeros(2, cupy.uint64)
    blocks = _of_shared("count_shared", found)
    return [int(number) / (blocks * SHARED / 4) for number in found.get()]


def _of_shared(name: str, *rest: Any) -> int:
    """Run a kernel with four blocks per SM, each with all shared memory of an SM. Returns the number of blocks."""
    import cupy

    kernel = _kernels()(name)
    kernel.max_dynamic_shared_size_bytes = SHARED
    blocks = 4 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    kernel((blocks,), (1024,), (np.int32(SHARED // 4), np.uint32(PATTERN), *rest), shared_mem=SHARED)
    cupy.cuda.Device().synchronize()
    return blocks
