"""Lowering: PTX instructions to interpreter records.

`Lowering` walks a kernel, inlines the device functions that it calls, gives registers their place in the frame and
constants theirs in the bank. What an instruction becomes is decided by the emitter that its row of the table of
instructions names (rows.py, instructions/). An instruction without a row or an emitter, or of a form that its emitter
refuses, becomes an OP_UNSUPPORTED record: executing it is a finding, so nothing is ever computed silently wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from warplab.emulator.core.alu.dispatch import vector_index
from warplab.emulator.core.state.layout import (
    FULL_MASK,
    GUARD,
    GUARD_XOR,
    OP_JUMP,
    OP_UNSUPPORTED,
    RESERVED_BYTES,
    SHARED_BASE,
    SPECIAL_CLUSTER_CTAID_X,
    SPECIAL_CLUSTER_CTAID_Y,
    SPECIAL_CLUSTER_CTAID_Z,
    SPECIAL_CLUSTER_CTARANK,
    SPECIAL_CLUSTERID_X,
    SPECIAL_CLUSTERID_Y,
    SPECIAL_CLUSTERID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_SMID,
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_WARPID,
    VECTOR_BASE,
)
from warplab.emulator.lowering.passes.liveness import read_registers
from warplab.emulator.lowering.rows import InstructionTable
from warplab.emulator.program import ConstantBank, Frame, Record, make_record
from warplab.errors import PlanError, WarplabError
from warplab.isa.parser import literal_bits
from warplab.isa.syntax import (
    TYPE_BITS,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
)

PER_BLOCK_SPECIALS = {
    "tid.x": SPECIAL_TID_X, "tid.y": SPECIAL_TID_Y, "tid.z": SPECIAL_TID_Z,
    "ctaid.x": SPECIAL_CTAID_X, "ctaid.y": SPECIAL_CTAID_Y, "ctaid.z": SPECIAL_CTAID_Z,
    "cluster_ctaid.x": SPECIAL_CLUSTER_CTAID_X, "cluster_ctaid.y": SPECIAL_CLUSTER_CTAID_Y,
    "cluster_ctaid.z": SPECIAL_CLUSTER_CTAID_Z, "cluster_ctarank": SPECIAL_CLUSTER_CTARANK,
    "clusterid.x": SPECIAL_CLUSTERID_X, "clusterid.y": SPECIAL_CLUSTERID_Y, "clusterid.z": SPECIAL_CLUSTERID_Z,
    "laneid": SPECIAL_LANEID, "warpid": SPECIAL_WARPID, "smid": SPECIAL_SMID,
}  # fmt: skip
LANE_MASKS = ("lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt")
PER_LAUNCH_SPECIALS = (
    "ntid.x", "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z", "nwarpid", "nsmid", "gridid",
    "total_smem_size", "dynamic_smem_size", "aggr_smem_size", *LANE_MASKS,
    "cluster_nctaid.x", "cluster_nctaid.y", "cluster_nctaid.z", "cluster_nctarank", "is_explicit_cluster",
    "nclusterid.x", "nclusterid.y", "nclusterid.z", "envreg1", "envreg2",
)  # fmt: skip
RESERVED_SPECIALS = {
    "reserved_smem_offset_begin": 0, "reserved_smem_offset_end": SHARED_BASE, "reserved_smem_offset_cap": SHARED_BASE,
}  # fmt: skip
# The part of the reserved shared memory that cooperative groups use; it lies with the kernel's own variables here.
SCRATCH = "reserved_smem_offset_1"

MAX_INSTRUCTIONS = 400_000
MAX_LOCAL = 512 << 10  # bytes per thread
MAX_CALL_DEPTH, MAX_COPIES = 64, 20_000  # of inlined functions: in each other, and in all
_ANY_ARCHITECTURE = 1 << 16  # where a text names no target
_LARGEST = 2**31 - 1  # of a record's field


class Unsupported(Exception):
    """The emulator does not have this form of an instruction."""


class LoweringError(WarplabError):
    """An emitter failed at an instruction whose form its row lists as taken: a fault of the emulator, not of the
    kernel's author. An assembler takes no malformed instruction, and what it has not taken is not judged."""


class LocalPlace(NamedTuple):
    """A place in the thread's local memory: an offset from the start, or from the address that row `base` holds."""

    base: int  # 0: none
    offset: int


class StackFrame:
    """The part of the stack that one call of a recursive function uses. `base` is the row with its address."""

    def __init__(self, base: int, used: int) -> None:
        self.base = base
        self.used = used


