"""Loads of shared and local memory that compilers make for all threads though only some of them use the value.

`if (t == 0 && s[0])` and `k < n ? a[k] : 0` become a load by every thread and a selection afterwards: NVVM knows that
the load does no harm. The source asks for it in the selecting threads only, and only there can it be a race or a read
of what nothing wrote. So the sanitizers are told of these threads by records of their own in front of the load, one for
each of its registers, and the load itself, which counts as it is, goes past them.

A value is used by some threads only if each of its uses, directly or through operations on it and constants, is
* one side of a `selp`;
* beside a predicate in an `and.pred` or `or.pred` that decides without it;
* in a block that only a branch of the load's own block leads to.
The predicate must hold at the load what it holds at the use, or be a comparison that can be made at the load already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from warplab.emulator.lowering.passes.liveness import successors
from warplab.emulator.lowering.rows import InstructionTable
from warplab.isa.syntax import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Register,
    Sink,
    Symbol,
    registers_of,
)

# Modifiers of a load that no PTX has.
FOR_SANITIZERS, PAST_SANITIZERS = "\x00watch", "\x00unwatched"
_SPACES = {"shared", "shared::cta", "local"}
_PLAIN = {
    *_SPACES, "v2", "v4", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64",
}  # fmt: skip
_ON_CONSTANTS = {
    "mov", "cvt", "setp", "and", "or", "xor", "not", "neg", "abs", "add", "sub", "mul", "mad", "min", "max", "shl",
    "shr", "bfe",
}  # fmt: skip
_STEPS = 8  # from a value to its use, and from a block to its load's


class Condition(NamedTuple):
    """A predicate that has a value; `made` is the comparison that makes it, where it is not there yet."""

    predicate: int
    value: bool
    made: Instruction | None = None


def watch_speculated(function: Function, table: InstructionTable) -> None:
    """Put records for the sanitizers in front of the loads of a function whose values only some threads use."""
    if not any(_is_plain_load(item) for item in function.body):
        return
    uses = _Uses(function, table)
    body: list[Instruction | Label] = []
    for place, item in enumerate(function.body):
        if isinstance(item, Instruction) and _is_plain_load(item):
            registers = item.operands[0].items if isinstance(item.operands[0], Group) else item.operands[:1]
            conditions = [uses.condition(register, place) for register in registers]
            if any(conditions):
                for element, (register, condition) in enumerate(zip(registers, conditions, strict=True)):
                    if isinstance(register, Register):
                        body += _watched(function, item, element, register, condition)
                item = replace(item, opcode=_with(item.opcode, PAST_SANITIZERS))
        body.append(item)
    function.body = body


def _is_plain_load(item: Instruction | Label) -> bool:
    if isinstance(item, Label) or not item.opcode.startswith("ld.") or item.guard >= 0:
        return False
    parts = set(item.opcode.split(".")[1:])
    return parts <= _PLAIN and bool(parts & _SPACES) and isinstance(item.operands[1], Address)


def _with(opcode: str, modifier: str) -> str:
    root, *modifiers = opcode.split(".")
    return ".".join((root, modifier, *modifiers))


def _watched(
    function: Function, load: Instruction, element: int, register: Register, condition: Condition | None
) -> Iterator[Instruction]:
    """A load of one element into a register that nothing reads, by the threads of the condition."""
    *modifiers, kind = (part for part in load.opcode.split(".") if part not in ("v2", "v4"))
    address = load.operands[1]
    assert isinstance(address, Address)
    place = replace(address, offset=address.offset + element * int(kind[1:]) // 8)
    unread = Register(len(function.registers))
    function.registers.append(function.registers[register.index])
    watch = replace(
        load,
        opcode=_with(".".join((*modifiers, kind)), FOR_SANITIZERS),
        operands=(unread, place),
        places=(),
        counted=False,
    )
    if condition is None:
        yield watch
        return
    predicate = condition.predicate
    if condition.made is not None:
        predicate = len(function.registers)
        function.registers.append("pred")
        made = condition.made
        yield replace(made, operands=(Register(predicate), *made.operands[1:]), places=(), counted=False)
    yield replace(watch, guard=predicate, guard_negated=not condition.value)


class _Uses:
    """Where a function's registers are written and read, and how its blocks are reached."""

    def __init__(self, function: Function, table: InstructionTable) -> None:
        self.body = function.body
        self.writes: defaultdict[int, list[int]] = defaultdict(list)
        self.reads: defaultdict[int, list[int]] = defaultdict(list)
        self.block: list[int] = []
        block = 0
        for place, item in enumerate(self.body):
            if isinstance(item, Label):
                block = place
            self.block.append(block)
            if isinstance(item, Label):
                continue
            for register in _written(item):
                self.writes[register].append(place)
            for register in _read(item, table):
                self.reads[register].append(place)
            row = table.find(item.opcode)
            if (row is not None and row.leaves) or item.opcode.startswith("call"):
                block = place + 1
        self.following = successors(function, table)
        self.before: defaultdict[int, list[int]] = defaultdict(list)
        for place, following in enumerate(self.following):
            for other in following:
                self.before[other].append(place)

    def condition(self, register: Operand, load: int) -> Condition | None:
        """The one condition without which no thread uses what `register` gets at `load`; None: there is none."""
        if not isinstance(register, Register):
            return None
        first, *others = self._conditions(register.index, load, load, _STEPS)
        return first if all(other == first for other in others) else None

    def _conditions(self, register: int, made: int, load: int, steps: int) -> Iterator[Condition | None]:
        """The conditions of each use of a register that the instruction at `made` writes; of none, None."""
        if self.writes[register] != [made] or not self.reads[register] or steps == 0:
            yield None
            return
        for use in self.reads[register]:
            item = self.body[use]
            assert isinstance(item, Instruction)
            if self.block[use] != self.block[load]:
                yield self._reached(use, load)
            elif use < made or item.guard >= 0:
                yield None
            else:
                yield from self._used(item, use, register, load, steps)

    def _used(self, item: Instruction, use: int, register: int, load: int, steps: int) -> Iterator[Condition | None]:
        root = item.opcode.split(".")[0]
        target, *sources = item.operands
        mine = [source == Register(register) for source in sources]
        if root == "selp" and mine in ([True, False, False], [False, True, False]):
            yield self._at_load(sources[2], mine[0], use, load)
        elif item.opcode in ("and.pred", "or.pred") and sum(mine) == 1:
            yield self._at_load(sources[1 - mine.index(True)], item.opcode == "and.pred", use, load)
        elif root in _ON_CONSTANTS and isinstance(target, Register) and all(map(_is_known, sources, mine)):
            yield from self._conditions(target.index, use, load, steps - 1)
        else:
            yield None

    def _reached(self, use: int, load: int) -> Condition | None:
        """The condition of the branch out of the load's block which alone leads to `use`."""
        start = use
        for _ in range(_STEPS):
            start = self.block[start]
            before = self.before[start]
            if len(before) != 1:
                return None
            leaves = before[0]
            if self.block[leaves] == self.block[load]:
                break
            start = leaves
        else:
            return None
        branch = self.body[leaves]
        if (
            not isinstance(branch, Instruction)
            or not branch.opcode.startswith("bra")
            or branch.guard < 0
            or leaves < load
        ):
            return None
        if len(set(self.following[leaves])) != 2:
            return None
        taken = start != leaves + 1
        return self._at_load(Register(branch.guard), taken != branch.guard_negated, leaves, load)

    def _at_load(self, predicate: Operand, value: bool, use: int, load: int) -> Condition | None:
        """What must hold at the load for `predicate` to have this value at `use`, in the same block."""
        if isinstance(predicate, Negated):
            return self._at_load(predicate.operand, not value, use, load)
        if not isinstance(predicate, Register):
            return None
        between = [place for place in self.writes[predicate.index] if load < place < use]
        if not between:
            return Condition(predicate.index, value)
        made = self.body[between[0]]
        assert isinstance(made, Instruction)
        if len(between) > 1 or made.guard >= 0:
            return None
        if (made.opcode, value) in (("and.pred", True), ("or.pred", False)):
            parts = (self._at_load(part, value, between[0], load) for part in made.operands[1:])
            return next((part for part in parts if part is not None), None)
        if made.opcode == "not.pred":
            return self._at_load(made.operands[1], not value, between[0], load)
        target, *sources = made.operands
        if not made.opcode.startswith("setp.") or len(sources) != 2 or not isinstance(target, Register):
            return None
        later = (place for source in sources for register in registers_of(source) for place in self.writes[register])
        if any(load <= place < between[0] for place in later):
            return None
        return Condition(predicate.index, value, made)


def _is_known(source: Operand, mine: bool) -> bool:
    return mine or isinstance(source, Immediate)


def _written(item: Instruction) -> Iterator[int]:
    """The registers that an instruction may write: those of its first operand that are no address."""
    if item.operands and not isinstance(item.operands[0], (Address, Symbol, Sink)):
        yield from registers_of(item.operands[0])


def _read(item: Instruction, table: InstructionTable) -> Iterator[int]:
    """The registers that an instruction may read: what is not known to write its first operand may read it."""
    for operand in item.operands[len(table.written(item)) :]:
        yield from registers_of(operand)
    if item.guard >= 0:
        yield item.guard
