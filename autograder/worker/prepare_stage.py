"""Reads what a capture answered, in a worker: decodes and checks the plans, assembles them, describes their kernels.

All of it reads a stranger's bytes, and runs ptxas on them; so a sandboxed worker does it, not the judge. What goes back
are plans as files, which the judge hands on without a look, and a few facts that it checks for their form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder.records.prepared import Answer
from autograder.records.rejection import Rejected, rejected, without_details
from autograder.records.report import KernelFigures
from autograder.records.status import Status
from autograder.records.text import clean
from autograder.spec.inputs import host_calls
from autograder.spec.lab import Lab, load_lab
from autograder.spec.task import Case
from autograder.worker.emulator_stage import parts_needed
from autograder.worker.module_variables import device_bytes
from autograder.worker.rules import uses_tensor_cores
from autograder.worker.same_kernels import other_kernels
from warplab.errors import CompileError, PlanError
from warplab.plan.archive import dumps
from warplab.plan.assemble import Budget, assemble
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.protocol import Request, decode_response
from warplab.plan.disassembler import read_ahead
from warplab.plan.language import language_of
from warplab.plan.model import Kernel, Language, Launch, Plan
from warplab.plan.occupancy import Occupancy, occupancy

_AHEAD = 16  # images whose machine code is read here; the submissions of the course have nine at most
SMALL_MEMORY = 1 << 30  # bytes of device memory that a case for the emulator may take


@dataclass(frozen=True)
class Captured:
    """A captured submission: one plan a case (same order as asked for), its language and its kernels' figures."""

    plans: dict[str, Plan]
    language: str
    kernels: tuple[KernelFigures, ...]
    others: str = ""  # why other kernels are timed than are judged, if so


def prepare(
    task: str, name: str, text: str, seed: int, architecture: str, answers: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """In the worker: what `prepare_here` makes of the lab in the folder `task`, its sizes drawn from the seed.

    Gives what `Prepared.from_wire` takes.

    `answers` are those of `Answer`, as dicts."""
    lab = load_lab(Path(task)).drawn(seed)
    cases = [lab.case(case) for answer in answers for case in answer["cases"]]
    given = [Answer(tuple(a["cases"]), a["content"], a["hidden"]) for a in answers]
    try:
        captured = prepare_here(lab, cases, name, text, given, seed, architecture)
    except Rejected as rejection:
        return rejection.to_wire()
    _read_machine_code(captured.plans.values())
    return {
        "plans": {case: dumps(plan) for case, plan in captured.plans.items()},
        "language": captured.language,
        "kernels": [asdict(kernel) for kernel in captured.kernels],
        "parts": parts_needed(captured.plans.values()),
        "others": captured.others,
    }


def prepare_here(
    lab: Lab, cases: Sequence[Case], name: str, text: str, answers: Sequence[Answer], seed: int, architecture: str
) -> Captured:
    """The captured submission in the answers of its capture processes, assembled for `architecture`.

    `cases` are those that were captured, `name` is what its file is called, `text` what it holds. Raises Rejected
    if the submission is at fault.
    """
    plans: dict[str, Plan] = {}
    budget = Budget()
    named = {case.name: case for case in cases}
    for answer in sorted(answers, key=lambda answer: answer.hidden):
        group = [named[case] for case in answer.cases]
        try:
            plans |= _plans(lab, name, text, group, answer.content, seed, architecture, budget)
        except Rejected as rejection:
            # What the host code says of a hidden size is asked for in a process of its own, and not repeated.
            raise (without_details(rejection) if answer.hidden else rejection) from rejection
    return Captured(
        {case.name: plans[case.name] for case in cases},
        _language(lab, list(plans.values())),
        _figures(plans[lab.task.profile.name], architecture),
        _others(lab, cases, plans),
    )


def _read_machine_code(plans: Iterable[Plan]) -> None:
    """Read the machine code of all kernels side by side, for the emulator that runs here next.

    Half a second each, whatever its size, and a case has one kernel: one after the other they would take longer."""
    kernels = [kernel for plan in plans for kernel in plan.kernels.values()]
    images = dict.fromkeys(cubin.image for kernel in kernels for cubin in kernel.cubins.values())
    read_ahead(list(images)[:_AHEAD])


def _others(lab: Lab, cases: Sequence[Case], plans: Mapping[str, Plan]) -> str:
    """What `same_kernels` says of the cases that one process has captured: those that are not hidden."""
    profile, timing = lab.task.profile.name, lab.task.timing.name
    if profile not in plans or timing not in plans:
        return ""
    shown = [plans[case.name] for case in cases if not case.hidden and case.name not in (profile, timing)]
    return other_kernels(plans[profile], plans[timing], shown)


def _plans(
    lab: Lab,
    name: str,
    text: str,
    cases: Sequence[Case],
    content: bytes,
    seed: int,
    architecture: str,
    budget: Budget,
) -> dict[str, Plan]:
    request = Request(text, name, tuple(host_calls(lab.task, cases, seed)), (architecture,), 0)
    try:
        plans = decode_response(content, request)
    except CaptureFailure as failure:
        raise rejected(failure) from failure
    except MemoryError:
        raise Rejected(Status.RESOURCES, "What the submission recorded takes too much memory to read.") from None
    for case, plan in zip(cases, plans, strict=True):
        if not case.needs_gpu and case.name != lab.task.timing.name:
            _require_that_memory_suffices(plan)
    return {case.name: plan for case, plan in zip(cases, _usable(lab, plans, architecture, budget), strict=True)}


def _usable(lab: Lab, plans: Sequence[Plan], architecture: str, budget: Budget) -> list[Plan]:
    """The plans, assembled. Raises Rejected if this lab or this GPU does not take them."""
    _language(lab, plans)
    for plan in plans:
        if found := uses_tensor_cores(lab.task, plan):
            raise Rejected(Status.NOT_ALLOWED, *found)
    try:
        assembled = [assemble(plan, architecture, budget) for plan in plans]
    except CompileError as error:
        raise Rejected(Status.COMPILE_ERROR, str(error), error.line, error.original) from error
    except PlanError as error:
        raise Rejected(Status.HOST_UNSUPPORTED, f"What the host code recorded cannot be run: {error}") from error
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
            blocks = math.prod(launch.grid)
            swapped = blocks <= 1024 and blocks % 32 == 0  # it would be a block's number of threads
            raise Rejected(
                Status.LAUNCH_ERROR,
                f"A block of {math.prod(launch.block)} threads of {kernel.name} does not fit on an SM: each thread "
                f"takes {kernel.cubins[architecture].registers} registers. Use smaller blocks, or fewer registers."
                + (" The number of blocks comes first, then the threads of a block." if swapped else ""),
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
