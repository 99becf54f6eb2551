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
from warplab.plan.model import Language, Plan

pytestmark = pytest.mark.stored

BUDGET = 200_000
BETWEEN = re.compile(r": put (\S*sync\w+\(\)) between lines (\d+) and (\d+) \(")
IN_A_LOOP = re.compile(r": put (\S*sync\w+\(\)) after line (\d+), before the loop comes back to line (\d+)\b")
FILES = sorted({fault.file for fault in FAULTS if fault.kind is FindingKind.RACE})


@dataclass(frozen=True)
class Advice:
    """A barrier, as it is spelt, and the two lines that a finding wants it between."""

    barrier: str
    lines: tuple[int, int]


def advice(found: Finding) -> Advice | None:
    """What a finding says that is missing, if it is a barrier."""
    m = BETWEEN.search(found.message) or IN_A_LOOP.search(found.message)
    return Advice(m[1], (int(m[2]), int(m[3]))) if m else None


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
        if "cuda." in wanted[number]:
            lines.insert(at, " " * _depth(lines[at]) + wanted[number])
        else:
            lines[at] = f"{wanted[number]}; {lines[at]}"
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
    for before in (max, min, None):  # the later of the two lines, the earlier one, both (as of a loop)
        if not left:
            break
        # where both are named, the block's barrier is one of the warp too
        advised = sorted((a for wanted in left.values() for a in wanted), key=lambda a: "warp" not in a.barrier)
        places = {line: a.barrier for a in advised for line in (a.lines if before is None else [before(a.lines)])}
        path = tmp_path / f"mended_{before.__name__ if before else 'both'}.py"
        path.write_text(mended(text, places))
        captured = capture(path, [faults[name].call for name in left], (ARCHITECTURE,), timeout=300.0)
        for name, plan in zip(list(left), captured, strict=True):
            found = run(faults[name], plan).findings
            stuck = {FindingKind.DIVERGENT_BARRIER, FindingKind.DEADLOCK} & {x.kind for x in found}
            # What a barrier of the warp has mended may still need one of the block: that is said next.
            said = {a.barrier for a in named[name]}
            if not stuck and not any(a.barrier in said for x in found if (a := advice(x))):
                del left[name]
    assert not left, "the barrier that is named does not mend these"


def test_barriers_are_named_in_the_language_of_the_kernel() -> None:
    numba, cuda_cpp = 0, 0
    for file in FILES:
        faults = faulty(file)
        for name, plan in plans_of_file([*faults.values()]).items():
            named = [a.barrier for x in run(faults[name], plan).findings if (a := advice(x))]
            language = next(iter(plan.kernels.values())).language
            assert all(barrier.startswith("cuda.sync") == (language is Language.NUMBA) for barrier in named)
            numba += len(named) * (language is Language.NUMBA)
            cuda_cpp += len(named) * (language is Language.CUDA_CPP)
    assert numba >= 3 and cuda_cpp >= 10
