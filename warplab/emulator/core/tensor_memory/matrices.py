"""Operands of tcgen05.mma in shared and in tensor memory, and its two kinds of descriptor.

A shared-memory descriptor has, beside what wgmma's has (see tensor/descriptors.py), a constant and another code of the
swizzle:

    bits 46-48  1                        bits 61-63  swizzle: 0 none, 1 128 bytes in pieces of 32, 2 128 bytes,
    bits 53-60  0                                    4 64 bytes, 6 32 bytes

(PTX ISA, "Shared memory descriptor", "Canonical Layouts" of tcgen05; CUTLASS, mma_sm100_desc.hpp.) Of sm_103a bit 52
says that the leading offset is an address: a row that reaches the end of its line of 128 bytes goes on there. (PTX ISA,
"Absolute address mode"; CUTLASS, sm103_blockscaled_mma_warpspecialized.hpp.)
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import M_SHARED, M_SHARED_BYTES, SHARED_BASE
from warplab.emulator.core.state.raw import get, load_u8, load_u16, load_u32
from warplab.emulator.core.state.tensor_layout import HALF_LANES, WARP_LANES
from warplab.emulator.core.tensor_memory.places import column_of, host_of, lane_of

PIECE_BYTES = 16
_FIELD = 0x3FFF
_ADDRESS_MASK = (1 << 18) - 1
_CONSTANTS = (7 << 46) | (0xFF << 53)
_ABSOLUTE = 1 << 52
_BASE_OFFSET = 7 << 49
_LINE_BYTES = 128
SWIZZLE_NONE, SWIZZLE_128_BY_32, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32 = 0, 1, 2, 4, 6


@compiled
def swizzle_of(descriptor):
    """The code of a descriptor's swizzle."""
    return (descriptor >> 61) & 7


@compiled
def is_absolute(descriptor):
    """Is the leading offset an address?"""
    return descriptor & _ABSOLUTE != 0


@compiled
def well_formed(descriptor, transposed, element):
    """Has a descriptor its constants and a swizzle that the major-ness of `element` bytes allows?"""
    swizzle = swizzle_of(descriptor)
    if descriptor & _CONSTANTS != 1 << 46 or swizzle in (3, 5, 7):
        return False
    if is_absolute(descriptor) and (swizzle != SWIZZLE_128 or descriptor & _BASE_OFFSET):
        return False
    if transposed:
        return (swizzle == SWIZZLE_128_BY_32) == (element == 4)
    return True


@compiled
def _pieces(swizzle):
    """How many pieces a line of the pattern has."""
    if swizzle == SWIZZLE_NONE:
        return np.int64(1)
    if swizzle == SWIZZLE_32:
        return np.int64(2)
    return np.int64(4) if swizzle == SWIZZLE_64 else np.int64(8)


@compiled
def element_address(descriptor, transposed, element, row, k):
    """The shared address of an element of A or of B transposed; `element` in bytes, `k` in elements."""
    start = (descriptor & _FIELD) << 4
    leading = ((descriptor >> 16) & _FIELD) << 4
    stride = ((descriptor >> 32) & _FIELD) << 4
    swizzle = swizzle_of(descriptor)
    pieces = _pieces(swizzle)
    if transposed:
        byte = row * element
        group, within = byte // PIECE_BYTES, byte % PIECE_BYTES
        if swizzle == SWIZZLE_NONE:
            address = start + group * stride + k % 8 * PIECE_BYTES + k // 8 * leading
        else:
            lines = np.int64(4) if swizzle == SWIZZLE_128_BY_32 else np.int64(8)
            address = start + group // pieces * leading + k // lines * stride
            address += group % pieces * PIECE_BYTES + k % lines * pieces * PIECE_BYTES
    else:
        byte = k * element
        part, within = byte // PIECE_BYTES, byte % PIECE_BYTES
        step = leading if swizzle == SWIZZLE_NONE else np.int64(PIECE_BYTES)
        address = start + row % 8 * pieces * PIECE_BYTES + row // 8 * stride + part * step
        if is_absolute(descriptor) and start % _LINE_BYTES + part * PIECE_BYTES >= _LINE_BYTES:
            address += leading - start // _LINE_BYTES * _LINE_BYTES - _LINE_BYTES
    address &= _ADDRESS_MASK
    number = (address >> 7) - ((descriptor >> 49) & 7)
    if swizzle == SWIZZLE_128_BY_32:
        address ^= (number & 3) << 5
    else:
        address ^= (number & (pieces - 1)) << 4
    return address + within


