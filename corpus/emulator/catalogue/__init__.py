"""The correct kernels that are captured anew, by theme; the others are recorded (corpus.emulator.recorded)."""

from corpus.emulator.catalogue import bulk_copies, global_memory, headers, language, shared_memory, traffic, warpgroups
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *global_memory.ENTRIES,
    *shared_memory.ENTRIES,
    *bulk_copies.ENTRIES,
    *traffic.ENTRIES,
    *warpgroups.ENTRIES,
    *headers.ENTRIES,
    *language.ENTRIES,
)
