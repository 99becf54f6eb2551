"""The decoded kernel: dense instruction records, the constant bank, and what explains them to a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warplab.emulator.core.state.layout import (
    C_THREADS,
    DST,
    FIRST_PREDICATE,
    GUARD,
    GUARD_XOR,
    IMM,
    OP,
    RECORD_WORDS,
    SRC_A,
    SRC_B,
    SRC_C,
    X0,
    X1,
    X2,
)

# What a constant row holds: a plain number, or a tag that only the launch can resolve:
# ("param", offset, bytes), ("symbol", name, addend), ("ntid", axis), ("nctaid", axis) and so on.
Constant = int | tuple


class Work(StrEnum):
    """A kind of instruction, by the pipe that would run it. The values are the first words of fields of Counters."""

    FP32 = "fp32"
    FP64 = "fp64"
    FP16 = "fp16"
    INTEGER = "integer"
    CONVERSION = "conversion"
    SPECIAL = "special"  # reciprocals, roots, exponentials, sines
    MOVE = "move"  # copies between registers and reads of parameters, which the assembler mostly drops
    MEMORY = "memory"
    CONTROL = "control"
    EXCHANGE = "exchange"  # between the lanes of a warp
    TENSOR = "tensor"


class WorkKind(NamedTuple):
    """What an instruction counts as, beside its traffic. PTX is not SASS: the assembler merges, drops and adds some."""

    work: Work = Work.CONTROL
    wide: bool = False  # integer arithmetic on 64 bits
    operation: str = ""  # "fadd", "dmul", "hfma" and so on: of additions, products and fused ones of floats
    operations: int = 1  # of those in one thread


def row_bytes(width: int) -> int:
    """Bytes of a register row of `width` bits a lane."""
    return 4 * width


class Probe(NamedTuple):
    """What a record is for that does nothing but count the threads in which a predicate is true, or is false, behind
    another record."""

    beside: Record
    predicate: int  # its row
    false: bool


class OperandTest(NamedTuple):
    """The same in front of another record, of a comparison of one of its operands with a constant."""

    beside: Record
    key: str  # of the vector operation that compares
    row: int  # of the operand
    absolute: bool  # its absolute value is compared
    constant: int  # its bits
    false: bool

    @property
    def kind(self) -> str:
        """The type of the operand."""
        return self.key.rpartition(".")[2]


class SubroutineCall(NamedTuple):
    """The same in front of a division or a root, of what the assembler's subroutine does where operands need it."""

    beside: Record
    key: str  # of the vector operation that tells where
    kind: int  # see layout.py
    row: int  # of the operand, or what is divided
    divisor: int


class GroupPass(NamedTuple):
    """The same in front of the first record of a loop, of the lanes that go through a group of its rounds together:
    once for all of the group (lowering/assembled/rounds.py)."""

    beside: Record
    block: int  # of the machine code that is the group
    guard: str  # under which it is there


@dataclass
class Record:
    """One instruction to be: the sixteen fields, and its target while that is still a label."""

    fields: list[int]
    target: str = ""
    line: int = 0
    outermost: int = 0  # the line of the kernel's call that it belongs to; `line` if it is the kernel's own
    text: str = ""
    kind: WorkKind = WorkKind()  # of the instruction that it belongs to
    places: tuple[int, ...] = ()  # lines of the PTX that it was made of
    counted: bool = True  # False for the extra steps of an instruction that needs several
    probe: AnyProbe | None = None
    keeps: tuple[int, ...] = ()  # further registers that have to be as they were when it runs

    @property
    def op(self) -> int:
        return self.fields[OP]


AnyProbe = Probe | OperandTest | SubroutineCall | GroupPass


def make_record(
    op: int, dst: int = 0, a: int = 0, b: int = 0, c: int = 0, *, imm: int = 0, extra: tuple[int, ...] = ()
) -> Record:
    """A record with its fields in place; guard and source line are set by the caller."""
    fields = [0] * RECORD_WORDS
    fields[OP], fields[DST], fields[SRC_A], fields[SRC_B], fields[SRC_C], fields[IMM] = op, dst, a, b, c, imm
    fields[GUARD], fields[GUARD_XOR] = 0, 0
    fields[X0 : X0 + len(extra)] = extra
    return Record(fields)


