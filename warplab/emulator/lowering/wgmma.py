"""Emitters of the matrix products of a warpgroup."""

from __future__ import annotations

from collections.abc import Sequence

from warplab.emulator.core.state.layout import (
    FULL_MASK,
    MMA_A_SIGNED,
    MMA_B_SIGNED,
    MMA_SATURATES,
    OP_ROWS,
    OP_WGMMA,
    OP_WGMMA_GROUP,
    ROWS_PER_RECORD,
    WGMMA_A_REGISTERS,
    WGMMA_BITS,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_INTEGERS,
    WGMMA_NEGATE_A,
    WGMMA_NEGATE_B,
    WGMMA_SUM_BITS,
    WGMMA_TRANSPOSE_A,
    WGMMA_TRANSPOSE_B,
    WGMMA_WAIT,
)
from warplab.emulator.core.tensor.numerics import Kind, rule_number
from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.emulator.program import Record, make_record
from warplab.errors import PlanError
from warplab.isa.syntax import Group, Immediate, Instruction, Operand

_FLOATS = ("f16", "bf16", "tf32", "e4m3", "e5m2")
_TRANSPOSABLE = ("f16", "bf16")
_INTEGERS = ("s8", "u8")
_BIT = "b1"  # .and.popc is its only operation
_K_BYTES = 32  # of a row of A


def _need_target(lowering: Lowering, instruction: Instruction) -> None:
    if not lowering.module.target.endswith("a"):
        where = f"Line {instruction.line}" if instruction.line else f"Kernel {lowering.calls[0]}"
        raise PlanError(
            f"{where} uses wgmma, which is not part of the target {lowering.module.target}: compile for sm_90a."
        )


