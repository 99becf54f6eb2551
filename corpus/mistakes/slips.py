"""Typical slips, put into every solution that has a place for them: each is a Mistake, with what must be said first.

A slip is found line by line in the kernels of a solution. What must be said first follows from its kind: a missing
barrier is named, a bound that is one too far or indices in the wrong order lead to the access that leaves its array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from corpus.judge.mutants.mutant import Edit
from corpus.mistakes.mistake import Mistake

_SOLUTIONS = Path(__file__).parents[2] / "solutions"
_BARRIER = re.compile(r"^(\s*)(cuda\.syncthreads\(\)|__syncthreads\(\);)\s*(?:(?:#|//).*)?$")
_BOUND = re.compile(r"^(\s*if [^<]*) < ((?:\w+\.(?:size|shape\[\d\])|[mn])\b.*)$")
_STORE = re.compile(r"^(\s*)(out|c)\[([^\[\],]+), ([^\[\],]+)\]( = .*)$")
_START = re.compile(r"^(\s+)(\w+) = (?:float32\(0(?:\.0)?\)|0\.0)\s*(?:#.*)?$")


def slips(base: Path) -> Iterator[Mistake]:
    """The slips that a solution has places for, in the order of its lines; the fix is to put the line back."""
    lines = base.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if (found := _of_line(line, lines[: number - 1], lines[number:])) is None:
            continue
        kind, new, first, never = found
        changed = "\n".join([*lines[: number - 1], new, *lines[number:]])
        edit = Edit("\n".join(lines), changed)
        yield Mistake(base, base.parent.name, f"{kind}_line_{number}", (edit,), "", first, never)


def _of_line(line: str, before: list[str], behind: list[str]) -> tuple[str, str, str, tuple[str, ...]] | None:
    """The kind of slip that a line has a place for, the line with it, what must be said first and what must not."""
    if found := _BARRIER.match(line):
        nothing = "" if found[2].endswith(";") else f"{found[1]}pass"
        return "no_barrier", nothing, f"put {found[2].rstrip(';')}", ("syncwarp", "atomic")
    if found := _BOUND.match(line):
        return "one_too_far", f"{found[1]} <= {found[2]}", "compare the index with the array's size", ("atomic",)
    if (found := _STORE.match(line)) and found[3] != found[4]:
        new = f"{found[1]}{found[2]}[{found[4]}, {found[3]}]{found[5]}"
        return "swapped", new, "or swap its two indices", ("atomic",)
    if (found := _START.match(line)) and not any(re.match(rf"\s+{found[2]} \+?=", one) for one in before):
        used = any(f"{found[2]} +=" in later for later in behind)
        return ("not_started", f"{found[1]}pass", f"'{found[2]}'", ()) if used else None
    return None


def all_slips() -> Iterator[Mistake]:
    """Those of every solution of the labs that ask for kernels."""
    for base in sorted(_SOLUTIONS.glob("*/*.py")):
        yield from slips(base)
