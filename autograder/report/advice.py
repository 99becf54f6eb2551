"""The one thing to try next: one sentence for a report, and the section of the course that explains it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from autograder.records.measurement import Measurement
from autograder.records.outcome import FirstWrong
from autograder.records.report import CaseResult, KernelFigures, PartResult, WastedLine
from autograder.records.status import Part, Status
from autograder.report.source_slips import (
    cost_of_printing,
    is_vague,
    narrow_array,
    overwritten_output,
    same_in_every_block,
    uncalled_barrier,
    unoptimised,
)
from autograder.report.waste import raises
from autograder.report.words import without_place
from warplab.plan.execution import Finding, FindingKind

_FEW_THREADS = 0.25  # theoretical occupancy below which latency is hard to hide

_FOR_FINDINGS = {
    FindingKind.OUT_OF_BOUNDS: "compare the index with the array's size before this access",
    FindingKind.REDZONE: "compare every index with the array's size before it is stored to",
    FindingKind.MISALIGNED: "let a vector access begin at a multiple of its own size",
    FindingKind.NULL_POINTER: "pass the kernel the array that it expects here",
    FindingKind.UNINITIALISED: "find the thread that should have written this element before, and why it does not",
    FindingKind.DIVERGENT_BARRIER: "move the barrier out of the branch, and guard the loads and stores instead",
    FindingKind.DEADLOCK: "let every thread that is waited for reach this barrier",
    FindingKind.ENDLESS: "make sure that every loop ends, and that no thread does the work of all",
    FindingKind.TRAP: "find out which value violates what the kernel assumes here",
    FindingKind.INPUT_MODIFIED: "store to the output, or to an array of your own, instead of an input",
    FindingKind.LAUNCH_FAILURE: "change the launch so that a GPU accepts it",
}

# The message says what the function's own Python does wrong.
_BEFORE_ANY_RECORD = (
    Status.NO_FUNCTION,
    Status.ARGUMENT_MISMATCH,
    Status.HOST_ERROR,
    Status.HOST_CRASHED,
    Status.NO_RECORDS,
)
_SHAPE = re.compile(r"has shape \((\d+), (\d+)\)")
_HAS_A_CURE = re.compile(r": put |\. Let |: give it ")


def next_step(
    parts: Sequence[PartResult],
    wasted: Sequence[WastedLine] = (),
    kernels: Sequence[KernelFigures] = (),
    source: str = "",
    dtypes: Collection[str] = (),
    in_float64: int = 0,
    missing: str = "",
) -> str:
    """What to do next, in one or two sentences; empty if nothing is left to do or this machine cannot tell.

    A fault comes before the wrong numbers that it makes, and both before what only costs time; a slip that the source
    shows comes before what follows of it. `dtypes` are those of the lab's arguments; `in_float64` is a line that
    computes in float64 where nothing asks for that. `missing` says what kernels lack that a lab asks for.
    """
    by_name = {part.part: part for part in parts}
    correctness, safety, traffic, efficiency = (by_name[name] for name in Part)
    lines = source.split("\n")
    if (correctness.lost or safety.lost) and (
        slip := uncalled_barrier(lines)
        or overwritten_output(lines, correctness)
        or same_in_every_block(lines, correctness, safety.findings[0] if safety.findings else None)
    ):
        return slip
    first = next((finding for finding in safety.findings if finding.is_fault), None)
    if first and first.kind is not FindingKind.UNSUPPORTED:
        return _with_section(_for_finding(first), safety)
    if correctness.lost:
        slip = narrow_array(lines, correctness, dtypes)
        return slip or _with_section(_for_wrong_answer(correctness), correctness)
    if safety.lost:
        return _with_section("", safety)
    if missing:
        return _with_section(missing, traffic)
    if traffic.lost:
        return cost_of_printing(lines, traffic) or unoptimised(lines, traffic) or _traffic_step(traffic, wasted)
    if efficiency.lost:
        return _with_section(_for_efficiency(efficiency, wasted, kernels), efficiency)
    return _float64_words(in_float64)


def _traffic_step(traffic: PartResult, wasted: Sequence[WastedLine]) -> str:
    return _with_section(_for_traffic(traffic, wasted), traffic)


def _float64_words(line: int) -> str:
    if not line:
        return ""
    return (
        f"Line {line} computes in float64, which takes twice as long as float32 on an H100, and 64 times on most GPUs: "
        "give constants and scalars a type, as in float32(1.0) or 1.0f."
    )


def next_step_of_schedules(parts: Sequence[PartResult], advice: str, missing: Sequence[str]) -> str:
    """The same for a submission of schedules or plans; `advice` is what to do about a wrong one, `missing` are the
    functions that are still the starter's."""
    by_name = {part.part: part for part in parts}
    lost = min((by_name[name] for name in Part if by_name[name].lost), key=_needs_torch, default=None)
    if lost is None:
        return ""
    if _needs_torch(lost):
        return "Install PyTorch (make torch), and grade again."
    if lost.part is Part.TRAFFIC:
        return _with_section(_for_traffic(lost, ()), lost)
    if lost.part is Part.EFFICIENCY:
        slow = next((case for case in lost.cases if case.status is Status.SLOW), None)
        return _with_section(f"Begin with {slow.name}: {slow.message}." if slow else "", lost)
    failed = [case for case in lost.cases if case.status is not Status.PASSED and case.message]
    written = [case for case in failed if not any(f"{name}(" in case.message for name in missing)]
    if missing and not written:
        return _with_section(f"Write {missing[0]} next: it is still as in the starter.", lost)
    if not failed:
        return _with_section(advice, lost)
    first = (written or failed)[0]
    if first.status in _BEFORE_ANY_RECORD:
        return _with_section(first.message, lost)
    return _with_section(f"{first.name}: {first.message} {advice}", lost)


