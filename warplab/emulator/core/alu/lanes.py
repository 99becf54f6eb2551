"""Vector code for one warp instruction: 32 lanes at a time, as LLVM IR.

Each arithmetic instruction of PTX becomes one small LLVM function `void op(frame, constants, record, mask)` that loads
whole rows of registers, computes, and stores the row under the active mask. Writing vectors instead of loops spares
LLVM's loop vectoriser, which has to assume that rows overlap. `Vector` gives the arithmetic its operators, `Lanes` is
the function being built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llvmlite import ir

from warplab.emulator.core.state.layout import DST, LANES

I1, I8, I16, I32, I64, I128 = (ir.IntType(n) for n in (1, 8, 16, 32, 64, 128))
F32, F64 = ir.FloatType(), ir.DoubleType()
INT = {8: I8, 16: I16, 32: I32, 64: I64, 128: I128}
BITS = {I8: 8, I16: 16, I32: 32, I64: 64, I128: 128, F32: 32, F64: 64}

ADDRESS = I8.as_pointer()
FUNCTION = ir.FunctionType(ir.VoidType(), [ADDRESS, ADDRESS, ADDRESS, I32])


def store_where(
    builder: ir.IRBuilder, active: ir.Value, values: Iterable[tuple[ir.Value, ir.Value]], align: int
) -> None:
    """Store the active elements of vectors, given with the pointers that they go to.

    What is kept is loaded in a block of its own: of a load, a selection and a store in one block LLVM makes a masked
    store, which takes some ten times as long as a whole one, and whose value no load behind it can have before memory.
    """
    values = list(values)
    width = ir.IntType(active.type.count)
    some_kept = builder.icmp_unsigned("!=", builder.bitcast(active, width), ir.Constant(width, -1))
    before = builder.block
    with builder.if_then(some_kept):
        mixed = [builder.select(active, value, builder.load(pointer, align=align)) for value, pointer in values]
        inside = builder.block
    stored = []
    for (value, _), blended in zip(values, mixed, strict=True):
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        phi.add_incoming(blended, inside)
        stored.append(phi)
    for phi, (_, pointer) in zip(stored, values, strict=True):
        builder.store(phi, pointer, align=align)


class Vector:
    """A vector value with operators. Plain numbers on the other side are broadcast to all lanes."""

    def __init__(self, lanes: Lanes, value: ir.Value) -> None:
        self.lanes = lanes
        self.value = value
        self.element = value.type.element
        self.count = value.type.count
        self.is_float = self.element in (F32, F64)

    def _other(self, other: Vector | int | float) -> ir.Value:
        return other.value if isinstance(other, Vector) else splat(self.element, other, self.count)

    def _wrap(self, value: ir.Value) -> Vector:
        return Vector(self.lanes, value)

    def _binary(self, other: Vector | int | float, integer: str, floating: str = "") -> Vector:
        method = getattr(self.lanes.builder, floating if self.is_float else integer)
        return self._wrap(method(self.value, self._other(other)))

    def __add__(self, other):
        return self._binary(other, "add", "fadd")

    def __sub__(self, other):
        return self._binary(other, "sub", "fsub")

    def __mul__(self, other):
        return self._binary(other, "mul", "fmul")

    def __truediv__(self, other):
        return self._binary(other, "", "fdiv")

    def __and__(self, other):
        return self._binary(other, "and_")

    def __or__(self, other):
        return self._binary(other, "or_")

    def __xor__(self, other):
        return self._binary(other, "xor")

    def __lshift__(self, other):
        return self._binary(other, "shl")

    def __invert__(self):
        return self ^ -1

    def lshr(self, other):
        """Logical shift right; the amount must be below the width."""
        return self._binary(other, "lshr")

    def ashr(self, other):
        """Arithmetic shift right; the amount must be below the width."""
        return self._binary(other, "ashr")

    def udiv(self, other):
        return self._binary(other, "udiv")

    def sdiv(self, other):
        return self._binary(other, "sdiv")

    def urem(self, other):
        return self._binary(other, "urem")

    def srem(self, other):
        return self._binary(other, "srem")

    def compare(self, condition: str, other: Vector | int | float, signed: bool = False) -> Vector:
        """Lane-wise comparison to <n x i1>. For floats `condition` is LLVM's ("olt", "uno"); for integers C's ("<")."""
        builder, right = self.lanes.builder, self._other(other)
        if self.is_float:
            ordered, operator = condition[0] == "o", condition[1:]
            symbols = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "rd": "ord", "no": "uno"}
            method = builder.fcmp_ordered if ordered else builder.fcmp_unordered
            return self._wrap(method(symbols[operator], self.value, right))
        method = builder.icmp_signed if signed else builder.icmp_unsigned
        return self._wrap(method(condition, self.value, right))

    def bits(self, element: ir.Type, count: int | None = None) -> Vector:
        """The same bits as a vector of another element type."""
        if count is None:
            count = self.count * BITS.get(self.element, 16) // BITS.get(element, 16)
        return self._wrap(self.lanes.builder.bitcast(self.value, ir.VectorType(element, count)))

    def cast(self, method: str, element: ir.Type) -> Vector:
        """An LLVM conversion: zext, sext, trunc, fpext, fptrunc, sitofp, uitofp."""
        return self._wrap(getattr(self.lanes.builder, method)(self.value, ir.VectorType(element, self.count)))

    def zext(self, element: ir.Type) -> Vector:
        return self.cast("zext", element)

    def sext(self, element: ir.Type) -> Vector:
        return self.cast("sext", element)

    def trunc(self, element: ir.Type) -> Vector:
        return self.cast("trunc", element)

    def resize(self, element: ir.Type, signed: bool = False) -> Vector:
        """An integer of another width: truncated, or extended by sign or zero."""
        old, new = BITS[self.element], BITS[element]
        if old == new:
            return self
        return self.cast("trunc" if new < old else "sext" if signed else "zext", element)

    def where(self, yes: Vector | int | float, no: Vector | int | float) -> Vector:
        """Self is a comparison: lane-wise choice; one of the two must be a vector."""
        template = yes if isinstance(yes, Vector) else no
        assert isinstance(template, Vector)
        yes_value = yes.value if isinstance(yes, Vector) else splat(template.element, yes, self.count)
        no_value = no.value if isinstance(no, Vector) else splat(template.element, no, self.count)
        return self._wrap(self.lanes.builder.select(self.value, yes_value, no_value))

    def call(self, name: str, *others: Vector | int | float, flag: bool | None = None) -> Vector:
        """An overloaded LLVM intrinsic on vectors of this type, such as "llvm.fma"."""
        arguments = [self.value, *(self._other(o) for o in others)]
        types = [a.type for a in arguments]
        if flag is not None:
            arguments.append(ir.Constant(I1, flag))
            types.append(I1)
        full = f"{name}.{_suffix(self.value.type)}"
        return self._wrap(self.lanes.builder.call(self.lanes.declare(full, self.value.type, types), arguments))

    def convert(self, name: str, element: ir.Type) -> Vector:
        """An LLVM intrinsic that converts to another element type, such as "llvm.fptosi.sat"."""
        result = ir.VectorType(element, self.count)
        full = f"{name}.{_suffix(result)}.{_suffix(self.value.type)}"
        return self._wrap(self.lanes.builder.call(self.lanes.declare(full, result, [self.value.type]), [self.value]))


def splat(element: ir.Type, number: int | float, count: int = LANES) -> ir.Constant:
    """A constant vector with one number in every lane."""
    number = int(number) & ((1 << element.width) - 1) if isinstance(element, ir.IntType) else float(number)
    return ir.Constant(ir.VectorType(element, count), [number] * count)


def _suffix(type_: ir.VectorType) -> str:
    names = {element: f"i{bits}" for bits, element in INT.items()} | {F32: "f32", F64: "f64", I1: "i1"}
    return f"v{type_.count}{names[type_.element]}"


class Lanes:
    """One vector function under construction: reads operands of the record, writes results under the mask."""

    def __init__(self, module: ir.Module, name: str) -> None:
        self.module = module
        self.function = ir.Function(module, FUNCTION, name)
        self.function.linkage = "internal"
        self.function.attributes.add("nounwind")
        self.frame, self.constants, self.record, self.mask = self.function.args
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def declare(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        """An external function of the module, declared once."""
        if name in self.module.globals:
            return self.module.globals[name]
        return ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def field(self, slot: int) -> ir.Value:
        """An int32 field of the instruction record."""
        pointer = self.builder.gep(self.record, [ir.Constant(I64, 4 * slot)])
        return self.builder.load(self.builder.bitcast(pointer, I32.as_pointer()))

    def operand(self, slot: int) -> ir.Value:
        """The address of an operand's row: in the frame, or in the constant bank when its offset is negative."""
        offset = self.field(slot)
        base = self.builder.select(
            self.builder.icmp_signed("<", offset, ir.Constant(I32, 0)), self.constants, self.frame
        )
        return self.builder.gep(base, [self.builder.sext(offset, I64)])

    def read(self, slot: int, element: ir.Type, half: int = 0, count: int = LANES) -> Vector:
        """An operand's row. `half` 1 is the upper 256 bytes of a 128-bit register."""
        pointer = self.operand(slot)
        if half:
            pointer = self.builder.gep(pointer, [ir.Constant(I64, 256)])
        typed = self.builder.bitcast(pointer, ir.VectorType(element, count).as_pointer())
        return Vector(self, self.builder.load(typed, align=4))

    def read_predicate(self, slot: int) -> Vector:
        """A predicate operand as a comparison result."""
        word = self.builder.load(self.builder.bitcast(self.operand(slot), I32.as_pointer()))
        return Vector(self, self.builder.bitcast(word, ir.VectorType(I1, LANES)))

    def read_mask(self, slot: int) -> ir.Value:
        """A predicate operand as a 32-bit word."""
        return self.builder.load(self.builder.bitcast(self.operand(slot), I32.as_pointer()))

    def write(self, vector: Vector, slot: int = DST, half: int = 0) -> None:
        """Store a row into a destination register, active lanes only."""
        if vector.count != LANES:
            vector = vector.bits(I32, LANES)
        builder, type_ = self.builder, vector.value.type
        pointer = builder.gep(self.frame, [builder.sext(self.field(slot), I64)])
        if half:
            pointer = builder.gep(pointer, [ir.Constant(I64, 256)])
        typed = builder.bitcast(pointer, type_.as_pointer())
        full = builder.icmp_unsigned("==", self.mask, ir.Constant(I32, -1))
        with builder.if_else(full, likely=True) as (all_lanes, some_lanes):
            with all_lanes:
                builder.store(vector.value, typed, align=4)
            with some_lanes:
                active = builder.bitcast(self.mask, ir.VectorType(I1, LANES))
                builder.store(builder.select(active, vector.value, builder.load(typed, align=4)), typed, align=4)

    def write_predicate(self, condition: Vector, slot: int = DST) -> None:
        """Store a comparison into a predicate register, active lanes only."""
        self.write_mask(self.builder.bitcast(condition.value, I32), slot)

    def write_mask(self, word: ir.Value, slot: int = DST) -> None:
        """Store a 32-bit word of lane bits into a predicate register, active lanes only."""
        builder = self.builder
        pointer = builder.bitcast(builder.gep(self.frame, [builder.sext(self.field(slot), I64)]), I32.as_pointer())
        kept = builder.and_(builder.load(pointer), builder.not_(self.mask))
        builder.store(builder.or_(kept, builder.and_(word, self.mask)), pointer)

    def finish(self) -> None:
        self.builder.ret_void()


Emitter = Callable[[Lanes], None]
Table = dict[str, Emitter]


def op_key(*parts: str) -> str:
    """A key of the table of operations: the parts that are not empty, joined by dots."""
    return ".".join(p for p in parts if p)
