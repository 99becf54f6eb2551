"""What holds before each record of a lowered kernel, on any path from its start: for registers in flight.

Sets of registers are Python integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from warplab.emulator.core.state.layout import GUARD, OP_BRANCH, OP_EXIT, OP_JUMP
from warplab.emulator.program import Record

T = TypeVar("T")
S = TypeVar("S")


def bits_of_numbers(numbers: list[int]) -> int:
    """A set of registers as a whole number."""
    result = 0
    for number in numbers:
        result |= 1 << number
    return result


def numbers_of(word: int) -> list[int]:
    """The registers of a set."""
    result = []
    while word:
        low = word & -word
        result.append(low.bit_length() - 1)
        word ^= low
    return result


def successors_of(records: list[Record], labels: dict[str, int]) -> tuple[list[int], list[list[int]]]:
    """Starts of the basic blocks, and each block's successors."""
    size = len(records)
    starts = {0} | {p for p in labels.values() if p < size}
    starts |= {i + 1 for i, r in enumerate(records) if r.op in (OP_BRANCH, OP_JUMP, OP_EXIT) and i + 1 < size}
    ordered = sorted(starts)
    index = {start: i for i, start in enumerate(ordered)}
    successors = []
    for block, _ in enumerate(ordered):
        end = ordered[block + 1] if block + 1 < len(ordered) else size
        last, following = records[end - 1], []
        if last.op in (OP_BRANCH, OP_JUMP) and labels[last.target] < size:
            following.append(index[labels[last.target]])
        if (last.op not in (OP_JUMP, OP_EXIT) or last.op == OP_EXIT and last.fields[GUARD]) and end in index:
            following.append(index[end])
        successors.append(following)
    return ordered, successors


def states_before(
    steps: Sequence[S],
    starts: list[int],
    successors: list[list[int]],
    empty: T,
    after: Callable[[T, S], T],
    join: Callable[[T, T], T],
) -> list[T]:
    """The state before each step, on any path from the kernel's start."""
    ends = [*starts[1:], len(steps)]
    entry: list[T | None] = [None] * len(starts)
    entry[0] = empty
    waiting = [0]
    states = [empty] * len(steps)
    while waiting:
        block = waiting.pop()
        state = entry[block]
        assert state is not None
        for position in range(starts[block], ends[block]):
            states[position] = state
            state = after(state, steps[position])
        for other in successors[block]:
            known = entry[other]
            joined = state if known is None else join(known, state)
            if joined != known:
                entry[other] = joined
                waiting.append(other)
    return states
