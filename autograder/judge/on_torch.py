"""Has the worker train a step with what was planned, and compares: gradients, memory and FLOP, all deterministic.

A right plan leaves nothing open: each operator's result is kept or made again by the same code. So a step that counts
another number, or ends with another gradient, is a fault of the judge and not of the submission.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from autograder.judge.runner import JudgeError, Runner
from autograder.records.report import PartResult
from autograder.records.status import Part, Status
from autograder.records.trained import TrainedStep
from autograder.spec.checkpoints import CheckpointTask, planned


def trained_part(
    task: CheckpointTask, runner: Runner, to_run: Mapping[str, bytes], points: float, feedback: str
) -> PartResult:
    """Full points if every plan, by case, was carried out as it says; none, and no full marks, without PyTorch.

    Raises JudgeError where a step does not end as it must.
    """
    if set(to_run) != {case.name for _, case in task.cases() if case.run}:
        raise JudgeError("the worker gave other plans to be carried out than it was to")
    trained = runner.carry_out_plans(to_run)
    if not trained.torch:
        words = "Not judged: training steps need PyTorch, which is not installed here (make torch)."
        return PartResult(Part.SAFETY, Status.NEEDS_TORCH, 0.0, points, words, feedback)
    if [step.case for step in trained.steps] != list(to_run):
        raise JudgeError("the worker trained other plans than it was given")
    for step in trained.steps:
        _compare(task, step, to_run[step.case], trained.torch)
    peaks = ", ".join(f"{step.peak:,} bytes" for step in trained.steps)
    words = (
        f"{len(trained.steps)} plans, carried out by PyTorch {trained.torch}, gave every gradient the same bits and "
        f"counted what was planned: peaks above a full checkpoint's of {peaks}."
    )
    return PartResult(Part.SAFETY, Status.PASSED, points, points, words, feedback)


def _compare(task: CheckpointTask, step: TrainedStep, content: bytes, version: str) -> None:
    asked, case = task.case(step.case)
    table = asked.table(case.dimensions)
    try:
        names = msgspec.json.decode(content, type=list[list[str]])
    except msgspec.MsgspecError as error:
        raise JudgeError(f"the worker gave no plan for the case {step.case!r}: {error}") from error
    made = planned([one for one in table if one.block < len(names) and one.name in names[one.block]], table)
    last = max(one.block for one in table)
    peak = sum(one.bytes for one in made.kept if one.block != last)
    if not step.same:
        raise JudgeError(f"PyTorch {version} ends the case {step.case!r} with other gradients than without a plan")
    if (step.kept, step.peak, step.again) != (made.bytes, peak, made.flops):
        raise JudgeError(
            f"PyTorch {version} counts {step.kept:,} bytes kept, {step.peak:,} at the peak and {step.again:,} FLOP in "
            f"the case {step.case!r}, where {made.bytes:,}, {peak:,} and {made.flops:,} were planned"
        )
