"""Places where the machine code has lanes meet though some paths lead past: at the end of a loop's body that others
leave by `break`, behind the conditions of `if (a || b)`, in front of the one branch back that was made of several.

There a barrier of the warp waits for lanes (BSYNC), and lanes that go past leave it before (BREAK), or leave the kernel
behind what they alone do; or the branches have become predicates, so that lanes never part. A split of the interpreter
waits where all paths lead. So lanes that would go past are led to the meeting with a flag set, and go where they would
behind it. As they wait there for others on the way, which the hardware does not have them do, this is done only where
others come in any case: past nothing that waits, and no loop in which they might ask what others have done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from warplab.emulator.core.state.layout import (
    FULL_MASK,
    GUARD,
    OP_ATOMIC,
    OP_BRANCH,
    OP_EXIT,
    OP_FENCE,
    OP_JUMP,
    OP_LOAD,
    OP_NOP,
    OP_SPECIAL,
    OP_STORE,
    OP_WATCH,
    PAST_L1_BIT,
    VECTOR_BASE,
    X3,
)
from warplab.emulator.lowering.flow import Graph, dominates, immediate_dominators, only_exits
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.program import Record, make_record
from warplab.isa.machine_code import MachineInstruction

_GO_ON = (OP_BRANCH, OP_EXIT, OP_JUMP, OP_LOAD, OP_SPECIAL, OP_STORE, OP_WATCH)
_IN_NO_LOOP = (OP_ATOMIC, OP_FENCE, OP_NOP)  # fences and nanosleep stand where loops ask for what others write
_ACCESSES = ("LD", "LDG", "LDS", "ST", "STG", "STS", "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS")
_MOST_BLOCKS = 64  # on the ways to a meeting


class _Meeting(NamedTuple):
    """Basic blocks of the records: where lanes part, those on the ways to where they meet, and that one."""

    fork: int
    between: frozenset[int]
    meeting: int

    @property
    def ways(self) -> frozenset[int]:
        """The blocks whose ends lead to the meeting, or past it."""
        return self.between | {self.fork}


class _Barrier(NamedTuple):
    """A barrier of a warp (BSSY, BSYNC): lines of PTX of what follows it, of the branch at which lanes part, and of
    where they leave it (BREAK). `again`: where nothing but a branch back follows, lines of the loop's head."""

    behind: list[int]
    forks: list[int]
    leaving: list[int]
    again: list[int]


def let_lanes_meet(lowering: Lowering, code: Sequence[MachineInstruction]) -> None:
    """Lead the lanes of a kernel, lowered and not linked yet, to where its machine code has them meet."""
    code = [i for i in code if not i.rare]
    if not any(i.root == "BSYNC" or _is_guarded_access(i) for i in code):
        return
    _join_ways_back(lowering, code)
    tried: set[int] = set()  # first records of meetings, by identity
    while True:
        kernel = _Kernel(lowering.records, lowering.labels, code)
        found: list[_Meeting] = []
        taken: set[int] = set()
        for meeting in sorted(kernel.meetings(), key=lambda m: len(m.between)):
            first = id(lowering.records[kernel.graph.starts[meeting.meeting]])
            blocks = meeting.ways | {meeting.meeting}
            if first not in tried and not blocks & taken:
                tried.add(first)
                taken |= blocks
                found.append(meeting)
        if not found:
            return
        detours = _Detours(lowering, kernel.graph)
        for meeting in found:
            detours.add(meeting)
        detours.finish()


def _join_ways_back(lowering: Lowering, code: Sequence[MachineInstruction]) -> None:
    """Have all ways back to a loop's head lead through one new block, where the machine code has lanes meet ahead of
    its one branch back."""
    lines = {line for barrier in _barriers(code) for line in barrier.again}
    if not lines:
        return
    graph = Graph(lowering.records, lowering.labels)
    dominators = immediate_dominators(graph.before, 0)
    for head, start in enumerate(graph.starts):
        body = lowering.records[start : graph.ends[head]]
        back = [b for b in sorted(set(graph.before[head])) if dominates(dominators, head, b)]
        ends = [lowering.records[graph.ends[b] - 1] for b in back]
        if len(back) < 2 or not any(lines & set(r.places) for r in body if r.counted):
            continue
        if any(not r.target or lowering.labels[r.target] != start for r in ends):
            continue  # lanes fall through from one of them
        if _falls_through(lowering.records[-1]) or len(lowering.records) in lowering.labels.values():
            lowering.records.append(make_record(OP_EXIT))
            lowering.records[-1].counted = False
        jump, label = make_record(OP_JUMP), lowering.new_label()
        jump.line, jump.outermost, jump.counted = body[0].line, body[0].outermost, False
        jump.target = ends[0].target
        for end in ends:
            end.target = label
        lowering.set_label(label)
        lowering.records.append(jump)


