"""Emitters of asynchronous copies and the mbarriers that track them."""

from __future__ import annotations

from warplab.emulator.core.state.layout import (
    COPY_ALL,
    COPY_ARRIVE,
    COPY_COMMIT,
    COPY_SOME,
    COPY_UNLESS,
    COPY_WAIT_ALL,
    COPY_WAIT_GROUP,
    MB_ARRIVE,
    MB_COMPLETE,
    MB_COUNT,
    MB_DROPS,
    MB_EXPECT,
    MB_INIT,
    MB_INVALIDATE,
    MB_RELAXED,
    MB_TEST,
    MB_TEST_PARITY,
    OP_COPY,
    OP_COPY_GROUP,
    OP_MBARRIER,
)
from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.emulator.lowering.memory import address_row
from warplab.emulator.program import make_record
from warplab.isa.syntax import Address, Immediate, Instruction, Negated, Operand, Register, Sink

_PREFETCHES = ("L2__64B", "L2__128B", "L2__256B")
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


def copy(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    form = parts[2:]
    if form == ["commit_group"]:
        lowering.emit(make_record(OP_COPY_GROUP, extra=(COPY_COMMIT,)))
    elif form == ["wait_all"]:
        lowering.emit(make_record(OP_COPY_GROUP, extra=(COPY_WAIT_ALL,)))
    elif form == ["wait_group"]:
        lowering.emit(make_record(OP_COPY_GROUP, imm=_number(instruction.operands[0]), extra=(COPY_WAIT_GROUP,)))
    elif form[:2] == ["mbarrier", "arrive"]:
        _arrive(lowering, instruction, form[2:])
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


_SHARED = ("shared", "shared__cta", "shared__cluster")
_ORDERS = ("relaxed", "acquire", "release", "cta", "cluster")


def _generic(parts: list[str]) -> int:
    """1 if the address is generic; modifiers that are not known are unsupported."""
    if parts[-1] != "b64" or any(p not in (*_SHARED, *_ORDERS) for p in parts[:-1]):
        raise Unsupported
    return 0 if any(p in _SHARED for p in parts) else 1


def _arrive(lowering: Lowering, instruction: Instruction, form: list[str]) -> None:
    """cp.async.mbarrier.arrive{.noinc}."""
    own = form[:1] == ["noinc"]
    generic = _generic(form[1:] if own else form)
    row, offset = address_row(lowering, instruction.operands[0])
    lowering.emit(make_record(OP_COPY_GROUP, 0, row, imm=offset, extra=(COPY_ARRIVE, 1 if own else 0, generic)))


def _has_fences(lowering: Lowering) -> bool:
    """Is there a memory fence in the module? One in front of a relaxed arrival releases what came before it."""
    return any(
        isinstance(item, Instruction) and item.opcode.startswith(("fence", "membar"))
        for function in lowering.module.functions.values()
        for item in function.body
    )


def mbarrier(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    action, rest, operands = parts[1], parts[2:], list(instruction.operands)
    place, value, bytes_, flags = 0, 0, 0, 0
    if action == "pending_count":
        place = lowering.target(operands[0], "b32")
        record = make_record(OP_MBARRIER, place, 0, lowering.source(operands[1], "b64"), extra=(MB_COUNT,))
        lowering.emit(record)
        return
    if action in ("arrive", "arrive_drop"):
        code = MB_ARRIVE
        flags = MB_DROPS if action == "arrive_drop" else 0
        expects = rest[:1] == ["expect_tx"]
        rest = rest[1:] if expects or rest[:1] == ["noComplete"] else rest
        if not isinstance(operands[0], Address):
            destination = operands.pop(0)
            if "shared__cluster" in rest and not isinstance(destination, Sink):
                raise Unsupported  # no state comes back from a peer
            place = 0 if isinstance(destination, Sink) else lowering.target(destination, "b64")
        amount = lowering.source(operands[1], "b32") if len(operands) > 1 else lowering.constant(32, 1)
        value, bytes_ = (lowering.constant(32, 1), amount) if expects else (amount, 0)
        flags |= MB_RELAXED if "relaxed" in rest and not _has_fences(lowering) else 0
    elif action in ("test_wait", "try_wait"):
        parity = rest[:1] == ["parity"]
        rest = rest[1:] if parity else rest
        code = MB_TEST_PARITY if parity else MB_TEST
        flags = MB_RELAXED if "relaxed" in rest else 0
        place = lowering.target(operands.pop(0), "pred")
        value = lowering.source(operands[1], "b32" if parity else "b64")
    elif action in ("expect_tx", "complete_tx"):
        code = MB_EXPECT if action == "expect_tx" else MB_COMPLETE
        bytes_ = lowering.source(operands[1], "b32")
    elif action in ("init", "inval"):
        code = MB_INIT if action == "init" else MB_INVALIDATE
        value = lowering.source(operands[1], "b32") if action == "init" else 0
    else:
        raise Unsupported
    row, offset = address_row(lowering, operands[0])
    extra = (code, flags, _generic(rest))
    lowering.emit(make_record(OP_MBARRIER, place, row, value, bytes_, imm=offset, extra=extra))
