"""Compares the emulator's findings with compute-sanitizer's on the faulty kernels and a sample of the correct ones.

Each kernel runs once under each tool, in a process of its own, with exact allocations that nothing fills beforehand.
The record of a kernel and a tool says whether both, neither or one of them report it, and the lines that each names.
Writes benchmarks/results/sanitizers.json. Run on a machine with a GPU and compute-sanitizer:
`python -m benchmarks.sanitizer_agreement [PREFIX...]`, where prefixes of names leave the other kernels out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from corpus.emulator.catalogue import ENTRIES
from corpus.emulator.entry import Fault, Subject
from corpus.emulator.faults import FAULTS
from corpus.emulator.plans import assemble_all
from course import results
from warplab import emulator
from warplab.errors import DeviceError, WarplabError
from warplab.gpu import sanitizer
from warplab.hardware.device import architecture_of, present
from warplab.plan.execution import Execution, FindingKind

TOOLS: Mapping[str, frozenset[FindingKind]] = {  # what each can see of our kinds
    "memcheck": frozenset(
        {
            *(FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED, FindingKind.NULL_POINTER),
            *(FindingKind.TRAP, FindingKind.LAUNCH_FAILURE),
        }
    ),
    "racecheck": frozenset({FindingKind.RACE}),
    "initcheck": frozenset({FindingKind.UNINITIALISED}),
    "synccheck": frozenset({FindingKind.DIVERGENT_BARRIER, FindingKind.DEADLOCK}),
}
SAMPLE = 40  # correct kernels
SECONDS = 40.0  # for one kernel under one tool
BUDGET = 1_000_000  # warp instructions
_HANGING = {FindingKind.DEADLOCK, FindingKind.ENDLESS}


# Why they differ.
_GLOBAL_ONLY = "initcheck watches global memory, this is shared or local memory"
_ATOMICS = "racecheck does not hold an atomic operation against an ordinary access"
_BEYOND = "initcheck calls memory beyond the array uninitialised; here it is one finding, out of bounds"
_OPTIMISED = "the tool sees machine code: ptxas needs no such access for what the kernel stores"
_PARKED = "the tool accepts warps whose lanes reach one barrier instruction at different times"
_ENDS_NOT = "a kernel that does not end: the tool gives no report"
_NO_PRODUCTS = "racecheck follows no wgmma: neither its registers nor the operands that it reads"
_NO_CLUSTERS = "the tool does not order the blocks of a cluster"
REASONS: tuple[tuple[str, str, str], ...] = (  # start of a name, tool, reason; the first that fits
    ("copies/barrier_never_made", "initcheck", "an mbarrier is shared memory; synccheck reports it instead"),
    ("copies/barrier_never_made", "synccheck", "a missing mbarrier.init is an uninitialised read here"),
    ("copies/barrier_never_made", "memcheck", "the hardware traps on the mbarrier; an uninitialised read here"),
    ("bounds/rows_for_columns", "initcheck", _BEYOND),
    ("bounds/overflow", "initcheck", _BEYOND),
    ("race/count_read_early", "racecheck", _ATOMICS),
    ("race/initialised_by_one_warp", "racecheck", _ATOMICS),
    ("race/barrier_of_half", "racecheck", "racecheck reports named barriers of part of a block in some runs only"),
    ("bounds/local_array", "memcheck", "the local array is larger in the frame of the thread than in the program"),
    ("address/cut_in_two", "memcheck", _OPTIMISED),
    ("waiting/unequal_trips", "synccheck", _PARKED),
    ("waiting/early_break", "synccheck", _PARKED),
    ("waiting/early_break", "racecheck", "the race follows from the barrier, which the hardware met otherwise"),
    ("copies/product_in_a_branch", "synccheck", "synccheck knows barriers, not mma.sync"),
    ("wgmma/", "racecheck", _NO_PRODUCTS),
    ("wgmma/", "memcheck", "the hardware faults on a warpgroup that is not whole, which is a divergent barrier here"),
    ("hopper/", "memcheck", "the hardware faults on a warpgroup that is not whole, which is a divergent barrier here"),
    ("hopper/", "racecheck", "racecheck follows neither wgmma nor bulk copies nor other blocks of a cluster"),
    ("cluster/", "racecheck", _NO_CLUSTERS),
    ("cluster/", "synccheck", _NO_CLUSTERS),
    ("", "initcheck", _GLOBAL_ONLY),
)


def _reason(name: str, tool: str) -> str:
    return next((r for start, kind, r in REASONS if kind == tool and name.startswith(start)), "")


def main(prefixes: list[str]) -> int:
    """Exit code 3 without a GPU or compute-sanitizer, else 0: where the two differ is a result, not a failure."""
    try:
        _compare(tuple(prefixes))
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def _compare(prefixes: tuple[str, ...]) -> None:
    program, device = sanitizer.find(), present()
    if device is None or program is None:
        raise DeviceError("This needs a GPU and compute-sanitizer: add CUDA's bin folder to PATH.")
    architecture = architecture_of(device)
    correct = [e for e in ENTRIES if not e.gap]
    sample: list[Subject] = [correct[n * len(correct) // SAMPLE] for n in range(SAMPLE)]
    chosen = [s for s in (*FAULTS, *sample) if not s.gap and s.name.startswith(prefixes or ("",))]
    plans = assemble_all(chosen, architecture)
    with tempfile.TemporaryDirectory(prefix="warplab-") as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = Path(name)
        asked: dict[tuple[str, str], Future[sanitizer.Opinion]] = {}
        for subject in chosen:
            path = folder / f"{subject.name.replace('/', '.')}.plan"
            sanitizer.keep(plans[subject.name], subject.draw(), path)
            for kind in TOOLS:
                if _can_be_run(subject, kind):
                    arguments = (kind, program, path, subject.path.name, SECONDS)
                    asked[subject.name, kind] = pool.submit(sanitizer.ask, *arguments)
        records = []
        for subject in chosen:
            execution = emulator.execute(
                plans[subject.name], subject.draw(), architecture=architecture, instruction_budget=BUDGET
            )
            for kind in TOOLS:
                said = asked[subject.name, kind].result() if (subject.name, kind) in asked else None
                records.append(_record(subject, kind, execution, said))
    results.write(results.DIRECTORY / "sanitizers.json", results.make_header(_command(prefixes)), records)
    for verdict in ("agree", "only ours", "only theirs", "no report"):
        alike = [r for r in records if r.extra["verdict"] == verdict]
        print(f"{verdict}: {len(alike)}")
        for r in alike if verdict != "agree" else ():
            lines = f"ours {r.extra['our_lines']}, theirs {r.extra['their_lines']}"
            print(f"  {r.name} {r.variant}: {lines} {r.conditions}: {r.extra.get('reason', 'UNEXPLAINED')}")


def _command(prefixes: tuple[str, ...]) -> str:
    return " ".join(("python -m benchmarks.sanitizer_agreement", *prefixes))


def _can_be_run(subject: Subject, tool: str) -> bool:
    """A kernel that never ends is only worth its time where a tool might say why."""
    return not isinstance(subject, Fault) or subject.kind not in _HANGING or tool == "synccheck" == subject.tool


def _record(subject: Subject, tool: str, execution: Execution, said: sanitizer.Opinion | None) -> results.Record:
    found = [f for f in execution.findings if f.kind in TOOLS[tool]]
    ours, theirs = len(found), said.errors if said else -1
    verdict = "agree" if (ours > 0) == (theirs > 0) else "only ours" if ours else "only theirs"
    if theirs < 0:
        verdict = "no report"
    lines = sorted({f.line for f in found if f.line})
    extra = {
        "verdict": verdict,
        "our_lines": lines,
        "their_lines": list(said.lines) if said and theirs > 0 else [],
        "our_kinds": sorted({f.kind.value for f in found}),
        "errors": theirs,
    }
    conditions = said.words if said and theirs > 0 else ""
    reason = "" if verdict == "agree" else _ENDS_NOT if theirs < 0 else _reason(subject.name, tool)
    if reason:
        extra["reason"] = reason
    agreed = 1 if verdict == "agree" else 0
    name = f"{'faulty' if isinstance(subject, Fault) else 'correct'}/{subject.name}"
    return results.Record(name, "agreement", agreed, "1: yes, 0: no", variant=tool, conditions=conditions, extra=extra)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
