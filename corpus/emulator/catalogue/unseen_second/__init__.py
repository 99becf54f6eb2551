"""The second set of kernels that no rule of counting by machine code was made from, written after the first was counted."""

from corpus.emulator.catalogue.unseen_second import order
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (*order.ENTRIES,)
