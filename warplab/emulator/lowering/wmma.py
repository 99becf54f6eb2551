"""Emitters of wmma: loads, stores and products of whole matrices by a warp, made of simpler instructions.

PTX leaves open which lane holds which element. Here it is as an H200 has it: fragments of mma.sync side by side. With
lane t of group g = t / 4 and member q = t % 4, every register holds elements of one place along the dimension of g and
of neighbouring places along that of q. m8n32k16 is the transposed product: b stands in a's place.
"""

from __future__ import annotations

from dataclasses import dataclass

from warplab.emulator.core.state.layout import OP_LOAD, OP_STORE, SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED
from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.emulator.lowering.memory import address_row
from warplab.emulator.lowering.tensor import Product, arithmetic_of, emit_product, split_bit_operation
from warplab.emulator.program import make_record
from warplab.isa.syntax import Group, Instruction, Operand

_SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m8n32k16": (8, 32, 16),
    "m32n8k16": (32, 8, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
    "m8n8k32": (8, 8, 32),
    "m8n8k128": (8, 8, 128),
}
_TYPES = {  # of operands, by shape
    "m16n16k8": ("tf32",),
    "m8n8k4": ("f64",),
    "m8n8k32": ("s4", "u4"),
    "m8n8k128": ("b1",),
}
_SIXTEENS = ("f16", "bf16", "s8", "u8")
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "f32": 32, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
         "b1": 1}  # fmt: skip
_SPACES = {"global": SPACE_GLOBAL, "shared": SPACE_SHARED, "shared__cta": SPACE_SHARED}
_HALF_REGISTERS = 8  # of a and b in f16, which hold their elements twice where fewer would do


@dataclass(frozen=True)
class _Register:
    """Where a register's elements lie: `group` + g along one dimension, `member` + step q and up along the other."""

    group: int
    member: int


@dataclass(frozen=True)
class _Fragment:
    """A matrix in registers. `rows_by_group`: g runs along rows and q along columns, or the other way round."""

    registers: tuple[_Register, ...]
    rows_by_group: bool
    elements: int  # of a register
    step: int
    bits: int
    copies: int = 1  # of the whole, one after the other


