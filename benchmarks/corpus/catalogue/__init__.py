"""The correct kernels, by theme."""

from benchmarks.corpus.catalogue import (
    applications,
    arithmetic,
    cooperation,
    global_memory,
    shared_memory,
    tensor_cores,
    traffic,
)
from benchmarks.corpus.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *global_memory.ENTRIES,
    *shared_memory.ENTRIES,
    *cooperation.ENTRIES,
    *applications.ENTRIES,
    *arithmetic.ENTRIES,
    *tensor_cores.ENTRIES,
    *traffic.ENTRIES,
)
