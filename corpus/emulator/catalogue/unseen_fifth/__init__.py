"""A fifth set of kernels that the rules of counting by machine code were not made from, newer than `unseen_fourth`."""

from corpus.emulator.catalogue.unseen_fifth import (
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
    *codes.ENTRIES,
    *images.ENTRIES,
    *order.ENTRIES,
    *matrices.ENTRIES,
    *learning.ENTRIES,
    *physics.ENTRIES,
    *numba.ENTRIES,
    *numba_order.ENTRIES,
)
