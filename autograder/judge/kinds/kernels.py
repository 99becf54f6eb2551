"""Labs that ask for kernels: captured as plans, run on the emulator and the GPU, and timed."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import ClassVar

from autograder.judge.capture_stage import capture_cases
from autograder.judge.correctness import WRONG_SOMEWHERE, clean_stages, correctness_part, located
from autograder.judge.kernel_parts import kernel_safety, kernel_traffic, missing_tensor_work
from autograder.judge.kinds.lab_kind import Grading, LabKind
from autograder.judge.second_opinion import second_opinions
from autograder.judge.timed import Measure, mean_of, timed_part
from autograder.records.measurement import Measurement, Unmeasured
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Prepared
from autograder.records.rejection import Rejected
from autograder.records.report import PartResult, Report
from autograder.records.request import Request
from autograder.records.status import Executor, Status
from autograder.report import build
from autograder.spec.task import Case, Task
from warplab.interrupts import ends_threads


@dataclass
class Outcomes:
    """What running the plans gave, per executor, in the order of the cases; the profile case is the last emulated.

    `request` names the machine that ran them, where the GPU did not take the submission.
    """

    request: Request
    captured: Prepared
    emulated: list[CaseOutcome] = field(default_factory=list)
    on_gpu: list[CaseOutcome] = field(default_factory=list)


class Kernels(LabKind[Task, Outcomes]):
    """Host functions that launch kernels."""

    task = Task
    compiled: ClassVar = True

    def run(self, grading: Grading[Task]) -> Outcomes:
        """Capture every case, assemble, and run on the emulator and, if there is one, the GPU."""
        has_gpu = grading.request.has_gpu
        # What holds the GPU takes seconds to get ready: the emulator is through with its cases meanwhile
        with ThreadPoolExecutor(1) if has_gpu else nullcontext() as beside, ends_threads():
            gpu = beside.submit(grading.runner.warm_up_gpu) if beside else None
            request, captured = _captured_somewhere(grading)
            if captured.parts:
                grading.runner.warm_up(captured.parts)
            outcomes = Outcomes(request, captured)
            _run_cases(grading, outcomes, gpu)
        return outcomes

    def judge(self, grading: Grading[Task], evidence: Outcomes) -> tuple[PartResult, ...]:
        """Correctness of all cases, findings, counters of the profile case, and the time if there is a GPU."""
        lab, request, runner = grading.lab, evidence.request, grading.runner
        names = {case.name for case in correctness_cases(request, lab.task)}
        outcomes, profile = [*evidence.emulated, *evidence.on_gpu], evidence.emulated[-1]
        answers = located(evidence.on_gpu, evidence.emulated) or [
            outcome for outcome in evidence.emulated if outcome.case in names
        ]
        skipped = skipped_cases(request, lab.task)
        correctness = correctness_part(lab, answers, skipped, clean_stages(lab, profile, outcomes))
        right = correctness.status is Status.PASSED
        plans, others = evidence.captured.plans, evidence.captured.others
        safety = kernel_safety(lab, outcomes, right)
        safe = not right or safety.status is Status.PASSED  # of a wrong one it is not said that it is unsafe, too
        missing = missing_tensor_work(lab, profile)
        traffic = kernel_traffic(lab, profile, right, others, safe=safe, missing=missing)
        grading.progress("timing" if request.has_gpu else "judging", 0.85)
        measure: Measure | None = None
        if request.has_gpu:

            def measure() -> Measurement | Unmeasured:
                return mean_of([runner.efficiency(plans[name], name) for name in lab.task.timed_cases])

        return (
            correctness,
            safety,
            traffic,
            timed_part(lab, measure, right, others, request.machine.hardware, safe=safe, missing=missing),
        )

    def report(self, grading: Grading[Task], evidence: Outcomes, parts: tuple[PartResult, ...]) -> Report:
        """With the kernels' figures and counters, and a second opinion if one was asked for."""
        request, lab, captured = evidence.request, grading.lab, evidence.captured
        missing = missing_tensor_work(lab, evidence.emulated[-1])
        made = build.judged_kernels(request, lab, grading.submission.text, captured, parts, evidence.emulated, missing)
        if request.second_opinion and request.has_gpu:
            grading.progress("asking compute-sanitizer", 0.95)
            cases = emulated_cases(request, lab.task)
            said = second_opinions(lab.task, cases, evidence.emulated, captured.plans, grading.seed)
            made = replace(made, second_opinions=said)
        return made


