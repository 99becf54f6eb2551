"""Captures a submission for all cases of a lab in one child process, and turns failures into statuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warplab.plan.assemble import assemble

from autograder.inputs import scalars
from autograder.lab import Lab
from autograder.task import Case
from autograder.verdict import KernelFigures, Status, clean
from warplab.errors import CompileError, WarplabError
from warplab.plan.capture import capture
from warplab.plan.failure import CaptureFailure, CaptureStatus
from warplab.plan.model import Kernel, Language, Plan

CAPTURE_SECONDS = 30.0

_STATUSES = {
    CaptureStatus.NOT_FOUND: Status.NOT_FOUND,
    CaptureStatus.NOT_PYTHON: Status.NOT_PYTHON,
    CaptureStatus.SYNTAX_ERROR: Status.SYNTAX_ERROR,
    CaptureStatus.IMPORT_ERROR: Status.IMPORT_ERROR,
    CaptureStatus.NO_FUNCTION: Status.NO_FUNCTION,
    CaptureStatus.ARGUMENT_MISMATCH: Status.ARGUMENT_MISMATCH,
    CaptureStatus.HOST_ERROR: Status.HOST_ERROR,
    CaptureStatus.TIMEOUT: Status.HOST_TIMEOUT,
    CaptureStatus.CRASHED: Status.HOST_CRASHED,
    CaptureStatus.COMPILE_ERROR: Status.COMPILE_ERROR,
    CaptureStatus.LAUNCH_ERROR: Status.LAUNCH_ERROR,
    CaptureStatus.NO_LAUNCH: Status.NO_LAUNCH,
    CaptureStatus.UNSUPPORTED: Status.HOST_UNSUPPORTED,
    CaptureStatus.RESOURCES: Status.RESOURCES,
}


class Rejected(WarplabError):
    """The submission is at fault before any kernel has run; `status` says how and `line` where (0: unknown)."""

    def __init__(self, status: Status, message: str, line: int | None = None) -> None:
        super().__init__(clean(message))
        self.status = status
        self.line = line or 0


@dataclass(frozen=True)
class Captured:
    """A captured submission: one plan a case (same order as asked for), its language and its kernels' figures."""

    plans: dict[str, Plan]
    language: str
    kernels: tuple[KernelFigures, ...]


def capture_submission(lab: Lab, source: Path, cases: Sequence[Case], seed: int, architecture: str) -> Captured:
    """Capture `source` for every case and assemble it for `architecture`. Raises Rejected if the student erred."""
    calls = [lab.task.host_call(case.dimensions, scalars(lab.task, case, seed)) for case in cases]
    try:
        plans = capture(source, calls, architectures=(architecture,), timeout=CAPTURE_SECONDS)
    except CaptureFailure as failure:
        raise Rejected(_STATUSES[failure.status], failure.message, failure.line) from failure
    language = _language(lab, plans)
    try:
        plans = [assemble(plan, architecture) for plan in plans]
    except CompileError as error:
        raise Rejected(Status.COMPILE_ERROR, str(error), error.line) from error
    kernels: dict[tuple[str, int], Kernel] = {}
    for plan in plans:
        for kernel in plan.kernels.values():
            kernels.setdefault((kernel.entry, kernel.line), kernel)
    figures = tuple(_figures(kernel, architecture) for kernel in kernels.values())
    named = {case.name: replace(plan, source_name=source.name) for case, plan in zip(cases, plans, strict=True)}
    return Captured(named, language, figures)


def _language(lab: Lab, plans: Sequence[Plan]) -> str:
    used = {kernel.language for plan in plans for kernel in plan.kernels.values()}
    refused = used - lab.languages
    if refused:
        allowed = " or ".join(sorted(lab.languages))
        found = next(k for plan in plans for k in plan.kernels.values() if k.language in refused)
        raise Rejected(
            Status.WRONG_LANGUAGE,
            f"Kernel {found.name} is written in {found.language}; this lab asks for {allowed}.",
            found.line,
        )
    return " + ".join(language for language in Language if language in used)


def _figures(kernel: Kernel, architecture: str) -> KernelFigures:
    cubin = kernel.cubins[architecture]
    spills = cubin.spill_stores + cubin.spill_loads
    return KernelFigures(clean(kernel.name), kernel.line, cubin.registers, spills, cubin.static_shared)
