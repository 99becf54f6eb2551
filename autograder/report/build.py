"""Makes the report of a submission that was judged, was rejected before any kernel ran, or could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autograder.records.machine import versions
from autograder.records.measurement import Measurement
from autograder.records.outcome import CaseOutcome, LaneRequest
from autograder.records.prepared import Prepared
from autograder.records.rejection import Rejected
from autograder.records.report import PartResult, Profile, Report, Resemblance
from autograder.records.request import Request
from autograder.records.status import Part, Status
from autograder.records.text import clean, clean_source
from autograder.report.advice import next_step
from autograder.report.resemblance import beyond, resemblance
from autograder.report.unrun import unrun_lines
from autograder.report.waste import wasted_lines
from autograder.spec.lab import Lab
from warplab.errors import WarplabError
from warplab.hardware.requests import LANES
from warplab.plan.execution import Counters


def judged(request: Request, text: str, parts: tuple[PartResult, ...], **more: Any) -> Report:
    """The report of a submission, whose source is `text`, that was judged. `more` are what its kind of lab has to say:
    a Report's `language`, `next_step` and further fields."""
    status, message = _overall(parts)
    return _report(request, status, message, parts, source=clean_source(text), **more)


def judged_kernels(
    request: Request,
    lab: Lab,
    text: str,
    captured: Prepared,
    parts: tuple[PartResult, ...],
    emulated: Sequence[CaseOutcome],
    missing: str = "",
) -> Report:
    """The report of a submission whose kernels ran. `lab` has the sizes that the seed drew; the profile case is the
    last of `emulated`; `missing` says what the lab asks for that the kernels lack."""
    profile = emulated[-1]
    counters, dtypes = profile.counters, [argument.dtype for argument in lab.task.arguments]
    wasted = wasted_lines(counters, profile.lines) if counters is not None else ()
    return judged(
        request,
        text,
        parts,
        language=captured.language,
        kernels=captured.kernels,
        profile=_profile(profile),
        wasted=wasted,
        worst_request=_worst_request(profile),
        unrun=_unrun(request, text, parts, emulated),
        resemblance=_resemblance(lab, parts, counters),
        printed=clean(next((outcome.printed for outcome in emulated if outcome.printed), "")),
        next_step=next_step(
            parts, wasted, captured.kernels, clean_source(text), dtypes, _in_float64(dtypes, profile), missing
        ),
    )


def _worst_request(profile: CaseOutcome) -> LaneRequest | None:
    """The request to draw, its words cleaned like all that the worker says."""
    one = profile.worst_request
    if one is None or len(one.addresses) != LANES:
        return None
    return replace(one, verb=clean(one.verb), array=clean(one.array))


def _unrun(
    request: Request, text: str, parts: Sequence[PartResult], emulated: Sequence[CaseOutcome]
) -> tuple[tuple[int, int], ...]:
    """Of right kernels, where the hidden cases ran too."""
    right = parts[0].status is Status.PASSED and not request.quick
    return unrun_lines(clean_source(text), emulated) if right else ()


def _in_float64(dtypes: Sequence[str], profile: CaseOutcome) -> int:
    """The line that computes most in float64 where no argument has that type; 0 if none does."""
    lines = {number: line.fp64_instructions for number, line in profile.lines.items() if number > 0}
    line = max(lines, key=lambda number: lines[number], default=0)
    return line if line and lines[line] and "float64" not in dtypes else 0


def _profile(outcome: CaseOutcome) -> Profile | None:
    """What was counted on the profile case; the worker's note is cleaned like all that it says."""
    if outcome.counters is None:
        return None
    return Profile(outcome.case, outcome.counters, outcome.lines, clean(outcome.counters_note))


def _resemblance(lab: Lab, parts: Sequence[PartResult], counters: Counters | None) -> Resemblance | None:
    """What right answers resemble, where no GPU has told how fast they come; where one has, what is faster still."""
    if counters is None or parts[0].status is not Status.PASSED:
        return None
    if not parts[-1].judged:
        return resemblance(lab, counters)
    full = all(part.score >= part.max_score for part in parts)
    measured = parts[-1].measurement
    return beyond(lab, counters, measured) if full and isinstance(measured, Measurement) else None


def rejected(request: Request, text: str, rejection: Rejected) -> Report:
    """The report of a submission, whose source is `text`, that could not be captured: no points for anything."""
    points = request.lab.points
    message = f"Line {rejection.line}: {rejection}" if rejection.line else _capitalised(str(rejection))
    nothing = request.lab.task.nothing
    judged_here = request.has_gpu or Part.EFFICIENCY in request.lab.task.judged_without_gpu
    efficiency = Status.WITHHELD if judged_here else Status.NOT_MEASURED
    judged = points.efficiency if request.has_gpu else request.lab.points_without_gpus(Part.EFFICIENCY)
    parts = (
        PartResult(Part.CORRECTNESS, rejection.status, 0.0, points.correctness, message),
        PartResult(Part.SAFETY, Status.WITHHELD, 0.0, points.safety, nothing),
        PartResult(Part.TRAFFIC, Status.WITHHELD, 0.0, points.traffic, nothing),
        PartResult(Part.EFFICIENCY, efficiency, 0.0, judged, nothing, left_out=points.efficiency - judged),
    )
    source = clean_source(text)
    return _report(
        request, rejection.status, message, parts, line=rejection.line, source=source, original=rejection.original
    )


def _capitalised(sentence: str) -> str:
    """With a capital letter at its beginning, unless it begins with the name of a file."""
    return sentence if "." in sentence.partition(" ")[0] else sentence[:1].upper() + sentence[1:]


def not_judged(request: Request, text: str, error: Exception) -> Report:
    """The report when the judge itself failed on a submission, whose source is `text`: no part counts."""
    words = str(error) if isinstance(error, WarplabError) else f"{type(error).__name__}: {error}"
    parts = tuple(
        PartResult(part, Status.JUDGE_ERROR, 0.0, getattr(request.lab.points, part.value), "Not judged.")
        for part in Part
    )
    message = f"The judge failed, not the submission: {words}"
    return _report(request, Status.JUDGE_ERROR, message, parts, source=clean_source(text))


def _overall(parts: Sequence[PartResult]) -> tuple[Status, str]:
    correctness = parts[0]
    if correctness.status is not Status.PASSED:
        return correctness.status, correctness.message
    missed = [part for part in parts if part.judged and part.score < part.max_score]
    if missed:
        return Status.PARTIAL, f"{missed[0].part.capitalize()}: {missed[0].message}"
    left_out = [f"{part.part} ({part.max_score:g} points)" for part in parts if not part.judged]
    left_out += [f"{part.left_out:g} points of {part.part}" for part in parts if part.judged and part.left_out]
    words = f"All points that this machine can give; not judged here: {' and '.join(left_out)}."
    return Status.PASSED, words if left_out else "Full marks."


def _report(request: Request, status: Status, message: str, parts: tuple[PartResult, ...], **more: Any) -> Report:
    made = Report(
        lab=request.lab.name,
        title=request.lab.title,
        submission=clean(request.source.name),
        status=status,
        message=clean(message),
        parts=parts,
        full_score=sum(part.max_score + part.left_out for part in parts),
        device=request.machine.device,
        hardware=request.lab.task.judged_on or request.machine.hardware,
        versions=versions(),
        isolation=request.machine.isolation,
        notebook=request.lab.notebook,
        **more,
    )
    return replace(made, predictions=request.lab.predictions) if made.full_marks else made
