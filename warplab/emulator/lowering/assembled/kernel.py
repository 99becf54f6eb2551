"""What counts instead of a kernel's PTX: terms and shares, by its machine code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from warplab.emulator.core.state.layout import (
    C_IDEAL,
    C_REQUESTS,
    C_WARPS,
    C_WAVEFRONTS,
    GUARD,
    IMM,
    OP_ATOMIC,
    OP_BRANCH,
    OP_JUMP,
    OP_LOAD,
    OP_MMA,
    OP_STORE,
)
from warplab.emulator.lowering.assembled.accesses import Accesses
from warplab.emulator.lowering.assembled.executions import Executions
from warplab.emulator.lowering.assembled.matching import ATOMICS, FLOATS, PAIRS, Matching
from warplab.emulator.lowering.assembled.subroutines import Subroutines
from warplab.emulator.program import AnyProbe, ConstantBank, Record, Term
from warplab.isa.machine_code import MachineInstruction

_PRODUCTS = {"HMMA", "IMMA", "BMMA", "DMMA", "QMMA"}
_DEEPEST = 3  # calls of subroutines by subroutines; ptxas 13.0 makes one
_EMULATED = re.compile(r"^\S*mma\.\S*\.(?:s4|u4|e4m3|e5m2|b1)\.")


class Assembled:
    """Compares a kernel's records, linked but without their final rows, with its machine code."""

    def __init__(
        self, records: Sequence[Record], code: Iterable[MachineInstruction], bank: ConstantBank, targets: Iterable[int]
    ) -> None:
        self.records = records
        self.code = tuple(code)
        self.terms: list[Term] = []  # what counts instead of the records' own float operations
        self.shares: dict[int, Fraction] = {}  # of records: how much of what they count the machine code has
        self.elected: set[int] = set()  # records of atomics that one lane of a warp does for all
        self.matching = Matching(records, self.code, bank, targets)
        self.executions = Executions(self.matching)
        self.subroutines = Subroutines(self.matching)

    def compare(self) -> None:
        """Fill `terms` and `shares`, and the records' fields that say how an access to shared memory is counted."""
        self._floats()
        self.terms += self.subroutines.terms()
        self._spills()
        self.shares |= Accesses(self.matching).shares()
        self._products()
        self._elections()
        self._generic()
        self._fragments()
        self._turned()

    def wanted(self) -> list[AnyProbe]:
        """What has to be counted besides the records."""
        return [*self.executions.wanted(), *self.subroutines.wanted()]

    # Float operations

    def _floats(self) -> None:
        for instruction in self.matching.code:
            counter = FLOATS.get(instruction.root)
            if counter is None or instruction.rare:
                continue
            of, share = self.executions.of(instruction)
            share *= 2 if instruction.root in PAIRS else 1
            self.terms.append(Term(self.matching.at[instruction.line][0], counter, share, of))

    # Spills

    def _spills(self) -> None:
        for instruction in self.matching.spills:
            of, share = self.executions.of(instruction)
            kind = "load" if instruction.root == "LDL" else "store"
            at = self.matching.at[instruction.line][0]
            words = share * max(instruction.width // 4, 1)  # each a request: a lane's word lies beside the other lanes'
            self.terms.append(Term(at, f"local_{kind}_requests", words, of, C_WARPS))
            self.terms.append(Term(at, f"local_{kind}_sectors", 4 * words, of, C_WARPS))

    # Products of matrices

    def _products(self) -> None:
        """Products of which the tensor cores have none of their kind: ptxas makes several of another kind, in place or
        in a subroutine. On an H200 `mma` of 4 bits and `.xor.popc` count two by ncu; one of single bits is 4 to 16
        products of bytes for sm_100 and sm_120."""
        for place, numbers in self.matching.at.items():
            records = [n for n in self.matching.parts[place] if self.records[n].op == OP_MMA]
            if not records or not _EMULATED.search(self.records[numbers[0]].text):
                continue
            made = Counter(i.root for i in self.matching.made[place] if not i.rare)
            copies = self.matching.copies.get(self.matching.block[numbers[0]], 0)
            products = sum(made[root] for root in _PRODUCTS)
            if products and copies:
                self.shares |= dict.fromkeys(records, Fraction(products, len(records) * copies))
            elif calls := [i for i in self.matching.made[place] if i.root == "CALL" and not i.rare]:
                self.shares |= dict.fromkeys(records, Fraction(sum(map(self._called, calls)), len(records)))

    def _called(self, call: MachineInstruction, depth: int = 0) -> int:
        """How many products a subroutine makes, with those that it calls."""
        products = 0
        for instruction in self.code if depth < _DEEPEST else ():
            if instruction.block < call.leads_to or call.leads_to < 0:
                continue
            if instruction.root == "RET":
                break
            products += instruction.root in _PRODUCTS
            products += self._called(instruction, depth + 1) if instruction.root == "CALL" else 0
        return products

    # Atomics

    def _elections(self) -> None:
        """Atomics for which one lane speaks: it was elected, and REDUX or a count of lanes made one value of all."""
        for place, numbers in self.matching.at.items():
            roots = {i.root for i in self.matching.made[place]}
            atomics = [i for i in self.matching.made[place] if i.root in ATOMICS]
            if atomics and all(i.guard for i in atomics) and roots & {"REDUX", "UPOPC", "POPC", "UFLO"}:
                found = [n for n in numbers if self.records[n].op == OP_ATOMIC and not self.records[n].fields[GUARD]]
                self.elected.update(found)

    def _generic(self) -> None:
        """Atomics whose address may be one of shared memory: each costs a wavefront of it, wherever the address is."""
        lines = {i.line for i in self.matching.code if i.root == "ATOM" and not i.rare}
        for number in (n for line in sorted(lines) for n in self.matching.at[line]):
            if self.records[number].op == OP_ATOMIC:
                self.terms.append(Term(number, "shared_atomic_wavefronts", Fraction(1), (number,), C_WARPS))

    # Fragments of wmma

    def _fragments(self) -> None:
        """Loads of wmma from shared memory that the assembler made ldmatrix of: 8 rows of 16 bytes are a matrix of it,
        and what the loads of one register touch."""
        for place, numbers in self.matching.at.items():
            made = [i for i in self.matching.made[place] if i.root == "LDSM"]
            if not made or not self.records[numbers[0]].text.startswith("wmma.load") or len(numbers) > 1:
                continue
            loads = tuple(n for n in self.matching.parts[place] if self.records[n].op == OP_LOAD)
            matrices = sum(int(i.opcode[-1]) if i.opcode[-1] in "24" else 1 for i in made)
            share = Fraction(matrices, len(loads))
            self.shares |= dict.fromkeys(loads, share)
            for counter, part, what in (
                ("requests", Fraction(len(made), len(loads)), C_WARPS),
                ("wavefronts", share, C_WAVEFRONTS),
                ("bank_conflicts", share, C_WAVEFRONTS),
                ("bank_conflicts", -share, C_IDEAL),
            ):
                self.terms.append(Term(numbers[0], f"matrix_load_{counter}", part, loads, what))

    def _turned(self) -> None:
        """Loads and stores of wmma whose pairs of halves lie in a column: the assembler turns the matrix, by MOVM, and
        moves pairs of a row at once."""
        for kind, op, roots in (("load", OP_LOAD, ("LDG", "LD")), ("store", OP_STORE, ("STG", "ST"))):
            for place, numbers in self.matching.at.items():
                made = sum(1 for i in self.matching.made[place] if i.root in roots)
                if not made or not self.records[numbers[0]].text.startswith(f"wmma.{kind}") or len(numbers) > 1:
                    continue
                parts = tuple(n for n in self.matching.parts[place] if self.records[n].op == op)
                if made < len(parts):
                    share = Fraction(made, len(parts)) - 1
                    self.terms.append(Term(numbers[0], f"global_{kind}_requests", share, parts, C_REQUESTS))


def branch_targets(records: Sequence[Record]) -> set[int]:
    """Where the branches of linked records lead."""
    return {r.fields[IMM] for r in records if r.op in (OP_BRANCH, OP_JUMP)}
