"""Emitters of clusterlaunchcontrol: see core/asynchronous/launch_control.py for the answer's form."""

from __future__ import annotations

from warplab.emulator.core.state.layout import CANCEL_X_BITS, CANCEL_Y_BITS, OP_CANCEL
from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.emulator.lowering.memory import address_row
from warplab.emulator.program import make_record
from warplab.isa.syntax import Group, Instruction, Operand, Sink

_COMPLETES = "mbarrier__complete_tx__bytes"
_AXES = "xyz"


def try_cancel(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [answer], [mbar]."""
    rest = [part for part in parts[3:] if part not in ("shared__cta", "multicast__cluster__all")]
    if parts[2:3] != ["async"] or rest != [_COMPLETES, "b128"]:
        raise Unsupported
    place, mbarrier = instruction.operands
    row, offset = address_row(lowering, place)
    flag, flag_offset = address_row(lowering, mbarrier)
    extra = (int("multicast__cluster__all" in parts), int("shared__cta" not in parts), 0, flag_offset)
    lowering.emit(make_record(OP_CANCEL, 0, row, 0, flag, imm=offset, extra=extra))
    lowering.parallel = False  # which clusters are left is one thing that all of them know


def query_cancel(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """query_cancel.is_canceled.pred.b128, or .get_first_ctaid.v4.b32.b128 and ::x, ::y, ::z.b32.b128, of an answer."""
    destination, answer = instruction.operands
    row = lowering.source(answer, "b128")  # the first eight bytes
    if parts[2:] == ["is_canceled", "pred", "b128"]:
        low = lowering.temporary(32)
        lowering.vector("low.i32", low, row)
        lowering.vector("setp.lt.s32", lowering.target(destination, "pred"), low, lowering.constant(32, 0))
    elif parts[2:] == ["get_first_ctaid", "v4", "b32", "b128"] and isinstance(destination, Group):
        for axis, target in zip(_AXES, destination.items, strict=False):
            _take(lowering, row, axis, target)
    elif parts[2].startswith("get_first_ctaid__") and parts[3:] == ["b32", "b128"]:
        _take(lowering, row, parts[2][-1], destination)
    else:
        raise Unsupported


def _take(lowering: Lowering, row: int, axis: str, target: Operand) -> None:
    """A coordinate of the first block of the cluster that was cancelled."""
    if isinstance(target, Sink):
        return
    place, half = lowering.target(target, "b32"), lowering.temporary(32)
    lowering.vector("low.i32" if axis == "x" else "high.i32", half, row)
    if axis == "z":
        lowering.vector("shr.u32", place, half, lowering.constant(32, CANCEL_Y_BITS))
    else:
        bits = CANCEL_X_BITS if axis == "x" else CANCEL_Y_BITS
        lowering.vector("and.i32", place, half, lowering.constant(32, (1 << bits) - 1))