class _Kernel:
    """Records beside machine code, with what the latter says of where lanes meet."""

    def __init__(self, records: list[Record], labels: dict[str, int], code: Sequence[MachineInstruction]) -> None:
        self.records = records
        self.code = code
        self.graph = graph = Graph(records, labels)
        self.blocks: defaultdict[int, list[int]] = defaultdict(list)  # those of each line of PTX
        self.lines: list[set[int]] = []
        for block, (start, end) in enumerate(zip(graph.starts, graph.ends, strict=True)):
            self.lines.append({place for r in records[start:end] if r.counted for place in r.places})
            for place in self.lines[-1]:
                self.blocks[place].append(block)
        self.made: defaultdict[int, list[MachineInstruction]] = defaultdict(list)
        self.lines_of: defaultdict[int, set[int]] = defaultdict(set)  # of each machine block
        for instruction in code:
            self.made[instruction.line].append(instruction)
            self.lines_of[instruction.block].add(instruction.line)
        self.before = graph.before
        self.dominators = immediate_dominators(self.before, 0)
        self.known: dict[int, _Meeting | None] = {}  # see _meeting

    def meetings(self) -> Iterator[_Meeting]:
        """Where lanes meet by the machine code and would not by the PTX."""
        for barrier in _barriers(self.code):
            yield from self._behind(barrier)
        for block in range(self.graph.count):
            meeting = self._meeting(block) if self._has_guarded_accesses(block) else None
            if meeting and self._became_predicates(meeting):
                yield meeting

    def _behind(self, barrier: _Barrier) -> list[_Meeting]:
        """The meetings behind a barrier, those to which the ways are shortest: ptxas may have put lines of later blocks
        there. A function inlined twice has two."""
        places = [self.blocks[line] for line in barrier.behind]
        places += [[b for head in self.blocks[line] for b in self._ways_back(head)] for line in barrier.again]
        found = [[m for m in map(self._meeting, blocks) if m and self._is_of(m, barrier)] for blocks in places]
        return min(filter(None, found), key=lambda meetings: len(meetings[0].between), default=[])

    def _ways_back(self, head: int) -> list[int]:
        """The block that joins the ways back to a loop's head, if there is one: it has no line of PTX."""
        return [block for block in self.before[head] if block > head and not self.lines[block]]

    def _is_of(self, meeting: _Meeting, barrier: _Barrier) -> bool:
        """Do lanes leave the barrier on the ways to a meeting? If none does: do they part there, and do those that go
        past leave the kernel?"""
        if barrier.leaving:
            return any(block in meeting.ways for line in barrier.leaving for block in self.blocks[line])
        return any(meeting.fork in self.blocks[line] for line in barrier.forks) and self._ends_others(meeting)

    def _ends_others(self, meeting: _Meeting) -> bool:
        """Do lanes that go past a meeting leave the kernel where those that met need not come?"""
        past = [b for block in meeting.ways for b in _leads_past(self.records, self.graph, meeting, block)]
        return self.graph.count in self._reached([meeting.meeting], self._reached(past, set()))

    def _reached(self, blocks: Iterable[int], without: set[int]) -> set[int]:
        """The blocks that ways lead to from some others, `without` what does more than leave the kernel."""
        reached: set[int] = set()
        waiting = list(blocks)
        while waiting:
            block = waiting.pop()
            leaves = block == self.graph.count or only_exits(self.records, self.graph.starts[block])
            if block not in reached and (leaves or block not in without):
                reached.add(block)
                waiting += self.graph.successors[block]
        return reached

    def _meeting(self, block: int) -> _Meeting | None:
        """The meeting that a block would be: None if all paths lead to it anyway, or if lanes might wait for it."""
        if block not in self.known:
            self.known[block] = self._as_meeting(block)
        return self.known[block]

    def _as_meeting(self, block: int) -> _Meeting | None:
        fork = self.dominators[block]
        if fork in (-1, block) or len(set(self.before[block])) < 2:
            return None
        between: set[int] = set()
        waiting = [b for b in self.before[block] if b != fork]
        while waiting:
            other = waiting.pop()
            if other in between:
                continue
            between.add(other)
            if other == block or len(between) > _MOST_BLOCKS or self.dominators[other] < 0:
                return None
            waiting += [b for b in self.before[other] if b != fork]
        meeting = _Meeting(fork, frozenset(between), block)
        if not any(_leads_past(self.records, self.graph, meeting, b) for b in meeting.ways):
            return None
        return meeting if self._comes_in_any_case(between) else None

    def _comes_in_any_case(self, between: set[int]) -> bool:
        """Does nothing in these blocks wait for other lanes?"""
        asks = False
        for block in between:
            for record in self.records[self.graph.starts[block] : self.graph.ends[block]]:
                if record.op < VECTOR_BASE and record.op not in (*_GO_ON, *_IN_NO_LOOP):
                    return False
                asks |= record.op in _IN_NO_LOOP or record.op == OP_LOAD and bool(record.fields[X3] & PAST_L1_BIT)
        return not asks or not self._has_loop(between)

    def _has_loop(self, between: set[int]) -> bool:
        inside = {block: len([b for b in self.before[block] if b in between]) for block in between}
        ready = [block for block, count in inside.items() if not count]
        passed = 0
        while ready:
            passed += 1
            for other in self.graph.successors[ready.pop()]:
                if other in between:
                    inside[other] -= 1
                    if not inside[other]:
                        ready.append(other)
        return passed < len(between)

    # Branches that became predicates

    def _accesses(self, block: int) -> list[MachineInstruction]:
        return [i for line in self.lines[block] for i in self.made[line] if i.root in _ACCESSES]

    def _has_guarded_accesses(self, block: int) -> bool:
        records = self.records[self.graph.starts[block] : self.graph.ends[block]]
        if any(r.fields[GUARD] for r in records if r.op in (OP_LOAD, OP_STORE, OP_ATOMIC)):
            return False
        accesses = self._accesses(block)
        return bool(accesses) and all(i.guard for i in accesses)

    def _became_predicates(self, meeting: _Meeting) -> bool:
        """Has the machine code no branch on the ways, and do the guarded accesses behind them stand where lanes would
        part?"""
        if any(i.root == "BRA" for block in meeting.ways for line in self.lines[block] for i in self.made[line]):
            return False
        fork = self.lines[meeting.fork]
        return all(fork & self.lines_of[i.block] for i in self._accesses(meeting.meeting))


