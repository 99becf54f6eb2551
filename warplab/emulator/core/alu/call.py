"""The call of a vector operation from compiled code, through a table that is compiled by itself."""

from __future__ import annotations

from numba import types

from warplab.emulator.core.alu.lanes import ADDRESS, FUNCTION
from warplab.emulator.core.state.raw import intrinsic


@intrinsic
def call_vector(typingctx, table, position, frame, constants, record, mask):
    """Run vector operation `position` of the table on a warp: addresses of its frame, the constant bank, the record."""

    def codegen(context, builder, signature, args):
        entries = builder.inttoptr(args[0], FUNCTION.as_pointer().as_pointer())
        function = builder.load(builder.gep(entries, [args[1]]))
        builder.call(function, [*(builder.inttoptr(a, ADDRESS) for a in args[2:5]), args[5]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5, types.uint32), codegen
