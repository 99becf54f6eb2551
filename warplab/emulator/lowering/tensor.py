"""Emitters of matrix products and for the moves of matrix fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warplab.emulator.core.state.layout import (
    FULL_MASK,
    MATRIX_BITS_SHIFT,
    MATRIX_BYTES_FORM,
    MATRIX_TRANSPOSED,
    MMA_A_SIGNED,
    MMA_B_SIGNED,
    MMA_DENSE,
    MMA_DEPTH_UNIT,
    MMA_DOUBLES,
    MMA_FLOATS,
    MMA_FOUR_OF_EIGHT,
    MMA_INTEGERS,
    MMA_ONE_OF_TWO,
    MMA_POWERS,
    MMA_SATURATES,
    MMA_SCALED,
    MMA_SCALES_SHIFT,
    MMA_TWO_OF_FOUR,
    MMA_XOR,
    OP_LDMATRIX,
    OP_MMA,
    OP_MOVMATRIX,
    OP_ROWS,
    OP_STMATRIX,
    SPACE_GENERIC,
    SPACE_SHARED,
)
from warplab.emulator.core.tensor.numerics import Kind, rule_number
from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.emulator.lowering.memory import address_row
from warplab.emulator.program import Record, make_record
from warplab.isa.syntax import Group, Immediate, Instruction, Operand

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
    "b1": ((8, 128), (16, 128), (16, 256)),
    "f64": ((8, 4), (16, 4), (16, 8)),
}  # fmt: skip
# How a sparse a is thinned out, and its shapes. Those of e4m3 and e5m2, which ptxas makes of several instructions on
# Hopper, are not here: in what order it adds was not found out.
_SPARSE = {
    "f16": (MMA_TWO_OF_FOUR, ((16, 16), (16, 32))),
    "bf16": (MMA_TWO_OF_FOUR, ((16, 16), (16, 32))),
    "tf32": (MMA_ONE_OF_TWO, ((16, 8), (16, 16))),
    "s8": (MMA_TWO_OF_FOUR, ((16, 32), (16, 64))),
    "u8": (MMA_TWO_OF_FOUR, ((16, 32), (16, 64))),
    "s4": (MMA_FOUR_OF_EIGHT, ((16, 64), (16, 128))),
    "u4": (MMA_FOUR_OF_EIGHT, ((16, 64), (16, 128))),
}
_METADATA_BITS = {MMA_TWO_OF_FOUR: 2, MMA_ONE_OF_TWO: 4, MMA_FOUR_OF_EIGHT: 1}  # of a stored element
_OPERAND_BITS = {"tf32": 32, "f64": 64, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}  # 8 for the others
_INTEGERS = (("s8", "u8"), ("s4", "u4"), ("b1",))  # those that may be multiplied with each other
_BIT_OPERATIONS = ("and", "xor")
_MODIFIERS = ("satfinite", "rn")
# Turing's tensor cores sum eight products with 24 bits, as Ampere's do: as published, not measured by us: Xie et al.,
# MMA-Sim (arXiv:2511.10909).
_SUMS_LIKE = {"sm_75": "sm_80"}


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


def arithmetic_of(lowering: Lowering, modifiers: Sequence[str], types: Sequence[str]) -> tuple[int, int]:
    """How an mma multiplies, and the rule or the flags that go with it.

    `modifiers` may hold satfinite, and of single bits it holds what popc counts, "and" or "xor".
    """
    sum_kind, a, b, _ = types
    if a == "f64":
        if (sum_kind, b) != ("f64", "f64"):
            raise Unsupported
        return MMA_DOUBLES, 0
    saturates = "satfinite" in modifiers
    operation = next((m for m in modifiers if m in _BIT_OPERATIONS), None)
    if (a == "b1") != (operation is not None) or a == "b1" and saturates:
        raise Unsupported
    alike = next((kinds for kinds in _INTEGERS if a in kinds), None)
    if alike is not None:
        if sum_kind != "s32" or b not in alike:
            raise Unsupported
        flags = (MMA_A_SIGNED if a[0] == "s" else 0) | (MMA_B_SIGNED if b[0] == "s" else 0)
        flags |= MMA_XOR if operation == "xor" else 0
        return MMA_INTEGERS, flags | (MMA_SATURATES if saturates else 0)
    if sum_kind not in ("f32", "f16"):
        raise Unsupported
    try:
        kinds = (Kind[name.upper()] for name in (a, b, sum_kind))
        target = lowering.module.target.rstrip("af")
        return MMA_FLOATS, rule_number(_SUMS_LIKE.get(target, target), "mma", *kinds)
    except ValueError:
        raise Unsupported from None


def split_bit_operation(parts: list[str], place: int) -> tuple[list[str], list[str]]:
    """The parts without .and.popc or .xor.popc, which products of single bits have at `place`, and that operation."""
    operation = parts[place : place + 2]
    if len(operation) == 2 and operation[0] in _BIT_OPERATIONS and operation[1] == "popc":
        return [*parts[:place], *parts[place + 2 :]], operation[:1]
    return parts, []


def _shape(name: str, a: str, b: str, sparse: bool) -> tuple[int, int]:
    """m and k of a shape that both types have."""
    shapes = {kind: s for kind, (_, s) in _SPARSE.items()} if sparse else _SHAPES
    shape = next((s for s in shapes.get(a, ()) if f"m{s[0]}n8k{s[1]}" == name), None)
    if shape is None or shape not in shapes.get(b, ()):
        raise Unsupported
    return shape


def matrix_multiply(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """mma{.sp}.sync.aligned.mMn8kK.row.col{.satfinite}.d.a.b.c{.op.popc} as two records: one for a and b, one for c
    and d."""
    sparse = parts[1] in ("sp", "sp__ordered_metadata")
    if sparse:
        parts = [parts[0], *parts[2:]]
    if any(part.startswith("kind__") for part in parts):
        _narrow_product(lowering, instruction, parts, sparse)
        return
    parts, operation = split_bit_operation(parts, len(parts) - 2)
    types, modifiers = parts[-4:], parts[6:-4]
    sum_kind, a, b, c = types
    if parts[1:3] != ["sync", "aligned"] or parts[4:6] != ["row", "col"] or c != sum_kind:
        raise Unsupported
    if any(m not in _MODIFIERS for m in modifiers):
        raise Unsupported
    height, depth = _shape(parts[3], a, b, sparse)
    arithmetic, rule = arithmetic_of(lowering, [*modifiers, *operation], types)
    bits, sum_bits = _OPERAND_BITS.get(a, 8), bits_of(sum_kind)
    register = max(bits, 32)
    word, sum_word = f"b{register}", "b64" if sum_bits == 64 else "b32"
    b_count = 8 * depth * bits // (32 * register)
    a_count = b_count * height // 8 // (2 if sparse else 1)
    sums = height * 8 * sum_bits // (32 * max(sum_bits, 32))
    d_operand, a_operand, b_operand, c_operand, *rest = instruction.operands
    if len(rest) != (2 if sparse else 0):
        raise Unsupported
    a_rows = _rows(lowering, a_operand, a_count, word)
    b_rows = _rows(lowering, b_operand, b_count, word)
    c_rows = _rows(lowering, c_operand, sums, sum_word)
    sparsity = _sparsity(lowering, a, depth, bits, rest) if sparse else Sparsity()
    d_rows = _rows(lowering, d_operand, sums, sum_word, write=True)
    product = Product(height, depth, bits, sum_bits, arithmetic, rule, sparsity)
    emit_product(lowering, product, a_rows, b_rows, c_rows, d_rows).counted = True


_SCALED = {  # how many scales a row has, by what an opcode says; "" names no number
    "mxf8f6f4": {"": 1, "scale_vec__1X": 1},
    "mxf4": {"": 2, "scale_vec__2X": 2},
    "mxf4nvf4": {"scale_vec__2X": 2, "scale_vec__4X": 4},
}


def _narrow_product(lowering: Lowering, instruction: Instruction, parts: list[str], sparse: bool) -> None:
    """mma.sync of GeForce's Blackwell with .kind::f8f6f4, or .kind::mx... and .block_scale, whose scales' types come
    last, and whose operands behind c (of a sparse one, behind the selector) are those scales, each with {byte,
    thread}."""
    kind = next(part for part in parts if part.startswith("kind__")).removeprefix("kind__")
    scaled = "block_scale" in parts
    size = next((part for part in parts if part.startswith("scale_vec__")), "")
    rest = [p for p in parts[1:] if p not in ("sync", "aligned", "row", "col", f"kind__{kind}", "block_scale", size)]
    scales = _SCALED.get(kind, {}).get(size, 0)
    if (scaled or sparse) and not lowering.module.target.startswith("sm_12"):
        raise Unsupported
    if scaled != bool(scales) or not scaled and kind != "f8f6f4":
        raise Unsupported
    nibbles = kind in ("mxf4", "mxf4nvf4")
    depth = (64 if nibbles else 32) * (2 if sparse else 1)
    if len(rest) != (6 if scaled else 5) or rest[0] != f"m16n8k{depth}":
        raise Unsupported
    sum_kind, a, b, c = rest[1:5]
    scale_kind = rest[5] if scaled else ""
    if c != sum_kind or nibbles and (a, b) != ("e2m1", "e2m1") or scaled and sum_kind != "f32":
        raise Unsupported
    if scaled and scale_kind != ("ue4m3" if scales == max(_SCALED["mxf4nvf4"].values()) else "ue8m0"):
        raise Unsupported
    _, rule = arithmetic_of(lowering, (), (sum_kind, a, b, c))
    d_operand, a_operand, b_operand, c_operand, *more = instruction.operands
    sparsity = Sparsity()
    if sparse:
        metadata, selector, *more = more
        if not isinstance(selector, Immediate) or selector.value:
            raise Unsupported
        form = MMA_FOUR_OF_EIGHT if nibbles else MMA_TWO_OF_FOUR
        sparsity = Sparsity(form, lowering.source(metadata, "b32"))
    if len(more) != (4 if scaled else 0):
        raise Unsupported
    arithmetic, bits, sums = MMA_FLOATS, 4 if nibbles else 8, 4 if sum_kind == "f32" else 2
    if scaled:
        rows = [lowering.source(_items(more[i])[0], "b32") for i in (0, 2)]
        for operand in (more[1], more[3]):
            byte, thread = _items(operand)
            rows += [lowering.source(byte, "b16"), lowering.source(thread, "b16")]
        extra = (*rows[3:6], 0)
        lowering.emit(make_record(OP_ROWS, 0, *rows[:3], extra=extra)).counted = False
        arithmetic = MMA_SCALED
        rule |= scales << MMA_SCALES_SHIFT | (MMA_POWERS if scale_kind == "ue8m0" else 0)
    a_rows = _rows(lowering, a_operand, 4, "b32")
    b_rows = _rows(lowering, b_operand, 4 if sparse else 2, "b32")
    c_rows = _rows(lowering, c_operand, sums, "b32")
    d_rows = _rows(lowering, d_operand, sums, "b32", write=True)
    product = Product(16, depth, bits, bits_of(sum_kind), arithmetic, rule, sparsity)
    emit_product(lowering, product, a_rows, b_rows, c_rows, d_rows).counted = True


@dataclass(frozen=True)
class Sparsity:
    """How a is thinned out, the row of its metadata, and with which lanes of four they begin."""

    form: int = MMA_DENSE
    metadata: int = 0
    selector: int = 0


def _sparsity(lowering: Lowering, kind: str, depth: int, bits: int, operands: Sequence[Operand]) -> Sparsity:
    """The last two operands of an mma.sp, whose selector is a number."""
    metadata, selector = operands
    form = _SPARSE[kind][0]
    of_a_row = depth // 2 * _METADATA_BITS[form]
    lanes = of_a_row // (16 if bits >= 16 else 32) * (1 if bits >= 16 else 2)  # of four that hold metadata
    if not isinstance(selector, Immediate) or not 0 <= selector.value < 4 // lanes:
        raise Unsupported
    return Sparsity(form, lowering.source(metadata, "b32"), selector.value)


@dataclass(frozen=True)
class Product:
    """One mma of height x 8 x depth: the bits of an operand and of a sum, how it multiplies and by which rule."""

    height: int
    depth: int
    bits: int
    sum_bits: int
    arithmetic: int
    rule: int
    sparsity: Sparsity = Sparsity()

    @property
    def multiply_adds(self) -> int:
        return self.height * 8 * self.depth // (1 if self.sparsity.form == MMA_DENSE else 2)


def emit_product(
    lowering: Lowering, product: Product, a: Sequence[int], b: Sequence[int], c: Sequence[int], d: Sequence[int]
) -> Record:
    """Emit an mma on the rows of its fragments as two records, both uncounted; returns the second one."""
    height, depth, bits, sum_bits = product.height, product.depth, product.bits, product.sum_bits
    sparsity = product.sparsity
    a_rows, b_rows, c_rows, d_rows = (_padded(rows, 4) for rows in (a, b, c, d))
    operands = (a_rows[3], *b_rows[:2], sparsity.selector, *b_rows[2:], sparsity.metadata, sparsity.form)
    fragments = lowering.emit(make_record(OP_ROWS, 0, *a_rows[:3], extra=operands))
    extra = (
        *(c_rows[3], product.arithmetic, _all_lanes(lowering), product.rule),
        *(*d_rows[1:], height | depth // MMA_DEPTH_UNIT << 8 | bits << 16 | sum_bits << 24),
    )
    record = lowering.emit(make_record(OP_MMA, d_rows[0], *c_rows[:3], imm=product.multiply_adds, extra=extra))
    fragments.counted = record.counted = False
    return record


_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_PACKED = {"b6x16_p32": 6, "b4x16_p64": 4}


def _matrix_form(parts: list[str], loads: bool) -> tuple[int, int, int]:
    """Registers, the form and the address space of an ldmatrix or stmatrix.

    ptxas takes the modifiers in any order.
    """
    rest = set(parts[1:])
    counts, shared = [c for c in _COUNTS if c in rest], rest & {"shared", "shared__cta"}
    if len(counts) != 1 or len(rest) != len(parts) - 1 or len(shared) > 1:
        raise Unsupported
    space = SPACE_SHARED if shared else SPACE_GENERIC
    count, rest = _COUNTS[counts[0]], rest - {"sync", "aligned", *counts} - shared
    transposed = MATRIX_TRANSPOSED if "trans" in rest else 0
    rest -= {"trans"}
    if {"sync", "aligned"} <= set(parts) and rest == {"m8n8", "b16"}:
        return count, transposed, space
    bits = next((bits for name, bits in _PACKED.items() if rest >= {"b8x16", name}), 0)
    shape = rest - {"b8x16", *_PACKED} if bits else rest - {"b8"}
    form = transposed | MATRIX_BYTES_FORM | bits << MATRIX_BITS_SHIFT
    if not bits and "b8" not in rest:
        raise Unsupported
    if loads and transposed and shape == {"m16n16"} and count < 4:
        return 2 * count, form, space
    rows_alone = loads and bits and not transposed and shape == {"m8n16"}
    if rows_alone or not loads and not bits and transposed and shape == {"m16n8"}:
        return count, form, space
    raise Unsupported


def load_matrices(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, address = instruction.operands
    count, form, space = _matrix_form(parts, loads=True)
    rows = _padded(_rows(lowering, destination, count, "b32", write=True), 4)
    row, offset = address_row(lowering, address)
    extra = (space, count, _all_lanes(lowering), form, *rows[1:])
    lowering.emit(make_record(OP_LDMATRIX, rows[0], row, imm=offset, extra=extra))


def store_matrices(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    address, source = instruction.operands
    count, form, space = _matrix_form(parts, loads=False)
    rows = _padded(_rows(lowering, source, count, "b32"), 4)
    row, offset = address_row(lowering, address)
    extra = (space, count, _all_lanes(lowering), form, *rows[1:])
    lowering.emit(make_record(OP_STMATRIX, 0, row, rows[0], imm=offset, extra=extra))


def transpose_fragment(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    if parts[1:] != ["sync", "aligned", "m8n8", "trans", "b16"]:
        raise Unsupported
    destination, source = instruction.operands
    place, row = lowering.target(destination, "b32"), lowering.source(source, "b32")
    lowering.emit(make_record(OP_MOVMATRIX, place, row, extra=(0, 0, _all_lanes(lowering))))
