"""Raw memory for compiled code: loads and stores at integer addresses, and small bit tricks.

The interpreter keeps its whole state in a few blocks of memory and addresses them by integers, as C would. That keeps
calls between compiled functions cheap (one pointer instead of a dozen arrays) and lets one row of registers be read as
32-bit or 64-bit values. Only addresses that the emulator itself computed are ever used here; a kernel's addresses are
first resolved by `address.py`.
"""

from __future__ import annotations

from typing import Any

import numba.extending
from llvmlite import ir
from numba import types

intrinsic: Any = numba.extending.intrinsic  # adds the typing context to every call itself

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)


def _pointer(builder, address, element):
    return builder.inttoptr(address, element.as_pointer())


def _make_load(bits: int, result: types.Type, name: str):
    element = ir.IntType(bits)

    def implementation(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.load(_pointer(builder, args[0], element), align=1)

        return result(types.int64), codegen

    implementation.__name__ = name
    return intrinsic(implementation)


def _make_store(bits: int, value_type: types.Type, name: str):
    element = ir.IntType(bits)

    def implementation(typingctx, address, value):
        def codegen(context, builder, signature, args):
            builder.store(args[1], _pointer(builder, args[0], element), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value_type), codegen

    implementation.__name__ = name
    return intrinsic(implementation)


load_u8 = _make_load(8, types.uint8, "load_u8")
load_u16 = _make_load(16, types.uint16, "load_u16")
load_i32 = _make_load(32, types.int32, "load_i32")
load_u32 = _make_load(32, types.uint32, "load_u32")
load_i64 = _make_load(64, types.int64, "load_i64")
load_u64 = _make_load(64, types.uint64, "load_u64")
store_u8 = _make_store(8, types.uint8, "store_u8")
store_u16 = _make_store(16, types.uint16, "store_u16")
store_i32 = _make_store(32, types.int32, "store_i32")
store_u32 = _make_store(32, types.uint32, "store_u32")
store_i64 = _make_store(64, types.int64, "store_i64")
store_u64 = _make_store(64, types.uint64, "store_u64")


def _make_bit_count(method: str, value: types.Type, name: str):
    """A bit-counting instruction; counting zeros of zero gives the width."""

    def implementation(typingctx, x):
        def codegen(context, builder, signature, args):
            if method == "ctpop":
                return builder.ctpop(args[0])
            return getattr(builder, method)(args[0], ir.Constant(ir.IntType(1), 0))

        return value(value), codegen

    implementation.__name__ = name
    return intrinsic(implementation)


popcount32 = _make_bit_count("ctpop", types.uint32, "popcount32")
trailing_zeros32 = _make_bit_count("cttz", types.uint32, "trailing_zeros32")
trailing_zeros64 = _make_bit_count("cttz", types.uint64, "trailing_zeros64")
leading_zeros32 = _make_bit_count("ctlz", types.uint32, "leading_zeros32")


def _make_bitcast(source: types.Type, target: types.Type, name: str):
    def implementation(typingctx, x):
        def codegen(context, builder, signature, args):
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), codegen

    implementation.__name__ = name
    return intrinsic(implementation)


f32_of_bits = _make_bitcast(types.uint32, types.float32, "f32_of_bits")
bits_of_f32 = _make_bitcast(types.float32, types.uint32, "bits_of_f32")
f64_of_bits = _make_bitcast(types.uint64, types.float64, "f64_of_bits")
bits_of_f64 = _make_bitcast(types.float64, types.uint64, "bits_of_f64")


@intrinsic
def fused_multiply_add(typingctx, a, b, c):
    """a * b + c in double precision, rounded once."""

    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


CALL_ARGUMENTS = 8


@intrinsic
def call_address(typingctx, address, a, b, c, d, e, f, g, h):
    """Call the function at an address, compiled by itself, with eight int64."""

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * CALL_ARGUMENTS)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (CALL_ARGUMENTS + 1)), codegen


def _memory_call(name: str, second: types.Type):
    def implementation(typingctx, target, source, size):
        def codegen(context, builder, signature, args):
            size_type = ir.IntType(64)
            pointer = _I8.as_pointer()
            flag = ir.Constant(ir.IntType(1), 0)
            to = builder.inttoptr(args[0], pointer)
            if name == "llvm.memset":
                function = builder.module.declare_intrinsic(name, [pointer, size_type])
                builder.call(function, [to, args[1], args[2], flag])
            else:
                function = builder.module.declare_intrinsic(name, [pointer, pointer, size_type])
                builder.call(function, [to, builder.inttoptr(args[1], pointer), args[2], flag])
            return context.get_dummy_value()

        return types.void(types.int64, second, types.int64), codegen

    implementation.__name__ = name.split(".")[1] + "_raw"
    return intrinsic(implementation)


copy_bytes = _memory_call("llvm.memcpy", types.int64)
fill_bytes = _memory_call("llvm.memset", types.uint8)


def _field_pointer(builder, base, index):
    return builder.gep(_pointer(builder, base, ir.IntType(64)), [index])


@intrinsic
def get(typingctx, base, index):
    """The index-th int64 of a state structure."""

    def codegen(context, builder, signature, args):
        return builder.load(_field_pointer(builder, *args), align=8)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def put(typingctx, base, index, value):
    """Set the index-th int64 of a state structure."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _field_pointer(builder, *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def increase(typingctx, base, index, amount):
    """Add to the index-th int64 of a state structure."""

    def codegen(context, builder, signature, args):
        pointer = _field_pointer(builder, *args[:2])
        builder.store(builder.add(builder.load(pointer, align=8), args[2]), pointer, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _record_field(builder, record, slot):
    pointer = builder.gep(_pointer(builder, record, _I32), [slot])
    return builder.sext(builder.load(pointer, align=4), ir.IntType(64))


@intrinsic
def field(typingctx, record, slot):
    """An int32 field of an instruction record."""

    def codegen(context, builder, signature, args):
        return _record_field(builder, *args)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def operand(typingctx, frame, constants, record, slot):
    """The address of an operand's row: in the frame, or in the constant bank when its offset is negative."""

    def codegen(context, builder, signature, args):
        frame_address, constants_address, record_address, slot_number = args
        offset = _record_field(builder, record_address, slot_number)
        negative = builder.icmp_signed("<", offset, ir.Constant(offset.type, 0))
        return builder.add(builder.select(negative, constants_address, frame_address), offset)

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen
