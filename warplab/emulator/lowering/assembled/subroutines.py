"""Divisions and roots that the assembler hands to subroutines of its own where operands are unusual."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from fractions import Fraction

from warplab.emulator.core.alu.dispatch import vector_index
from warplab.emulator.core.state.layout import (
    C_FUSED,
    C_PRODUCTS,
    C_SUMS,
    C_THREADS,
    GUARD,
    SRC_A,
    SRC_B,
    UNUSUAL_DIVISION,
    UNUSUAL_DIVISION_64,
    UNUSUAL_DIVISION_FTZ,
    UNUSUAL_RECIPROCAL,
    UNUSUAL_RECIPROCAL_64,
    UNUSUAL_RECIPROCAL_FTZ,
    UNUSUAL_ROOT,
    UNUSUAL_ROOT_64,
    UNUSUAL_ROOT_FTZ,
    VECTOR_BASE,
)
from warplab.emulator.lowering.assembled.matching import FLOATS, Matching
from warplab.emulator.program import SubroutineCall, Term
from warplab.isa.machine_code import MachineInstruction

# By their names, those that ptxas 13.0 has: the kind of operation, and its operation and type in PTX.
_SUBROUTINES = {
    "cuda_sm3x_div_rn_noftz_f32_slowpath": (UNUSUAL_DIVISION, "div", "f32"),
    "cuda_sm3x_div_rn_ftz_f32_slowpath": (UNUSUAL_DIVISION_FTZ, "div", "f32"),
    "cuda_sm20_rcp_rn_f32_slowpath": (UNUSUAL_RECIPROCAL, "rcp", "f32"),
    "cuda_sm20_rcp_rn_ftz_f32_slowpath": (UNUSUAL_RECIPROCAL_FTZ, "rcp", "f32"),
    "cuda_sm20_sqrt_rn_f32_slowpath": (UNUSUAL_ROOT, "sqrt", "f32"),
    "cuda_sm20_sqrt_rn_ftz_f32_slowpath": (UNUSUAL_ROOT_FTZ, "sqrt", "f32"),
    "cuda_sm20_div_rn_f64_full": (UNUSUAL_DIVISION_64, "div", "f64"),
    "cuda_sm20_dblrcp_rn_slowpath_v3": (UNUSUAL_RECIPROCAL_64, "rcp", "f64"),
    "cuda_sm20_dsqrt_rn_f64_mediumpath_v1": (UNUSUAL_ROOT_64, "sqrt", "f64"),
}
_NAME = re.compile(r"\$__internal_\d+_\$__(\w+)")
_OPERATIONS = ((C_SUMS, "add"), (C_PRODUCTS, "mul"), (C_FUSED, "fma"))


class Subroutines:
    """The calls of such subroutines in a kernel."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.records = matching.records
        self.sizes = Counter(i.block for i in matching.code)
        self.calls: defaultdict[int, list[str]] = defaultdict(list)  # the subroutines that each line of PTX calls
        for instruction in matching.code:
            found = _NAME.search(instruction.operands) if instruction.root == "CALL" else None
            if found and found[1] in _SUBROUTINES:
                self.calls[instruction.line].append(found[1])

    def wanted(self) -> list[SubroutineCall]:
        """What has to be counted of the operands of divisions and roots, in front of them."""
        return [call for place in self.calls for call in self._at(place)]

    def _at(self, place: int) -> list[SubroutineCall]:
        """The calls that a line of PTX makes, one for each record that divides or takes a root."""
        kind, operation, of = _SUBROUTINES[self.calls[place][0]]
        names = {VECTOR_BASE + number: name for name, number in vector_index().items()}
        found = []
        for number in self.matching.parts[place]:
            record = self.records[number]
            words = names.get(record.op, "").split(".")
            if words[-1] != of or record.fields[GUARD] or words[0] not in (operation, "div"):
                continue
            # A division of 1 is a reciprocal of its divisor.
            rows = [record.fields[SRC_A], record.fields[SRC_B]] if words[0] == "div" else [record.fields[SRC_A]] * 2
            rows = rows if operation == "div" else rows[::-1]
            found.append(SubroutineCall(record, f"unusual.{operation}.{of}", kind, *rows))
        return found if len(set(self.calls[place])) == 1 else []

    def terms(self) -> list[Term]:
        """What the subroutines add, and what the short sequences in front of them then leave out."""
        probes = {id(r.probe.beside): n for n, r in enumerate(self.records) if isinstance(r.probe, SubroutineCall)}
        terms = []
        for place, names in self.calls.items():
            letter = "d" if _SUBROUTINES[names[0]][2] == "f64" else "f"
            left_out = self._left_out(self.matching.made[place])
            for number in self.matching.parts[place]:
                probe = probes.get(id(self.records[number]))
                if probe is None:
                    continue
                at = self.matching.at[place][0]
                for field, operation in _OPERATIONS:
                    terms.append(Term(at, f"thread_{letter}{operation}", Fraction(1), (probe,), field))
                for root, count in left_out.items():
                    terms.append(Term(at, FLOATS[root], Fraction(-count, len(names)), (probe,), C_THREADS))
        return terms

    def _left_out(self, made: list[MachineInstruction]) -> Counter[str]:
        """The float operations of a line that only threads reach which do not call: those of blocks with nothing else
        that ask no more. What was moved to another place all threads reach."""
        asking = {i.block for i in made if i.root == "BRA" and i.guard}
        own = Counter(i.block for i in made)
        alone = {block for block, count in own.items() if count == self.sizes[block]} - asking
        return Counter(i.root for i in made if i.root in FLOATS and i.block in alone and not i.rare)
