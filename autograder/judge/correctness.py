"""Correctness: one case judged beside its executor, and the part of the grade made from all cases.

`judge_case` runs inside a worker, next to the emulator or the GPU. The expected values are computed there only after
the student's kernels have finished, so that nothing on the device could have held them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from autograder.records.outcome import CaseOutcome
from autograder.records.verdict import UNFINISHED, CaseResult, Part, PartResult, Status, clean
from autograder.spec.inputs import generate
from autograder.spec.lab import Lab
from autograder.spec.task import Case, Task, Values
from autograder.worker.compare import Comparison, compare, error_ratios, wrong_elements
from autograder.worker.diagnosis import diagnose, never_written
from warplab.plan.execution import Execution, Finding, FindingKind, Writer
from warplab.plan.model import Plan, Role

Execute = Callable[[Plan, dict[str, np.ndarray]], Sequence[Execution]]
FindWriter = Callable[[Plan, dict[str, np.ndarray], str, int], Writer | None]

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


def judge_case(
    task: Task, case: Case, seed: int, plan: Plan, execute: Execute, find_writer: FindWriter | None = None
) -> CaseOutcome:
    """Run a plan on a case's inputs and compare what it wrote.

    `execute` gives one Execution a run, each from the same inputs with outputs poisoned afresh. The runs must agree
    bitwise; if the task says that they need not, each must be right. Where the executor can tell, `find_writer(plan,
    inputs, output, byte)` gives the thread that stored a byte of an output last: the first wrong element of a case that
    is not hidden is asked for. Exceptions pass through.
    """
    values = generate(np, task, case, seed)
    arrays = {spec.name: values[spec.name].copy() for spec in task.arrays(Role.INPUT, Role.INOUT)}
    executions = execute(plan, arrays)
    findings = _distinct([finding for execution in executions for finding in execution.findings])
    findings += _modified_inputs(task, values, arrays, findings)
    for finding in findings:
        if finding.kind in _FATAL:
            return CaseOutcome(case.name, Status(finding.kind.value), message=finding.message, findings=findings)
    disagreement = _disagreement([execution.outputs for execution in executions])
    if disagreement and task.reproducible:
        return CaseOutcome(case.name, Status.RUNS_DISAGREE, message=disagreement, findings=findings)
    judged = [execution.outputs for execution in (executions if disagreement else executions[:1])]
    outcomes = [compare_outputs(task, case, values, outputs, findings) for outputs in judged]
    outcome, outputs = max(zip(outcomes, judged, strict=True), key=lambda pair: pair[0].worst_ratio)
    if outcome.first_wrong and not case.hidden:
        outcome = _explained(outcome, plan, outputs, find_writer and partial(find_writer, plan, arrays))
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
        first_wrong={"output": first.output, **asdict(first.first)} if first.first else None,
        findings=findings,
    )


def _explained(
    outcome: CaseOutcome, plan: Plan, outputs: dict[str, np.ndarray], find: Callable[[str, int], Writer | None] | None
) -> CaseOutcome:
    """The outcome with the thread that stored the first wrong element, or that none did."""
    assert outcome.first_wrong is not None
    output, index = outcome.first_wrong["output"], tuple(outcome.first_wrong["index"])
    unwritten = bool(never_written(outputs[output])[index])
    writer = None
    if find is not None and not unwritten:
        place = sum(i * stride for i, stride in zip(index, plan.buffers[output].strides, strict=True))
        writer = find(output, place)
    words = " No thread stored it." if unwritten else _writer_words(writer) if writer else ""
    first = {**outcome.first_wrong, "unwritten": unwritten, "writer": asdict(writer) if writer else None}
    return replace(outcome, message=outcome.message + words, first_wrong=first)


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
        if spec.name not in reported and arrays[spec.name].tobytes() != pristine[spec.name].tobytes()
    ]


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    seen: dict[tuple, Finding] = {}
    for finding in findings:
        seen.setdefault((finding.kind, finding.kernel, finding.line, finding.array), finding)
    # what was read before it was written is more often the consequence than the cause
    return sorted(seen.values(), key=lambda finding: finding.kind is FindingKind.UNINITIALISED)


def _disagreement(outputs: Sequence[dict[str, np.ndarray]]) -> str | None:
    for other in outputs[1:]:
        for name, array in outputs[0].items():
            if array.tobytes() != other[name].tobytes():
                differing = int(np.count_nonzero(_bits(array) != _bits(other[name])))
                return (
                    f"Two runs on the same inputs differ in {differing} elements of {name}: the result depends on the "
                    "order in which threads run, or on memory that nothing had written."
                )
    return None


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def located(on_gpu: Sequence[CaseOutcome], emulated: Sequence[CaseOutcome]) -> list[CaseOutcome]:
    """The GPU's outcomes, explained by the emulator's where both found the same first wrong element in the same case.

    A case that is right on the GPU and wrong on the emulator is wrong: its result depends on the order of threads.
    """
    known = {outcome.case: outcome for outcome in emulated if outcome.status is Status.WRONG_ANSWER}
    explained = []
    for outcome in on_gpu:
        other = known.get(outcome.case)
        if other is not None and outcome.status is Status.PASSED:
            words = f"Right on the GPU, but not on the emulator, where threads run in another order: {other.message}"
            outcome = replace(other, message=words)
        elif other is not None and outcome.status is Status.WRONG_ANSWER and _place(other) == _place(outcome):
            outcome = replace(outcome, message=other.message, cause=other.cause, first_wrong=other.first_wrong)
        explained.append(outcome)
    return explained


def _place(outcome: CaseOutcome) -> tuple[str, tuple[int, ...]] | None:
    first = outcome.first_wrong
    return (first["output"], tuple(first["index"])) if first else None


def correctness_part(lab: Lab, outcomes: Sequence[CaseOutcome], skipped: Sequence[Case]) -> PartResult:
    """The part of the grade: full points if every case that ran passed. `skipped` cases need a GPU."""
    hidden = [case.name for case in lab.task.correctness if case.hidden]
    numbers = {name: number for number, name in enumerate(hidden, start=1)}
    cases = [_case_result(outcome, numbers) for outcome in outcomes]
    cases += [
        CaseResult(
            f"hidden case {numbers[case.name]}" if case.hidden else case.name,
            Status.SKIPPED,
            "Needs a GPU: too large for the emulator.",
        )
        for case in skipped
    ]
    failed = [case for case in cases if case.status not in (Status.PASSED, Status.SKIPPED)]
    ran = len(outcomes)
    left = f" {len(skipped)} more need{'s' if len(skipped) == 1 else ''} a GPU." if skipped else ""
    points = lab.points.correctness
    feedback = lab.feedback.get(Part.CORRECTNESS, "")
    if not failed:
        return PartResult(
            Part.CORRECTNESS, Status.PASSED, points, points, f"All {ran} cases are right.{left}", feedback, tuple(cases)
        )
    # the student's faults before the emulator's limits; then the case that shows most
    telling = max(failed, key=lambda case: (case.status not in UNFINISHED, case.total))
    message = f"{len(failed)} of {ran} cases failed, among them {telling.name}: {telling.message}"
    return PartResult(Part.CORRECTNESS, telling.status, 0.0, points, message, feedback, tuple(cases))


def _case_result(outcome: CaseOutcome, hidden_numbers: dict[str, int]) -> CaseResult:
    if outcome.case in hidden_numbers:
        words = "" if outcome.status is Status.PASSED else f"{outcome.status}: its size and values are not shown."
        name = f"hidden case {hidden_numbers[outcome.case]}"
        return CaseResult(name, outcome.status, words[:1].upper() + words[1:], seconds=outcome.seconds)
    return CaseResult(
        outcome.case,
        outcome.status,
        clean(outcome.message),
        clean(outcome.cause),
        outcome.wrong,
        outcome.total,
        outcome.worst_ratio,
        outcome.first_wrong,
        outcome.seconds,
    )