def _barriers(code: Sequence[MachineInstruction]) -> Iterator[_Barrier]:
    """The barriers of a warp that are waited for, as the code is written."""
    blocks: defaultdict[int, list[MachineInstruction]] = defaultdict(list)
    for instruction in code:
        blocks[instruction.block].append(instruction)
    open_: dict[str, _Barrier] = {}
    for position, instruction in enumerate(code):
        name = instruction.operands.split(",")[0]
        if instruction.root == "BSSY":
            open_[name] = _Barrier([], [i.line for i in blocks[instruction.block] if i.root == "BRA"], [], [])
        elif instruction.root == "BREAK" and name in open_:
            open_[name].leaving.append(instruction.line)
        elif instruction.root == "BSYNC" and name in open_:
            first = code[position + 1]
            behind = list(dict.fromkeys(i.line for i in _rest_of_block(code, position + 1)))
            back = first.root == "BRA" and not first.guard and first.leads_to < instruction.block
            again = [i.line for i in blocks[first.leads_to]] if back else []
            yield open_.pop(name)._replace(behind=behind, again=again)


def _rest_of_block(code: Sequence[MachineInstruction], position: int) -> Iterator[MachineInstruction]:
    """The instructions of a block from one of them on, which stand side by side."""
    block = code[position].block
    while position < len(code) and code[position].block == block:
        yield code[position]
        position += 1


