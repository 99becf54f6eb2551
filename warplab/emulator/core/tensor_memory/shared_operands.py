"""What the tensor core reads of shared memory, for the sanitizer: from its issue until it is done."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.cluster_memory import mapped
from warplab.emulator.core.memory.in_flight import end_source, start_source
from warplab.emulator.core.memory.shadow import check_async_read, check_read
from warplab.emulator.core.state.faults import compiled, report
from warplab.emulator.core.state.layout import FAULT_OUT_OF_BOUNDS, M_RANK, M_SHARED_SHADOW, SPACE_SHARED
from warplab.emulator.core.state.raw import get
from warplab.emulator.core.tensor_memory.matrices import PIECE_BYTES, element_address, inside


@compiled
def _piece(descriptor, transposed, element, rows, width, index):
    """The shared address of the index-th piece of a matrix; K-major, a row has `width` bytes."""
    elements = PIECE_BYTES // element
    if transposed:
        groups = rows // elements
        return element_address(descriptor, True, element, index % groups * elements, index // groups)
    parts = width // PIECE_BYTES
    return element_address(descriptor, False, element, index // parts, index % parts * elements)


@compiled
def _is_read(transposed, element, rows, width, index, first):
    """Does the index-th piece of a matrix hold something of its rows from the `first` on?"""
    elements = PIECE_BYTES // element
    if transposed:
        return index % (rows // elements) * elements + elements > first
    return index // (width // PIECE_BYTES) >= first


@compiled
def used_bytes(bits):
    """The bytes of a piece that hold elements of 4 or 6 bits, in front of its padding; of others (0) all."""
    return 2 * bits if bits else np.int64(PIECE_BYTES)


@compiled
def start_reading(m, owner, warp, descriptor, transposed, element, first, rows, width, used, pc, lane):
    """Check and note that the async proxy reads a matrix of `rows` x `width` bytes of block `owner` from now on, but
    for its rows before the `first`.

    Of each piece `used` bytes matter: a multiple of four.
    """
    for index in range(rows * width // PIECE_BYTES):
        if not _is_read(transposed, element, rows, width, index, first):
            continue
        place = _piece(descriptor, transposed, element, rows, width, index)
        address = place if owner == m else mapped(m, get(owner, M_RANK), place)
        if not inside(m, place, PIECE_BYTES):
            report(m, FAULT_OUT_OF_BOUNDS, pc, warp, lane, address, PIECE_BYTES, 0, -1, SPACE_SHARED, 0)
        elif get(m, M_SHARED_SHADOW):
            check_read(m, warp, address, 8, 8, pc, lane, 0, 0, 0)
            if used > 8:
                check_read(m, warp, address + 8, used - 8, used - 8, pc, lane, 0, 0, 0)
            check_async_read(m, warp, address, PIECE_BYTES, pc, lane)
            start_source(m, warp, address, PIECE_BYTES, pc)


@compiled
def end_reading(m, owner, warp, descriptor, transposed, element, first, rows, width, pc):
    """The matrix has been read."""
    if get(m, M_SHARED_SHADOW):
        for index in range(rows * width // PIECE_BYTES):
            if not _is_read(transposed, element, rows, width, index, first):
                continue
            place = _piece(descriptor, transposed, element, rows, width, index)
            address = place if owner == m else mapped(m, get(owner, M_RANK), place)
            if inside(m, place, PIECE_BYTES):
                end_source(m, warp, address, PIECE_BYTES, pc)
