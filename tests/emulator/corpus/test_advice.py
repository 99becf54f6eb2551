"""Advice is applied: where a finding names a barrier, one mends it (tests of races: nowhere else is one named)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from corpus.emulator.entry import Fault
from corpus.emulator.faults import FAULTS
from tests.emulator.corpus.files import ARCHITECTURE, plans_of_file
from warplab import emulator
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Execution, Finding, FindingKind
from warplab.plan.model import Plan

pytestmark = pytest.mark.stored

BUDGET = 200_000
BETWEEN = re.compile(r"Line (\d+) .*? line (\d+) .*with no (barrier|__syncwarp) between(?: them)? \(")
IN_C, IN_NUMBA = {"barrier": "__syncthreads(); ", "__syncwarp": "__syncwarp(); "}, "cuda.syncthreads()"
FILES = sorted({fault.file for fault in FAULTS if fault.kind is FindingKind.RACE})


@dataclass(frozen=True)
class Advice:
    """A barrier between two lines, as a finding has it."""

    lines: tuple[int, int]
    need: str


def advice(found: Finding) -> Advice | None:
    """What a finding says that is missing, if it is a barrier or a __syncwarp()."""
    m = BETWEEN.match(found.message)
    return Advice((int(m[1]), int(m[2])), m[3]) if m else None


@cache
def faulty(file: str) -> dict[str, Fault]:
    return {f.name: f for f in FAULTS if f.file == file and f.kind is FindingKind.RACE}


def run(fault: Fault, plan: Plan) -> Execution:
    return emulator.execute(plan, fault.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET)


def mended(text: str, wanted: dict[int, str]) -> str:
    """The text with a barrier before each of these lines, or before the branches that they lie in."""
    lines = text.splitlines()
    for number in sorted(wanted, reverse=True):
        at = number - 1
        while lines[at - 1].lstrip().startswith("if ") and _depth(lines[at - 1]) < _depth(lines[at]):
            at -= 1
        if lines[number - 1].split("//")[0].rstrip().endswith((";", "{")):
            lines[at] = IN_C[wanted[number]] + lines[at]
        else:
            lines.insert(at, " " * _depth(lines[at]) + IN_NUMBA)
    return "\n".join(lines) + "\n"


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


@pytest.mark.parametrize("file", FILES)
def test_the_barrier_that_a_finding_names_mends_it(file: str, tmp_path: Path) -> None:
    faults = faulty(file)
    plans = plans_of_file([*faults.values()])
    named = {n: [a for x in run(f, plans[n]).findings if (a := advice(x))] for n, f in faults.items()}
    left = {name: wanted for name, wanted in named.items() if wanted}
    text = next(iter(faults.values())).path.read_text()
    for choice in ((0,), (1,), (0, 1)):  # before the earlier of the two lines, the later one, both (as of a loop)
        if not left:
            break
        places = {sorted(a.lines)[which]: a.need for wanted in left.values() for a in wanted for which in choice}
        path = tmp_path / f"mended_{len(choice)}{choice[0]}.py"
        path.write_text(mended(text, places))
        captured = capture(path, [faults[name].call for name in left], (ARCHITECTURE,), timeout=300.0)
        for name, plan in zip(list(left), captured, strict=True):
            found = run(faults[name], plan).findings
            stuck = {FindingKind.DIVERGENT_BARRIER, FindingKind.DEADLOCK} & {x.kind for x in found}
            # What one __syncwarp() has mended may still need a barrier of the block: that is said next.
            said = {a.need for a in named[name]}
            if not stuck and not any(a.need in said for x in found if (a := advice(x))):
                del left[name]
    assert not left, "the barrier that is named does not mend these"
