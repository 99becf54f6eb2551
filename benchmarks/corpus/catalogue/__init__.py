"""The correct kernels, by theme."""

from benchmarks.corpus.catalogue import (
    applications,
    arithmetic,
    clusters,
    cooperation,
    global_memory,
    headers,
    shared_memory,
    tensor_cores,
    warpgroups,
)
from benchmarks.corpus.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *global_memory.ENTRIES,
    *shared_memory.ENTRIES,
    *cooperation.ENTRIES,
    *applications.ENTRIES,
    *arithmetic.ENTRIES,
    *tensor_cores.ENTRIES,
    *clusters.ENTRIES,
    *warpgroups.ENTRIES,
    *headers.ENTRIES,
)
