"""Sixteen elements of 4 or 6 bits in 16 bytes of shared memory, with padding behind them: unpacked to a byte each.

Those of mma.sync lie in the same bits of a byte: six in the lowest, four in the middle. (PTX ISA, "Optional
Decompression".)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import load_u8, store_u8

ELEMENTS = 16


@compiled
def unpack_piece(target, source, bits):
    """Unpack the elements of `bits` bits at a host address to bytes at another."""
    for element in range(ELEMENTS):
        first = element * bits
        pair = np.uint32(load_u8(source + first // 8)) | np.uint32(load_u8(source + first // 8 + 1)) << np.uint32(8)
        word = pair >> np.uint32(first % 8) & np.uint32((1 << bits) - 1)
        store_u8(target + element, np.uint8(word << np.uint32(6 - bits)))
