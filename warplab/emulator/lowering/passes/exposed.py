"""Which volatile loads need something else that orders them, and which plain ones a compare-and-swap checks.

A volatile access is a relaxed one of system scope (PTX ISA, "Memory Consistency Model"): it may meet others without a
data race, but it orders nothing, so what it reads may be old or new. That is right in two places. A loop may wait with
the read, again and again from one address, until the value lets it go on. And a read may decide about a branch alone,
as one does that looks whether there is anything left to do. Elsewhere the value itself is used, in a sum, an address or
a store, and then it has to be known which one it is: such a load is exposed.

`old = *p; do { seen = old; old = atomicCAS(p, seen, f(seen)); } while (old != seen);` begins with a plain read, which
may find any value: the atomic goes on with it only if it is still there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from warplab.emulator.lowering.passes.liveness import successors
from warplab.emulator.lowering.rows import InstructionTable
from warplab.isa.syntax import Address, Function, Instruction, Label, Operand, Register, registers_of

# Modifiers of a load that no PTX has.
EXPOSED, CHECKED = "\x00exposed", "\x00checked"
_COPIES = ("mov", "cvta")


def mark_exposed(function: Function, table: InstructionTable) -> None:
    """Give the loads of a function that are exposed, or checked by a compare-and-swap, a modifier that says so."""
    loads = [place for place, item in enumerate(function.body) if _loads(item)]
    volatile = [place for place in loads if "volatile" in _parts(function.body[place])]
    swaps = [item for item in function.body if isinstance(item, Instruction) and _swaps(item)]
    if not volatile and not swaps:
        return
    flow = _Flow(function, table)
    marked = {place: EXPOSED for place in volatile if flow.is_exposed(place)}
    marked |= {place: CHECKED for swap in swaps for place in flow.first_reads(swap, loads)}
    for place, modifier in marked.items():
        item = function.body[place]
        assert isinstance(item, Instruction)
        root, *modifiers = item.opcode.split(".")
        item.opcode = ".".join((root, modifier, *modifiers))


def _parts(item: Instruction | Label) -> list[str]:
    return item.opcode.split(".") if isinstance(item, Instruction) else []


def _loads(item: Instruction | Label) -> bool:
    return _parts(item)[:1] == ["ld"] and isinstance(item, Instruction) and isinstance(item.operands[1], Address)


def _swaps(item: Instruction) -> bool:
    parts = _parts(item)
    return parts[0] == "atom" and "cas" in parts and isinstance(item.operands[1], Address)


class _Flow:
    """Where a function's registers are written and read, and what may come behind each instruction."""

    def __init__(self, function: Function, table: InstructionTable) -> None:
        self.body = function.body
        self.writes: defaultdict[int, list[int]] = defaultdict(list)
        self.reads: defaultdict[int, list[int]] = defaultdict(list)
        for place, item in enumerate(self.body):
            if isinstance(item, Label):
                continue
            written = table.written(item)
            for register in _registers(written):
                self.writes[register].append(place)
            for register in _registers(item.operands[len(written) :]):
                self.reads[register].append(place)
            if item.guard >= 0:
                self.reads[item.guard].append(place)
        self.following = successors(function, table)
        self.before: defaultdict[int, list[int]] = defaultdict(list)
        for place, following in enumerate(self.following):
            for other in following:
                self.before[other].append(place)

    def is_exposed(self, load: int) -> bool:
        """Is the value that an instruction loads used for more than branches, and not waited for by a loop?"""
        item = self.body[load]
        assert isinstance(item, Instruction)
        branches, is_data = self._uses(set(_registers(item.operands[:1])))
        return is_data and not self._waits(load, branches)

    def _uses(self, registers: set[int]) -> tuple[set[int], bool]:
        """The branches that some registers decide about, and whether they reach memory or an address."""
        branches: set[int] = set()
        waiting, is_data = list(registers), False
        while waiting:
            register = waiting.pop()
            for place in self.reads[register]:
                item = self.body[place]
                assert isinstance(item, Instruction)
                used = register in set(_registers(item.operands))
                root = item.opcode.split(".")[0]
                if root == "bra" or root == "brx":
                    branches.add(place)
                elif used and (root in ("st", "red", "call", "ret", "cp") or _in_address(item, register)):
                    is_data = True
                elif used:
                    is_data = is_data or root == "atom"
                    for other in set(_registers(item.operands[:1])) - registers:
                        registers.add(other)
                        waiting.append(other)
        return branches, is_data

    def _waits(self, load: int, branches: set[int]) -> bool:
        """Does a loop read one address again until the value lets it go on?"""
        item = self.body[load]
        assert isinstance(item, Instruction)
        changing = {place for register in self._roots(item.operands[1]) for place in self.writes[register]}
        behind = _reached(self.following[load], self.following, changing)
        if load not in behind:
            return False
        loop = behind & _reached(self.before[load], self.before, changing)
        return any(any(following not in loop for following in self.following[b]) for b in branches & loop)

    def _roots(self, operand: Operand) -> set[int]:
        """The registers that an address is made of, as far back as each is written in one place."""
        roots: set[int] = set()
        waiting = list(registers_of(operand))
        seen = set(waiting)
        while waiting:
            register = waiting.pop()
            if len(self.writes[register]) != 1:
                roots.add(register)
                continue
            made = self.body[self.writes[register][0]]
            assert isinstance(made, Instruction)
            for source in _registers(made.operands[1:]):
                if source not in seen:
                    seen.add(source)
                    waiting.append(source)
        return roots

    def first_reads(self, swap: Instruction, loads: Iterable[int]) -> Iterator[int]:
        """The plain loads of the place that a compare-and-swap works on whose value it compares with."""
        compared = set(_registers(swap.operands[2:3]))
        waiting = list(compared)
        while waiting:
            for place in self.writes[waiting.pop()]:
                made = self.body[place]
                if isinstance(made, Instruction) and made.opcode.split(".")[0] == "mov":
                    new = set(_registers(made.operands[1:])) - compared
                    compared |= new
                    waiting += new
        for place in loads:
            item = self.body[place]
            assert isinstance(item, Instruction)
            target, address = item.operands[0], item.operands[1]
            plain = not {"volatile", "relaxed", "acquire", "mmio", "nc"} & set(_parts(item))
            same = isinstance(target, Register) and target.index in compared
            if plain and same and self._source(address) == self._source(swap.operands[1]):
                yield place

    def _source(self, address: Operand) -> tuple[object, int]:
        """What an address is made from by copies, and the offset."""
        assert isinstance(address, Address)
        base: Operand = address.base
        while isinstance(base, Register) and len(self.writes[base.index]) == 1:
            made = self.body[self.writes[base.index][0]]
            assert isinstance(made, Instruction)
            if made.opcode.split(".")[0] not in _COPIES:
                break
            base = made.operands[1]
        return base, address.offset


def _registers(operands: Iterable[Operand]) -> Iterator[int]:
    for operand in operands:
        yield from registers_of(operand)


def _in_address(item: Instruction, register: int) -> bool:
    return any(register in set(registers_of(o)) for o in item.operands if isinstance(o, Address))


def _reached(starts: Iterable[int], edges: list[list[int]] | defaultdict[int, list[int]], closed: set[int]) -> set[int]:
    """The places that some lead to, none of them through those that are closed."""
    reached: set[int] = set()
    waiting = [start for start in starts if start not in closed]
    while waiting:
        place = waiting.pop()
        if place not in reached:
            reached.add(place)
            waiting += [other for other in edges[place] if other not in closed]
    return reached
