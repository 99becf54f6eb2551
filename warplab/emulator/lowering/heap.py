"""malloc and free of kernels: a heap in global memory, which the execution's launches of one module share.

Blocks are taken from its start on and never given back: a kernel that allocates in a loop uses it up, and then gets
null pointers, as on a GPU whose heap is full.
"""

from __future__ import annotations

from warplab.emulator.core.state.layout import (
    ATOMIC_ADD,
    KIND_UNSIGNED,
    OP_NOP,
    OP_STORE,
    SPACE_GLOBAL,
    SPACE_PARAM,
)
from warplab.emulator.core.state.races_layout import SCOPE_GPU
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.lowering.memory import atomic_record
from warplab.emulator.program import make_record
from warplab.isa.syntax import Symbol, Variable

HEAP_BYTES = 16 << 20  # the driver's has 8 MiB, but reuses them
_ALIGNMENT = 16
_HEAP = Variable("the heap of the kernel's malloc", "global", HEAP_BYTES, _ALIGNMENT)
_USED = Variable("the size of that heap", "global", 8, 8)


def allocate(lowering: Lowering, name: str, arguments: list[int], results: list[Symbol]) -> None:
    """Emit a call of malloc or free with its arguments in rows."""
    lowering.notes["malloc"] = f"The emulator's heap for malloc has {HEAP_BYTES >> 20} MiB, and free gives none back."
    if name == "free":
        lowering.emit(make_record(OP_NOP))
        return
    lowering.parallel = False
    for variable in (_HEAP, _USED):
        lowering.module.variables[variable.name] = variable
    (size,), (result,) = arguments, results
    rounded, old, end, pointer = (lowering.temporary(64) for _ in range(4))
    fits = lowering.temporary(1)
    # What is larger than the heap takes nothing from it.
    lowering.vector("setp.le.u64", fits, size, lowering.constant(64, HEAP_BYTES))
    lowering.vector("add.i64", rounded, size, lowering.constant(64, 2 * _ALIGNMENT - 1))
    lowering.vector("and.i64", rounded, rounded, lowering.constant(64, -_ALIGNMENT))
    lowering.vector("selp.i64", rounded, rounded, lowering.constant(64, 0), extra=(fits,))
    used = lowering.bank.row(64, ("symbol", _USED.name, 0))
    form = SPACE_GLOBAL, 8, ATOMIC_ADD, KIND_UNSIGNED
    lowering.emit(atomic_record(form, SCOPE_GPU, old, used, rounded, requested=8))
    lowering.vector("add.i64", end, old, rounded)
    lowering.vector("add.i64", pointer, old, lowering.bank.row(64, ("symbol", _HEAP.name, 0)))
    lowering.vector("selp.i64", pointer, pointer, lowering.constant(64, 0), extra=(fits,))
    lowering.vector("setp.le.u64", fits, end, lowering.constant(64, HEAP_BYTES))
    lowering.vector("selp.i64", pointer, pointer, lowering.constant(64, 0), extra=(fits,))
    place = lowering.symbol(result, 64)
    lowering.emit(make_record(OP_STORE, 0, place, pointer, extra=(SPACE_PARAM, 8, 1, 8)))
