"""Emitters of bulk and tensor copies, called by that of `cp`: see bulk_layout.py for what they emit."""

from __future__ import annotations

from warplab.emulator.core.state.bulk_layout import (
    BULK_COMMIT,
    BULK_WAIT,
    FORM_KIND_SHIFT,
    FORM_OPERATION_SHIFT,
    FORM_PAIR,
    FORM_RANK_SHIFT,
    FORM_ROWS,
    FORM_SIZE_SHIFT,
    TO_GLOBAL,
    TO_SHARED,
    WITHIN_CLUSTER,
)
from warplab.emulator.core.state.layout import (
    ATOMIC_ADD,
    ATOMIC_AND,
    ATOMIC_DEC,
    ATOMIC_INC,
    ATOMIC_MAX,
    ATOMIC_MIN,
    ATOMIC_OR,
    ATOMIC_XOR,
    KIND_BF16,
    KIND_F16,
    KIND_FLOAT,
    KIND_SIGNED,
    KIND_UNSIGNED,
    OP_BULK,
    OP_BULK_GROUP,
    OP_NOP,
    OP_ROWS,
)
from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.emulator.lowering.memory import address_row
from warplab.emulator.program import make_record
from warplab.isa.syntax import Address, Group, Immediate, Instruction, Operand

_OPERATIONS = {
    "add": ATOMIC_ADD, "min": ATOMIC_MIN, "max": ATOMIC_MAX, "inc": ATOMIC_INC, "dec": ATOMIC_DEC,
    "and": ATOMIC_AND, "or": ATOMIC_OR, "xor": ATOMIC_XOR,
}  # fmt: skip
_KINDS = {
    "u32": KIND_UNSIGNED, "u64": KIND_UNSIGNED, "b32": KIND_UNSIGNED, "b64": KIND_UNSIGNED, "s32": KIND_SIGNED,
    "s64": KIND_SIGNED, "f16": KIND_F16, "bf16": KIND_BF16, "f32": KIND_FLOAT, "f64": KIND_FLOAT,
}  # fmt: skip
# Which types an operation has (PTX ISA, cp.reduce.async.bulk); those within a cluster are integers only.
_TYPES = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
_TYPES_WITHIN = ("u32", "s32", "u64", "b32")
_SHARED = ("shared__cluster", "shared__cta")
_COMPLETES = "mbarrier__complete_tx__bytes"
_HINT, _MULTICAST = "L2__cache_hint", "multicast__cluster"
_ROWS_APART = ("tile__gather4", "tile__scatter4")
_ROWS_RANK, _ROWS_COORDINATES = 2, 5
_IGNORED = ("tile", "cta_group__1")  # forms of later architectures that change nothing here
PAIR = "cta_group__2"