def order(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """wgmma.fence, .commit_group and .wait_group."""
    _need_target(lowering, instruction)
    actions = {"fence": WGMMA_FENCE, "commit_group": WGMMA_COMMIT, "wait_group": WGMMA_WAIT}
    if parts[2:] != ["sync", "aligned"]:
        raise Unsupported
    count = _number(instruction.operands[0]) if parts[1] == "wait_group" else 0
    extra = (actions[parts[1]], 0, lowering.constant(32, FULL_MASK))
    lowering.emit(make_record(OP_WGMMA_GROUP, imm=count, extra=extra))


def _number(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported
    return operand.value


def _columns(shape: str, k: int, integers: bool) -> int:
    """n of a shape m64nNkK; a shape that the type does not have is unsupported."""
    head, tail = "m64n", f"k{k}"
    if not shape.startswith(head) or not shape.endswith(tail):
        raise Unsupported
    number = shape[len(head) : -len(tail)]
    n = int(number) if number.isdecimal() else 0
    if n % 8 or not 8 <= n <= 256 or integers and n > 32 and n % 16:
        raise Unsupported
    return n


def _arithmetic(lowering: Lowering, sum_kind: str, a: str, b: str, saturates: bool) -> tuple[int, int]:
    """The rule or the flags of a product, and the flag that tells which."""
    if a in _INTEGERS:
        if b not in _INTEGERS or sum_kind != "s32":
            raise Unsupported
        signs = (MMA_A_SIGNED if a == "s8" else 0) | (MMA_B_SIGNED if b == "s8" else 0)
        return signs | (MMA_SATURATES if saturates else 0), WGMMA_INTEGERS
    if (a, b, sum_kind, saturates) == (_BIT, _BIT, "s32", False):
        return 0, WGMMA_INTEGERS
    if a not in _FLOATS or b not in _FLOATS or sum_kind not in ("f32", "f16") or saturates:
        raise Unsupported
    try:
        kinds = (Kind[name.upper()] for name in (a, b, sum_kind))
        return rule_number(lowering.module.target, "wgmma", *kinds), 0
    except ValueError:
        raise Unsupported from None


def _rows(lowering: Lowering, operand: Operand, count: int, write: bool) -> list[int]:
    if not isinstance(operand, Group) or len(operand.items) != count:
        raise Unsupported
    return [lowering.target(i, "b32") if write else lowering.source(i, "b32") for i in operand.items]


def _emit_rows(lowering: Lowering, rows: Sequence[int]) -> list[Record]:
    records = []
    for first in range(0, len(rows), ROWS_PER_RECORD):
        chunk = [*rows[first : first + ROWS_PER_RECORD]]
        chunk += [0] * (ROWS_PER_RECORD - len(chunk))
        records.append(lowering.emit(make_record(OP_ROWS, 0, *chunk[:3], extra=(*chunk[3:6], 0, *chunk[6:]))))
    return records


def _scales(operands: list[Operand]) -> int:
    """imm-scale-a and imm-scale-b, 1 or -1, as flags."""
    flags = 0
    for flag in (WGMMA_NEGATE_A, WGMMA_NEGATE_B):
        scale = _number(operands.pop(0))
        if scale not in (1, -1):
            raise Unsupported
        flags |= flag if scale == -1 else 0
    return flags


def _transposes(operands: list[Operand], from_registers: bool) -> int:
    """imm-trans-a (unless a comes from registers) and imm-trans-b as flags."""
    flags = 0
    for flag in (WGMMA_TRANSPOSE_B,) if from_registers else (WGMMA_TRANSPOSE_A, WGMMA_TRANSPOSE_B):
        transposed = _number(operands.pop(0))
        if transposed not in (0, 1):
            raise Unsupported
        flags |= flag if transposed else 0
    return flags


def product(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """mma_async.sync.aligned.shape{.satfinite}.d.a.b{.and.popc} d, a, b-desc, scale-d{, scales}{, transposes}."""
    _need_target(lowering, instruction)
    form = parts[4:]
    if parts[2:4] != ["sync", "aligned"] or len(form) < len(("shape", "d", "a", "b")):
        raise Unsupported
    of_bits = form[-2:] == ["and", "popc"]
    shape, *modifiers, sum_kind, a, b = form[:-2] if of_bits else form
    if of_bits != (a == _BIT):
        raise Unsupported
    if modifiers not in ([], ["satfinite"]):
        raise Unsupported
    rule, flags = _arithmetic(lowering, sum_kind, a, b, bool(modifiers))
    bits, sum_bits = 1 if of_bits else bits_of(a), bits_of(sum_kind)
    k = 8 * _K_BYTES // bits
    n = _columns(shape, k, bool(flags & WGMMA_INTEGERS))
    d_operand, a_operand, b_operand, scale_operand, *rest = instruction.operands
    from_registers = isinstance(a_operand, Group)
    flags |= WGMMA_A_REGISTERS if from_registers else 0
    if not flags & WGMMA_INTEGERS:
        flags |= _scales(rest)
    if a in _TRANSPOSABLE:
        flags |= _transposes(rest, from_registers)
    if rest:
        raise Unsupported
    a_rows = _rows(lowering, a_operand, 4, False) if from_registers else []
    a_descriptor = 0 if from_registers else lowering.source(a_operand, "b64")
    b_descriptor = lowering.source(b_operand, "b64")
    keep = lowering.source(scale_operand, "pred")
    d_rows = _rows(lowering, d_operand, n * sum_bits // 64, True)
    fragments = _emit_rows(lowering, a_rows)
    accumulators = _emit_rows(lowering, d_rows)
    flags |= bits << WGMMA_BITS | sum_bits << WGMMA_SUM_BITS
    extra = (rule, n, lowering.constant(32, FULL_MASK), flags, 0, 0, 0, len(accumulators))
    product = lowering.emit(make_record(OP_WGMMA, 0, a_descriptor, b_descriptor, keep, imm=16 * n * k, extra=extra))
    for record in (*fragments, *accumulators):
        record.counted = False
    product.counted = True
