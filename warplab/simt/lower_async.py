"""Handlers for asynchronous copies."""

from __future__ import annotations

from warplab.simt.layout import (
    COPY_ALL,
    COPY_COMMIT,
    COPY_SOME,
    COPY_UNLESS,
    COPY_WAIT_ALL,
    COPY_WAIT_GROUP,
    OP_COPY,
    OP_COPY_GROUP,
)
from warplab.simt.lower import Lowering, Unsupported, handles
from warplab.simt.lower_memory import address_row
from warplab.simt.program import make_record
from warplab.simt.ptx import Immediate, Instruction, Negated, Operand, Register

_PREFETCHES = ("L2__64B", "L2__128B", "L2__256B")
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


@handles("cp")
def copy(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if parts[1] != "async":
        raise Unsupported
    form = parts[2:]
    if form == ["commit_group"]:
        lowering.emit(make_record(OP_COPY_GROUP, extra=(COPY_COMMIT,)))
    elif form == ["wait_all"]:
        lowering.emit(make_record(OP_COPY_GROUP, extra=(COPY_WAIT_ALL,)))
    elif form == ["wait_group"]:
        lowering.emit(make_record(OP_COPY_GROUP, imm=_number(instruction.operands[0]), extra=(COPY_WAIT_GROUP,)))
    else:
        _copy(lowering, instruction, form)


def _number(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported
    return operand.value


def _copy(lowering: Lowering, instruction: Instruction, form: list[str]) -> None:
    """cp.async.{ca|cg}.shared.global [target], [source], bytes{, bytes to read | predicate}{, cache policy}."""
    if form[0] not in _SIZES or form[1] not in ("shared", "shared__cta") or form[2] != "global":
        raise Unsupported
    hinted = "L2__cache_hint" in form
    if any(part not in (*_PREFETCHES, "L2__cache_hint") for part in form[3:]):
        raise Unsupported
    operands = list(instruction.operands)
    if hinted:
        operands.pop()
    target, target_offset = address_row(lowering, operands[0])
    source, source_offset = address_row(lowering, operands[1])
    size = _number(operands[2])
    if size not in _SIZES[form[0]]:
        raise Unsupported
    meaning, row = COPY_ALL, 0
    if len(operands) > 3:
        last = operands[3]
        predicate = isinstance(last, Negated) or isinstance(last, Register) and lowering.width(last) == 1
        meaning, row = COPY_UNLESS if predicate else COPY_SOME, lowering.source(last, "pred" if predicate else "b32")
    extra = (size, meaning, 1 if form[0] == "cg" else 0, source_offset)
    lowering.emit(make_record(OP_COPY, 0, target, source, row, imm=target_offset, extra=extra))
