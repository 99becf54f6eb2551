"""What the code around an instruction has: barriers, loops, waits. Findings give their advice by it."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.bulk_layout import FORM_DIRECTION, TO_GLOBAL
from warplab.emulator.core.state.layout import (
    COPY_ARRIVE,
    COPY_WAIT_ALL,
    COPY_WAIT_GROUP,
    IMM,
    OP,
    OP_BARRIER,
    OP_BRANCH,
    OP_BULK,
    OP_COPY_GROUP,
    OP_JUMP,
    OP_LOAD,
    OP_STORE,
    OP_TENSOR_CORE,
    SRC_A,
    X0,
    X7,
)
from warplab.emulator.program import Program

_GRID_BARRIER = ("envreg2",)  # the constant by which cooperative groups find the grid's barrier


class Surroundings:
    """Questions about a program's instructions, which `pc` numbers."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def overtaken(self, pcs: tuple[int, int], between: str) -> tuple[int, int] | None:
        """A product, and what is behind it and writes its operands: a barrier does not wait for the tensor core."""
        code, lines = self.program.code, self.program.outermost
        for product, other in (pcs, pcs[::-1]):
            later = int(lines[product]) > int(lines[other])
            if int(code[product, OP]) == OP_TENSOR_CORE and later is between.startswith("after"):
                return product, other
        return None

    def only_stores(self, pc: int) -> bool:
        """Does the line of an instruction store to global memory without reading any?"""
        code, lines = self.program.code, self.program.lines
        return not bool(((lines == lines[pc]) & (code[:, OP] == OP_LOAD)).any())

    def has_grid_barrier(self) -> bool:
        """Does the kernel use the grid's barrier of cooperative groups?"""
        return any(name == _GRID_BARRIER for _, name in self.program.constants)

    def signals(self) -> bool:
        """Do blocks wait for words that others release, and not at the grid's barrier of cooperative groups?"""
        if self.has_grid_barrier():
            return False
        return any("ld.acquire" in text or "atom.acq" in text for text in self.program.texts)

    def between(self, one: int, other: int) -> str:
        """Where a barrier that orders two instructions is missing, in words: between their lines, or, where the kernel
        has one there, on the way of a loop from the later line back to the earlier one."""
        code, lines = self.program.code, self.program.outermost
        if lines[one] == lines[other]:
            lines = self.program.lines  # one call does both: the barrier belongs into the function
        first, last = sorted(int(lines[pc]) for pc in (one, other))
        barriers = {int(lines[pc]) for pc in np.flatnonzero(code[:, OP] == OP_BARRIER)}
        if any(first < line < last for line in barriers):
            return f"after line {last}, before the loop comes back to line {first}"
        return f"between lines {first} and {last}"

    def comes_back(self, one: int, other: int) -> bool:
        """Are two accesses of a line to elements of their own, in a loop, so that they meet from turn to turn?"""
        code = self.program.code
        first, last = min(one, other), max(one, other)
        if all(int(code[one, field]) == int(code[other, field]) for field in (SRC_A, IMM)):
            return False  # both threads update the same element
        if int(code[first, OP]) == OP_STORE and int(code[last, OP]) == OP_LOAD:
            return True  # a line reads before it writes: these are of two turns of an unrolled loop
        jumps = np.flatnonzero(np.isin(code[last:, OP], (OP_BRANCH, OP_JUMP))) + last
        return bool((code[jumps, IMM] <= first).any())

    def is_bulk_store(self, pc: int) -> bool:
        """Is an instruction a bulk copy to global memory?"""
        return (
            int(self.program.code[pc, OP]) == OP_BULK and int(self.program.code[pc, X7]) & FORM_DIRECTION == TO_GLOBAL
        )

    def has(self, operation: int, action: int) -> bool:
        """Has the kernel such an instruction, whose first operand is `action`?"""
        code = self.program.code
        return bool(((code[:, OP] == operation) & (code[:, X0] == action)).any())

    def waits_for_copies(self) -> bool:
        """Has the kernel a wait for copies with cp.async?"""
        return any(self.has(OP_COPY_GROUP, action) for action in (COPY_WAIT_GROUP, COPY_WAIT_ALL, COPY_ARRIVE))
