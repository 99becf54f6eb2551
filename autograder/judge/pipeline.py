"""The order of grading, written down once: capture, run, judge each part, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from autograder.judge.attacks import grade_attacks
from autograder.judge.capture_stage import Submission, capture_cases, read_submission
from autograder.judge.correctness import WRONG_SOMEWHERE, clean_stages, correctness_part, located
from autograder.judge.efficiency import Measure, efficiency_part, mean_of
from autograder.judge.runner import Caller, JudgeError, Runner
from autograder.judge.safety import safety_part
from autograder.judge.schedules import grade_schedules
from autograder.judge.second_opinion import second_opinions
from autograder.judge.traffic import traffic_part
from autograder.judge.turns import Turns
from autograder.records.measurement import Measurement, Unmeasured
from autograder.records.outcome import CaseOutcome
from autograder.records.prepared import Prepared
from autograder.records.rejection import Rejected
from autograder.records.report import PartResult, Report
from autograder.records.request import OnProgress, Request
from autograder.records.status import Executor, Status
from autograder.report import build as report
from autograder.spec.attacks import AttackTask
from autograder.spec.inputs import secret_seed
from autograder.spec.lab import ScheduleLab
from warplab.sandbox.isolation import weakest

log = logging.getLogger("autograder")


@dataclass
class Outcomes:
    """What running the plans gave, per executor, in the order of the cases; the profile case is the last emulated."""

    emulated: list[CaseOutcome] = field(default_factory=list)
    on_gpu: list[CaseOutcome] = field(default_factory=list)


def _silent(what: str, fraction: float) -> None:
    """Say nothing."""


def grade(request: Request, worker: Caller, progress: OnProgress = _silent, turns: Turns | None = None) -> Report:
    """Grade one submission, taking `turns` on the GPUs that others use too.

    Never raises for what a submission or the judge does: the report's status says it."""
    start = time.perf_counter()
    text = ""
    try:
        submission = read_submission(request.source)
        text = submission.text
        graded = _grade(request, submission, worker, progress, turns)
    except Rejected as rejection:
        graded = report.rejected(request, text, rejection)
    except Exception as error:  # a fault of ours must not become the student's zero, nor end a batch
        if not isinstance(error, JudgeError):
            log.error("grading %s failed", request.source, exc_info=True)
        graded = report.not_judged(request, text, error)
    progress("done", 1.0)
    kept_in = getattr(worker, "isolation", None) or graded.isolation  # none if it came to no kernels
    return replace(graded, seconds=time.perf_counter() - start, isolation=weakest(graded.isolation, kept_in))


def _grade(
    request: Request, submission: Submission, worker: Caller, progress: OnProgress, turns: Turns | None
) -> Report:
    seed = secret_seed() if request.seed is None else request.seed
    drawn = request.lab.drawn(seed)
    request = replace(request, lab=drawn)
    if isinstance(drawn, ScheduleLab) and isinstance(drawn.task, AttackTask):
        return grade_attacks(request, drawn, drawn.task, submission, worker, seed, progress)
    if isinstance(drawn, ScheduleLab):
        return grade_schedules(request, drawn, submission, worker, seed, progress, turns)
    runner = Runner(worker, request.kernels, seed, turns)
    # What holds the GPU takes seconds to get ready: the emulator is through with its cases meanwhile
    with ThreadPoolExecutor(1) as beside:
        gpu = beside.submit(runner.warm_up_gpu) if request.has_gpu else None
        return _grade_kernels(request, submission, runner, gpu, seed, progress)


