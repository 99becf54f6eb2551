"""A second set of kernels that the rules of counting by machine code were not made from, newer than `unseen`."""

from corpus.emulator.catalogue.unseen_second import bits, matrices, networks, numba, order, physics, products, sparse
from corpus.emulator.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *order.ENTRIES,
    *matrices.ENTRIES,
    *products.ENTRIES,
    *sparse.ENTRIES,
    *networks.ENTRIES,
    *physics.ENTRIES,
    *bits.ENTRIES,
    *numba.ENTRIES,
)
