"""Control flow: where the two sides of each branch meet again, and the final order of records.

A divergent branch reconverges at its immediate post-dominator: the first block that every path to the end of the kernel
goes through, but for paths that leave the kernel at once: lanes that exit are not waited for. (Where the machine code
has lanes meet earlier, `assembled/meetings.py` has made all paths lead there.) Those blocks get a JOIN record in front,
the only places where a split has to look whether its siblings wait for it. (Cooper, Harvey and
Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from warplab.emulator.core.state.layout import GUARD, IMM, OP_BRANCH, OP_EXIT, OP_JOIN, OP_JUMP, X0, X1
from warplab.emulator.program import Record, make_record

_TERMINATORS = (OP_BRANCH, OP_JUMP, OP_EXIT)


class Graph:
    """Basic blocks of a list of records. Block `count` is the end of the kernel."""

    def __init__(self, records: list[Record], labels: dict[str, int]) -> None:
        size = len(records)
        targets = {r.target: labels[r.target] for r in records if r.target}
        leaders = {0} | {t for t in targets.values() if t < size}
        leaders |= {i + 1 for i, r in enumerate(records) if r.op in _TERMINATORS and i + 1 < size}
        self.starts = sorted(leaders)
        self.count = len(self.starts)
        block_of = {start: i for i, start in enumerate(self.starts)}
        self.ends = [*self.starts[1:], size]
        self.successors: list[list[int]] = []
        for block, end in enumerate(self.ends):
            last = records[end - 1]
            following = block + 1
            next_blocks = []
            if last.op in (OP_BRANCH, OP_JUMP):
                next_blocks.append(block_of.get(targets[last.target], self.count))
            if last.op == OP_EXIT:
                next_blocks.append(self.count)
            if last.op not in (OP_JUMP, OP_EXIT) or last.op == OP_EXIT and last.fields[GUARD]:
                next_blocks.append(following)
            self.successors.append(next_blocks)
        self.successors.append([])

    @cached_property
    def before(self) -> list[list[int]]:
        """The blocks in front of each."""
        before: list[list[int]] = [[] for _ in self.successors]
        for block, following in enumerate(self.successors):
            for other in following:
                before[other].append(block)
        return before

    def meetings(self, records: list[Record]) -> list[int]:
        """Where the sides of each block's branch meet: lanes that do nothing but leave are not waited for, as long as
        others do not leave that way only."""
        every = immediate_dominators(self.successors, self.count)
        ends = {self.count, *(n for n, start in enumerate(self.starts) if only_exits(records, start))}
        reaching = [[n for n in after if n not in ends] or after for after in self.successors]
        some = immediate_dominators(reaching, self.count)
        result = [one if one >= 0 else other for one, other in zip(some, every, strict=True)]
        # Where nobody can be waiting yet, the others just go on.
        block = 0
        while 0 <= block < self.count:
            following = result[block]
            if ends & set(self.successors[block]) and not self._comes_back(block):
                result[block] = every[block]
            block = following
        return result

    def _comes_back(self, block: int) -> bool:
        """Is it part of a loop?"""
        seen: set[int] = set()
        waiting = [*self.successors[block]]
        while waiting:
            other = waiting.pop()
            if other == block:
                return True
            if other not in seen:
                seen.add(other)
                waiting += self.successors[other]
        return False


def immediate_dominators(ways: list[list[int]], root: int) -> list[int]:
    """The immediate dominator of each block where `ways` has the blocks in front of each, or its post-dominator where
    it has those behind it and `root` is the end; -1 for what no path joins with `root` (an endless loop)."""
    onward: list[list[int]] = [[] for _ in ways]
    for block, others in enumerate(ways):
        for other in others:
            onward[other].append(block)
    order = _reverse_postorder(onward, root)
    rank = {block: i for i, block in enumerate(order)}
    immediate = [-1] * len(ways)
    immediate[root] = root
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [s for s in ways[block] if immediate[s] >= 0]
            best = known[0]
            for other in known[1:]:
                a, b = best, other
                while a != b:
                    while rank[a] > rank[b]:
                        a = immediate[a]
                    while rank[b] > rank[a]:
                        b = immediate[b]
                best = a
            if immediate[block] != best:
                immediate[block] = best
                changed = True
    return immediate


def dominates(dominators: Sequence[int], one: int, other: int) -> bool:
    """Do all ways to block `other` lead through `one`, or is it that? `dominators` are immediate ones, of root 0."""
    while other not in (one, 0, -1):
        other = dominators[other]
    return other == one


def _reverse_postorder(onward: list[list[int]], root: int) -> list[int]:
    """Blocks that paths from the root reach, the root first."""
    seen, postorder = {root}, []
    stack = [(root, iter(onward[root]))]
    while stack:
        block, rest = stack[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(onward[other])))
                break
        else:
            postorder.append(block)
            stack.pop()
    return postorder[::-1]


def only_exits(records: list[Record], start: int) -> bool:
    """Does the block do nothing but leave the kernel?"""
    return start < len(records) and records[start].op == OP_EXIT and not records[start].fields[GUARD]


def link(records: list[Record], labels: dict[str, int]) -> list[Record]:
    """Insert JOIN records, resolve labels, and fill each branch's target and meeting point."""
    if (
        not records
        or records[-1].op not in (OP_EXIT, OP_JUMP)
        or records[-1].op == OP_EXIT
        and records[-1].fields[GUARD]
    ):
        records = [*records, make_record(OP_EXIT)]
        records[-1].counted = False
    end = len(records)
    records = [*records, make_record(OP_EXIT)]  # a label at the very end has something to point at
    records[-1].counted = False
    labels = {name: min(position, end) for name, position in labels.items()}
    graph = Graph(records, labels)
    immediate = graph.meetings(records)
    meeting: dict[int, int] = {}  # branch record -> record where its sides meet, -1: nowhere
    for block in range(graph.count):
        last = graph.ends[block] - 1
        if records[last].op == OP_BRANCH:
            join = immediate[block]
            start = graph.starts[join] if 0 <= join < graph.count else -1
            meeting[last] = -1 if start < 0 or only_exits(records, start) else start
    joins = sorted({m for m in meeting.values() if m >= 0})
    moved: dict[int, int] = {}
    result: list[Record] = []
    waiting = set(joins)
    for position, record in enumerate(records):
        moved[position] = len(result)
        if position in waiting:
            marker = make_record(OP_JOIN)
            marker.counted = False
            marker.line, marker.text = record.line, record.text
            result.append(marker)
        result.append(record)
    for position, record in enumerate(records):
        if record.target:
            target = labels[record.target]
            record.fields[IMM] = moved[target]
            if record.op == OP_BRANCH:
                meet = meeting.get(position, -1)
                record.fields[X0] = moved[meet] if meet >= 0 else -1
                record.fields[X1] = 1 if only_exits(records, target) else 0
    return result
