"""What is known of a PTX instruction: one row each, and the table that finds the row of an opcode."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from warplab.emulator.program import Work, WorkKind
from warplab.isa.syntax import TYPE_BITS, Address, Instruction, Operand

if TYPE_CHECKING:
    from warplab.emulator.lowering.lowering import Lowering

Emitter = Callable[["Lowering", Instruction, list[str]], None]
Pipe = Callable[[Sequence[str]], Work]

_FLOATS = {"f32": Work.FP32, "f64": Work.FP64, "f16": Work.FP16, "f16x2": Work.FP16, "bf16": Work.FP16,
           "bf16x2": Work.FP16, "f32x2": Work.FP32}  # fmt: skip
# As Nsight Compute tells them apart; a pair of halves is one operation to it.
_LETTERS = {"f32": "f", "f32x2": "f", "f64": "d", "f16": "h", "f16x2": "h", "bf16": "h", "bf16x2": "h"}
_PAIR_OF_FLOATS = "f32x2"
_LONGEST_NAME = 3  # parts of an opcode that name an instruction
_KEPT = 1 << 14  # opcodes that were looked up


def is_widening(parts: Sequence[str]) -> bool:
    """Is an opcode one of f32 with sources of 16 bits, as add.f32.f16?"""
    return parts[0] in ("add", "sub", "fma") and tuple(parts[-2:]) in (("f32", "f16"), ("f32", "bf16"))


def by_type(parts: Sequence[str]) -> Work:
    """The pipe of arithmetic, by the last type of an opcode, or the type of its result."""
    return _FLOATS.get(parts[-2 if is_widening(parts) else -1], Work.INTEGER)


@dataclass(frozen=True)
class Row:
    """One instruction: all that the emulator knows of it but how its emitter works.

    A form is an opcode with alternatives in braces, `add{.rn,.rz}{,.sat}.f32`, and its operands: T a register of the
    last type in the opcode, D of the last but one, a type's name a register of that type, 2T a vector of two, VT one
    of as many as the opcode's .v2 to .v8 says, T|pred a pair, [] an address, [tensor] a tensor map's with coordinates,
    [rows] one with those of four rows, [tmem] one in tensor memory, a number an immediate, @ a label, and everything
    else as it is. Forms and refused ones stand for what PTX has (PTX ISA 9.0); an emitter may take more modifiers than
    they list, such as hints for caches.
    """

    forms: tuple[tuple[str, str], ...] = ()  # that the emitter takes
    emitter: Emitter | None = None  # None: every form is refused
    pipe: Work | Pipe = by_type
    refused: tuple[tuple[str, str], ...] = ()  # forms that PTX has and the emulator does not
    writes: bool = True  # its first operand, unless that is an address, is overwritten in every thread that gets here
    leaves: bool = False  # a thread that executes it does not go on behind it
    stores: bool = False  # it may write global memory, at its addresses
    float_operation: str = ""  # add, mul or fma, if it is one when its type is a float's
    since: Mapping[str, int] = field(default_factory=dict)  # the first sm of opcodes with all of these parts, "" of all
    tested: str = ""  # the file that holds its values against independent ones; "": none does
    name_parts: int = 1  # of an opcode: 2 where the first modifier makes another instruction, as in st.async; at most 3

    @cached_property
    def opcodes(self) -> tuple[str, ...]:
        """Every opcode of its forms, refused ones too."""
        return tuple(opcode for form, _ in self.forms + self.refused for opcode in expand(form))

    @cached_property
    def taken(self) -> frozenset[str]:
        """The opcodes that the emitter must take."""
        return frozenset(opcode for form, _ in self.forms for opcode in expand(form))

    @cached_property
    def names(self) -> frozenset[str]:
        """The opcodes without modifiers."""
        return frozenset(".".join(opcode.split(".")[: self.name_parts]) for opcode in self.opcodes)

    def architecture(self, parts: Sequence[str]) -> int:
        """The number of the first target that has an opcode; 0: all that the emulator knows have it."""
        return max((sm for marks, sm in self.since.items() if set(marks.split(".")) - {""} <= set(parts)), default=0)

    def kind(self, parts: Sequence[str]) -> WorkKind:
        """What an opcode counts as."""
        work = self.pipe if isinstance(self.pipe, Work) else self.pipe(parts)
        letter = _LETTERS.get(parts[-2 if is_widening(parts) else -1], "") if self.float_operation else ""
        return WorkKind(
            work,
            work is Work.INTEGER and TYPE_BITS.get(parts[-1]) == 64,
            letter and letter + self.float_operation,
            2 if parts[-1] == _PAIR_OF_FLOATS else 1,
        )


def expand(form: str) -> list[str]:
    """All opcodes that a form with alternatives in braces stands for."""
    pieces = re.split(r"\{([^}]*)\}", form)
    choices = [[p] if i % 2 == 0 else p.split(",") for i, p in enumerate(pieces)]
    return ["".join(c) for c in itertools.product(*choices)]


@dataclass(frozen=True)
class Opcode:
    """What the table says of one opcode."""

    row: Row | None  # None: there is no such instruction
    parts: tuple[str, ...]
    architecture: int = 0
    kind: WorkKind = WorkKind()


class InstructionTable:
    """Finds rows by opcode. Rows that share a name are told apart by the last part of their opcodes, the type.

    Raises ValueError if two rows claim the same opcode.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)
        sharing: dict[str, list[Row]] = {}
        for row in rows:
            for name in row.names:
                sharing.setdefault(name, []).append(row)
        self._alone = {name: found[0] for name, found in sharing.items() if len(found) == 1}
        self._typed: dict[tuple[str, str], Row] = {}
        for name, last, row in _types(sharing):
            if self._typed.setdefault((name, last), row) is not row:
                raise ValueError(f"Two rows have {name} with the type {last}; give its forms to one of them.")
        self.look_up: Callable[[str], Opcode] = lru_cache(_KEPT)(self._look_up)

    def find(self, opcode: str) -> Row | None:
        """The row of an opcode; None if there is no such instruction."""
        return self.look_up(opcode).row

    def _look_up(self, opcode: str) -> Opcode:
        parts, words = tuple(opcode.replace("::", "__").split(".")), opcode.split(".")
        for length in range(_LONGEST_NAME, 0, -1):
            name = ".".join(words[:length])
            row = self._alone.get(name) or self._typed.get((name, parts[-1]))
            if row is not None:
                return Opcode(row, parts, row.architecture(parts), row.kind(parts))
        return Opcode(None, parts)

    def written(self, instruction: Instruction) -> tuple[Operand, ...]:
        """The operands that an instruction certainly overwrites in a thread that executes it."""
        operands = instruction.operands
        if not operands or isinstance(operands[0], Address):
            return ()
        row = self.find(instruction.opcode)
        return operands[:1] if row is not None and row.writes else ()


def _types(sharing: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, str, Row]]:
    """Names that several rows share, with the types of each row."""
    for name, rows in sharing.items():
        for row in rows if len(rows) > 1 else ():
            for opcode in row.opcodes:
                first, *modifiers = opcode.split(".")
                if first == name:
                    yield name, modifiers[-1], row
