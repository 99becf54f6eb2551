"""The table of vector operations, and the call through it from compiled code."""

from __future__ import annotations

from functools import cache

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from warplab.simt import vector_convert, vector_float, vector_integer
from warplab.simt.lanes import ADDRESS, FUNCTION, I32, I64, Lanes, Table

_TABLE_NAME = "warplab_vector_operations"


@cache
def vector_table() -> Table:
    """Every vector operation by key, in the order of the dispatch table."""
    return vector_integer.build() | vector_float.build() | vector_convert.build()


@cache
def vector_index() -> dict[str, int]:
    """The position of each vector operation in the dispatch table."""
    return {key: position for position, key in enumerate(vector_table())}


def _emit_table(module: ir.Module) -> ir.GlobalVariable:
    """All vector functions and a constant array of their addresses, once in a module."""
    if _TABLE_NAME in module.globals:
        return module.globals[_TABLE_NAME]
    functions = []
    for position, (key, emit) in enumerate(vector_table().items()):
        lanes = Lanes(module, f"vector_{position}_{key.replace('.', '_')}")
        emit(lanes)
        lanes.finish()
        functions.append(lanes.function)
    array = ir.ArrayType(FUNCTION.as_pointer(), len(functions))
    table = ir.GlobalVariable(module, array, _TABLE_NAME)
    table.initializer = ir.Constant(array, functions)
    table.global_constant = True
    table.linkage = "internal"
    return table


@intrinsic
def call_vector(typingctx, position, frame, constants, record, mask):
    """Run vector operation `position` on a warp: addresses of its frame, the constant bank and the record."""

    def codegen(context, builder, signature, args):
        table = _emit_table(builder.module)
        entry = builder.gep(table, [ir.Constant(I64, 0), args[0]])
        pointers = [builder.inttoptr(a, ADDRESS) for a in args[1:4]]
        builder.call(builder.load(entry), [*pointers, builder.trunc(args[4], I32) if args[4].type != I32 else args[4]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64, types.uint32), codegen