def _operand(length: int, k: int, bits: int, rows_by_group: bool, first: bool, kind: str) -> _Fragment:
    """a or b: `length` rows of a (or columns of b) by k. `first`: it stands in the place of mma's a."""
    packed = max(32 // bits, 1)
    registers = []
    tile = 16 if first and length >= 16 else 8
    for top in range(0, length, tile):
        for left in range(0, k, 4 * packed):
            registers += [_Register(top + half, left) for half in range(0, tile, 8)]
    copies = _HALF_REGISTERS // len(registers) if kind == "f16" else 1
    return _Fragment(tuple(registers), rows_by_group, packed, packed, bits, copies)


def _sums(height: int, width: int, bits: int, rows_by_group: bool) -> _Fragment:
    """c or d: `height` along g, `width` along q."""
    packed = 2 if bits == 16 else 1
    registers = []
    tile = min(height, 16)
    for top in range(0, height, tile):
        for left in range(0, width, 8):
            for half in range(0, tile, 8):
                registers += [_Register(top + half, left + i) for i in range(0, 2, packed)]
    return _Fragment(tuple(registers), rows_by_group, packed, 2, bits)


def _transposed(shape: str) -> bool:
    return shape == "m8n32k16"


def _fragment(which: str, shape: str, kind: str) -> _Fragment:
    if shape not in _SHAPES or kind not in _BITS:
        raise Unsupported
    m, n, k = _SHAPES[shape]
    bits = _BITS[kind]
    if which in ("c", "d"):
        return _sums(n, m, bits, False) if _transposed(shape) else _sums(m, n, bits, True)
    if kind not in _TYPES.get(shape, _SIXTEENS):
        raise Unsupported
    if which == "a":
        return _operand(m, k, bits, True, not _transposed(shape), kind)
    if which == "b":
        return _operand(n, k, bits, False, _transposed(shape), kind)
    raise Unsupported


def _rows(lowering: Lowering, operand: Operand, fragment: _Fragment, write: bool) -> list[int]:
    """The rows of a fragment's registers."""
    items = operand.items if isinstance(operand, Group) else (operand,)
    if len(items) != len(fragment.registers) * fragment.copies:
        raise Unsupported
    word = "b64" if fragment.bits == 64 else "b32"
    return [lowering.target(i, word) if write else lowering.source(i, word) for i in items]


class _Matrix:
    """The addresses of a matrix in memory, of the lanes of a warp."""

    def __init__(
        self, lowering: Lowering, fragment: _Fragment, by_row: bool, address: Operand, pitch: Operand | None, line: int
    ) -> None:
        self.lowering = lowering
        self.bits = fragment.bits
        self.along_members = by_row == fragment.rows_by_group  # neighbours of a register are neighbours in memory
        if fragment.bits < 8 and not self.along_members:
            raise Unsupported
        start, self.offset = address_row(lowering, address)
        self.pitch = self._pitch(pitch, line)
        lane = lowering.special("laneid", 32)
        group, member = lowering.temporary(32), lowering.temporary(32)
        lowering.vector("shr.u32", group, lane, lowering.constant(32, 2))
        lowering.vector("and.i32", member, lane, lowering.constant(32, 3))
        inner, outer = (member, group) if self.along_members else (group, member)
        inner_bytes = self.bits * (fragment.step if self.along_members else 1) // 8
        partial, outer_wide, self.origin = (lowering.temporary(64) for _ in range(3))
        lowering.vector("mad.wide.u32", partial, inner, lowering.constant(32, inner_bytes), start)
        steps = 1 if self.along_members else fragment.step
        lowering.vector("mul.wide.u32", outer_wide, outer, lowering.constant(32, steps))
        lowering.vector("mad.lo.i64", self.origin, outer_wide, self.pitch, partial)
        self.lines: dict[int, int] = {0: self.origin}

    def _pitch(self, pitch: Operand | None, line: int) -> int:
        """The bytes from one line to the next, as a 64-bit row."""
        if pitch is None:
            return self.lowering.constant(64, line * self.bits // 8)
        wide = self.lowering.temporary(64)
        elements = self.lowering.source(pitch, "b32")
        self.lowering.vector("mul.wide.u32", wide, elements, self.lowering.constant(32, self.bits))
        self.lowering.vector("shr.u64", wide, wide, self.lowering.constant(32, 3))
        return wide

    def place(self, group: int, member: int) -> tuple[int, int]:
        """The address row and offset of an element that is `group` and `member` away from each lane's first."""
        inner, outer = (member, group) if self.along_members else (group, member)
        if outer not in self.lines:
            row = self.lowering.temporary(64)
            self.lowering.vector("mad.lo.i64", row, self.pitch, self.lowering.constant(64, outer), self.origin)
            self.lines[outer] = row
        return self.lines[outer], self.offset + inner * self.bits // 8


def _form(parts: list[str]) -> tuple[bool, str, int, str]:
    """Whether the matrix lies row by row, shape, address space and type of a load or store."""
    if parts[3:5] != ["sync", "aligned"] or parts[5] not in ("row", "col"):
        raise Unsupported
    rest = parts[7:-1]
    if rest and (len(rest) > 1 or rest[0] not in _SPACES):
        raise Unsupported
    return parts[5] == "row", parts[6], _SPACES[rest[0]] if rest else SPACE_GENERIC, parts[-1]


def _line(which: str, shape: str, by_row: bool) -> int:
    """The elements of a line of a matrix that has no gaps."""
    m, n, k = _SHAPES[shape]
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[which]
    return columns if by_row else rows


def _emit_access(
    lowering: Lowering, store: bool, space: int, place: tuple[int, int], size: int, rows: list[int]
) -> None:
    """One load or store of neighbours, `size` bytes each, one a row."""
    address, offset = place
    width = max(size, 2)
    extra = (space, size, len(rows), width, *rows[1:])
    if store:
        lowering.emit(make_record(OP_STORE, 0, address, rows[0], imm=offset, extra=extra))
    else:
        lowering.emit(make_record(OP_LOAD, rows[0], address, imm=offset, extra=extra))


def load(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    which = parts[2]
    by_row, shape, space, kind = _form(parts)
    if which not in ("a", "b", "c") or which == "c" and kind not in ("f16", "f32", "s32", "f64"):
        raise Unsupported
    fragment = _fragment(which, shape, kind)
    destination, address, *pitch = instruction.operands
    rows = _rows(lowering, destination, fragment, True)
    matrix = _Matrix(lowering, fragment, by_row, address, pitch[0] if pitch else None, _line(which, shape, by_row))
    # The address may be one of the destinations: everything is loaded before any is written.
    loaded = [lowering.temporary(max(fragment.bits, 32)) for _ in fragment.registers]
    for register, row in zip(fragment.registers, loaded, strict=True):
        _load_register(lowering, fragment, matrix, space, register, row)
    for i, row in enumerate(rows):
        lowering.vector(f"mov.i{max(fragment.bits, 32)}", row, loaded[i % len(loaded)])


def _load_register(
    lowering: Lowering, fragment: _Fragment, matrix: _Matrix, space: int, register: _Register, row: int
) -> None:
    if matrix.along_members or fragment.elements == 1:
        place = matrix.place(register.group, register.member)
        _emit_access(lowering, False, space, place, fragment.elements * fragment.bits // 8, [row])
        return
    parts = []
    for i in range(fragment.elements):
        part = lowering.temporary(16)
        place = matrix.place(register.group, register.member + i)
        _emit_access(lowering, False, space, place, fragment.bits // 8, [part])
        parts.append(part)
    if fragment.bits == 8:
        parts = [_joined_bytes(lowering, *parts[i : i + 2]) for i in (0, 2)]
    lowering.vector("pack.i16", row, *parts)


def _joined_bytes(lowering: Lowering, low: int, high: int) -> int:
    moved, joined = lowering.temporary(16), lowering.temporary(16)
    lowering.vector("shl.i16", moved, high, lowering.constant(32, 8))
    lowering.vector("or.i16", joined, low, moved)
    return joined


def store(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    by_row, shape, space, kind = _form(parts)
    if parts[2] != "d" or kind not in ("f16", "f32", "s32", "f64"):
        raise Unsupported
    fragment = _fragment("d", shape, kind)
    address, source, *pitch = instruction.operands
    rows = _rows(lowering, source, fragment, False)
    matrix = _Matrix(lowering, fragment, by_row, address, pitch[0] if pitch else None, _line("d", shape, by_row))
    pending: list[tuple[tuple[int, int], int, int]] = []  # place, bytes and row of what is not stored yet
    for register, row in zip(fragment.registers, rows, strict=True):
        if matrix.along_members or fragment.elements == 1:
            place = matrix.place(register.group, register.member)
            pending.append((place, fragment.elements * fragment.bits // 8, row))
            continue
        for i, half in enumerate(("low", "high")):
            part = lowering.temporary(16)
            lowering.vector(f"{half}.i16", part, row)
            _emit_access(lowering, True, space, matrix.place(register.group, register.member + i), 2, [part])
    _store_pairs(lowering, space, pending)


def _store_pairs(lowering: Lowering, space: int, stores: list[tuple[tuple[int, int], int, int]]) -> None:
    """Store registers one by one, or two at once where they are neighbours in memory, as the assembler does."""
    while stores:
        (address, offset), size, row = stores.pop(0)
        rows = [row]
        if stores and size >= 4 and stores[0][0] == (address, offset + size):
            rows.append(stores.pop(0)[2])
        _emit_access(lowering, True, space, (address, offset), size, rows)


def _singles(lowering: Lowering, rows: list[int]) -> list[int]:
    """Rows of f16 pairs as twice as many rows of f32."""
    result = []
    for row in rows:
        for half in ("low", "high"):
            part, single = lowering.temporary(16), lowering.temporary(32)
            lowering.vector(f"{half}.i16", part, row)
            lowering.vector("cvt.f32.f16", single, part)
            result.append(single)
    return result


def _halves(lowering: Lowering, rows: list[int], places: list[int]) -> None:
    """Rows of f32 to half as many rows of f16 pairs, rounded to nearest."""
    for position, place in enumerate(places):
        parts = []
        for row in rows[2 * position : 2 * position + 2]:
            parts.append(lowering.temporary(16))
            lowering.vector("cvt.rn.f16.f32", parts[-1], row)
        lowering.vector("pack.i16", place, *parts)


def _types_of(parts: list[str]) -> tuple[str, str, str]:
    """The types of d, of a and b, and of c in a wmma.mma."""
    types = [p for p in parts[7:] if p not in ("satfinite", "rn")]
    d, a, b, c = types if len(types) == 4 else (types[0], "f16", "f16", types[1])
    mixed = a == "f16" and {c, d} == {"f16", "f32"}
    if a != b or c != d and not mixed or "satfinite" in parts and a not in ("s8", "u8", "s4", "u4"):
        raise Unsupported
    return d, a, c


def multiply(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """wmma.mma{.op.popc}.sync.aligned.alayout.blayout.shape{.rnd}.types{.satfinite} d, a, b, c: an mma for each 16 x 8
    sums."""
    parts, operation = split_bit_operation(parts, 2)
    if parts[1:4] != ["mma", "sync", "aligned"] or any(p not in ("row", "col") for p in parts[4:6]):
        raise Unsupported
    shape = parts[6]
    d_kind, kind, c_kind = _types_of(parts)
    d_operand, a_operand, b_operand, c_operand = instruction.operands
    a_rows = _rows(lowering, a_operand, _fragment("a", shape, kind), False)
    b_rows = _rows(lowering, b_operand, _fragment("b", shape, kind), False)
    c = _rows(lowering, c_operand, _fragment("c", shape, c_kind), False)
    d = _rows(lowering, d_operand, _fragment("d", shape, d_kind), True)
    # Where c and d differ, the hardware adds in f32.
    sum_kind = d_kind if c_kind == d_kind else "f32"
    c = _singles(lowering, c) if c_kind != sum_kind else c
    # A later tile may still need what an earlier one's sums overwrite.
    results = [lowering.temporary(max(_BITS[sum_kind], 32)) for _ in c]
    _emit_tiles(lowering, shape, [*parts[7:], *operation], (sum_kind, kind), a_rows, b_rows, c, results)
    if d_kind != sum_kind:
        _halves(lowering, results, d)
        return
    for place, result in zip(d, results, strict=True):
        lowering.vector(f"mov.i{max(_BITS[sum_kind], 32)}", place, result)


def _emit_tiles(
    lowering: Lowering,
    shape: str,
    modifiers: list[str],
    kinds: tuple[str, str],
    a: list[int],
    b: list[int],
    c: list[int],
    results: list[int],
) -> None:
    """The mma instructions that a wmma.mma is made of; the last one counts as the instruction."""
    sum_kind, kind = kinds
    m, n, k = _SHAPES[shape]
    first, second = "a", "b"
    if _transposed(shape):
        a, b, m, n, first, second = b, a, n, m, "b", "a"
    arithmetic, rule = arithmetic_of(lowering, modifiers, [sum_kind, kind, kind, sum_kind])
    # As the assembler for Hopper has it: tf32 takes two steps along k, each rounded.
    steps = 2 if kind == "tf32" else 1
    product = Product(min(m, 16), k // steps, _BITS[kind], _BITS[sum_kind], arithmetic, rule)
    rows, columns = m // product.height, n // 8
    a_count = len(_fragment(first, shape, kind).registers) // (rows * steps)
    b_count = len(_fragment(second, shape, kind).registers) // (columns * steps)
    count = len(c) // (rows * columns)
    record = None
    for tile in range(rows * columns):
        row, column = divmod(tile, columns)
        part = slice(tile * count, (tile + 1) * count)
        sums = c[part]
        for step in range(steps):
            left, right = (row * steps + step) * a_count, (column * steps + step) * b_count
            pair = a[left : left + a_count], b[right : right + b_count]
            record = emit_product(lowering, product, *pair, sums, results[part])
            sums = results[part]
    assert record is not None
    record.counted = True
