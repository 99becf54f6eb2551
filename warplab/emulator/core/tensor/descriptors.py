"""Matrix descriptors: where wgmma finds a matrix in shared memory.

A matrix is made of pieces of 16 bytes. K-major, a piece holds neighbours along k of one row (of A) or column (of B);
MN-major, neighbours along m or n of one k. A descriptor has four numbers, all in bytes: the start, the leading offset,
the stride offset and the swizzle, under which eight lines of 32, 64 or 128 bytes have their pieces exchanged: the
number of the piece in its line is XORed with the number of the line. (PTX ISA, "Matrix Descriptor Format" and
"Canonical Layouts" of the asynchronous warpgroup-level matrix instructions.)

    bits 0-13   start >> 4               bits 49-51  base offset: in which line the pattern starts
    bits 16-29  leading offset >> 4      bits 62-63  swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
    bits 32-45  stride offset >> 4
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled

PIECE_BYTES = 16
_FIELD = 0x3FFF
_ADDRESS_MASK = (1 << 18) - 1


@compiled
def piece_address(descriptor, transposed, row, part):
    """The shared address of one piece of a matrix.

    K-major: `part` 0 or 1, along k, of row `row`. MN-major (`transposed`): rows `row` to `row` + 7, a multiple of 8, of
    k = `part`.
    """
    start = (descriptor & _FIELD) << 4
    leading = ((descriptor >> 16) & _FIELD) << 4
    stride = ((descriptor >> 32) & _FIELD) << 4
    swizzle = (descriptor >> 62) & 3
    pieces = np.int64(1) if swizzle == 0 else np.int64(16) >> swizzle  # in a line
    if transposed:
        group, line, lines = row >> 3, part & 7, part >> 3
        if swizzle == 0:
            address = start + group * stride + line * PIECE_BYTES + lines * leading
        else:
            within = group % pieces * PIECE_BYTES + line * pieces * PIECE_BYTES
            address = start + group // pieces * leading + within + lines * stride
    else:
        line, lines = row & 7, row >> 3
        step = leading if swizzle == 0 else np.int64(PIECE_BYTES)
        address = start + line * pieces * PIECE_BYTES + lines * stride + part * step
    address &= _ADDRESS_MASK
    number = (address >> 7) - ((descriptor >> 49) & 7)
    return address ^ ((number & (pieces - 1)) << 4)
