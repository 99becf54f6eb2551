"""Rows of 32 entries of cells at once: are they of this thread or nobody's, and set them. See races_layout.py."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from warplab.emulator.core.alu.lanes import I32, I64, LANES
from warplab.emulator.core.state.races_layout import LANE_SHIFT, SEGMENT_SHIFT, THREAD
from warplab.emulator.core.state.raw import intrinsic

_ROW = ir.VectorType(I64, LANES)
_COUNT_UP = ir.Constant(_ROW, list(range(LANES)))


def _splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    vector = builder.insert_element(ir.Constant(_ROW, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _constant(number: int) -> ir.Constant:
    return ir.Constant(_ROW, [number] * LANES)


def _entries(builder: ir.IRBuilder, first: ir.Value, shift: ir.Value) -> ir.Value:
    """An entry for each cell: that of the first, with the lane that has the cell, `1 << shift` cells a lane."""
    lanes = builder.shl(builder.lshr(_COUNT_UP, _splat(builder, shift)), _constant(LANE_SHIFT))
    return builder.add(_splat(builder, first), lanes)


def _load(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.load(builder.inttoptr(address, _ROW.as_pointer()), align=8)


@intrinsic
def foreign_cells(typingctx, address, mine, shift, base, first):
    """The entries that are not before segment `base`, and before segment `first` or of another thread than mine."""

    def codegen(context, builder, signature, args):
        at, entry, lanes, base_segment, first_segment = args
        known = _load(builder, at)
        width = ir.Constant(I64, SEGMENT_SHIFT)
        counts = builder.icmp_signed(">=", known, _splat(builder, builder.shl(base_segment, width)))
        older = builder.icmp_signed("<", known, _splat(builder, builder.shl(first_segment, width)))
        differs = builder.and_(builder.xor(known, _entries(builder, entry, lanes)), _constant(THREAD))
        other = builder.icmp_unsigned("!=", differs, _constant(0))
        return builder.bitcast(builder.and_(counts, builder.or_(older, other)), I32)

    return types.uint32(*[types.int64] * 5), codegen


@intrinsic
def fill_cells(typingctx, address, mine, shift):
    """Set 32 entries to mine, one for each lane's cells."""

    def codegen(context, builder, signature, args):
        at, entry, lanes = args
        builder.store(_entries(builder, entry, lanes), builder.inttoptr(at, _ROW.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def cells_of(typingctx, address, owner):
    """The entries whose upper half is `owner`."""

    def codegen(context, builder, signature, args):
        upper = builder.lshr(_load(builder, args[0]), _constant(SEGMENT_SHIFT))
        return builder.bitcast(builder.icmp_unsigned("==", upper, _splat(builder, args[1])), I32)

    return types.uint32(types.int64, types.int64), codegen


@intrinsic
def cells_with(typingctx, address, bit):
    """The entries that have a bit."""

    def codegen(context, builder, signature, args):
        bits = builder.and_(_load(builder, args[0]), _splat(builder, args[1]))
        return builder.bitcast(builder.icmp_unsigned("!=", bits, _constant(0)), I32)

    return types.uint32(types.int64, types.int64), codegen
