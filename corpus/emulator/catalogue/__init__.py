"""The correct kernels, by theme."""

from corpus.emulator.catalogue import (
    algorithms,
    applications,
    arithmetic,
    bulk_copies,
    cluster_samples,
    clusters,
    cooperation,
    global_memory,
    headers,
    hopper,
    language,
    numerics,
    shared_memory,
    tensor_cores,
    tensor_forms,
    traffic,
    warp_matrices,
    warpgroups,
)
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *global_memory.ENTRIES,
    *shared_memory.ENTRIES,
    *cooperation.ENTRIES,
    *applications.ENTRIES,
    *arithmetic.ENTRIES,
    *bulk_copies.ENTRIES,
    *tensor_cores.ENTRIES,
    *tensor_forms.ENTRIES,
    *traffic.ENTRIES,
    *clusters.ENTRIES,
    *warpgroups.ENTRIES,
    *warp_matrices.ENTRIES,
    *headers.ENTRIES,
    *algorithms.ENTRIES,
    *numerics.ENTRIES,
    *language.ENTRIES,
    *cluster_samples.ENTRIES,
    *hopper.ENTRIES,
)
