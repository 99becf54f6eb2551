"""Has the worker train a step with what was planned, and compares: gradients, memory and FLOP, all deterministic.

A right plan leaves nothing open: each operator's result is kept or made again by the same code. So a step that counts
another number, or ends with another gradient, is a fault of the judge and not of the submission.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from autograder.judge.ruling import Ruling
from autograder.judge.runner import JudgeError, Runner
from autograder.records.status import Status
from autograder.records.trained import Trained, TrainedStep
from autograder.spec.checkpoints import CheckpointTask, planned

_TRAIN = "autograder.worker.checkpoint_run:carry_out"


def trained(task: CheckpointTask, runner: Runner, to_run: Mapping[str, bytes]) -> Ruling:
    """Passed if every plan, by case, was carried out as it says; not judged, and no full marks, without PyTorch.

    Raises JudgeError where a step does not end as it must.
    """
    said = runner.carry_out(_TRAIN, "training a step with PyTorch", {"run": dict(to_run)}, Trained.from_wire)
    if not said.torch:
        words = "Not judged: training steps need PyTorch, which is not installed here (make torch)."
        return Ruling(Status.NEEDS_TORCH, words)
    if [step.case for step in said.steps] != list(to_run):
        raise JudgeError("the worker trained other plans than it was given")
    for step in said.steps:
        _compare(task, step, to_run[step.case], said.torch)
    peaks = ", ".join(f"{step.peak:,} bytes" for step in said.steps)
    words = (
        f"{len(said.steps)} plans, carried out by PyTorch {said.torch}, gave every gradient the same bits and "
        f"counted what was planned: peaks above a full checkpoint's of {peaks}."
    )
    return Ruling(Status.PASSED, words)


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
