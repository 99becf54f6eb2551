"""Compares the emulator's findings with compute-sanitizer's on the faulty kernels and a sample of the correct ones.

Each kernel runs once under each tool, in a process of its own, with exact allocations that nothing fills beforehand.
The record of a kernel and a tool says whether both, neither or one of them report it, and the lines that each names.
Writes benchmarks/results/sanitizers.json. Run on a machine with a GPU and compute-sanitizer:
`python -m benchmarks.sanitizer_agreement [PREFIX...]`, where prefixes of names leave the other kernels out.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, ObjectCode, Stream

from benchmarks.corpus.catalogue import ENTRIES
from benchmarks.corpus.entry import Fault, Subject
from benchmarks.corpus.faults import FAULTS
from benchmarks.corpus.plans import assemble_all
from warplab import results, simt
from warplab.errors import DeviceError, WarplabError
from warplab.gpu import executor
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load, save
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Buffer, Plan, Role

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
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")  # hazards: errors and warnings
_SITE = re.compile(r"=========     (?:at|and) .* in ([\w.-]+):(\d+)")
_MESSAGE = re.compile(
    r"========= ((?:Invalid|Misaligned|Uninitialized|Barrier|Error: |Potential|Divergent|Program hit|Access|Unaligned"
    r"|Stack|Address|Missing|Device|Warp)[^\n]*)"
)


# Why they differ, by name and tool; the names of a group share the reason.
_GLOBAL_ONLY = "initcheck watches global memory, this is shared or local memory"
_ATOMICS = "racecheck does not hold an atomic operation against an ordinary access"
_BEYOND = "initcheck calls memory beyond the array uninitialised; here it is one finding, out of bounds"
_OPTIMISED = "the tool sees machine code: ptxas needs no such access for what the kernel stores"
_PARKED = "the tool accepts warps whose lanes reach one barrier instruction at different times"
_ENDS_NOT = "a kernel that does not end: the tool gives no report"
REASONS: Mapping[tuple[str, str], str] = {
    ("race/missing_barrier", "initcheck"): _GLOBAL_ONLY,
    ("race/barrier_of_half", "initcheck"): _GLOBAL_ONLY,
    ("race/wrong_buffer", "initcheck"): _GLOBAL_ONLY,
    ("reads/half_a_tile", "initcheck"): _GLOBAL_ONLY,
    ("reads/no_store", "initcheck"): _GLOBAL_ONLY,
    ("reads/counter_never_cleared", "initcheck"): _GLOBAL_ONLY,
    ("reads/bytes_of_a_word", "initcheck"): _GLOBAL_ONLY,
    ("copies/barrier_never_made", "initcheck"): "an mbarrier is shared memory; synccheck reports it instead",
    ("copies/barrier_never_made", "synccheck"): "a missing mbarrier.init is an uninitialised read here",
    ("copies/barrier_never_made", "memcheck"): "the hardware traps on the mbarrier; an uninitialised read here",
    ("race/count_read_early", "racecheck"): _ATOMICS,
    ("race/initialised_by_one_warp", "racecheck"): _ATOMICS,
    ("bounds/local_array", "memcheck"): "the local array is larger in the frame of the thread than in the program",
    ("address/cut_in_two", "memcheck"): _OPTIMISED,
    ("waiting/unequal_trips", "synccheck"): _PARKED,
    ("waiting/early_break", "synccheck"): _PARKED,
    ("waiting/early_break", "racecheck"): "the race follows from the barrier, which the hardware met otherwise",
    ("copies/product_in_a_branch", "synccheck"): "synccheck knows barriers, not mma.sync",
    ("bounds/rows_for_columns", "initcheck"): _BEYOND,
    ("bounds/overflow", "initcheck"): _BEYOND,
}


@dataclass(frozen=True)
class Said:
    """What a tool said of a kernel: the number of errors (-1: it gave none in time), its first words, its lines."""

    errors: int
    words: str
    lines: tuple[int, ...]


def main(prefixes: list[str]) -> int:
    """Exit code 3 without a GPU or compute-sanitizer, else 0: where the two differ is a result, not a failure."""
    try:
        _compare(tuple(prefixes))
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def _compare(prefixes: tuple[str, ...]) -> None:
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    device = present()
    if device is None or not Path(tool).exists():
        raise DeviceError("This needs a GPU and compute-sanitizer: add CUDA's bin folder to PATH.")
    architecture = architecture_of(device)
    correct = [e for e in ENTRIES if not e.gap]
    sample: list[Subject] = [correct[n * len(correct) // SAMPLE] for n in range(SAMPLE)]
    chosen = [s for s in (*FAULTS, *sample) if not s.gap and s.name.startswith(prefixes or ("",))]
    plans = assemble_all(chosen, architecture)
    with tempfile.TemporaryDirectory(prefix="warplab-") as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = Path(name)
        asked: dict[tuple[str, str], Future[Said]] = {}
        for subject in chosen:
            path = folder / f"{subject.name.replace('/', '.')}.plan"
            save(plans[subject.name], path)
            np.savez(path.with_suffix(".npz"), **subject.draw())
            for kind in TOOLS:
                if _can_be_run(subject, kind):
                    asked[subject.name, kind] = pool.submit(_ask, tool, kind, path, subject.path.name)
        records = []
        for subject in chosen:
            execution = simt.execute(
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


def _ask(tool: str, kind: str, path: Path, source: str) -> Said:
    command = [tool, "--tool", kind, "--report-api-errors", "no", "--print-limit", "200"]
    command += [sys.executable, "-m", "benchmarks.sanitizer_agreement", "--run", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            text, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
    if keep := os.environ.get("SANITIZER_LOGS"):
        Path(keep, f"{path.stem}.{kind}.txt").write_text(text[:6000])
    counts = [int(a or b) for a, b in _SUMMARY.findall(text)]
    messages = _MESSAGE.findall(text)
    lines = sorted({int(line) for file, line in _SITE.findall(text) if file == source})
    errors = max(counts) if counts else (len(messages) or -1)
    return Said(errors, messages[0].strip() if messages else "", tuple(lines))


def _record(subject: Subject, tool: str, execution: Execution, said: Said | None) -> results.Record:
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
    reason = "" if verdict == "agree" else _ENDS_NOT if theirs < 0 else REASONS.get((subject.name, tool), "")
    if reason:
        extra["reason"] = reason
    agreed = 1 if verdict == "agree" else 0
    name = f"{'faulty' if isinstance(subject, Fault) else 'correct'}/{subject.name}"
    return results.Record(name, "agreement", agreed, "1: yes, 0: no", variant=tool, conditions=conditions, extra=extra)


class _Bare(executor.LoadedPlan):
    """A plan on the device as a careless program would have it: each buffer an allocation of its exact size."""

    def __init__(self, plan: Plan, architecture: str, stream: Stream, inputs: Mapping[str, np.ndarray]) -> None:
        self.plan, self.stream = plan, stream
        self.buffers = {n: _Allocation(spec, inputs.get(n)) for n, spec in plan.buffers.items()}  # type: ignore[misc]
        kernels = {
            key: ObjectCode.from_cubin(spec.cubins[architecture].image, name=key).get_kernel(spec.entry)
            for key, spec in plan.kernels.items()
        }
        self._launches = [self._prepared(item, kernels[item.kernel]) for item in plan.launches]


class _Allocation:
    """One cuMemAlloc, filled only if it is an input or was asked for as zeros."""

    def __init__(self, spec: Buffer, value: np.ndarray | None) -> None:
        status, address = driver.cuMemAlloc(max(spec.nbytes, 1))
        executor._checked((status,))
        self.address = int(address)
        if spec.role in (Role.INPUT, Role.INOUT) and value is not None and spec.nbytes:
            value = np.ascontiguousarray(value)
            executor._checked(driver.cuMemcpyHtoD(address, value.ctypes.data, value.nbytes))
        elif spec.zeroed:
            executor._checked(driver.cuMemsetD8(address, 0, spec.nbytes))


def _run(path: Path) -> None:
    """The process that a tool watches: the launches of one plan."""
    device = present()
    assert device is not None
    Device().set_current()
    stream = Device().create_stream()
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as inputs:
        loaded = _Bare(load(path), architecture_of(device), stream, dict(inputs))
    loaded.launch()
    loaded.synchronize()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        _run(Path(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1:]))
