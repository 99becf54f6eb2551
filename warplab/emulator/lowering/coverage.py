"""Which PTX instructions the emulator takes, as its decoder says.

`python -m warplab.emulator.lowering.coverage` prints the page.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from warplab.emulator.core.state.layout import OP_UNSUPPORTED
from warplab.emulator.lowering.decoder import HANDLER_MODULES
from warplab.emulator.lowering.instruction_forms import SECTIONS
from warplab.emulator.lowering.lowering import (
    HANDLERS,
    PER_BLOCK_SPECIALS,
    PER_LAUNCH_SPECIALS,
    RESERVED_SPECIALS,
    SCRATCH,
    Lowering,
)
from warplab.emulator.lowering.select import CLOCKS
from warplab.errors import PlanError
from warplab.isa.parser import parse
from warplab.isa.syntax import TYPE_BITS

assert HANDLER_MODULES  # the handlers are registered by being imported

_HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
_CALLEE = ".func callee() { ret; }\n"
_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_HALF, _QUARTER = 2, 4


@dataclass(frozen=True)
class Row:
    """One form: all its opcodes, and those that the decoder takes."""

    form: str
    opcodes: tuple[str, ...]
    handled: tuple[str, ...]


def expand(form: str) -> list[str]:
    """All opcodes that a form with alternatives in braces stands for."""
    pieces = re.split(r"\{([^}]*)\}", form)
    choices = [[p] if i % 2 == 0 else p.split(",") for i, p in enumerate(pieces)]
    return ["".join(c) for c in itertools.product(*choices)]


def _tensor(rank: int) -> str:
    """An address with so many coordinates."""
    return f"[%address, {{{', '.join(['%x'] * rank)}}}]"


class _Probe:
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

    def handled(self) -> bool:
        """Does the decoder take it?"""
        tables = "table: .branchtargets DONE, DONE;\n" if "table" in self.operands else ""
        if "callprototype" in self.operands:
            tables += "callprototype: .callprototype _ ();\n"
        text = (
            f"{_HEADER}{_CALLEE}.visible .entry probe()\n{{\n.reg .b64 %address;\n.reg .b32 %x;\n"
            f"{' '.join(self.declared)}\n{tables}{self.opcode} {', '.join(self.operands)};\nDONE: ret;\n}}\n"
        )
        lowering = Lowering(parse(text), "probe")
        lowering.lower()
        return all(record.op != OP_UNSUPPORTED for record in lowering.records)


def takes(opcode: str, operands: str) -> bool:
    """Does the decoder take this opcode with operands as `instruction_forms` describes them?"""
    try:
        return _Probe(opcode, operands).handled()
    except PlanError:
        return False


def rows() -> dict[str, list[Row]]:
    """Every form by section, as the decoder judges it."""
    result: dict[str, list[Row]] = {}
    for section, forms in SECTIONS.items():
        result[section] = []
        for form, operands in forms:
            opcodes = tuple(expand(form))
            result[section].append(Row(form, opcodes, tuple(o for o in opcodes if takes(o, operands))))
    return result


def unlisted() -> list[str]:
    """Mnemonics that the decoder has a handler for and no form names."""
    opcodes = [o.split(".") for forms in SECTIONS.values() for form, _ in forms for o in expand(form)]
    known = {".".join(parts[:n]) for parts in opcodes for n in (1, 2)}
    return sorted(HANDLERS.keys() - known - {"nop"})


def _plain(form: str) -> str:
    """{,.sat} as [.sat]; a choice that has one way only as it is."""
    form = re.sub(r"\{,([^,}]*)\}", r"[\1]", form)
    form = re.sub(r"\{,([^}]*)\}", r"[{\1}]", form)
    return re.sub(r"\{([^,}]*)\}", r"\1", form)


def _missing(row: Row) -> str:
    missing = [o for o in row.opcodes if o not in row.handled]
    if not missing:
        return ""
    if not row.handled:
        return "all"
    if len(missing) > 24:
        # Too many to list one by one: name the modifiers that every one of them has and no handled one.
        common = set.intersection(*(set(o.split(".")[1:]) for o in missing))
        common -= {p for o in row.handled for p in o.split(".")[1:]}
        if common:
            return "with " + ", ".join(f"`.{p}`" for p in sorted(common))
    return ", ".join(f"`{o}`" for o in missing)


def page() -> str:
    """The whole page as Markdown."""
    found = rows()
    total = sum(len(r.opcodes) for section in found.values() for r in section)
    handled = sum(len(r.handled) for section in found.values() for r in section)
    lines = [
        "# Instructions that the emulator knows",
        "",
        "Made by `python -m warplab.emulator.lowering.coverage > docs/instructions.md`, which puts the forms of PTX",
        f"that sm_90 has to the emulator's decoder: {handled:,} of {total:,} opcodes are taken. When a thread reaches",
        "an instruction that is not taken, the kernel ends with a finding that names it and its line; nothing",
        "is computed instead.",
        "`{a,b}` stands for one of several, `[a]` for what may be left out.",
        "",
    ]
    for section, entries in found.items():
        lines += [f"## {section}", "", "| form | opcodes | not taken |", "|---|---|---|"]
        for row in entries:
            form = _plain(row.form).replace("|", "\\|")
            lines.append(f"| `{form}` | {len(row.handled)} of {len(row.opcodes)} | {_missing(row)} |")
        lines.append("")
    specials = sorted({*PER_BLOCK_SPECIALS, *PER_LAUNCH_SPECIALS, *RESERVED_SPECIALS, SCRATCH, *CLOCKS})
    lines += ["## Special registers", "", ", ".join(f"`%{s}`" for s in sorted(specials)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
