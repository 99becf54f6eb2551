"""Calls the code for wgmma, which is compiled by itself, and only for kernels that have such instructions."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import types

from warplab.simt.fingerprint import source_fingerprint
from warplab.simt.layout import M_PRODUCTS, OP_WGMMA, OP_WGMMA_GROUP, OP_WGMMA_REGISTER
from warplab.simt.raw import get, intrinsic
from warplab.simt.state import compiled
from warplab.simt.wgmma_queue import access_register, check_warpgroups, clear_queues, group_products, issue_product

START, END = -1, -2  # of a block, beside the opcodes
_I64 = ir.IntType(64)
_ARGUMENTS = 8


@cache
def product_function() -> numba.core.ccallback.CFunc:
    """`run(m, what, warp, frame, constants, record, pc, mask)`, compiled on first use and kept on disk."""
    fingerprint = source_fingerprint()

    def run(m, what, warp, frame, constants, record, pc, mask):
        # The name makes the digest part of the cache's key.
        fingerprint  # noqa: B018
        if what == OP_WGMMA:
            issue_product(m, warp, frame, constants, record, pc, np.uint32(mask))
        elif what == OP_WGMMA_GROUP:
            group_products(m, warp, record)
        elif what == OP_WGMMA_REGISTER:
            access_register(m, warp, record, pc, np.uint32(mask))
        elif what == START:
            clear_queues(m)
        else:
            check_warpgroups(m)

    return numba.cfunc(types.void(*[types.int64] * _ARGUMENTS), cache=True, error_model="numpy")(run)


@intrinsic
def _call(typingctx, address, m, what, warp, frame, constants, record, pc, mask):
    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.VoidType(), [_I64] * _ARGUMENTS)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (_ARGUMENTS + 1)), codegen


@compiled
def run_product(m, what, warp, frame, constants, record, pc, mask):
    """Run an instruction of wgmma for a warp."""
    _call(get(m, M_PRODUCTS), m, what, warp, frame, constants, record, pc, np.int64(mask))


@compiled
def start_products(m):
    """Nothing is in flight, as at the start of a block."""
    if get(m, M_PRODUCTS):
        run_product(m, START, 0, 0, 0, 0, 0, 0)


@compiled
def end_products(m):
    """A block has ended: check what can only be seen then."""
    if get(m, M_PRODUCTS):
        run_product(m, END, 0, 0, 0, 0, 0, 0)
