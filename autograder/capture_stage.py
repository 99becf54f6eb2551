"""Captures a submission for all cases of a lab in one child process, and turns failures into statuses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.inputs import scalars
from autograder.lab import Lab
from autograder.module_variables import device_bytes
from autograder.rules import uses_tensor_cores
from autograder.same_kernels import other_kernels
from autograder.task import Case
from autograder.verdict import KernelFigures, Status, clean
from warplab.errors import CompileError, WarplabError
from warplab.plan.assemble import assemble
from warplab.plan.capture import capture
from warplab.plan.failure import CaptureFailure, CaptureStatus
from warplab.plan.isolation import Isolation
from warplab.plan.language import language_of
from warplab.plan.model import Kernel, Language, Launch, Plan
from warplab.plan.occupancy import Occupancy, occupancy

CAPTURE_SECONDS = 30.0
SMALL_MEMORY = 1 << 30  # bytes of device memory that a case for the emulator may take

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
    others: str = ""  # why other kernels are timed than are judged, if so


def capture_submission(
    lab: Lab,
    source: Path,
    cases: Sequence[Case],
    seed: int,
    architecture: str,
    isolation: Isolation | None = None,
) -> Captured:
    """Capture `source` for every case and assemble it for `architecture`. Raises Rejected if the student erred.

    `isolation` is the strongest that this machine has, unless one is named.
    """

    def captured(group: Sequence[Case]) -> dict[str, Plan]:
        calls = [lab.task.host_call(case.dimensions, scalars(lab.task, case, seed)) for case in group]
        try:
            plans = capture(source, calls, architectures=(architecture,), timeout=CAPTURE_SECONDS, isolation=isolation)
        except CaptureFailure as failure:
            raise Rejected(_STATUSES[failure.status], failure.message, failure.line) from failure
        for case, plan in zip(group, plans, strict=True):
            if not case.needs_gpu and case.name != lab.task.timing.name:
                _require_that_memory_suffices(plan)
        return {case.name: plan for case, plan in zip(group, _usable(lab, plans, architecture), strict=True)}

    open_cases = [case for case in cases if not case.hidden]
    named = captured(open_cases)
    # The host code sees the sizes that it is called with, and could say them in a message or in a kernel's name. What
    # it says of hidden ones is therefore asked for in a process of its own, and not repeated.
    hidden = [case for case in cases if case.hidden]
    try:
        named |= captured(hidden) if hidden else {}
    except Rejected as rejection:
        words = f"On a size that is not shown: {rejection.status}."
        raise Rejected(rejection.status, words) from rejection
    plans = [named[case.name] for case in cases]
    return Captured(
        {case.name: named[case.name] for case in cases},
        _language(lab, plans),
        _figures(named[lab.task.profile.name], architecture),
        _others(lab, cases, named),
    )


def _others(lab: Lab, cases: Sequence[Case], plans: Mapping[str, Plan]) -> str:
    """What autograder.same_kernels says of the cases that one process has captured: those that are not hidden."""
    profile, timing = lab.task.profile.name, lab.task.timing.name
    if profile not in plans or timing not in plans:
        return ""
    shown = [plans[case.name] for case in cases if not case.hidden and case.name not in (profile, timing)]
    return other_kernels(plans[profile], plans[timing], shown)


def _usable(lab: Lab, plans: Sequence[Plan], architecture: str) -> list[Plan]:
    """The plans, assembled. Raises Rejected if this lab or this GPU does not take them."""
    _language(lab, plans)
    for plan in plans:
        if found := uses_tensor_cores(lab.task, plan):
            raise Rejected(Status.NOT_ALLOWED, *found)
    try:
        assembled = [assemble(plan, architecture) for plan in plans]
    except CompileError as error:
        raise Rejected(Status.COMPILE_ERROR, str(error), error.line) from error
    for plan in assembled:
        _require_that_blocks_fit(plan, architecture)
    return assembled


def _language(lab: Lab, plans: Sequence[Plan]) -> str:
    used = {language_of(kernel) for plan in plans for kernel in plan.kernels.values()}
    refused = used - lab.languages
    if refused:
        allowed = " or ".join(sorted(lab.languages))
        found = next(k for plan in plans for k in plan.kernels.values() if language_of(k) in refused)
        raise Rejected(
            Status.WRONG_LANGUAGE,
            f"Kernel {found.name} is written in {language_of(found)}; this lab asks for {allowed}.",
            found.line,
        )
    return " + ".join(language for language in Language if language in used)


def _require_that_memory_suffices(plan: Plan) -> None:
    needed = device_bytes(plan)
    if needed > SMALL_MEMORY:
        allowed = f"{SMALL_MEMORY >> 30} GiB are allowed, many times what its arrays take"
        raise Rejected(
            Status.RESOURCES, f"The kernels need {needed / 2**30:.3g} GiB of device memory for a small case; {allowed}."
        )


def _require_that_blocks_fit(plan: Plan, architecture: str) -> None:
    """A GPU refuses a launch whose block needs more registers than an SM has; so does the judge without one."""
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        if _occupancy(kernel, launch, architecture).blocks == 0:
            raise Rejected(
                Status.LAUNCH_ERROR,
                f"A block of {math.prod(launch.block)} threads of {kernel.name} does not fit on an SM: each thread "
                f"takes {kernel.cubins[architecture].registers} registers. Use smaller blocks, or fewer registers.",
                launch.line,
            )


def _figures(plan: Plan, architecture: str) -> tuple[KernelFigures, ...]:
    """What the assembler says of each kernel that the plan launches, at its first launch."""
    figures: dict[str, KernelFigures] = {}
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        cubin = kernel.cubins[architecture]
        figures.setdefault(
            launch.kernel,
            KernelFigures(
                clean(kernel.name),
                kernel.line,
                cubin.registers,
                cubin.spill_stores + cubin.spill_loads,
                cubin.static_shared + launch.shared_bytes,
                _occupancy(kernel, launch, architecture).fraction,
            ),
        )
    return tuple(figures.values())


def _occupancy(kernel: Kernel, launch: Launch, architecture: str) -> Occupancy:
    cubin = kernel.cubins[architecture]
    threads = math.prod(launch.block)
    return occupancy(architecture, threads, cubin.registers, cubin.static_shared, launch.shared_bytes)