def _is_guarded_access(instruction: MachineInstruction) -> bool:
    return bool(instruction.guard) and instruction.root in _ACCESSES


def _leads_past(records: list[Record], graph: Graph, meeting: _Meeting, block: int) -> list[int]:
    """The blocks behind one to which lanes go past the meeting. Those that only leave the kernel nobody waits for."""
    inside = meeting.between | {meeting.meeting}
    return [
        other
        for other in dict.fromkeys(graph.successors[block])
        if other not in inside and other < graph.count and not only_exits(records, graph.starts[other])
    ]


class _Detours:
    """Leads lanes that would go past meetings to them, and on from there. The meetings have no block in common."""

    def __init__(self, lowering: Lowering, graph: Graph) -> None:
        self.lowering = lowering
        self.records = lowering.records
        self.graph = graph
        # What is new in front of each record: at the end of what precedes it, ahead of its labels, and behind those.
        self.ends, self.ahead, self.behind = (defaultdict[int, list[Record]](list) for _ in range(3))
        self.turned: list[tuple[Record, str]] = []  # branches, and where they are to lead
        self.labels: dict[str, int | Record] = {}  # new ones: of a record by its number, or of a new one

    def add(self, meeting: _Meeting) -> None:
        """Lead lanes to one meeting."""
        here = self._label(self.graph.starts[meeting.meeting])
        if _falls_through(self.records[self.graph.starts[meeting.meeting] - 1]):
            self._jump(self.ahead, self.graph.starts[meeting.meeting], here)
        detours: dict[int, str] = {}  # the label of each, by where it leads
        for block in sorted(meeting.ways):
            end = self.graph.ends[block]
            last = self.records[end - 1]
            for past in _leads_past(self.records, self.graph, meeting, block):
                if past not in detours:
                    detours[past] = self._detour(meeting, past, here)
                if last.target and self.lowering.labels[last.target] == self.graph.starts[past]:
                    self.turned.append((last, detours[past]))
                if past == block + 1 and _falls_through(last):
                    self._jump(self.ends, end, detours[past])

    def _detour(self, meeting: _Meeting, past: int, here: str) -> str:
        """The label of records that set a flag and go to the meeting, where those with the flag go on."""
        start = self.graph.starts[meeting.meeting]
        flag = self.lowering.temporary(1)
        self._insert(self.behind, self.graph.ends[meeting.fork] - 1, self._move(flag, 0))
        label = self._label(self._insert(self.ahead, start, self._move(flag, FULL_MASK)))
        self._jump(self.ahead, start, here)
        on = self._insert(self.behind, start, make_record(OP_BRANCH))
        on.fields[GUARD], on.target = flag, self._label(self.graph.starts[past])
        return label

    def _move(self, flag: int, value: int) -> Record:
        return make_record(VECTOR_BASE + self.lowering.index["mov.pred"], flag, self.lowering.bank.row(1, value))

    def _jump(self, where: defaultdict[int, list[Record]], position: int, label: str) -> None:
        self._insert(where, position, make_record(OP_JUMP)).target = label

    def _insert(self, where: defaultdict[int, list[Record]], position: int, record: Record) -> Record:
        beside = self.records[position]
        record.line, record.outermost, record.counted = beside.line, beside.outermost, False
        where[position].append(record)
        return record

    def _label(self, of: int | Record) -> str:
        label = self.lowering.new_label()
        self.labels[label] = of
        return label

    def finish(self) -> None:
        """Put all of it into the kernel."""
        result: list[Record] = []
        moved: list[int] = []
        for position, record in enumerate(self.records):
            result += self.ends[position] + self.ahead[position]
            moved.append(len(result))
            result += [*self.behind[position], record]
        moved.append(len(result))
        numbers = {id(record): number for number, record in enumerate(result)}
        labels = {name: moved[position] for name, position in self.lowering.labels.items()}
        for name, of in self.labels.items():
            labels[name] = moved[of] if isinstance(of, int) else numbers[id(of)]
        for record, label in self.turned:
            record.target = label
        self.lowering.records = result
        self.lowering.labels.clear()
        self.lowering.labels.update(labels)


def _falls_through(record: Record) -> bool:
    """Do lanes go on to the next record?"""
    return record.op != OP_JUMP and (record.op != OP_EXIT or bool(record.fields[GUARD]))
