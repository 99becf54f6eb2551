"""Advice is applied: where a finding names a block barrier, one mends it; elsewhere it is not named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from corpus.emulator.entry import Fault
from corpus.emulator.faults import FAULTS
from corpus.emulator.global_races import PAIRS, Pair
from tests.sampling import part_of
from tests.simt.corpus.files import ARCHITECTURE, plans_of_file
from tests.simt.pairs import run_pair
from warplab import simt
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Execution, Finding, FindingKind
from warplab.plan.model import Plan

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
    return simt.execute(plan, fault.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET)


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


def _twin(pair: Pair) -> str:
    """What the mended twin of a kernel has where the faulty one has something else."""
    text = pair.path.read_text()
    start = re.search(rf"(?:void|def) {pair.function}(?:_kernel)?\(", text)
    assert start
    kernel = re.split(r"\n(?:extern|\}\n|@cuda|def )", text[start.end() :])[0]
    return " ".join(re.findall(r"FIX\(([^;\n]*)", kernel)) if "FIX(" in kernel else kernel


IN_CPP = [pair for pair in PAIRS if "in_numba" not in pair.file]


@pytest.mark.parametrize("pair", part_of(IN_CPP, 3, lambda pair: pair.file), ids=lambda p: p.name)
def test_a_block_barrier_is_named_only_where_the_twin_has_one(pair: Pair) -> None:
    """Or an atomic update, where that is offered, or where other findings say what mends the race of other blocks."""
    for order in ({}, {"reverse": True}):
        found = run_pair(pair, **order).findings
        elsewhere = any("of its own" in f.message or "one of the blocks alone" in f.message for f in found)
        for message in (f.message for f in found if "__syncthreads()" in f.message):
            offered = r"__syncthreads|block" + (r"|atomic" if "atomic" in message else "")
            assert re.search(offered, _twin(pair)) or ("atomic" in message and elsewhere), message
