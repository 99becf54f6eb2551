"""What is to be graded, and on which machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.records.machine import Machine
from autograder.records.status import Executor
from autograder.spec.lab import AnyLab
from warplab.plan.capture.several_process import CaptureProcess


@dataclass(frozen=True)
class Request:
    """One submission to grade. `seed` None draws a secret one; `quick` leaves the hidden cases out; `second_opinion`
    asks compute-sanitizer too, where kernels run on a GPU. `crowded` says that others keep the processors busy: then
    nothing is begun before it is known to be needed. `captured_in` is a process that captures of one's own submissions
    are forked from, one after the other."""

    lab: AnyLab
    source: Path
    machine: Machine
    seed: int | None = None
    quick: bool = False
    second_opinion: bool = False
    crowded: bool = False
    captured_in: CaptureProcess | None = None

    @property
    def has_gpu(self) -> bool:
        """Whether kernels run on a GPU, so that efficiency is measured."""
        return self.machine.device is Executor.GPU


OnProgress = Callable[[str, float], None]  # what is being done, and the fraction that is done
