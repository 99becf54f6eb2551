"""Grades for the panel, one after the other, in confined workers that stay warm as long as the server runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from autograder import own_history
from autograder.judge.capture_stage import capture_cases, read_submission
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.judge.runner import Runner
from autograder.panel.target import GRADE, LIVE, Target
from autograder.records.machine import Machine, choose_machine
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.text import clean
from autograder.spec.lab import find_lab
from autograder.spec.seeds import secret_seed
from warplab.errors import WarplabError
from warplab.files import write_whole
from warplab.plan.capture.several_process import CaptureProcesses
from warplab.worker.process import WorkerError

_PAGE = "autograder.worker.microscope_stage:page"
_PAGE_SECONDS = 120.0  # of a lab's profile case; it takes 1 s once the worker is warm


class NoPage(WarplabError):
    """The submission's kernels give nothing to show."""


class Grader:
    """Used by one thread at a time, except for `close`."""

    def __init__(self) -> None:
        self._workers: dict[Machine, ConfinedWorker] = {}
        self._captured_in = CaptureProcesses()
        self._folder = tempfile.TemporaryDirectory(prefix="warplab-panel-")

    def grade(self, target: Target, way: str, progress: Callable[[str, float], None]) -> Report:
        """CHECK leaves out the hidden cases, GRADE is a grade of the learner's history, LIVE is a check without a GPU.

        Raises DeviceError, OSError.
        """
        source = self._written(target)
        machine = choose_machine("emulator" if way == LIVE else "auto", target.lab.oldest, own=True)
        process = self._captured_in.for_text(target.text)
        request = Request(target.lab, source, machine, quick=way != GRADE, captured_in=process)
        report = grade(request, self._worker(machine), progress)
        if way == GRADE and target.kept:
            own_history.keep(report)
        return report

    def microscope(self, target: Target) -> str:
        """The HTML of the microscope's page for the profile case; a submission's worker may have written anything.

        Raises LabError for a lab without kernels, Rejected, JudgeError, NoPage, DeviceError, OSError.
        """
        lab, seed = find_lab(target.lab.name), secret_seed()
        drawn, machine = lab.drawn(seed), choose_machine("emulator", lab.needs, own=True)
        submission = read_submission(self._written(target), captured_in=self._captured_in.for_text(target.text))
        worker = self._worker(machine)
        runner = Runner(worker, drawn, seed)
        runner.warm_up()
        case, architecture = drawn.task.profile, machine.architecture
        answers = capture_cases(drawn, submission, [case], seed, architecture, machine.isolation)
        prepared = runner.prepare(submission, answers, architecture)
        runner.warm_up(prepared.parts)
        try:
            plan = prepared.plans[case.name]
            answer = worker.call(_PAGE, timeout=_PAGE_SECONDS, plan=plan, task=str(lab.folder), seed=seed)
        except WorkerError as error:
            raise NoPage(f"The microscope shows nothing: {clean(str(error))}. Check the submission first.") from None
        return str(answer)

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._captured_in.close()
        self._folder.cleanup()

    def _written(self, target: Target) -> Path:
        source = Path(self._folder.name) / target.name
        write_whole(source, target.text)
        return source

    def _worker(self, machine: Machine) -> ConfinedWorker:
        if machine not in self._workers:
            self._workers[machine] = ConfinedWorker(machine, own=True)
        return self._workers[machine]