def _grade_kernels(
    request: Request, submission: Submission, runner: Runner, gpu: Future[None] | None, seed: int, progress: OnProgress
) -> Report:
    try:
        captured = _captured(request, submission, runner, seed, progress)
    except Rejected as refused:
        if request.machine.instead is None:
            raise
        request = replace(request, machine=request.machine.instead.after(str(refused)))
        try:
            captured = _captured(request, submission, runner, seed, progress)
        except Rejected:  # it is not for want of another GPU
            raise refused from None
    if captured.parts:
        runner.warm_up(captured.parts)
    evidence = _run_cases(request, runner, gpu, captured.plans, progress)
    parts = _judge_parts(request, runner, captured.plans, evidence, captured.others, progress)
    graded = report.judged(request, submission.text, captured, parts, evidence.emulated[-1])
    if request.second_opinion and request.has_gpu:
        progress("asking compute-sanitizer", 0.95)
        cases = request.emulated_cases()
        said = second_opinions(request.kernels.task, cases, evidence.emulated, captured.plans, seed)
        graded = replace(graded, second_opinions=said)
    return graded


def _captured(request: Request, submission: Submission, runner: Runner, seed: int, progress: OnProgress) -> Prepared:
    """The submission as plans, assembled for the request's machine. Raises Rejected if it is at fault, or asks for
    what that machine does not have."""
    machine = request.machine
    progress("capturing", 0.0)
    with ThreadPoolExecutor(1) as beside:  # a capture waits for compilers that use one core
        emulator = beside.submit(runner.warm_up)
        answers = capture_cases(
            request.kernels, submission, request.captured_cases(), seed, machine.architecture, machine.isolation
        )
        progress("loading the emulator (its first use compiles it)", 0.1)
        emulator.result()
    progress("assembling", 0.12)
    return runner.prepare(submission, answers, machine.architecture)


def _run_cases(
    request: Request, runner: Runner, gpu: Future[None] | None, plans: Mapping[str, bytes], progress: OnProgress
) -> Outcomes:
    evidence = Outcomes()
    on_gpu = request.correctness_cases() if request.has_gpu else []
    # The emulator first: what never ends would keep a GPU from all who share it, until its time limit
    work = (Executor.EMULATOR, request.emulated_cases(), evidence.emulated), (Executor.GPU, on_gpu, evidence.on_gpu)
    count = sum(len(cases) for _, cases, _ in work)
    endless = False
    for device, cases, outcomes in work:
        if device is Executor.GPU and gpu and cases:
            progress("getting the GPU ready (its first use compiles)", 0.15 + 0.7 * len(evidence.emulated) / count)
            gpu.result()
        wrong = {outcome.case: outcome for outcome in evidence.emulated if outcome.status in WRONG_SOMEWHERE}
        running = runner.cases(device, {case.name: plans[case.name] for case in cases}, wrong)
        for case in cases:
            done = len(evidence.emulated) + len(evidence.on_gpu)
            progress(f"running on the {device}", 0.15 + 0.7 * done / count)
            if endless:  # each further case would cost its whole time limit again
                words = "Not run, because an earlier case never ended."
                outcomes.append(CaseOutcome(case.name, Status.ENDLESS, words))
                continue
            outcomes.append(next(running))
            endless = outcomes[-1].status is Status.ENDLESS
        running.close()  # it may hold a turn
    return evidence


def _judge_parts(
    request: Request,
    runner: Runner,
    plans: Mapping[str, bytes],
    evidence: Outcomes,
    others: str,
    progress: OnProgress,
) -> tuple[PartResult, ...]:
    lab = request.kernels
    names = {case.name for case in request.correctness_cases()}
    answers = located(evidence.on_gpu, evidence.emulated) or [
        outcome for outcome in evidence.emulated if outcome.case in names
    ]
    stages = clean_stages(lab, evidence.emulated[-1], [*evidence.emulated, *evidence.on_gpu])
    correctness = correctness_part(lab, answers, request.skipped_cases(), stages)
    right = correctness.status is Status.PASSED
    safety = safety_part(lab, [*evidence.emulated, *evidence.on_gpu], right)
    traffic = traffic_part(lab, evidence.emulated[-1], right, others)
    progress("timing" if request.has_gpu else "judging", 0.85)
    measure: Measure | None = None
    if request.has_gpu:

        def measure() -> Measurement | Unmeasured:
            return mean_of([runner.efficiency(plans[name], name) for name in lab.task.timed_cases])

    return correctness, safety, traffic, efficiency_part(lab, measure, right, others, request.machine.hardware)