def _needs_torch(part: PartResult) -> bool:
    return part.status is Status.NEEDS_TORCH


def next_step_of_attacks(parts: Sequence[PartResult]) -> str:
    """The same for attacks on a naive judge."""
    lost = next((part for part in parts if part.lost), None)
    if lost is None:
        return ""
    missed = next(case for case in lost.cases if case.status is not Status.PASSED) if lost.cases else None
    return _with_section(f"Try {missed.name} on naive_judge.py." if missed else "", lost)


def _with_section(sentence: str, part: PartResult) -> str:
    read = f"Read {part.feedback}." if part.feedback else ""
    return " ".join(text for text in (sentence, read) if text)


def _for_finding(finding: Finding) -> str:
    """What was found and what to do about it, which a race's message says itself."""
    found = without_place(finding.message)
    cure = "" if _HAS_A_CURE.search(found) else _FOR_FINDINGS.get(finding.kind)
    if _is_swapped(finding):
        cure = f"{cure}, or swap its two indices, which fit in the other order"
    return f"{found}: {cure}." if cure else f"{found}."


def _is_swapped(finding: Finding) -> bool:
    """Whether an element outside of its array lies inside with its two indices swapped."""
    shape = _SHAPE.search(finding.message)
    if finding.kind is not FindingKind.OUT_OF_BOUNDS or finding.index is None or len(finding.index) != 2 or not shape:
        return False
    return all(0 <= place < int(extent) for place, extent in zip(reversed(finding.index), shape.groups(), strict=True))


def _for_wrong_answer(part: PartResult) -> str:
    failed = [case for case in part.cases if case.first_wrong]
    if not failed:
        return ""
    telling = min(failed, key=lambda case: (is_vague(case.cause), case.total))
    if "line " in telling.cause:
        return telling.cause
    case = min(failed, key=lambda case: case.total)  # the smallest is the easiest to follow by hand
    assert case.first_wrong is not None
    element = _for_element(case, case.first_wrong)
    return element if is_vague(telling.cause) else f"{telling.cause} {element}"


def _for_element(case: CaseResult, first: FirstWrong) -> str:
    element = f"{first.output}[{', '.join(str(i) for i in first.index)}]"
    writer = first.writer
    if writer:
        line = f" to line {writer.line}" if writer.line else ""
        who = f"thread {writer.thread} of block {writer.block}"
        if "lower precision" in case.cause:
            return f"Follow {who}{line} and find the value on the way to {element} that is kept in too few bits."
        return f"Take the case {case.name!r} and follow {who}{line} by hand: {element} gets its value there."
    if first.unwritten:
        return (
            f"Take the case {case.name!r} and find the block and the thread that should store {element}: does the "
            "launch have them, and does a condition keep them from it?"
        )
    return f"Take the case {case.name!r} and work out by hand where {element} comes from."


def _for_traffic(part: PartResult, wasted: Sequence[WastedLine]) -> str:
    over = [budget for budget in part.budgets if not budget.passed]
    if not over:
        return part.message if part.status is Status.OTHER_KERNELS else ""
    worst = max(over, key=lambda budget: budget.value / budget.limit if budget.limit else float("inf"))
    first = next((line for line in wasted if raises(line, (worst.counter, *worst.parts))), None)
    return f"{worst.reason} Begin with line {first.line}." if first else worst.reason


def _for_efficiency(part: PartResult, wasted: Sequence[WastedLine], kernels: Sequence[KernelFigures]) -> str:
    if part.status not in (Status.PARTIAL, Status.SLOW):
        return ""
    spilling = [kernel for kernel in kernels if kernel.spill_bytes]
    if spilling:
        kernel = spilling[0]
        return (
            f"{kernel.name} spills {kernel.spill_bytes:,} bytes per thread from its {kernel.registers} registers to "
            "memory: let a thread hold less at a time."
        )
    if wasted:
        return wasted[0].words
    thin = [kernel for kernel in kernels if kernel.occupancy < _FEW_THREADS]
    if thin:
        kernel = thin[0]
        return (
            f"An SM holds only {kernel.occupancy:.0%} of the threads that it could, for {kernel.name} takes "
            f"{kernel.registers} registers per thread and {kernel.shared:,} shared bytes per block: take less, or give "
            "each thread more independent work."
        )
    if isinstance(part.measurement, Measurement) and part.measurement.bound == "memory":
        return "No traffic is wasted, so more of it must be on its way at once: more loads before the first use."
    return "The arithmetic units wait: look for more independent multiply-adds between two reads of shared memory."
