"""Safety: what the sanitizers found on the profile case and on the small ragged cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autograder.records.outcome import CaseOutcome
from autograder.records.report import PartResult
from autograder.records.status import UNFINISHED, Part, Status
from autograder.records.text import clean
from autograder.spec.lab import Lab
from warplab.plan.execution import Finding, FindingKind


def safety_part(lab: Lab, outcomes: Sequence[CaseOutcome], answers_right: bool) -> PartResult:
    """The part of the grade: full points without findings. `outcomes` come from the emulator and the GPU."""
    points, feedback = lab.points.safety, lab.feedback.get(Part.SAFETY, "")
    hidden = {case.name for case in lab.task.correctness if case.hidden}
    findings = _merged(outcomes, hidden)
    faults = [finding for finding in findings if finding.kind is not FindingKind.UNSUPPORTED]
    if faults:
        first = faults[0]
        message = first.message if len(faults) == 1 else f"{len(faults)} findings; the first: {first.message}"
        return PartResult(
            Part.SAFETY, Status(first.kind.value), 0.0, points, message, feedback, findings=tuple(findings)
        )
    unfinished = [outcome for outcome in outcomes if outcome.status in UNFINISHED]
    if unfinished:
        shown = min(unfinished, key=lambda outcome: outcome.case in hidden)
        words = "Not run to its end on a hidden case." if shown.case in hidden else clean(shown.message)
        return PartResult(Part.SAFETY, shown.status, 0.0, points, words, feedback, findings=tuple(findings))
    if not answers_right:
        message = "Nothing found, but points are given only to a kernel whose answers are right."
        return PartResult(Part.SAFETY, Status.WITHHELD, 0.0, points, message, feedback)
    return PartResult(Part.SAFETY, Status.PASSED, points, points, "The sanitizers found nothing.", feedback)


def _merged(outcomes: Sequence[CaseOutcome], hidden: set[str]) -> list[Finding]:
    """One finding per kind, kernel, line and array; those of hidden cases tell no sizes, and are not counted.

    A fault a row, or a thread, would otherwise tell how many there are.
    """
    merged: dict[tuple, Finding] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.case in hidden):
        for finding in outcome.findings:
            key = (finding.kind, finding.kernel, finding.line, finding.array)
            if outcome.case in hidden:
                message = f"Line {finding.line}: {finding.kind} on a hidden case, whose size and values are not shown."
                # names are the submission's to choose, which knows the hidden sizes
                merged.setdefault(key, Finding(finding.kind, message, line=finding.line))
            elif key in merged:
                merged[key] = replace(merged[key], count=merged[key].count + finding.count)
            else:
                merged[key] = replace(finding, message=clean(finding.message), array=clean(finding.array))
    # what was read before it was written is more often the consequence than the cause
    return sorted(merged.values(), key=lambda finding: finding.kind is FindingKind.UNINITIALISED)
