"""Which PTX instructions the emulator takes, as the table of instructions says, and whether that is so.

`python -m warplab.emulator.lowering.coverage` prints the page.
"""

from __future__ import annotations

import re

from warplab.emulator.core.state.layout import OP_UNSUPPORTED
from warplab.emulator.lowering.instructions.table import FAMILIES, TABLE
from warplab.emulator.lowering.lowering import (
    PER_BLOCK_SPECIALS,
    PER_LAUNCH_SPECIALS,
    RESERVED_SPECIALS,
    SCRATCH,
    Lowering,
)
from warplab.emulator.lowering.rows import Row, expand
from warplab.emulator.lowering.select import CLOCKS
from warplab.errors import PlanError
from warplab.isa.parser import parse
from warplab.isa.syntax import TYPE_BITS

_HEADER = ".version 9.0\n.target {}\n.address_size 64\n"
_HOPPER = 90  # which has all that later targets do not have
_CALLEE = ".func callee() { ret; }\n"
_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_HALF, _QUARTER = 2, 4


def _tensor(rank: int) -> str:
    """An address with so many coordinates."""
    return f"[%address, {{{', '.join(['%x'] * rank)}}}]"


class FormProbe:
    """One instruction in a kernel of its own."""

    def __init__(self, opcode: str, operands: str) -> None:
        self.opcode = opcode
        self.types = [p for p in opcode.split(".") if p in TYPE_BITS]
        self.declared: list[str] = []
        self.operands = [self._operand(o) for o in operands.split() if o != ","]

    def _register(self, kind: str) -> str:
        name = f"%o{len(self.declared)}"
        kind = f"b{TYPE_BITS[kind]}" if kind not in ("pred", "f32", "f64") and TYPE_BITS[kind] > 1 else kind
        self.declared.append(f".reg .{kind} {name};")
        return name

    def _kind(self, name: str) -> str:
        if name == "T":
            return self.types[-1]
        if name == "D":
            return self.types[-2]
        if name in ("H", "Q"):
            return f"b{TYPE_BITS[self.types[-1]] // (_HALF if name == 'H' else _QUARTER)}"
        return name

    def _operand(self, text: str) -> str:
        if text == "[]":
            return "[%address]"
        if text == "[tmem]":
            return "[%x]"
        if text == "[rows]":
            return _tensor(5)
        if text == "[tensor]":
            return _tensor(next((int(p[0]) for p in self.opcode.split(".") if p in _DIMENSIONS), 2))
        if text == "@":
            return "DONE"
        if text == "VT":
            width = next((p[1:] for p in self.opcode.split(".") if p in ("v2", "v4", "v8")), "")
            text = f"{width}T"
        vector = re.fullmatch(r"([1-9])([A-Za-z]\w*)", text)
        if vector:
            kind = self._kind(vector[2])
            return "{" + ", ".join(self._register(kind) for _ in range(int(vector[1]))) + "}"
        if text == "WD":
            return self._accumulators()
        if "|" in text:
            return "|".join(self._register(self._kind(k)) for k in text.split("|"))
        kind = self._kind(text)
        return self._register(kind) if kind in TYPE_BITS else text

    def _accumulators(self) -> str:
        """The accumulators of a wgmma: a quarter of its 64 rows times n a warp."""
        n = int(re.search(r"m64n(\d+)k", self.opcode)[1])  # type: ignore[index]
        count = n // (4 if self.types[0] == "f16" else 2)
        return "{" + ", ".join(self._register("b32") for _ in range(count)) + "}"

    def text(self, target: str) -> str:
        """The PTX of the kernel for a target such as "sm_90a"."""
        tables = "table: .branchtargets DONE, DONE;\n" if "table" in self.operands else ""
        if "callprototype" in self.operands:
            tables += "callprototype: .callprototype _ ();\n"
        header = _HEADER.format(target)
        return (
            f"{header}{_CALLEE}.visible .entry probe()\n{{\n.reg .b64 %address;\n.reg .b32 %x;\n"
            f"{' '.join(self.declared)}\n{tables}{self.opcode} {', '.join(self.operands)};\nDONE: ret;\n}}\n"
        )

    def handled(self) -> bool:
        """Does an emitter take it?"""
        target = f"sm_{max(architecture_of(self.opcode), _HOPPER)}a"
        lowering = Lowering(parse(self.text(target)), "probe", TABLE)
        lowering.lower()
        return all(record.op != OP_UNSUPPORTED for record in lowering.records)


def architecture_of(opcode: str) -> int:
    """The first target that has an opcode; 0: every one that the emulator knows."""
    return TABLE.look_up(opcode).architecture


def takes(opcode: str, operands: str) -> bool:
    """Does the emulator take this opcode with operands as `rows.Row` describes them?"""
    try:
        return FormProbe(opcode, operands).handled()
    except PlanError:
        return False


def _plain(form: str) -> str:
    """{,.sat} as [.sat]; a choice that has one way only as it is."""
    form = re.sub(r"\{,([^,}]*)\}", r"[\1]", form)
    form = re.sub(r"\{,([^}]*)\}", r"[{\1}]", form)
    return re.sub(r"\{([^,}]*)\}", r"\1", form)


def _line(row: Row, form: str, taken: bool) -> str:
    opcodes = expand(form)
    first = architecture_of(opcodes[0])
    cells = (
        "`" + _plain(form).replace("|", "\\|") + "`",
        f"sm_{first}" if first else "",
        str(len(opcodes)),
        "yes" if taken else "no",
        "yes" if taken and row.tested else "",
    )
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The whole page as Markdown."""
    rows = [row for family in FAMILIES.values() for row in family]
    total = sum(len(row.opcodes) for row in rows)
    taken = sum(len(expand(form)) for row in rows for form, _ in row.forms)
    lines = [
        "# Instructions that the emulator knows",
        "",
        "Made by `make pages` from the table of instructions",
        f"(`warplab/emulator/lowering/instructions/`): {taken:,} of {total:,} opcodes are taken. When a thread reaches",
        "an instruction that is not taken, the kernel ends with a finding that names it and its line; nothing",
        "is computed instead.",
        "`{a,b}` stands for one of several, `[a]` for what may be left out.",
        "",
        '"From" is the first target that has a form, where sm_75 lacks it; under an older one it is not taken.',
        "Forms from sm_100 on follow the PTX ISA: no GPU of that kind has confirmed them.",
        '"Tested" means that a test compares its results with independently computed ones.',
        "",
    ]
    for family, members in FAMILIES.items():
        lines += [f"## {family}", "", "| form | from | opcodes | taken | tested |", "|---|---|---|---|---|"]
        for row in members:
            lines += [_line(row, form, True) for form, _ in row.forms]
            lines += [_line(row, form, False) for form, _ in row.refused]
        lines.append("")
    specials = sorted({*PER_BLOCK_SPECIALS, *PER_LAUNCH_SPECIALS, *RESERVED_SPECIALS, SCRATCH, *CLOCKS})
    lines += ["## Special registers", "", ", ".join(f"`%{s}`" for s in sorted(specials)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
