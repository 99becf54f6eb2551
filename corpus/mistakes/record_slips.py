"""Typical slips in the functions of the labs that ask for records: each a Mistake, and its function is named first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from corpus.judge.mutants.mutant import Edit
from corpus.mistakes.mistake import Mistake

SOLUTIONS = Path(__file__).parents[2] / "solutions"
RECORD_LABS = ("12_collectives", "13_tensor_parallel", "14_pipeline_schedule", "15_selective_checkpoint")
_DEFINITION = re.compile(r"^def (\w+)\(")
_KINDS = {
    "not_returned": (re.compile(r"^    return (records(?:\(.*\))?|dx, .*)$"), r"    pass"),
    "one_step_short": (re.compile(r"^(\s+for \w+ in range\()([^,]*)(\):)$"), r"\1\2 - 1\3"),
    "beyond_the_ring": (re.compile(r"^(.*)\((rank|node) \+ 1\) % \w+(.*)$"), r"\1\2 + 1\3"),
    "no_sum": (re.compile(r'^(    \w+ = )yield "(all_reduce|reduce_scatter)", (.*)$'), r"\1\3"),
    "no_gathering": (re.compile(r'^(    \w+ = )yield "all_gather", (.*)$'), r"\1\2"),
    "late_by_one": (re.compile(r"^(\s+if number) >= (.*)$"), r"\1 > \2"),
    "other_way_round": (re.compile(r"^(.*\((?:rank|node)) - (step|hop)(\).*)$"), r"\1 + \2\3"),
}


def record_slips() -> Iterator[Mistake]:
    """Those of the references, line by line; helpers are left out, for several functions may call them."""
    for lab in RECORD_LABS:
        yield from _slips(SOLUTIONS / lab / "submission.py")


def _slips(base: Path) -> Iterator[Mistake]:
    lines = base.read_text(encoding="utf-8").split("\n")
    starter = (SOLUTIONS.parent / "labs" / base.parent.name / "submission.py").read_text(encoding="utf-8")
    function = ""
    for number, line in enumerate(lines):
        if found := _DEFINITION.match(line):
            function = found[1] if f"def {found[1]}(" in starter else ""
        for kind, (pattern, slip) in _KINDS.items():
            if function and (found := pattern.match(line)):
                changed = "\n".join([*lines[:number], pattern.sub(slip, line), *lines[number + 1 :]])
                edit = Edit("\n".join(lines), changed)
                first = f'yield "{found[2]}"' if kind == "no_sum" else function
                yield Mistake(base, base.parent.name, f"{kind}_line_{number + 1}", (edit,), "", first)
