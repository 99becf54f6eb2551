"""PTX as data: what the parser makes of the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

TYPE_BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32,
    "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32, "b64": 64, "u64": 64,
    "s64": 64, "f64": 64, "f32x2": 64, "b128": 128, "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16,
    "e4m3x4": 32, "e5m2x4": 32, "e2m3x4": 32, "e3m2x4": 32, "e2m1x4": 16,
    "e2m1": 8, "e2m3": 8, "e3m2": 8, "e2m1x2": 8, "e2m3x2": 16, "e3m2x2": 16, "ue8m0x2": 16,
}  # fmt: skip


FIRST_FUNCTION = 4096  # in the null page: reading or writing through a function's address is a fault


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register, by its position in the function's register list."""

    index: int


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as %tid.x, without the percent sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. `kind` is "int" (any precision), "f32" or "f64" (then `value` holds the bits)."""

    value: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, a function's name or a label, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset], where base is a register, a symbol or an immediate; `rest` holds a tensor copy's coordinates."""

    base: Register | Symbol | Immediate
    offset: int = 0
    rest: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """{a, b, ...}, a vector operand, or (a, b, ...), a call's list."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """The operand `_`."""


@dataclass(frozen=True, slots=True)
class Pair:
    """p|q: two destinations of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """!p: a predicate operand, inverted."""

    operand: Operand


Operand = Register | Special | Immediate | Symbol | Address | Group | Sink | Pair | Negated


def registers_of(operand: Operand) -> Iterator[int]:
    """The indices of the registers in an operand, those of addresses among them."""
    if isinstance(operand, Register):
        yield operand.index
        return
    parts: tuple[Operand, ...] = ()
    if isinstance(operand, Negated):
        parts = (operand.operand,)
    elif isinstance(operand, Pair):
        parts = (operand.first, operand.second)
    elif isinstance(operand, Group):
        parts = operand.items
    elif isinstance(operand, Address):
        parts = (operand.base, *operand.rest)
    for part in parts:
        yield from registers_of(part)


@dataclass(slots=True)
class Instruction:
    """One instruction. `guard` is the predicate register's index, -1: none.

    `line` is that of the submission, 0 if unknown; `outermost` the one of the call that brought it into the kernel,
    where functions were inlined, else `line`. `places` are the lines of the PTX that it stands on: more than one
    where it is spread over lines, or where a product and a sum were fused. Not `counted` is what the emulator alone
    does.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: int = -1
    guard_negated: bool = False
    line: int = 0
    text: str = ""
    outermost: int = 0
    places: tuple[int, ...] = ()
    counted: bool = True


@dataclass(slots=True)
class Label:
    """A place to jump to; names are unique in a function."""

    name: str


@dataclass(slots=True)
class Variable:
    """A variable or parameter in memory. `size` in bytes; 0 for an unsized extern array. `initial` may be shorter."""

    name: str
    space: str  # global, shared, local, const, param
    size: int
    align: int
    initial: bytes = b""
    pointers: tuple[tuple[int, str, int], ...] = ()  # byte offset, symbol, addend: addresses in the initialiser
    external: bool = False


@dataclass(slots=True)
class Function:
    """A kernel or device function."""

    name: str
    entry: bool
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: list[str] = field(default_factory=list)  # the type of each
    variables: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # .branchtargets
    body: list[Instruction | Label] = field(default_factory=list)
    defined: bool = False
    cluster: tuple[int, int, int] | None = None  # .reqnctapercluster
    explicit_cluster: bool = False
    max_cluster: int = 0  # .maxclusterrank, 0: not given


@dataclass(slots=True)
class Module:
    """A whole PTX text."""

    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

    def function_addresses(self) -> dict[str, int]:
        """What the address of each function is: no place in memory, only a number to tell functions apart by."""
        return {name: FIRST_FUNCTION + 16 * i for i, name in enumerate(self.functions)}
