"""tcgen05.mma.sp: a sparse A, of which half is stored, and the metadata that say where its elements belong.

Four bits say it for a chunk of a row: of 4 elements two are stored, of tf32 one of 2, of four-bit elements two pairs of
8. Elements of up to 8 bits have 64 bits of metadata in the lane of their row, chunk after chunk. Wider ones have 32, of
which 16 lie in each of two lanes: of 16 rows those below 8 have the lower half of their words, in the lanes of these
rows for the first half of k and 8 lanes on for the second; the other rows have the upper half. The selector is added to
the address. (PTX ISA, "Sparse Matrices"; the layouts are those of CUTLASS, tmem_e_frg and tmem_e_frg_ws.)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import get, load_u32
from warplab.emulator.core.state.tensor_layout import O_DESCRIPTOR, O_METADATA
from warplab.emulator.core.tensor_memory.asked import bits_of, by_nibbles, element_of, kind_of
from warplab.emulator.core.tensor_memory.matrices import lane_of_row
from warplab.emulator.core.tensor_memory.places import column_of, host_of, lane_of

_NEIGHBOURS = 8  # rows whose metadata have the same half of their words


@compiled
def metadata_column(operation):
    """The first column of the metadata."""
    wide = element_of(kind_of(operation)) > 1
    return column_of(get(operation, O_METADATA)) + (bits_of(get(operation, O_DESCRIPTOR), 0, 2) if wide else 0)


@compiled
def metadata_columns(operation):
    """How many columns the metadata take."""
    return np.int64(1) if element_of(kind_of(operation)) > 1 else np.int64(2)


@compiled
def _chunk(owner, operation, rows, parts, part, row, chunk):
    """The four bits for a chunk of a row; each part has metadata in lanes of its own."""
    first, column = lane_of(get(operation, O_METADATA)), metadata_column(operation)
    if element_of(kind_of(operation)) > 1:
        group = row // (2 * _NEIGHBOURS) * 2 * _NEIGHBOURS
        lane = lane_of_row(rows, parts, first, group) + row % _NEIGHBOURS + chunk // 4 * _NEIGHBOURS
        bit = row // _NEIGHBOURS % 2 * 16 + chunk % 4 * 4
    else:
        lane, column, bit = lane_of_row(rows, parts, first, row), column + chunk // 8, chunk % 8 * 4
    return np.int64(load_u32(host_of(owner, lane + part * rows, column)) >> np.uint32(bit)) & 15


@compiled
def find_places(owner, operation, parts, part, places):
    """For each stored element [row, element] the place along k that it belongs to."""
    kind, rows = kind_of(operation), np.int64(places.shape[0])
    for row in range(rows):
        for element in range(places.shape[1]):
            if element_of(kind) == 4:
                indices = _chunk(owner, operation, rows, parts, part, row, element)
                places[row, element] = 2 * element + (indices >> 1 & 1)
            elif by_nibbles(kind):
                indices = _chunk(owner, operation, rows, parts, part, row, element // 4)
                pair = indices >> (element // 2 % 2 * 2) & 3
                places[row, element] = element // 4 * 8 + 2 * pair + element % 2
            else:
                indices = _chunk(owner, operation, rows, parts, part, row, element // 2)
                places[row, element] = element // 2 * 4 + (indices >> (element % 2 * 2) & 3)


@compiled
def pick(b, places, row, picked):
    """Those elements of B that meet a row's stored ones."""
    for j in range(b.shape[0]):
        for element in range(places.shape[1]):
            picked[j, element] = b[j, places[row, element]]