def local_words(fields: Sequence[int] | np.ndarray) -> int:
    """The requests of an access to local memory: lanes lie side by side word by word, so one for each 4 bytes."""
    return max(int(fields[X1]) * int(fields[X2]) // 4, 1)


@dataclass
class ConstantBank:
    """Rows of 32 equal lanes, addressed by negative offsets from the bank's end."""

    offsets: dict[tuple[int, Constant], int] = field(default_factory=dict)
    used: int = 0

    def row(self, width: int, value: Constant) -> int:
        """The offset of a row holding `value` in lanes of `width` bits (1: a predicate word)."""
        key = (width, value)
        if key not in self.offsets:
            self.used += max(row_bytes(width), 64)
            self.offsets[key] = -self.used
        return self.offsets[key]


@dataclass
class Frame:
    """The register frame of a warp: where each register's row lies."""

    predicates: int = FIRST_PREDICATE
    rows: int = 0  # bytes of virtual rows
    placed: list[tuple[int, int]] = field(default_factory=list)  # (virtual offset, width)

    def allocate(self, width: int) -> int:
        """Reserve a register. Rows get virtual offsets from ROWS_BASE on; `registers.py` gives them a final place."""
        if width == 1:
            offset = self.predicates
            self.predicates += 4
            return offset
        offset = ROWS_BASE + self.rows
        self.rows += row_bytes(max(width, 16))
        self.placed.append((offset, width))
        return offset


ROWS_BASE = 1 << 20  # predicates stay below: a kernel would need 260,000 of them to reach it


@dataclass(frozen=True)
class Term:
    """A counter's part that the machine code adds: `share` times what the records `of` have counted.

    `what` is the field of their counts: threads, warps, wavefronts. It belongs to the line of the record `at`.
    """

    at: int
    counter: str
    share: Fraction
    of: tuple[int, ...]
    what: int = C_THREADS


@dataclass(frozen=True)
class Program:
    """A kernel ready to run: records as one int32 array, with source lines and texts beside it."""

    entry: str
    code: np.ndarray = field(repr=False)  # int32 [instructions, RECORD_WORDS]
    lines: np.ndarray = field(repr=False)  # int32 [instructions]
    outermost: np.ndarray = field(repr=False)  # int32 [instructions]: lines of the kernel's calls, see Record
    counted: np.ndarray = field(repr=False)  # bool [instructions]
    texts: tuple[str, ...] = field(repr=False)
    kinds: tuple[WorkKind, ...] = field(repr=False)
    constants: dict[tuple[int, Constant], int] = field(repr=False)
    constant_bytes: int
    frame_bytes: int
    local_bytes: int  # a thread
    shared_symbols: dict[str, int]  # offset of each static shared variable from the start of the block's window
    static_shared: int  # bytes, reserved ones included
    dynamic_shared: tuple[str, ...]  # names of the unsized shared arrays
    dynamic_start: int  # where they start in the window
    specials: tuple[tuple[int, int], ...]  # (which, frame offset) to fill when a block starts
    parallel: bool  # neither blocks nor warps talk to each other by fences and flags: blocks may run on several cores
    # Parameters and variables through which it may write; None: it may write to anything.
    writes: frozenset[str] | None = None
    # Bytes of its narrowest access through each set of parameters and variables; an empty set: through anything.
    widths: dict[frozenset[str], int] = field(default_factory=dict, repr=False)
    # What the machine code has instead of the records' float operations; None: it is not known.
    terms: tuple[Term, ...] | None = None
    shares: dict[int, Fraction] = field(default_factory=dict, repr=False)  # of accesses: how much of them it has
    of_ptx: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)  # records of each line of the PTX
    elected: frozenset[int] = frozenset()  # atomics that one lane of a warp does for all
    notes: dict[str, str] = field(default_factory=dict, repr=False)  # what a reader of the results should know

    @cached_property
    def opcodes(self) -> frozenset[int]:
        """Those of all records."""
        return frozenset(self.code[:, OP].tolist())