def correctness_cases(request: Request, task: Task) -> list[Case]:
    """The correctness cases that the request's machine can run."""
    return [case for case in _wanted(request, task) if request.has_gpu or not case.needs_gpu]


def skipped_cases(request: Request, task: Task) -> list[Case]:
    """The correctness cases that only a GPU could run, where there is none."""
    return [case for case in _wanted(request, task) if case.needs_gpu and not request.has_gpu]


def emulated_cases(request: Request, task: Task) -> list[Case]:
    """The cases that the emulator runs on every machine: small ones, and the profile case last."""
    small = [case for case in _wanted(request, task) if not case.needs_gpu and case.name != task.profile.name]
    return [*small, task.profile]


def _captured_cases(request: Request, task: Task) -> list[Case]:
    """Every case that needs a plan, each once; the timed one even where nothing is timed, for its kernels must be those
    that are judged."""
    cases = [*correctness_cases(request, task), task.profile, task.timing]
    return list({case.name: case for case in cases}.values())


def _wanted(request: Request, task: Task) -> list[Case]:
    return [case for case in task.correctness if not (request.quick and case.hidden)]


def _captured_somewhere(grading: Grading[Task]) -> tuple[Request, Prepared]:
    """The submission as plans, for the request's machine or for the one that stands by. Raises Rejected."""
    request = grading.request
    try:
        return request, _captured(grading, request)
    except Rejected as refused:
        if request.machine.instead is None:
            raise
        request = replace(request, machine=request.machine.instead.after(str(refused)))
        try:
            return request, _captured(grading, request)
        except Rejected:  # it is not for want of another GPU
            raise refused from None


def _captured(grading: Grading[Task], request: Request) -> Prepared:
    """The submission as plans, assembled for the request's machine. Raises Rejected if it is at fault, or asks for
    what that machine does not have."""
    machine, lab, runner = request.machine, grading.lab, grading.runner
    grading.progress("capturing", 0.0)
    cases, where = _captured_cases(request, lab.task), (machine.architecture, machine.isolation)
    if request.crowded:
        answers = capture_cases(lab, grading.submission, cases, grading.seed, *where)
        runner.warm_up()
        return runner.prepare(grading.submission, answers, machine.architecture)
    with ThreadPoolExecutor(1) as beside, ends_threads():  # a capture waits for compilers that use one core
        emulator = beside.submit(runner.warm_up)
        answers = capture_cases(lab, grading.submission, cases, grading.seed, *where)
        grading.progress("loading the emulator (its first use compiles it)", 0.1)
        emulator.result()
    grading.progress("assembling", 0.12)
    return runner.prepare(grading.submission, answers, machine.architecture)


def _run_cases(grading: Grading[Task], outcomes: Outcomes, gpu: Future[None] | None) -> None:
    request, task, plans = outcomes.request, grading.lab.task, outcomes.captured.plans
    progress = grading.progress
    on_gpu = correctness_cases(request, task) if request.has_gpu else []
    emulated = emulated_cases(request, task)
    # The emulator first: what never ends would keep a GPU from all who share it, until its time limit
    work = (Executor.EMULATOR, emulated, outcomes.emulated), (Executor.GPU, on_gpu, outcomes.on_gpu)
    count = sum(len(cases) for _, cases, _ in work)
    endless = False
    for device, cases, found in work:
        if device is Executor.GPU and gpu and cases:
            progress("getting the GPU ready (its first use compiles)", 0.15 + 0.7 * len(outcomes.emulated) / count)
            gpu.result()
        wrong = {outcome.case: outcome for outcome in outcomes.emulated if outcome.status in WRONG_SOMEWHERE}
        shown = [case.name for case in cases if not (case.hidden or case.needs_gpu) and case != task.profile]
        running = grading.runner.cases(device, {case.name: plans[case.name] for case in cases}, wrong, shown)
        for case in cases:
            done = len(outcomes.emulated) + len(outcomes.on_gpu)
            progress(f"running on the {device}", 0.15 + 0.7 * done / count)
            if endless:  # each further case would cost its whole time limit again
                words = "Not run, because an earlier case never ended."
                found.append(CaseOutcome(case.name, Status.ENDLESS, words))
                continue
            found.append(next(running))
            endless = found[-1].status is Status.ENDLESS
        running.close()  # it may hold a turn
