"""Whether a report fails a mutant for the mutant's own reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.records.report import PartResult, Report
from autograder.records.status import NOT_JUDGED, Part, Status
from autograder.report.words import budget_words
from corpus.judge.mutants.mutant import Mutant
from warplab.plan.execution import Finding

_ORDER = (Part.CORRECTNESS, Part.SAFETY, Part.TRAFFIC)


def objections(mutant: Mutant, report: Report, source: str) -> list[str]:
    """What is wrong with the verdict on a mutant whose text is `source`; empty if it is the one it must get."""
    cause, part = mutant.cause, report.part(mutant.cause.part)
    found = []
    if report.status in NOT_JUDGED:
        return [f"was not judged: {report.message}"]
    if report.full_marks or not failed(part):
        found.append(f"earned {part.score:g} of {part.max_score:g} points for {part.part}")
    kinds = {part.status.value, *(finding.kind.value for finding in part.findings)}
    # On a GPU, where threads run in no fixed order, a wrong answer may be another one each time.
    changing = cause.status == Status.WRONG_ANSWER and part.status is Status.RUNS_DISAGREE
    if cause.status not in kinds and not changing:
        found.append(f"{part.part} failed with {', '.join(sorted(kinds))} instead of {cause.status}")
    if cause.at:
        wanted = {number for number, line in enumerate(source.split("\n"), start=1) if cause.at in line}
        named = {n for p in report.parts for f in p.findings if f.kind.value == cause.status for n in _lines(f)}
        if not wanted:
            found.append(f"no line of the mutant has the text {cause.at!r}")
        elif not wanted & named:
            found.append(f"the finding names lines {sorted(named)} instead of {sorted(wanted)} ({cause.at})")
    if cause.words and not changing and not any(cause.words in text for text in _texts(report)):
        found.append(f"the report does not say {cause.words!r}")
    if cause.part is Part.TRAFFIC:
        for earlier in _ORDER[: _ORDER.index(cause.part)]:
            if report.part(earlier).status is not Status.PASSED:
                found.append(f"{earlier} failed too: {report.part(earlier).message}")
    return found


def failed(part: PartResult) -> bool:
    """Whether a part says of a submission that it fails: without points, but for traffic, whose points have degrees,
    correctness and safety, of which a stage of a long lab or a function of several may have earned some, and what says
    itself that it is a part only."""
    if part.part is not Part.EFFICIENCY or part.status is Status.PARTIAL:
        return part.status is not Status.PASSED and part.score < part.max_score
    return part.score == 0


def _lines(finding: Finding) -> set[int]:
    """The kernel's line of a finding, and that of the function that it calls there."""
    return {finding.line, *map(int, re.findall(r"\(through line (\d+)\)", finding.message))}


def _texts(report: Report) -> Iterator[str]:
    for part in report.parts:
        yield part.message
        yield from (finding.message for finding in part.findings)
        yield from (budget_words(budget) for budget in part.budgets if not budget.passed)
        for case in part.cases:
            yield case.message
            yield case.cause
