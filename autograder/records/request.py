"""What is to be graded, on which machine, and the cases that this takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.records.machine import Machine
from autograder.records.status import Executor
from autograder.spec.lab import AnyLab, Lab
from autograder.spec.task import Case


@dataclass(frozen=True)
class Request:
    """One submission to grade. `seed` None draws a secret one; `quick` leaves the hidden cases out; `second_opinion`
    asks compute-sanitizer too, where kernels run on a GPU."""

    lab: AnyLab
    source: Path
    machine: Machine
    seed: int | None = None
    quick: bool = False
    second_opinion: bool = False

    @property
    def kernels(self) -> Lab:
        """The lab, one that asks for kernels: all below is about these. Raises TypeError for another one."""
        if not isinstance(self.lab, Lab):
            raise TypeError(f"{self.lab.name} does not ask for kernels")
        return self.lab

    @property
    def has_gpu(self) -> bool:
        """Whether kernels run on a GPU, so that efficiency is measured."""
        return self.machine.device is Executor.GPU

    def correctness_cases(self) -> list[Case]:
        """The correctness cases that this machine can run."""
        return [case for case in self._wanted() if self.has_gpu or not case.needs_gpu]

    def skipped_cases(self) -> list[Case]:
        """The correctness cases that only a GPU could run, where there is none."""
        return [case for case in self._wanted() if case.needs_gpu and not self.has_gpu]

    def emulated_cases(self) -> list[Case]:
        """The cases that the emulator runs on every machine: small ones, and the profile case last."""
        profile = self.kernels.task.profile
        small = [case for case in self._wanted() if not case.needs_gpu and case.name != profile.name]
        return [*small, profile]

    def captured_cases(self) -> list[Case]:
        """Every case that needs a plan, each once; the timed one even where nothing is timed, for its kernels must be
        those that are judged."""
        cases = [*self.correctness_cases(), self.kernels.task.profile, self.kernels.task.timing]
        return list({case.name: case for case in cases}.values())

    def _wanted(self) -> list[Case]:
        return [case for case in self.kernels.task.correctness if not (self.quick and case.hidden)]


OnProgress = Callable[[str, float], None]  # what is being done, and the fraction that is done
