"""Handlers for matrix products and for the moves of matrix fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warplab.isa.syntax import TYPE_BITS, Group, Instruction, Operand
from warplab.simt.core.state.layout import (
    FULL_MASK,
    MMA_A_SIGNED,
    MMA_B_SIGNED,
    MMA_DOUBLES,
    MMA_FLOATS,
    MMA_INTEGERS,
    MMA_SATURATES,
    OP_LDMATRIX,
    OP_MMA,
    OP_MOVMATRIX,
    OP_ROWS,
    OP_STMATRIX,
    SPACE_GENERIC,
    SPACE_SHARED,
)
from warplab.simt.core.tensor.numerics import Kind, rule_number
from warplab.simt.lowering.lowering import Lowering, Unsupported, handles
from warplab.simt.lowering.memory import address_row
from warplab.simt.program import Record, make_record

# Shapes (m, k) by operand type; n is 8.
_SHAPES = {
    "f16": ((16, 8), (16, 16)),
    "bf16": ((16, 8), (16, 16)),
    "tf32": ((16, 4), (16, 8)),
    "e4m3": ((16, 16), (16, 32)),
    "e5m2": ((16, 16), (16, 32)),
    "s8": ((8, 16), (16, 16), (16, 32)),
    "u8": ((8, 16), (16, 16), (16, 32)),
    "s4": ((8, 32), (16, 32), (16, 64)),
    "u4": ((8, 32), (16, 32), (16, 64)),
    "f64": ((8, 4), (16, 4), (16, 8)),
}  # fmt: skip
_OPERAND_BITS = {"tf32": 32, "f64": 64, "f16": 16, "bf16": 16, "s4": 4, "u4": 4}  # 8 for the others
_INTEGERS = (("s8", "u8"), ("s4", "u4"))  # those that may be multiplied with each other
_MODIFIERS = ("satfinite", "rn")
# Turing's tensor cores sum eight products with 24 bits, as Ampere's do; those of GeForce's Blackwell sum like B200's.
# Both as published, not measured by us: Xie et al., MMA-Sim (arXiv:2511.10909).
_SUMS_LIKE = {"sm_75": "sm_80", "sm_120": "sm_100", "sm_121": "sm_100"}


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Group) else (operand,)


def _rows(lowering: Lowering, operand: Operand, count: int, kind: str, write: bool = False) -> list[int]:
    """The rows of a fragment's registers; a number that the shape does not have is unsupported."""
    items = _items(operand)
    if len(items) != count:
        raise Unsupported
    return [lowering.target(i, kind) if write else lowering.source(i, kind) for i in items]


def _padded(rows: Sequence[int], size: int) -> tuple[int, ...]:
    return (*rows, *(0 for _ in range(size - len(rows))))


def _all_lanes(lowering: Lowering) -> int:
    """The member mask of an .aligned instruction."""
    return lowering.constant(32, FULL_MASK)


def arithmetic_of(lowering: Lowering, parts: list[str], types: list[str]) -> tuple[int, int]:
    """How an mma multiplies, and the rule or the flags that go with it."""
    sum_kind, a, b, _ = types
    if a == "f64":
        if (sum_kind, b) != ("f64", "f64"):
            raise Unsupported
        return MMA_DOUBLES, 0
    alike = next((kinds for kinds in _INTEGERS if a in kinds), None)
    if alike is not None:
        if sum_kind != "s32" or b not in alike:
            raise Unsupported
        flags = (MMA_A_SIGNED if a[0] == "s" else 0) | (MMA_B_SIGNED if b[0] == "s" else 0)
        return MMA_INTEGERS, flags | (MMA_SATURATES if "satfinite" in parts else 0)
    if sum_kind not in ("f32", "f16"):
        raise Unsupported
    try:
        kinds = (Kind[name.upper()] for name in (a, b, sum_kind))
        target = lowering.module.target.rstrip("af")
        return MMA_FLOATS, rule_number(_SUMS_LIKE.get(target, target), "mma", *kinds)
    except ValueError:
        raise Unsupported from None


