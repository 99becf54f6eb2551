"""Which machine instructions are the loads and stores of a line of PTX: not every one that bears its line is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from warplab.emulator.core.state.layout import (
    GUARD,
    OP_BARRIER,
    OP_LOAD,
    OP_STORE,
    SPACE_CONST,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_LOCAL,
    SPACE_PARAM,
    SPACE_SHARED,
    X0,
    X1,
    X2,
)
from warplab.emulator.lowering.assembled.addresses import Addresses
from warplab.emulator.program import Record
from warplab.isa.machine_code import MachineInstruction

_LETTERS = {SPACE_GLOBAL: "G", SPACE_SHARED: "S", SPACE_LOCAL: "L", SPACE_GENERIC: "GSL"}
_ADDRESS = re.compile(r"\[([^][]+?)(?:\+(-?0x[0-9a-f]+))?\](?!.*\])")  # the last brackets: the first hold a descriptor


class _Place(NamedTuple):
    """The machine block of an access, and the register and the number of which its address is the sum."""

    block: int
    register: str
    offset: int


def is_access(record: Record) -> bool:
    """Does it load or store anything but constants and parameters?"""
    return record.op in (OP_LOAD, OP_STORE) and record.fields[X0] not in (SPACE_CONST, SPACE_PARAM)


def access_kind(record: Record) -> tuple[int, int, int]:
    """Accesses of one kind may be joined: they do the same in the same space under the same guard."""
    return record.op, record.fields[X0], record.fields[GUARD]


def access_bytes(record: Record) -> int:
    """The bytes of a lane's access."""
    return record.fields[X1] * record.fields[X2]


def made_of(record: Record, made: Iterable[MachineInstruction]) -> list[MachineInstruction]:
    """Those of its line's instructions that access what it accesses; others are registers that ptxas spills."""
    if not is_access(record):
        return []
    stem = "LD" if record.op == OP_LOAD else "ST"
    roots = {stem, *(stem + letter for letter in _LETTERS[record.fields[X0]])}
    found = [i for i in made if i.root in roots]
    spill = stem + "L"
    if record.fields[X0] == SPACE_GENERIC and any(i.root != spill for i in found):
        return [i for i in found if i.root != spill]
    return found


def loads_behind(records: Sequence[Record], one: int, other: int) -> bool:
    """Is a load of another block behind one, past no barrier, so that both may have been made at once?"""
    return records[one].op == OP_LOAD and one < other and all(r.op != OP_BARRIER for r in records[one:other])


def owned(
    records: Sequence[Record],
    at: Mapping[int, Sequence[int]],
    made: Mapping[int, Sequence[MachineInstruction]],
    block: Sequence[int],
    addresses: Addresses,
) -> dict[int, list[MachineInstruction]]:
    """The loads and stores of each line of PTX (`at` has its records, `made` the instructions that bear it).

    ptxas joins accesses before it knows whether they are aligned. Parts that it has to take apart again bear the line
    of one of them: each is given back to the access at its distance, of the same block or, of loads, behind it.
    """
    found = {place: made_of(records[numbers[0]], made[place]) for place, numbers in at.items()}
    single = {place: numbers[0] for place, numbers in at.items() if len(numbers) == 1}
    alike: defaultdict[tuple, list[int]] = defaultdict(list)  # lines of accesses of one kind and size
    for place, number in single.items():
        if is_access(records[number]):
            alike[*access_kind(records[number]), access_bytes(records[number])].append(place)
    for (*_, size), places in alike.items():
        for place in places:
            if len(found[place]) < 2 or any(i.width != size for i in found[place]):
                continue
            near = {0: place}
            for other in sorted(places, key=lambda p: block[single[p]] != block[single[place]]):
                one, two = single[place], single[other]
                distance = None if found[other] else addresses.distance(one, two)
                if distance and (block[one] == block[two] or loads_behind(records, one, two)):
                    near.setdefault(distance, other)
            if len(near) > 1:
                found |= _given_back(found[place], near)
    return found


def _given_back(found: Sequence[MachineInstruction], near: Mapping[int, int]) -> dict[int, list[MachineInstruction]]:
    """The instructions of the lines at these distances; empty if they are no whole sets of them."""
    left = {_place(i): i for i in found}
    if len(left) < len(found):
        return {}  # of blocks that are copies
    apart = {b.offset - a.offset for a in left for b in left if (a.block, a.register) == (b.block, b.register)}
    near = {distance: line for distance, line in near.items() if distance in apart}
    parts: dict[int, list[MachineInstruction]] = {line: [] for line in near.values()}
    for first in sorted(left):
        if first not in left:
            continue
        for distance, line in near.items():
            part = left.pop(first._replace(offset=first.offset + distance - min(near)), None)
            if part is None:
                return {}
            parts[line].append(part)
    return parts if len(near) > 1 else {}


def _place(instruction: MachineInstruction) -> _Place:
    m = _ADDRESS.search(instruction.operands)
    if m is None:
        return _Place(instruction.block, instruction.operands, 0)
    return _Place(instruction.block, m[1], int(m[2] or "0", 0))
