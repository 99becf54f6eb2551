"""Labs that ask for the order of a pipeline's passes, in which processes train a small model."""

from __future__ import annotations

from collections.abc import Mapping

from autograder.judge import on_processes
from autograder.judge.kinds.lab_kind import Grading
from autograder.judge.kinds.records import RecordKind
from autograder.judge.ruling import Ruling
from autograder.spec.pipelines import PipelineTask


class Pipelines(RecordKind[PipelineTask]):
    """Functions that return the order of every rank's passes."""

    task = PipelineTask

    def carried_out(self, grading: Grading[PipelineTask], to_run: Mapping[str, bytes]) -> Ruling:
        """Processes train layers in these orders."""
        return on_processes.carried_out(on_processes.passes, to_run, grading.seed)
