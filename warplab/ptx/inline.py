"""Turns one PTX instruction into a function that Numba kernels can call.

The only module of this package that knows LLVM's inline assembly and numba-cuda's extension API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.cuda import extending
from numba.cuda import types as numba_types

# No type checker knows what is in these.
_intrinsic: Any = extending.intrinsic
types: Any = numba_types


@dataclass(frozen=True)
class Register:
    """A kind of PTX register: its Numba type, LLVM type and inline-assembly constraint."""

    type: Any
    llvm: ir.Type
    constraint: str


U16 = Register(types.uint16, ir.IntType(16), "h")
U32 = Register(types.uint32, ir.IntType(32), "r")
I32 = Register(types.int32, ir.IntType(32), "r")
U64 = Register(types.uint64, ir.IntType(64), "l")
F32 = Register(types.float32, ir.FloatType(), "f")
F64 = Register(types.float64, ir.DoubleType(), "d")


@dataclass(frozen=True)
class Fragment:
    """Several registers of one kind, which a kernel holds as a tuple."""

    register: Register
    count: int


Operand = Register | Fragment


def _parts(operand: Operand) -> tuple[Register, int]:
    return (operand.register, operand.count) if isinstance(operand, Fragment) else (operand, 1)


def _numba_type(operand: Operand) -> Any:
    return types.UniTuple(operand.register.type, operand.count) if isinstance(operand, Fragment) else operand.type


def _braced(first: int, count: int) -> str:
    return "{" + ", ".join(f"${i}" for i in range(first, first + count)) + "}"


def instruction(
    name: str,
    text: str,
    operands: Sequence[Operand] = (),
    result: Operand | None = None,
    *,
    updates: bool = False,
    pure: bool = False,
    doc: str,
) -> Callable:
    """A function for Numba kernels that issues `text`.

    `text` names the result {d} and the operands {0}, {1}, ... (a Fragment in braces, as PTX writes vectors). With
    `updates` the result is the first operand's registers, changed in place. `pure` says that equal operands give equal
    results, so that the compiler may drop or move the instruction; all others keep their place among memory accesses.
    """
    count = _parts(result)[1] if result is not None else 0
    names = {"d": _braced(0, count) if isinstance(result, Fragment) else "$0"}
    place = 0 if updates else count
    constraints = [f"={_parts(result)[0].constraint}"] * count if result is not None else []
    for index, operand in enumerate(operands):
        register, registers = _parts(operand)
        names[str(index)] = _braced(place, registers) if isinstance(operand, Fragment) else f"${place}"
        if updates and index == 0:
            # Behind the results LLVM numbers the tied inputs as operands of their own.
            constraints += [str(i) for i in range(registers)]
            place = count + registers
        else:
            constraints += [register.constraint] * registers
            place += registers
    if not pure:
        constraints.append("~{memory}")
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    signature = (_numba_type(result) if result is not None else types.void)(*map(_numba_type, operands))

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Sequence[Any]) -> Any:
        values = []
        for operand, argument in zip(operands, arguments, strict=True):
            many = isinstance(operand, Fragment)
            values += [builder.extract_value(argument, i) for i in range(_parts(operand)[1])] if many else [argument]
        made = _result_type(result)
        function = ir.FunctionType(made, [value.type for value in values])
        called = builder.call(ir.InlineAsm(function, text, ",".join(constraints), side_effect=not pure), values)
        return called if result is None or count == 1 else _as_tuple(context, builder, called, result)

    function = _typed(name, len(operands), signature, codegen)
    function.__doc__ = doc
    return function


def _result_type(result: Operand | None) -> ir.Type:
    if result is None:
        return ir.VoidType()
    register, count = _parts(result)
    return register.llvm if count == 1 else ir.LiteralStructType([register.llvm] * count)


def _as_tuple(context: Any, builder: Any, struct: Any, result: Operand) -> Any:
    value = ir.Constant(context.get_value_type(_numba_type(result)), ir.Undefined)
    for i in range(_parts(result)[1]):
        value = builder.insert_value(value, builder.extract_value(struct, i), i)
    return value


def _typed(name: str, count: int, signature: Any, codegen: Callable) -> Any:
    """An intrinsic of `count` operands: Numba reads their number from the function's own parameters."""
    parameters = "".join(f", operand_{i}" for i in range(count))
    space: dict[str, Any] = {"signature": signature, "codegen": codegen}
    exec(f"def {name}(typingctx{parameters}):\n    return signature, codegen", space)
    return _intrinsic(space[name])


def address_of(name: str, shared: bool, doc: str) -> Callable:
    """A function that gives the address of an array's element, in shared memory (32 bits) or anywhere (64 bits)."""
    width = ir.IntType(32 if shared else 64)

    def typed(typingctx: Any, array: Any, index: Any) -> Any:
        if not isinstance(array, types.Array) or not isinstance(index, types.Integer):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            kind = signature.args[0]
            data = context.make_array(kind)(context, builder, arguments[0]).data
            pointer = builder.gep(data, [arguments[1]])
            if shared:
                space = ir.PointerType(data.type.pointee, addrspace=3)
                pointer = builder.addrspacecast(pointer, space)
            return builder.ptrtoint(pointer, width)

        return (types.uint32 if shared else types.uint64)(array, types.int64), codegen

    typed.__name__ = name
    function = _intrinsic(typed)
    function.__doc__ = doc
    return function


def _to_array(typingctx: Any, values: Any, array: Any) -> Any:
    """to_array(values, array): store a tuple into an array's first elements, in memory order.

    A tuple can only be indexed by constants. In a `cuda.local.array` that short loops with constant bounds walk
    through, the values stay in registers.
    """
    if not isinstance(values, types.UniTuple) or not isinstance(array, types.Array) or array.dtype != values.dtype:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        data = context.make_array(signature.args[1])(context, builder, arguments[1]).data
        for i in range(values.count):
            place = builder.gep(data, [ir.Constant(ir.IntType(64), i)])
            builder.store(builder.extract_value(arguments[0], i), place)
        return context.get_dummy_value()

    return types.void(values, array), codegen


to_array = _intrinsic(_to_array)


def kernel_properties(name: str, properties: Mapping[str, int], doc: str) -> Callable:
    """A function that issues nothing and gives the kernel that calls it `properties` of NVVM's nvvm.annotations.

    It has to be called by the kernel itself: a device function is a function of its own.
    """

    def typed(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            module = builder.module
            annotations = module.add_named_metadata("nvvm.annotations")  # or the one that is there
            for key, value in properties.items():
                number = ir.Constant(ir.IntType(32), value)
                annotations.add(module.add_metadata((builder.function, ir.MetaDataString(module, key), number)))
            return context.get_dummy_value()

        return types.void(), codegen

    typed.__name__ = name
    function = _intrinsic(typed)
    function.__doc__ = doc
    return function
