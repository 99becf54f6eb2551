"""The table of vector operations."""

from __future__ import annotations

from functools import cache

from llvmlite import ir
from numba import types

from warplab.emulator.core.alu import bits, convert, floats, integers, narrow_floats, small_floats, unusual
from warplab.emulator.core.alu.lanes import FUNCTION, I64, Lanes, Table
from warplab.emulator.core.state.raw import intrinsic

_TABLE_NAME = "warplab_vector_operations"


@cache
def vector_table() -> Table:
    """Every vector operation by key, in the order of the dispatch table."""
    modules = (integers, bits, floats, small_floats, convert, narrow_floats, unusual)
    return {key: emit for module in modules for key, emit in module.build().items()}


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
def _table_address(typingctx):
    """The address of the dispatch table, which is compiled into whoever asks."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(_emit_table(builder.module), I64)

    return types.int64(), codegen


def vector_functions():
    """The address of the dispatch table, which is compiled into this function alone."""
    return _table_address()
