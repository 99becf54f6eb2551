"""The correct kernels, by theme."""

from benchmarks.corpus.catalogue import (
    algorithms,
    applications,
    arithmetic,
    cluster_samples,
    clusters,
    cooperation,
    global_memory,
    headers,
    language,
    numerics,
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
    *algorithms.ENTRIES,
    *numerics.ENTRIES,
    *language.ENTRIES,
    *cluster_samples.ENTRIES,
)
