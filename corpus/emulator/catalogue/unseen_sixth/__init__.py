"""A sixth set of kernels that the rules of counting by machine code were not made from, newer than `unseen_fifth`."""

from corpus.emulator.catalogue.unseen_sixth import (
    geometry,
    graphs,
    matrices,
    numba,
    numba_order,
    sciences,
    signals,
    tables,
    text,
)
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *text.ENTRIES,
    *geometry.ENTRIES,
    *graphs.ENTRIES,
    *tables.ENTRIES,
    *signals.ENTRIES,
    *sciences.ENTRIES,
    *matrices.ENTRIES,
    *numba.ENTRIES,
    *numba_order.ENTRIES,
)
