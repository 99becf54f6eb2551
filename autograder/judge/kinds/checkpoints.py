"""Labs that ask for plans of checkpoints, with which PyTorch trains a step where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from autograder.judge.kinds.lab_kind import Grading
from autograder.judge.kinds.records import RecordKind
from autograder.judge.on_torch import trained
from autograder.judge.ruling import Ruling
from autograder.spec.checkpoints import CheckpointTask


class Checkpoints(RecordKind[CheckpointTask]):
    """Functions that return which operators' results are kept."""

    task = CheckpointTask
    extras: ClassVar = ("torch",)
    advice: ClassVar = "Take the smallest case that fails, write its table down and mark what is kept."

    def carried_out(self, grading: Grading[CheckpointTask], to_run: Mapping[str, bytes]) -> Ruling:
        """The worker trains a step with each plan."""
        return trained(grading.lab.task, grading.runner, to_run)
