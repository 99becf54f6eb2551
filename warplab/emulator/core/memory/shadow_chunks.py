"""The shadow of shared memory, eight words at a time: what a warp does most is read and write neighbouring words in
order, and then one comparison of vectors says that nothing is wrong with any of them.

A chunk is the shadow of eight words of 4 bytes: for each field the eight values side by side. `shadow` has the rules;
the two functions here know when they are kept for certain, and else leave a chunk as it is.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from warplab.emulator.core.alu.lanes import I1, I8, I32, store_where
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.raw import intrinsic

WORDS = 8
CHUNK_SPAN = 4 * WORDS  # bytes of shared memory
_FIELDS = 14
_FIELD_BYTES = 4 * WORDS
CHUNK_BYTES = _FIELDS * _FIELD_BYTES
# Byte offsets in a chunk. A tag packs pc (19 bits), the warp's number in its cluster (9) and the bytes touched (4).
WRITE_CLOCK, WRITE_TAG, VALID, READ1_CLOCK, READ1_TAG, READ2_CLOCK, READ2_TAG = range(0, 7 * _FIELD_BYTES, _FIELD_BYTES)
# Lanes are four bytes, 255 for more than one lane; the tag of the last read is for the rules inside a warp only.
WRITE_LANES, WRITE_EPOCH, READ_LANES, READ_EPOCH, READ_TAG = range(7 * _FIELD_BYTES, 12 * _FIELD_BYTES, _FIELD_BYTES)
PENDING = 12 * _FIELD_BYTES  # the tag of an asynchronous copy that may still write the word; 0: none
SOURCE = 13 * _FIELD_BYTES  # the tag of a bulk copy that may still read the word; 0: none
OLDER = 1 << 16  # in VALID: `older_writes` has earlier writes to bytes that the last one left alone
TAG_PC, TAG_WARPS = 13, (1 << 9) - 1
_TAG_PCS = (1 << 19) - 1
PRODUCTS = 1 << 30  # a read's clock from here on: a product's number beyond that, with its warpgroup's first warp
_WORDS = ir.VectorType(I32, WORDS)
_FLAGS = ir.VectorType(I1, WORDS)


@compiled
def word_at(shadow, index):
    """The shadow of the index-th word: where its first field lies."""
    return shadow + (index >> 3) * CHUNK_BYTES + (index & 7) * 4


@compiled
def tag_of(pc, warp, touched):
    """The tag of an access of a warp to some bytes of a word."""
    return np.int32((pc << TAG_PC) | (warp << 4) | touched)


@compiled
def pc_of(tag):
    """The instruction that left a tag."""
    return (np.int64(tag) >> TAG_PC) & _TAG_PCS


@compiled
def warp_of(tag):
    """The number in its cluster of the warp that left a tag."""
    return (np.int64(tag) >> 4) & TAG_WARPS


def _constant(number: int) -> ir.Constant:
    return ir.Constant(_WORDS, [number] * WORDS)


class _Chunk:
    """The code for one access to a chunk: its arguments as vectors, and the comparisons that both kinds need."""

    def __init__(self, builder: ir.IRBuilder, arguments: list[ir.Value]) -> None:
        self.builder = builder
        chunk, active, known, mine, epoch, whole, tag, lanes, step, shift, place = arguments
        self._chunk = chunk
        self.active = builder.bitcast(builder.trunc(active, I8), _FLAGS)
        self.known, self.mine, self.tag = (self._splat(value) for value in (known, mine, tag))
        self.epoch, self._whole = self._splat(epoch), self._splat(whole)
        places = builder.add(self._splat(place), ir.Constant(_WORDS, list(range(WORDS))))
        steps = builder.mul(builder.lshr(places, self._splat(shift)), self._splat(step))
        self.lanes = builder.add(self._splat(lanes), steps)
        self.several = builder.icmp_unsigned("==", self.lanes, _constant(-1))

    def _splat(self, value: ir.Value) -> ir.Value:
        vector = self.builder.insert_element(
            ir.Constant(_WORDS, ir.Undefined), self.builder.trunc(value, I32), ir.Constant(I32, 0)
        )
        return self.builder.shuffle_vector(vector, vector, _constant(0))

    def _pointer(self, field: int) -> ir.Value:
        address = self.builder.add(self._chunk, ir.Constant(self._chunk.type, field))
        return self.builder.inttoptr(address, _WORDS.as_pointer())

    def load(self, field: int) -> ir.Value:
        return self.builder.load(self._pointer(field), align=4)

    def store(self, where: ir.Value, values: dict[int, ir.Value]) -> None:
        store_where(self.builder, where, [(value, self._pointer(field)) for field, value in values.items()], align=4)

    def is_zero(self, field: int) -> ir.Value:
        return self.builder.icmp_unsigned("==", self.load(field), _constant(0))

    def has(self, field: int, bits: int, among: int) -> ir.Value:
        """Are of some bits of a field just these set?"""
        return self.builder.icmp_unsigned("==", self.builder.and_(self.load(field), _constant(among)), _constant(bits))

    def same_warp(self, tag: int) -> ir.Value:
        differing = self.builder.and_(self.builder.xor(self.load(tag), self.tag), _constant(TAG_WARPS << 4))
        return self.builder.icmp_unsigned("==", differing, _constant(0))

    def same_instruction(self, tag: int) -> ir.Value:
        differing = self.builder.lshr(self.builder.xor(self.load(tag), self.tag), _constant(4))
        return self.builder.icmp_unsigned("==", differing, _constant(0))

    def ordered(self, clock: int, tag: int) -> ir.Value:
        """Was the access before the last moment that this warp knows of every other, or made by this warp?"""
        when = self.load(clock)
        before = self.builder.icmp_signed("<=", when, self.known)
        by_warp = self.builder.icmp_signed("<", when, _constant(PRODUCTS))
        return self.builder.or_(before, self.builder.and_(by_warp, self.same_warp(tag)))

    def this_epoch(self, epoch: int) -> ir.Value:
        return self.builder.icmp_unsigned("==", self.load(epoch), self.epoch)

    def other_lanes(self, lanes: int) -> ir.Value:
        return self.builder.or_(self.builder.icmp_unsigned("!=", self.load(lanes), self.lanes), self.several)

    def read_conflict(self) -> ir.Value:
        """Another lane of this warp has read in the same epoch, by another instruction."""
        return self._conflict(self.this_epoch(READ_EPOCH), READ_TAG, READ_LANES)

    def write_conflict(self) -> ir.Value:
        """Another lane of this warp has written since memory was in order, by another instruction."""
        since = self.builder.icmp_signed(">=", self.load(WRITE_EPOCH), self._whole)
        return self._conflict(since, WRITE_TAG, WRITE_LANES)

    def _conflict(self, since: ir.Value, tag: int, lanes: int) -> ir.Value:
        both = self.builder.and_(since, self.same_warp(tag))
        both = self.builder.and_(both, self.builder.not_(self.same_instruction(tag)))
        return self.builder.and_(both, self.other_lanes(lanes))

    def all_active(self, conditions: list[ir.Value]) -> ir.Value:
        """Do the conditions hold for every active word?"""
        together = conditions[0]
        for condition in conditions[1:]:
            together = self.builder.and_(together, condition)
        wrong = self.builder.bitcast(self.builder.and_(self.builder.not_(together), self.active), I8)
        return self.builder.icmp_unsigned("==", wrong, ir.Constant(I8, 0))


_ARGUMENTS = [types.int64] * 11


@intrinsic
def read_chunk(typingctx, chunk, active, known, mine, epoch, whole, tag, lanes, step, shift, place):
    """Check and record a read of whole words of a chunk; False if it is not certain to be right, nothing is done then.

    `active` has a bit for each word. `known`: up to which clock the warp knows all others; `mine`: its own clock;
    `whole`: the epoch in which its lanes' memory was last in order. The word at `place` + i is read by the lanes
    `lanes + (i >> shift) * step`.
    """

    def codegen(context, builder, signature, args):
        words = _Chunk(builder, args)
        again = builder.and_(words.this_epoch(READ_EPOCH), words.same_warp(READ_TAG))
        clean = words.all_active(
            [
                words.has(VALID, 15, 15 | OLDER),
                words.is_zero(PENDING),
                words.ordered(WRITE_CLOCK, WRITE_TAG),
                builder.not_(words.write_conflict()),
                builder.or_(builder.not_(again), words.has(READ_TAG, 15, 15)),
            ]
        )
        with builder.if_then(clean, likely=True):
            # The lanes of one load come here one after the other, and others of this epoch have read as well.
            shared = builder.and_(again, words.other_lanes(READ_LANES))
            first = words.ordered(READ1_CLOCK, READ1_TAG)
            second = builder.and_(words.active, builder.not_(first))
            first = builder.and_(words.active, first)
            lanes = builder.select(shared, _constant(-1), words.lanes)
            words.store(words.active, {READ_LANES: lanes, READ_EPOCH: words.epoch, READ_TAG: words.tag})
            words.store(first, {READ1_CLOCK: words.mine, READ1_TAG: words.tag})
            words.store(second, {READ2_CLOCK: words.mine, READ2_TAG: words.tag})
        return clean

    return types.boolean(*_ARGUMENTS), codegen


@intrinsic
def write_chunk(typingctx, chunk, active, known, mine, epoch, whole, tag, lanes, step, shift, place):
    """The same for a write."""

    def codegen(context, builder, signature, args):
        words = _Chunk(builder, args)
        clean = words.all_active(
            [
                words.is_zero(SOURCE),
                words.is_zero(PENDING),
                words.has(VALID, 0, OLDER),
                words.ordered(WRITE_CLOCK, WRITE_TAG),
                words.ordered(READ1_CLOCK, READ1_TAG),
                words.ordered(READ2_CLOCK, READ2_TAG),
                builder.not_(words.read_conflict()),
                builder.not_(words.write_conflict()),
            ]
        )
        with builder.if_then(clean, likely=True):
            written = {WRITE_CLOCK: words.mine, WRITE_TAG: words.tag, WRITE_LANES: words.lanes}
            words.store(words.active, written | {WRITE_EPOCH: words.epoch, VALID: _constant(15)})
        return clean

    return types.boolean(*_ARGUMENTS), codegen
