"""A fourth set of kernels that the rules of counting by machine code were not made from, newer than `unseen_third`."""

from corpus.emulator.catalogue.unseen_fourth import (
    codes,
    images,
    learning,
    matrices,
    numba,
    numba_order,
    order,
    physics,
)
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *images.ENTRIES,
    *order.ENTRIES,
    *matrices.ENTRIES,
    *learning.ENTRIES,
    *physics.ENTRIES,
    *codes.ENTRIES,
    *numba.ENTRIES,
    *numba_order.ENTRIES,
)
