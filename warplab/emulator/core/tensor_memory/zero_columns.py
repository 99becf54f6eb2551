"""The zero-column mask descriptor of tcgen05.mma.ws: which columns of B count as zero.

Each of the 128 / m parts of D's columns has a mask of its own, in which runs of columns that are used (0) and of zeros
(1) take turns:

    bits 0-31   for each part, 8 bits: how many bits of the pattern are left out at its start
    bits 32-35  for each part: 1 if the pattern starts with zeros
    bit 39      0: every column is used
    bits 40-47  columns of a run of zeros, less 1
    bits 48-55  columns of a run that is used, less 1
    bits 56-61  by how many columns B is shifted: the first that is read

(PTX ISA, "Zero-Column Mask Descriptor". Its table swaps the two runs; these are as in its examples.)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled


@compiled
def column_shift(descriptor):
    """The first column of B that is read."""
    return (descriptor >> 56) & 63


@compiled
def is_zero_column(descriptor, parts, columns, column):
    """Does a column of D, of `columns` in `parts` parts, get a column of zeros from B?"""
    if not descriptor >> 39 & 1:
        return False
    part, place = column // (columns // parts), column % (columns // parts)
    zeros, used = ((descriptor >> 40) & 0xFF) + 1, ((descriptor >> 48) & 0xFF) + 1
    turn = (place + ((descriptor >> (8 * part)) & 0xFF)) % (zeros + used)
    return turn < zeros if descriptor >> (32 + part) & 1 else turn >= used


@compiled
def clear_zero_columns(b, descriptor, parts):
    """Make those rows of B transposed zero."""
    for column in range(b.shape[0]):
        if is_zero_column(descriptor, parts, np.int64(b.shape[0]), column):
            b[column, :] = 0