def bulk(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """`cp.async.bulk...`, `cp.reduce.async.bulk...`."""
    reduces = parts[1] == "reduce"
    form = parts[4:] if reduces else parts[3:]
    if form[0] == "commit_group":
        lowering.emit(make_record(OP_BULK_GROUP, extra=(BULK_COMMIT,)))
    elif form[0] == "wait_group":
        count = instruction.operands[0]
        if not isinstance(count, Immediate) or form[1:] not in ([], ["read"]):
            raise Unsupported
        lowering.emit(make_record(OP_BULK_GROUP, imm=count.value, extra=(BULK_WAIT, 1 if form[1:] else 0)))
    elif form[0] == "prefetch":
        lowering.emit(make_record(OP_NOP))
    else:
        rank = _rank(form)
        _copy(lowering, instruction, form[2:] if rank else form, rank, reduces)


def _rank(form: list[str]) -> int:
    """Dimensions of a tensor copy; 0 for a plain one."""
    if form[0] != "tensor":
        return 0
    if form[1] not in ("1d", "2d", "3d", "4d", "5d"):
        raise Unsupported
    return int(form[1][0])


def _copy(lowering: Lowering, instruction: Instruction, form: list[str], rank: int, reduces: bool) -> None:
    pair = bool(rank) and PAIR in form
    rows_apart = rank == _ROWS_RANK and any(part in form for part in _ROWS_APART)
    if rows_apart:
        of_direction = "tile__scatter4" if form[0] == "global" else "tile__gather4"
        form = [part for part in form if part != of_direction]
    if rank:
        form = [part for part in form if part not in (*_IGNORED, PAIR)]
    (target, source), rest = form[:2], form[2:]
    hinted, multicast = _HINT in rest, _MULTICAST in rest
    rest = [part for part in rest if part not in (_HINT, _MULTICAST)]
    if target == "global" and source == "shared__cta":
        direction, completes = TO_GLOBAL, "bulk_group"
    elif target in _SHARED and source == "global":
        direction, completes = TO_SHARED, _COMPLETES
    elif target == "shared__cluster" and source == "shared__cta" and not rank:
        direction, completes = WITHIN_CLUSTER, _COMPLETES
    else:
        raise Unsupported
    if completes not in rest or (multicast and direction != TO_SHARED) or (reduces and direction == TO_SHARED):
        raise Unsupported
    rest.remove(completes)
    reduction = _reduction(rest, rank, direction) if reduces else 0
    if rest and not reduces:
        raise Unsupported
    operands = list(instruction.operands)
    if hinted:
        operands.pop()
    mask = lowering.source(operands.pop(), "b16") if multicast else 0
    to_global = direction == TO_GLOBAL
    own, other = (operands[1], operands[0]) if to_global or direction == WITHIN_CLUSTER else (operands[0], operands[1])
    coordinates = _coordinates(lowering, other, _ROWS_COORDINATES if rows_apart else rank)
    if isinstance(other, Address):
        other = Address(other.base, other.offset)
    rows = [_place(lowering, own), _place(lowering, other)]
    size = 0 if rank else lowering.source(operands[2], "b32")
    mbarrier = 0 if to_global else _place(lowering, operands[2 if rank else 3])
    if len(operands) != 2 + (not rank) + (not to_global):
        raise Unsupported  # im2col offsets, byte masks
    a, b, c, d, e = coordinates
    lowering.emit(make_record(OP_ROWS, 0, a, b, c, extra=(d, e, mask)))
    code = direction | rank << FORM_RANK_SHIFT | reduction | (FORM_PAIR if pair else 0)
    code |= FORM_ROWS if rows_apart else 0
    lowering.emit(make_record(OP_BULK, 0, *rows, size, extra=(mbarrier, 0, 0, 0, 0, 0, 0, code)))
    if reduces and to_global:
        lowering.parallel = False


def _reduction(rest: list[str], rank: int, direction: int) -> int:
    """The operation of a cp.reduce and, of a plain one, the type, as bits of the form."""
    operation = rest[0]
    if operation not in _OPERATIONS:
        raise Unsupported
    code = _OPERATIONS[operation] + 1 << FORM_OPERATION_SHIFT
    if rank:
        if len(rest) > 1:
            raise Unsupported
        return code
    kind = rest[-1]
    halves = kind in ("f16", "bf16") and operation == "add"
    if kind not in _TYPES[operation] or rest[1:-1] != (["noftz"] if halves else []):
        raise Unsupported
    if direction == WITHIN_CLUSTER and kind not in _TYPES_WITHIN:
        raise Unsupported
    return code | _KINDS[kind] << FORM_KIND_SHIFT | bits_of(kind) // 8 << FORM_SIZE_SHIFT


def _coordinates(lowering: Lowering, operand: Operand, rank: int) -> list[int]:
    """The rows of five coordinates; those that the tensor does not have are 0."""
    if not rank:
        return [0] * 5
    if not isinstance(operand, Address) or len(operand.rest) != 1 or not isinstance(operand.rest[0], Group):
        raise Unsupported
    items = operand.rest[0].items
    if len(items) != rank:
        raise Unsupported
    return [lowering.source(item, "b32") for item in items] + [0] * (5 - rank)


def _place(lowering: Lowering, operand: Operand) -> int:
    """A row with an address, its constant offset added."""
    row, offset = address_row(lowering, operand)
    if offset:
        base, row = row, lowering.temporary(64)
        lowering.vector("add.i64", row, base, lowering.constant(64, offset))
    return row
