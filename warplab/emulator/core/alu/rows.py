"""Whole-row helpers for compiled code that vectorise where a loop over raw addresses would not."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from warplab.emulator.core.alu.lanes import I1, I32, I64, INT, LANES, store_where
from warplab.emulator.core.state.raw import intrinsic

_COUNT_UP = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))


def _broadcast(builder: ir.IRBuilder, value: ir.Value, element: ir.Type) -> ir.Value:
    vector = ir.Constant(ir.VectorType(element, LANES), ir.Undefined)
    vector = builder.insert_element(vector, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _row(builder: ir.IRBuilder, address: ir.Value, element: ir.Type) -> ir.Value:
    return builder.inttoptr(address, ir.VectorType(element, LANES).as_pointer())


@intrinsic
def lanes_matching(typingctx, row, start, step):
    """The lanes of a row of 64-bit addresses that hold `start + lane * step`, as a mask."""

    def codegen(context, builder, signature, args):
        address, start_value, step_value = args
        expected = builder.add(
            _broadcast(builder, start_value, I64), builder.mul(_broadcast(builder, step_value, I64), _COUNT_UP)
        )
        actual = builder.load(_row(builder, address, I64), align=4)
        return builder.bitcast(builder.icmp_unsigned("==", actual, expected), I32)

    return types.uint32(types.int64, types.int64, types.int64), codegen


@intrinsic
def lanes_spaced(typingctx, row, step):
    """The lanes of a row of 64-bit addresses behind which the next lane's lies `step` bytes, as a mask; not lane 31."""

    def codegen(context, builder, signature, args):
        actual = builder.load(_row(builder, args[0], I64), align=4)
        following = ir.Constant(ir.VectorType(I32, LANES), [min(lane + 1, LANES - 1) for lane in range(LANES)])
        apart = builder.sub(builder.shuffle_vector(actual, actual, following), actual)
        spaced = builder.bitcast(builder.icmp_unsigned("==", apart, _broadcast(builder, args[1], I64)), I32)
        return builder.and_(spaced, ir.Constant(I32, (1 << LANES - 1) - 1))

    return types.uint32(types.int64, types.int64), codegen


@intrinsic
def lanes_in_window(typingctx, row, offset, bits):
    """The lanes of a row of 64-bit addresses with `0 <= address + offset < 2 ** bits`, as a mask."""

    def codegen(context, builder, signature, args):
        actual = builder.load(_row(builder, args[0], I64), align=4)
        moved = builder.lshr(builder.add(actual, _broadcast(builder, args[1], I64)), _broadcast(builder, args[2], I64))
        return builder.bitcast(builder.icmp_unsigned("==", moved, ir.Constant(moved.type, None)), I32)

    return types.uint32(types.int64, types.int64, types.int64), codegen


def _make_fill(bits: int):
    element = INT[bits]

    def implementation(typingctx, row, value, mask):
        def codegen(context, builder, signature, args):
            pointer = _row(builder, args[0], element)
            number = args[1] if bits == 64 else builder.trunc(args[1], element)
            new = _broadcast(builder, number, element)
            active = builder.bitcast(args[2], ir.VectorType(I1, LANES))
            store_where(builder, active, [(new, pointer)], align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64, types.uint32), codegen

    implementation.__name__ = f"fill_row{bits}"
    return intrinsic(implementation)


fill_row16, fill_row32, fill_row64 = (_make_fill(bits) for bits in (16, 32, 64))