@handles("mma")
def matrix_multiply(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """mma.sync.aligned.mMn8kK.row.col{.satfinite}.d.a.b.c as two records: one for a and b, one for c and d."""
    types = parts[-4:]
    sum_kind, a, b, c = types
    if parts[1:3] != ["sync", "aligned"] or parts[4:6] != ["row", "col"] or c != sum_kind:
        raise Unsupported
    if any(p not in _MODIFIERS for p in parts[6:-4]):
        raise Unsupported
    shape = next((s for s in _SHAPES[a] if f"m{s[0]}n8k{s[1]}" == parts[3]), None)
    if shape is None or b not in _SHAPES or shape not in _SHAPES[b]:
        raise Unsupported
    arithmetic, rule = arithmetic_of(lowering, parts, types)
    height, depth = shape
    bits, sum_bits = _OPERAND_BITS.get(a, 8), TYPE_BITS[sum_kind]
    register = max(bits, 32)
    word, sum_word = f"b{register}", "b64" if sum_bits == 64 else "b32"
    b_count = 8 * depth * bits // (32 * register)
    sums = height * 8 * sum_bits // (32 * max(sum_bits, 32))
    d_operand, a_operand, b_operand, c_operand = instruction.operands
    a_rows = _rows(lowering, a_operand, b_count * height // 8, word)
    b_rows = _rows(lowering, b_operand, b_count, word)
    c_rows = _rows(lowering, c_operand, sums, sum_word)
    d_rows = _rows(lowering, d_operand, sums, sum_word, write=True)
    product = Product(height, depth, bits, sum_bits, arithmetic, rule)
    emit_product(lowering, product, a_rows, b_rows, c_rows, d_rows).counted = True


@dataclass(frozen=True)
class Product:
    """One mma of height x 8 x depth: the bits of an operand and of a sum, how it multiplies and by which rule."""

    height: int
    depth: int
    bits: int
    sum_bits: int
    arithmetic: int
    rule: int

    @property
    def multiply_adds(self) -> int:
        return self.height * 8 * self.depth


def emit_product(
    lowering: Lowering, product: Product, a: Sequence[int], b: Sequence[int], c: Sequence[int], d: Sequence[int]
) -> Record:
    """Emit an mma on the rows of its fragments as two records, both uncounted; returns the second one."""
    height, depth, bits, sum_bits = product.height, product.depth, product.bits, product.sum_bits
    a_rows, b_rows, c_rows, d_rows = _padded(a, 4), _padded(b, 2), _padded(c, 4), _padded(d, 4)
    fragments = lowering.emit(make_record(OP_ROWS, 0, *a_rows[:3], extra=(a_rows[3], *b_rows)))
    extra = (
        *(c_rows[3], product.arithmetic, _all_lanes(lowering), product.rule),
        *(*d_rows[1:], height | depth << 8 | bits << 16 | sum_bits << 24),
    )
    record = lowering.emit(make_record(OP_MMA, d_rows[0], *c_rows[:3], imm=product.multiply_adds, extra=extra))
    fragments.counted = record.counted = False
    return record


_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def _matrix_form(parts: list[str]) -> tuple[int, int, int]:
    """Matrices, whether they are transposed, and the address space of an ldmatrix or stmatrix.

    ptxas takes the modifiers in any order.
    """
    rest = set(parts[1:])
    counts = [c for c in _COUNTS if c in rest]
    needed = {"sync", "aligned", "m8n8", "b16", *counts}
    if len(counts) != 1 or len(rest) != len(parts) - 1 or not needed <= rest:
        raise Unsupported
    transposed, shared = "trans" in rest, rest & {"shared", "shared__cta"}
    if rest - needed - {"trans"} - shared or len(shared) > 1:
        raise Unsupported
    return _COUNTS[counts[0]], int(transposed), SPACE_SHARED if shared else SPACE_GENERIC


@handles("ldmatrix")
def load_matrices(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, address = instruction.operands
    count, transposed, space = _matrix_form(parts)
    rows = _padded(_rows(lowering, destination, count, "b32", write=True), 4)
    row, offset = address_row(lowering, address)
    extra = (space, count, _all_lanes(lowering), transposed, *rows[1:])
    lowering.emit(make_record(OP_LDMATRIX, rows[0], row, imm=offset, extra=extra))


@handles("stmatrix")
def store_matrices(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    address, source = instruction.operands
    count, transposed, space = _matrix_form(parts)
    rows = _padded(_rows(lowering, source, count, "b32"), 4)
    row, offset = address_row(lowering, address)
    extra = (space, count, _all_lanes(lowering), transposed, *rows[1:])
    lowering.emit(make_record(OP_STMATRIX, 0, row, rows[0], imm=offset, extra=extra))


@handles("movmatrix")
def transpose_fragment(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if parts[1:] != ["sync", "aligned", "m8n8", "trans", "b16"]:
        raise Unsupported
    destination, source = instruction.operands
    place, row = lowering.target(destination, "b32"), lowering.source(source, "b32")
    lowering.emit(make_record(OP_MOVMATRIX, place, row, extra=(0, 0, _all_lanes(lowering))))
