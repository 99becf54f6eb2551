"""The correct kernels that are captured anew, by theme; the others are recorded (corpus.emulator.recorded)."""

from corpus.emulator.catalogue import headers, language, shared_memory, traffic
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *shared_memory.ENTRIES,
    *traffic.ENTRIES,
    *headers.ENTRIES,
    *language.ENTRIES,
)