class Instance:
    """One inlined copy of a function: its registers, labels and local variables."""

    def __init__(self, lowering: Lowering, function: Function, prefix: str, stack: StackFrame | None = None) -> None:
        self.lowering = lowering
        self.function = function
        self.prefix = prefix
        self.line = self.outermost = 0  # of the call in the submission; 0: this is the kernel
        if lowering.calls:
            self.line, self.outermost = lowering.lines()
        self.places: dict[int, int] = {}
        self.locals: dict[str, LocalPlace] = {}  # of local variables and parameters
        self.stack = stack  # where its local variables go; None: a fixed place
        self.position = 0  # of the current instruction in the function's body

    def place(self, index: int) -> int:
        """The frame offset of a register."""
        if index not in self.places:
            self.places[index] = self.lowering.frame.allocate(TYPE_BITS[self.function.registers[index]])
        return self.places[index]

    @cached_property
    def _read(self) -> int:
        return read_registers(self.function, self.lowering.table)

    def is_read(self, operand: Operand) -> bool:
        """Does an instruction of the function read the register that this one writes?"""
        return isinstance(operand, Register) and bool(self._read >> operand.index & 1)


def bits_of(kind: str) -> int:
    """The bits of a type that an opcode names. Raises Unsupported if the emulator has no such type."""
    if kind not in TYPE_BITS:
        raise Unsupported
    return TYPE_BITS[kind]


