"""A third set of kernels that the rules of counting by machine code were not made from, newer than `unseen_second`."""

from corpus.emulator.catalogue.unseen_third import bits, images, learning, matrices, numba, order, physics
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *images.ENTRIES,
    *order.ENTRIES,
    *matrices.ENTRIES,
    *learning.ENTRIES,
    *physics.ENTRIES,
    *bits.ENTRIES,
    *numba.ENTRIES,
)
