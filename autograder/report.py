"""Makes the report of a submission that was judged, was rejected before any kernel ran, or could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.advice import next_step
from autograder.capture_stage import Captured, Rejected
from autograder.machine import versions
from autograder.outcome import CaseOutcome
from autograder.request import Request
from autograder.verdict import Part, PartResult, Profile, Report, Status, clean, clean_source
from autograder.waste import wasted_lines
from warplab.errors import WarplabError


def judged(request: Request, captured: Captured, parts: tuple[PartResult, ...], profile: CaseOutcome) -> Report:
    """The report of a submission whose kernels ran."""
    status, message = _overall(parts)
    counters = profile.counters
    wasted = wasted_lines(counters, profile.lines) if counters is not None else ()
    return _report(
        request,
        status,
        message,
        parts,
        language=captured.language,
        kernels=captured.kernels,
        source=clean_source(next(iter(captured.plans.values())).source),
        profile=Profile(profile.case, counters, profile.lines) if counters is not None else None,
        wasted=wasted,
        next_step=next_step(parts, wasted, captured.kernels),
    )


def rejected(request: Request, rejection: Rejected) -> Report:
    """The report of a submission that could not be captured: no points for anything."""
    points = request.lab.points
    message = f"Line {rejection.line}: {rejection}" if rejection.line else str(rejection)
    nothing = "No kernel was run."
    efficiency = Status.WITHHELD if request.has_gpu else Status.NOT_MEASURED
    parts = (
        PartResult(Part.CORRECTNESS, rejection.status, 0.0, points.correctness, message),
        PartResult(Part.SAFETY, Status.WITHHELD, 0.0, points.safety, nothing),
        PartResult(Part.TRAFFIC, Status.WITHHELD, 0.0, points.traffic, nothing),
        PartResult(Part.EFFICIENCY, efficiency, 0.0, points.efficiency, nothing),
    )
    return _report(request, rejection.status, message, parts, line=rejection.line, source=_text(request.source))


def not_judged(request: Request, error: Exception) -> Report:
    """The report when the judge itself failed: no part counts."""
    words = str(error) if isinstance(error, WarplabError) else f"{type(error).__name__}: {error}"
    parts = tuple(
        PartResult(part, Status.JUDGE_ERROR, 0.0, getattr(request.lab.points, part.value), "Not judged.")
        for part in Part
    )
    message = f"The judge failed, not the submission: {words}"
    return _report(request, Status.JUDGE_ERROR, message, parts, source=_text(request.source))


def _overall(parts: Sequence[PartResult]) -> tuple[Status, str]:
    correctness = parts[0]
    if correctness.status is not Status.PASSED:
        return correctness.status, correctness.message
    missed = [part for part in parts if part.judged and part.score < part.max_score]
    if missed:
        return Status.PARTIAL, f"{missed[0].part.capitalize()}: {missed[0].message}"
    left_out = [part.part.value for part in parts if not part.judged]
    return Status.PASSED, f"Full marks ({' and '.join(left_out)} not judged here)." if left_out else "Full marks."


def _report(request: Request, status: Status, message: str, parts: tuple[PartResult, ...], **more: Any) -> Report:
    return Report(
        lab=request.lab.name,
        title=request.lab.title,
        submission=clean(request.source.name),
        status=status,
        message=clean(message),
        parts=parts,
        full_score=sum(part.max_score for part in parts),
        device=request.machine.device,
        hardware=request.machine.hardware,
        versions=versions(),
        isolation=request.machine.isolation,
        notebook=request.lab.notebook,
        **more,
    )


def _text(source: Path) -> str:
    """The submission's text where it is text, to show the line that is at fault."""
    try:
        return clean_source(source.read_text(encoding="utf-8")) if source.stat().st_size < 1_000_000 else ""
    except (OSError, UnicodeDecodeError):
        return ""