@compiled
def inside(m, address, size):
    """Do some bytes lie in the block's shared memory?"""
    return address >= SHARED_BASE and address + size <= get(m, M_SHARED_BYTES)


@compiled
def _element(place, element):
    if element == 1:
        return np.uint32(load_u8(place))
    if element == 2:
        return np.uint32(load_u16(place))
    return load_u32(place)


@compiled
def gather_shared(m, matrix, at, count, descriptor, first, transposed, element, flip):
    """Elements [row, k] of a matrix in shared memory, `count` rows from its row `first` on, to those from row `at` on;
    what lies outside counts as zero. `flip` is XORed into each."""
    shared = get(m, M_SHARED)
    for row in range(count):
        for k in range(matrix.shape[1]):
            address = element_address(descriptor, transposed, element, first + row, k)
            word = _element(shared + address, element) if inside(m, address, element) else np.uint32(0)
            matrix[at + row, k] = word ^ flip


@compiled
def gather_packed(m, matrix, at, count, descriptor, first, bits, flip):
    """The same of 4 or 6 bits, K-major: sixteen elements side by side at the start of each piece, then padding."""
    shared = get(m, M_SHARED)
    for row in range(count):
        for k in range(matrix.shape[1]):
            piece = element_address(descriptor, False, np.int64(1), first + row, k // PIECE_BYTES * PIECE_BYTES)
            bit = k % PIECE_BYTES * bits
            word = np.uint32(0)
            if inside(m, piece, PIECE_BYTES):
                word = np.uint32(load_u16(shared + piece + bit // 8)) >> np.uint32(bit % 8)
            matrix[at + row, k] = (word & np.uint32((1 << bits) - 1)) ^ flip


@compiled
def gather_nibbles(m, matrix, at, count, descriptor, first, flip):
    """The same of 4 bits, K-major, two in a byte."""
    shared = get(m, M_SHARED)
    for row in range(count):
        for k in range(matrix.shape[1]):
            address = element_address(descriptor, False, np.int64(1), first + row, k // 2)
            word = np.uint32(0)
            if inside(m, address, 1):
                word = np.uint32(load_u8(shared + address)) >> np.uint32(k % 2 * 4)
            matrix[at + row, k] = (word & np.uint32(15)) ^ flip


@compiled
def lane_of_row(rows, parts, first, row):
    """The lane of tensor memory that a row of A or D lies in. 64 rows take 16 lanes of each warp's 32, but where D's
    columns are divided into `parts` they lie side by side."""
    if rows == 4 * HALF_LANES and parts == 1:
        return first + row // HALF_LANES * WARP_LANES + row % HALF_LANES
    return first + row


@compiled
def halves_of(rows, parts, first):
    """The halves that the rows of a matrix lie in, as a mask; those of all its images where there are `parts`."""
    if rows == 4 * HALF_LANES and parts == 1:
        return np.int64(0xAA) if first else np.int64(0x55)
    return np.int64(0xFF)


@compiled
def gather_memory(m, matrix, parts, part, address, element, nibbles, bits, shifted, flip):
    """Elements [row, k] of A in tensor memory, packed into its words: two of four bits in a byte (`nibbles`), or one of
    `bits` bits, 0 for all of its bytes. The places of four and six bits in a byte are those of mma.sync. `part`: which
    of the images is read; `shifted`: each row but the last is the one behind it."""
    rows, depth = matrix.shape
    for row in range(rows):
        source = min(row + 1, rows - 1) if shifted else row
        lane = lane_of_row(rows, parts, lane_of(address), source) + part * rows
        place = host_of(m, lane, column_of(address))
        for k in range(depth):
            if nibbles:
                word = np.uint32(load_u8(place + k // 2)) >> np.uint32(k % 2 * 4) & np.uint32(15)
            elif bits:
                word = np.uint32(load_u8(place + k)) >> np.uint32(6 - bits) & np.uint32((1 << bits) - 1)
            else:
                word = _element(place + k * element, element)
            matrix[row, k] = word ^ flip