class Lowering:
    """One kernel on its way from PTX to records."""

    def __init__(self, module: Module, entry: str, table: InstructionTable) -> None:
        self.module = module
        self.table = table
        self.kernel = module.functions.get(entry)
        if self.kernel is None or not self.kernel.defined:
            raise PlanError(f"The PTX has no kernel named {entry}; capture the submission again.")
        self.records: list[Record] = []
        self.labels: dict[str, int] = {}
        self.bank = ConstantBank()
        self.frame = Frame()
        self.specials: dict[str, int] = {}
        self.shared_symbols: dict[str, int] = {}
        self.dynamic_shared: list[str] = []
        self.shared_bytes = SHARED_BASE
        self.dynamic_align = 16
        self.local_bytes = 0
        self.parallel = True
        self.block_fences = self.shared_atomics = False  # together they order the warps of a block
        self.calls: list[str] = []
        self.cta_group = ""  # of its tcgen05 instructions; "": there has been none
        self.chain: list[Instance] = []  # the functions whose bodies are being lowered, the kernel first
        self.copies = 0
        self.recursive: dict[str, bool] = {}  # of functions: may a call lead to another call of it?
        self.live: dict[str, list[int]] = {}  # of recursive functions: the registers live after each instruction
        self.stack_pointer = 0  # its row; 0: no recursive function has been called
        self.stack_starts: list[Record] = []  # SRC_A is to be where the stack starts,
        self.stack_ends: list[Record] = []  # SRC_B where it ends
        self.at_end: list[Callable[[Lowering], None]] = []  # what needs to know the whole kernel
        self.notes: dict[str, str] = {}  # what a reader of the results should know
        self.index = vector_index()
        number = re.match(r"sm_(\d+)", module.target)
        self.architecture = int(number[1]) if number else _ANY_ARCHITECTURE
        self.functions = module.function_addresses()
        self.instance = Instance(self, self.kernel, "")
        self.current = Instruction("nop", ())
        self.first = True
        self.label_count = 0

    def lower(self) -> None:
        """Produce all records of the kernel."""
        self.calls.append(self.instance.function.name)
        self.walk(self.instance)
        for finish in self.at_end:
            finish(self)
        for record in self.records:
            if record.target and record.target not in self.labels:
                raise PlanError(
                    f"Kernel {self.calls[0]} jumps to a label that is not there, in {record.text[:60]!r}; compile it "
                    "again."
                )

    def walk(self, instance: Instance) -> None:
        """Lower one function body in place."""
        outer, self.instance = self.instance, instance
        if len(self.calls) > MAX_CALL_DEPTH or self.copies > MAX_COPIES:
            raise PlanError(
                f"Kernel {self.calls[0]} calls functions in more than {MAX_CALL_DEPTH} levels, or in more than "
                f"{MAX_COPIES} places; inline them, or make loops of them."
            )
        self.chain.append(instance)
        for position, item in enumerate(instance.function.body):
            instance.position = position
            if isinstance(item, Label):
                self.labels[instance.prefix + item.name] = len(self.records)
            else:
                self._lower_one(item)
            if len(self.records) > MAX_INSTRUCTIONS:
                raise PlanError(
                    f"Kernel {self.calls[0]} is longer than {MAX_INSTRUCTIONS} instructions with its calls inlined; "
                    "make its unrolled loops shorter."
                )
        self.chain.pop()
        self.instance = outer

    def _lower_one(self, instruction: Instruction) -> None:
        self.current, self.first = instruction, True
        opcode = self.table.look_up(instruction.opcode)
        row = opcode.row
        start, calls, chain, instance = len(self.records), len(self.calls), len(self.chain), self.instance
        architecture = opcode.architecture if opcode.architecture > self.architecture else 0
        try:
            if row is None or row.emitter is None or architecture:
                raise Unsupported
            row.emitter(self, instruction, list(opcode.parts))
            return
        except Unsupported:
            pass
        except WarplabError:
            raise
        except Exception as error:
            if row is not None and instruction.opcode in row.taken:
                line, _ = self.lines()
                raise LoweringError(
                    f"The emulator failed at {instruction.text[:200]!r}{f' on line {line}' if line else ''} by a fault "
                    f"of its own ({type(error).__name__}: {error}): please report it with this kernel"
                ) from error
            # No form of the table, and no emitter that expected it.
        # An emitter that gives up halfway must leave nothing behind. Labels that it made are in nobody's way.
        del self.records[start:], self.calls[calls:], self.chain[chain:]
        self.current, self.instance, self.first = instruction, instance, True
        self.emit(make_record(OP_UNSUPPORTED, imm=architecture))

    # Records

    def emit(self, record: Record) -> Record:
        """Append a record with the current instruction's guard and line; only an instruction's first one is counted."""
        instruction = self.current
        if max(record.fields) > _LARGEST or min(record.fields) < -_LARGEST - 1:
            raise Unsupported  # a constant offset beyond 32 bits
        if instruction.guard >= 0:
            record.fields[GUARD] = self.instance.place(instruction.guard)
            record.fields[GUARD_XOR] = -1 if instruction.guard_negated else 0
        record.line, record.outermost = self.lines()
        record.text, record.kind = instruction.text, self.table.look_up(instruction.opcode).kind
        record.places = instruction.places
        record.counted = self.first and instruction.counted
        self.first = False
        self.records.append(record)
        return record

    def lines(self) -> tuple[int, int]:
        """The line of the current instruction, and that of the kernel's call that it belongs to."""
        line = self.current.line or self.instance.line
        return line, self.instance.outermost or self.current.outermost or line

    def vector(self, key: str, dst: int, a: int = 0, b: int = 0, c: int = 0, *, imm: int = 0, extra=()) -> None:
        """Emit a vector operation by key; a key that does not exist is an unsupported instruction."""
        if key not in self.index:
            raise Unsupported
        self.emit(make_record(VECTOR_BASE + self.index[key], dst, a, b, c, imm=imm, extra=tuple(extra)))

    def jump(self, label: str) -> None:
        """Emit an unconditional jump."""
        self.emit(make_record(OP_JUMP)).target = label

    def new_label(self) -> str:
        """A label that no source has."""
        self.label_count += 1
        return f"\x00{self.label_count}"

    def set_label(self, label: str) -> None:
        self.labels[label] = len(self.records)

    # Operands

    def width(self, operand: Operand) -> int:
        """The bits of a register operand."""
        if isinstance(operand, Register):
            return TYPE_BITS[self.instance.function.registers[operand.index]]
        raise Unsupported

    def temporary(self, width: int) -> int:
        """A fresh register of the frame."""
        return self.frame.allocate(width)

    def constant(self, width: int, value: int) -> int:
        """A constant row."""
        return self.bank.row(width, value & ((1 << width) - 1))

    def target(self, operand: Operand, kind: str) -> int:
        """The place of a destination register of type `kind`; the sink `_` gets a register that nobody reads."""
        bits = bits_of(kind)
        if isinstance(operand, Sink):
            return self.temporary(bits)
        if not isinstance(operand, Register) or max(self.width(operand), 16) != max(bits, 16) and bits != 1:
            raise Unsupported
        if (bits == 1) != (self.width(operand) == 1):
            raise Unsupported
        return self.instance.place(operand.index)

    def source(self, operand: Operand, kind: str) -> int:
        """The place of a source operand read as type `kind`: a register, a constant, an address."""
        bits = bits_of(kind)
        if isinstance(operand, Register):
            width = self.width(operand)
            if width != bits and max(width, bits) > 16 or (width == 1) != (bits == 1):
                raise Unsupported
            return self.instance.place(operand.index)
        if isinstance(operand, Immediate):
            if kind == "pred":
                return self.bank.row(1, FULL_MASK if operand.value else 0)
            return self.constant(max(bits, 16), literal_bits(operand, kind))
        if isinstance(operand, Special):
            return self.special(operand.name, bits)
        if isinstance(operand, Symbol):
            return self.symbol(operand, bits)
        if isinstance(operand, Negated):
            inverted = self.temporary(1)
            self.vector("not.pred", inverted, self.source(operand.operand, kind))
            return inverted
        raise Unsupported

    def special(self, name: str, bits: int) -> int:
        """A row that holds a special register."""
        if name in RESERVED_SPECIALS:
            return self.constant(bits, RESERVED_SPECIALS[name])
        if name == SCRATCH:
            scratch = Variable(name, "shared", RESERVED_BYTES, 16)
            return self.bank.row(bits, ("shared", self.shared_name(scratch), 0))
        if name in PER_LAUNCH_SPECIALS:
            return self.bank.row(bits, (name,))
        if name not in PER_BLOCK_SPECIALS:
            raise Unsupported
        if name not in self.specials:
            self.specials[name] = self.frame.allocate(32)
        place = self.specials[name]
        if bits == 32:
            return place
        converted = self.temporary(bits)
        self.vector(f"zext.32.{bits}" if bits > 32 else f"trunc.32.{bits}", converted, place)
        return converted

    # Variables

    def variable(self, name: str) -> Variable | None:
        """A variable of the current function or of the module."""
        return self.instance.function.variables.get(name) or self.module.variables.get(name)

    def symbol(self, symbol: Symbol, bits: int) -> int:
        """A row that holds a variable's address (in its own state space, as PTX's mov gives it)."""
        variable = self.variable(symbol.name)
        if variable is None and symbol.name not in self.functions:
            raise Unsupported
        if variable is None:
            return self.constant(bits, self.functions[symbol.name])
        if variable.space == "shared":
            return self.bank.row(bits, ("shared", self.shared_name(variable), symbol.offset))
        if variable.space in ("local", "param") and self.is_local(variable):
            return self.local_address(self.local_place(variable), symbol.offset, bits)
        if variable.space in ("global", "const") and variable.name not in self.module.variables:
            raise Unsupported  # one of a function's own
        if variable.space == "param":
            return self.bank.row(bits, ("parameter", variable.name, symbol.offset))
        return self.bank.row(bits, ("symbol", variable.name, symbol.offset))

    def is_local(self, variable: Variable) -> bool:
        """Does the variable live in the thread's local memory? Kernel parameters do not, other parameters do."""
        return not (variable.space == "param" and variable.name in {p.name for p in self.kernel_parameters()})

    def kernel_parameters(self) -> list[Variable]:
        assert self.kernel is not None
        return self.kernel.parameters if self.instance.function is self.kernel else []

    def local_address(self, place: LocalPlace, offset: int, bits: int = 64) -> int:
        """A row with the address of a place in local memory."""
        if not place.base:
            return self.constant(bits, place.offset + offset)
        if bits != 64:
            raise Unsupported
        row = self.temporary(64)
        self.vector("add.i64", row, place.base, self.constant(64, place.offset + offset))
        return row

    def local_place(self, variable: Variable) -> LocalPlace:
        """Where a local variable, or a device function's parameter, is in the thread's local memory."""
        if variable.name not in self.instance.locals:
            self.instance.locals[variable.name] = self.allocate_local(variable)
        return self.instance.locals[variable.name]

    def allocate_local(self, variable: Variable) -> LocalPlace:
        align = max(variable.align, 8)
        stack = self.instance.stack
        if stack is not None:
            offset = -(-stack.used // align) * align
            stack.used = offset + max(variable.size, 4)
            return LocalPlace(stack.base, offset)
        self.local_bytes = -(-self.local_bytes // align) * align
        place = self.local_bytes
        self.local_bytes += max(variable.size, 4)
        if self.local_bytes > MAX_LOCAL:
            raise PlanError(
                f"Kernel {self.calls[0]} has local arrays of more than {MAX_LOCAL >> 10} KiB a thread, which is what a "
                "GPU gives; make them smaller."
            )
        return LocalPlace(0, place)

    def shared_name(self, variable: Variable) -> str:
        """Give a shared variable its place in the block's window; returns its unique name."""
        name = variable.name
        if variable.name in self.instance.function.variables:
            name = f"{self.instance.function.name}:{name}"
        if name in self.shared_symbols or name in self.dynamic_shared:
            return name
        if variable.size == 0:
            self.dynamic_shared.append(name)
            self.dynamic_align = max(self.dynamic_align, variable.align)
        else:
            align = max(variable.align, 1)
            self.shared_bytes = -(-self.shared_bytes // align) * align
            self.shared_symbols[name] = self.shared_bytes
            self.shared_bytes += variable.size
        return name
