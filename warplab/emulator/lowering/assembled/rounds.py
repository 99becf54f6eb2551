"""Loops of which ptxas made several: of four rounds at a time as long as so many are left, then of two, then of one.

Lanes that have more rounds before them than others are not in the same of these loops, so that an access of the PTX is
several requests. Where the machine code has such loops, lanes are made to go round as they do there: those that have
the rounds of a group left go through it together, and the others wait. A lane knows how many rounds it has left, as the
loop counts up or down to a number that is known before it. Whether a lane goes on is decided by the loop's own
condition. How often each group is gone through is counted besides, as not all of its rounds have the same instructions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from warplab.emulator.core.state.layout import (
    DST,
    FULL_MASK,
    GUARD,
    GUARD_XOR,
    OP_ACTIVEMASK,
    OP_ATOMIC,
    OP_BRANCH,
    OP_LOAD,
    OP_NOP,
    OP_SPECIAL,
    OP_STORE,
    OP_WATCH,
    SRC_A,
    SRC_B,
    VECTOR_BASE,
)
from warplab.emulator.lowering.assembled.owners import is_access, made_of
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.program import GroupPass, Record, make_record
from warplab.isa.machine_code import MachineInstruction

_IN_ROUNDS = (OP_ATOMIC, OP_LOAD, OP_NOP, OP_SPECIAL, OP_STORE, OP_WATCH)
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


class _Group(NamedTuple):
    """One of the loops made of a loop: the rounds that it goes at once, and its block and guard in the machine code."""

    rounds: int
    block: int
    guard: str


class _Loop(NamedTuple):
    """A loop of one basic block: its first record and the branch that ends it, and the groups of its rounds, the
    largest first."""

    start: int
    end: int
    groups: list[_Group]


class _Count(NamedTuple):
    """How a loop counts: it goes on while a register, to which each round adds `step`, has this `condition` to a
    `bound`. `ahead`: the comparison is of the register as it was before the addition."""

    register: int
    step: int
    condition: str
    kind: str  # of the comparison: s32, u64 and the like
    bound: int
    ahead: bool


def group_rounds(lowering: Lowering, code: Sequence[MachineInstruction]) -> None:
    """Have the lanes of a kernel, lowered and not linked yet, go round its loops in the groups of its machine code."""
    made: defaultdict[int, list[MachineInstruction]] = defaultdict(list)
    for instruction in code:
        if not instruction.rare:
            made[instruction.line].append(instruction)
    names = {VECTOR_BASE + number: name for name, number in lowering.index.items()}
    constants = {place: key[1] for key, place in lowering.bank.offsets.items() if isinstance(key[1], int)}
    for start, end in reversed(_self_loops(lowering)):
        body = lowering.records[start:end]
        groups = _groups(body, made)
        count = _count(body, lowering.records[end], names, constants) if groups else None
        if count:
            _Grouped(lowering, _Loop(start, end, groups), count).put()


def _self_loops(lowering: Lowering) -> list[tuple[int, int]]:
    """The first record and the branch of each loop that has no other branches and nothing that waits for lanes."""
    targets = {lowering.labels[r.target] for r in lowering.records if r.target}
    loops = []
    for end, record in enumerate(lowering.records):
        if record.op != OP_BRANCH or not record.target:
            continue
        start = lowering.labels[record.target]
        body = lowering.records[start:end]
        plain = all(r.op >= VECTOR_BASE or r.op in _IN_ROUNDS for r in body)
        if start < end and plain and not any(start < target <= end for target in targets):
            loops.append((start, end))
    return loops


def _groups(body: Sequence[Record], made: dict[int, list[MachineInstruction]]) -> list[_Group]:
    """The groups of a loop's rounds: how often each machine block, or guard in one, has that of its accesses of which
    most were made. Empty if there is one loop, or they are no such row."""
    rows: list[list[_Group]] = []
    for record in body:
        if record.counted and record.places and is_access(record) and not record.fields[GUARD]:
            found = Counter((i.block, i.guard) for i in made_of(record, made[record.places[0]]))
            rows.append([_Group(rounds, *place) for place, rounds in found.items()])
    groups = max(rows, key=lambda row: sum(group.rounds for group in row), default=[])
    falls = all(more.rounds > fewer.rounds for more, fewer in zip(groups, groups[1:], strict=False))
    return groups if len(groups) > 1 and groups[-1].rounds == 1 and falls else []


def _count(body: Sequence[Record], branch: Record, names: dict[int, str], constants: dict[int, int]) -> _Count | None:
    """How a loop counts; None if that is not easily said."""
    writers: defaultdict[int, list[int]] = defaultdict(list)
    for number, record in enumerate(body):
        if record.fields[DST]:
            writers[record.fields[DST]].append(number)
    if len(writers[branch.fields[GUARD]]) != 1:
        return None
    number = writers[branch.fields[GUARD]][0]
    comparison = body[number]
    operation, _, rest = names.get(comparison.op, "").partition(".")
    condition, _, kind = rest.partition(".")
    register, bound = comparison.fields[SRC_A], comparison.fields[SRC_B]
    if operation != "setp" or condition not in _OPPOSITE or comparison.fields[GUARD] or kind[1:] not in ("32", "64"):
        return None
    if len(writers[register]) != 1 or writers[bound]:
        return None
    addition = body[writers[register][0]]
    if names.get(addition.op) != f"add.i{kind[1:]}" or addition.fields[SRC_A] != register or addition.fields[GUARD]:
        return None
    step = constants.get(addition.fields[SRC_B], 0)
    step -= (step >> int(kind[1:]) - 1) << int(kind[1:])
    condition = _OPPOSITE[condition] if branch.fields[GUARD_XOR] else condition
    rises = condition in ("lt", "le") or condition == "ne" and step > 0
    if not step or condition == "eq" or condition != "ne" and rises != (step > 0):
        return None
    return _Count(register, step, condition, kind, bound, number < writers[register][0])


class _Grouped:
    """Puts what groups the rounds of a loop around it and into it."""

    def __init__(self, lowering: Lowering, loop: _Loop, count: _Count) -> None:
        self.lowering = lowering
        self.loop = loop
        self.count = count
        self.beside = lowering.records[loop.start]
        self.left, self.now = lowering.temporary(64), lowering.temporary(64)  # rounds of the lane; of the group
        self.mine, self.more = lowering.temporary(1), lowering.temporary(1)  # is it the lane's turn; does it go on
        self.labels: dict[str, Record] = {}

    def put(self) -> None:
        """Change the kernel's records and labels."""
        start, end = self.loop.start, self.loop.end
        records, branch = self.lowering.records, self.lowering.records[end]
        head, closing = self._choose(), self._round(branch)
        again, further, turn = (self._new(OP_BRANCH) for _ in range(3))
        again.fields[GUARD], again.target = self.more, self._label(head[0])
        # The loop's own branch is where lanes part that have no more rounds.
        branch.fields[GUARD_XOR], branch.target = ~branch.fields[GUARD_XOR], self._label(again)
        further.fields[GUARD] = self._vector(closing, "setp.gt.s64", 1, self.now, self._constant(0))
        further.target = self._label(records[start])
        # Those whose turn it is not wait behind the group.
        turn.fields[GUARD], turn.fields[GUARD_XOR], turn.target = self.mine, -1, self._label(again)
        opening = [*self._before(), *head, turn, *self._passes()]  # labels of the loop's start lead there
        closing = [*closing, branch, further, again]
        self.lowering.records = [*records[:start], *opening, *records[start:end], *closing, *records[end + 1 :]]
        labels = self.lowering.labels
        for name, position in labels.items():
            if position > end:
                labels[name] = position + len(opening) + len(closing) - 1
        places = {id(record): number for number, record in enumerate(self.lowering.records)}
        labels |= {name: places[id(record)] for name, record in self.labels.items()}

    def _before(self) -> list[Record]:
        """In front of the loop: how many rounds a lane has before it. A wrong number changes no result."""
        count = self.count
        added: list[Record] = []
        register, bound = count.register, count.bound
        if count.kind[1:] == "32":
            wide = "zext.32.64" if count.kind[0] == "u" else "sext.32.64"
            register, bound = (self._vector(added, wide, 64, row) for row in (register, bound))
        rises = count.step > 0
        far = self._vector(added, "sub.i64", 64, *((bound, register) if rises else (register, bound)))
        size = abs(count.step)
        # Compared behind the addition, `lt` is false behind ceil(far / size) rounds, `le` behind floor(far / size) + 1.
        more = 0 if count.condition == "ne" else size - 1 if count.condition in ("lt", "gt") else size
        more += size * count.ahead
        far = self._vector(added, "add.i64", 64, far, self._constant(more))
        added.append(self._new(VECTOR_BASE + self.lowering.index["div.s64"], self.left, far, self._constant(size)))
        added.append(self._move(self.more, True))
        return added

    def _choose(self) -> list[Record]:
        """At the head of a group: the most rounds that a lane has left, and whether this one has."""
        added = [self._move(self.mine, True), self._copy(self.now, self._constant(1))]
        everyone, others = self.lowering.temporary(32), self.lowering.temporary(32)
        added.append(self._new(OP_ACTIVEMASK, everyone))
        for rounds, *_ in reversed(self.loop.groups[:-1]):
            has = self._vector(added, "setp.ge.s64", 1, self.left, self._constant(rounds))
            some = self.lowering.temporary(1)
            added.append(self._move(some, True))
            over = self._new(OP_BRANCH)
            over.fields[GUARD] = has
            # Lanes that have fewer left see by who is with them that some have more.
            alone = self._new(OP_ACTIVEMASK, others)
            differ = self._new(VECTOR_BASE + self.lowering.index["setp.ne.i32"], some, everyone, others)
            added += [over, alone, differ]
            kept = self._vector(added, "not.pred", 1, some)
            over.target = self._label(added[-1])
            chosen = self._vector(added, "and.pred", 1, some, has)
            kept = self._vector(added, "and.pred", 1, kept, self.mine)
            added.append(self._new(VECTOR_BASE + self.lowering.index["or.pred"], self.mine, chosen, kept))
            longer = self._copy(self.now, self._constant(rounds))
            longer.fields[GUARD] = some
            added.append(longer)
        return added

    def _passes(self) -> list[Record]:
        """At the start of a group: counters of which it is. All lanes that are there are in one."""
        added: list[Record] = []
        for rounds, block, guard in self.loop.groups:
            other = self._vector(added, "setp.ne.i64", 1, self.now, self._constant(rounds))
            over = self._new(OP_BRANCH)
            over.fields[GUARD] = other
            counter, behind = self._new(OP_NOP), self._new(OP_NOP)
            counter.probe = GroupPass(self.beside, block, guard)
            over.target = self._label(behind)
            added += [over, counter, behind]
        return added

    def _round(self, branch: Record) -> list[Record]:
        """At the end of a round, in front of the loop's own branch."""
        one, negated = self._constant(1), branch.fields[GUARD_XOR]
        step = VECTOR_BASE + self.lowering.index["sub.i64"]
        goes_on = VECTOR_BASE + self.lowering.index["not.pred" if negated else "mov.pred"]
        return [
            *(self._new(step, row, row, one) for row in (self.left, self.now)),
            self._new(goes_on, self.more, branch.fields[GUARD]),
        ]

    # Records

    def _new(self, op: int, dst: int = 0, a: int = 0, b: int = 0) -> Record:
        record = make_record(op, dst, a, b)
        record.line, record.outermost, record.counted = self.beside.line, self.beside.outermost, False
        return record

    def _vector(self, added: list[Record], key: str, width: int, a: int, b: int = 0) -> int:
        """Add an operation, and give the new row of its result."""
        row = self.lowering.temporary(width)
        added.append(self._new(VECTOR_BASE + self.lowering.index[key], row, a, b))
        return row

    def _copy(self, row: int, source: int) -> Record:
        return self._new(VECTOR_BASE + self.lowering.index["mov.i64"], row, source)

    def _move(self, row: int, value: bool) -> Record:
        constant = self.lowering.bank.row(1, FULL_MASK if value else 0)
        return self._new(VECTOR_BASE + self.lowering.index["mov.pred"], row, constant)

    def _constant(self, value: int) -> int:
        return self.lowering.constant(64, value)

    def _label(self, of: Record) -> str:
        label = self.lowering.new_label()
        self.labels[label] = of
        return label
