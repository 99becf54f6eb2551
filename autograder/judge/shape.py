"""Asks for the compiled form of a submission: captured in a sandbox, read in a confined worker."""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.judge.capture_stage import Submission, capture_cases
from autograder.judge.runner import PREPARE_SECONDS, Caller
from autograder.records.machine import Machine
from autograder.records.rejection import Rejected
from autograder.records.shape import Shape
from autograder.records.text import clean
from autograder.spec.lab import Lab
from warplab.errors import WarplabError
from warplab.worker.process import WorkerError

_TARGET = "autograder.worker.shape_stage:shape"


class NoShape(WarplabError):
    """A submission has no compiled form; the sentence says why."""


def shape_of(lab: Lab, submission: Submission, seed: int, machine: Machine, worker: Caller) -> Shape:
    """The compiled form of `submission` on the lab's profile case. Raises NoShape."""
    drawn = lab.drawn(seed)
    try:
        (answer,) = capture_cases(
            drawn, submission, [drawn.task.profile], seed, machine.architecture, machine.isolation
        )
        found: Any = worker.call(
            _TARGET, timeout=PREPARE_SECONDS, task=str(lab.folder.resolve()), name=submission.name,
            text=submission.text, seed=seed, architecture=machine.architecture, content=answer.content,
        )  # fmt: skip
        if isinstance(found, dict) and isinstance(found.get("refused"), str):
            raise NoShape(clean(found["refused"]))
        return Shape.from_wire(found)
    except (Rejected, WorkerError) as error:
        raise NoShape(clean(str(error))) from None
    except msgspec.ValidationError:
        raise NoShape("Its worker gave no usable answer.") from None
