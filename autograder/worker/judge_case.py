"""One case, judged beside its executor, the emulator or the GPU.

The expected values are computed only after the student's kernels have finished, so that nothing on the device could
have held them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder.records.outcome import CaseOutcome
from autograder.records.status import Status
from autograder.spec.task import Case, Task, Values
from autograder.worker.compare import Comparison, compare, error_ratios, wrong_elements
from autograder.worker.diagnosis import diagnose, never_written
from warplab.plan.execution import Execution, Finding, FindingKind, Writer
from warplab.plan.model import Plan, Role
from warplab.plan.ranking import ranked

FindWriter = Callable[[str, int], Writer | None]


@dataclass(frozen=True)
class Run:
    """One execution of a case.

    `order` says in words how it was run, where that may differ. `find_writer(output, byte)`, where the executor can
    tell, gives the thread that stored a byte of an output last.
    """

    execution: Execution
    order: str = ""
    find_writer: FindWriter | None = None


Execute = Callable[[Plan, dict[str, np.ndarray]], Sequence[Run]]
_UNREACHED = re.compile(r"(\d+) of every (\d+) \w+ were never written")
# After one of these a kernel has not done its work, whatever the output holds.
_FATAL = {
    FindingKind.NULL_POINTER,
    FindingKind.MISALIGNED,
    FindingKind.DEADLOCK,
    FindingKind.ENDLESS,
    FindingKind.TRAP,
    FindingKind.LAUNCH_FAILURE,
    FindingKind.UNSUPPORTED,
    FindingKind.INPUT_MODIFIED,
}


def judge_case(task: Task, case: Case, values: Values, plan: Plan, execute: Execute) -> CaseOutcome:
    """Run a plan on a case's inputs, `values` in the memory of the host, and compare what it wrote.

    `execute` gives the runs, each from the same inputs with outputs poisoned afresh. They must agree bitwise; if the
    task says that they need not, each must be right. Who stored the first wrong element of a case that is not hidden is
    asked of its run. Exceptions pass through.
    """
    arrays = {spec.name: values[spec.name].copy() for spec in task.arrays(Role.INPUT, Role.INOUT)}
    runs = execute(plan, arrays)
    findings = _distinct([finding for run in runs for finding in run.execution.findings])
    findings += _modified_inputs(task, values, arrays, findings)
    for finding in findings:
        if finding.kind in _FATAL:
            return CaseOutcome(case.name, Status(finding.kind.value), message=finding.message, findings=findings)
    disagreement = _disagreement(runs)
    if disagreement and task.reproducible:
        return CaseOutcome(case.name, Status.RUNS_DISAGREE, message=disagreement, findings=findings)
    judged = runs if disagreement else runs[:1]
    outcomes = [compare_outputs(task, case, values, run.execution.outputs, findings) for run in judged]
    outcome, run = max(zip(outcomes, judged, strict=True), key=lambda pair: pair[0].worst_ratio)
    if outcome.first_wrong and not case.hidden:
        outcome = _explained(outcome, plan, run)
        if _starts_as_nan(task, case, values, plan, execute, outcome):
            outcome = replace(outcome, cause=_start_words(outcome, run.execution))
    if outcome.status is Status.WRONG_ANSWER and outcomes[0].status is Status.PASSED and run.order:
        words = f" That is {run.order}; {runs[0].order} it is right, but a GPU promises no order."
        outcome = replace(outcome, message=outcome.message + words)
    return outcome


def compare_outputs(
    task: Task, case: Case, values: Values, outputs: dict[str, np.ndarray], findings: Sequence[Finding] = ()
) -> CaseOutcome:
    """The outcome of a case whose kernels wrote `outputs` from `values`; `findings` are those of the same run."""
    findings = list(findings)
    expected = task.expected(np, values)
    bounds: dict[str, Any] = dict.fromkeys(expected, 0.0) if task.exact(case) else task.bound(np, values)
    comparisons = [compare(name, outputs[name], np.asarray(expected[name]), bounds[name]) for name in expected]
    wrong = [comparison for comparison in comparisons if not comparison.passed]
    if not wrong:
        worst = max((comparison.worst_ratio for comparison in comparisons), default=0.0)
        return CaseOutcome(case.name, Status.PASSED, worst_ratio=worst, findings=findings)
    first = wrong[0]
    got, right = outputs[first.output], np.asarray(expected[first.output])
    mask = wrong_elements(error_ratios(np, got, right, np.asarray(bounds[first.output])))
    return CaseOutcome(
        case.name,
        Status.WRONG_ANSWER,
        message=_wrong_words(first),
        cause=_finding_words(findings) or diagnose(got, right, mask),
        wrong=first.wrong,
        total=first.total,
        worst_ratio=first.worst_ratio,
        first_wrong=first.first,
        findings=findings,
    )


def _explained(outcome: CaseOutcome, plan: Plan, run: Run) -> CaseOutcome:
    """The outcome with the thread that stored the first wrong element, or that none did."""
    assert outcome.first_wrong is not None
    output, index = outcome.first_wrong.output, outcome.first_wrong.index
    unwritten = bool(never_written(run.execution.outputs[output])[index])
    writer = None
    if run.find_writer is not None and not unwritten:
        place = sum(i * stride for i, stride in zip(index, plan.buffers[output].strides, strict=True))
        writer = run.find_writer(output, place)
    words = " No thread stored it." if unwritten else _writer_words(writer) if writer else ""
    first = replace(outcome.first_wrong, unwritten=unwritten, writer=writer)
    cause = _with_block(outcome.cause, plan)
    return replace(outcome, message=outcome.message + words, cause=cause, first_wrong=first)


def _with_block(cause: str, plan: Plan) -> str:
    """The cause with the block whose size it follows of, where one part of each tile was never written."""
    m = _UNREACHED.match(cause)
    if m is None:
        return cause
    reached = int(m[2]) - int(m[1])
    for launch in plan.launches:
        if reached in launch.block:
            block = ", ".join(str(n) for n in launch.block if n > 1)
            return f"{m[0]}: blocks of ({block}) threads reach {reached} of each {m[2]}."
    return cause


def _starts_as_nan(task: Task, case: Case, values: Values, plan: Plan, execute: Execute, outcome: CaseOutcome) -> bool:
    """Whether the first wrong element is NaN only because the outputs were at the start, which something adds to."""
    first = outcome.first_wrong
    if first is None or first.unwritten or not np.isnan(first.got) or outcome.findings:
        return False
    buffers = {
        name: replace(buffer, role=Role.INOUT) if buffer.role is Role.OUTPUT else buffer
        for name, buffer in plan.buffers.items()
    }
    zeros = {name: np.zeros(b.shape, b.dtype) for name, b in plan.buffers.items() if b.role is Role.OUTPUT}
    arrays = {spec.name: values[spec.name].copy() for spec in task.arrays(Role.INPUT, Role.INOUT)}
    run = execute(replace(plan, buffers=buffers), arrays | zeros)[0]
    return not np.isnan(run.execution.outputs[first.output][first.index])


def _start_words(outcome: CaseOutcome, execution: Execution) -> str:
    first = outcome.first_wrong
    assert first is not None
    atomics = {n: c.global_atomic_requests + c.global_reduction_requests for n, c in execution.lines.items() if n > 0}
    line = first.writer.line if first.writer else max(atomics, key=lambda number: atomics[number], default=0)
    where = f"line {line}" if line else "the kernel"
    return (
        f"{first.output} holds NaN at the start, and {where} adds to it: set it first, in an earlier launch or by the "
        "thread that adds first."
    )


def _writer_words(writer: Writer) -> str:
    line = f", on line {writer.line}" if writer.line else ""
    return f" Thread {writer.thread} of block {writer.block} stored it{line}."


def _wrong_words(comparison: Comparison) -> str:
    first = comparison.first
    assert first is not None
    index = ", ".join(str(i) for i in first.index)
    allowed = f"within {first.allowed:.3g}" if first.allowed else "exactly"
    return (
        f"{comparison.wrong} of {comparison.total} elements of {comparison.output} are wrong; the first is "
        f"{comparison.output}[{index}]: got {first.got:.9g}, expected {first.expected:.9g} {allowed}."
    )


def _finding_words(findings: Sequence[Finding]) -> str:
    """A sanitizer that found something knows the cause better than the pattern of wrong elements does."""
    return f"The sanitizers found a likely cause: {findings[0].message}" if findings else ""


def _modified_inputs(
    task: Task, pristine: Values, arrays: dict[str, np.ndarray], findings: Sequence[Finding]
) -> list[Finding]:
    """Inputs that an executor working in place changed, unless it has reported them itself."""
    reported = {finding.array for finding in findings if finding.kind is FindingKind.INPUT_MODIFIED}
    return [
        Finding(FindingKind.INPUT_MODIFIED, f"The kernels changed the input array {spec.name}.", array=spec.name)
        for spec in task.arrays(Role.INPUT)
        if spec.name not in reported and not _equal(arrays[spec.name], pristine[spec.name])
    ]


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    seen: dict[tuple, Finding] = {}
    for finding in findings:
        seen.setdefault((finding.kind, finding.kernel, finding.line, finding.array, finding.extent), finding)
    return ranked(seen.values())


def _disagreement(runs: Sequence[Run]) -> str | None:
    for run in runs[1:]:
        for name, array in runs[0].execution.outputs.items():
            other = run.execution.outputs[name]
            if not _equal(array, other):
                differing = int(np.count_nonzero(_bits(array) != _bits(other)))
                orders = f", one {runs[0].order}, one {run.order}," if run.order else ""
                elements = "1 element" if differing == 1 else f"{differing} elements"
                return (
                    f"Two runs on the same inputs{orders} differ in {elements} of {name}: the result depends on the "
                    "order in which threads run, or on memory that nothing had written."
                )
    return None


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one shape and type have the same bits, NaNs too."""
    return bool(np.array_equal(_bits(one), _bits(other)))


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
